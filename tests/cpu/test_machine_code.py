"""Machine code of kernels: made elsewhere, kept on disk, loaded without Numba, and refused where it does not fit."""

import copy
import math
import os
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ferro.cpu import pooling
from ferro.cpu.by_kernels import ABSENT
from ferro.cpu.kernels import prepare
from ferro.cpu.kernels.entries import ELEMENTWISE, FILES, entry_of
from ferro.cpu.kernels.prepare import signatures
from ferro.elementwise import DECLARED
from ferro.native import (
    compiler_process,
    disk_cache,
    extensions,
    fingerprint,
    loader,
    notices,
    readiness,
    registry,
)
from ferro.native.entries import EntryFile, fallback
from ferro.native.kernel import Kernel, describe, tag_of
from ferro.native.readiness import get
from tests.configuration import with_machine_code
from tests.helpers import ROOT, of_arrays, run_python

native = with_machine_code


# --- signatures ------------------------------------------------------------------------------------------------------


def test_calls_are_described():
    x, i = np.zeros((2, 3), np.float32), np.zeros(4, np.int64)
    assert describe((x, i, 1, 2.0, True, (1, (2, 3)))) == "f4[2] i8[1] i8 f8 b1 (i8 (i8 i8))"
    assert describe((np.float32(1), np.float64(1), np.int64(1))) == "f4 f8 i8"
    for other in (x.T, x[:, ::2], x.astype(">f4"), x.astype(complex), None, "text", [1]):
        assert describe((x, other)) == ""


def test_tags_begin_with_the_dtype():
    assert tag_of("i8[1] f8[2] f4[1]").startswith("f8-")
    assert tag_of("i8 f8").startswith("any-")
    assert tag_of("f4[1] i8") != tag_of("f4[1] f8")


def test_every_kernel_is_called_in_the_dry_run_for_both_precisions():
    found = signatures()
    for name in (*registry._module_of, *DECLARED):
        if name in ABSENT:
            assert name not in found, name
            continue
        if not loader.SUPPORTED and registry._module_of.get(name, "").endswith(".jit_random"):
            continue  # small draws are left to Python there
        some = {tag_of(signature)[:2] for signature in found[name]}
        assert some in ({"f4", "f8"}, {"f4"}, {"f8"}, {"an"}), name
    assert all(all(some) for some in found.values())
    assert Kernel.__call__.__name__ == "__call__"  # the dry run is over


def test_numba_would_keep_every_parallel_version_apart():
    """It keeps code by the file and the name of a function, and several kernels may be made by one function."""
    kernels = {name: registry.compiler(name, True).py_func for name in registry._module_of}
    kept = {(function.__code__.co_filename, function.__qualname__) for function in kernels.values()}
    assert len(kept) == len(kernels) > 100


# --- the entry -------------------------------------------------------------------------------------------------------


@pytest.fixture
def run():
    """The kernel relu_slope for float32 as it is loaded from disk."""
    kernel = get("relu_slope")
    x = np.ones(2, np.float32)
    kernel(x, x, x.copy())
    (found,) = [each for each in kernel.runs if each(x, x, x.copy()) is None]
    return found


@native
def test_machine_code_is_a_function_of_python(run):
    assert type(run).__name__ == "builtin_function_or_method"
    x, out = np.array([-1, 2, np.nan, np.inf], np.float32), np.empty(4, np.float32)
    assert run(np.full(4, 3, np.float32), x, out) is None
    np.testing.assert_array_equal(out[[0, 1, 3]], [0, 3, 3])


@native
def test_calls_that_do_not_fit_are_refused(run):
    x = np.ones(4, np.float32)
    others = (
        x.astype(np.float64),
        x.astype(np.int32),
        x.astype(">f4"),
        x.reshape(2, 2),
        np.ones(8, np.float32)[::2],
        np.ma.array(x),
        np.frombuffer(b"\0" * 17, np.uint8)[1:].view(np.float32),
        np.float32(1),
        [1.0],
        None,
        1.0,
    )
    for other in others:
        assert run(x, other, x) is NotImplemented
    assert run(x, x) is run() is run(x, x, x, x) is NotImplemented


@native
@pytest.mark.parametrize("wrong", [(1.0,), (True,), (None,), ((1,),)])
def test_numbers_are_of_the_type_that_was_compiled(wrong):
    kernel, y = get("loss_sum"), np.ones(4, np.float32)
    assert kernel(0, y, 3 * y, 1.0) == 16
    assert type(kernel(np.int64(0), y, y, 1)) is float  # an int for a float is as good
    (run,) = [each for each in kernel.runs if each(0, y, y, 1.0) is not NotImplemented]
    assert run(*wrong, y, y, 1.0) is NotImplemented
    with pytest.raises(OverflowError):
        run(1 << 80, y, y, 1.0)


@native
@pytest.mark.parametrize("name", ["gelu", "hardshrink", "erf"])
def test_numbers_are_those_of_numba(name):
    from ferro.native.registry import compiler

    x = np.linspace(-6, 6, 1001, dtype=np.float32)
    parameters = (0.5,) if name == "hardshrink" else ()
    one, two = np.empty_like(x), np.empty_like(x)
    get(name)(x, *parameters, one)
    compiler(name)(x, *parameters, two)
    np.testing.assert_array_equal(one, two)


@native
def test_other_arguments_are_compiled_for_when_they_come():
    kernel = Kernel("cube", get("cube").sources, get("cube").compiler, readiness.wait_for)
    x = np.arange(4, dtype=np.int32)
    out = np.empty_like(x)
    kernel(x, out)
    kernel(np.arange(8, dtype=np.int32)[::2], out)  # these only Numba itself takes
    np.testing.assert_array_equal(out, [0, 8, 64, 216])


# --- on disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FERRO_CACHE_DIR", str(tmp_path))
    return tmp_path / "ferro"


def test_what_is_kept_is_found(folder):
    assert disk_cache.read("cube", "f4-0", ("ferro.cpu.kernels.jit_pointwise",)) is None
    assert disk_cache.write("cube", "f4-0", ("ferro.cpu.kernels.jit_pointwise",), b"code")
    assert disk_cache.read("cube", "f4-0", ("ferro.cpu.kernels.jit_pointwise",)) == b"code"
    assert disk_cache.read("cube", "f4-0", ("ferro.cpu.kernels.jit_pool",)) is None
    (path,) = folder.iterdir()
    assert path.read_bytes().startswith(b"ferro kernel cube f4-0\n")
    assert all(word in path.read_text() for word in (sys.version.split()[0], np.__version__, "processor:"))


def test_the_files_that_a_kernel_stands_in_tell_its_versions_apart(monkeypatch):
    before = fingerprint.of_sources.__wrapped__(("ferro.cpu.kernels.jit_softmax",))
    read = Path.read_bytes
    for changed in (
        "jit_softmax.py",
        "jit_math.py",
        "jit_export.py",
    ):  # its own, one whose functions it takes, the compiler
        fingerprint._source.cache_clear()
        monkeypatch.setattr(Path, "read_bytes", lambda path, name=changed: read(path) + b" " * (path.name == name))
        assert fingerprint.of_sources.__wrapped__(("ferro.cpu.kernels.jit_softmax",)) != before
    fingerprint._source.cache_clear()
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b" " * (path.name == "jit_winograd.py"))
    assert fingerprint.of_sources.__wrapped__(("ferro.cpu.kernels.jit_softmax",)) == before
    fingerprint._source.cache_clear()


def test_the_first_folder_that_can_be_written_to_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("FERRO_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    beside, mine = disk_cache.folders()
    assert beside == Path(disk_cache.__file__).parent / "__pycache__"
    monkeypatch.setattr(
        disk_cache, "_can_write", lambda folder: folder != beside
    )  # as in an installation of the system's
    assert disk_cache.writable()
    mine.mkdir()
    assert disk_cache.write("cube", "f4-0", ("ferro.cpu.kernels.jit_pointwise",), b"code")
    assert [path.parent for path in mine.iterdir()] == [mine]
    assert disk_cache.read("cube", "f4-0", ("ferro.cpu.kernels.jit_pointwise",)) == b"code"


@native
def test_damaged_code_is_made_again(folder):
    kernel = Kernel("cube", get("cube").sources, get("cube").compiler, readiness.wait_for)
    x = np.arange(4, dtype=np.float32)
    kernel(x, x.copy())
    (path,) = folder.iterdir()
    good = path.read_bytes()
    for bad in (b"", good[:100], good[:-1], good[:-1] + b"\1", good[:30] + b"\1" + good[31:], good + b"\0", None):
        if bad is None:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(bad)
        again = Kernel("cube", get("cube").sources, get("cube").compiler, readiness.wait_for)
        out = np.empty_like(x)
        again(x, out)
        np.testing.assert_array_equal(out, x**3)
        if bad is not None:
            assert path.read_bytes() == good


@native
def test_code_that_refers_to_what_is_not_there_is_left_to_numba():
    kernel = Kernel("cube", get("cube").sources, get("cube").compiler, readiness.wait_for)
    kernel.add("f4-0", loader.pack(b"\xc3" * 16, {"": 0}, ["no_such_function"], [(8, 0, 0)]))
    assert kernel.runs == (kernel.compiler(),)


@native
def test_a_function_compiled_once_is_linked_when_its_callers_are_exported_and_when_numba_runs_them():
    from ferro.native import jit, jit_export

    @jit.once
    def root(x):
        return math.sqrt(x)

    @jit.once
    def one_more(x):
        return root(x) + 1

    @jit.device
    def between(x):
        return 2 * one_more(x)

    @jit.kernel
    def outer(x, out):
        for i in range(x.size):
            out[i] = between(x[i]) + root(x[i])

    x = np.linspace(0, 9, 20)
    expected = 3 * np.sqrt(x) + 2
    packed = jit_export.export(lambda: outer, "f8[1] f8[1]")
    found = np.zeros(20)
    assert loader.Code("outer", packed).function("outer")(x, found) is None
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    found = np.zeros((20, 2))[:, 0]  # nothing is exported for its like
    outer(x, found)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@native
def test_entries_of_one_layout_call_their_own_kernels():
    from ferro.native import jit, jit_entries

    def kernel_of(function):
        f = jit.device(function)

        def run(x, out):
            for i in range(x.size):
                out[i] = f(x[i])

        return jit.kernel(run)

    def returns_a_flag(x, out):
        out[:] = x
        return True

    layout = "x -> x"
    kernels = {"twice": lambda v: 2 * v, "square": lambda v: v * v, "third": lambda v: v / 3}
    entries = {name: jit_entries.make(kernel_of(function), layout, np.float64) for name, function in kernels.items()}
    flagged = jit.kernel(returns_a_flag)  # of other types than the first one
    entries["flag"] = jit_entries.make(flagged, layout, np.float64)
    code = loader.Code("entries", jit_entries.export(entries))
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    for name, function in {**kernels, "flag": lambda v: v}.items():
        found = code.function(name, name, None)(x)
        assert found.shape == x.shape
        np.testing.assert_array_equal(found, function(x))


@native
def test_kernels_on_disk_are_loaded_without_numba():
    x = np.linspace(-3, 3, 1 << 14, dtype=np.float32)
    fallback(of_arrays("silu"))(x)  # (what is not on disk is compiled here)
    pooling.max_pool(x.reshape(4, 1, 64, 64), (2, 2), (32, 32), (2, 2), (0, 0), (1, 1))
    code = """
import sys
import numpy as np
from ferro.cpu import pooling
from ferro.cpu.elementwise import function_of
from ferro.elementwise import DECLARED
from ferro.native.entries import fallback
from ferro.native.readiness import get
x = np.linspace(-3, 3, 1 << 14, dtype=np.float32)
print(fallback(function_of(DECLARED["silu"]))(x)[-1] > 2.8)
pooling.max_pool(x.reshape(4, 1, 64, 64), (2, 2), (32, 32), (2, 2), (0, 0), (1, 1))
print(len(get("silu").runs), len(get("max_pool").runs), "numba" in sys.modules)
"""
    assert run_python(code, FERRO_KERNELS="wait", FERRO_NUM_THREADS="1").split() == ["True", "1", "1", "False"]


# --- the compiler process -------------------------------------------------------------------------------------------


SILU = """
import os, sys
import numpy as np
from ferro.cpu.elementwise import function_of
from ferro.elementwise import DECLARED
from ferro.native import readiness
from ferro.native.entries import fallback
from ferro.native.readiness import get
x = np.linspace(-3, 3, 5000, dtype=np.float32)
silu = fallback(function_of(DECLARED["silu"]))
first = silu(x)
print(len(get("silu").runs), len(readiness._requests))
readiness.finish()
second = silu(x)
print(len(get("silu").runs), "numba" in sys.modules, np.array_equal(first, second))
if readiness._compiler:
    child = readiness._compiler.process
    readiness._compiler.hang_up()
    print(os.waitpid(child.pid, 0)[1])  # it ends when nobody asks any more
"""


@native
def test_numpy_answers_to_the_end_of_the_process_and_the_kernel_in_the_next(tmp_path):
    settings = {"FERRO_CACHE_DIR": str(tmp_path), "FERRO_KERNELS": "", "FERRO_NUM_THREADS": "1"}
    assert run_python(SILU, **settings).split() == ["0", "4", "0", "False", "True", "0"]
    assert run_python(SILU, **settings).split() == ["1", "0", "1", "False", "True"]


@native
def test_a_compiler_process_that_has_grown_is_followed_by_another(tmp_path):
    code = """
import copy
import math
import os
import numpy as np
from ferro.native import readiness
F4 = np.dtype(np.float32)
children = []
start = readiness._start
readiness._start = lambda: children.append(start()) or children[-1]
readiness.ready(("cube", "rsqrt"), F4)
readiness.finish()
print(len(children), *sorted(name.partition("-")[0] for name in os.listdir(os.environ["FERRO_CACHE_DIR"] + "/ferro")))
"""
    limit = "import ferro.native.compiler_process as w; w.MOST_MEMORY = 130e6\n"  # one kernel takes more
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nif '--serve' in sys.orig_argv:\n    {limit}")
    settings = {
        "FERRO_CACHE_DIR": str(tmp_path),
        "FERRO_KERNELS": "",
        "PYTHONPATH": f"{tmp_path}:{Path(disk_cache.__file__).parents[2]}",
    }
    assert run_python(code, **settings).split() == ["2", "cube", "rsqrt"]


def test_kernels_can_be_switched_off():
    code = """
import sys
import numpy as np
from ferro.cpu.elementwise import function_of
from ferro import cpu
from ferro.elementwise import DECLARED
from ferro.native import readiness
x = np.linspace(-3, 3, 10000, dtype=np.float32)
function_of(DECLARED["silu"])(x), cpu.softmax(x.reshape(100, 100), 1)
print(len(readiness._requests), "numba" in sys.modules, "ferro.native.compiler_process" in sys.modules)
"""
    assert run_python(code, FERRO_KERNELS="off").split() == ["0", "False", "False"]


class Bench:
    """A compiler process that only notes what is asked for."""

    def __init__(self):
        self.noted, self.process = [], self
        self.returncode = 0

    def request(self, name, wanted):
        self.noted.append((name, wanted))


@pytest.fixture
def benches(monkeypatch):
    """What processes would be started, none of which does anything."""
    monkeypatch.setattr(readiness, "MODE", "")
    monkeypatch.setattr(readiness, "_requests", {})
    monkeypatch.setattr(readiness, "_chosen", {})
    monkeypatch.setattr(readiness, "_compiler", None)
    monkeypatch.setattr(readiness, "_can_start", True)
    started = []

    def start():
        started.append(Bench())
        return started[-1]

    monkeypatch.setattr(readiness, "_start", start)
    monkeypatch.setattr(Kernel, "load_all", lambda kernel, dtype: False)
    monkeypatch.setattr(Kernel, "load", lambda kernel, tag: False)
    return started


F4, INTEGERS = np.dtype(np.float32), np.dtype(np.int64)


def test_a_kernel_is_asked_for_once_and_not_used_when_it_comes(benches, monkeypatch):
    for _ in range(3):
        assert not readiness.ready(("cube", "rsqrt"), F4)
    assert not readiness.ready(("cube",), F4)
    rest = [("", "f4-"), ("", "any-")]  # entries and the recorder come with them
    assert benches[0].noted == [("cube", "f4-"), ("rsqrt", "f4-"), *rest]
    readiness._answered("cube", "f4-")
    readiness._answered("rsqrt", "f4-")
    monkeypatch.setattr(Kernel, "load_all", lambda kernel, dtype: True)  # now they can be loaded
    assert not readiness.ready(("cube",), F4)


def test_what_was_chosen_holds(benches, monkeypatch):
    assert not readiness.ready(("cube",), F4)
    assert not readiness.ready(("move",), INTEGERS)
    assert [(name, wanted) for name, wanted in benches[0].noted if name] == [("cube", "f4-"), ("move", "any-")]
    monkeypatch.setattr(Kernel, "load_all", lambda kernel, dtype: True)
    assert readiness.ready(("rsqrt",), F4)
    for names in (("cube",), ("cube", "rsqrt")):
        assert not readiness.ready(names, F4)
    assert not readiness.ready(("move",), INTEGERS)
    monkeypatch.setattr(Kernel, "load_all", lambda kernel, dtype: False)
    assert readiness.ready(("rsqrt",), F4)


def test_what_a_compiler_process_leaves_undone_goes_to_the_next(benches):
    readiness.ready(("cube", "rsqrt"), F4)
    readiness._answered("cube", "f4-")
    readiness._closed(benches[0])
    rest = [("rsqrt", "f4-"), ("", "f4-"), ("", "any-")]
    assert benches[1].noted == rest
    for name, wanted in rest:
        readiness._answered(name, wanted)
    readiness._closed(benches[1])
    assert readiness._compiler is None
    assert len(benches) == 2


def test_a_compiler_process_that_has_failed_is_the_last_one(benches):
    readiness.ready(("cube",), F4)
    benches[0].returncode = -9
    readiness._closed(benches[0])
    assert not readiness.ready(("cube",), F4)
    assert not readiness.ready(("rsqrt",), F4)
    assert len(benches) == 1
    assert any("-9" in why for why in notices.notices()["kernel cache"])


def test_numpy_answers_where_there_is_no_compiler_process(benches, monkeypatch):
    tried = []
    monkeypatch.setattr(readiness, "_start", lambda: tried.append(1))
    for _ in range(2):
        assert not readiness.ready(("cube",), F4)
    assert tried == [1]


def test_a_program_with_python_inside_starts_no_compiler_process(monkeypatch):
    for executable in ("/usr/sbin/server", "", None):
        monkeypatch.setattr(sys, "executable", executable)
        assert compiler_process.start(lambda *_: None, lambda _: None) is None


def test_a_call_waits_for_its_kernel_if_nothing_else_can_answer(benches):
    made = []
    kernel = Kernel("cube", get("cube").sources, get("cube").compiler, readiness.wait_for)
    waiting = threading.Thread(target=lambda: made.append(readiness.wait_for(kernel, "f4[1] f4[1]")))
    waiting.start()
    while not (benches and benches[0].noted):
        pass
    readiness._answered("cube", "f4[1] f4[1]")
    waiting.join(200)
    assert benches[0].noted == [("cube", "f4[1] f4[1]")]
    assert made == [None]
    assert kernel.runs  # nothing has come: it was compiled here


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_a_compiler_process_of_its_own(tmp_path):
    code = """
import os, warnings
warnings.simplefilter("ignore")
import numpy as np
from ferro.native import readiness
before = readiness.ready(("cube",), np.dtype(np.float32))
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    readiness.finish()
    print(before, readiness.ready(("cube",), np.dtype(np.float32)))
    if os.fork():
        assert os.wait()[1] == 0
    else:  # it chooses as its parent would, whatever has been made
        assert not readiness.ready(("rsqrt",), np.dtype(np.float32))
        os._exit(0)
else:
    assert readiness._compiler is None
    assert not readiness._requests
    assert not readiness.ready(("rsqrt",), np.dtype(np.float32))
    readiness.finish()
    assert not readiness.ready(("rsqrt",), np.dtype(np.float32))
    os._exit(0)
"""
    settings = {"FERRO_CACHE_DIR": str(tmp_path), "FERRO_KERNELS": ""}
    assert run_python(code, **settings).split() == ["False", "False"]
    assert {path.name.partition("-")[0] for path in (tmp_path / "ferro").iterdir()} >= {
        "cube",
        "rsqrt",
    }  # (others follow)


def test_where_nothing_can_be_written_there_is_a_folder_for_the_process(monkeypatch):
    code = """
import numpy as np
from ferro.native import readiness, disk_cache
disk_cache._can_write = lambda folder: False
readiness.Kernel.load_all = lambda kernel, dtype: False  # (there may be one beside the sources)
readiness.ready(("cube",), np.dtype(np.float32))
readiness.finish()
print(disk_cache.temporary.is_dir(), len(list(disk_cache.temporary.glob("ferro/cube-*.kernel"))), disk_cache.temporary)
"""
    *found, path = run_python(
        code, FERRO_KERNELS="", FERRO_CACHE_DIR="", NUMBA_CACHE_DIR="", XDG_CACHE_HOME="/nowhere"
    ).split()
    assert found == ["True", "1"]
    assert not Path(path).exists()


def test_a_folder_goes_while_others_write_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    (folder / "ferro").mkdir(parents=True)
    written, stop = threading.Event(), threading.Event()

    def write() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            with suppress(OSError):
                (folder / "ferro").mkdir(exist_ok=True)
                (folder / "ferro" / str(k)).write_bytes(b"code")
                written.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert written.wait(60)
        compiler_process.remove_folder(folder)
    finally:
        stop.set()
        thread.join(60)
    assert list(tmp_path.iterdir()) == []


def test_functions_of_other_packages_come_without_the_packages():
    code = """
import sys
import numpy as np
from ferro.native import extensions
x = np.linspace(-3, 3, 7)
found = extensions.special("expit")(x)
print("scipy" in sys.modules)
import scipy.special
print(np.array_equal(found, scipy.special.expit(x)))
"""
    assert run_python(code).split()[1] == "True"
    assert extensions.extension("numpy", "no_such_library") is None
    assert extensions.extension("no_such_package", "library") is None
    assert extensions.special("j0")(0.0) == 1  # stands elsewhere in SciPy


# --- two processes -----------------------------------------------------------------------------------------------------


def test_entries_on_disk_are_told_by_their_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one formula there are other entries where small arrays are left to NumPy."""
    found = {}
    monkeypatch.setitem(ELEMENTWISE, "exp", ELEMENTWISE["exp"])
    for word in ("x", "many"):
        function = copy.copy(DECLARED["exp"])
        function.entry = word
        entry_of(function, None)
        found[word] = fingerprint.of_sources(ELEMENTWISE["exp"].sources)
    assert found["x"] != found["many"]


@pytest.mark.parametrize("kind", ["f8-", readiness.ANY])
@pytest.mark.parametrize("from_end", [False, True])
def test_all_kernels_are_made_from_either_end_and_only_one_sets_the_mark(from_end, kind, monkeypatch):
    made, written = [], []
    monkeypatch.setattr(prepare, "compile_for", lambda name, wanted: made.append(name))
    monkeypatch.setattr(EntryFile, "make_missing", lambda file: made.append(file.tag))
    monkeypatch.setattr(disk_cache, "write", lambda name, tag, *_: written.append((name, tag)))
    for _ in prepare.compile_all(kind, from_end):
        pass
    files = [FILES["f8"].tag] if kind == "f8-" else [*[file.tag for file in ELEMENTWISE.values()], "tape"]
    made = made[::-1] if from_end else made
    assert sorted(made[: -len(files)]) == sorted(signatures())
    assert made[-len(files) :] == files
    assert written == ([] if from_end else [(readiness.ALL, kind)])


def test_kernels_of_entries_are_compiled_next_to_them():
    names = prepare._in_order([FILES["f4"]])
    modules = [registry.sources(name)[0] for name in names]
    begin = modules.index("ferro.cpu.kernels.jit_batch_norm")
    assert "ferro.cpu.kernels.jit_conv" in modules[:begin]  # no entry calls it
    assert {"ferro.cpu.kernels.jit_reduce", "ferro.cpu.kernels.jit_softmax"} <= set(modules[begin:])
    assert len({module for module, after in pairwise([*modules, ""]) if module != after}) == len(set(modules))


HELPED = """
import subprocess, sys
from ferro.native import compiler_process, disk_cache
disk_cache.writable = lambda: True
helpers = []
def help_with(wanted):
    helpers.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
    return helpers
def compile_all(wanted):
    yield
compiler_process.serve(lambda name, wanted: True, compile_all, help_with)
print(*(helper.poll() is None for helper in helpers))
helpers[0].stdin.close()
"""


def test_a_second_process_helps_to_make_all_kernels_and_ends_with_the_first():
    done = subprocess.run(
        [sys.executable, "-c", HELPED],
        input="\tf4-\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "FERRO_KERNELS": "off"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
