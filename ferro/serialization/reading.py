"""load: the objects of a checkpoint, from PyTorch's zip archives and from its older files."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.device import device
from ferro.core.storage import UntypedStorage, storage_around
from ferro.core.typed_storage import TypedStorage
from ferro.serialization.allowed import WeightsUnpickler, full_name, is_allowed
from ferro.serialization.archive import Archive, fill
from ferro.serialization.locations import restorer
from ferro.serialization.names import ferro_object
from ferro.serialization.options import LoadEndianness, get_default_load_endianness, is_shared
from ferro.serialization.rebuilding import MISSING, TORCH, later

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of files from before the archives
# From this size on, files are mapped by themselves: they load at once, and tensors that nobody looks at are never read.
MAPPED_FROM = 1 << 30


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads an object that `save`, or torch.save of any version since 0.4, wrote.

    - `f` (path or file): a binary file must be able to seek; a path that ends in ".safetensors" is read by
      `ferro.utils.safetensors`
    - `map_location` (device, str, dict or callable, default None): where the tensors go: a device, its name, a
      dictionary of names, or a function (storage, location) that returns a storage or None; those of a GPU need "cpu" where there is none
    - `pickle_module` (module, default None): has an Unpickler, for weights_only=False
    - `weights_only` (bool, default None): True (None too) reads tensors, plain containers and what `add_safe_globals`
      names, and executes nothing: the file may be anybody's. False takes any class, whose code then runs: only for
      files that you trust
    - `mmap` (bool, default None): True maps the file into memory, whose parts are read when they are used; what is
      written to the tensors does not reach it. None: files of 1 GiB and more
    - `**pickle_load_args` (Any): go to the Unpickler

    Whole modules of PyTorch's are made of ferro's classes of the same names. A mapped file must not be cut short
    meanwhile, and its checksums, else always verified, are not looked at. Raises pickle.UnpicklingError for what may
    not or cannot be unpickled, RuntimeError for a damaged archive or a device that is not here, FileNotFoundError and
    AttributeError for what is no file.

    Example::

        >>> import ferro, io
        >>> file = io.BytesIO()
        >>> ferro.save({"weight": ferro.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> ferro.load(file)
        {'weight': tensor([1., 1.])}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if is_path and os.fsdecode(f).endswith(".safetensors"):
        return _load_safetensors(f, map_location)
    if not is_path and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with 'read' and 'seek', got {type(f)}"
        )
    weights_only = _weights_only(weights_only, pickle_module)
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument, which maps the file of that name")
    if weights_only and pickle_load_args.keys() - {"encoding"}:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    unpickler = _unpickler(weights_only, pickle_module, pickle_load_args)
    restore = restorer(map_location)
    try:
        if not is_path:
            return _load(f, restore, unpickler, False)
        path = Path(f)
        if mmap is None:
            mmap = path.stat().st_size >= MAPPED_FROM
        with path.open("r+b" if mmap and is_shared() else "rb") as file:
            return _load(file, restore, unpickler, mmap)
    except _NotOfTheFileError as carried:
        raise carried.args[0] from None


def _load_safetensors(f: Any, map_location: Any) -> dict[str, Any]:
    from ferro.utils.safetensors import load_file

    if map_location is not None and not isinstance(map_location, (str, bytes, device)):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(
            f"Loading safetensors file with {kind} map_location is not supported. Use a device string or torch.device instead."
        )
    place = map_location.decode() if isinstance(map_location, bytes) else map_location
    return load_file(f, place or "cpu")


def _weights_only(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether only weights are read: as the call says, else as PyTorch's environment variables do, else yes."""
    on = ("1", "y", "yes", "true")
    always, never = (
        os.environ.get(f"TORCH_FORCE_{name}", "0").lower() in on
        for name in ("WEIGHTS_ONLY_LOAD", "NO_WEIGHTS_ONLY_LOAD")
    )
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but "
            "both were set."
        )
    if always:
        weights_only = True
    elif never and weights_only is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        weights_only = False
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return weights_only


def _unpickler(weights_only: bool, pickle_module: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """What makes an unpickler of a file and the function that gives it storages."""
    base: Any = WeightsUnpickler if weights_only else (pickle_module or pickle).Unpickler

    class Reader(base):
        def __init__(self, file: Any, persistent_load: Any, postponed: list[Any] | None = None) -> None:
            super().__init__(file, **options)
            self.__persistent, self.__postponed = persistent_load, postponed

        def persistent_load(self, pid: Any) -> Any:
            return self.__persistent(pid)

        def find_class(self, module: str, name: str) -> Any:
            full = f"{module}.{name}"
            if full == "torch._utils._rebuild_sparse_tensor" and self.__postponed is not None:
                self.__postponed.append(full)
                return later
            if full in TORCH:
                return TORCH[full]
            if full in MISSING:
                raise NotImplementedError(f"load: the file has {MISSING[full]} tensors, which ferro has not")
            if module.partition(".")[0] == "torch" and not weights_only:
                return ferro_object(module, name)
            return super().find_class(module, name)

    return Reader


def _load(file: Any, restore: Any, unpickler: Any, mapped: bool) -> Any:
    start = file.tell()
    magic = file.read(4)
    file.seek(start)
    if not magic:
        raise EOFError("Ran out of input: the file is empty")
    if magic == b"PK\x03\x04":
        archive = Archive(file)
        if "constants.pkl" in archive:
            raise RuntimeError(
                "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``: ferro does not run them; load the "
                "model with torch.jit.load and save its state_dict()"
            )
        if mapped:
            archive.map()
        return _Storages(archive, restore).read(unpickler)
    if mapped:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please "
            "torch.save your checkpoint with this option in order to use mmap."
        )
    return _load_legacy(file, restore, unpickler)


def _storage_id(pid: Any) -> tuple[Any, dtypes.dtype, str, str, int]:
    """The kind, dtype, key, location and length of a storage, of a persistent id that may hold anything."""
    kind, dtype, key, location, count = pid[:5]
    kind, key, location = (text.decode("ascii") if isinstance(text, bytes) else text for text in (kind, key, location))
    dtype = dtypes.uint8 if dtype is UntypedStorage else getattr(dtype, "dtype", dtype)
    if (
        kind != "storage"
        or not isinstance(dtype, dtypes.dtype)
        or not isinstance(key, str)
        or type(location) is not str
    ):
        raise pickle.UnpicklingError(f"load: unknown persistent object {kind!r:.100}: the file is damaged")
    if type(count) is not int or count < 0:
        raise pickle.UnpicklingError(f"load: a storage of {count!r:.100} elements: the file is damaged")
    return kind, dtype, key, location, count


class _NotOfTheFileError(RuntimeError):
    """Carries what `map_location` raised out of the unpickler, which takes other errors for damage of the file."""


def _moved(memory: Any, dtype: dtypes.dtype, restore: Any, location: str) -> TypedStorage:
    """The storage of a piece of memory, where `map_location` wants it."""
    try:
        placed = restore(storage_around(memory), location)
        if not isinstance(placed, (UntypedStorage, TypedStorage)):
            raise TypeError(
                f"load: map_location returned {type(placed).__name__} for a storage, instead of a storage or None"
            )
    except Exception as error:
        raise _NotOfTheFileError(error) from error
    return TypedStorage._around(placed.untyped(), dtype)


class _Storages:
    """The storages of an archive, each read once."""

    def __init__(self, archive: Archive, restore: Any) -> None:
        self.archive, self.restore = archive, restore
        self.known: dict[str, TypedStorage] = {}
        order = archive.bytes("byteorder") if "byteorder" in archive else _default_order()
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order!r:.100}")
        self.swapped = order.decode() != sys.byteorder

    def read(self, unpickler: Any) -> Any:
        """The object that the archive holds."""
        return unpickler(io.BytesIO(self.archive.bytes("data.pkl")), self.storage).load()

    def storage(self, pid: Any) -> TypedStorage:
        _, dtype, key, location, count = _storage_id(pid)
        if key not in self.known:
            name = f"data/{key}"
            size = self.archive.size(name)
            if size < count * dtype.itemsize:
                raise pickle.UnpicklingError(
                    f"load: record {name} has {size} bytes instead of {count * dtype.itemsize}"
                )
            memory = self.archive.array(name)[: count * dtype.itemsize]
            if size != count * dtype.itemsize:
                memory = memory.copy()  # so that it is all of its storage
            if self.swapped:
                memory = _swapped(memory, dtype)
            self.known[key] = _moved(memory, dtype, self.restore, location)
        return self.known[key]


def _default_order() -> bytes:
    order = get_default_load_endianness()
    return (
        sys.byteorder.encode()
        if order is LoadEndianness.NATIVE
        else b"big"
        if order is LoadEndianness.BIG
        else b"little"
    )


def _swapped(memory: Any, dtype: dtypes.dtype) -> Any:
    """The bytes with the order in each number reversed (in each part of complex ones)."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    return np.ascontiguousarray(memory.reshape(-1, width)[:, ::-1]).reshape(-1)


# -- files from before PyTorch 1.6: pickles one after the other, and the bytes of the storages behind them ----------------


class _Bounded:
    """A file that is never asked for more than it has: who reads would first get the memory."""

    def __init__(self, file: Any) -> None:
        self.file = file
        here = file.tell()
        file.seek(0, os.SEEK_END)
        self.end = file.tell()
        file.seek(here)
        self.readline = file.readline

    def left(self) -> int:
        return self.end - self.file.tell()

    def read(self, count: int) -> bytes:
        if count > 65536 and count > self.left():
            raise pickle.UnpicklingError(
                f"load: {count} bytes are announced and {self.left()} are left: the file is damaged"
            )
        return self.file.read(count)

    def readinto(self, memory: Any) -> int:
        part = self.read(len(memory))
        memory[: len(part)] = part
        return len(part)


def _load_legacy(opened: Any, restore: Any, unpickler: Any) -> Any:
    file = _Bounded(opened)
    start = opened.tell()
    opened.seek(257)
    is_tar = start == 0 and opened.read(5) == b"ustar"
    opened.seek(start)
    if is_tar:
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with files saved in the legacy .tar format, of PyTorch before 0.2: save the file anew there"
        )
    known: dict[str, TypedStorage] = {}
    budget = file.left()

    def storage(pid: Any) -> Any:
        nonlocal budget
        if pid[0] in ("module", b"module"):
            return pid[1]  # a class, with its source code, which is not compared
        _, dtype, key, location, count = _storage_id(pid)
        if key not in known:
            budget -= count * dtype.itemsize
            if budget < 0:
                raise pickle.UnpicklingError(
                    f"load: a storage of {count} elements is larger than the file: the file is damaged"
                )
            known[key] = _moved(np.zeros(count * dtype.itemsize, np.uint8), dtype, restore, location)
        whole = known[key]
        view = pid[5] if len(pid) > 5 else None
        if view is None:
            return whole
        _, offset, size = view
        width = dtype.itemsize
        return TypedStorage._around(whole.untyped()[offset * width : (offset + size) * width], dtype)

    def next_pickle() -> Any:
        return unpickler(file, storage).load()

    try:
        magic = next_pickle()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"load: this is no file that torch.save wrote, neither a zip archive nor an older one. {error}"
        ) from error
    if magic != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    if (version := next_pickle()) != PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {version!r:.100}")
    system = next_pickle()
    place = opened.tell()
    postponed: list[Any] = []
    result = unpickler(file, storage, postponed).load()
    little = system.get("little_endian", True) if isinstance(system, dict) else True
    for key in next_pickle():
        if key not in known:
            raise pickle.UnpicklingError(
                f"load: storage key {key!r:.100} not found in deserialized_objects: the file is damaged"
            )
        memory, dtype = known[key].untyped().bytes(), known[key].dtype
        count = int.from_bytes(file.read(8), "little" if little else "big", signed=True)
        if count * dtype.itemsize != len(memory):
            raise RuntimeError(
                f"load: storage has wrong byte size: expected {len(memory) // dtype.itemsize} elements got {count}"
            )
        fill(file, memory, f"storage {key}")
        if little != (sys.byteorder == "little"):
            memory[...] = backend.beside(memory, _swapped(backend.on_host(memory), dtype))
    if postponed:  # once more, now that the numbers are there
        opened.seek(place)
        result = next_pickle()
    return result


# -- what is in a file -------------------------------------------------------------------------------------------------


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a checkpoint, a path or binary file, that `load(weights_only=True)` refuses. Nothing of it is executed.

    ValueError for what is no archive of torch.save's.

    Example::

        >>> import ferro, fractions, io
        >>> file = io.BytesIO()
        >>> ferro.save(fractions.Fraction(1, 2), file)
        >>> ferro.serialization.get_unsafe_globals_in_checkpoint(file)
        ['fractions.Fraction']
    """
    if isinstance(f, (str, os.PathLike)):
        with Path(f).open("rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    f.seek(0)
    if f.read(4) != b"PK\x03\x04":
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    archive = Archive(f)
    if "constants.pkl" in archive:
        raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
    found: dict[str, None] = {}
    texts: list[str] = []  # STACK_GLOBAL takes the last two
    for opcode, argument, _ in pickletools.genops(archive.bytes("data.pkl")):
        if opcode.name in ("GLOBAL", "INST"):
            found[full_name(*str(argument).split(" ", 1))] = None
        elif opcode.name == "STACK_GLOBAL":
            found[full_name(*texts[-2:])] = None
        elif isinstance(argument, str):
            texts.append(argument)
    return [name for name in found if not is_allowed(name)]
