"""FlopCounterMode has counted nothing, and says so when it is asked to."""

from __future__ import annotations

import pytest

from ferro.utils.flop_counter import FlopCounterMode


def test_nothing_is_counted_and_counting_is_refused() -> None:
    counter = FlopCounterMode(display=False, depth=3)
    assert (counter.get_total_flops(), counter.get_flop_counts()) == (0, {})
    with (
        pytest.raises(NotImplementedError, match=r"`profiler\.profile\(record_shapes=True\)` lists the operations"),
        counter,
    ):
        pass
