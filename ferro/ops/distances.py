"""Distances: between tensors, rows and points, and the cosine of an angle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, one_dim, unlike
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.op import Op
from ferro.core.operands import operands, promote
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.norms import INF, away, vector_norm
from ferro.ops.reductions import need_inexact, sum

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cdist", "cosine_similarity", "dist", "pairwise_distance", "pdist"]


def dist(input: Tensor, other: Any, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors, 0-d.

    - `input`, `other` (Tensor): of shapes that broadcast
    - `p` (number, default 2): of the norm

    RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.dist(ferro.tensor([3.0, 4.0]), ferro.zeros(2))
        tensor(5.)
    """
    return vector_norm(input - other, p)


declare(
    "dist",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(3, 4), Arg(4), 3),
        Sample(Arg(3), Arg(3), 1),
        Sample(Arg(3), Arg(3), 0.5),
        Sample(Arg(4), Arg(4), INF),
        Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 2.0]), smooth=False, twice=False),
    ],
    complex=True,
)
singular(
    "dist", "equal points", Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 2.0])), "of the subgradients the smallest"
)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension.

    - `x1`, `x2` (Tensor): (..., D), with broadcasting
    - `p` (float, default 2.0): of the norm
    - `eps` (float, default 1e-06): added to the differences, so that the norm has a slope at 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1

    The result is (...), or (..., 1) with `keepdim`. RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pairwise_distance(ferro.tensor([[3.0, 4.0]]), ferro.zeros(1, 2), eps=0.0)
        tensor([5.])
    """
    diff = x1 - x2 + eps
    return vector_norm(diff, p, max(diff._data.ndim - 1, 0), keepdim)


declare(
    "nn.functional.pairwise_distance",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(4), Arg(3, 4), p=3.0, keepdim=True),
        Sample(Arg(3, 4), Arg(3, 4), 1.0, 0.1),
    ],
)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine x1·x2 / (max(|x1|, eps) max(|x2|, eps)) over a dimension.

    - `x1`, `x2` (Tensor): of shapes that broadcast
    - `dim` (int, default 1): the dimension of the vectors, which the result does not have
    - `eps` (float, default 1e-08): the least norm; where a norm is below, the gradient treats it as the norm, not as a
      constant

    RuntimeError for shapes that do not broadcast, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.cosine_similarity(ferro.tensor([[1.0, 0.0]]), ferro.tensor([[3.0, 4.0]]))
        tensor([0.6000])
    """
    name = "cosine_similarity"
    x, y = promote(*operands(name, x1, x2))
    need_inexact(name, x)
    try:
        shape = np.broadcast_shapes(x._data.shape, y._data.shape)
    except ValueError:
        raise unlike(name, [x._data.shape, y._data.shape]) from None
    d = one_dim(name, len(shape), dim)
    fn = backend.functional
    x, y = [t if t._data.shape == shape else fn.expand(t, shape) for t in (x, y)]
    x, y = [t / apply(NORM_AT_LEAST, (vector_norm(t, 2, d, True),), (eps,)) for t in (x, y)]
    return sum(x * y.conj() if x._data.dtype.kind == "c" else x * y, d)


# The norm, at least a number, with the norm's derivative
NORM_AT_LEAST = Op(
    "norm_at_least",
    lambda xp, x, /, least: xp.maximum(x, least),
    x=lambda xp, g: g,
)
declare(
    "nn.functional.cosine_similarity",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(3, 4), Arg(3, 4), 0),
        Sample(Arg(4), Arg(3, 4), dim=-1),
        Sample(Arg(2, 3, 2), Arg(2, 3, 2), 2, 0.5),
    ],
)
singular(
    "nn.functional.cosine_similarity",
    "a zero vector",
    Sample(Arg(values=[0.0, 0.0]), Arg(values=[1.0, 0.0]), dim=0),
    "divided by eps, as the function is written",
)

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@in_full_precision
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = MODES[0]) -> Tensor:
    """The p-norm distances between the rows of two matrices.

    - `x1` (Tensor): (..., P, M)
    - `x2` (Tensor): (..., R, M), with leading dimensions that broadcast
    - `p` (float, default 2.0): of the norm, not negative
    - `compute_mode` (str, default "use_mm_for_euclid_dist_if_necessary"): for p = 2: "use_mm_for_euclid_dist" takes
      |x|² + |y|² - 2 x·y, "donot_use_mm_for_euclid_dist" the differences; the default the former from 26 rows on

    The result is (..., P, R). The gradient at distance 0 is 0; for p = inf the components of extreme difference share
    it. RuntimeError for a negative p and shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.cdist(ferro.tensor([[0.0, 0.0]]), ferro.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    for label, x in (("X1", x1), ("X2", x2)):
        if need_tensor("cdist", label.lower(), x)._data.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {label} got: {x._data.ndim}D")
        if x._data.dtype.kind in "biuc":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {label} got: {dtypes.FROM_NUMPY[x._data.dtype]}"
            )
    a, b = x1._data.shape, x2._data.shape
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns. X1: {a[-1]} (shape {list(a)}), X2: {b[-1]} "
            f"(shape {list(b)})"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    mode = MODES[0] if compute_mode is None else compute_mode
    if mode not in MODES:
        raise ValueError(
            f"cdist: {compute_mode!r} is not a valid value for compute_mode; it is one of {', '.join(MODES)}"
        )
    if p == 2 and a[-1] and (mode == MODES[1] or (mode == MODES[0] and (a[-2] > 25 or b[-2] > 25))):
        return apply(EUCLIDEAN, tuple(promote(x1, x2)))
    fn = backend.functional
    # (the distance of rows without elements is 0 for every p, also inf)
    return vector_norm(fn.unsqueeze(x1, -2) - fn.unsqueeze(x2, -3), p if a[-1] else 2.0, -1)


declare(
    "cdist",
    [
        *[Sample(Arg(3, 4, make=away), Arg(2, 4), p) for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF)],
        Sample(Arg(2, 3, 4), Arg(2, 4)),
        Sample(Arg(3, 4), Arg(2, 4), 2.0, MODES[1]),
        Sample(Arg(2, 3, 4), Arg(2, 4), 2.0, MODES[1]),
        Sample(Arg(values=[[1.0, 2.0]]), Arg(values=[[1.0, 2.0], [0.0, 0.0]]), smooth=False),
    ],
)
singular(
    "cdist",
    "equal points",
    Sample(Arg(values=[[1.0, 2.0]]), Arg(values=[[1.0, 2.0]])),
    "of the subgradients the smallest",
)


def _pulls(xp: Any, g: Any, out: Any) -> Any:
    """g / distance, 0 at distance 0: how strongly each pair is pulled together."""
    zero = out == 0
    return xp.where(zero, 0.0, g / xp.where(zero, 1.0, out))


def _euclidean_x(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    w = _pulls(xp, g, out)
    return x * xp.sum(w, (len(w.shape) - 1,), True) - w @ y


def _euclidean_y(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    w = _pulls(xp, g, out)
    n = len(w.shape)
    w = xp.permute(w, (*range(n - 2), n - 1, n - 2))
    return y * xp.sum(w, (n - 1,), True) - w @ x


EUCLIDEAN = Op("euclidean", lambda xp, x, y: xp.euclidean(x, y), x=_euclidean_x, y=_euclidean_y)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances between the rows of a matrix: those of (0, 1), (0, 2), ..., (1, 2), ... in one vector.

    - `input` (Tensor): (N, M)
    - `p` (number, default 2): of the norm, not negative

    The result is (N (N - 1) / 2). RuntimeError for other shapes and a negative p.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pdist(ferro.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))[:2]
        tensor([5., 1.])
    """
    a = need_tensor("pdist", "input", input)._data
    if a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {a.ndim}D")
    if a.dtype.kind in "biuc":
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {dtypes.FROM_NUMPY[a.dtype]}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    i, j = [backend.beside(a, index) for index in np.triu_indices(a.shape[0], 1)]
    rows = backend.functional.index_select
    return vector_norm(rows(input, 0, wrap(i)) - rows(input, 0, wrap(j)), p if a.shape[1] else 2.0, 1)


declare(
    "pdist",
    [
        *[Sample(Arg(4, 3, make=away), p) for p in (0.5, 1, 2, 3)],
        Sample(Arg(2, 5)),
        Sample(Arg(1, 3)),
        Sample(Arg(values=[[1.0, 2.0], [1.0, 2.0]]), smooth=False),
    ],
)


class DistanceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    dist = dist
