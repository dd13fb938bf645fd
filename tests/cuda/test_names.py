"""Every name of CuPy that the backend uses is there in the CuPy that is installed, with the parameters that the stand-in knows."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ferro
from ferro.cuda import communicators, numpy_by_cupy
from tests.cuda import stand_in_device, stand_in_nccl
from tests.cuda.stand_in import NAMES
from tests.cuda.write_names import documented, found

PACKAGE = Path(ferro.__file__).parent
OWN = frozenset(numpy_by_cupy.OWN)
# Names that formulas of twinned files use where the device has another function, or none.
ELSEWHERE = frozenset(["nditer", "lib", "polynomial", "float16", "testing", "intp", "core"])


def chains(tree: ast.AST, roots: tuple[str, ...]) -> Iterator[str]:
    """What is asked of names: "linalg.qr" for ``cupy().linalg.qr`` or ``np.linalg.qr``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        parts, at = [node.attr], node.value
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        root = at.func if isinstance(at, ast.Call) and not at.args else at
        if (isinstance(root, ast.Name) and root.id in roots) or (
            isinstance(root, ast.Attribute) and root.attr in roots
        ):
            yield ".".join(reversed(parts))


def used() -> set[str]:
    """The functions of CuPy that the files of the backend name, and those that twins may."""
    names = set()
    for path in (PACKAGE / "cuda").rglob("*.py"):
        names |= set(chains(ast.parse(path.read_text()), ("cupy",)))
    return {name for name in names if f"cupy.{name}" in NAMES}


def test_the_list_has_what_the_backend_calls() -> None:
    asked = set()
    for path in (PACKAGE / "cuda").rglob("*.py"):
        asked |= set(chains(ast.parse(path.read_text()), ("cupy",)))
    plain = {name for name in asked if name.split(".")[0] not in ("cuda", "lib", "linalg", "fft", "__version__")}
    unknown = {name for name in plain if f"cupy.{name.split('.')[0]}" not in NAMES}
    of_device = {name.split(".")[1] for name in asked if name.startswith("cuda.")} - {"runtime", "memory"}
    assert {"Stream", "Event", "set_allocator"} <= of_device
    unknown |= {name for name in of_device if f"cupy.cuda.{name}" not in NAMES}
    assert not unknown
    assert {"matmul", "sum", "RawModule", "argsort", "linalg.cholesky", "fft.irfftn"} <= asked


@pytest.mark.parametrize("kind", ["Stream", "ExternalStream", "Event", "Graph", "MemoryPool"])
def test_the_device_of_the_stand_in_has_what_cupys_has(kind: str) -> None:
    """Streams, events, graphs and pools have no names that CuPy's have not; those of the instances are listed."""
    ours = getattr(stand_in_device, kind)
    inside = {
        "Stream": {"clock", "captured", "tick", "settle"},
        "Event": {"clock", "timed"},
        "MemoryPool": {"used", "total", "limit", "free"},
    }
    own = inside.get(kind, set()) | inside["Stream"] | ({"null"} if kind == "ExternalStream" else set())
    public = {name for name in dir(ours) if not name.startswith("_")} - own
    assert public <= {name.rpartition(".")[2] for name in NAMES if name.startswith(f"cupy.cuda.{kind}.")}
    for name in (
        "using_allocator",
        "set_allocator",
        "get_current_stream",
        "get_elapsed_time",
        "UnownedMemory",
        "MemoryPointer",
    ):
        assert f"cupy.cuda.{name}" in NAMES


def test_names_are_those_of_the_installed_cupy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x (no GPU is needed)")
    if not hasattr(cupy, "_core"):
        pytest.skip("this cupy is the stand-in")
    for name in sorted(used()):
        space, _, last = f"cupy.{name}".rpartition(".")
        value = getattr(found(space), last)
        want = NAMES[f"cupy.{name}"]
        if want is not None:
            have = [
                ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + p.name
                for p in inspect.signature(value).parameters.values()
            ]
            assert set(want) <= set(have), f"{name}{have} has lost parameters of {want}"
    special = importlib.import_module("cupyx.scipy.special")
    for name in ("erf", "erfc", "erfinv", "gammaln", "psi", "ndtr", "zeta", "i0", "j0"):
        assert callable(getattr(special, name))


def test_the_nccl_of_the_stand_in_has_what_cupys_has() -> None:
    """The calls have the parameters of CuPy's, in their order, and the backend asks for no other names."""
    module, space = stand_in_nccl.module(), "cupy.cuda.nccl"
    for name, value in vars(module).items():
        assert f"{space}.{name}" in NAMES, name
        if name.startswith("group") or name == "get_unique_id":
            assert list(inspect.signature(value).parameters) == NAMES[f"{space}.{name}"] == []
    methods = {k: v for k, v in vars(module.NcclCommunicator).items() if not k.startswith("_")}
    assert {"allReduce", "allGather", "reduceScatter", "send", "recv", "check_async_error", "abort"} <= methods.keys()
    for name, method in methods.items():
        assert list(inspect.signature(method).parameters) == NAMES[f"{space}.NcclCommunicator.{name}"], name
    made = list(inspect.signature(module.NcclCommunicator.__init__).parameters)[1:]
    assert made == NAMES[f"{space}.NcclCommunicator"]
    tree = ast.parse((PACKAGE / "cuda" / "communicators.py").read_text())
    parts = [name.partition(".") for name in chains(tree, ("self",))]
    asked = {name for root, _, name in parts if root == "_library" and name}
    asked |= {*communicators._TYPES.values(), *communicators._OPERATIONS.values()}
    assert {"NCCL_UINT8", "groupStart", "NcclError", "NCCL_BFLOAT16", "NCCL_AVG"} <= asked
    assert {name for name in asked if f"{space}.{name}" not in NAMES} == set()
    called = {name for root, _, name in parts if root == "_nccl" and name}
    assert {"allReduce", "send"} <= called
    assert {name for name in called if f"{space}.NcclCommunicator.{name}" not in NAMES} == set()


def test_the_codes_of_nccl_are_those_of_the_installed_cupy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x (no GPU is needed)")
    if not hasattr(cupy, "_core"):
        pytest.skip("this cupy is the stand-in")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (CuPy warns where the library is absent)
        real = importlib.import_module("cupy.cuda.nccl")
    if not real.available:
        pytest.skip("NCCL is not installed: pip install nvidia-nccl-cu13 (no GPU is needed)")
    for name, value in vars(stand_in_nccl.module()).items():
        assert hasattr(real, name), name
        if name.startswith("NCCL_"):
            assert getattr(real, name) == value, name
    assert (type(real.get_unique_id()), len(real.get_unique_id())) == (bytes, 128)
    for name in vars(stand_in_nccl.NcclCommunicator):
        if not name.startswith("_"):
            method = getattr(real.NcclCommunicator, name)
            assert parameters_of_nccl(method) == NAMES[f"cupy.cuda.nccl.NcclCommunicator.{name}"], name
    for status, text in stand_in_nccl._SAYS.items():
        assert text in str(real.NcclError(status))


def parameters_of_nccl(method: object) -> list[str]:
    return documented(method).strip("()").split()


class Asked:
    """What has NumPy's protocol for ufuncs, as batched arrays have, and notes what it is asked."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: object) -> str:
        return ufunc.__name__

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("the protocol is asked first")

    __ne__ = __eq__


def test_operators_of_cupys_arrays_leave_what_is_batched_to_numpys_protocol() -> None:
    """Seen without a GPU: nothing is computed."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x (no GPU is needed)")
    if hasattr(cupy, "_core"):
        memory = cupy.cuda.UnownedMemory(4096, 64, None, 0)
        x = cupy.ndarray((2,), np.float64, cupy.cuda.MemoryPointer(memory, 0))
    else:
        x = cupy.asarray(np.zeros(2))
    y = Asked()
    found = [x + y, x - y, x * y, x / y, x // y, x % y, x**y, x @ y, x < y, x <= y, x > y, x >= y, x == y, x != y]
    want = "add subtract multiply divide floor_divide remainder power matmul less less_equal greater greater_equal equal not_equal"
    assert found == want.split()


def test_the_page_lists_what_is_absent() -> None:
    spec = importlib.util.spec_from_file_location("cuda_table", PACKAGE.parent / "docs" / "cuda_table.py")
    assert spec is not None
    assert spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    text = table.PAGE.read_text("utf-8")
    assert table.page(text) == text, "run python docs/cuda_table.py"


def test_numpy_has_the_names_that_the_facade_takes_from_it() -> None:
    for name in OWN:
        assert hasattr(np, name), name
    assert OWN.isdisjoint(ELSEWHERE)
