"""Random numbers that replace the content of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.batched.draws import check_unbatched
from ferro.batched.levels import RUNNING
from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.base import TensorBase, bump, wrap
from ferro.core.inplace import change
from ferro.core.random import stream_of
from ferro.core.writes import unrecorded
from ferro.ops.filling import COPY, fits

if TYPE_CHECKING:
    from ferro.tensor import Tensor

from ferro.ops.bounds import digits_of, exact_bounds, held_by, whole_bounds
from ferro.ops.random import check_continuous, in_memory_order
from ferro.ops.sampling import bernoulli, coins, multinomial, probabilities


def _fill(self: Any, name: str, make: Any) -> Any:
    """Replaces the content of a tensor by what make(shape, order) draws; its old history ends with zero gradient."""
    data = self._data
    if type(data) is np.ndarray and data.flags.c_contiguous and not RUNNING.get() and unrecorded(self):
        data[...] = make(data.shape, None)
        bump(self, name)
        return self
    if RUNNING.get():
        check_unbatched(data, RUNNING.get())

    def drawn(x: Any) -> Any:
        numbers = as_array(in_memory_order(data, make)).astype(data.dtype, copy=False)
        return apply(COPY, (x, wrap(backend.beside(data, numbers))))

    return change(self, name, drawn)


def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **bounds: float) -> Tensor:
    """Fills the tensor with uniform random numbers from [from, to).

    - `self` (Tensor): any shape, floating
    - `from_` (float, default 0.0): the least
    - `to` (float, default 1.0): the upper end
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `**bounds` (float): the same by PyTorch's name `from`

    RuntimeError for from > to, NotImplementedError for integers.

    Example::

        >>> import ferro
        >>> ferro.zeros(2).uniform_(3.0, 3.0)
        tensor([3., 3.])
    """
    low = bounds.get("from", bounds.get("a", from_))
    d = self.dtype
    if d.is_floating_point:
        most = dtypes.finfo(d).max
        for words, bound in (("from", low), ("to", to)):
            if not -most <= bound <= most:
                raise RuntimeError(f"uniform_: {words} is out of bounds for {dtypes.C_NAMES[d]}: {bound}")
    if low > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    if d.is_floating_point and to - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{dtypes.type_name(d)}>::max(), but found to={to:g} and "
            f"from={low:g} which result in to-from to exceed the limit"
        )
    check_continuous("uniform", self._data.dtype)
    return _fill(
        self, "uniform_", lambda shape, _: stream_of(generator, self._data).uniform(shape, self._data.dtype, low, to)
    )


def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with normal random numbers."""
    if std < 0:
        raise RuntimeError(f"normal_: normal expects std >= 0.0, but found std {std}")
    check_continuous("normal", self._data.dtype)
    return _fill(
        self,
        "normal_",
        lambda shape, order: stream_of(generator, self._data).normal(shape, self._data.dtype, mean, std, order is None),
    )


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fills with ones of probability p, else zeros."""
    if not isinstance(p, TensorBase):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        return _fill(self, "bernoulli_", lambda shape, _: coins(shape, float(p), generator, self._data))
    chance = probabilities("bernoulli_", p._data)
    if not fits(chance.shape, self._data.shape):
        have, want = list(chance.shape), list(self._data.shape)
        raise RuntimeError(
            f"bernoulli_: the probabilities, of shape {have}, cannot be expanded to the shape {want} of the tensor"
        )
    if chance.dtype not in dtypes.INEXACT:
        asked = dtypes.type_name(dtypes.FROM_NUMPY[chance.dtype])
        raise NotImplementedError(
            f"bernoulli_: \"bernoulli_tensor_cpu_p_\" not implemented for '{asked}': probabilities are real"
        )

    def make(shape: tuple, order: Any) -> Any:
        p = chance if order is None else backend.xp_of(chance).expand(chance, self._data.shape).transpose(order)
        return coins(shape, p, generator, self._data)

    return _fill(self, "bernoulli_", make)


def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with exponentially distributed numbers of rate lambd."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _refuse_continuous("Exponential", self.dtype)
    d = self._data.dtype
    return _fill(self, "exponential_", lambda shape, _: stream_of(generator, self._data).exponential(shape, d, lambd))


def _refuse_continuous(name: str, d: dtypes.dtype) -> None:
    """RuntimeError for a dtype that cannot hold the numbers of a continuous distribution."""
    if not d.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {dtypes.type_name(d)}"
        )


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fills with numbers whose logarithm is normal."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"log_normal_cpu\" not implemented for '{dtypes.type_name(self.dtype)}': use a floating-point dtype"
        )
    d = self._data.dtype
    return _fill(self, "log_normal_", lambda shape, _: stream_of(generator, self._data).log_normal(shape, d, mean, std))


def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with Cauchy distributed numbers."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _refuse_continuous("Cauchy", self.dtype)
    d = self._data.dtype
    return _fill(self, "cauchy_", lambda shape, _: stream_of(generator, self._data).cauchy(shape, d, median, sigma))


def geometric_(self: Any, p: float, *, generator: Any = None) -> Tensor:
    """Fills with the number of trials up to the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _fill(
        self, "geometric_", lambda shape, _: stream_of(generator, self._data).geometric(shape, self._data.dtype, p)
    )


_ABSENT: Any = object()


def random_(self: Any, from_: int = _ABSENT, to: int | None = _ABSENT, *, generator: Any = None) -> Tensor:
    """Fills with random integers from [from, to); random_(to) counts from 0; without `to`, or None, all that are exact."""
    d = self._data.dtype
    if from_ is _ABSENT and to is _ABSENT:
        return _fill(self, "random_", lambda shape, _: stream_of(generator, self._data).any_integers(shape, d))
    if to is _ABSENT:
        from_, to = 0, from_
    if to is None:
        if d.kind == "b":
            most = 1
        elif d.kind in "iu":
            most = min(np.iinfo(d).max, (1 << 63) - 1)
        else:
            most = 1 << min(digits_of(d), 63) if d.kind != "c" else 0
        low, high = (
            (from_, 1 << 63) if from_ == -(1 << 63) else (exact_bounds("random_", from_, from_ + 2, d)[0], most + 1)
        )
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={from_} >= to={most + 1}")
        held_by("random_", d, low, high - 1)
    else:
        low, high = whole_bounds("random_", from_, to, d)
    return _fill(self, "random_", lambda shape, _: stream_of(generator, self._data).integers(shape, d, low, high))


class RandomMethods:
    """Methods of Tensor."""

    __slots__ = ()
    bernoulli = bernoulli
    multinomial = multinomial
    uniform_ = uniform_
    normal_ = normal_
    bernoulli_ = bernoulli_
    exponential_ = exponential_
    log_normal_ = log_normal_
    cauchy_ = cauchy_
    geometric_ = geometric_
    random_ = random_
