"""Which library moves tensors of which device: the names of backends, as programs write them."""

from __future__ import annotations

import importlib.util

from ferro.cuda import communicators

_PLACES = {"gloo": "cpu", "mpi": "cpu", "nccl": "cuda"}  # the device of each library


class Backend(str):
    """The name of a backend; "mpi", and "gloo", which means the same where there are several processes; "nccl"."""

    UNDEFINED, GLOO, NCCL, MPI = "undefined", "gloo", "nccl", "mpi"

    __slots__ = ()


def has_mpi() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def _pairs(backend: str) -> list[tuple[str, str]]:
    return [(place, name) for place, _, name in (part.rpartition(":") for part in backend.lower().split(","))]


def named(backend: str | None) -> str:
    """The name that `get_backend` gives, checked: RuntimeError for a library that is not here, AssertionError for an unknown one."""
    if backend is None:
        return Backend.UNDEFINED
    if not isinstance(backend, str):
        raise ValueError(f"Backend constructor parameter must be string-ish, got {type(backend).__name__}")
    pairs = _pairs(backend)
    for place, name in pairs:
        _check(place, name, backend)
    if len(pairs) > 1 and ("" in dict(pairs) or len(dict(pairs)) < len(pairs)):
        raise ValueError(
            f"The custom backend string argument is invalid: {backend}. Of several libraries each is named once with its device, "
            'as in "cpu:mpi,cuda:nccl"'
        )
    return backend.lower()


def _check(place: str, name: str, backend: str) -> None:
    if name in ("xccl", "ucc") or (name == "mpi" and not has_mpi()):
        raise RuntimeError(
            f"Distributed package doesn't have {name.upper()} built in: ferro's process groups are of one process, which is called "
            '"gloo", or of several by MPI: pip install ferro[mpi]'
        )
    if name not in _PLACES:
        raise AssertionError(f'Unknown backend type {name}; ferro has "gloo", "mpi" and "nccl"')
    if place not in ("", _PLACES[name]):
        raise RuntimeError(
            f"init_process_group: backend {backend!r} is for device {place!r}; {name} moves tensors of device {_PLACES[name]!r}"
        )
    said = communicators.missing() if name == "nccl" else None
    if said is not None:
        raise RuntimeError(f"Distributed package doesn't have NCCL built in: {said}")


def of_devices(backend: str) -> dict[str, str]:
    """The library for the tensors of each device. Where nothing was asked for: for the processor's and for those of a GPU."""
    if backend == Backend.UNDEFINED:
        return {"cpu": "mpi", "cuda": "nccl"}
    pairs = _pairs(backend)
    if pairs in ([("", "gloo")], [("", "mpi")]):  # (which say themselves what they do not move)
        return dict.fromkeys(("cpu", "cuda"), pairs[0][1])
    return {place or _PLACES[name]: name for place, name in pairs}
