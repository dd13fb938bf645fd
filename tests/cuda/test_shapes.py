"""Every kernel by hand is run on the processor with twenty shapes and more in each dtype."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda import emulated, hand, test_hand_optimisers

pytestmark = pytest.mark.usefixtures("cuda")
LEAST = 20
# A launch of these takes a whole list of parameters, whose shapes are those of SHAPES.
OF_LISTS = re.compile(r"\w+_steps|\w+_formula|count_\w+")
_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(")


def test_lists_of_parameters_have_as_many_shapes() -> None:
    assert len(set(test_hand_optimisers.SHAPES)) >= LEAST


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(emulated.COMPILER is None, reason="g++ is absent, which compiles the kernels")
def test_each_kernel_is_run_with_twenty_shapes_in_each_dtype(tmp_path: Path) -> None:
    """All tests of kernels by hand, in another process that counts."""
    place, here = tmp_path / "counts.json", Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.cuda.shape_counts", "-k", "not planted and not masks"]
    command += [str(each) for each in sorted(here.glob("test_hand_*.py"))]
    done = subprocess.run(
        command,
        env={**os.environ, "FERRO_SHAPE_COUNTS": str(place)},
        cwd=here.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    counts = {(name, dtype): number for name, dtype, number in json.loads(place.read_text())}
    few = {}
    for family, texts in hand.families().items():
        for dtype in hand.DTYPES:
            for name in {name for text in texts(dtype) for name in _KERNEL.findall(text)}:
                number = counts.get((name, dtype), 0) or counts.get((name, "any"), 0)
                if number < LEAST and not OF_LISTS.fullmatch(name):
                    few[family, name, dtype] = number
    assert not few
