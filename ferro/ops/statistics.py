"""What samples tell: covariance and correlation, derivatives of a sampled function, membership among given values."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ferro.batched.array import as_array, plain
from ferro.core import backend, dtypes
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, HALF
from ferro.core.into import into
from ferro.core.looped import by_slices
from ferro.core.operands import promote
from ferro.core.origins import on_one_device
from ferro.core.requirements import require, warned
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.choices import where
from ferro.ops.clamping import clamp
from ferro.ops.complex import complex as make_complex
from ferro.ops.complex import imag, real
from ferro.ops.diagonals import diagonal
from ferro.ops.differences import diff
from ferro.ops.joining import cat
from ferro.ops.permuting import transpose
from ferro.ops.products import matmul
from ferro.ops.shape import reshape
from ferro.ops.slices import narrow

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["corrcoef", "cov", "gradient", "isin"]


# -- covariance --------------------------------------------------------------------------------------------------------


@by_slices
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of variables (rows) over observations (columns): C = Σ_i w_i (x_i - μ)(x_i - μ)ᴴ / d.

    - `input` (Tensor): (variables, n), (n) or 0-d
    - `correction` (int, default 1): what d is reduced by
    - `fweights` (Tensor, default None): how often each observation was made, (n), integers
    - `aweights` (Tensor, default None): how much it counts, (n), floating

    μ = Σ w x / Σ w; the weights w are the product of both; d = Σ w - correction Σ w a / Σ w, or Σ w - correction
    without aweights. Where d is not positive it counts as 0, with a warning. One variable gives its variance, 0-d.
    RuntimeError for more than two dimensions, a bool input and weights of wrong dtype, shape or sign. Differentiable by
    the input and the aweights.

    Example::

        >>> import ferro
        >>> ferro.cov(ferro.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    x = _observations("cov", input)
    correction = _integer("cov", "correction", correction)
    n = x._data.shape[1]
    f = None if fweights is None else _observation_weights("fweights", fweights, n)
    a = None if aweights is None else _observation_weights("aweights", aweights, n)
    w: Any = f if a is None else a if f is None else f * a
    total: Any = n
    if w is not None:
        total = w.sum()
        require(total._data != 0, RuntimeError, "cov(): weights sum to zero, can't be normalized")
    freedom = total - (correction if a is None or not correction else correction * (w * a).sum() / total)
    low: Any = freedom <= 0
    message = "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
    if warned(low if w is None else low._data, message):
        freedom = 0 if w is None else where(low, 0, freedom)
    mean = (x if w is None else x * w).sum(1) / total
    x = x - reshape(mean, (-1, 1))
    c = matmul(x, transpose(x if w is None else x * w, 0, 1).conj()) / freedom
    return c.squeeze()


def _integer(name: str, argument: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}") from None


def _observations(name: str, input: Any) -> Any:
    """The input as (variables, observations)."""
    a = need_tensor(name, "input", input)._data
    if a.ndim > 2:
        raise RuntimeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with {a.ndim} dimensions"
        )
    if a.dtype.kind == "b":
        raise RuntimeError(f"{name}(): bool dtype is not supported for input")
    return input if a.ndim == 2 else reshape(input, (1, a.size))


def _observation_weights(argument: str, weights: Any, n: int) -> Any:
    a = need_tensor("cov", argument, weights)._data
    dtype = FROM_NUMPY[a.dtype]
    if a.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {argument} to have one or fewer dimensions but got {argument} with {a.ndim} dimensions"
        )
    category, kind = (1, "integral") if argument == "fweights" else (2, "floating point")
    if dtype.category != category:
        raise RuntimeError(f"cov(): expected {argument} to have {kind} dtype but got {argument} with {dtype} dtype")
    if a.size != n:
        raise RuntimeError(
            f"cov(): expected {argument} to have the same numel as there are observations in the input but got "
            f"{a.size} != {n}"
        )
    require(~(a < 0), RuntimeError, f"cov(): {argument} cannot be negative", lambda: f", got {plain(a).min()}")
    return weights


def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables (rows) over observations (columns): C_ij / √(C_ii C_jj), C as in :func:`cov`.

    Real and imaginary parts are clipped to [-1, 1], which rounding could exceed.  One variable gives 1 (0-d); variables
    that do not vary give nan.  RuntimeError for more than two dimensions and a bool input.

    Example::

        >>> import ferro
        >>> ferro.corrcoef(ferro.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    _observations("corrcoef", input)
    c = cov(input)
    if not c._data.ndim:
        return c / c
    complex_ = c._data.dtype in COMPLEX
    variance = diagonal(c)
    deviation = (real(variance) if complex_ else variance).sqrt()
    c = c / reshape(deviation, (-1, 1)) / reshape(deviation, (1, -1))
    return make_complex(clamp(real(c), -1, 1), clamp(imag(c), -1, 1)) if complex_ else clamp(c, -1, 1)


_WEIGHTS = Arg(5, low=0.2, high=2.0)
declare(
    "cov",
    [
        Sample(Arg(3, 5)),
        Sample(Arg(5)),
        Sample(Arg(3, 5), correction=0, fweights=Arg(5, dtype="int64", low=1, high=4)),
        Sample(Arg(3, 5), aweights=_WEIGHTS, complex=False),
        Sample(Arg(5), correction=0, aweights=_WEIGHTS, complex=False),
        Sample(Arg(2, 5), fweights=Arg(5, dtype="int32", low=1, high=4), aweights=_WEIGHTS, complex=False),
        Sample(Arg(0, 3)),
        Sample(Arg(1, 4)),
    ],
    complex=True,
)
declare(
    "corrcoef", [Sample(Arg(3, 5)), Sample(Arg(2, 3)), Sample(Arg(0, 3)), Sample(Arg(5), smooth=False)], complex=True
)


# -- derivatives of a sampled function ---------------------------------------------------------------------------------


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimates of the partial derivatives of a function of which the input holds values: one tensor per dimension.

    - `input` (Tensor): the values, any shape
    - `spacing` (number, numbers or Tensors, default None): the distance of the points, one for each dimension, or 1-d
      tensors with their coordinates
    - `dim` (int or ints, default None): the dimensions; None: all
    - `edge_order` (int, default 1): at the ends, 1 takes the line through two points, 2 the parabola through three

    Inside, it is the derivative of the parabola through a point and its neighbours. Linear in the input, differentiable
    by coordinates. RuntimeError for fewer than edge_order + 1 points, repeated dimensions, spacings that do not fit,
    and uint8 and bool inputs; IndexError for a dimension out of range.

    Example::

        >>> import ferro
        >>> ferro.gradient(ferro.tensor([4.0, 1.0, 1.0, 16.0]), spacing=(ferro.tensor([-2.0, -1.0, 1.0, 4.0]),))
        (tensor([-3., -2., 2., 5.]),)
    """
    a = need_tensor("gradient", "input", input)._data
    if a.dtype.kind == "b" or a.dtype == np.uint8:
        raise RuntimeError(f"gradient does not support {input.dtype} input.")
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2. Got {edge_order}")
    if dim is None:
        dims = list(range(a.ndim))
    else:
        dims = [one_dim("gradient", a.ndim, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
        if dims and not a.ndim:
            raise IndexError(f"gradient: Dimension specified as {dim} but tensor has no dimensions")
    for i, d in enumerate(dims):
        if d in dims[:i]:
            raise RuntimeError(f"gradient: dim {d} appears multiple times in the list of dims {dims}")
        if a.shape[d] <= edge_order:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1, {edge_order + 1}; got "
                f"{list(a.shape)} and dim {d}"
            )
    steps = _steps(spacing, dims, a)
    return tuple(
        [
            (_even if isinstance(h, (int, float, complex)) else _uneven)(input, d, h, edge_order)
            for d, h in zip(dims, steps, strict=True)
        ]
    )


def _steps(spacing: Any, dims: list, a: Any) -> list:
    """For every dimension the distance of the points, a number, or the distances, a 1-d tensor."""
    if isinstance(spacing, TensorBase):
        if spacing._data.ndim:
            raise TypeError(
                f"gradient: spacing must be a number or a list, got a tensor of shape {list(spacing._data.shape)}; "
                "coordinates are given as a list of tensors"
            )
        spacing = spacing._data.item()
    if spacing is None or isinstance(spacing, (int, float, complex)):
        return [1 if spacing is None else spacing] * len(dims)
    spacing = list(spacing)
    if len(spacing) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same "
            f"length, but got a spacing argument of length {len(spacing)} and a dim argument of length "
            f"{len(dims)}."
        )
    if not any(isinstance(s, TensorBase) for s in spacing):
        return spacing
    found: list = []
    for d, s in zip(dims, spacing, strict=True):
        if not isinstance(s, TensorBase):
            raise TypeError(f"gradient: spacing must hold numbers or tensors, not both; got {type(s).__name__}")
        if s._data.ndim != 1:
            raise RuntimeError(
                f"torch.gradient expected each element of spacing to have one dimension, but got an element with "
                f"{s._data.ndim} dimensions!"
            )
        if s._data.size != a.shape[d]:
            raise RuntimeError(f"gradient: the coordinates of dim {d} must be {a.shape[d]} numbers, got {s._data.size}")
        found.append(diff(cast("Tensor", s)))
    return found


def _even(x: Any, d: int, h: Any, order: int) -> Any:
    """Derivatives along d by points at a distance h."""
    n = x._data.shape[d]
    inside = (narrow(x, d, 2, n - 2) - narrow(x, d, 0, n - 2)) / (2 * h)
    ends = []
    for s, step in ((0, 1), (n - 1, -1)):  # seen from an end, the points and the derivative run towards the inside
        p, q = narrow(x, d, s, 1), narrow(x, d, s + step, 1)
        if order == 1:
            ends.append((q - p if step == 1 else p - q) / h)
        else:
            three = [p, q, narrow(x, d, s + 2 * step, 1)]
            ends.append(_weighted(three[::step], [w * step / h for w in (-1.5, 2.0, -0.5)][::step]))
    return cat([ends[0], inside, ends[1]], d)


def _weighted(values: list, weights: list) -> Any:
    """The sum of three values times their weights; in the order of the points, so that it is NumPy's to the last bit."""
    (p, q, r), (a, b, c) = values, weights
    return p * a + q * b + r * c


def _uneven(x: Any, d: int, h: Any, order: int) -> Any:
    """Derivatives along d by points at distances h, a 1-d tensor: those of the parabola through three points."""
    n = x._data.shape[d]
    x, h = promote(x, h)
    h = reshape(h, (n - 1,) + (1,) * (x._data.ndim - 1 - d))
    left, right = narrow(h, 0, 0, n - 2), narrow(h, 0, 1, n - 2)
    both = left + right
    weights = [-right / (left * both), (right - left) / (left * right), left / (right * both)]
    inside = _weighted([narrow(x, d, k, n - 2) for k in range(3)], weights)
    if order == 1:
        first, last = [(narrow(x, d, s + 1, 1) - narrow(x, d, s, 1)) / narrow(h, 0, s, 1) for s in (0, n - 2)]
        return cat([first, inside, last], d)
    p, q = narrow(h, 0, 0, 1), narrow(h, 0, 1, 1)
    first = _weighted(
        [narrow(x, d, k, 1) for k in range(3)], [-(2 * p + q) / (p * (p + q)), (p + q) / (p * q), -p / (q * (p + q))]
    )
    p, q = narrow(h, 0, n - 3, 1), narrow(h, 0, n - 2, 1)
    last = _weighted(
        [narrow(x, d, n - 3 + k, 1) for k in range(3)],
        [q / (p * (p + q)), -(q + p) / (p * q), (2 * q + p) / (q * (p + q))],
    )
    return cat([first, inside, last], d)


_COORDINATES = Arg(values=[-1.0, 0.5, 1.0, 2.5])
declare(
    "gradient",
    [
        Sample(Arg(4)),
        Sample(Arg(3, 4)),
        Sample(Arg(3, 4), spacing=0.5),
        Sample(Arg(3, 4), spacing=[2.0, -0.5], edge_order=2),
        Sample(Arg(3, 4), dim=1, edge_order=2),
        Sample(Arg(4, 3), spacing=(_COORDINATES,), dim=0),
        Sample(Arg(2, 4, 3), spacing=[_COORDINATES], dim=[1], edge_order=2),
        Sample(Arg(2, 2)),
        Sample(Arg(3, 0, 2), dim=(2, 0)),
    ],
    complex=True,
)


# -- membership --------------------------------------------------------------------------------------------------------


@by_slices
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None
) -> Tensor:
    """Whether each element is among the test elements: a bool tensor.

    - `elements` (Tensor or number): any shape
    - `test_elements` (Tensor or number): any shape; one of the two is a tensor
    - `assume_unique` (bool, default False): no effect
    - `invert` (bool, default False): whether it is not among them
    - `out` (Tensor, default None): where to write the result

    They are compared in the dtype to which both promote; nan is among nothing. RuntimeError for bool and complex
    tensors. Not differentiable.

    Example::

        >>> import ferro
        >>> ferro.isin(ferro.tensor([[1, 2], [3, 4]]), ferro.tensor([2, 3]))
        tensor([[False,  True],
                [ True, False]])
    """
    given = []
    for argument, value in (("elements", elements), ("test_elements", test_elements)):
        if isinstance(value, TensorBase):
            given.append(value._data)
        elif isinstance(value, (int, float, complex)):
            given.append(value)
        else:
            raise TypeError(f"isin(): argument '{argument}' must be Tensor or a number, not {type(value).__name__}")
        kind = as_array(given[-1]).dtype.kind
        if kind in "bc":
            raise RuntimeError(
                f"isin: Unsupported input type encountered for {argument}: {'bool' if kind == 'b' else 'complex'}"
            )
    if not any(hasattr(g, "dtype") for g in given):
        raise TypeError(
            f"isin(): one of elements and test_elements must be a Tensor, got {elements} and {test_elements}"
        )
    on_one_device("isin", elements, test_elements)
    dtype = dtypes.result_np(given)
    x, among = [as_array(g).astype(dtype, copy=False) for g in given]
    x, among = backend.beside(among, x), backend.beside(x, among)
    if dtype in HALF:
        x, among = x.astype(np.float32), among.astype(np.float32)
    found = backend.xp_beside(x, (among,)).isin(x, among, invert)
    return into("isin", out, wrap(found))


declare(
    "isin",
    [
        Sample(Arg(3, 4, dtype="int64"), Arg(2, dtype="int64")),
        Sample(Arg(5, dtype="int64"), 1),
        Sample(1.0, Arg(3)),
        Sample(Arg(values=[1.0, float("nan"), 2.0]), Arg(values=[2.0, float("nan")]), invert=True),
        Sample(Arg(0), Arg(3)),
    ],
    differentiable=False,
)


class StatisticsMethods:
    """Methods of Tensor."""

    __slots__ = ()
    corrcoef, cov = corrcoef, cov
