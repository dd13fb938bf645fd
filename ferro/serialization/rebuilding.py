"""From a pickle to objects: the functions that PyTorch's pickles call, on storages that were read, with every argument checked."""

from __future__ import annotations

import codecs
import pickle
from collections import Counter, OrderedDict
from typing import Any

from ferro.core import dtypes
from ferro.core.base import LEAF, wrap
from ferro.core.device import device
from ferro.core.layout import Named, over, sparse_coo, sparse_csc, sparse_csr, strided
from ferro.core.size import Size
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage
from ferro.nn.parameter import Buffer, Parameter
from ferro.serialization.names import STORAGES
from ferro.sparse import sparse_compressed_tensor, sparse_coo_tensor
from ferro.tensor import Tensor

LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc)


def _tensor(
    storage: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """torch._utils._rebuild_tensor_v2."""
    if not isinstance(storage, TypedStorage):
        raise pickle.UnpicklingError(f"load: a tensor needs a storage, not {type(storage).__name__}")
    return _view(storage, storage.dtype, offset, size, stride, requires_grad, metadata)


def _tensor_of(
    storage: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """torch._utils._rebuild_tensor_v3: the dtype is the tensor's, and the storage bytes."""
    if not isinstance(storage, TypedStorage) or not isinstance(dtype, dtypes.dtype):
        raise pickle.UnpicklingError("load: a tensor needs a storage and a dtype")
    if dtype is dtypes.complex32:
        from ferro.complex_half import ComplexHalf  # (a subclass makes all functions ask their arguments)

        return ComplexHalf(_view(storage, dtypes.uint32, offset, size, stride, False, None))
    return _view(storage, dtype, offset, size, stride, requires_grad, metadata)


def _view(
    storage: TypedStorage, dtype: dtypes.dtype, offset: Any, size: Any, stride: Any, requires_grad: Any, metadata: Any
) -> Tensor:
    """A tensor that looks at a storage, if all of it lies there."""
    memory, item = storage.untyped().bytes(), dtype.itemsize
    numbers = [offset, *size, *stride]
    if any(type(n) is not int or n < 0 for n in numbers) or len(size) != len(stride) or len(size) > 64:
        raise pickle.UnpicklingError(
            f"load: size {_short(size)}, stride {_short(stride)} and offset {_short(offset)} are none of a tensor's"
        )
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and (last + 1) * item > len(memory):
        raise pickle.UnpicklingError(
            f"load: a tensor of size {list(size)}, stride {list(stride)} and offset {offset} lies outside its storage of "
            f"{len(memory) // item} elements"
        )
    if 0 in size and offset * item > len(memory):
        offset = 0
    data = over(memory, tuple(size), dtype.np, offset * item, tuple([s * item for s in stride]))
    if isinstance(metadata, dict) and metadata.get(
        "conj"
    ):  # PyTorch's lazy conjugates and negatives: here they are numbers
        data = data.conj()
    if isinstance(metadata, dict) and metadata.get("neg"):
        data = -data
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise pickle.UnpicklingError(f"load: a tensor of {dtype} cannot require a gradient")
    return wrap(data, LEAF if requires_grad else None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."


def _parameter(data: Tensor, requires_grad: bool, hooks: Any = None, state: Any = None) -> Parameter:
    """torch._utils._rebuild_parameter, and the same with attributes."""
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError("load: a Parameter is made of a tensor")
    parameter = Parameter(data, bool(requires_grad))
    vars(parameter).update((state[0] if isinstance(state, tuple) else state) or {})
    return parameter


def _layout(name: str) -> Named:
    """torch.serialization._get_layout."""
    for layout in LAYOUTS:
        if name == f"torch.{layout.name}":
            return layout
    raise NotImplementedError(
        f"load: the layout {name!r:.50} is not supported: ferro has strided, COO, CSR and CSC tensors"
    )


def _sparse(layout: Named, parts: tuple[Any, ...]) -> Tensor:
    """torch._utils._rebuild_sparse_tensor: of indices, values and a size; that indices fit and are in order is checked."""
    if layout is not sparse_coo:
        return sparse_compressed_tensor(*parts, layout=layout)
    indices, values, size, *coalesced = parts
    return sparse_coo_tensor(
        indices, values, size, is_coalesced=coalesced[0] if coalesced else None, check_invariants=True
    )


def later(layout: Named, parts: tuple[Any, ...]) -> None:
    """In place of a sparse tensor whose numbers have not been read yet, and so cannot be checked."""


def _from_type(function: Any, kind: Any, arguments: tuple[Any, ...], state: Any) -> Tensor:
    """torch._tensor._rebuild_from_type_v2: a tensor of a subclass, or with attributes."""
    if function not in REBUILD or not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise pickle.UnpicklingError("load: a tensor of a subclass is made by another function than PyTorch's")
    tensor = function(*arguments)
    if kind is not Tensor:
        tensor = wrap(tensor._data, tensor._node, kind)
    if hasattr(kind, "__setstate__"):
        tensor.__setstate__(state)
    else:
        vars(tensor).update((state[0] if isinstance(state, tuple) else state) or {})
    return tensor


REBUILD = (_tensor, _tensor_of, _parameter, _sparse, later)

# Functions of PyTorch's that make tensors which ferro has not.
MISSING = {
    "torch._utils._rebuild_qtensor": "quantised",
    "torch._utils._rebuild_nested_tensor": "nested",
    "torch._utils._rebuild_meta_tensor_no_storage": "meta",
    "torch._utils._rebuild_wrapper_subclass": "wrapped",
}

# What names of torch's stand for in every file.
TORCH: dict[str, Any] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type": _from_type,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch.serialization._get_layout": _layout,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.Buffer": Buffer,
    "torch.Tensor": Tensor,
    "torch.Size": Size,
    "torch.device": device,
    "torch.storage.UntypedStorage": UntypedStorage,
    **{f"torch.{name}": dtype for name, dtype in STORAGES.items()},
    **{f"torch.{dtype.name}": dtype for dtype in (*dtypes.ALL, *dtypes.ABSENT)},
}


# -- what a file may call that only has weights in it: the arguments are checked, since it may be anybody's ---------------

_LARGEST_KEY = 10_000  # parts of a key: hashing tuples of tuples can take for ever


def checked_key(key: Any) -> Any:
    """A key of a dictionary or an element of a set, if hashing it ends."""
    if type(key) in (str, int, float, bool, bytes, type(None)):
        return key
    left, pending = _LARGEST_KEY, [key]
    while pending:
        part = pending.pop()
        left -= 1
        if type(part) in (tuple, Size, frozenset):
            left -= len(part)
            pending.extend(part)
        if left < 0:
            raise pickle.UnpicklingError(f"a key of a dictionary has more than {_LARGEST_KEY} parts")
    return _shallow(key)


def _shallow(key: Any) -> Any:
    depth, level = 0, [key]
    while level := [part for held in level if type(held) in (tuple, Size, frozenset) for part in held]:
        depth += 1
        if depth > 100:
            raise pickle.UnpicklingError("a key of a dictionary is a tuple more than 100 deep")
    return key


def filled(into: dict, items: Any) -> dict:
    """A dictionary with pairs of keys and values added."""
    for key, value in items:
        into[checked_key(key)] = value
    return into


def _ordered(pairs: Any = ()) -> OrderedDict:
    found: OrderedDict[Any, Any] = OrderedDict()
    filled(found, pairs.items() if type(pairs) is dict else pairs)
    return found


def _counter(counts: Any = None) -> Counter:
    found: Counter[Any] = Counter()
    filled(found, (counts or {}).items())
    return found


def _set(items: Any = ()) -> set:
    return {checked_key(item) for item in items}


def _frozenset(items: Any = ()) -> frozenset:
    return frozenset(_set(items))


def _bytearray(content: Any = b"", encoding: Any = None) -> bytearray:
    if isinstance(content, int):  # so many zeros
        raise pickle.UnpicklingError("bytearray is called with a number")
    return bytearray(content) if encoding is None else bytearray(_encoded(content, encoding))


def _encoded(text: Any, encoding: Any = "utf-8") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise pickle.UnpicklingError(f"_codecs.encode is called with {_short(encoding)}")
    return text.encode(encoding)


def _complex(real: Any = 0.0, imag: Any = 0.0) -> complex:
    return complex(float(real), float(imag))


def _size(sizes: Any = ()) -> Size:
    return Size(tuple(sizes))


PLAIN: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "_codecs.encode": codecs.encode,
}

# What REDUCE may call, and by what it is replaced.
CALLED: list[tuple[Any, Any]] = [
    *[(function, function) for function in (*REBUILD, _from_type, _layout, device)],
    (Size, _size),
    (OrderedDict, _ordered),
    (Counter, _counter),
    (set, _set),
    (frozenset, _frozenset),
    (bytearray, _bytearray),
    (complex, _complex),
    (codecs.encode, _encoded),
]
