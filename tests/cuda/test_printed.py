"""The CUDA text of elementwise formulas, compiled by g++ and run: it computes what the formulas compute, of any dtype and strides."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ferro
from ferro.cuda import kernels, printer
from ferro.elementwise import DECLARED
from ferro.loop_text import Unprintable
from tests.cuda import emulated, hand, stand_in
from tests.helpers import of_arrays

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="g++ is absent, which compiles the printed kernels")
NAMES = sorted(name for name, made in DECLARED.items() if made.formula.__module__.startswith("ferro."))
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
DTYPES |= {"complex64": np.complex64, "complex128": np.complex128}
TOLERANCE = {
    "float32": 3e-6,
    "float64": 1e-14,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 4e-6,
    "complex128": 2e-14,
}
SHAPES = [(1,), (2,), (3,), (4,), (5,), (7,), (8,), (9,), (15,), (16,), (17,), (31,), (255,), (256,), (257,), (1000,)]
SHAPES += [(3, 5), (0, 4), (2, 3, 4), (33, 31)]


def text_of(name: str, dtype: str) -> str:
    """The kernels of a declared function, or of one that formulas know by this name."""
    if name not in DECLARED:  # (NumPy computes it where there is AVX-512)
        return printer.text_of(name, lambda xp, x: getattr(xp, name)(x), 1, 0, dtype)
    made = DECLARED[name]
    return printer.text_of(name, made.formula, made.arrays, made.numbers, dtype)


def has(name: str, dtype: str) -> bool:
    """Whether a function has kernels of a dtype: those that compare or round have none of complex numbers."""
    try:
        text_of(name, dtype)
    except Unprintable:
        return False
    return True


# Of numbers that are widened and of complex ones, one dtype is run each time.
SLOW = {"bfloat16", "complex64"}
CASES = [(name, dtype) for name in NAMES for dtype in DTYPES if has(name, dtype)]


@pytest.fixture(scope="module", autouse=True)
def _compiled_together() -> None:
    """All texts of a dtype by one run of the compiler, when the first of them is asked for."""
    for dtype in DTYPES:
        texts = hand.printed_texts(dtype)
        emulated.TOGETHER.update(dict.fromkeys(texts, texts))


def arguments(name: str, rng: Any, shape: tuple, dtype: str) -> tuple[list, list]:
    """Arrays and numbers between 0.1 and 0.9, which every function takes."""
    made, least = DECLARED[name], 1.1 if name == "acosh" else 0.1
    arrays = [rng.uniform(least, least + 0.8, shape).astype(DTYPES[dtype]) for _ in range(made.arrays)]
    if dtype.startswith("complex"):
        arrays = [a + (1j * rng.uniform(-0.9, 0.9, shape)).astype(a.dtype) for a in arrays]
    return arrays, [round(float(rng.uniform(0.2, 0.8)), 3) for _ in range(made.numbers)]


def run(name: str, dtype: str, arrays: list, numbers: list) -> np.ndarray:
    """The kernel over arrays of one shape."""
    out = stand_in.there(np.full(arrays[0].shape, 3, DTYPES[dtype]))
    kernel = emulated.Kernel(text_of(name, dtype), "flat")
    given = [stand_in.there(np.ascontiguousarray(a)) for a in arrays]
    kernel((3,), (32,), (np.int64(out.size), *given, *map(np.float64, numbers), out))
    last = np.full(arrays[0].size + 2, 3, DTYPES[dtype])  # (arrays that do not begin where 16 bytes can be read)
    if arrays[0].size and dtype != "complex128":
        moved = [stand_in.there(np.concatenate([a.reshape(-1)[:1], a.reshape(-1)]))[1:] for a in arrays]
        kernel((2,), (64,), (np.int64(out.size), *moved, *map(np.float64, numbers), stand_in.there(last)[1:]))
        assert last[1:-1].tobytes() == out.near.tobytes()
        assert last[0] == last[-1] == 3
    return out.near


@pytest.mark.parametrize(
    ("name", "dtype"), [pytest.param(*case, marks=pytest.mark.slow if case[1] in SLOW else ()) for case in CASES]
)
def test_kernels_compute_what_the_formulas_compute(name: str, dtype: str) -> None:
    rng = np.random.default_rng(len(name))
    for shape in SHAPES:
        arrays, numbers = arguments(name, rng, shape, dtype)
        kind = np.complex128 if dtype.startswith("complex") else np.float64
        want = of_arrays(name)(*[a.astype(kind) for a in arrays], *numbers)
        got = run(name, dtype, arrays, numbers).astype(kind)
        scale = max(float(np.abs(want).max(initial=0)), 1.0)
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale, err_msg=str(shape))


@pytest.mark.parametrize("name", ["softplus", "gelu_slope", "addcmul"])
def test_nan_and_infinity_are_those_of_the_formula(name: str) -> None:
    made = DECLARED[name]
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -700.0])
    arrays, numbers = [odd] * made.arrays, [1.5] * made.numbers
    with np.errstate(all="ignore"):
        want = of_arrays(name)(*arrays, *numbers)
    np.testing.assert_allclose(run(name, "float64", arrays, numbers), want, rtol=1e-14)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
def test_one_launch_for_arrays_of_any_strides_and_broadcasting(dtype: str) -> None:
    cupy = kernels.cupy()
    rng = np.random.default_rng(3)
    x, y = (cupy.asarray(rng.uniform(0.1, 0.9, (4, 6)).astype(DTYPES[dtype])) for _ in range(2))
    pairs = [
        (x, y),
        (x.T, y.T),
        (x[:, ::-1], y),
        (x[::2], y[1::2]),
        (x, y[:1]),
        (x[:, :1], y[:1]),
        (x, y[0, :1]),
        (x[1], y[:, 2:3]),
    ]
    pairs += [(cupy.broadcast_to(x[:1], (4, 6)), y), (x[1:1], y[1:1]), (x[0, 0], y[0, 0])]
    made = DECLARED["lerp_number"]
    for a, b in pairs:
        before = kernels.LAUNCHES["count"]
        got = kernels.elementwise(made, a, b, 0.25)
        assert kernels.LAUNCHES["count"] - before == (1 if got.size else 0)
        kind = np.complex128 if dtype == "complex128" else np.float64
        wide_a, wide_b = a.get().astype(kind), b.get().astype(kind)
        want = wide_a + (wide_b - wide_a) * 0.25
        assert got.shape == want.shape
        np.testing.assert_allclose(got.get().astype(kind), want, rtol=TOLERANCE[dtype])


@pytest.mark.usefixtures("cuda")
def test_other_arguments_are_computed_step_by_step() -> None:
    x = ferro.tensor([1, 2, 3]).to("cuda")
    z = ferro.tensor([1 + 2j, 3 - 1j]).to("cuda")
    before = kernels.LAUNCHES["count"]
    assert ferro.lerp(z, z + 1, 0.5j).tolist() == [1 + 2.5j, 3 - 0.5j]  # a complex number
    assert ferro.add(x, x).tolist() == [2, 4, 6]
    assert kernels.LAUNCHES["count"] == before
    np.testing.assert_allclose(ferro.sigmoid(z).tolist(), 1 / (1 + np.exp([-1 - 2j, -3 + 1j])), rtol=1e-6)
    assert kernels.LAUNCHES["count"] == before + 1


def test_complex_functions_are_those_of_numpy_far_from_zero() -> None:
    parts = np.array([-300.0, -20, -3, -1e-8, -0.0, 0.0, 1e-8, 0.5, 2, 25, 300])
    z = (parts[:, None] + 1j * parts).reshape(-1)
    for name, function in {"exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}.items():
        some = z[z != 0] if name == "log" else z
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(run(name, "complex128", [some], []), function(some), rtol=1e-13, err_msg=name)
    some = z[z != 0]
    np.testing.assert_allclose(run("rsqrt", "complex128", [some], []), 1 / np.sqrt(some), rtol=1e-13)


def test_a_planted_fault_is_found() -> None:
    """Wrong indices of packs and of what is left are seen by the comparison above."""
    text = text_of("lerp_number", "float32")
    faults = [
        ("load(a1[i])", "load(a1[i > 0 ? i - 1 : 0])"),
        ("load(y1.v[j])", "load(y1.v[0])"),
        ("aligned ? n / each : 0", "n"),
        ("load(", "load("),  # (none)
    ]
    arrays, numbers = arguments("lerp_number", np.random.default_rng(0), (103,), "float32")
    given = [stand_in.there(a) for a in arrays]
    agree = []
    for before, after in faults:
        wrong = text.replace(before, after)
        out = stand_in.there(np.zeros(103 * 4, np.float32))
        some = [stand_in.there(np.concatenate([a.near, np.ones(309, np.float32)])) for a in given]
        emulated.Kernel(wrong, "flat")((2,), (32,), (np.int64(103), *some, np.float64(numbers[0]), out))
        right = np.allclose(out.near[:103], of_arrays("lerp_number")(*arrays, *numbers), rtol=1e-5)
        agree.append(bool(right and not out.near[103:].any()))
    assert agree == [False, False, False, True]


def test_all_declared_functions_have_a_kernel_and_no_array_is_read_twice() -> None:
    for name in NAMES:
        flat = text_of(name, "float32").split("void strided")[0]
        for pattern in (r"load\((a\d+)\[i\]\)", r"\(\(const Pack<S>\*\)(a\d+)\)\[i\]"):
            assert re.findall(pattern, flat) == [f"a{k}" for k in range(DECLARED[name].arrays)], name


def test_a_formula_that_no_kernel_computes_is_refused_by_name() -> None:
    with pytest.raises(Unprintable, match="no kernel computes cumsum"):
        printer.text_of("running", lambda xp, x: xp.cumsum(x), 1, 0, "float32")
