"""What tensors and the program's arrays share is the memory alone: a shape, dtype or flag given to the one is not the other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro


class Giver:
    """Has an array, and gives it to whoever asks."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


INTO: dict[str, Callable] = {
    "from_numpy": ferro.from_numpy,
    "as_tensor": ferro.as_tensor,
    "as_tensor, of an object": lambda a: ferro.as_tensor(Giver(a)),
    "as_tensor, dtype": lambda a: ferro.as_tensor(a, dtype=ferro.float32),
    "asarray": ferro.asarray,
    "asarray, of an object": lambda a: ferro.asarray(Giver(a)),
    "asarray, no copy": lambda a: ferro.asarray(a, copy=False),
    "from_dlpack": ferro.from_dlpack,
    "frombuffer": lambda a: ferro.frombuffer(a, dtype=ferro.float32),
    "set_": lambda a: ferro.empty(0).set_(ferro.from_numpy(a)),
    "data": lambda a: _with_data(ferro.from_numpy(a)),
    "default_convert": lambda a: ferro.utils.data.default_convert(a),
}
OUT_OF: dict[str, Callable] = {
    "numpy": lambda t: t.numpy(),
    "numpy, forced": lambda t: t.numpy(force=True),
    "detach": lambda t: t.detach().numpy(),
    "data": lambda t: t.data.numpy(),
    "asarray": np.asarray,
    "array": lambda t: np.array(t, copy=False),
    "from_dlpack": np.from_dlpack,
}
SPOILS: dict[str, Callable] = {
    "shape": lambda a: a.__setattr__("shape", (2, 3)),
    "dtype": lambda a: a.__setattr__("dtype", np.int32),
    "strides": lambda a: a.__setattr__("strides", (0,)),
    "writeable": lambda a: a.setflags(write=False),
}


def _with_data(t: Any) -> Any:
    other = ferro.empty(1)
    other.data = t
    return other


def spoil(array: Any, how: str) -> None:
    """Changes what an array says of its memory, where NumPy lets it."""
    try:
        SPOILS[how](array)
    except (AttributeError, ValueError, TypeError, DeprecationWarning):
        pytest.skip("this NumPy refuses it")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", sorted(SPOILS))
@pytest.mark.parametrize("door", sorted(INTO))
def test_what_is_done_to_an_array_that_became_a_tensor(door: str, how: str) -> None:
    a = np.arange(6, dtype=np.float32)
    t = INTO[door](a)
    spoil(a, how)
    assert (t.shape, t.dtype, t.stride()) == ((6,), ferro.float32, (1,))
    t.add_(1)
    assert t.tolist() == [1, 2, 3, 4, 5, 6]
    assert np.shares_memory(a, t.numpy())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", sorted(SPOILS))
@pytest.mark.parametrize("door", sorted(OUT_OF))
def test_what_is_done_to_an_array_that_a_tensor_became(door: str, how: str) -> None:
    t = ferro.arange(6, dtype=ferro.float32)
    a = OUT_OF[door](t)
    assert np.shares_memory(a, t.numpy())
    spoil(a, how)
    assert (t.shape, t.dtype, t.stride()) == ((6,), ferro.float32, (1,))
    t.add_(1)
    assert t.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("door", ["from_numpy", "as_tensor", "asarray"])
def test_an_array_that_became_a_tensor_is_not_resized(door: str) -> None:
    a = np.arange(6, dtype=np.float32)
    t = INTO[door](a)
    with pytest.raises(ValueError, match="resize"):
        a.resize(600)
    assert t.tolist() == [0, 1, 2, 3, 4, 5]
    b = t.numpy()
    with pytest.raises(ValueError, match="resize"):
        b.resize(600)


def test_a_subclass_of_array_becomes_a_tensor_of_a_plain_one() -> None:
    class Own(np.ndarray):
        def __add__(self, other: Any) -> Any:
            raise AssertionError

    for door in ("from_numpy", "as_tensor", "asarray"):
        t = INTO[door](np.ones(3, np.float32).view(Own))
        assert type(t.numpy()) is np.ndarray
        assert (t + t).tolist() == [2, 2, 2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_gradient_seen_as_an_array_is_added_into_all_the_same() -> None:
    """`.grad` and its arrays share their memory, as in PyTorch."""
    x = ferro.ones(5000, requires_grad=True)
    (x * 2).sum().backward()
    seen = x.grad.numpy()
    seen.shape = (50, 100)
    (x * 2).sum().backward()
    assert (seen == 4).all()
    assert x.grad.shape == (5000,)
