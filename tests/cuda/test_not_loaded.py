"""A program of the processor loads neither CuPy nor the backend of the device, whether CuPy is installed or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What has the names of `ferro.cuda`, and what it asks for; all else of the folder is the backend.
NAMES = "amp cuda_graphs devices driver following generator loading memory_use nvml nvtx pool random streams sync_mode types waiting"
PROGRAM = """
import json, sys
import ferro
if {works}:
    model = ferro.nn.Sequential(ferro.nn.Linear(3, 4), ferro.nn.ReLU(), ferro.nn.BatchNorm1d(4))
    optimizer = ferro.optim.Adam(model.parameters())
    model(ferro.randn(5, 3)).square().mean().backward()
    optimizer.step()
    ferro.manual_seed(0)
    ferro.func.vmap(ferro.sin)(ferro.ones(2))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("works", [False, True], ids=["imported", "at work"])
def test_neither_cupy_nor_the_backend_is_loaded(works: bool, tmp_path: Path) -> None:
    for name in ("cupy", "cupyx", "cupy_backends"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it is imported')\n")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(works=works)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(done.stdout)
    assert "ferro" in loaded
    assert not [name for name in loaded if name.partition(".")[0] in ("cupy", "cupyx", "cupy_backends", "pynvml")]
    allowed = {"ferro.cuda", *[f"ferro.cuda.{name}" for name in NAMES.split()]}
    assert not {name for name in loaded if name.startswith("ferro.cuda")} - allowed


def test_the_program_would_find_cupy() -> None:
    """What the test looks for is there once the device is asked for."""
    lines = ["import sys, ferro", "from tests.cuda import stand_in", "stand_in.install()", "ferro.ones(2).to('cuda')"]
    program = "\n".join([*lines, "print('cupy' in sys.modules, 'ferro.cuda.functions' in sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True"]
