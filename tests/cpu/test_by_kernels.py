"""Functions that choose between kernels and a formula: the same numbers on both sides of each threshold, from the declaration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ferro.cpu.array_function import DECLARED as OF_ROWS
from ferro.cpu.by_kernels import ABSENT, DECLARED, ByKernels, sides
from ferro.native import isa, loader, readiness, registry, threads
from ferro.native.entries import fallback
from ferro.native.kernel import Kernel
from tests.configuration import with_kernels

FLOATS = (np.float32, np.float64)
ALWAYS = {
    "avg_pool",
    "cholesky",
    "ctc_fwd",
    "ctc_occupancy",
    "drawn",
    "max_pool",
    "resample",
    "resample_spread",
}  # by a kernel, of however few numbers
SINGLE = {"erfc", "lgamma"}  # that have kernels in single precision alone
if not isa.has_fma():
    SINGLE |= {"floor_divide", "fmod", "remainder"}
DOUBLE = {"power"}  # in double precision


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


@pytest.fixture(params=DECLARED.values(), ids=list(DECLARED))
def made(request: pytest.FixtureRequest) -> ByKernels:
    return request.param


def maker(dtype: Any) -> Callable[..., Any]:
    rng = np.random.default_rng(0)
    return lambda *shape: rng.uniform(-1, 1, shape).astype(dtype)


def each(change: Callable[[Any], Any], value: Any) -> Any:
    """The arrays in a value changed."""
    if isinstance(value, (tuple, list)):
        return type(value)([each(change, v) for v in value])
    return change(value) if isinstance(value, np.ndarray) else value


def wide(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def apart(x: Any) -> Any:
    """The same numbers, every other one of a larger array."""
    if x.ndim == 0 or not x.flags.writeable:
        return x
    large = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    large[..., ::2] = x
    return large[..., ::2]


def arrays(found: Any) -> list[Any]:
    """The arrays in a result, or in arguments."""
    if isinstance(found, (tuple, list)):
        return [a for part in found for a in arrays(part)]
    return [found] if isinstance(found, (np.ndarray, np.generic)) else []


def public(function: Callable) -> Callable:
    """What its module has by its name: the function behind its entries, its results laid in memory."""
    return vars(sys.modules[function.__module__]).get(function.__name__, function)


@with_kernels
@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_compute_what_the_formula_computes(made: ByKernels, dtype: Any) -> None:
    """Of arrays that lie anyhow, with the same bits for any number of threads; arguments that change do so alike."""
    functions = {fallback(made.function), public(made.function)}
    for function in functions:
        for given, *more in zip(*[made.examples(maker(dtype)) for _ in range(4)], strict=True):
            with readiness.as_if("off"):
                wide_given = each(wide, more[0])
                wanted = fallback(made.function)(*wide_given)
            found = []
            for count, some in ((1, given), (2, more[1])):
                threads.set_num_threads(count)
                found.append((function(*some), some))
            for one, two in zip(*map(arrays, found), strict=True):
                assert one.tobytes() == two.tobytes()
            near(made, given, found[0][0], wanted, dtype)
            near_all(arrays(given), arrays(wide_given), dtype)
            spread = each(apart, more[2])
            near(made, given, function(*spread), wanted, dtype)
            near_all(arrays(spread), arrays(wide_given), dtype)


def near(made: ByKernels, given: tuple, found: Any, wanted: Any, dtype: Any) -> None:
    """Equal up to some roundings of numbers of that size."""
    if made.unique is not None:
        found, wanted = made.unique(given, found), made.unique(given, wanted)
    near_all(arrays(found), arrays(wanted), dtype)


def near_all(found: list, wanted: list, dtype: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        if a.dtype.itemsize == 2:  # (bit by bit: tests/cpu/test_conversions.py)
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), 2**-7)
            continue
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        assert a.dtype in (dtype, np.float64) or b.dtype == np.float32
        bound = 4000 * float(np.finfo(dtype).eps) * max(np.abs(b[np.isfinite(b)]).max(initial=0), 1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)


@with_kernels
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_kernel_is_reached_on_one_side_and_none_on_the_other(
    made: ByKernels, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not loader.SUPPORTED and any(name.endswith("_numbers") for name in made.kernels):
        pytest.skip("small draws are left to Python where Numba itself runs the kernels")
    called: set[str] = set()
    call = Kernel.__call__

    def note(self: Kernel, *args: Any) -> Any:
        called.add(self.name.removesuffix(".rows"))
        return call(self, *args)

    monkeypatch.setattr(Kernel, "__call__", note)
    wanted = {name for name in made.kernels if name not in ABSENT}
    reached, found = set(), []
    for given in made.examples(maker(dtype)):
        called.clear()
        fallback(made.function)(*given)
        found.append(called.isdisjoint(wanted))
        reached |= called
    if made.function.__name__ in (SINGLE if dtype is np.float64 else DOUBLE):
        wanted = set()
    if any("double" in name for name in wanted):  # (kernels of one precision each)
        wanted = {name for name in wanted if ("double" in name) == (dtype is np.float64)}
    assert wanted <= reached
    assert any(found) or not wanted or made.function.__name__ in ALWAYS


def test_every_kernel_belongs_to_a_declared_function() -> None:
    """But those of the worker pool, and what is printed."""
    declared = {name for made in DECLARED.values() for name in made.kernels}
    declared |= {name for made in OF_ROWS.values() for name in made.kernels}
    modules = [module for module in registry.modules() if module.startswith("ferro.cpu")]
    there = {name for module in modules for name in registry.names(module)}
    assert there
    assert there == declared


def test_sides_of_a_threshold() -> None:
    assert sides(27, 3) == (2, 3)
    assert sides(28, 3) == (3, 4)
    assert sides(1000) == (999, 1000)
    for least in (2, 4096, 1 << 16, (1 << 18) + 1, 1 << 21):
        for power in (1, 2, 3):
            below, above = sides(least, power)
            assert below**power < least <= above**power
