"""save and load: objects with tensors in a file, in PyTorch's format, so that each library reads the tensors of the other."""

from __future__ import annotations

import codecs
import io
import os
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ferro.core import dtypes
from ferro.core.base import LEAF, wrap
from ferro.core.device import device
from ferro.core.layout import Named, sparse_coo, sparse_csc, sparse_csr, strided
from ferro.core.size import Size
from ferro.cpu.shape import geometry, memory_bytes, memory_of
from ferro.nn.parameter import Buffer, Parameter, is_lazy
from ferro.sparse import sparse_compressed_tensor, sparse_coo_tensor
from ferro.tensor import Tensor

if TYPE_CHECKING:
    import zipfile

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "remove_safe_globals",
    "safe_globals",
    "save",
]

# Note [The format]
#   A zip archive without compression.  data.pkl is a pickle in which a tensor is a call of torch._utils._rebuild_tensor_v2
#   with its storage, offset, size and stride; a storage is a persistent id, and its bytes are the record data/<key>.
#   Names of classes and functions of torch are written and read as text: nothing of torch is imported.


class _Name(NamedTuple):
    """A global of torch's, which the pickle refers to by name."""

    module: str
    name: str

    def __call__(self, *args: Any) -> NoReturn:
        raise TypeError(f"{self.module}.{self.name} is only a name here")


@cache
def _torch(name: str, module: str = "torch") -> _Name:
    return _Name(module, name)  # one object for each name: the pickle then writes it once


_STORAGES = {
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}


# -------------------------------------------------------------------- saving


class _Memory(NamedTuple):
    """A storage on its way into the file."""

    key: str
    kind: _Name
    count: int


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined] # (the one in C imports what it writes the name of)


class _Writer(_PythonPickler):
    dispatch = dict(_PythonPickler.dispatch)

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.records: dict[
            tuple[int, Any], tuple[_Memory, Any]
        ] = {}  # (memory, dtype): the array is held, so ids are unique

    def _save_name(self, name: _Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
        self.memoize(name)

    def _save_dtype(self, dtype: Any) -> None:
        self.write(pickle.GLOBAL + f"torch\n{dtype.name}\n".encode())
        self.memoize(dtype)

    dispatch[_Name] = _save_name
    dispatch[dtypes.dtype] = _save_dtype

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _Memory):
            return ("storage", obj.kind, obj.key, "cpu", obj.count)
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor) and obj.layout is not strided:
            return self._reduced_sparse(obj)
        if isinstance(obj, Tensor) and not is_lazy(obj):
            return self._reduced(obj)
        if type(obj) is Named and obj in _LAYOUTS:
            return _torch("_get_layout", "torch.serialization"), (f"torch.{obj.name}",)
        if type(obj) is Size:
            return _torch("Size"), (tuple(obj),)
        if type(obj) is device:
            return _torch("device"), (str(obj),)
        return NotImplemented

    def _reduced_sparse(self, tensor: Any) -> tuple[Any, ...]:
        values, layout = tensor.detach().kept, tensor.layout
        if layout is sparse_coo:
            parts = tensor._indices(), values, tensor.shape, tensor.is_coalesced()
        elif layout is sparse_csr:
            parts = tensor.crow_indices(), tensor.col_indices(), values, tensor.shape
        else:
            parts = tensor.ccol_indices(), tensor.row_indices(), values, tensor.shape
        return _torch("_rebuild_sparse_tensor", "torch._utils"), (layout, parts)

    def _reduced(self, tensor: Any) -> tuple[Any, ...]:
        kind, state = type(tensor), dict(vars(tensor))
        hooks: OrderedDict[int, Any] = OrderedDict()  # PyTorch does not save them, but has a place for them
        if kind is Parameter:
            name = "_rebuild_parameter_with_state" if state else "_rebuild_parameter"
            rest = (state,) if state else ()
            return _torch(name, "torch._utils"), (tensor.data, tensor.requires_grad, hooks, *rest)
        memory, offset, size, stride = self._place(tensor._data)
        arguments = (memory, offset, size, stride, tensor.requires_grad, hooks)
        if tensor.dtype in _STORAGE_OF:
            function = _torch("_rebuild_tensor_v2", "torch._utils")
        else:
            function, arguments = _torch("_rebuild_tensor_v3", "torch._utils"), (*arguments, tensor.dtype)
        if kind is Tensor and not state:
            return function, arguments
        written = _torch("Tensor") if kind is Tensor else kind
        return _torch("_rebuild_from_type_v2", "torch._tensor"), (function, written, arguments, state)

    def _place(self, data: Any) -> tuple[_Memory, int, tuple[int, ...], tuple[int, ...]]:
        """The storage of an array, and where in it the array lies."""
        root = memory_of(data)
        if any(s < 0 for s in data.strides) or root.dtype != data.dtype:
            root = data = np.array(data)
        size, stride, offset = geometry(data)
        dtype = dtypes.FROM_NUMPY[data.dtype]
        key = id(root), dtype
        if key not in self.records:
            name = _STORAGE_OF.get(dtype)
            held = memory_bytes(root)
            kind = _torch("UntypedStorage", "torch.storage") if name is None else _torch(name)
            count = held.nbytes if name is None else held.nbytes // dtype.itemsize
            self.records[key] = _Memory(str(len(self.records)), kind, count), (root, held)
        return self.records[key][0], offset, tuple(size), tuple(stride)


def save(obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2) -> None:
    """Write an object, with all tensors in it, to a path or a binary file.

    Tensors that share memory share it after `load`.  What holds tensors only in dictionaries and lists, as a state_dict,
    `torch.load` reads too.  `pickle_module` is accepted for PyTorch's sake.

    >>> import ferro, io
    >>> file = io.BytesIO()
    >>> ferro.save({"weight": ferro.ones(2)}, file)
    >>> ferro.load(file)
    {'weight': tensor([1., 1.])}
    """
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f)}"
        )
    import zipfile  # here: `import ferro` stays light

    pickled = io.BytesIO()
    writer = _Writer(pickled, pickle_protocol)
    writer.dump(obj)  # before the file is opened: an object that cannot be pickled must not cost an older file
    folder = Path(f).stem if isinstance(f, (str, os.PathLike)) else "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{folder}/data.pkl", pickled.getvalue())
        archive.writestr(f"{folder}/byteorder", sys.byteorder)
        for memory, (_, held) in writer.records.values():
            archive.writestr(f"{folder}/data/{memory.key}", np.ascontiguousarray(held).data)
        archive.writestr(f"{folder}/version", "3\n")


# -------------------------------------------------------------------- what may be loaded

_SAFE: dict[str, Any] = {}


def _named(entries: Any) -> dict[str, Any]:
    """Functions and classes, or pairs of such and a name, by their full names."""
    found = {}
    for entry in entries:
        value, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        found[name] = value
    return found


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load(weights_only=True)` use these classes and functions too.

    >>> import fractions
    >>> add_safe_globals([fractions.Fraction])
    >>> get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> clear_safe_globals()
    """
    _SAFE.update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """The classes and functions that were added."""
    return list(_SAFE.values())


def clear_safe_globals() -> None:
    """Take all that were added away."""
    _SAFE.clear()


def remove_safe_globals(safe_globals: list[Any]) -> None:
    """Take these away."""
    for name in _named(safe_globals):
        _SAFE.pop(name, None)


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Add classes and functions as long as the context is open."""
    before = dict(_SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        clear_safe_globals()
        _SAFE.update(before)


# -------------------------------------------------------------------- loading


class _Loaded(NamedTuple):
    """A storage that was read: its elements, one-dimensional."""

    elements: Any
    dtype: Any


def _tensor(
    storage: _Loaded, offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool, hooks: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    """torch._utils._rebuild_tensor_v2."""
    held, item = storage.elements, storage.elements.itemsize
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    if not 0 <= last < max(len(held), 1) or offset < 0:
        raise pickle.UnpicklingError(
            f"load: a tensor of size {list(size)}, stride {list(stride)} and offset {offset} lies outside its storage of "
            f"{len(held)} elements: the file is damaged"
        )
    data = np.ndarray(tuple(size), held.dtype, held if len(held) else None, offset * item, [s * item for s in stride])
    return wrap(data, LEAF if requires_grad else None)


def _tensor_of(
    storage: _Loaded, offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool, hooks: Any,
    dtype: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """torch._utils._rebuild_tensor_v3: the dtype is the tensor's, and the storage bytes."""
    return _tensor(_Loaded(storage.elements.view(dtype.np), dtype), offset, size, stride, requires_grad, hooks)


def _parameter(data: Tensor, requires_grad: bool, hooks: Any, state: dict[str, Any] | None = None) -> Parameter:
    """torch._utils._rebuild_parameter."""
    parameter = Parameter(data, requires_grad)
    vars(parameter).update(state or {})
    return parameter


_LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc)


def _layout(name: str) -> Named:
    """torch.serialization._get_layout."""
    for layout in _LAYOUTS:
        if name == f"torch.{layout.name}":
            return layout
    raise pickle.UnpicklingError(f"load: the layout {name} is not supported")


def _sparse(layout: Named, parts: tuple[Any, ...]) -> Tensor:
    """torch._utils._rebuild_sparse_tensor: of indices, values and a size; that indices fit and are in order is checked."""
    if layout is not sparse_coo:
        return sparse_compressed_tensor(*parts, layout=layout)
    indices, values, size, *coalesced = parts
    return sparse_coo_tensor(
        indices, values, size, is_coalesced=coalesced[0] if coalesced else None, check_invariants=True
    )


def _from_type(function: Any, kind: type, arguments: tuple[Any, ...], state: Any) -> Tensor:
    """torch._tensor._rebuild_from_type_v2: a tensor of a subclass, or with attributes."""
    tensor = function(*arguments)
    if kind is not Tensor:
        tensor = wrap(tensor._data, tensor._node, kind)
    if hasattr(kind, "__setstate__"):
        tensor.__setstate__(state)
    else:
        vars(tensor).update(state or {})
    return tensor


_TORCH: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch.serialization._get_layout": _layout,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.Buffer": Buffer,
    "torch.Tensor": Tensor,
    "torch.Size": Size,
    "torch.device": device,
    "torch.storage.UntypedStorage": dtypes.uint8,
    **{f"torch.{name}": dtype for name, dtype in _STORAGES.items()},
    **{f"torch.{dtype.name}": dtype for dtype in dtypes.ALL},
}
_PLAIN: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    **{
        f"{module}.{kind.__name__}": kind
        for module in ("builtins", "__builtin__")
        for kind in (set, frozenset, bytearray, complex)
    },
    "_codecs.encode": codecs.encode,
}


class _Reader(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile, folder: str, weights_only: bool, locate: Any, **options: Any) -> None:
        super().__init__(archive.open(f"{folder}/data.pkl"), **options)
        self.archive, self.folder, self.weights_only, self.locate = archive, folder, weights_only, locate
        self.storages: dict[str, _Loaded] = {}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _TORCH:
            return _TORCH[full]
        if not self.weights_only:
            ours = module.replace("torch", "ferro", 1) if module.partition(".")[0] == "torch" else module
            return super().find_class(ours, name)
        if full in _PLAIN:
            return _PLAIN[full]
        if full in _SAFE:
            return _SAFE[full]
        raise pickle.UnpicklingError(
            "Weights only load failed. In PyTorch 2.6, the default value of the `weights_only` argument in `torch.load` was "
            "changed from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, "
            "but it can result in arbitrary code execution. Do it only if you got the file from a trusted source. "
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context "
            "manager to allowlist this global if you trust this class/function."
        )

    def persistent_load(self, pid: Any) -> _Loaded:
        kind, dtype, key, location, count = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"load: unknown persistent object {kind!r}")
        if key not in self.storages:
            self.locate(location)
            held: Any = np.empty(count, dtype.np)
            record: Any
            with self.archive.open(f"{self.folder}/data/{key}") as record:
                read = record.readinto(held.view(np.uint8).data) if held.nbytes else 0
            if read != held.nbytes:
                raise pickle.UnpicklingError(f"load: record data/{key} has {read} bytes instead of {held.nbytes}")
            self.storages[key] = _Loaded(held, dtype)
        return self.storages[key]


def _check_location(map_location: Any, location: str) -> None:
    """RuntimeError for a storage that was not on the CPU, unless `map_location` moves it here."""
    target: Any = location
    if isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif callable(map_location):
        return
    elif map_location is not None:
        target = map_location
    if device(target).type != "cpu":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
            "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
            f"the CPU. (The storage was on {location!r}.)"
        )


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """What `save`, or torch.save, wrote to a path or a binary file.

    With `weights_only` (the default) tensors, plain containers and what `add_safe_globals` names; anything else is
    UnpicklingError. Without it any class, whose code then runs: only for files that you trust. `map_location="cpu"` takes
    tensors from a GPU here. `mmap` is accepted; the file is read.
    """
    if not isinstance(f, (str, os.PathLike)) and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with 'read' and 'seek', got {type(f)}"
        )
    import zipfile

    if weights_only is None:
        weights_only = pickle_module is None
    elif weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if isinstance(f, (str, os.PathLike)) and not Path(f).exists():
        raise FileNotFoundError(f"No such file or directory: {os.fspath(f)!r}")
    if not zipfile.is_zipfile(f):
        raise pickle.UnpicklingError(
            f"load: {f} is no zip archive, as torch.save writes since PyTorch 1.6; older files can be converted there"
        )
    with zipfile.ZipFile(f) as archive:
        folder = next(name for name in archive.namelist() if name.endswith("data.pkl")).rpartition("/")[0]
        order = f"{folder}/byteorder"
        if order in archive.namelist() and archive.read(order).decode() != sys.byteorder:
            raise NotImplementedError("load: the file was written on a machine with the other order of bytes")
        pickle_load_args.setdefault("encoding", "utf-8")
        locate = partial(_check_location, map_location)
        return _Reader(archive, folder, weights_only, locate, **pickle_load_args).load()
