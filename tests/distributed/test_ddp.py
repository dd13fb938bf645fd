"""DistributedDataParallel on several ranks over MPI: options, failures, hooks, sparse gradients, uneven inputs."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from ferro import nn
from ferro.distributed import run
from tests.distributed.starting import started
from tests.distributed.test_mpi import HERE, on_ranks, ranks

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None or run.mpiexec() is None,
        reason="mpi4py is absent: pip install ferro[mpi]",
    ),
]


def test_it_is_found_where_pytorch_has_it() -> None:
    module = importlib.import_module("ferro.nn.parallel.distributed")
    assert module.DistributedDataParallel is nn.parallel.DistributedDataParallel
    assert module.__name__ == module.DistributedDataParallel.__module__


@on_ranks((2, 4), (2, 4), quick=("2-cpu", "4-cpu"))
def test_options(count: int, device: str) -> None:
    """Each function of the script states a behaviour; gradients are compared with NumPy's."""
    done = ranks(count, HERE / "ddp_options_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree on options" in done.stdout.splitlines()


@on_ranks((2, 4), (2, 4), quick=("4-cpu", "2-nccl"))
def test_hooks(count: int, device: str) -> None:
    """Likewise."""
    done = ranks(count, HERE / "ddp_hooks_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree on hooks" in done.stdout.splitlines()


@on_ranks((2, 3), (2, 3), quick=("2-cpu", "3-cpu", "2-nccl"))
def test_gradients_flow_through_exchanges(count: int, device: str) -> None:
    """As through one process that has the tensors of all: central differences in NumPy."""
    done = ranks(count, HERE / "nn_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree on gradients" in done.stdout.splitlines()


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_sums_in_order_go_on_while_the_program_does(count: int) -> None:
    """Each function of the script states a behaviour; the sums are NumPy's, bit for bit."""
    done = ranks(count, HERE / "ordered_on_ranks.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree on sums in order" in done.stdout.splitlines()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="memory is found under /proc, which is not here")
@pytest.mark.parametrize(("count", "far"), [(2, "0"), pytest.param(3, "0", marks=pytest.mark.slow), (2, "1")])
def test_memory_that_ranks_share_is_given_back(count: int, far: str) -> None:
    """With the model, with its group, with all groups. Where MPI takes the ranks for far ones there is none."""
    script, wanted = HERE / "shared_on_ranks.py", str(int(far == "0"))
    status, out, error = started(script, wanted, options=("--nproc-per-node", str(count)), MPIR_CVAR_NOLOCAL=far)
    assert status == 0, error[-3000:]
    assert f"[0] {count} ranks have given {wanted} back" in out.splitlines()


@pytest.mark.parametrize("end", [pytest.param("threading.Event().wait()", marks=pytest.mark.slow), "sys.exit(0)"])
def test_a_rank_that_does_not_come_to_share_memory_is_named(end: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, threading\n"
        "from datetime import timedelta\n"
        "import ferro, ferro.distributed as dist\n"
        "from ferro.nn.parallel import DistributedDataParallel, reducer\n"
        "def end(*arguments):\n"
        f"    {end}\n"
        "dist.init_process_group('mpi', timeout=timedelta(seconds=3))\n"
        "if dist.get_rank() == 1:\n"
        "    reducer.SharedMeans.of = end\n"
        "model = DistributedDataParallel(ferro.nn.Linear(1, 1))\n"
        "model(ferro.ones(1, 1)).sum().backward()\n"
    )
    status, _, error = started(script, options=("--nproc-per-node", "3"))
    assert status == 1
    said = "rank 1 has not come" if "Event" in end else "rank 1 has ended"
    assert re.search(f"raised DistBackendError: rank [02] has waited .* for memory for means #.* {said}", error), error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("collectives_on_ranks.py", "agree"),
        ("ddp_on_ranks.py", "train alike"),
        ("ddp_hooks_on_ranks.py", "agree on hooks"),
        ("ddp_options_on_ranks.py", "agree on options"),
        ("ordered_on_ranks.py", "agree on sums in order"),
        ("nn_on_ranks.py", "agree on gradients"),
        ("sharding_on_ranks.py", "share"),
        ("fsdp_on_ranks.py", "shard alike"),
        ("tensor_parallel_on_ranks.py", "divide layers"),
    ],
)
def test_eight_ranks(script: str, says: str) -> None:
    done = ranks(8, HERE / script)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] 8 ranks {says}" in done.stdout.splitlines()
