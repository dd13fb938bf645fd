"""The same exchanges and the same training on ranks of PyTorch over gloo and on ranks of ferro over MPI: the same numbers."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.distributed.starting import environment, needs_mpi, slow, started

SCRIPT = Path(__file__).parent / "beside_gloo_on_ranks.py"
pytestmark = [
    pytest.mark.timeout(300),
    needs_mpi,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is absent: pip install ferro[oracle]"),
]
# The relative difference of sums, whose order is each library's own. (16-bit ones: gloo rounds after each addition.)
NEAR = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2, "trained": 1e-4}


def over_gloo(count: int, folder: Path) -> None:
    """Ranks of PyTorch, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "torch", folder],
            env={**environment(**variables, RANK=str(rank)), "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        for process in running:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0, said[-3000:]
    finally:
        for process in running:
            process.kill()


def near(name: str) -> float:
    """How far a result may be away: 0 for what moves, for whole numbers, and for extrema."""
    if name.startswith("trained"):
        return NEAR["trained"]
    words = name.split()
    return NEAR.get(words[2], 0.0) if words[1] in ("SUM", "PRODUCT", "AVG") else 0.0


@pytest.mark.parametrize("count", [2, slow(4)])
def test_numbers_are_those_of_pytorch_over_gloo(count: int, tmp_path: Path) -> None:
    over_gloo(count, tmp_path)
    status, _, error = started(SCRIPT, "ferro", str(tmp_path), options=("--nproc-per-node", str(count)))
    assert status == 0, error[-3000:]
    for rank in range(count):
        theirs, ours = (dict(np.load(tmp_path / f"{name}_{rank}.npz")) for name in ("torch", "ferro"))
        said, own = (json.loads((tmp_path / f"{name}_{rank}.json").read_text()) for name in ("torch", "ferro"))
        assert own["objects"] == said["objects"]
        assert set(own["refused"]) == set(said["refused"])
        assert len(theirs) > 400
        for name, expected in theirs.items():
            assert ours[name].dtype == expected.dtype, name
            np.testing.assert_allclose(
                ours[name].astype(float), expected.astype(float), near(name), near(name), err_msg=name
            )
