"""Libraries in C that lie in other packages, loaded by themselves: the packages around them take up to half a second."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any


@cache
def extension(package: str, path: str) -> Any:
    """The module in C at that path in a package; None where there is none, as in another version of the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    for suffix in EXTENSION_SUFFIXES:
        file = Path(spec.origin).parent / f"{path}{suffix}"
        if file.exists():
            loader = ExtensionFileLoader(file.name.partition(".")[0], str(file))
            found = module_from_spec(ModuleSpec(loader.name, loader, origin=str(file)))
            loader.exec_module(found)
            return found
    return None


@cache
def special(name: str) -> Any:
    """A function of scipy.special."""
    found = None
    if "scipy.special" not in sys.modules:
        found = getattr(extension("scipy", "special/_special_ufuncs"), name, None)
    if found is None:
        import scipy.special

        found = getattr(scipy.special, name)
    return found
