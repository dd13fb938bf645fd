"""The programs of examples/ run unchanged on PyTorch and on ferro: from one seed come the same curves, to rounding."""

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


def compare(side_by_side: ModuleType, steps: int | None, allowed: float) -> None:
    """Run every program on both engines; all that went wrong is in the one message."""
    names = list(side_by_side.PROGRAMS)
    ours = side_by_side.curves("ferro", names, steps)
    theirs = side_by_side.curves("torch", names, steps)
    wrong = []
    for name in names:
        for found, engine in ((ours[name], "ferro"), (theirs[name], "torch")):
            assert found["engine"] == engine
            if "error" in found:
                wrong.append(f"{name} on {engine}: {found['error']}")
        if "error" in ours[name] or "error" in theirs[name]:
            continue
        losses = theirs[name]["losses"]
        assert all(map(math.isfinite, losses))
        assert len(set(losses)) > 1
        if not (off := side_by_side.difference(losses, ours[name]["losses"])) <= allowed:
            wrong.append(f"{name}: off by {off:.1e} of the largest loss: {losses} in PyTorch, {ours[name]['losses']}")
    assert not wrong, "\n".join(wrong)


def test_eight_steps_from_the_same_seed_give_the_same_losses(side_by_side):
    pytest.importorskip("torch", exc_type=ImportError)
    compare(side_by_side, 8, 2e-5)


@pytest.mark.slow
def test_whole_curves_from_the_same_seed_agree(side_by_side):
    pytest.importorskip("torch", exc_type=ImportError)
    compare(side_by_side, None, 2e-2)
