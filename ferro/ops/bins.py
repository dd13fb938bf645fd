"""Counts and histograms."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import dtypes, return_types
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.looped import by_slices
from ferro.core.origins import on_one_device
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.extrema import pair_into

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bincount", "histc", "histogram", "histogramdd"]


# -- counts and histograms ---------------------------------------------------------------------------------------------


@by_slices
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, ... appears in a vector of non-negative integers; with `weights`, their sums.

    Example::

        >>> import ferro
        >>> ferro.bincount(ferro.tensor([0, 2, 2, 3]))
        tensor([1, 0, 2, 1])
    """
    a = need_tensor("bincount", "input", input)._data
    if a.dtype.kind not in "iu":
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{dtypes.type_name(dtypes.FROM_NUMPY[a.dtype])}'; it takes integers"
        )
    if a.ndim != 1 or (a.size and plain(a).min() < 0):
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs; the shape is {list(a.shape)}")
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, got {minlength}")
    if weights is not None and weights._data.shape != a.shape:
        raise RuntimeError(
            f"bincount: weights should be 1-d and have the same length as input: {list(weights._data.shape)}, "
            f"{list(a.shape)}"
        )
    on_one_device("bincount", input, weights)
    return wrap(xp_of(a).bincount(a, None if weights is None else weights._data, minlength))


_COUNTED = Arg(values=[1, 1, 3], dtype="int64")
declare(
    "bincount",
    [
        Sample(_COUNTED),
        Sample(_COUNTED, Arg(3)),
        Sample(_COUNTED, Arg(values=[1, 2, 3], dtype="int64"), 6),
        Sample(_COUNTED, minlength=2),
    ],
    differentiable=False,
)


@by_slices
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements lie in each of `bins` equal bins between min and max, these included.

    - `input` (Tensor): any shape, real
    - `bins` (int, default 100): how many
    - `min`, `max` (number, default 0): if they are equal, those of the elements
    - `out` (Tensor, default None): where to write the result

    The result is (bins), in the dtype of `input`. RuntimeError for no bins, an infinite range and max < min.

    Example::

        >>> import ferro
        >>> ferro.histc(ferro.tensor([1.0, 2.0, 2.0, 9.0]), bins=2, min=0, max=4)
        tensor([1., 2.])
    """
    a = _histogrammed("histc", input)
    left, right, xp = float(min), float(max), xp_of(a)
    if left > right:
        raise RuntimeError(f"histc: max must be larger than min, but got min {left} and max {right}")
    edges = xp.outer_edges(a, _bins("histc", bins), left, right)
    hist = xp.histogram(a.reshape(-1, 1), [edges], True, None)
    return into("histc", out, wrap(hist.astype(input._data.dtype, copy=False)))


@by_slices
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False, out: Any = None
) -> return_types.histogram:
    """How many elements (or with which weight) lie in each bin: (hist, bin_edges).

    - `input` (Tensor): any shape, floating
    - `bins` (int or Tensor): the number of equal bins, or their edges, ascending
    - `range` (pair of floats, default None): the first and the last edge; None: those of the elements
    - `weight` (Tensor, default None): of each element, in the shape of `input`
    - `density` (bool, default False): makes the area under the histogram 1
    - `out` (tuple of two Tensors, default None): where to write both

    RuntimeError for weights of another shape, no bins and a range that does not ascend.

    Example::

        >>> import ferro
        >>> ferro.histogram(ferro.tensor([1.0, 2.0, 2.0, 9.0]), bins=2, range=(0.0, 4.0))
        ferro.return_types.histogram(
        hist=tensor([1., 2.]),
        bin_edges=tensor([0., 2., 4.]))
    """
    a = _histogrammed("histogram", input).reshape(-1, 1)
    if range is not None and isinstance(bins, TensorBase):
        raise TypeError(
            "histogram() received an invalid combination of arguments: bins is a tensor of edges, which say the range; leave range= out"
        )
    if range is not None and len(range) != 2:
        raise RuntimeError(
            f"histogram: for a 1-dimensional histogram range should have 2 elements, but got {len(range)}"
        )
    for part, o in zip(("hist", "bin_edges"), out or (), strict=False):
        if need_tensor("histogram", "out", o).dtype is not input.dtype:
            raise RuntimeError(
                f"histogram: input tensor and {part} tensor should have the same dtype, but got input "
                f"{dtypes.META_NAMES[input.dtype]} and {part} {dtypes.META_NAMES[o.dtype]}"
            )
    found = _grid("histogram", a, input.dtype, [bins], [None if range is None else tuple(range)], weight, density)
    pair = (found[0], found[1][0])
    return return_types.histogram(pair if out is None else pair_into("histogram", out, pair))


@by_slices
def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False, out: Any = None
) -> return_types.histogramdd:
    """The :func:`histogram` of points: (hist, bin_edges), the edges of each coordinate.

    - `input` (Tensor): points, (..., D), floating
    - `bins` (int, ints or Tensors): a number, numbers for each coordinate, or edges for each
    - `range` (sequence of 2 D floats, default None): the first and the last edge of the first coordinate, of the
      second, and so on
    - `weight` (Tensor, default None): of each point, (...)
    - `density` (bool, default False): makes the volume under the histogram 1
    - `out` (Tensor, default None): must be None

    RuntimeError for numbers that do not fit.

    Example::

        >>> import ferro
        >>> hist, edges = ferro.histogramdd(ferro.tensor([[0.5, 0.5], [1.5, 0.5]]), [2, 1], range=[0.0, 2.0, 0.0, 1.0])
        >>> hist
        tensor([[1.],
                [1.]])
    """
    name = "histogramdd"
    a = _histogrammed(name, input)
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input tensor should have at least 2 dimensions, got shape {list(a.shape)}")
    n = a.shape[-1]
    many = list(bins) if isinstance(bins, (tuple, list)) else [bins] * n
    if len(many) != n:
        raise RuntimeError(
            f"{name}: The size of bins must be equal to the innermost dimension of the input. They are {len(many)} and {n}"
        )
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"{name}: for a {n}-dimensional histogram range should have {2 * n} elements, but got {len(range)}"
        )
    ranges = (
        [None] * n if range is None else [(left, right) for left, right in zip(range[::2], range[1::2], strict=True)]
    )
    found = _grid(name, a.reshape(-1, n), input.dtype, many, ranges, weight, density)
    return return_types.histogramdd(found)


def _histogrammed(name: str, input: Any) -> Any:
    """The array of a histogram's input, which must be real and floating; 16-bit floats as float32."""
    a = need_tensor(name, "input", input)._data
    if a.dtype not in dtypes.INEXACT or a.dtype.kind == "c":
        raise NotImplementedError(
            f"{name}: \"histogramdd\" not implemented for '{dtypes.type_name(input.dtype)}'; it takes floating point tensors"
        )
    return _wide(a)


def _wide(a: Any) -> Any:
    return a.astype(np.float32) if a.dtype in dtypes.HALF else a


def _bins(name: str, bins: Any, d: int = 0) -> int:
    n = operator.index(bins)
    if n <= 0:
        raise RuntimeError(f"{name}(): bins must be > 0, but got {n} for dimension {d}")
    return n


def _grid(name: str, points: Any, dtype: Any, bins: list, ranges: list, weight: Any, density: bool) -> tuple:
    """The histogram of the rows of `points`, and its edges, in the dtype of the input."""
    w = None
    on_one_device(name, wrap(points), *bins, weight)
    called = dtypes.META_NAMES[dtype]
    for d, b in enumerate(bins):
        if isinstance(b, TensorBase) and (own := dtypes.FROM_NUMPY[b._data.dtype]) is not dtype:
            raise RuntimeError(
                f"{name}: input tensor and bins tensors should have the same dtype, but got input with dtype {called} and "
                f"bins for dimension {d} with dtype {dtypes.META_NAMES[own]}"
            )
    if weight is not None:
        w = _wide(weight._data).reshape(-1)
        if weight.dtype is not dtype:
            raise RuntimeError(
                f"{name}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
                f"input({called}), and weight({dtypes.META_NAMES[weight.dtype]})"
            )
        if len(w) != len(points):
            raise RuntimeError(
                f"{name}: if weight tensor is provided it should have the same shape as the input tensor excluding its "
                f"innermost dimension, but got input with shape {list(points.shape)} and weight with shape "
                f"{list(weight._data.shape)}"
            )
    edges = [_edges(name, points[:, d], dtype, b, r, d) for d, (b, r) in enumerate(zip(bins, ranges, strict=True))]
    hist = xp_of(points).histogram(points, edges, False, w)
    if density:
        hist = hist / hist.sum()
        for k, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape([-1 if d == k else 1 for d in range(hist.ndim)])
    hist, *edges = [a.astype(dtype.np, copy=False) for a in (hist, *edges)]
    return wrap(hist), tuple([wrap(e) for e in edges])


def _edges(name: str, x: Any, dtype: Any, bins: Any, given: Any, d: int) -> Any:
    """The edges of the bins of coordinate d."""
    if isinstance(bins, TensorBase):
        for allowed, words, found in (
            (bins._data.ndim == 1, "have one dimension", f"{bins._data.ndim} dimensions"),
            (bins._data.size > 0, "have at least 1 element", "0 elements"),
        ):
            if not allowed:
                raise RuntimeError(
                    f"{name}: bins tensor should {words}, but got {found} in the bins tensor for dimension {d}"
                )
        return _wide(bins._data).copy()
    n = _bins(name, bins, d)
    if given is not None:
        given = float(given[0]), float(given[1])
    if given is not None and given[0] > given[1]:
        raise RuntimeError(
            f"{name}: min should not exceed max, but got min {given[0]:g} max {given[1]:g} for dimension {d}"
        )
    return xp_of(x).equal_edges(x, n, given, f"{name}: dimension {d}'s range")


_DATA = Arg(values=[1.0, 2.0, 1.0, 2.9, 5.0])
declare(
    "histc",
    [
        Sample(_DATA, 4),
        Sample(_DATA, 4, 0, 3),
        Sample(_DATA, bins=3, min=1, max=4),
        Sample(Arg(0), 3),
        Sample(Arg(values=[1.0, 1.0]), 4),
    ],
    differentiable=False,
)
declare(
    "histogram",
    [
        Sample(_DATA, 4),
        Sample(_DATA, 4, range=(0.0, 3.0)),
        Sample(_DATA, Arg(values=[0.0, 1.0, 4.0])),
        Sample(_DATA, 3, weight=Arg(5), density=True),
        Sample(Arg(values=[1.0, 1.0]), 2),
    ],
    differentiable=False,
)
declare(
    "histogramdd",
    [
        Sample(Arg(6, 2), [2, 3]),
        Sample(Arg(6, 2), 2, range=[-1.0, 1.0, -2.0, 2.0]),
        Sample(Arg(3, 2, 2), [3, 2], density=True),
    ],
    differentiable=False,
)


class BinMethods:
    """Methods of Tensor."""

    __slots__ = ()
    bincount = bincount
    histc = histc
    histogram = histogram
