"""Products by the kernel of gemm.py, against NumPy in float64: shapes, strides, dtypes, starts, and cuts of the result."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ferro.cpu.kernels import gemm, tiles
from ferro.native import readiness, threads
from ferro.native.readiness import get
from tests.configuration import with_tiles

pytestmark = with_tiles

DTYPES = (np.float32, np.float64)
LAYOUTS = ("rows", "columns", "wide rows", "wide columns", "backwards", "neither")


def laid_out(x, layout):
    """An array equal to x whose matrices lie in memory as the word says."""
    *stack, m, n = x.shape
    if layout == "rows":
        return x.copy()
    if layout == "columns":
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if layout == "wide columns":
        return laid_out(x.swapaxes(-1, -2), "wide rows").swapaxes(-1, -2)
    if layout == "backwards":
        return x[..., ::-1, :].copy()[..., ::-1, :]
    wide = np.full((*stack, m, 2 * n + 3), np.nan, x.dtype)
    place = wide[..., 1 : n + 1] if layout == "wide rows" else wide[..., 1 : 2 * n + 1 : 2]
    place[...] = x
    return place


def numbers(rng, *shape, dtype):
    return rng.uniform(-1, 1, shape).astype(dtype)


def multiply(a, b, start=None, out=None):
    """The product by the kernel, into memory that is checked to be left alone around the result."""
    m, n = a.shape[-2], b.shape[-1]
    around = np.full((*a.shape[:-2], m + 2, n + 5), 7, a.dtype)
    place = around[..., 1 : m + 1, 2 : n + 2]
    gemm.multiply(a, b, place, start)
    found = place.copy()
    place[...] = 7
    assert (around == 7).all()
    return found


def check(found, a, b, start=None):
    """Within the bound of any summation in the dtype."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    if start is not None:
        exact, size = exact + start, size + np.abs(start)
    bound = (a.shape[-1] + 2) * np.finfo(found.dtype).eps * size
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_small_sizes(dtype):
    """Every height and width of a tile, and every rest of the unrolled loop."""
    rng = np.random.default_rng(0)
    for m, n in itertools.product((*range(1, 15), 24, 25), (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 65)):
        for k in (1, 2, 5, 8):
            a, b = numbers(rng, m, k, dtype=dtype), numbers(rng, k, n, dtype=dtype)
            check(multiply(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout_a", LAYOUTS)
@pytest.mark.parametrize("layout_b", LAYOUTS)
def test_layouts(dtype, layout_a, layout_b):
    """Small and large: with b where it lies and copied, a turned round or not, and several stretches of the inner dimension."""
    rng = np.random.default_rng(1)
    for m, k, n in (
        (5, 3, 4),
        (13, 17, 33),
        (64, 24, 64),
        (70, 130, 45),
        (200, 40, 100),
        (150, 700, 70),
        (1030, 70, 20),
    ):
        a, b = numbers(rng, m, k, dtype=dtype), numbers(rng, k, n, dtype=dtype)
        a, b = laid_out(a, layout_a), laid_out(b, layout_b)
        check(multiply(a, b), a, b)


def test_far_b_is_copied_for_few_rows():
    rng = np.random.default_rng(2)
    for m in (3, 40):
        a, b = numbers(rng, m, 600, dtype=np.float32), numbers(rng, 600, 1100, dtype=np.float32)
        check(multiply(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_a_page_apart(dtype):
    """Rows that share places of the cache are copied together: of a, and of b where it is turned round in its place."""
    rng = np.random.default_rng(10)
    page = 4096 // np.dtype(dtype).itemsize
    for m, k, n, step in ((30, 70, 110, page), (17, 600, 100, page), (130, page, 130, page), (25, 60, 97, 2 * page)):
        a, b = numbers(rng, m, step, dtype=dtype)[:, :k], numbers(rng, n, step, dtype=dtype)[:, :k].T
        check(multiply(a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_starts(dtype):
    rng = np.random.default_rng(3)
    a, b = numbers(rng, 3, 30, 600, dtype=dtype), numbers(rng, 3, 600, 50, dtype=dtype)
    for shape in ((3, 30, 50), (30, 50), (50,), (3, 1, 50), (30, 1), (1, 1)):
        start = numbers(rng, *shape, dtype=dtype)
        check(multiply(a, b, start), a, b, start)
    out = numbers(rng, 3, 30, 50, dtype=dtype)
    before = out.copy()
    gemm.multiply(a, b, out, out)
    check(out, a, b, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_how_the_result_is_cut_does_not_matter(dtype):
    rng = np.random.default_rng(4)
    run = get("product_part")
    for shape, k in (((1, 1, 100, 70), 1100), ((2, 3, 20, 40), 24), ((1, 1, 20, 300), 513), ((1, 1, 12, 64), 9)):
        *stack, m, n = shape
        a, b = numbers(rng, *stack, m, k, dtype=dtype), numbers(rng, *stack, k, n, dtype=dtype)
        whole = np.empty(shape, dtype)
        gemm.multiply(a, b, whole)
        columns = -(-n // tiles.COLUMNS[whole.itemsize])
        for high, length in ((2, 2 * stack[0] * stack[1]), (m, m * stack[0] * stack[1]), (0, columns)):
            for parts in {min(number, length) for number in (1, 2, 3, length)}:
                found = np.full(shape, np.nan, dtype)
                for part in range(parts):
                    arrays = found, a, b, found
                    steps = [step for some in zip(*[x.strides for x in arrays], strict=True) for step in some]
                    span = part * length // parts, (part + 1) * length // parts
                    run(*span, *[x[0, 0, :1, :1] for x in arrays], (*stack, m, k, n, 0, *steps, high))
                assert (found == whole).all()


@pytest.mark.parametrize(("m", "k", "n"), [(130, 130, 130), (400, 64, 300), (64, 400, 512)])
def test_numbers_are_the_same_for_two_threads(m, k, n):
    """Cut between rows, between columns because b is large, and because the tiles are few."""
    rng = np.random.default_rng(9)
    before = threads.get_num_threads()
    for layout_a, layout_b in itertools.product(("rows", "columns"), repeat=2):
        a = laid_out(numbers(rng, m, k, dtype=np.float32), layout_a)
        b = laid_out(numbers(rng, k, n, dtype=np.float32), layout_b)
        found = []
        for number in (1, 2):
            threads.set_num_threads(number)
            found.append(multiply(a, b))
            readiness.finish()
        found.append(multiply(a, b))
        threads.set_num_threads(before)
        check(found[0], a, b)
        assert (found[0] == found[1]).all()
        assert (found[0] == found[2]).all()


def test_nan_and_infinity_stay_where_they_belong():
    """What lies beside an operand in memory, or is left over in a vector, takes no part."""
    rng = np.random.default_rng(5)
    for layout_a, layout_b in itertools.product(LAYOUTS, LAYOUTS):
        a, b = numbers(rng, 20, 40, dtype=np.float32), numbers(rng, 40, 37, dtype=np.float32)
        a[3, 7], a[11, 0], b[5, 36] = np.inf, np.nan, -np.inf
        with np.errstate(invalid="ignore"):
            expected = a @ b
        found = multiply(laid_out(a, layout_a), laid_out(b, layout_b))
        assert (np.isnan(found) == np.isnan(expected)).all()
        assert (np.isinf(found) == np.isinf(expected)).all()
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-5)


def test_products_of_every_form(monkeypatch):
    """Through `gemm` itself: broadcast stacks, three dimensions of them, and what is left to BLAS."""
    rng = np.random.default_rng(6)
    readiness.ready(gemm._KERNELS, np.dtype(np.float32))
    readiness.finish()
    shapes = (
        ((64, 70), (70, 80)),
        ((3, 64, 70), (70, 80)),
        ((64, 70), (3, 70, 80)),
        ((2, 3, 64, 70), (2, 3, 70, 80)),
        ((2, 1, 64, 70), (3, 70, 80)),
        ((2, 1, 2, 30, 70), (2, 3, 1, 70, 80)),
        ((0, 64, 70), (70, 80)),
        ((64, 0), (0, 80)),
        ((1, 70), (70, 80)),
        ((100, 70), (70, 1)),
        ((70,), (70, 80)),
        ((64, 70), (70,)),
    )
    for shape_a, shape_b in shapes:
        a, b = numbers(rng, *shape_a, dtype=np.float32), numbers(rng, *shape_b, dtype=np.float32)
        found, expected = gemm.gemm(a, b), np.matmul(a, b)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        start = numbers(rng, *expected.shape[-1:], dtype=np.float32)
        np.testing.assert_allclose(gemm.gemm(a, b, start), expected + start, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="mismatch"):
        gemm.gemm(np.ones((64, 70), np.float32), np.ones((71, 80), np.float32))


@with_tiles
def test_a_start_of_one_number_and_results_of_several_products(rng: np.random.Generator) -> None:
    a, b, one = rng.normal(size=(64, 80)), rng.normal(size=(80, 96)), rng.normal(size=1)
    np.testing.assert_allclose(gemm.gemm(a, b, one), a @ b + one, rtol=1e-10)
    out = np.zeros((3, 64, 96))
    gemm.multiply(a[None], b[None], out)
    np.testing.assert_allclose(out, np.broadcast_to(a @ b, out.shape), rtol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "k", "n"), [(32, 32, 32), (48, 50, 47), (64, 64, 64), (100, 513, 100), (130, 140, 128)])
def test_near_products_however_the_matrices_lie(dtype, m, k, n, rng: np.random.Generator) -> None:
    readiness.ready(gemm._NEAR, np.dtype(dtype))
    readiness.finish()
    a, b = numbers(rng, m, k, dtype=dtype), numbers(rng, k, n, dtype=dtype)
    before = threads.get_num_threads()
    try:
        for count in (1, 2):
            threads.set_num_threads(count)
            for x, y in itertools.product((a, np.asfortranarray(a)), (b, np.asfortranarray(b))):
                check(gemm.near(x, y), x, y)
            assert gemm.near(a[:, ::-1], b) is None
            own = gemm.near(a, a.T)
            check(own, a, a.T)
            np.testing.assert_array_equal(own, own.T)
    finally:
        threads.set_num_threads(before)
