"""Where the program waits for the GPU: `set_sync_debug_mode` (sync_mode.py) has it warn, or raise.

Known are: tensors that are brought to the processor or asked for a number, conditions of the data, and the functions in `WAITS`, which
look at numbers (some of them only at certain numbers); a test finds those by the samples of all operations.
"""

from __future__ import annotations

import warnings
from typing import Any

from ferro.core.provenance import at, caller

__all__ = ["MODE", "WAITS", "waits"]

MODE = [0]
_LISTED = (
    "adaptive_avg adaptive_max attention_vjp bincount cholesky cofactors cross_entropy cross_entropy_share "
    "cross_entropy_vjp cumprod_others equal_edges fractional_max histogram index_select inv is_within lstsq "
    "masked_scatter masked_select masked_spread matrix_exp max_pool median median_dim nan_to_num nanmedian "
    "nanmedian_dim nll_pick nll_spread nonzero outer_edges picked_sum scatter_reduce solve take_rows tie_weights "
    "unique unique_consecutive unique_dim "
)
WAITS = frozenset(_LISTED.split())


def waits(what: Any) -> None:
    """Called where the program is about to wait for the GPU."""
    if MODE[0]:
        said = f"called a synchronizing CUDA operation: {what}{at(caller())}"
        if MODE[0] == 2:
            raise RuntimeError(said)
        warnings.warn(said, UserWarning, stacklevel=2)
