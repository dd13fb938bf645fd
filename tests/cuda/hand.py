"""What tests of kernels by hand share: all texts, arrays of every dtype, orders of threads."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ferro.cuda import by_hand, printer
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.driver import cupy
from ferro.elementwise import DECLARED
from ferro.loop_text import Unprintable
from tests.cuda import emulated

DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# For tests that take long: of numbers computed as they are, and of those that are widened, one dtype is run each time.
SOME = [pytest.param(dtype, marks=() if dtype in ("float32", "float16") else pytest.mark.slow) for dtype in DTYPES]
# What one rounding to the dtype, and a few operations before it, leave of the digits.
TOLERANCE = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
SEEDS = (0, 1, 2)


def families() -> dict[str, Callable[[str], list[str]]]:
    """The texts of each family, by its name, as a function of the dtype."""
    found = {}
    for info in pkgutil.iter_modules(by_hand.__path__):
        module = importlib.import_module(f"{by_hand.__name__}.{info.name}")
        if hasattr(module, "texts"):
            found[info.name] = module.texts
    return found


def all_texts(dtype: str) -> list[str]:
    """The texts of all families for a dtype."""
    return list(dict.fromkeys([text for make in families().values() for text in make(dtype)]))


@cache
def compiled_together() -> None:
    """Says what is compiled by one run of the compiler of the processor, when the first of it is asked for.

    The texts of a family and dtype, and the elementwise functions of each dtype that all samples are run in.
    """
    groups = [make(dtype) for make in families().values() for dtype in DTYPES]
    if not emulated.MORE_FLAGS:  # (with a sanitiser that takes minutes)
        groups += [printed_texts(dtype) for dtype in ("float32", "float64", "complex128")]
    for group in groups:
        texts = list(dict.fromkeys(group))
        emulated.TOGETHER.update({text: texts for text in texts if text not in emulated.TOGETHER})


def printed_texts(dtype: str) -> list[str]:
    """The texts of all elementwise functions that have one of a dtype."""
    found = []
    for made in DECLARED.values():
        if made.formula.__module__.startswith("ferro."):
            try:
                found.append(printer.text_of(made.__name__, made.formula, made.arrays, made.numbers, dtype))
            except Unprintable:
                assert dtype.startswith("complex"), made.__name__
    return found


def planted(text: str, fault: tuple[str, str], faults: Iterable[tuple[str, str]]) -> str:
    """The text with a fault planted, compiled together with those that have the others."""
    wrong = [text.replace(*each) for each in faults]
    assert text not in wrong, "a fault has no place in the text"
    emulated.TOGETHER.update(dict.fromkeys(wrong, wrong))
    return text.replace(*fault)


def there(a: np.ndarray) -> Any:
    """An array on the device."""
    return cupy().asarray(a)


def floats(rng: Any, shape: tuple, dtype: str, low: float = -2, high: float = 2) -> np.ndarray:
    """Numbers of a dtype between two others."""
    return rng.uniform(low, high, shape).astype(DTYPES[dtype])


def wide(a: Any) -> np.ndarray:
    """An array of the device or the processor as NumPy's in float64."""
    return (a if isinstance(a, np.ndarray) else a.get()).astype(np.float64)


def in_all_orders(run: Callable[[], Any], *names: str) -> Any:
    """What `run` gives, an array of the device or several, with the same bits in every order of threads; it launches these kernels
    once each, and no others.
    """
    bits, found = set(), None
    for seed in SEEDS:
        LAUNCHES.clear()
        with emulated.in_order(seed):
            found = run()
        assert sorted(LAUNCHES.elements()) == sorted(names), dict(LAUNCHES)
        each = found if isinstance(found, tuple) else (found,)
        bits.add(b"".join([a.get().tobytes() for a in each if a is not None]))
    assert len(bits) == 1, "the order of threads changes the result"
    return found


def close(got: Any, want: np.ndarray, dtype: str, what: str, scale: float | None = None) -> None:
    """Asserts that numbers of the device are those of float64 but for the dtype's rounding, relative to the largest."""
    tolerance = TOLERANCE[dtype]
    if scale is None:
        scale = float(np.abs(want[np.isfinite(want)]).max(initial=0)) if want.size else 0.0
    assert got.shape == want.shape, what
    np.testing.assert_allclose(wide(got), want, rtol=tolerance, atol=tolerance * scale, err_msg=what)
