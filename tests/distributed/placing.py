"""Where scripts for several ranks put their tensors, and by what they exchange them: FERRO_TEST_DEVICE says it, as the tests start them.

"cuda" is the stand-in for CuPy with its NCCL (tests/cuda), or with FERRO_TEST_CUDA=1 a GPU for each rank. Before a rank ends,
`checked` looks at what the stand-in has noted: memory that was given back too early.
"""

from __future__ import annotations

import atexit
import os

from ferro.cuda.loading import load

DEVICE = os.environ.get("FERRO_TEST_DEVICE", "cpu")
BACKEND = {"cpu": "mpi", "cuda": "nccl"}[DEVICE]
IS_GPU = os.environ.get("FERRO_TEST_CUDA") == "1"

if DEVICE == "cuda" and not IS_GPU:
    from tests.cuda import stand_in, stand_in_device

    os.environ.setdefault("STAND_IN_GPU", os.environ.get("RANK", os.environ.get("PMI_RANK", "0")))
    stand_in.install()
    WATCHED = stand_in_device.DEVICE
    WATCHED.is_watched = True
if DEVICE == "cuda":
    assert load() is None


def checked() -> None:
    """Raises if memory was given back too early."""
    if DEVICE == "cuda" and not IS_GPU:
        assert WATCHED.wrong == [], WATCHED.wrong


atexit.register(checked)
