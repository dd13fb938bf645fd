"""Locations: the device that a saved storage was on, and where `load` puts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ferro.core import backend
from ferro.core.device import TYPES, device
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage

# The types of `load`'s argument map_location.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None

_PACKAGES: list[tuple[int, Callable[[Any], Any], Callable[[Any, str], Any]]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Add a kind of memory: how a storage in it is tagged in a file, and how a tagged storage is put back.

    tagger: (storage) -> tag, or None for storages of other kinds.  deserializer: (storage, tag) -> storage, or None for
    other tags.  Those of a lower priority are asked first.

    Example::

        >>> from ferro.serialization import default_restore_location, register_package
        >>> register_package(50, lambda storage: None, lambda storage, tag: storage if tag == "attic" else None)
        >>> import ferro
        >>> default_restore_location(ferro.UntypedStorage(4), "attic").nbytes()
        4
    """
    _PACKAGES.append((priority, tagger, deserializer))
    _PACKAGES.sort(key=lambda entry: entry[0])


def _on_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _tag_of_gpu(storage: Any) -> str | None:
    return str(storage.device) if storage.is_cuda else None


def _on_gpu(storage: Any, location: str) -> Any:
    """The storage on the GPU that a tag names; None for another tag, and where there is no GPU."""
    module = backend.accelerator() if location.partition(":")[0] == "cuda" else None
    return None if module is None else storage.to(device=location)


def _elsewhere(storage: Any, location: str) -> Any:
    """RuntimeError for the devices that PyTorch knows and this machine or ferro has not."""
    kind = location.partition(":")[0]
    if kind not in TYPES or kind == "cpu":
        return None
    if kind == "meta":
        raise RuntimeError(
            "load: ferro has no tensors on the device 'meta', which hold no data; use map_location='cpu'"
        )
    raise RuntimeError(
        f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}.is_available() is False. If you are "
        "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
        f"the CPU. (The storage was on {location!r}.)"
    )


register_package(10, lambda storage: "cpu" if storage.device.type == "cpu" else None, _on_cpu)
register_package(20, _tag_of_gpu, _on_gpu)
register_package(90, lambda storage: None, _elsewhere)


def location_tag(storage: Any) -> str:
    """The tag of a storage's device in a file: 'cpu', 'cuda:0'. RuntimeError for what is no storage."""
    if isinstance(storage, (UntypedStorage, TypedStorage)):
        for _, tagger, _ in _PACKAGES:
            if (tag := tagger(storage)) is not None:
                return tag
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}: it is no storage")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device that a tag names. RuntimeError for one that is not here."""
    for _, _, deserializer in _PACKAGES:
        if (found := deserializer(storage, location)) is not None:
            return found
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def restorer(map_location: Any) -> Callable[[Any, str], Any]:
    """The function (storage, tag) -> storage that the argument `map_location` of `load` stands for."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii")
    if isinstance(map_location, (str, device)):
        return lambda storage, location: default_restore_location(storage, str(map_location))
    if not callable(map_location):
        raise TypeError(
            "load: map_location must be a device, its name, a dictionary of such names, a function (storage, location) or "
            f"None, got {type(map_location).__name__}"
        )

    def restore(storage: Any, location: str) -> Any:
        found = map_location(storage, location)
        return default_restore_location(storage, location) if found is None else found

    return restore
