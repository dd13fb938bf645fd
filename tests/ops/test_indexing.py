"""Indexing: keys of every kind, what is written where, duplicates, ties, large arrays and errors, against PyTorch."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")
BOTH = (torch, ferro)
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using a non-tuple sequence", "ignore:The reduce argument", "ignore:index_reduce"
)


def ramp(library: Any, *shape: int, grad: bool = False) -> Any:
    """1, 2, 3, ... in a tensor of some shape."""
    x = library.arange(1, int(np.prod(shape)) + 1, dtype=library.float64).reshape(shape)
    return x.clone().requires_grad_(grad)


# -- keys --------------------------------------------------------------------------------------------------------------

KEYS = [
    lambda t: 1,
    lambda t: -1,
    lambda t: np.int64(1),
    lambda t: t.tensor(1),
    lambda t: slice(1, None),
    lambda t: slice(-2, 10, 2),
    lambda t: slice(t.tensor(0), t.tensor(1)),
    lambda t: None,
    lambda t: Ellipsis,
    lambda t: (),
    lambda t: (Ellipsis, 0),
    lambda t: (0, Ellipsis, None, 1),
    lambda t: (slice(None), None, 1),
    lambda t: True,
    lambda t: False,
    lambda t: (None, True),
    lambda t: t.tensor(True),
    lambda t: t.tensor(False),
    lambda t: [0, 1, 1],
    lambda t: [],
    lambda t: [True, False],
    lambda t: [[0, 1], [1, 0]],
    lambda t: [slice(None), 0],
    lambda t: [None, 1],
    lambda t: np.array([1, 0]),
    lambda t: t.tensor([1, -2]),
    lambda t: t.tensor([1, 0], dtype=t.int32),
    lambda t: t.tensor([True, False]),
    lambda t: t.tensor([[0], [1]]),
    lambda t: range(2),
    lambda t: (t.tensor([1, 0]), t.tensor([2, 0])),
    lambda t: (t.tensor([1, 0]), slice(None), t.tensor([3, 0])),
    lambda t: (slice(None), [0, 2], [1, 1]),
    lambda t: (0, slice(None), [0, 2]),
    lambda t: ([0, 1], None, 1),
    lambda t: (Ellipsis, t.tensor([0, 3])),
    lambda t: (slice(None), t.tensor([[0, 1], [2, 2]])),
    lambda t: (t.tensor([[0], [1]]), t.tensor([0, 2])),
    lambda t: (t.tensor([0, 1]), True),
    lambda t: (slice(None), t.tensor([True, False, True]), slice(1, 3)),
    lambda t: t.ones(2, 3, dtype=t.bool),
    lambda t: t.zeros(2, 3, 4, dtype=t.bool),
    lambda t: t.arange(24).reshape(2, 3, 4) % 5 == 0,
    lambda t: (1, t.tensor([[True, False, False, True]] * 3)),
    lambda t: (t.tensor([], dtype=t.int64), 0),
    lambda t: (-1, -1, -1),
]


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_every_key_reads_and_writes_what_pytorch_does(number: int) -> None:
    found = []
    for library in BOTH:
        key = KEYS[number](library)
        x = ramp(library, 2, 3, 4, grad=True)
        y = x[key]
        (y * ramp(library, *y.shape)).sum().backward()
        base, value = ramp(library, 2, 3, 4, grad=True), ramp(library, *y.shape, grad=True)
        scalar = library.tensor(0.5, dtype=library.float64, requires_grad=True)
        z = base * 2
        z[key] = value
        z[key] = z[key] * 3
        (z * z).sum().backward()
        w = x * 1
        w[key] = scalar
        w.sum().backward()
        plain = ramp(library, 2, 3, 4)
        plain[key] = 7
        grads = [library.zeros_like(a) if a.grad is None else a.grad for a in (base, value, scalar)]
        found.append([a.tolist() for a in (y, x.grad, z, *grads, plain)] + [y._base is x])
    assert found[0] == found[1]


def _random_key(rng: random.Random, shape: tuple) -> list:
    """The parts of a key, as (kind, value)."""
    parts: list = []
    d = 0
    while d < len(shape) and rng.random() < 0.8:
        kind = rng.choice(["int", "slice", "none", "list", "tensor", "mask", "bool"])
        if kind == "none":
            parts.append((kind, None))
            continue
        if kind == "bool":
            parts.append((kind, rng.random() < 0.7))
            continue
        s = shape[d]
        value: Any = rng.randrange(-s, s)
        if kind == "slice":
            value = slice(rng.choice([None, 0, 1, -2]), rng.choice([None, 2, -1]), rng.choice([None, 1, 2]))
        elif kind in ("list", "tensor"):
            value = [rng.randrange(-s, s) for _ in range(2)]
        elif kind == "mask":
            value = [rng.random() < 0.5 for _ in range(s)]
        parts.append((kind, value))
        d += 1
    if rng.random() < 0.4:
        parts.insert(rng.randrange(len(parts) + 1), ("ellipsis", Ellipsis))
    return parts


def _key_of(library: Any, parts: list) -> tuple:
    return tuple([library.tensor(v) if k in ("tensor", "mask") else v for k, v in parts])


@pytest.mark.parametrize("seed", range(8))
def test_random_keys(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        shape = rng.choice([(3,), (2, 3), (3, 2, 2), (2, 1, 3, 2)])
        parts = _random_key(rng, shape)
        found: list = []
        for library in BOTH:
            x, key = ramp(library, *shape, grad=True), _key_of(library, parts)
            try:
                y = x[key]
            except IndexError:
                found.append(IndexError)
                continue
            z = x * 1
            z[key] = y * 2
            (z * z).sum().backward()
            found.append([y.tolist(), z.tolist(), x.grad.tolist(), y._base is x])
        assert found[0] == found[1], f"x{list(shape)}[{parts}]"


def test_assigned_values_are_broadcast_and_cast() -> None:
    for library in BOTH:
        x = library.zeros(2, 3)
        x[0] = library.tensor([[1, 2, 3]])  # leading dimensions of size 1 are dropped
        x[:, 1] = library.tensor(9, dtype=library.int32)
        x[library.tensor([1]), 2] = library.tensor([0.5])
        assert x.tolist() == [[1.0, 9.0, 3.0], [0.0, 9.0, 0.5]]
        with pytest.raises(RuntimeError):
            x[0] = library.ones(2)
        with pytest.raises(RuntimeError):
            x[library.tensor([0, 1])] = library.ones(2, 3, dtype=library.float64)
        with pytest.raises((RuntimeError, TypeError)):
            x[0] = 1j
        with pytest.raises(TypeError):
            x[0] = "1"
    n = ferro.zeros(2, dtype=ferro.int64)
    n[0] = 2.9
    assert n.tolist() == [2, 0]


def test_a_row_is_written_without_a_copy_of_the_tensor() -> None:
    x = ferro.zeros(1000, 1000)
    weight = ferro.ones(1000, requires_grad=True)
    index = ferro.tensor([5, 7])
    x[0] = 1.0
    tracemalloc.start()
    try:
        x[3] = weight
        x[index] = weight
        x.index_add_(0, index, ferro.ones(2, 1000))
        x.index_fill_(0, index, 2.0)
        x[4].masked_fill_(weight > 0, 3.0)
        x[5:7].zero_()
        assert tracemalloc.get_traced_memory()[1] < 400_000
    finally:
        tracemalloc.stop()
    x.sum().backward()
    assert weight.grad.tolist() == [1.0] * 1000


def test_the_index_may_not_change_before_backward() -> None:
    for library in BOTH:
        x = ramp(library, 4, grad=True)
        index = library.tensor([0, 1])
        y = x[index]
        index.add_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_masks_lists_and_arrays_may_change_before_backward() -> None:
    x = ramp(ferro, 4, grad=True)
    mask, array = ferro.tensor([True, True, False, False]), np.array([0, 3])
    z = x[mask].sum() + x[array].sum()
    mask.fill_(False)
    array[:] = 2
    z.backward()
    assert x.grad.tolist() == [2.0, 1.0, 0.0, 1.0]


# -- index_*, take, put ------------------------------------------------------------------------------------------------


def test_in_place_forms_write_through_views() -> None:
    calls = [
        lambda x, t: x.index_add_(0, t.tensor([1, 1]), ramp(t, 2, 2), alpha=0.5),
        lambda x, t: x.index_copy_(1, t.tensor([0]), ramp(t, 3, 1)),
        lambda x, t: x.index_fill_(0, t.tensor([-1, 0]), t.tensor(2.0, dtype=t.float64)),
        lambda x, t: x.put_(t.tensor([0, 5]), ramp(t, 2), True),
        lambda x, t: x.put_(t.tensor([1, 4]), ramp(t, 2)),
        lambda x, t: x.scatter_(0, t.tensor([[2, 0]]), ramp(t, 1, 2)),
        lambda x, t: x.scatter_(1, t.tensor([[0], [1]]), 5.0),
        lambda x, t: x.scatter_add_(1, t.tensor([[0, 0], [1, 1]]), ramp(t, 2, 2)),
        lambda x, t: x.masked_fill_(t.tensor([True, False]), 4.0),
        lambda x, t: x.scatter_reduce_(0, t.tensor([[0, 0]]), ramp(t, 1, 2), "amax"),
        lambda x, t: x.masked_scatter_(t.tensor([True, False]), ramp(t, 5)),
        lambda x, t: x.index_reduce_(0, t.tensor([0, 0]), ramp(t, 2, 2), "prod"),
        lambda x, t: x.index_put_((t.tensor([0, 0]),), ramp(t, 2), accumulate=True),
        lambda x, t: x.tril_(),
        lambda x, t: x.fill_diagonal_(9.0),
    ]
    for call in calls:
        found = []
        for library in BOTH:
            a = ramp(library, 3, 4, grad=True)
            b = a * 1
            call(b[:, ::2], library)
            (b * b).sum().backward()
            found.append((b.tolist(), a.grad.tolist(), b._version))
        assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_precision_are_rounded_once(dtype: str) -> None:
    d = getattr(ferro, dtype)
    x = ferro.ones(1, dtype=d)
    n = 3000  # added one by one, these would be lost
    small = ferro.full((n,), 2.0**-12, dtype=d)
    for total in (
        x.index_add(0, ferro.zeros(n, dtype=ferro.int64), small),
        x.scatter_add(0, ferro.zeros(n, dtype=ferro.int64), small),
    ):
        assert total.dtype is d
        assert abs(total.item() - (1 + n * 2.0**-12)) < 0.01


def test_duplicates_are_added_in_the_order_of_the_index(rng: np.random.Generator) -> None:
    values = rng.standard_normal(500).astype(np.float32) * 10.0 ** rng.integers(-6, 7, 500)
    values = values.astype(np.float32)
    total = np.float32(0)
    for v in values:
        total = np.float32(total + v)
    index = ferro.zeros(500, dtype=ferro.int64)
    for x in (
        ferro.zeros(1).index_add(0, index, ferro.from_numpy(values)),
        ferro.zeros(1).scatter_add(0, index, ferro.from_numpy(values)),
        ferro.zeros(1).index_put((index,), ferro.from_numpy(values), accumulate=True),
    ):
        assert x.item() == total


def test_large_arrays_give_what_small_ones_do(rng: np.random.Generator) -> None:
    """Kernels take arrays of thousands of elements: the same numbers as PyTorch's, bit for bit those of a sum in order."""
    a = rng.standard_normal((90, 80, 3))
    for dim in range(3):
        places = rng.integers(0, a.shape[dim], a.shape)
        line = rng.integers(0, a.shape[dim], a.shape[dim])
        found = []
        for library in BOTH:
            x, index = library.from_numpy(a.copy()).requires_grad_(), library.from_numpy(places)
            row = library.from_numpy(line)
            outs = [
                x.gather(dim, index),
                x.scatter_add(dim, index, x),
                x.index_select(dim, row),
                x.index_add(dim, row, x),
                x[(slice(None),) * dim + (row - 1,)],
            ]
            grads = library.autograd.grad(sum([(o * o).sum() for o in outs]), x)
            found.append([o.detach().numpy() for o in (*outs, *grads)])
        for want, got in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    source = np.argsort(rng.random((200, 40)), axis=0)
    x, s = ferro.zeros(200, 40, dtype=ferro.float64), ferro.from_numpy(rng.standard_normal((200, 40)))
    y = x.scatter(0, ferro.from_numpy(source), s)
    np.testing.assert_array_equal(np.take_along_axis(y.numpy(), source, 0), s.numpy())


def test_an_index_that_left_its_bounds_behind_our_back_is_found() -> None:
    places = np.zeros((100, 100), np.int64)
    x = ferro.ones(100, 100, requires_grad=True)
    y = x.gather(1, ferro.from_numpy(places))
    places[3, 3] = -5
    with pytest.raises(IndexError):
        y.sum().backward()


# -- scatter_reduce ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_with_ties_and_zeros(reduce: str, include_self: bool) -> None:
    found = []
    for library in BOTH:
        x = library.tensor([2.5, 1.0, 3.0, 5.0], dtype=library.float64, requires_grad=True)
        src = library.tensor([2.0, 0.0, 4.0, 7.0, 7.0, 0.0], dtype=library.float64, requires_grad=True)
        y = x.scatter_reduce(0, library.tensor([0, 1, 0, 2, 2, 2]), src, reduce, include_self=include_self)
        y.backward(library.tensor([1.0, 2.0, 3.0, 4.0], dtype=library.float64))
        found.append((y.tolist(), x.grad.tolist(), src.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
def test_scatter_reduce_where_the_input_takes_part_in_ties(reduce: str) -> None:
    found = []
    for library in BOTH:
        x = library.tensor([2.0, 0.0, 3.0, 5.0], dtype=library.float64, requires_grad=True)
        src = library.tensor([2.0, 0.0, 4.0, 3.0, 3.0], dtype=library.float64, requires_grad=True)
        y = x.scatter_reduce(0, library.tensor([0, 1, 0, 2, 2]), src, reduce)
        y.backward(library.tensor([1.0, 2.0, 3.0, 4.0], dtype=library.float64))
        found.append((y.tolist(), x.grad.tolist(), src.grad.tolist()))
    assert found[0] == found[1]


def test_what_is_left_out_takes_no_part_in_ties() -> None:
    x = ferro.tensor([2.0], requires_grad=True)
    src = ferro.tensor([2.0, 2.0], requires_grad=True)
    x.scatter_reduce(0, ferro.tensor([0, 0]), src, "amax", include_self=False).backward(ferro.ones(1))
    assert (x.grad.tolist(), src.grad.tolist()) == ([0.0], [0.5, 0.5])  # PyTorch counts x and gives each a third


def test_mean_of_integers_rounds_down() -> None:
    for library in BOTH:
        x = library.tensor([1, -2, 3])
        y = x.scatter_reduce(0, library.tensor([0, 0, 1]), library.tensor([2, 2, -3]), "mean")
        assert y.tolist() == [1, -3, 3]


def test_scatter_gives_every_duplicate_the_gradient_of_its_place() -> None:
    for library in BOTH:
        src = library.tensor([1.0, 2.0], requires_grad=True)
        library.zeros(2).scatter(0, library.tensor([1, 1]), src).sum().backward()
        assert src.grad.tolist() == [1.0, 1.0]


# -- masks and positions -----------------------------------------------------------------------------------------------


def test_nonzero_forms() -> None:
    for library in BOTH:
        x = library.tensor([[0, 2], [3, 0]])
        assert x.nonzero().tolist() == [[0, 1], [1, 0]]
        assert [i.tolist() for i in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
        assert [i.tolist() for i in library.tensor(5).nonzero(as_tuple=True)] == [[0]]
        assert library.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
        assert library.argwhere(x).dtype == library.int64


def test_masked_scatter_uses_the_first_elements_only() -> None:
    found = []
    for library in BOTH:
        x, src = ramp(library, 2, 3, grad=True), ramp(library, 2, 3, grad=True)
        y = x.masked_scatter(library.tensor([True, False, True]), src * 10)
        (y * y).sum().backward()
        found.append((y.tolist(), x.grad.tolist(), src.grad.tolist()))
    assert found[0] == found[1]


def test_an_infinity_that_was_filled_gives_no_nan() -> None:
    x = ferro.tensor([1.0, 0.0], requires_grad=True)
    y = (1 / x).masked_fill(x == 0, 0.0)
    y.backward(ferro.tensor([1.0, float("inf")]))
    assert x.grad[0].item() == -1.0


# -- errors ------------------------------------------------------------------------------------------------------------

WRONG = [
    lambda t: ramp(t, 3)[3],
    lambda t: ramp(t, 3)[-4],
    lambda t: ramp(t, 3)[0, 0],
    lambda t: t.tensor(1.0)[0],
    lambda t: ramp(t, 3)[::-1],
    lambda t: ramp(t, 3)[::0],
    lambda t: ramp(t, 3)[1.5],
    lambda t: ramp(t, 3)["a"],
    lambda t: ramp(t, 3)[t.tensor([0.5])],
    lambda t: ramp(t, 3)[t.tensor([3])],
    lambda t: ramp(t, 3)[[0, -4]],
    lambda t: ramp(t, 3)[t.tensor([True, False])],
    lambda t: ramp(t, 3, 3)[t.tensor([0, 1]), t.tensor([0, 1, 2])],
    lambda t: ramp(t, 3)[0:1.5],
    lambda t: ramp(t, 3).index_select(0, t.tensor([3])),
    lambda t: ramp(t, 3).index_select(0, t.tensor([-1])),
    lambda t: ramp(t, 3).index_select(0, t.tensor([0.0])),
    lambda t: ramp(t, 3).index_select(0, t.tensor([[0]])),
    lambda t: ramp(t, 3).index_select(1, t.tensor([0])),
    lambda t: t.tensor(1.0).index_select(0, t.tensor([0, 0])),
    lambda t: ramp(t, 3).index_add(0, t.tensor([0]), t.ones(1)),
    lambda t: ramp(t, 3).index_add(0, t.tensor([0, 1]), ramp(t, 1)),
    lambda t: ramp(t, 3, 2).index_add(0, t.tensor([0]), ramp(t, 1, 3)),
    lambda t: ramp(t, 3).index_add(0, t.tensor([5]), ramp(t, 1)),
    lambda t: ramp(t, 3).index_copy(0, t.tensor([0, 1]), ramp(t, 1)),
    lambda t: ramp(t, 3).index_copy(0, t.tensor([3]), ramp(t, 1)),
    lambda t: ramp(t, 3).index_fill(0, t.tensor([3]), 1.0),
    lambda t: ramp(t, 3).index_fill(0, t.tensor([0]), ramp(t, 1)),
    lambda t: ramp(t, 3).index_put((t.tensor([0]),), t.ones(1)),
    lambda t: ramp(t, 3).index_put((t.tensor([3]),), ramp(t, 1)),
    lambda t: ramp(t, 3).index_put((t.tensor([0, 1]),), ramp(t, 3)),
    lambda t: ramp(t, 3).index_put(t.tensor([0]), ramp(t, 1)),
    lambda t: ramp(t, 3).take(t.tensor([3])),
    lambda t: ramp(t, 3).take(t.tensor([0.0])),
    lambda t: ramp(t, 3).put(t.tensor([0, 1]), ramp(t, 1)),
    lambda t: ramp(t, 3).put(t.tensor([0]), t.ones(1)),
    lambda t: ramp(t, 3).gather(0, t.tensor([3])),
    lambda t: ramp(t, 3).gather(0, t.tensor([-1])),
    lambda t: ramp(t, 3).gather(0, t.tensor([[0]])),
    lambda t: ramp(t, 2, 3).gather(0, t.zeros(1, 4, dtype=t.int64)),
    lambda t: ramp(t, 3).gather(0, t.tensor([0.0])),
    lambda t: ramp(t, 3).scatter(0, t.tensor([0, 1]), ramp(t, 1)),
    lambda t: ramp(t, 3).scatter(0, t.tensor([3]), 1.0),
    lambda t: ramp(t, 3).scatter(0, t.tensor([0]), t.ones(1)),
    lambda t: ramp(t, 3).scatter(0, t.tensor([0]), 1.0, reduce="min"),
    lambda t: ramp(t, 3).scatter_add(0, t.tensor([3]), ramp(t, 1)),
    lambda t: ramp(t, 3).index_reduce(0, t.tensor([0]), ramp(t, 1), "sum"),
    lambda t: t.take_along_dim(ramp(t, 3), t.tensor([[0]]), 0),
    lambda t: t.take_along_dim(ramp(t, 3), t.tensor([0.0]), 0),
    lambda t: ramp(t, 3).masked_fill(t.tensor([1, 0, 1]), 0.0),
    lambda t: ramp(t, 3).masked_fill(t.tensor([True, False]), 0.0),
    lambda t: ramp(t, 3).masked_fill(t.tensor([True]), ramp(t, 1)),
    lambda t: ramp(t, 3).masked_fill_(t.ones(2, 3, dtype=t.bool), 0.0),
    lambda t: ramp(t, 3).masked_select(t.tensor([1.0, 0.0, 0.0])),
    lambda t: ramp(t, 3).masked_scatter(t.tensor([True]), ramp(t, 2)),
    lambda t: ramp(t, 3).masked_scatter(t.tensor([True]), t.ones(3)),
    lambda t: ramp(t, 3).copy_(ramp(t, 2)),
    lambda t: ramp(t, 3).copy_("1"),
    lambda t: ramp(t, 3).fill_(ramp(t, 1)),
    lambda t: ramp(t, 3).fill_(1j),
    lambda t: t.unravel_index(t.tensor([0.5]), (2, 3)),
    lambda t: t.nonzero_static(ramp(t, 2), size=-1),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_raise_what_pytorch_raises(number: int) -> None:
    call = WRONG[number]
    with pytest.raises(Exception) as want:  # noqa: PT011 - the type is what is compared
        call(torch)
    with pytest.raises(type(want.value)):
        call(ferro)


def test_a_refused_write_changes_nothing() -> None:
    x = ramp(ferro, 4)
    before, version = x.tolist(), x._version
    writes: list = [
        lambda: x.index_add_(0, ferro.tensor([0, 9]), ramp(ferro, 2)),
        lambda: x.index_copy_(0, ferro.tensor([0, 9]), ramp(ferro, 2)),
        lambda: x.scatter_(0, ferro.tensor([0, 9]), 1.0),
        lambda: x.put_(ferro.tensor([0, 9]), ramp(ferro, 2)),
        lambda: x.index_put_((ferro.tensor([0, 9]),), ramp(ferro, 2)),
        lambda: x.__setitem__(ferro.tensor([0, 9]), 1.0),
        lambda: x.__setitem__(slice(0, 2), ferro.ones(3)),
        lambda: x.masked_scatter_(x > 0, ramp(ferro, 2)),
    ]
    for write in writes:
        with pytest.raises((IndexError, RuntimeError)):
            write()
        assert (x.tolist(), x._version) == (before, version)


@pytest.mark.parametrize("n", [32, 33, 63])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_at_places_of_many_dimensions(n: int, turned: bool) -> None:
    """NumPy's `add.at` ends the process with more than 32 arrays of indices."""
    x = np.arange(6.0).reshape((3, 2) + (1,) * (n - 2))
    t = ferro.from_numpy(x.swapaxes(0, 1).copy()).transpose(0, 1) if turned else ferro.from_numpy(x.copy())
    index, ones = ferro.zeros((1, 2) + (1,) * (n - 2), dtype=ferro.int64), ferro.ones_like(t)
    assert t.scatter_add(0, index, ones).flatten().tolist() == [1, 2, 2, 3, 4, 5]
    assert t.scatter_reduce(0, index, ones * 7, "amax").flatten().tolist() == [7, 7, 2, 3, 4, 5]
    assert t.scatter_add(0, index[:0], ones[:0]).flatten().tolist() == [0, 1, 2, 3, 4, 5]
    places = (ferro.tensor([2, 2]), ferro.tensor([1, 1]), *[ferro.tensor([0, 0])] * (n - 2))
    if turned and n > 32:
        with pytest.raises(IndexError, match="32"):
            t.index_put_(places, ferro.ones(2, dtype=t.dtype), accumulate=True)
    else:
        t.index_put_(places, ferro.ones(2, dtype=t.dtype), accumulate=True)
        assert t.flatten().tolist() == [0, 1, 2, 3, 4, 7]
