"""In-place operations and out= on slices: what NumPy gives, nothing else changed, histories as anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import inplace

# What writes into u, with v of its shape, and the same of arrays.
CHANGES: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda u, v: u.add_(v), lambda u, v: u + v),
    "iadd": (lambda u, v: u.__iadd__(v), lambda u, v: u + v),
    "sub row": (lambda u, v: u.sub_(v[-1]), lambda u, v: u - v[-1]),
    "mul number": (lambda u, v: u.mul_(0.5), lambda u, v: u * u.dtype.type(0.5)),
    "div": (lambda u, v: u.div_(v), lambda u, v: u / v),
    "relu": (lambda u, v: u.relu_(), lambda u, v: np.maximum(u, 0)),
    "neg": (lambda u, v: u.neg_(), lambda u, v: -u),
    "itself": (lambda u, v: u.mul_(u), lambda u, v: u * u),
    "add out": (lambda u, v: ferro.add(u, v, out=u), lambda u, v: u + v),
    "sqrt out": (lambda u, v: ferro.sqrt(v, out=u), lambda u, v: np.sqrt(v)),
}
SLICES: dict[str, Callable] = {
    "inside": lambda x: x[1:-1, 1:-1],
    "columns": lambda x: x[:, 3:],
    "second rows": lambda x: x[::2],
    "second columns": lambda x: x[:, ::2],
    "transposed": lambda x: x.T[2:, 1:],
    "of three dimensions": lambda x: x.reshape(len(x) // 4, 4, -1)[1:, 1:3, 1:],
    "one row": lambda x: x[2],
}


def _numbers(rows: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, rows + 8)).astype(dtype)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("rows", [8, 120, 400])  # copied, row by row, shared among threads
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", SLICES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_slice_becomes_what_numpy_gives_and_the_rest_stays(
    change: str, part: str, dtype: Any, rows: int, grad: bool
) -> None:
    ours, theirs = CHANGES[change]
    base = _numbers(rows, dtype)
    expected, x = base.copy(), ferro.from_numpy(base.copy())
    there = SLICES[part](expected)
    v = np.abs(_numbers(rows, dtype)[1:, :].ravel()[: there.size]).reshape(there.shape) + dtype(0.5)
    there[...] = theirs(there, v)
    with ferro.set_grad_enabled(grad):
        for _ in range(2):  # the second view is that of a base that has been changed
            x.copy_(ferro.from_numpy(base))
            u = SLICES[part](x)
            version = x._version
            assert ours(u, ferro.from_numpy(v)) is u
            assert x._version == version + 1
    assert x.numpy().tobytes() == expected.tobytes()
    assert not x.requires_grad


@pytest.mark.parametrize("rows", [8, 120, 400])
def test_parts_of_one_memory_are_read_before_they_are_written(rows: int) -> None:
    base = _numbers(rows, np.float32)
    expected, x = base.copy(), ferro.from_numpy(base.copy())
    with pytest.raises(RuntimeError, match="single memory location"):
        x.view(-1)[1:].add_(x.view(-1)[:-1])
    x[:, 1:].add_(x[:, :-1])
    expected[:, 1:] = base[:, 1:] + base[:, :-1]
    assert x.numpy().tobytes() == expected.tobytes()
    ferro.add(x[:, 1:], 1.0, out=x[:, :-1])
    expected[:, :-1] = expected[:, 1:] + np.float32(1)
    assert x.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("rows", [8, 400])
def test_histories_of_slices_are_kept(rows: int) -> None:
    base = _numbers(rows, np.float64)
    leaf = ferro.from_numpy(base.copy()).requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[:, 1:].mul_(2.0)
    x = leaf * 1.0
    part = x[:, 1:]
    part.mul_(3.0)
    x.sum().backward()
    expected = np.ones_like(base)
    expected[:, 1:] = 3
    assert leaf.grad is not None
    assert leaf.grad.numpy().tobytes() == expected.tobytes()
    plain, weight = (
        ferro.from_numpy(base.copy()),
        ferro.ones(base.shape[1] - 1, dtype=ferro.float64, requires_grad=True),
    )
    early = plain[:, 1:]
    early.mul_(weight)  # gives the base a history
    assert plain.requires_grad
    assert early.requires_grad
    early.mul_(2.0)
    plain.sum().backward()
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), 2 * base[:, 1:].sum(0))
    with ferro.no_grad():
        leaf[:, 1:].mul_(2.0)
    assert leaf.detach().numpy().tobytes() == (base * np.array([1.0] + [2.0] * (base.shape[1] - 1))).tobytes()


@pytest.fixture
def _every_time() -> Iterator[None]:
    """Warnings that are given once in a process, every time."""
    ferro.set_warn_always(True)
    yield
    ferro.set_warn_always(False)


@pytest.mark.usefixtures("_every_time")
@pytest.mark.parametrize("grad", [True, False])
def test_expanded_and_locked_memory_is_refused(grad: bool) -> None:
    with ferro.set_grad_enabled(grad):
        for rows in (8, 400):
            x = ferro.from_numpy(_numbers(rows, np.float32))
            with pytest.raises(RuntimeError, match="single memory location"):
                x[:, :1].expand(rows, 64).add_(1.0)
            locked = _numbers(rows, np.float32)
            locked.flags.writeable = False
            with pytest.warns(UserWarning, match="not writable"):
                x = ferro.from_numpy(locked)
            with pytest.raises(RuntimeError, match="read-only"):
                x[:, 1:].add_(1.0)


def test_a_large_slice_is_written_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the general way, which computes a copy")

    monkeypatch.setattr(inplace, "change", refuse)
    x, v = ferro.zeros(400, 400), ferro.ones(398, 398)
    x[1:-1, 1:-1].add_(v)
    x[1:-1, 1:-1] += v
    assert x.sum().item() == 2 * 398 * 398
