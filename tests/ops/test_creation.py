"""New tensors: ``out=`` of every kind, dtypes given as Python's types, complex bounds; against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")

MAKE = {
    "rand": lambda t, **k: t.rand(2, 3, **k),
    "randn": lambda t, **k: t.randn(2, 3, **k),
    "randint": lambda t, **k: t.randint(3, 9, (2, 3), **k),
    "randperm": lambda t, **k: t.randperm(6, **k),
    "zeros": lambda t, **k: t.zeros(2, 3, **k),
    "ones": lambda t, **k: t.ones(2, 3, **k),
    "empty": lambda t, **k: t.empty(2, 3, **k),
    "full": lambda t, **k: t.full((2, 3), 7.0, **k),
    "linspace": lambda t, **k: t.linspace(0, 1, 6, **k),
    "logspace": lambda t, **k: t.logspace(0, 1, 6, **k),
    "arange": lambda t, **k: t.arange(0, 3, 0.5, **k),
    "range": lambda t, **k: t.range(0, 2.5, 0.5, **k),
    "eye": lambda t, **k: t.eye(2, 3, **k),
}
RANDOM = ("rand", "randn", "randint", "randperm", "empty")
OUT = {
    "of that shape": lambda t, shape: t.full(shape, -1.0),
    "empty": lambda t, shape: t.empty(0),
    "too large": lambda t, shape: t.full((4, 5), -1.0),
    "too small": lambda t, shape: t.full((2,), -1.0),
    "of doubles": lambda t, shape: t.full(shape, -1.0, dtype=t.float64),
    "of as many": lambda t, shape: t.full((3, 2 * shape[0] // 3 * (shape[1] if len(shape) == 2 else 1)), -1.0)[:, ::2],
    "transposed": lambda t, shape: t.full(shape[::-1], -1.0).t() if len(shape) == 2 else t.full((12,), -1.0)[::2],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OUT)
@pytest.mark.parametrize("name", MAKE)
def test_out_is_written(name: str, kind: str) -> None:
    found = {}
    for library in (torch, ferro):
        out = OUT[kind](library, tuple(MAKE[name](library).shape))
        same = MAKE[name](library, out=out)
        assert same is out
        found[library] = out
    got, want = found[ferro].numpy(), found[torch].numpy()
    assert (got.shape, got.dtype, tuple(found[ferro].stride())) == (want.shape, want.dtype, found[torch].stride())
    if name in RANDOM:
        assert name == "empty" or (got != -1).all()
    else:
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "write",
    [
        lambda t, out: t.exp(t.zeros(2, 3), out=out),
        lambda t, out: t.full((2, 3), 1.0, out=out),
        lambda t, out: t.add(t.zeros(2, 3), 1, out=out),
        lambda t, out: t.cat([t.ones(1, 3), t.ones(1, 3)], out=out),
        lambda t, out: t.mm(t.eye(2), t.ones(2, 3), out=out),
    ],
)
@pytest.mark.parametrize(
    "view",
    [
        lambda b: b[2:8].view(2, 3),
        lambda b: b.view(4, 3)[::2],
        lambda b: b.view(3, 4)[:, 1:3].t(),
        lambda b: b[1:3],
        lambda b: b[4:],
    ],
)
def test_a_view_as_out_writes_into_its_base(write: Any, view: Any) -> None:
    found = []
    for library in (torch, ferro):
        base = library.zeros(12)
        out = view(base)
        write(library, out)
        found.append((base.tolist(), out.tolist(), out.stride(), out.storage_offset()))
    assert found[0][:2] == found[1][:2]
    assert found[0][2:] == (tuple(found[1][2]), found[1][3])


@pytest.mark.parametrize("library", [torch, ferro])
def test_resizing_an_out_that_is_not_empty_warns(library: Any) -> None:
    with pytest.warns(UserWarning, match="An output with one or more elements was resized since it had shape"):
        library.add(library.ones(3), 1, out=library.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.add(library.ones(3), 1, out=library.empty(0))


@pytest.mark.parametrize("kind", [float, complex, int, bool])
def test_pythons_types_are_dtypes(kind: type) -> None:
    name = str(torch.zeros(1, dtype=kind).dtype).partition(".")[2]
    for made in (ferro.zeros(1, dtype=kind), ferro.ones(1).to(kind), ferro.tensor([1], dtype=kind)):
        assert made.dtype is getattr(ferro, name)
    for t in (torch, ferro):  # (this method alone takes names and old types)
        with pytest.raises(ValueError, match=f"invalid type: '{kind.__name__}'"):
            t.ones(1).type(kind)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.linspace(0, 1j, 3),
        lambda t: t.linspace(1 + 2j, 3, 4),
        lambda t: t.logspace(0, 1j, 3),
        lambda t: t.linspace(t.tensor(1j), 2, 3),
        lambda t: t.linspace(0, 1j, 3, dtype=t.complex128),
        lambda t: t.linspace(0, 5, 3, dtype=t.complex64),
    ],
)
def test_complex_bounds(make: Any) -> None:
    got, want = make(ferro).numpy(), make(torch).numpy()
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_complex_bounds_and_a_real_dtype_are_refused(name: str) -> None:
    for library in (torch, ferro):
        with pytest.raises(RuntimeError, match="can't be safely cast to passed dtype"):
            getattr(library, name)(0, 1j, 3, dtype=library.float32)


SIZED: dict[str, Any] = {
    "zeros": lambda f: f.zeros(size=(2, 3)),
    "ones_list": lambda f: f.ones(size=[2]),
    "empty": lambda f: f.empty(size=(2,)),
    "rand": lambda f: f.rand(size=()),
    "randn": lambda f: f.randn(size=(2, 1)),
    "new_zeros": lambda f: f.ones(1).new_zeros(size=(2,)),
    "new_ones": lambda f: f.ones(1).new_ones(size=(2,)),
    "new_empty": lambda f: f.ones(1).new_empty(size=(2,)),
    "randint_size": lambda f: f.randint(1, size=(2,)),
    "randint_high": lambda f: f.randint(high=1, size=(2,)),
    "randint_all": lambda f: f.randint(low=2, high=3, size=(2,)),
    "twice": lambda f: f.zeros(2, size=(3,)),
    "number": lambda f: f.zeros(size=3),
    "randint_number": lambda f: f.randint(5, 3),
    "randint_below": lambda f: f.randint(-3, -1, (2,), dtype=f.uint8),
    "randint_above": lambda f: f.randint(0, 300, (2,), dtype=f.uint8),
    "randint_bool": lambda f: f.randint(0, 3, (2,), dtype=f.bool),
    "bernoulli_out": lambda f: f.bernoulli(f.ones(3), out=f.zeros(3, dtype=f.int64)),
    "bernoulli_ints": lambda f: f.bernoulli(f.ones(3, dtype=f.int64)),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_and_bounds_by_name_are_taken_and_refused_as_torch_does(torch: Any, name: str) -> None:
    def outcome(f: Any) -> Any:
        try:
            t = SIZED[name](f)
        except (TypeError, RuntimeError, NotImplementedError) as e:
            return type(e), str(e).replace(" (position 2)", "")
        return tuple(t.shape), str(t.dtype).split(".")[1], t.tolist() if t.dtype == f.int64 else None

    ours, theirs = outcome(ferro), outcome(torch)
    if isinstance(theirs[0], type):
        assert ours[0] is theirs[0]
        assert theirs[1] in ours[1]
    else:
        assert ours == theirs


def test_an_array_that_is_read_only_is_warned_of_once_and_cannot_be_written(torch: Any) -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    ferro.set_warn_always(True)
    try:
        with pytest.warns(
            UserWarning,
            match="The given NumPy array is not writable, and PyTorch does not support non-writable tensors",
        ):
            t = ferro.from_numpy(array)
    finally:
        ferro.set_warn_always(False)
    with pytest.raises(RuntimeError, match="read-only"):
        t.add_(1)


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (4, 4), (5, 9), (9, 5), (600, 700), (700, 600)])
@pytest.mark.parametrize("offset", [-800, -3, 0, 1, 6, 800])
def test_places_of_triangles_are_those_of_numpy(rows: int, columns: int, offset: int) -> None:
    wanted = [np.triu_indices(rows, offset, columns), np.tril_indices(rows, offset, columns)]
    for found, places in zip((ferro.triu_indices, ferro.tril_indices), wanted, strict=True):
        np.testing.assert_array_equal(found(rows, columns, offset).numpy(), np.array(places))
        small = found(rows, columns, offset, dtype=ferro.int8)  # (places beyond 127 wrap around, as in PyTorch)
        np.testing.assert_array_equal(small.numpy(), np.array(places).astype(np.int8))


@pytest.mark.parametrize("size", [1, 5, 40_000, 100_000])
def test_equal_sees_one_other_element_and_nan(size: int) -> None:
    x = ferro.arange(size).float()
    assert ferro.equal(x, x.clone())
    assert ferro.equal(x.flip(0), x.flip(0).clone())
    for place in {0, size // 2, size - 1}:
        y = x.clone()
        y[place] = -1
        assert not ferro.equal(x, y)
        y[place] = float("nan")
        assert not ferro.equal(y, y)
