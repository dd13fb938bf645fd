"""The programs of examples/ run unchanged on PyTorch and on ferro: each engine in a process of its own."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sklearn")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def side_by_side() -> ModuleType:
    """The program that compares the others, imported by its path: examples/ is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        spec = importlib.util.spec_from_file_location("side_by_side", EXAMPLES / "side_by_side.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        sys.modules.pop("curves", None)


def test_every_program_here_is_run(side_by_side):
    frame = {"curves", "side_by_side"}
    assert sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in frame) == sorted(
        side_by_side.PROGRAMS
    )


def test_every_program_runs_on_ferro_and_learns_something_finite(side_by_side):
    found = side_by_side.curves("ferro", list(side_by_side.PROGRAMS), steps=8)
    failed = {name: result["error"] for name, result in found.items() if "error" in result}
    assert not failed
    for result in found.values():
        assert result["engine"] == "ferro"
        assert len(result["losses"]) == 8 == len(set(result["losses"]))
        assert all(map(math.isfinite, result["losses"]))
