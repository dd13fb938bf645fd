"""The settings of the C library's allocator."""

import os
import platform
import subprocess
import sys

import pytest

from ferro.cpu import memory

glibc_only = pytest.mark.skipif(memory._library is None, reason="the C library is not glibc")

# Page faults while 30 arrays of 16 MB come and go; touching one of them afresh takes 4,000, or 8 with huge pages.
FAULTS = """
import resource
import numpy as np
from ferro.cpu import memory
x = np.ones(4_000_000, np.float32)
y = x + 1
del y
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(30):
    y = x + 1
    del y
print(memory._keeps_freed_blocks, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

RESIDENT = """
import numpy as np
from ferro.cpu import memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
arrays = [np.ones(4_000_000, np.float32) for _ in range(6)]
del arrays
kept = resident() - before
memory.empty_cache()
print(kept > 50e6, resident() - before < 20e6)
"""


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@glibc_only
def test_fresh_results_reuse_freed_memory():
    kept, faults = run_python(FAULTS, FERRO_MALLOC="1")
    assert kept == "True"
    assert int(faults) < 20


@glibc_only
def test_the_environment_turns_it_off():
    kept, faults = run_python(FAULTS, FERRO_MALLOC="0")
    assert kept == "False"
    assert int(faults) >= 100


@glibc_only
def test_empty_cache_returns_memory():
    assert run_python(RESIDENT, FERRO_MALLOC="1") == ["True", "True"]


def test_empty_cache_may_be_called_anywhere():
    memory.empty_cache()


# Where arrays of many sizes begin, as far as `memory` says that they begin with a cache line; and that all can be grown,
# shrunk and freed, whoever allocated them.
PLACES = """
import numpy as np
before = [np.arange(n) for n in (10, 1000, 300_000)]
import ferro
from ferro.cpu import memory
sizes = [*range(4000, 4300, 8), 40_000, 400_000, 4_000_000, 4_194_303]
arrays = [np.empty(n, np.uint8) for n in sizes for _ in range(3)]
away = [a.nbytes for a in arrays if a.nbytes in memory.ALIGNED and a.ctypes.data % memory.LINE]
for a in (*before, *[np.arange(n) for n in (10, 1000, 300_000)]):
    first = a[:10].copy()
    for n in (5000, 7, 200_000, 10):
        a.resize(n, refcheck=False)
    assert (a[:7] == first[:7]).all()
del a, arrays, before
print(memory._aligns_arrays, len(away))
"""


@glibc_only
def test_large_arrays_begin_with_a_cache_line():
    aligns, away = run_python(PLACES, FERRO_MALLOC="1")
    assert aligns == str(platform.machine() == "x86_64")
    assert int(away) == 0 or aligns == "False"


@glibc_only
def test_the_environment_leaves_numpy_its_own_allocator():
    code = "import ferro, numpy; print(numpy._core.multiarray.get_handler_name())"
    assert run_python(code, FERRO_MALLOC="0") == ["default_allocator"]
