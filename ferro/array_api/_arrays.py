"""Creation, dtypes, shapes and indexing of the array-API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro._public import ferro
from ferro.array_api import _results
from ferro.array_api._promotion import promoted, result_type
from ferro.core.base import TensorBase

if TYPE_CHECKING:
    from ferro.tensor import Tensor

KINDS = {
    "bool": (ferro.bool,),
    "signed integer": (ferro.int8, ferro.int16, ferro.int32, ferro.int64),
    "unsigned integer": (ferro.uint8, ferro.uint16, ferro.uint32, ferro.uint64),
    "real floating": (ferro.float32, ferro.float64),
    "complex floating": (ferro.complex64, ferro.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]

# -- creation -------------------------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array from numbers, sequences, buffers and arrays: see :func:`ferro.asarray`."""
    if isinstance(obj, TensorBase):
        x: Any = obj if dtype is None else obj.to(dtype)  # type: ignore[attr-defined]
        if copy is False and x is not obj:
            raise ValueError(f"asarray: a copy is needed for {dtype}, but copy=False")
        return x.clone() if copy and x is obj else x
    return ferro.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, ..., below stop (above it for a negative step); empty if there is nothing between them."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step < 0:
        some_float = any(isinstance(v, float) for v in (start, stop, step))
        return ferro.empty(0, dtype=dtype or (ferro.get_default_dtype() if some_float else ferro.int64), device=device)
    return ferro.arange(start, stop, step, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the diagonal number k, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    ones = ferro.ones(n_rows, n_cols, dtype=dtype, device=device)
    return ferro.triu(ferro.tril(ones, k), k)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number."""
    return ferro.full((shape,) if isinstance(shape, int) else tuple(shape), fill_value, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers at equal distances from start to stop, which is left out without `endpoint`."""
    if dtype is None and any(isinstance(v, complex) for v in (start, stop)):
        dtype = ferro.get_default_dtype().to_complex()
    if dtype is not None and dtype.is_complex:
        parts = [
            linspace(
                getattr(complex(start), p), getattr(complex(stop), p), num, dtype=dtype.to_real(), endpoint=endpoint
            )
            for p in ("real", "imag")
        ]
        return ferro.complex(*parts)
    found = ferro.linspace(start, stop, num if endpoint else num + 1, dtype=dtype, device=device)
    return found if endpoint else found[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid."""
    return list(ferro.meshgrid(*arrays, indexing=indexing))


def _filled(name: str) -> Any:
    make, like = getattr(ferro, name), getattr(ferro, f"{name}_like")

    def new(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        return make((shape,) if isinstance(shape, int) else tuple(shape), dtype=dtype, device=device)

    def new_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
        return like(x, dtype=dtype, device=device)

    new.__name__, new_like.__name__ = new.__qualname__, new_like.__qualname__ = name, f"{name}_like"
    new.__doc__, new_like.__doc__ = f":func:`ferro.{name}`.", f":func:`ferro.{name}_like`."
    return new, new_like


empty, empty_like = _filled("empty")
ones, ones_like = _filled("ones")
zeros, zeros_like = _filled("zeros")


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number and the shape of x."""
    return ferro.full_like(x, fill_value, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below the diagonal number k."""
    return ferro.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above the diagonal number k."""
    return ferro.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The memory of another library's array: see :func:`ferro.from_dlpack`."""
    return ferro.from_dlpack(x, device=None if device is None or isinstance(device, tuple) else device, copy=copy)


# -- dtypes ---------------------------------------------------------------------------------------------------------------


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another dtype; itself if it has the dtype and copy is False."""
    return x.to(dtype, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the promotion of the standard leads from one dtype (or that of an array) to the other."""
    try:
        return result_type(from_, to) is to
    except (TypeError, RuntimeError):
        return False


def finfo(type: Any, /) -> Any:
    """The limits of a floating dtype, or of the dtype of an array."""
    d = _dtype_of(type)
    found = ferro.finfo(d)
    return _results.finfo_object(found.bits, found.eps, found.max, found.min, found.tiny, d.to_real())


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of the dtype of an array."""
    d = _dtype_of(type)
    found = ferro.iinfo(d)
    return _results.iinfo_object(found.bits, found.max, found.min, d)


def _dtype_of(type: Any) -> Any:
    """A dtype, or that of an array."""
    return type.dtype if isinstance(type, TensorBase) else type  # type: ignore[attr-defined]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind ("real floating", ...), is a given dtype, or is one of a tuple of those."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
        return dtype in KINDS[kind]
    return dtype is kind


# -- shapes ---------------------------------------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays expanded to their common shape."""
    return list(ferro.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple) -> Tensor:
    """The array expanded to a shape."""
    return ferro.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """The arrays one behind the other, in their common dtype; flattened first if axis is None."""
    arrays = promoted(*arrays)
    return ferro.cat([a.reshape(-1) for a in arrays]) if axis is None else ferro.cat(arrays, axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """The array with dimensions of one element at the places `axis`."""
    axes = (axis,) if isinstance(axis, int) else axis
    n = x.ndim + len(axes)
    if any(not -n <= a < n for a in axes):
        raise IndexError(f"expand_dims: axis must be between {-n} and {n - 1}, got {axis}")
    for a in sorted(a % n for a in axes):
        x = ferro.unsqueeze(x, a)
    return x


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The array in reverse order along some dimensions, all by default."""
    return ferro.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Dimensions moved to other places."""
    return ferro.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The dimensions in another order."""
    return ferro.permute(x, axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element (or slice along axis) several times."""
    return ferro.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; ValueError if that takes a copy and copy is False."""
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as e:
            raise ValueError(f"reshape: a copy is needed for the shape {tuple(shape)}, but copy=False") from e
    return ferro.reshape(x.clone() if copy else x, shape)


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The elements moved round along some dimensions."""
    return ferro.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The array without some dimensions of one element; ValueError if one of them has more."""
    axes = (axis,) if isinstance(axis, int) else axis
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: dimension {a} has {x.shape[a]} elements, not 1")
    return ferro.squeeze(x, tuple(axes))


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """The arrays along a new dimension, in their common dtype."""
    return ferro.stack(promoted(*arrays), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array several times along each dimension."""
    return ferro.tile(x, repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension."""
    return ferro.unbind(x, axis)


# -- indexing, order, sets ------------------------------------------------------------------------------------------------


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements (or slices along axis) at some places."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: axis must be given for an array of {x.ndim} dimensions")
    return ferro.index_select(x, axis or 0, ferro.where(indices < 0, indices + x.shape[axis or 0], indices))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at the places that an array of indices names along a dimension."""
    return ferro.take_along_dim(x, ferro.where(indices < 0, indices + x.shape[axis], indices), axis)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition is true, x2 elsewhere, in their common dtype."""
    return ferro.where(condition, *promoted(x1, x2))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not 0, an array for each dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d array has no places")
    return ferro.nonzero(x, as_tuple=True)


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """The places at which the numbers x2 stand among x1, which is in order (with `sorter`, in its order)."""
    x1, x2 = promoted(x1, x2)
    return ferro.searchsorted(x1, x2, side=side, sorter=sorter)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of the elements in order."""
    return ferro.sort(x, axis, descending, stable).indices


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order."""
    return ferro.sort(x, axis, descending, stable).values


def _distinct(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements, the places of all elements among them, and how often each appears; complex ones by both parts."""
    if x.dtype.is_complex:
        rows, inverse, counts = ferro.unique(
            ferro.view_as_real(x.flatten()), dim=0, return_inverse=True, return_counts=True
        )
        return ferro.view_as_complex(rows), inverse.reshape(x.shape), counts
    values, inverse, counts = ferro.unique(x, return_inverse=True, return_counts=True)
    return values, inverse.reshape(x.shape), counts


def unique_all(x: Tensor, /) -> Any:
    """The distinct elements, the first places, the places of all elements among them, and how often each appears."""
    values, inverse, counts = _distinct(x)
    first = np.full(values.numel(), x.numel(), np.int64)
    np.minimum.at(first, inverse.flatten().numpy(), np.arange(x.numel()))
    return _results.unique_all_result(values, ferro.from_numpy(first), inverse, counts)


def unique_counts(x: Tensor, /) -> Any:
    """The distinct elements and how often each appears."""
    values, _, counts = _distinct(x)
    return _results.unique_counts_result(values, counts)


def unique_inverse(x: Tensor, /) -> Any:
    """The distinct elements and the places of all elements among them."""
    return _results.unique_inverse_result(*_distinct(x)[:2])


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements."""
    return _distinct(x)[0]
