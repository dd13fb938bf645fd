"""Marks for tests of what some configuration switches off: they skip, and say why."""

from __future__ import annotations

import pytest

from ferro.cpu.kernels import tiles
from ferro.native import isa, readiness, recorder
from ferro.native.loader import SUPPORTED

KERNELS = readiness.MODE != "off"

with_kernels = pytest.mark.skipif(not KERNELS, reason="FERRO_KERNELS=off: NumPy answers")
with_machine_code = pytest.mark.skipif(not (SUPPORTED and KERNELS), reason="no machine code in this process")
with_machine_recorder = pytest.mark.skipif(
    not (SUPPORTED and KERNELS and recorder.WANTED), reason="the tape is Python in this process"
)
with_tiles = pytest.mark.skipif(
    not (tiles.DTYPES and KERNELS), reason="the kernels are for processors with AVX2 and FMA, or AVX-512"
)
with_fma = pytest.mark.skipif(not isa.has_fma(), reason="without a fused multiplication NumPy answers")
