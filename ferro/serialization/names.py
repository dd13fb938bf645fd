"""Names of torch's in a pickle: which object of ferro's each stands for, and by which one an object of ferro's is written."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ferro._overriding import Overridable
from ferro.core import dtypes, return_types
from ferro.core.random import Generator

STORAGES = {
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
STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}

# Where PyTorch's users find a class or function, in the order in which they are asked for it.
_PUBLIC = (
    "nn",
    "nn.functional",
    "nn.init",
    "nn.parameter",
    "nn.utils.parametrizations",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "utils.data",
    "amp",
    "distributions",
    "linalg",
    "fft",
    "special",
)
# What PyTorch's pickles call otherwise than its documents.
_PRIVATE = {
    "torch._C._nn": "torch.nn.functional",
    "torch._C._VariableFunctions": "torch",
    "torch._VF": "torch",
    "torch._C": "torch",
    "torch.functional": "torch",
}


def torch_names(obj: Any) -> list[tuple[str, str]]:
    """The names, module and name in it, by which PyTorch finds the like of a class or function of ferro's: the public one first."""
    home, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str) or home.partition(".")[0] != "ferro":
        return []
    if obj is Generator:
        return [("torch._C", "Generator")]
    # Of the classes at the top none is pickled in PyTorch as it is here.
    places = [f"ferro.{place}" for place in _PUBLIC] + ([] if isinstance(obj, type) else ["ferro"])
    found = [place for place in places if place in sys.modules and _is(vars(sys.modules[place]).get(name), obj)]
    if home.startswith(("ferro.nn.", "ferro.optim.", "ferro.utils.data.")):  # laid out as PyTorch's
        found.append(home)
    return [(place.replace("ferro", "torch", 1), name) for place in found]


def _is(found: Any, obj: Any) -> bool:
    """Whether a name stands for an object, or for the function in it that asks classes which override it."""
    return found is obj or (isinstance(found, Overridable) and found == obj)


def ferro_object(module: str, name: str) -> Any:
    """What ferro has for a name of torch's: in the module of the same place, or in one above it. AttributeError if nothing.

    A class of torch.nn.modules.linear may be found in ferro.nn; at the top only what is there in torch, too.
    """
    if module == "torch.return_types":
        kind = getattr(return_types, name, None)
        if kind is not None:
            return lambda values, attributes=None: kind(values)
    place = _PRIVATE.get(module, module).replace("torch", "ferro", 1)
    top = place.count(".") == 0
    while place != "ferro" or top:
        try:
            found: Any = importlib.import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
        except (ModuleNotFoundError, AttributeError):
            if top:
                break
            place = place.rpartition(".")[0]
        else:
            return found
    raise AttributeError(f"load: the file needs {module}.{name}, and ferro has nothing of this name")
