"""What a type checker knows of results: pyright reads this file in `make lint`, and the tests see that it is true."""

from __future__ import annotations

from typing import Any, assert_type

import ferro
from ferro import Tensor
from ferro.core.size import Size


def test_operators_are_tensors() -> None:
    x = ferro.tensor([1.0, 2.0])
    found = [
        assert_type(x + 1, Tensor),
        assert_type(1 + x, Tensor),
        assert_type(x - x, Tensor),
        assert_type(1 - x, Tensor),
        assert_type(x * 2, Tensor),
        assert_type(2 / x, Tensor),
        assert_type(x / 2, Tensor),
        assert_type(x // 2, Tensor),
        assert_type(x % 2, Tensor),
        assert_type(x**2, Tensor),
        assert_type(2**x, Tensor),
        assert_type(-x, Tensor),
        assert_type(abs(x), Tensor),
        assert_type(x @ x, Tensor),
        assert_type(x < 1, Tensor),
        assert_type(x >= 1, Tensor),
        assert_type(~(x > 1), Tensor),
        assert_type((x > 1) & (x < 3), Tensor),
        assert_type(x[0], Tensor),
    ]
    x += 1
    x *= x
    found += [assert_type(x, Tensor), *x]
    assert [type(f) for f in found] == [Tensor] * len(found)


def test_methods_say_what_they_return() -> None:
    x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = [
        assert_type(x.to(ferro.float64), Tensor),
        assert_type(x.double(), Tensor),
        assert_type(x.clone(), Tensor),
        assert_type(x.detach(), Tensor),
        assert_type(x.max(), Tensor),
        assert_type(x.median(), Tensor),
        assert_type(ferro.min(x), Tensor),
        assert_type(x.sum(0).sqrt().clamp(min=1), Tensor),
        assert_type(ferro.where(x > 1, x, 0), Tensor),
        assert_type(x.add_(1).mul_(2).exp_(), Tensor),
        assert_type(x.uniform_(1, 2), Tensor),
        assert_type(x.t_(), Tensor),
        assert_type(x.index_fill_(0, ferro.tensor([0]), 1.0), Tensor),
        assert_type(ferro.sigmoid_(x), Tensor),
        assert_type(ferro.expand_copy(x, (2, 2)), Tensor),
    ]
    assert [type(f) for f in found] == [Tensor] * len(found)


def test_what_is_no_tensor() -> None:
    x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert assert_type(x.sum().item(), int | float | bool) == 10
    assert assert_type(x.size(), Size) == (2, 2)
    assert assert_type(x.size(0), int) == 2
    assert assert_type(x.stride(), tuple[int, ...]) == (2, 1)
    assert assert_type(x.stride(1), int) == 1
    assert assert_type(x.type(), str) == x.type()
    assert [len(i) for i in assert_type(ferro.where(x > 2), tuple[Tensor, ...])] == [2, 2]
    pair: Any = x.max(0)
    assert pair.indices.tolist() == [1, 1]
