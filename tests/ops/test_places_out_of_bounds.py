"""An index out of bounds is refused in the same words whether NumPy or a kernel finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu


@pytest.mark.parametrize("size", [4, 300])
@pytest.mark.parametrize("wrong", [-1, "size"])
@pytest.mark.parametrize("dim", [0, 1])
def test_refused(size: int, wrong: int | str, dim: int) -> None:
    bad = size if wrong == "size" else int(wrong)
    x = ferro.ones(size, size, requires_grad=True)
    index = ferro.zeros(size, size, dtype=ferro.int64)
    index[1, 2] = bad
    words = rf"index {bad} is out of bounds for dimension {dim} with size {size}"
    with pytest.raises(RuntimeError, match=rf"gather\(\): {words}"):
        x.gather(dim, index)
    for name in ("scatter", "scatter_add", "scatter_", "scatter_add_"):
        given = x.detach().clone()
        with pytest.raises(RuntimeError, match=rf"{name}\(\): {words}"):
            getattr(given, name)(dim, index, x.detach())
        assert (given == 1).all()
    with pytest.raises(RuntimeError, match=rf"index_select\(\): {words}: INDICES element is out of DATA bounds"):
        x.index_select(dim, index[1])
    if dim == 0:
        with pytest.raises(IndexError, match="index out of range"):
            ferro.nn.functional.embedding(index[1], x)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(500, 96), (40, 50, 33), (3, 400, 40), (900, 2)])
def test_slices_taken_and_added_by_any_number_of_threads(threads: int, shape: tuple, rng: np.random.Generator) -> None:
    before = ferro.get_num_threads()
    ferro.set_num_threads(threads)
    try:
        x = rng.uniform(-1, 1, shape).astype(np.float32)
        for dim in range(len(shape)):
            index = rng.integers(0, shape[dim], 700)
            taken = np.take(x, index, dim)
            np.testing.assert_array_equal(cpu.index_select(x, dim, index), taken)
            want = np.zeros(shape, np.float32)
            key: Any = (slice(None),) * dim + (index,)
            np.add.at(want, key, taken)  # in the order of the index
            np.testing.assert_array_equal(cpu.select_spread(taken, shape, dim, index), want)
    finally:
        ferro.set_num_threads(before)
