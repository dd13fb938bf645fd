"""The settings of the C library's allocator."""

import platform

import numpy as np
import pytest

from ferro.cpu import memory
from ferro.native.loader import SUPPORTED
from tests.helpers import run_python

aligned_only = pytest.mark.skipif(not SUPPORTED, reason="no machine code: NumPy keeps its own allocator")
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
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096
before = resident()
arrays = [np.ones(4_000_000, np.float32) for _ in range(6)]
del arrays
kept = resident() - before
memory.empty_cache()
print(kept > 50e6, resident() - before < 20e6)
"""


@glibc_only
def test_fresh_results_reuse_freed_memory():
    kept, faults = run_python(FAULTS, FERRO_MALLOC="1").split()
    assert kept == "True"
    assert int(faults) < 20


@glibc_only
def test_the_environment_turns_it_off():
    kept, faults = run_python(FAULTS, FERRO_MALLOC="0").split()
    assert kept == "False"
    assert int(faults) >= 100


@glibc_only
def test_empty_cache_returns_memory():
    assert run_python(RESIDENT, FERRO_MALLOC="1").split() == ["True", "True"]


def test_empty_cache_leaves_arrays_alone():
    x = np.arange(300_000)
    memory.empty_cache()
    assert x.sum() == 300_000 * 299_999 // 2


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


@aligned_only
@glibc_only
def test_large_arrays_begin_with_a_cache_line():
    aligns, away = run_python(PLACES, FERRO_MALLOC="1").split()
    assert aligns == str(platform.machine() == "x86_64")
    assert int(away) == 0 or aligns == "False"


@glibc_only
def test_the_environment_leaves_numpy_its_own_allocator():
    code = "import ferro, numpy; print(numpy._core.multiarray.get_handler_name())"
    assert run_python(code, FERRO_MALLOC="0").split() == ["default_allocator"]


# The module is loaded again, its code objects and names go, and others take their place; arrays come and go to the end.
AGAIN = """
import gc, importlib, sys
import numpy as np
from ferro.cpu import memory
from ferro.native import notices
kept = [np.empty(5000) for _ in range(5)]
address = kept[0].ctypes.data
for _ in range(3):
    importlib.reload(memory)
del sys.modules["ferro.cpu.memory"]
import ferro.cpu.memory as again
gc.collect()
junk = [bytes([65 + i % 20]) * 12 for i in range(10_000)]
print(again is memory, again._aligns_arrays, np._core.multiarray.get_handler_name(), len(notices.notices()))
del again, memory, kept[1:]
print(float(np.ones(100_000).sum()))
"""


@aligned_only
@glibc_only
@pytest.mark.parametrize("allocator", ["default", "debug", "malloc_debug"])
def test_the_allocator_outlives_its_module(allocator):
    """The end of the process is part of it: what NumPy cannot free it complains about."""
    found = run_python(AGAIN, FERRO_MALLOC="1", PYTHONMALLOC=allocator).split()
    if allocator == "default":
        assert found == ["False", "True", "ferro", "0", "100000.0"]
    else:
        assert found == ["False", "False", "default_allocator", "1", "100000.0"]


@glibc_only
@pytest.mark.parametrize(
    ("plant", "why"),
    [
        ("interface.get_handler_name = lambda: 'other'", "chosen"),
        ("handlers._CAPSULE = b'another'", "incorrect name"),
        ("handlers._VERSION = handlers._FEATURES", "binary interface"),
        ("handlers._WITH_HANDLERS = 1 << 20", "binary interface"),
        ("memory._NUMPYS = 'd'; interface.get_handler_name = lambda: 'd'", "does not look"),
        ("interface._ARRAY_API = None", "PyCapsule"),
        ("del interface._ARRAY_API", "_ARRAY_API"),
        ("del interface.get_handler_name", "get_handler_name"),
    ],
)
def test_what_does_not_look_as_expected_is_left_alone(plant, why):
    code = f"""
import types
import numpy as np
from ferro.cpu import memory
from ferro.native import handlers, notices
real = np._core._multiarray_umath
interface = types.SimpleNamespace(**vars(real))
library = memory._library
np._core._multiarray_umath = interface
{plant}
print(memory._align_arrays(library), real.get_handler_name())
print(notices.notices()["allocator"][-1])
"""
    done, name, *said = run_python(code, FERRO_MALLOC="0").split()
    assert (done, name) == ("False", "default_allocator")
    assert why in " ".join(said)


@aligned_only
@glibc_only
def test_what_the_user_says_to_the_c_library_is_left_as_it_is():
    code = """
from ferro.cpu import memory
from ferro.native import notices
print(memory._keeps_freed_blocks, memory._aligns_arrays, *notices.notices().get("allocator", ()))
"""
    assert run_python(code, FERRO_MALLOC="", MALLOC_TRIM_THRESHOLD_="100000").split()[:2] == ["False", "False"]
    assert "GLIBC_TUNABLES" in run_python(code, FERRO_MALLOC="", GLIBC_TUNABLES="glibc.malloc.top_pad=4096").split()
    assert run_python(code, FERRO_MALLOC="1", MALLOC_TRIM_THRESHOLD_="100000").split()[0] == "True"
