"""Several ranks over MPI, started by ferro.distributed.run: exchanges, sums in order, and how a failure ends."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ferro import cuda
from ferro.distributed import run
from tests.cuda import emulated
from tests.distributed.placing import IS_GPU
from tests.distributed.starting import environment

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None or run.mpiexec() is None,
        reason="mpi4py is absent: pip install ferro[mpi]",
    ),
]


def on_ranks(mpi: Sequence[int], nccl: Sequence[int], quick: Sequence[str] = ("2-cpu", "4-cpu", "2-nccl")) -> Any:
    """Parametrises `count` and `device`: ranks over MPI, and over NCCL on GPUs, those of the stand-in unless FERRO_TEST_CUDA=1.

    `make test` runs the `quick` ones: most of the time Python starts, and the stand-in emulates kernels.
    """
    named = {f"{n}-cpu": (n, "cpu") for n in mpi} | {f"{n}-nccl": (n, "cuda") for n in nccl}
    assert set(quick) <= set(named)
    marks = {name: () if name in quick else pytest.mark.slow for name in named}
    return pytest.mark.parametrize(
        ("count", "device"), [pytest.param(*of, id=name, marks=marks[name]) for name, of in named.items()]
    )


def needs_gpus(count: int) -> None:
    """Skips where there are too few GPUs for so many ranks, or where the stand-in cannot compile."""
    if IS_GPU and cuda.device_count() < count:
        pytest.skip(f"{count} ranks need as many GPUs, and there are {cuda.device_count()}")
    if not IS_GPU and emulated.COMPILER is None:
        pytest.skip("g++ is absent, which compiles the kernels that the stand-in runs")


def ranks(count: int, script: Path, *arguments: str, device: str = "cpu") -> subprocess.CompletedProcess[str]:
    """What so many ranks of a script print."""
    if device == "cuda":
        needs_gpus(count)
    return subprocess.run(
        [sys.executable, "-m", "ferro.distributed.run", "--nproc-per-node", str(count), str(script), *arguments],
        capture_output=True,
        text=True,
        env=environment(FERRO_TEST_DEVICE=device),
        timeout=240,
        check=False,
    )


@on_ranks((1, 2, 3, 4), (1, 2, 3, 4))
def test_every_exchange_gives_what_numpy_says(count: int, device: str) -> None:
    done = ranks(count, HERE / "collectives_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree" in done.stdout.splitlines()  # (MPI itself may say something besides)


@on_ranks((1, 2, 3, 4), (1, 2, 3, 4))
def test_data_parallel_training_is_that_of_one_process(count: int, device: str) -> None:
    """With sums in the order of the ranks, bit for bit: 4 ranks as one with 4 parts of a batch."""
    done = ranks(count, HERE / "ddp_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks train alike" in done.stdout.splitlines()


def test_lines_begin_with_the_rank_and_arguments_arrive(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['RANK'], os.environ['WORLD_SIZE'])\nprint('no end', end='')\n"
    )
    done = ranks(2, script, "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        [line for r in "01" for line in (f"[{r}] ['--epochs', '3'] {r} 2", f"[{r}] no end")]
    )


def test_a_rank_that_fails_ends_all(tmp_path: Path) -> None:
    """The others wait for it in an exchange: they would do so for ever."""
    script = tmp_path / "script.py"
    script.write_text(
        "import ferro, ferro.distributed as dist\n"
        "dist.init_process_group('mpi')\n"
        "if dist.get_rank() == 1:\n"
        "    raise ValueError('of rank one')\n"
        "dist.barrier()\n"
    )
    done = ranks(3, script)
    assert done.returncode != 0
    assert "[1] ValueError: of rank one" in done.stderr
    assert "[1] rank 1 of 3 has failed; all ranks end" in done.stderr
    assert "script.py has ended with status" in done.stderr


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--nproc-per-node", "0", "script.py"])
    assert "--nproc-per-node must be at least 1, got 0" in capsys.readouterr().err


def test_import_ferro_does_not_import_mpi() -> None:
    code = "import sys, ferro, ferro.distributed; ferro.distributed.is_available(); print('mpi4py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "False\n"
