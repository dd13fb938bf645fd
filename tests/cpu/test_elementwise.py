"""Every elementwise function: its printed loop against its formula in more digits, and its operation against PyTorch, on arrays
of some numbers, of those that one kernel takes, and of those that are shared among threads.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.core.op import COMPUTED, Op
from ferro.core.samples import ENTRIES, Arg, Sample
from ferro.cpu.elementwise import into
from ferro.cpu.kernels.loops import text_of
from ferro.elementwise import DECLARED, Elementwise
from tests.helpers import ROOT, of_arrays

SIZES = (12, 5003, 140_003)  # below all limits; alone; shared among threads
TOLERANCE = {"float32": 4e-6, "float64": 1e-13}
POSITIVE = {"rsqrt", "log", "log2", "log10", "log1p", "pow_exponent_slope", "xlogy"}  # functions of positive numbers
INSIDE = {"asin", "acos", "atanh"}  # of -1 to 1
OUTSIDE = {"acosh"}  # of 1 and above
UNIT = {"log_odds"}  # of 0 to 1
NUMBERS = {"lerp": (0.3,), "hardtanh": (-1.0, 0.5), "hardtanh_slope": (-1.0, 0.5)}


def arrays_of(name: str, size: int, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
    arrays = [rng.normal(size=size) * 3 for _ in range(DECLARED[name].arrays)]
    if name in INSIDE:
        arrays = [0.99 * np.sin(a) for a in arrays]
    if name in OUTSIDE:
        arrays = [2 + np.abs(a) for a in arrays]  # (a test halves them)
    if name in UNIT:
        arrays = [1 / (1 + np.exp(a)) for a in arrays]
    return [(np.abs(a) + 0.1 if name in POSITIVE else a).astype(dtype) for a in arrays]


def by_formula(function: Elementwise, arrays: list[np.ndarray], numbers: tuple) -> np.ndarray:
    """The formula in float64, on parts so small that NumPy takes each step."""
    parts = [np.array_split(a.astype(np.float64), -(-a.size // 2000)) for a in arrays]
    return np.concatenate([function.formula(cpu, *some, *numbers) for some in zip(*parts, strict=True)])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DECLARED)
def test_the_loop_computes_the_formula(name: str, size: int, dtype: str, rng: np.random.Generator) -> None:
    function = DECLARED[name]
    numbers = NUMBERS.get(name, (0.7, 1.1, 0.9)[: function.numbers])
    arrays = arrays_of(name, size, dtype, rng)
    kept, threads, found = [a.copy() for a in arrays], ferro.get_num_threads(), []
    try:
        for count in (1, 2):
            ferro.set_num_threads(count)
            found.append(of_arrays(name)(*arrays, *numbers))
    finally:
        ferro.set_num_threads(threads)
    assert found[0].dtype == dtype
    assert found[0].tobytes() == found[1].tobytes()
    assert all(a.tobytes() == k.tobytes() for a, k in zip(arrays, kept, strict=True))
    expected = by_formula(function, arrays, numbers)
    np.testing.assert_allclose(
        found[0], expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(expected).max()
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", DECLARED)
def test_results_are_written_into_arrays(name: str, dtype: str, rng: np.random.Generator) -> None:
    """Given ones, gaps between their elements or not, and the arguments themselves: the same bits."""
    function = DECLARED[name]
    numbers = NUMBERS.get(name, (0.7, 1.1, 0.9)[: function.numbers])
    for size in SIZES:
        arrays = arrays_of(name, size, dtype, rng)
        expected = of_arrays(name)(*arrays, *numbers)
        for k in range(-2, len(arrays)):
            given = [a.copy() for a in arrays]
            out = given[k] if k >= 0 else np.full((size, -k), 7, dtype)[:, 0]
            into(function, out, *given, *numbers)
            np.testing.assert_array_equal(out, expected)
            assert out.tobytes() == expected.tobytes()


def test_results_are_written_into_arrays_of_their_shape_and_dtype() -> None:
    out = np.full(6000, 7.0)
    for wrong in (np.ones(5999), np.ones(6000, np.float32)):
        with pytest.raises(ValueError, match=re.escape(f"shape {wrong.shape} and dtype {wrong.dtype}, not (6000,)")):
            into(DECLARED["sigmoid"], out, wrong)
    assert (out == 7).all()


@pytest.mark.parametrize("name", DECLARED)
def test_loops_keep_what_is_no_number_and_infinities(name: str) -> None:
    function = DECLARED[name]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 30, -30, 87, -87, 100, -100, 1e4, -1e4, 2e9, 1e30])
    numbers = NUMBERS.get(name, (0.7, 1.1, 0.9)[: function.numbers])
    for dtype in TOLERANCE:
        x = np.resize(special.astype(dtype), 5000)
        arrays = [np.ones_like(x)] * (function.arrays - 1) + [x]
        with np.errstate(all="ignore"):
            small = of_arrays(name)(*[a[: special.size] for a in arrays], *numbers)
            large = of_arrays(name)(*arrays, *numbers)[: special.size]
        finite = np.isfinite(small)
        np.testing.assert_array_equal(large[~finite], small[~finite])
        np.testing.assert_allclose(large[finite], small[finite], rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-30)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("name", DECLARED)
def test_sixteen_bits_are_rounded_once(name: str, size: int, dtype: str, rng: np.random.Generator) -> None:
    kind = ferro.tensor(0.0, dtype=getattr(ferro, dtype)).numpy().dtype
    arrays = [(a / 2).astype(kind) for a in arrays_of(name, size, "float32", rng)]  # (the largest float16 is e¹¹)
    numbers = NUMBERS.get(name, (0.7, 1.1, 0.9)[: DECLARED[name].numbers])
    found = of_arrays(name)(*arrays, *numbers)
    wide = of_arrays(name)(*[a.astype(np.float32) for a in arrays], *numbers)
    assert found.dtype == kind
    if DECLARED[name].formula.__name__ != "<lambda>":  # (of one ufunc NumPy rounds as it will)
        np.testing.assert_array_equal(found.astype(np.float32), wide.astype(kind).astype(np.float32))


# --- the operations ---------------------------------------------------------------------------------------------------


def cases() -> dict[str, tuple[str, Sample]]:
    """For each operation that an elementwise function computes, or is the derivative of, the samples of one tensor and numbers."""
    declared = [op for op in _operations() if {*op.formulas.values(), op.forward} & set(DECLARED.values())]
    found: dict[str, tuple[str, Sample]] = {}
    for op in declared:
        path = next((p for p in (f"nn.functional.{op.name.split('.')[-1]}", op.name) if p in ENTRIES), None)
        if path in (None, "nn.functional.hardsigmoid"):  # (PyTorch's slope is 1/6 in float32, and has no derivative)
            continue
        for sample in ENTRIES[path].samples:
            plain = [a for a in sample.args[1:] if not isinstance(a, (int, float))]
            if isinstance(sample.args[0], Arg) and not plain and sample.args[0].dtype is None:
                found.setdefault(f"{path} {sample.args[1:]} {sample.kwargs}", (path, sample))
    return found


def _operations() -> list[Op]:
    return [*COMPUTED.values(), *[op for op in ferro.core.op.OPS.values() if op.kind == "elementwise"]]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", cases())
def test_operations_and_two_derivatives_are_pytorchs(case: str, size: int, dtype: str, rng: Any, torch: Any) -> None:
    path, sample = cases()[case]
    x, g, h = (rng.normal(size=size).astype(dtype) for _ in range(3))
    results = []
    for library, kind in ((ferro, dtype), (torch, "float64")):
        function: Any = library
        for name in path.split("."):
            function = getattr(function, name)
        t, u, v = (library.from_numpy(a.astype(kind)) for a in (x, g, h))
        t.requires_grad_()
        u.requires_grad_()
        out = function(t, *sample.args[1:], **sample.kwargs)
        (first,) = library.autograd.grad(out, t, u, create_graph=True)
        second = library.autograd.grad(first, (t, u), v, allow_unused=True)
        results.append([a if a is None else a.detach().numpy() for a in (out, first, *second)])
    names = ("value", "first", "second", "second, by the cotangent")
    wrong = [n for n, a, b in zip(names, *results, strict=True) if not agree(a, b, dtype)]
    assert not wrong, f"wrong: {'; '.join(wrong)}"


def agree(found: Any, expected: Any, dtype: str) -> bool:
    if found is None or expected is None:
        return not np.any(found if expected is None else expected)
    tolerance = 10 * TOLERANCE[dtype]
    return found.dtype == dtype and np.allclose(
        found, expected, tolerance, tolerance * np.abs(expected).max(), equal_nan=True
    )


def test_the_cases_have_the_functions_that_matter() -> None:
    paths = {path for path, _ in cases().values()}
    assert {
        f"nn.functional.{name}" for name in ("relu", "gelu", "silu", "mish", "softplus", "elu", "logsigmoid")
    } <= paths
    assert {"sigmoid", "tanh", "sin", "cos", "erf"} <= paths


PLANTED = """
import importlib.machinery, importlib.util, pathlib, sys

NAME, FILE, OLD, NEW = {place}

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        text = pathlib.Path(FILE).read_text("utf-8")
        assert text.count(OLD) == 1
        return self.source_to_code(text.replace(OLD, NEW).encode(), FILE)

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, FILE, loader=Loader(name, FILE)) if name == NAME else None

sys.meta_path.insert(0, Finder())
"""
SOFTPLUS = "test_operations_and_two_derivatives_are_pytorchs and nn.functional.softplus and not margin"


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("xp.log1p(xp.exp(-abs(u)))) / beta", "xp.log1p(xp.exp(-abs(u)))) * (1.001 / beta)", "value"),
        ("g * xp.sigmoid(near)", "1.001 * g * xp.sigmoid(near)", "first; second; second, by the cotangent"),
    ],
    ids=["formula", "slope"],
)
def test_an_error_in_softplus_is_found_at_every_size(
    old: str, new: str, wrong: str, tmp_path: Path, torch: Any
) -> None:
    """The tests above are run on a softplus that is a thousandth off: each of them fails, and says what is wrong."""
    place = ("ferro.ops.activations", str(ROOT / "ferro" / "ops" / "activations.py"), old, new)
    (tmp_path / "planted.py").write_text(PLANTED.replace("{place}", repr(place)), "utf-8")
    order = ["-p", "planted", "-q", "--tb=line", "-rf", "-k", SOFTPLUS, "tests/cpu/test_elementwise.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *order],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    samples = [case for case in cases() if case.startswith("nn.functional.softplus ")]
    assert len(failed) == len(samples) * len(SIZES) * len(TOLERANCE) > 0, done.stdout[-2000:]
    assert all(f"wrong: {wrong}" in line for line in failed), done.stdout[-2000:]
    assert " passed" not in done.stdout


# --- the printer ------------------------------------------------------------------------------------------------------


def test_a_loop_says_each_step_once_in_a_line() -> None:
    text = text_of(DECLARED["softplus"])
    assert len(re.findall(r"\bexp\(", text)) == len(re.findall(r"\blog1p_unit\(", text)) == 1
    assert "T = out.dtype.type" in text


def test_what_no_loop_can_do_is_refused() -> None:
    def decides(xp: Any, x: Any) -> Any:
        return x if x > 0 else -x

    def asks_for_more(xp: Any, x: Any) -> Any:
        return xp.lgamma(x)

    for formula, said in ((decides, "decides by the elements"), (asks_for_more, "no loop computes lgamma")):
        function = Elementwise(formula, f"{formula.__name__} for a test", "")
        try:
            with pytest.raises(TypeError, match=said):
                text_of(function)
        finally:
            del DECLARED[function.__name__]
    with pytest.raises(ValueError, match="declared twice"):
        Elementwise(decides, "softplus", "")
