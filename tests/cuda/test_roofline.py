"""Every row of the page about kernels can be measured, and takes the launches that the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import cuda_roofline
from ferro.cuda.by_hand.launching import LAUNCHES
from tests.cuda.test_compiled import page_script

# Kernels of a call of each row, of few elements.
KERNELS = {
    "sum, mean, prod, amax, amin": {"reduce_rows": 1},
    "max and min along a dimension, argmax, argmin": {"extreme_rows": 1},
    "vector_norm": {"reduce_rows": 1},
    "softmax, log_softmax": {"softmax_rows": 1},
    "softmax, log_softmax, backward": {"softmax_vjp_rows": 1},
    "layer_norm, group_norm": {"norm_rows": 1},
    "rms_norm": {"rms_rows": 1},
    "layer_norm, group_norm, backward": {"norm_vjp_rows": 1, "channel_sums_columns": 1, "reduce_columns": 1},
    "rms_norm, backward": {"rms_vjp_rows": 1, "channel_sums_columns": 1, "reduce_columns": 1},
    "SGD with momentum, Adam, a step": {"adam_steps": 1},
    "embedding, index_select": {"gather_slices": 1},
    "rand, randn": {"draw_uniform": 1},
    "dropout, forward or backward": {"drop": 1},
}


@pytest.mark.usefixtures("cuda")
def test_rows_run_with_the_launches_of_the_page() -> None:
    script = page_script()
    assert set(cuda_roofline.ROWS) == set(script.COSTS)
    for name, make in cuda_roofline.ROWS.items():
        call = make(32, 32)
        call()
        LAUNCHES.clear()
        call()
        if name in KERNELS:
            found = {
                kernel: count for kernel, count in LAUNCHES.items() if kernel != "reduce_columns" or "norm" in name
            }
            assert set(found) <= set(KERNELS[name]), name
            assert sum(found.values()) == len(found), name
        assert LAUNCHES, name


def test_what_was_measured_stands_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script: Any = page_script()
    assert "| measured |" in script.roofline()
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"card": "a card", "date": "2026-01-01", "microseconds": {"rms_norm": 41.4}}))
    monkeypatch.setattr(script, "MEASURED", file)
    (line,) = [line for line in script.roofline().splitlines() if line.startswith("| rms_norm |")]
    assert line.endswith("| 1 | 41 us |")
