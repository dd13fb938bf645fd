"""A call of every kernel, by way of the functions around them, with arrays just large enough for one."""

from __future__ import annotations

import numpy as np

from ferro.cpu import ctc, grids, interpolation, masks, mean_pooling, pooling
from ferro.cpu.array_function import DECLARED
from ferro.cpu.by_kernels import DECLARED as BY_KERNELS
from ferro.cpu.kernels import (
    broadcast,
    gather_scatter,
    reduce,
    scan,
    strided_copy,
)
from ferro.cpu.kernels.common import pointwise, share_rows
from ferro.cpu.thresholds import SUM_LEAST
from ferro.elementwise import DECLARED as ELEMENTWISE
from ferro.native.readiness import get
from ferro.native.work_queue import HALT, SIZE
from ferro.native.workers import run_parts, run_rows


def call_all() -> None:
    """In float32 and in float64."""
    for dtype in (np.float32, np.float64):
        x = np.linspace(0, 1, 64 * 64, dtype=dtype).reshape(64, 64)
        _call_strided_copy(x)
        _call_products(dtype)
        _call_elementwise(x)
        _call_rows(x)
        _call_channels(x)
        _call_images(x.reshape(4, 4, 16, 16))
        _call_taps(x)
        _call_sequences(dtype)
        _call_along(x)
        _call_random(dtype)
    _call_workers()


def _call_workers() -> None:
    numbers = np.zeros(SIZE, np.int64)
    numbers[HALT] = 1
    for name in ("set_up", "wake"):
        get(name)(numbers.ctypes.data)
    get("serve")(numbers.ctypes.data, 1, 0)
    get("move.rows")(0, 0, 0, 0, 0, 0, 0, 0, 1, np.zeros(0, np.int64))
    get("run_program")(0, 0, np.zeros(8, np.int64))
    get("run_program.rows")(0, 0, 0, 0, 0, 0, 0, 0, np.zeros(8, np.int64))


def _call_strided_copy(x: np.ndarray) -> None:
    strided_copy.triangle(x, 0, True)
    broadcast.combine(0, x, x[0], 64, x.copy())
    mask = x > 0
    masks.select(mask, x, x)
    masks.masked_select(x, mask)
    masks.masked_scatter_(x.copy(), mask, x)
    run_rows("transposed", 1, 1, (0, 1, x[None], x[None].copy()), -1, 0)


def _call_products(dtype: type) -> None:
    """The functions that choose kernels, on both sides of their thresholds."""

    def make(*shape: int) -> np.ndarray:
        return np.ones(shape, dtype)

    for made in BY_KERNELS.values():
        for arguments in made.examples(make):
            made.function(*arguments)


def _call_elementwise(x: np.ndarray) -> None:
    for function in ELEMENTWISE.values():
        pointwise(function.__name__, *[x] * function.arrays, parameters=(0.5,) * function.numbers)
    y = x.reshape(-1)
    pointwise("hypot", x, x)
    for name in ("fmod", "remainder", "floor_divide"):
        get(name)(y, y, y.copy())
    get("loss_sum")(0, y, y, 1.0)
    run_parts("loss_add", 2, (0, y, y, 1.0, np.zeros(2)))
    get("loss_each")(y, y, 1.0, 1.0, y.copy())
    get("loss_vjp")(y, y, 0, 1.0, 1.0, y.copy())


def _call_rows(x: np.ndarray) -> None:
    for made in DECLARED.values():
        for arguments in made.examples(x):
            made.function(*arguments)


def _call_channels(x: np.ndarray) -> None:
    large = np.broadcast_to(x, (SUM_LEAST // x.size, *x.shape)).copy()
    for power in (1, 2):
        for kind in {x.dtype, np.dtype(np.float64)}:
            reduce.total(large, (2,), True, kind, None, power)
            reduce.total(large, (1,), True, kind, None, power)
            reduce.total(large, (0,), True, kind, None, power)
    for largest in (True, False):
        reduce.extreme(x, 0, 1, largest)
        reduce.extreme(x, 1, 2, largest)
    reduce.first_extreme(x, 0, True)
    for kind in {x.dtype, np.dtype(np.float64)}:
        reduce.product(x, 0, kind)
        reduce.product(x, 1, kind)
    reduce.quotients(reduce.product(x, 1), x, 1)
    for name in ("cumprod", "logcumsumexp"):
        scan.scan(name, 0, (x,))
    scan.scan("cumsum", 0, (x,), False)
    for dim in (0, 1):
        scan.running_extremum(x, dim, True)
    scan.scan("affine_scan", 0, (x, x), False)
    share_rows("first_of_rows", len(x), 1, (x, True, x[:, :2].copy(), np.zeros((len(x), 2), np.int64)))
    scan.scan("picked_sum", 0, (x, np.zeros(x.shape, np.int64)))


def _call_images(x: np.ndarray) -> None:
    one = (1, 1)
    size, zero = x.shape[2:], (0, 0)
    best, places = pooling.max_pool(x, one, size, one, zero, one)
    pooling.pool_scatter(best, places, size)
    mean_pooling.avg_spread(mean_pooling.avg_pool(x, one, size, one, zero, 1), size, one, one, zero, 1)


def _call_taps(x: np.ndarray) -> None:
    interpolation.resample(x, (("linear", 64, 64, None, False), ("linear", 64, 64, None, False)))
    planes, index = x.reshape(1, 1, -1), np.arange(x.size).reshape(1, 1, -1)
    grids.spread_taps(grids.sample_taps(planes, planes, index), planes, index, x.size)
    grids.weigh_taps(planes, planes, index)
    grids.tap_places(x.reshape(1, 2, -1), (4, 4), "bilinear", "zeros", False)
    grids.tap_weights(x.reshape(1, 2, -1), (4, 4), "bilinear", "zeros", 0)


def _call_sequences(dtype: type) -> None:
    y, labels, ones = np.zeros((2, 1, 2), dtype), np.array([[0, 1, 0]]), np.array([1])
    ctc.ctc_occupancy(y, np.zeros((0, *y.shape)), labels, ones, ones)


def _call_random(dtype: type) -> None:
    state, spare, out = np.ones(625, np.uint32), np.zeros(1), np.zeros(16, dtype)
    get("uniform_numbers")(state, out)
    get("normal_numbers")(state, 0.0, 1.0, out)
    if dtype is np.float64:
        get("pair_numbers")(state, spare, out)
        for name in ("gamma_numbers", "poisson_numbers", "binomial_numbers"):
            get(name)(state, spare, np.ones((8, 16)), out)
        get("shuffle")(state, np.arange(16))
        get("whole_numbers")(state, 0, 2, False, np.arange(16))


def _call_along(x: np.ndarray) -> None:
    gather_scatter.gather(x, 0, np.zeros(x.shape, np.int64))
    gather_scatter.gather(x, 1, np.zeros(x.shape, np.int64))
    for dim in (0, 1):
        for name in ("scatter", "scatter_add"):
            gather_scatter.write(name, x.copy(), dim, np.zeros(x.shape, np.int64), x)
        gather_scatter.add_slices(x.copy(), dim, np.arange(64), x)
    run_rows("take", 1, 64, (0, 64, 64, x, np.arange(64), x.copy()), -1, 0)
    gather_scatter.count_bins(x.reshape(-1), x[0, 0], x[0, 1], 2)
