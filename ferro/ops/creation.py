"""Creation: tensors from data, filled tensors, ranges."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import new_array
from ferro.core import device as _device
from ferro.core import dtypes, worlds
from ferro.core.arguments import into, sizes, with_size
from ferro.core.base import LEAF, TensorBase, mark_inference, wrap
from ferro.core.determinism import unset, unset_array
from ferro.core.layout import arranged, contiguous_format, memory_order, strided
from ferro.core.looped import by_slices
from ferro.core.mode import ACTIVE, is_inference_mode_enabled
from ferro.core.notices import warn_once
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage, elements_as

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "asarray", "can_cast", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack",
    "from_numpy", "frombuffer", "full", "full_like", "is_floating_point", "is_tensor", "linspace", "logspace", "numel", "ones",
    "range_", "result_type", "scalar_tensor", "tensor", "zeros",
]  # fmt: skip


def finish(name: str, data: Any, requires_grad: bool, device: Any = None) -> Any:
    """A new leaf around `data`."""
    if device is not None:
        _device.check(device)
    t = wrap(data)
    if requires_grad:
        if data.dtype not in dtypes.INEXACT:
            raise RuntimeError(
                f"{name}: Only Tensors of floating point and complex dtype can require gradients, got {t.dtype}"
            )
        t._node = LEAF
    if ACTIVE and is_inference_mode_enabled():
        mark_inference(t)
    return t


def to_array(name: str, data: Any, dtype: Any) -> Any:
    """NumPy array of anything `tensor` accepts, with PyTorch's dtype rules."""
    wanted = None if dtype is None else dtypes.to_numpy(dtype)
    if isinstance(data, TensorBase):
        return data._data if wanted is None else data._data.astype(wanted, copy=False)
    if isinstance(data, (np.ndarray, np.generic)):
        a = np.asarray(data)
        return dtypes.own(a if wanted is None else a.astype(wanted, copy=False))
    if isinstance(data, (bool, int, float, complex)):
        return np.array(data, wanted or dtypes.scalar_dtype(data))
    if isinstance(data, (TypedStorage, UntypedStorage)):
        own = data.dtype if isinstance(data, TypedStorage) else dtypes.int64
        return elements_as(name, data, wanted or own.np)
    if hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
        return to_array(name, np.asarray(data), dtype)
    if isinstance(data, (list, tuple, range)):
        return _from_sequence(name, data, wanted)
    raise TypeError(
        f"{name}: could not infer dtype of {type(data).__name__}; expected numbers, (nested) sequences of numbers, arrays or tensors"
    )


def _from_sequence(name: str, data: Any, wanted: Any) -> Any:
    def plain(x: Any) -> Any:
        if isinstance(x, (list, tuple, range)):
            return [plain(y) for y in x]
        return x._data if isinstance(x, TensorBase) else x

    try:
        a = np.array(plain(data))
    except ValueError as e:
        raise ValueError(f"{name}: expected nested sequences of equal lengths; {e}") from None
    if a.dtype.kind not in "biufcV" or a.dtype == object:
        raise TypeError(f"{name}: expected numbers, got elements of type {_odd(data)}")
    if wanted is not None:
        return a.astype(wanted)
    a = dtypes.own(a)
    if a.size == 0 or (a.dtype.kind == "f" and a.dtype == np.float64 and not _has_array(data)):
        return a.astype(dtypes.default().np)
    if a.dtype == np.complex128 and not _has_array(data):
        return a.astype(dtypes.default().to_complex().np)
    return a


def _odd(data: Any) -> str:
    while isinstance(data, (list, tuple)) and data:
        data = next((d for d in data if not isinstance(d, (bool, int, float, complex))), data[0])
    return type(data).__name__


def _has_array(data: Any) -> bool:
    """Whether a dtype comes with the elements."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic, TensorBase))


_NOTHING: Any = object()


def tensor(
    data: Any = _NOTHING,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of `data`: a number, nested sequences, a NumPy array or a tensor.

    Python floats take the default dtype, ints int64, bools bool; arrays keep theirs.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]], dtype=ferro.float64)
        tensor([[1., 2.],
                [3., 4.]], dtype=ferro.float64)
    """
    if data is _NOTHING:
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    a = to_array("tensor", data, dtype)
    return finish("tensor", np.array(a, order="C", copy=True), requires_grad, device)


# An array of the program is taken as a view of it: a shape or dtype that it is given later is not that of the tensor.
view, plain = np.ndarray.view, np.ndarray


def _apart(array: Any, data: Any) -> Any:
    """The array made of `data`; a view of it, if it may be one that the program has."""
    return array if isinstance(data, (bool, int, float, complex, list, tuple, range)) else view(array, plain)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy and with its history where it is one already."""
    _device.check(device)
    if isinstance(data, TensorBase):
        return data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
    return wrap(_apart(to_array("as_tensor", data, dtype), data))


READ_ONLY = (
    "The given NumPy array is not writable, and PyTorch does not support non-writable tensors; ferro does, and refuses to write "
    "to them. You may want to copy the array to protect its data or make it writable before converting it to a tensor."
)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.flags.writeable:
        warn_once(READ_ONLY)
    return wrap(view(dtypes.own(ndarray), plain))


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor, sharing memory where possible (copy=None), always copied (True) or never (False: ValueError if needed)."""
    a = to_array("asarray", obj, dtype)
    shared = isinstance(obj, (TensorBase, np.ndarray)) and a is (obj._data if isinstance(obj, TensorBase) else obj)
    if copy is False and not shared:
        raise ValueError(
            "asarray: can't alias tensor with dtype or type of the given object; a copy is needed but copy=False"
        )
    if isinstance(obj, TensorBase) and shared and not copy and not requires_grad:
        return obj  # type: ignore[return-value]
    return finish("asarray", a.copy() if copy else _apart(a, obj), requires_grad, device)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A one-dimensional tensor that shares the memory of an object with the buffer protocol."""
    return finish("frombuffer", np.frombuffer(buffer, dtypes.to_numpy(dtype), count, offset), requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object of another library through DLPack."""
    return wrap(np.from_dlpack(ext_tensor) if copy is None else np.from_dlpack(ext_tensor, copy=copy))


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A 0-d tensor of the default dtype."""
    return finish(
        "scalar_tensor",
        np.array(s, dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)),
        requires_grad,
        device,
    )


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, TensorBase)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating one."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input._data.size


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an arithmetic operation of two tensors or numbers."""
    return dtypes.FROM_NUMPY[
        dtypes.result_np([t._data if isinstance(t, TensorBase) else t for t in (tensor1, tensor2)])
    ]


def can_cast(from_: dtypes.dtype, to: dtypes.dtype) -> bool:
    """Whether a result of dtype `from_` may be written into a tensor of dtype `to`."""
    return dtypes.can_cast(from_, to)


def _filled(
    name: str, shape: tuple, value: Any, dtype: Any, requires_grad: bool, device: Any = None, out: Any = None
) -> Any:
    shape = sizes(name, shape)
    d = chosen_dtype(dtype, out, dtypes.default().np)
    try:
        if value:
            a = np.empty(shape, d)
            a.fill(value)
        else:
            a = np.zeros(shape, d)
    except ValueError:
        if min(shape) >= 0:
            raise
        raise RuntimeError(
            f"{name}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        ) from None
    return result_or_out(name, a, out, requires_grad, device)


def _sparse(name: str, shape: Any, dtype: Any, layout: Any, requires_grad: bool, out: Any) -> Any:
    if out is not None:
        raise RuntimeError(f"{name}: out= is a dense tensor, which does not have the layout {layout}")
    return worlds.sparse_empty(name, sizes(name, shape), dtype, layout, requires_grad)


def zeros(*shape: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros, with layout=sparse_coo one without values."""
    if layout not in (None, strided):
        return _sparse("zeros", with_size("zeros", shape, size), dtype, layout, requires_grad, out)
    return _filled("zeros", with_size("zeros", shape, size), 0, dtype, requires_grad, device, out)


def ones(*shape: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ones."""
    if layout not in (None, strided):
        raise RuntimeError(f"ones: full(...) is not implemented for sparse layout, got {layout}")
    return _filled("ones", with_size("ones", shape, size), 1, dtype, requires_grad, device, out)


def empty(*shape: Any, size: Any = None, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
          memory_format: Any = None, layout: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor without set values (zeros here), in C order or that of a memory format; with layout=sparse_coo one without values."""
    shape = with_size("empty", shape, size)
    if layout not in (None, strided):
        return _sparse("empty", shape, dtype, layout, requires_grad, out)
    if memory_format in (None, contiguous_format):
        return _filled(
            "empty", shape, unset(chosen_dtype(dtype, out, dtypes.default().np)), dtype, requires_grad, device, out
        )
    shape = sizes("empty", shape)
    return empty_permuted(shape, memory_order("empty", len(shape), memory_format) or range(len(shape)), dtype=dtype, device=device,
                          requires_grad=requires_grad)  # fmt: skip


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor without set values with the given strides (counted in elements)."""
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    size, stride = tuple(size), tuple(stride)
    extent = 1 + builtins.sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    a = np.lib.stride_tricks.as_strided(unset_array(max(extent, 1), d), size, [s * d.itemsize for s in stride])
    return finish("empty_strided", a, requires_grad, device)


def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                   **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor without set values whose dimensions lie in memory in the order `physical_layout`."""
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    size, order = tuple(size), tuple(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: physical_layout {order} is not a permutation of the {len(size)} dimensions"
        )
    a = unset_array([size[i] for i in order], d).transpose(np.argsort(order))
    return finish("empty_permuted", a, requires_grad, device)


def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:  # fmt: skip
    """A tensor filled with a number, of its dtype unless one is given."""
    value = fill_value._data.item() if isinstance(fill_value, TensorBase) else fill_value
    d = chosen_dtype(dtype, out, dtypes.scalar_dtype(value))
    dtypes.check_number("full", value, d)
    return result_or_out("full", np.full(sizes("full", (size,)), value, d), out, requires_grad, device)


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor like `input` filled with a number."""
    d = input._data.dtype if dtype is None else dtypes.to_numpy(dtype)
    data = new_array(input._data, input._data.shape, lambda s: np.full(s, fill_value, d))
    return finish("full_like", arranged("full_like", data, input._data, memory_format), requires_grad, device)


def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
               layout: Any = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor like `input` without set values (zeros here)."""
    if layout not in (None, strided):
        raise NotImplementedError("empty_like: Could not run 'aten::empty_strided' with arguments from the 'SparseCPU' backend: a "
                                  f"dense tensor has none like it of layout {layout}; use zeros_like")  # fmt: skip
    value = unset(input._data.dtype if dtype is None else dtypes.to_numpy(dtype))
    return full_like(input, value, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)


def arange(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The numbers start, start + step, ... below `end`; int64 if all three are integers.

    An integer dtype, or that of `out`, cuts the three to integers first; a step of 0 then raises ValueError, else
    RuntimeError, as do a step away from `end` and infinite bounds.
    """
    if end is None:
        start, end = 0, start
    if type(start) is type(end) is type(step) is int and (end - start) * step > 0 and dtype is None and out is None:
        return finish("arange", np.arange(start, end, step, dtype=dtypes.int64.np), requires_grad, device)
    given = [v.item() if isinstance(v, TensorBase) else v for v in (start, end, step)]  # type: ignore[attr-defined]
    start, end, step = given
    if any(isinstance(v, complex) for v in given):
        raise RuntimeError(f"arange: start, end and step must be real numbers, got {tuple(given)}")
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"arange: upper bound and lower bound inconsistent with step sign ({start}, {end}, {step})")
    integers = all(isinstance(v, int) for v in given)
    d = chosen_dtype(dtype, out, dtypes.int64.np if integers else dtypes.default().np)
    if d.kind in "iu" and not integers:
        start, end, step, integers = int(start), int(end), int(step), True
        if step == 0:
            raise ValueError(f"arange: step must be nonzero, but as {dtypes.FROM_NUMPY[d]} {given[2]} is 0")
    n = max(0, math.ceil((end - start) / step)) if not integers else len(range(start, end, step))
    a = (start + step * np.arange(n, dtype=np.int64 if integers else np.float64)).astype(d)
    return result_or_out("arange", a, out, requires_grad, device)


def chosen_dtype(dtype: Any, out: Any, otherwise: Any) -> Any:
    """The NumPy dtype asked for, else that of `out`, else another."""
    return dtypes.to_numpy(dtype) if dtype is not None else otherwise if out is None else out._data.dtype


def result_or_out(name: str, data: Any, out: Any, requires_grad: bool, device: Any) -> Any:
    """A new leaf around `data`, or `out` with that content; its dtype must be the one asked for."""
    if out is None:
        return finish(name, data, requires_grad, device)
    if out._data.dtype != data.dtype:
        raise RuntimeError(
            f"{name}: dtype {dtypes.FROM_NUMPY[data.dtype]} does not match dtype of out parameter ({out.dtype})"
        )
    return into(name, out, wrap(data))


def _spaced(name: str, start: Any, end: Any, steps: int, dtype: Any, out: Any) -> tuple:
    """Evenly spaced numbers, and the dtype of the result: complex if a bound is."""
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, got {steps}")
    start, end = [v._data.item() if isinstance(v, TensorBase) else v for v in (start, end)]
    is_complex = any(isinstance(v, (complex, np.complexfloating)) for v in (start, end))
    inferred = dtypes.default().to_complex().np if is_complex else dtypes.default().np
    d = chosen_dtype(dtype, out, inferred)
    if is_complex and d.kind != "c":
        raise RuntimeError(
            f"{name}(): inferred dtype {dtypes.FROM_NUMPY[inferred]} can't be safely cast to passed dtype {dtypes.FROM_NUMPY[d]}"
        )
    return np.linspace(start, end, steps), d


@by_slices
def linspace(start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from `start` to `end`, both included; complex if one of them is."""
    a, d = _spaced("linspace", start, end, steps, dtype, out)
    return result_or_out("linspace", a.astype(d), out, requires_grad, device)


@by_slices
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """base to the powers of `steps` evenly spaced numbers from `start` to `end`; complex if one of them is."""
    a, d = _spaced("logspace", start, end, steps, dtype, out)
    return result_or_out("logspace", np.power(float(base), a).astype(d), out, requires_grad, device)


def range_(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
           device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``torch.range``: like arange, but with `end` included and always floating by default."""
    d = chosen_dtype(dtype, out, dtypes.default().np)
    n = math.floor((end - start) / step + 1)
    return result_or_out("range", (start + step * np.arange(n)).astype(d), out, requires_grad, device)


def eye(n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Ones on the diagonal of an n x m matrix of zeros."""
    d = chosen_dtype(dtype, out, dtypes.default().np)
    return result_or_out("eye", np.eye(n, m, dtype=d), out, requires_grad, device)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A new tensor from data, with this tensor's dtype unless one is given."""
    return tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def _for_each(like: Any, t: Any) -> Any:
    """A new tensor; under vmap one for each slice of `like`, into which something else may be written."""
    if type(like._data) is not np.ndarray:
        t._data = new_array(like._data, t._data.shape, lambda s: np.broadcast_to(t._data, s).copy())
    return t


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             **ignored: Any) -> Tensor:  # fmt: skip
    """A filled tensor with this tensor's dtype unless one is given."""
    return _for_each(
        self, full(size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
    )


def new_ones(
    self: Tensor,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor of ones with this tensor's dtype unless one is given."""
    return _for_each(
        self, ones(*shape, size=size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
    )


def new_empty(
    self: Tensor,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor without set values (zeros here) with this tensor's dtype unless one is given."""
    return _for_each(
        self, empty(*shape, size=size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
    )


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                      **ignored: Any) -> Tensor:  # fmt: skip
    """empty_strided with this tensor's dtype unless one is given."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


class CreationMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_tensor = new_tensor
    new_full = new_full
    new_ones = new_ones
    new_empty = new_empty
    new_empty_strided = new_empty_strided
