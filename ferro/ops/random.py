"""Random tensors."""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array, plain
from ferro.batched.draws import check_unbatched
from ferro.batched.levels import RUNNING
from ferro.core import dtypes, worlds
from ferro.core.arguments import into, sizes, unlike, with_size
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import change
from ferro.core.layout import arranged
from ferro.core.looped import by_slices
from ferro.core.random import numpy_generator
from ferro.ops.creation import chosen_dtype, finish, refuse_shape, result_or_out
from ferro.ops.filling import fits

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
           "randn_like", "randperm"]  # fmt: skip


def draw(kind: str, shape: tuple, dtype: Any, generator: Any) -> Any:
    """Uniform or normal numbers of a floating or complex dtype as an array."""
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    rng = numpy_generator(generator)
    make = rng.random if kind == "uniform" else rng.standard_normal
    if d.kind == "c":
        real = d.type(0).real.dtype
        scale = 1.0 if kind == "uniform" else 0.5**0.5
        return (make(shape, real) * scale + 1j * (make(shape, real) * scale)).astype(d)
    if d not in dtypes.INEXACT:
        asked, check = dtypes.FROM_NUMPY[d], "check_uniform_bounds" if kind == "uniform" else "normal_kernel_cpu"
        raise NotImplementedError(
            f"\"{check}\" not implemented for '{dtypes.type_name(asked)}': {kind} random numbers are not implemented for {asked}; use a "
            "floating-point dtype"
        )
    return as_array(make(shape, d if d.itemsize >= 4 else np.float32)).astype(d, copy=False)


def _drawn(
    name: str, kind: str, size: tuple, generator: Any, out: Any, dtype: Any, requires_grad: bool, device: Any
) -> Any:
    if dtype is dtypes.complex32:
        return worlds.complex_half(
            _drawn(name, kind, size, generator, out, dtypes.complex64, False, device), requires_grad
        )
    data = draw(kind, sizes(name, size), chosen_dtype(dtype, out, dtypes.default().np), generator)
    return result_or_out(name, data, out, requires_grad, device)


def rand(*shape: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Uniform random numbers from [0, 1)."""
    return _drawn("rand", "uniform", with_size("rand", shape, size), generator, out, dtype, requires_grad, device)


def randn(*shape: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Standard normal random numbers."""
    return _drawn("randn", "normal", with_size("randn", shape, size), generator, out, dtype, requires_grad, device)


def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None,
            layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Random integers from [low, high); randint(high, size) counts from 0.

    RuntimeError where the dtype does not hold `low` or ``high - 1``.
    """
    if size is None:  # randint(high, size)
        high, size = None, high
    if high is None:
        low, high = 0, low
    low = 0 if low is None else low
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    low, high = [int(v._data) if isinstance(v, TensorBase) else v for v in (low, high)]
    for argument, v in (("low", low), ("high", high)):
        if not hasattr(v, "__index__"):
            raise TypeError(f"randint(): argument '{argument}' must be int, not {type(v).__name__}")
    if low >= high:
        raise RuntimeError(f"randint: random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    d = chosen_dtype(dtype, out, dtypes.int64.np)
    _held_by("randint", d, low, high - 1)
    data = as_array(numpy_generator(generator).integers(low, high, sizes("randint", (size,)))).astype(d)
    return result_or_out("randint", data, out, requires_grad, device)


def _held_by(name: str, d: Any, low: int, most: int) -> None:
    """Refuses bounds of random integers that an integer dtype does not hold, warns of those between which a floating one skips some."""
    if d in dtypes.COMPLEX:
        raise RuntimeError(f"{name}: check_random_bounds handles only integral, floating-point and boolean types, not "
                           f"{dtypes.FROM_NUMPY[d]}")  # fmt: skip
    if d in dtypes.INEXACT:
        digits = round(1 - math.log2(dtypes.finfo(dtypes.FROM_NUMPY[d]).eps))
        for words, bound in (("from", low), ("to - 1", most)):
            if abs(bound) > 2**digits:
                warnings.warn(
                    f"{name}: {words} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                    f"{dtypes.C_NAMES[dtypes.FROM_NUMPY[d]]} can support discrete uniform distribution only within this range. This "
                    "warning will become an error in version 1.7 release, please fix the code in advance",
                    stacklevel=3,
                )
        return
    if d.kind in "iu":
        least, largest = np.iinfo(d).min, np.iinfo(d).max
    else:
        least, largest = 0, 1
    for words, bound in (("from", low), ("to - 1", most)):
        if not least <= bound <= largest:
            raise RuntimeError(
                f"{name}: {words} is out of bounds for {_C_NAMES[d.name]}: {bound} is not in [{least}, {largest}]"
            )


_C_NAMES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long", "bool": "bool",
            "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long"}  # fmt: skip


def randperm(n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The numbers 0 to n - 1 in random order."""
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}") from None
    if n < 0:
        refuse_shape("randperm", (n,))
    d = chosen_dtype(dtype, out, dtypes.int64.np)
    asked = dtypes.FROM_NUMPY[d]
    if d.kind in "bc":
        raise NotImplementedError(f"\"randperm\" not implemented for '{dtypes.type_name(asked)}'")
    if d.kind in "iu":
        dtypes.check_number("randperm", max(n - 1, 0), d)
    elif n - 1 > (most := round(2 / dtypes.finfo(asked).eps)):
        raise RuntimeError(f"randperm: n cannot be greater than {most + 1} for {dtypes.type_name(asked)} type. {n} was given: not all "
                           f"of its numbers are exact in {asked}")  # fmt: skip
    data = numpy_generator(generator).permutation(n).astype(d)
    return result_or_out("randperm", data, out, requires_grad, device)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
              **ignored: Any) -> Tensor:  # fmt: skip
    """Uniform random numbers from [0, 1) in the shape and dtype of `input`."""
    t = rand(input._data.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)
    t._data = arranged("rand_like", t._data, input._data, memory_format)
    return t


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
               **ignored: Any) -> Tensor:  # fmt: skip
    """Standard normal random numbers in the shape and dtype of `input`."""
    t = randn(input._data.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)
    t._data = arranged("randn_like", t._data, input._data, memory_format)
    return t


def randint_like(input: Tensor, low: Any = 0, high: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                 memory_format: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """Random integers from [low, high) in the shape and dtype of `input`."""
    if high is None:
        low, high = 0, low
    t = randint(low, high, input._data.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)
    t._data = arranged("randint_like", t._data, input._data, memory_format)
    return t


def _probabilities(name: str, p: Any) -> Any:
    if p.size and not plain((p >= 0) & (p <= 1)).all():
        raise RuntimeError(
            f"{name}: Expected p_in >= 0 && p_in <= 1 to be true, but got false. There are values outside [0, 1]"
        )
    return p


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probabilities in `input` (or `p`), zeros otherwise; not differentiable: its gradient is zero."""
    a = input._data
    if p is None and a.dtype.kind not in "fV":
        raise NotImplementedError(
            f"bernoulli: \"bernoulli_tensor_cpu_p_\" not implemented for '{dtypes.type_name(input.dtype)}': probabilities are real"
        )
    chance = _probabilities("bernoulli", a.astype(np.float64) if p is None else as_array(p, np.float64))
    result = wrap(
        (numpy_generator(generator).random(a.shape) < chance).astype(a.dtype if out is None else out._data.dtype)
    )
    return result if out is None else into("bernoulli", out, result)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Binomial numbers: successes in `count` trials of probability `prob`."""
    for argument, t in (("count", count), ("prob", prob)):
        if not t.dtype.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {argument}, got: {dtypes.type_name(t.dtype)}"
            )
    p = _probabilities("binomial", prob._data.astype(np.float64))
    return wrap(as_array(numpy_generator(generator).binomial(count._data.astype(np.int64), p)).astype(prob._data.dtype))


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson numbers with the rates in `input`."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"poisson: \"poisson_cpu\" not implemented for '{dtypes.type_name(input.dtype)}': rates are real"
        )
    if plain(input._data < 0).any():
        raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
    return wrap(as_array(numpy_generator(generator).poisson(input._data.astype(np.float64))).astype(input._data.dtype))


@by_slices
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """`num_samples` indices per row, drawn with the (unnormalised) weights of the row."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {dtypes.type_name(input.dtype)}"
        )
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {dtypes.type_name(out.dtype)}")
    a = as_array(input._data, np.float64)
    if a.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, got shape {list(a.shape)}")
    if not replacement and num_samples > a.shape[-1]:
        raise RuntimeError(f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} from "
                           f"{a.shape[-1]}")  # fmt: skip
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if a.shape[-1] > 1 << 24:
        raise RuntimeError(f"multinomial: number of categories cannot exceed 2^24, got {a.shape[-1]}")
    if not replacement and num_samples > a.shape[-1]:
        raise RuntimeError(f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} from "
                           f"{a.shape[-1]}")  # fmt: skip
    if not np.isfinite(a).all() or (a < 0).any():
        entry = "probability entry < 0" if (a < 0).any() else "probability entry = infinity or NaN"
        raise RuntimeError("multinomial: probability tensor contains either `inf`, `nan` or element < 0; invalid multinomial distribution "
                           f"(encountering {entry})")  # fmt: skip
    rng = numpy_generator(generator)
    rows = []
    for row in np.atleast_2d(a):
        if row.sum() <= 0:
            raise RuntimeError("multinomial: invalid multinomial distribution (sum of probabilities <= 0)")
        some = num_samples if replacement else min(num_samples, int(np.count_nonzero(row)))
        drawn = rng.choice(row.size, some, replacement, row / row.sum())
        rows.append(
            np.concatenate([drawn, np.flatnonzero(row == 0)[: num_samples - some]])
        )  # those of weight 0 come last
    result = wrap((np.stack(rows) if rows else np.empty(0)).astype(np.int64).reshape((*a.shape[:-1], num_samples)))
    return result if out is None else into("multinomial", out, result)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None, device: Any = None,
           requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """Normal random numbers with the given means and standard deviations (numbers with `size`, or tensors)."""
    values = [v._data if isinstance(v, TensorBase) else v for v in (mean, std)]
    if isinstance(std, TensorBase) and std._data.dtype in dtypes.COMPLEX:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if np.any(np.real(plain(values[1])) < 0):
        which = "all elements of std >= 0.0, got" if isinstance(std, TensorBase) else "std >= 0.0, but found std"
        raise RuntimeError(f"normal expects {which} {np.min(plain(values[1]))}")
    if size is None:
        tensors = [v for v in (mean, std) if isinstance(v, TensorBase)]
        if not tensors:
            raise TypeError("normal: size must be given when mean and std are numbers")
        shapes = [t._data.shape for t in tensors]
        try:
            size = np.broadcast_shapes(*shapes)
        except ValueError:
            raise unlike("normal", shapes) from None
        dtype = dtype or dtypes.FROM_NUMPY[tensors[0]._data.dtype]
    z = draw("normal", sizes("normal", (size,)), dtype, generator)
    result = as_array(values[0] + values[1] * z).astype(z.dtype)
    return finish("normal", result, requires_grad, device) if out is None else into("normal", out, wrap(result))


# -- filling a tensor in place -----------------------------------------------------------------------------------------


def _fill(self: Any, name: str, make: Any) -> Any:
    """Replaces the content of a tensor by random numbers; its old history ends with zero gradient."""
    if RUNNING.get():
        check_unbatched(self._data, RUNNING.get())
    return change(self, name, lambda x: x.mul(0).add(wrap(make(x._data.shape).astype(x._data.dtype))) if x.requires_grad
                  else wrap(as_array(make(x._data.shape)).astype(x._data.dtype)))  # fmt: skip


def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **bounds: float) -> Tensor:
    """Fills with uniform random numbers from [from, to)."""
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
        raise RuntimeError(f"uniform_ expects to-from <= std::numeric_limits<{dtypes.type_name(d)}>::max(), but found to={to:g} and "
                           f"from={low:g} which result in to-from to exceed the limit")  # fmt: skip
    return _fill(self, "uniform_", lambda shape: low + (to - low) * draw("uniform", shape, d, generator))


def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with normal random numbers."""
    if std < 0:
        raise RuntimeError(f"normal_: normal expects std >= 0.0, but found std {std}")
    return _fill(self, "normal_", lambda shape: mean + std * draw("normal", shape, self.dtype, generator))


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fills with ones of probability p, else zeros."""
    if not isinstance(p, TensorBase) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    chance = _probabilities("bernoulli_", as_array(p._data if isinstance(p, TensorBase) else p, np.float64))
    if not fits(chance.shape, self._data.shape):
        have, want = list(chance.shape), list(self._data.shape)
        raise RuntimeError(
            f"bernoulli_: the probabilities, of shape {have}, cannot be expanded to the shape {want} of the tensor"
        )
    return _fill(self, "bernoulli_", lambda shape: as_array(numpy_generator(generator).random(shape) < chance))


def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with exponentially distributed numbers of rate lambd."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _refuse_continuous("Exponential", self.dtype)
    return _fill(
        self, "exponential_", lambda shape: as_array(numpy_generator(generator).standard_exponential(shape)) / lambd
    )


def _refuse_continuous(name: str, d: dtypes.dtype) -> None:
    """RuntimeError for a dtype that cannot hold the numbers of a continuous distribution."""
    if not d.is_floating_point:
        raise RuntimeError(f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
                           f"specified {dtypes.type_name(d)}")  # fmt: skip


def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fills with numbers whose logarithm is normal."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"log_normal_cpu\" not implemented for '{dtypes.type_name(self.dtype)}': use a floating-point dtype"
        )
    return _fill(self, "log_normal_", lambda shape: as_array(numpy_generator(generator).lognormal(mean, std, shape)))


def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fills with Cauchy distributed numbers."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _refuse_continuous("Cauchy", self.dtype)
    return _fill(
        self, "cauchy_", lambda shape: median + sigma * as_array(numpy_generator(generator).standard_cauchy(shape))
    )


def geometric_(self: Any, p: float, *, generator: Any = None) -> Tensor:
    """Fills with the number of trials up to the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _fill(self, "geometric_", lambda shape: as_array(numpy_generator(generator).geometric(p, shape)))


_ABSENT: Any = object()


def random_(self: Any, from_: int = _ABSENT, to: int | None = _ABSENT, *, generator: Any = None) -> Tensor:
    """Fills with random integers from [from, to); random_(to) counts from 0; without `to`, or None, all that are exact."""
    if to is _ABSENT and from_ is not _ABSENT:
        from_, to = 0, from_
    bounded = to is not _ABSENT and to is not None
    from_ = 0 if from_ is _ABSENT else from_
    if to is _ABSENT or to is None:
        kind = self._data.dtype.kind
        most = (
            1
            if kind == "b"
            else np.iinfo(self._data.dtype).max
            if kind in "iu"
            else int(2 / dtypes.finfo(self.dtype).eps)
        )
        to = min(most + 1, 2**63 - 1)
    if from_ >= to:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={from_} >= to={to}")
    if from_ or bounded:
        _held_by("random_", self._data.dtype, from_, to - 1 if bounded else max(from_, 0))
    return _fill(self, "random_", lambda shape: as_array(numpy_generator(generator).integers(from_, to, shape)))


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
