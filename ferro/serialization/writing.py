"""save: an object, with all tensors in it, as an archive that PyTorch reads."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import OrderedDict
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ferro._overriding import Overridable
from ferro.core import backend, dtypes
from ferro.core.device import device
from ferro.core.layout import Named, sparse_coo, sparse_csr, strided
from ferro.core.return_types import ReturnType
from ferro.core.size import Size
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage
from ferro.cpu.shape import geometry, memory_bytes, memory_of
from ferro.nn.parameter import Parameter, is_lazy
from ferro.serialization.archive import ALIGNMENT
from ferro.serialization.names import STORAGE_OF, torch_names
from ferro.serialization.reading import MAGIC, PROTOCOL
from ferro.serialization.rebuilding import LAYOUTS
from ferro.serialization.replacing import replacing
from ferro.tensor import Tensor

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


class _Memory(NamedTuple):
    """A storage on its way into the file."""

    key: str
    kind: _Name
    count: int
    location: str


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined] # (the one in C imports what it writes the name of)


class _Writing:
    """What a pickler written in Python does otherwise for tensors, storages and what is named as in torch."""

    dispatch: dict[Any, Any]
    write: Any
    memoize: Any

    def prepare(self, legacy: bool) -> None:
        # By the id of the memory, which is held so that ids are unique.
        self.records: dict[int, tuple[_Memory, Any, Any]] = {}
        self.legacy = legacy

    def _write_global(self, module: str, name: str, obj: Any) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def _save_name(self, name: _Name) -> None:
        self._write_global(name.module, name.name, name)

    def _save_dtype(self, dtype: Any) -> None:
        self._write_global("torch", dtype.name, dtype)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """A class or function: one of ferro's by the name that PyTorch has for it."""
        known = torch_names(obj) if name in (None, getattr(obj, "__qualname__", None)) else []
        if known:
            self._write_global(*known[0], obj)
        else:
            super().save_global(obj, name)  # type: ignore[misc]

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, TypedStorage):
            obj = self._record(obj.untyped()._memory, obj.dtype)
        elif isinstance(obj, UntypedStorage):
            obj = self._record(obj._memory, None)
        if isinstance(obj, _Memory):
            pid = ("storage", obj.kind, obj.key, obj.location, obj.count)
            return (*pid, None) if self.legacy else pid
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor) and obj.layout is not strided:
            return _reduced_sparse(obj)
        if isinstance(obj, Tensor) and not is_lazy(obj):
            return self._reduced(obj)
        if isinstance(obj, Named) and obj in LAYOUTS:
            return _torch("_get_layout", "torch.serialization"), (f"torch.{obj.name}",)
        if type(obj) is Size:
            return _torch("Size"), (tuple(obj),)
        if type(obj) is device:
            return _torch("device"), (str(obj),)
        if isinstance(obj, ReturnType):
            return _torch(type(obj).__name__, "torch.return_types"), (tuple(obj), {})
        if isinstance(obj, Overridable) and torch_names(obj):
            return vars(obj)["__qualname__"]  # by its name, through save_global
        return NotImplemented

    def _reduced(self, tensor: Any) -> tuple[Any, ...]:
        kind, state = type(tensor), dict(getattr(tensor, "__dict__", {}))
        if "_spec" in state:  # a DTensor, whose class says what to do
            return tensor.__reduce_ex__(2)
        hooks: OrderedDict[int, Any] = OrderedDict()  # PyTorch does not save them, but has a place for them
        if kind is Parameter:
            name = "_rebuild_parameter_with_state" if state else "_rebuild_parameter"
            rest = (state,) if state else ()
            return _torch(name, "torch._utils"), (tensor.data, tensor.requires_grad, hooks, *rest)
        # Its class is not imported here: a subclass of Tensor makes all functions ask their arguments.
        half = kind.__module__ == "ferro.complex_half"
        data = state.pop("bits")._data if half else tensor._data
        memory, offset, size, stride = self._place(data)
        arguments = (memory, offset, size, stride, tensor.requires_grad, hooks)
        if tensor.dtype in STORAGE_OF:
            function = _torch("_rebuild_tensor_v2", "torch._utils")
        else:
            function, arguments = _torch("_rebuild_tensor_v3", "torch._utils"), (*arguments, tensor.dtype)
        if (kind is Tensor or half) and not state:
            return function, arguments
        written = _torch("Tensor") if kind is Tensor else kind
        return _torch("_rebuild_from_type_v2", "torch._tensor"), (function, written, arguments, state)

    def _place(self, data: Any) -> tuple[_Memory, int, tuple[int, ...], tuple[int, ...]]:
        """The storage of an array, and where in it the array lies."""
        if any(s < 0 for s in data.strides):
            data = np.array(data)
        size, stride, offset = geometry(data)
        return self._record(memory_of(data), dtypes.FROM_NUMPY[data.dtype]), offset, tuple(size), tuple(stride)

    def _record(self, root: Any, dtype: Any) -> _Memory:
        """The storage of the memory of an array, as numbers of a dtype or as bytes."""
        name = STORAGE_OF.get(dtype)
        kind = _torch("UntypedStorage", "torch.storage") if name is None else _torch(name)
        if id(root) not in self.records:
            held, location = backend.on_host(memory_bytes(root)), str(backend.device_of(root))
            count = held.nbytes if name is None else held.nbytes // dtype.itemsize
            self.records[id(root)] = _Memory(str(len(self.records)), kind, count, location), root, held
        memory = self.records[id(root)][0]
        if memory.kind is not kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: "
                f"{memory.kind.name} and {kind.name}; clone() one of them"
            )
        return memory


def _reduced_sparse(tensor: Any) -> tuple[Any, ...]:
    values, layout = tensor.detach().kept, tensor.layout
    if layout is sparse_coo:
        parts = tensor._indices(), values, tensor.shape, tensor.is_coalesced()
    elif layout is sparse_csr:
        parts = tensor.crow_indices(), tensor.col_indices(), values, tensor.shape
    else:
        parts = tensor.ccol_indices(), tensor.row_indices(), values, tensor.shape
    return _torch("_rebuild_sparse_tensor", "torch._utils"), (layout, parts)


@cache
def _writer(base: Any) -> Any:
    """The pickler of a module, which writes tensors as PyTorch does."""
    if not issubclass(base, _PythonPickler):
        raise NotImplementedError(
            f"save: pickle_module must be pickle or one whose Pickler is written in Python, as dill's is; {base.__module__}'s is not"
        )
    members = {"dispatch": dict(base.dispatch)}
    writer = type("Writer", (_Writing, base), members)
    writer.dispatch |= {
        _Name: writer._save_name,
        dtypes.dtype: writer._save_dtype,
        dtypes.Absent: writer._save_dtype,
    }
    if base is _PythonPickler:
        writer.dispatch[FunctionType] = writer.save_global
    return writer


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object, with all tensors in it, to a path or a binary file.

    - `obj` (Any): tensors, Parameters, containers and state dicts, and whole modules of classes that PyTorch has, too,
      can be read by `torch.load`
    - `f` (path or file): a path is written as a whole or not at all: if the program is killed meanwhile, the old file
      is there (and a new one that ends in ``.tmp``); a file object is written from where it stands
    - `pickle_module` (module, default pickle): one whose Pickler is written in Python, such as dill
    - `pickle_protocol` (int, default 2): PyTorch reads 2 only

    Tensors that share memory share it after `load`: the file holds the whole memory of each, so `clone()` a small part
    of a large tensor before. Raises AttributeError for what is no file, RuntimeError if the folder does not exist or
    tensors of different dtypes look at the same memory, and what pickling raises; then nothing is written.

    Example::

        >>> import ferro, io
        >>> file = io.BytesIO()
        >>> ferro.save({"weight": ferro.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> ferro.load(file)
        {'weight': tensor([1., 1.])}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f)}"
        )
    pickled = io.BytesIO()
    base = _PythonPickler if pickle_module is pickle else pickle_module.Pickler
    writer = _writer(base)(pickled, pickle_protocol)
    writer.prepare(not _use_new_zipfile_serialization)
    writer.dump(obj)  # before the file is opened: an object that cannot be pickled must not cost an older file
    with replacing(f) if is_path else nullcontext(_Forward(f)) as file:
        if _use_new_zipfile_serialization:
            folder = (Path(f).stem or "archive") if is_path else "archive"
            _write_archive(file, folder, pickled.getvalue(), writer.records, not _disable_byteorder_record)
        else:
            _write_legacy(file, pickled.getvalue(), writer.records, pickle_protocol)


class _Forward:
    """A file object that is written from front to back, as PyTorch writes it: it need not be able to do anything else."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, content: Any) -> int:
        self.file.write(content)
        return len(content)

    def flush(self) -> None:
        if hasattr(self.file, "flush"):
            self.file.flush()


def _write_archive(file: Any, folder: str, pickled: bytes, records: Any, order: bool) -> None:
    import zipfile  # here: `import ferro` stays light

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        add = partial(_add, archive, folder)
        add("data.pkl", pickled)
        if order:
            add("byteorder", sys.byteorder.encode())
        for memory, _, held in records.values():
            add(f"data/{memory.key}", np.ascontiguousarray(held).data)
        add("version", b"3\n")


def _add(archive: Any, folder: str, name: str, content: Any) -> None:
    """A record whose data begin at a multiple of ALIGNMENT, so that they can be mapped."""
    import zipfile

    entry = zipfile.ZipInfo(f"{folder}/{name}")  # of the year 1980: equal objects are equal files
    entry.file_size = len(content)
    large = entry.file_size * 1.05 > zipfile.ZIP64_LIMIT  # zipfile then adds 20 bytes
    head = archive.fp.tell() + 30 + len(entry.filename.encode()) + 20 * large + 4
    padding = -head % ALIGNMENT
    entry.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    with archive.open(entry, "w") as record:
        record.write(content)


def _write_legacy(file: Any, pickled: bytes, records: Any, protocol: int) -> None:
    """The format from before PyTorch 1.6."""
    system = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for header in (MAGIC, PROTOCOL, system):
        file.write(pickle.dumps(header, protocol))
    file.write(pickled)
    file.write(pickle.dumps([memory.key for memory, _, _ in records.values()], protocol))
    for memory, _, held in records.values():
        file.write(memory.count.to_bytes(8, sys.byteorder))
        file.write(np.ascontiguousarray(held).data)
