"""Samples whose distribution a tensor gives: coins, counts and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend, dtypes
from ferro.core.arguments import ALL_DIMS
from ferro.core.base import wrap
from ferro.core.into import into
from ferro.core.looped import by_slices
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.random import stream_of
from ferro.core.requirements import require

if TYPE_CHECKING:
    from ferro.tensor import Tensor

from ferro.ops.random import in_memory_order, result_of

__all__ = ["bernoulli", "binomial", "multinomial", "poisson"]


def probabilities(name: str, p: Any) -> Any:
    if backend.is_numpy(p) and p.size and p.dtype.itemsize > 2:
        xp, every = backend.xp_of(p), ALL_DIMS[p.ndim]
        if xp.amin(p, every, False) >= 0 and xp.amax(p, every, False) <= 1:
            return p
    require(
        (p >= 0) & (p <= 1),
        RuntimeError,
        f"{name}: Expected p_in >= 0 && p_in <= 1 to be true, but got false. There are values outside [0, 1]",
    )
    return p


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probabilities in `input` (or `p`), zeros otherwise; its gradient is zero.

    - `input` (Tensor): probabilities, in [0, 1]; with `p` only its shape and dtype count
    - `p` (float, default None): one probability for all
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `out` (Tensor, default None): where to write the result

    The result has the shape and dtype of `input`. RuntimeError for probabilities out of range, NotImplementedError for
    probabilities that are integers.

    Example::

        >>> import ferro
        >>> ferro.bernoulli(ferro.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    a = input._data
    if p is None and a.dtype.kind not in "fV":
        raise NotImplementedError(
            f"bernoulli: \"bernoulli_tensor_cpu_p_\" not implemented for '{dtypes.type_name(input.dtype)}': probabilities are real"
        )
    chance = probabilities("bernoulli", _wide(a) if p is None else np.asarray(p, np.float64))
    d = a.dtype if out is None else out._data.dtype
    result = backend.beside(a, coins(a.shape, chance if p is None else float(chance), generator, a).astype(d))
    if out is not None:
        return into("bernoulli", out, wrap(result))
    return result_of(BERNOULLI, (input,), result) if p is None else wrap(result)


BERNOULLI = Op("bernoulli", lambda xp, p, /, drawn: drawn, kind=ELEMENTWISE, p=lambda xp, g: xp.zeros_like(g))


def coins(shape: tuple, chance: Any, generator: Any, at: Any) -> Any:
    """True with a probability: one number, computed with in float64, or an array of a floating dtype; drawn where the array `at` lies."""
    return as_array(stream_of(generator, at).coins(shape, chance if isinstance(chance, float) else _wide(chance)))


def _wide(chance: Any) -> Any:
    """Probabilities in float32 at least."""
    if backend.is_numpy(chance) and chance.dtype.kind == "f" and chance.dtype.itemsize > 2:
        return chance
    return as_array(chance, np.float64 if chance.dtype == np.float64 else np.float32)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Binomial numbers: successes in `count` trials of probability `prob`."""
    for argument, t in (("count", count), ("prob", prob)):
        if not t.dtype.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {argument}, got: {dtypes.type_name(t.dtype)}"
            )
    p = probabilities("binomial", prob._data)
    n = as_array(count._data, p.dtype)
    require(_finite(n), RuntimeError, "binomial: expected finite counts, but found inf or nan")
    if type(n) is np.ndarray and type(p) is np.ndarray:
        n, p = np.broadcast_arrays(n, p)
    return wrap(stream_of(generator, count._data).binomial(n, p))


def _finite(a: Any) -> Any:
    """Where the numbers of an array of any backend are finite."""
    return abs(_wide(a)) < np.inf


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson numbers with the rates in `input`, whose gradient is zero."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"poisson: \"poisson_cpu\" not implemented for '{dtypes.type_name(input.dtype)}': rates are real"
        )
    rate = input._data.astype(np.float32) if input._data.dtype.itemsize == 2 else input._data
    require(rate >= 0, RuntimeError, "poisson: invalid Poisson rate, expected rate to be non-negative")
    require(rate < 9e18, RuntimeError, "poisson: a rate is too large for counts of 64 bits")
    return result_of(POISSON, (input,), as_array(stream_of(generator, input._data).poisson(input._data)))


POISSON = Op("poisson", lambda xp, rate, /, drawn: drawn, kind=ELEMENTWISE, rate=lambda xp, g: xp.zeros_like(g))


@by_slices
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Indices drawn with the weights in each row.

    - `input` (Tensor): weights, not normalised, (C) or (N, C), floating, not negative
    - `num_samples` (int): how many indices for each row
    - `replacement` (bool, default False): lets an index be drawn twice
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `out` (Tensor, default None): where to write the result

    The result is (num_samples) or (N, num_samples), int64. RuntimeError for more samples than positive weights without
    replacement, and for weights that are negative, infinite, nan or sum to 0.

    Example::

        >>> import ferro
        >>> ferro.multinomial(ferro.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {dtypes.type_name(input.dtype)}"
        )
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {dtypes.type_name(out.dtype)}")
    a = as_array(input._data)
    if a.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, got shape {list(a.shape)}")
    if not replacement and num_samples > a.shape[-1]:
        raise RuntimeError(
            f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} from "
            f"{a.shape[-1]}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if a.shape[-1] > 1 << 24:
        raise RuntimeError(f"multinomial: number of categories cannot exceed 2^24, got {a.shape[-1]}")
    wrong = (
        "multinomial: probability tensor contains either `inf`, `nan` or element < 0; invalid multinomial distribution (encountering "
        "probability entry"
    )
    require(~(a < 0), RuntimeError, f"{wrong} < 0)")
    require(_finite(a), RuntimeError, f"{wrong} = infinity or NaN)")
    sums = a.astype(np.float64).sum(-1)
    require(sums > 0, RuntimeError, "multinomial: invalid multinomial distribution (sum of probabilities <= 0)")
    numbers = stream_of(generator, a)
    if type(a) in backend.DEVICES:
        result = _drawn_there(a, num_samples, replacement and num_samples > 1, numbers)
    else:
        draw = _with_replacement if replacement and num_samples > 1 else _without_replacement
        result = wrap(draw(a, num_samples, numbers).astype(np.int64))
    return result if out is None else into("multinomial", out, result)


def _with_replacement(a: Any, count: int, numbers: Any) -> Any:
    """Where uniform numbers fall between the sums of the weights, which are carried in the dtype of the weights."""
    sums = np.cumsum(a, -1, np.float64 if a.dtype == np.float64 else np.float32)
    sums /= sums[..., -1:]
    sums[..., -1] = 1
    u = numbers.uniform((*a.shape[:-1], count), np.dtype(np.float64))
    if a.ndim == 1:
        return np.searchsorted(sums, u)
    return np.array([np.searchsorted(*row) for row in zip(sums, u, strict=True)], np.int64).reshape(u.shape)


def _without_replacement(a: Any, count: int, numbers: Any) -> Any:
    """The largest ratios of the weights to exponential numbers (Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir")."""
    waits = in_memory_order(a, lambda shape, _: numbers.exponential(shape, a.dtype))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = a / waits
    if count == 1:
        return ratios.argmax(-1)[..., None]
    if not backend.is_numpy(ratios):
        return np.argsort(-ratios, -1, kind="stable")[..., :count]
    return backend.xp_of(ratios).topk(ratios, count, ratios.ndim - 1, True)[1]


def _drawn_there(a: Any, count: int, replaces: bool, numbers: Any) -> Any:
    """The same two ways by functions of tensors, where an array lies on a device."""
    d = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    weights: Any = wrap(a.astype(d))
    if not replaces:
        ratios = weights / wrap(numbers.exponential(a.shape, d))
        return ratios.argmax(-1, True) if count == 1 else ratios.argsort(-1, True, stable=True)[..., :count]
    sums = weights.cumsum(-1)
    u: Any = wrap(numbers.uniform((*a.shape[:-1], count), d))
    # (of (0, 1], so that a weight of 0 in front is never drawn; the last sum is 1)
    return backend.functional.searchsorted(sums / sums[..., -1:], 1 - u)
