"""FERRO_ISA: what kernels are compiled for and which are chosen, seen from processes that set it."""

import os
import platform
import re
import subprocess
import sys

import pytest

from ferro.native import isa, notices

x86 = pytest.mark.skipif(isa.LEVEL == "other", reason=f"FERRO_ISA names levels of x86-64, not of {platform.machine()}")


def run_python(code, **environment):
    settings = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**settings, "FERRO_KERNELS": "off", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def noted(monkeypatch):
    monkeypatch.setattr(notices, "_notices", {})
    return notices.notices


@pytest.mark.parametrize("own", ["baseline", "avx2", "avx512"])
def test_without_a_wish_all_that_the_processor_has_is_used(own, noted):
    assert isa._chosen("", own) == own
    assert not noted()


def test_a_wish_is_an_upper_limit(noted):
    assert isa._chosen("avx2", "avx512") == isa._chosen("avx2", "avx2") == "avx2"
    assert isa._chosen("baseline", "avx512") == "baseline"
    assert not noted()


def test_a_wish_that_the_processor_cannot_fulfil_is_noted(noted):
    assert isa._chosen("avx2", "baseline") == "baseline"
    assert isa._chosen("avx2", "other") == "other"
    assert [why.partition(":")[0] for why in noted()["instruction set"]] == [
        "FERRO_ISA=avx2",
        f"FERRO_ISA=avx2 means nothing on {platform.machine()}",
    ]


def test_an_unknown_value_is_refused_when_ferro_is_imported():
    done = run_python("import ferro", FERRO_ISA="sse9")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ValueError: FERRO_ISA is 'sse9'; it may be 'avx512', 'avx2' or 'baseline', or unset for all that the processor has"
    )


LOOK = """
import ferro
from ferro.native import isa
from ferro.cpu.kernels import tiles
from ferro.native import fingerprint
import numba, numpy as np
print(isa.LEVEL, isa.registers()[0], len(tiles.DTYPES), fingerprint.of_tools())
@numba.njit(fastmath=True)
def total(x, y):
    for i in range(x.size):
        x[i] += 3 * y[i]
total(np.zeros(9, np.float32), np.zeros(9, np.float32))
print(*total.inspect_asm().values())
"""


@x86
def test_what_is_compiled_what_is_chosen_and_the_key_of_the_cache_follow_the_variable():
    lines = {}
    for wish in ("", *isa.LEVELS[: isa.LEVELS.index(isa._OWN) + 1]):
        done = run_python(LOOK, FERRO_ISA=wish)
        assert done.returncode == 0, done.stderr
        head, _, code = done.stdout.partition("\n")
        level, width, products, digest = head.split()
        lines[wish] = level, digest
        assert {16: "xmm", 32: "ymm", 64: "zmm"}[int(width)]
        assert int(products) == (0 if level == "baseline" else 2)
        assert not (level != "avx512" and "zmm" in code)
        if level == "baseline":
            assert "ymm" not in code
            assert not re.search(r"\tv[a-z]", code)  # as every instruction of AVX begins
    assert lines["baseline"][0] == "baseline"
    digests = [digest for _, digest in lines.values()]
    assert len(set(digests)) == len(
        digests
    )  # each level has machine code of its own on disk, and so has this processor


@x86
def test_numba_that_was_in_use_before_ferro_is_left_alone():
    code = """
import numba
numba.njit(lambda x: x + 1)(1)
import ferro
from ferro.native import isa, notices
print(isa.LEVEL, repr(isa.target()), *notices.notices()["instruction set"])
"""
    done = run_python(code, FERRO_ISA="baseline")
    assert done.stdout.startswith("baseline '' Numba was in use before ferro was imported"), done.stderr
