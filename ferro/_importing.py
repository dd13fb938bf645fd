"""While ferro is imported the cycle collector rests: it would go through all that has just been made, and find nothing.

That took a quarter of the time. The limits are raised, not the collector switched off: if an import fails midway, all
that is left of it is a collector that looks more rarely. At the end all that was made counts as old, as if the
collector had been through it.
"""

from __future__ import annotations

import gc

_BEFORE = gc.get_threshold()
gc.set_threshold(max(_BEFORE[0], 500_000) if _BEFORE[0] else 0, *_BEFORE[1:])  # (0: it is off, and stays so)


def done() -> None:
    """All is imported."""
    if gc.get_freeze_count() == 0:  # (otherwise what somebody else has frozen would thaw)
        gc.freeze()
        gc.unfreeze()
    gc.set_threshold(*_BEFORE)
