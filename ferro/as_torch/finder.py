"""install and uninstall: `torch` and its submodules in `sys.modules` are ferro's."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ferro import _overriding, absent
from ferro._public import ferro
from ferro.as_torch import children
from ferro.core import naming
from ferro.ops.namespace import NAMESPACES
from ferro.version import __version__ as _followed

# What ferro has of its own under a name that is PyTorch's for something else, or nobody's: not a part of `torch`.
OWN = ("as_torch", "batched", "core", "cpu", "functional", "ops")

# PyTorch's modules that stand for themselves: the names that are theirs, and the module of ferro that has them.
NAMED: dict[str, tuple[str, Collection[str]]] = {
    "torch.cpu": (
        "ferro.cpu",
        (
            "Event",
            "Stream",
            "StreamContext",
            "amp",
            "current_device",
            "current_stream",
            "device_count",
            "get_capabilities",
            "is_available",
            "is_initialized",
            "set_device",
            "stream",
            "synchronize",
        ),
    ),
    "torch.functional": (
        "ferro",
        (
            "atleast_1d",
            "atleast_2d",
            "atleast_3d",
            "align_tensors",
            "broadcast_shapes",
            "broadcast_tensors",
            "cartesian_prod",
            "block_diag",
            "cdist",
            "chain_matmul",
            "einsum",
            "istft",
            "lu",
            "norm",
            "meshgrid",
            "pca_lowrank",
            "split",
            "stft",
            "svd_lowrank",
            "tensordot",
            "unique",
            "unique_consecutive",
            "unravel_index",
        ),
    ),
    "torch.ops": ("ferro.ops", NAMESPACES),
}

# What ferro binds anew while it runs is looked up in ferro each time.
REBOUND = ("Storage", "__getattr__")


def install() -> None:
    """From now on `import torch`, `from torch.utils.data import DataLoader` and so on give ferro, in this process.

    Processes that `multiprocessing` starts from it do the same. A second call does nothing.

    Raises: ImportError where PyTorch itself has been imported before: two libraries would pass each other their tensors.

    Example (of a new process, in which PyTorch is not imported)::

        import ferro
        ferro.as_torch.install()
        import torch.nn.functional as F     # ferro.nn.functional
    """
    if is_installed():
        return
    if "torch" in sys.modules:
        raise ImportError(
            "ferro cannot stand for torch: PyTorch is imported already. Call ferro.as_torch.install() before the first "
            "`import torch`, or start the program with `python -m ferro.as_torch`"
        )
    sys.meta_path.insert(0, _FINDER)
    absent.ROOTS.append("torch")
    naming.ROOT[0] = "torch"
    children.begin()


def uninstall() -> None:
    """Undoes `install`: `import torch` means PyTorch again.  What a program has imported by then stays ferro's."""
    if not is_installed():
        return
    sys.meta_path.remove(_FINDER)
    _overriding.namespaces[:] = [name for name in _overriding.namespaces if name != "torch"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]
    absent.ROOTS.remove("torch")
    naming.ROOT[0] = "ferro"
    children.end()


def is_installed() -> bool:
    """Whether `import torch` gives ferro."""
    return _FINDER in sys.meta_path


class _Finder:
    """Finds `torch` and everything in it that ferro has."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "torch" or name in NAMED:
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        theirs = _counterpart(name)
        found = theirs and find_spec(theirs)
        if not found:
            return None
        package = found.submodule_search_locations is not None
        return ModuleSpec(name, self, origin=found.origin, is_package=package)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own: an empty one, in whose place `exec_module` puts the right one."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == "torch":
            _fill(module)
        elif name in NAMED:
            _answer(module, *NAMED[name])
        else:
            sys.modules[name] = absent.load(str(_counterpart(name)))

    def get_code(self, name: str) -> Any:
        """The code of a module that is run as a program."""
        spec: Any = find_spec(str(_counterpart(name)))
        return spec.loader.get_code(spec.name)

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """The package `torch` for `importlib.metadata`, with the version of PyTorch that ferro follows."""
        if context.name is None or context.name.lower() != "torch":
            return ()
        from ferro.as_torch.distribution import Torch

        return (Torch(),)


_FINDER = _Finder()
_NOTHING = object()


def _counterpart(name: str) -> str | None:
    """The name of ferro's module for PyTorch's `name`; None of what is not a part of `torch`."""
    root, _, inside = name.partition(".")
    if root != "torch":
        return None
    first, _, rest = inside.partition(".")
    own = first in OWN and rest not in NAMED.get(f"torch.{first}", ("", ()))[1]
    return None if own else f"ferro.{inside}"


def _fill(torch: ModuleType) -> None:
    """Gives the package `torch` the names of ferro."""
    own = vars(ferro)
    kept = ("__name__", "__spec__", "__loader__", "__package__", *OWN, *REBOUND)
    vars(torch).update({name: value for name, value in own.items() if name not in kept})
    vars(torch)["__version__"] = _followed
    vars(torch)["torch"] = torch  # (PyTorch's package has its own name in it, and programs write torch.torch)
    vars(torch)["__path__"] = []  # all that is in it is found by `_Finder`
    if torch.__spec__ is not None:
        torch.__spec__.origin = ferro.__file__

    def later(name: str) -> Any:
        if f"torch.{name}" in NAMED:
            return import_module(f"torch.{name}")
        found = getattr(ferro, name, _NOTHING) if name not in OWN else _NOTHING
        return absent.missing("torch", name) if found is _NOTHING else found

    vars(torch)["__getattr__"] = later
    _overriding.namespaces.append("torch")
    vars(torch)["__dir__"] = lambda: sorted({*vars(torch), *dir(ferro)} - {*OWN} | {"cpu", "functional", "ops"})


def _answer(module: ModuleType, home: str, names: Collection[str]) -> None:
    """Makes `module` one that has `names`, which are those of ferro's module `home`."""
    source = import_module(home)

    def later(name: str) -> Any:
        if name in names and hasattr(source, name):
            return getattr(source, name)
        return absent.missing(module.__name__, name)

    vars(module)["__getattr__"] = later
    vars(module)["__dir__"] = lambda: [name for name in names if hasattr(source, name)]
