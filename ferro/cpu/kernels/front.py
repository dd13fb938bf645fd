"""Fronts: machine code that stands before functions of NumPy arrays and answers for most arrays; see jit_front.py.

All fronts of a dtype are one file of machine code, loaded when ferro is imported: names are bound to fronts once, and
what stands in front of a function does not change while the process lives.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from ferro.cpu import isa
from ferro.cpu.kernels import background, store
from ferro.cpu.kernels.machine import SUPPORTED, Code

# By the file that the kernel stands in: names and layouts, see Note [Layouts] in jit_front.py.
_LAYOUTS = {
    "jit_small": {
        "add sub mul truediv maximum minimum": "x ~ -> x +",
        "neg sqrt": "x -> x +",
        "sum mean": "x dims keep -> r ?+",
        "amax amin": "x dims keep -> r +",
        "var": "x dims number keep -> r ?",
        "vector_norm": "x number dims keep -> r ?+",
        "max_dim min_dim": "x dims keep -> r i",
        "layer_norm_vjp": "x = weight rows rows trailing any any -> x weight weight ?",
        "batch_norm": "x channel channel none none true number -> x channels channels ?",
        "batch_norm_vjp": "x = channel channels channels true number any -> x channels channels ?",
        "cross_entropy": "x labels none number mean number -> one norms ?",
        "cross_entropy_vjp": "one x labels none number mean number norms -> x ?",
        "difference_loss": "number x = number number mean -> one",
        "difference_slope": "number one x = number number -> x",
        "sgd_step": "changed buffer = number number number number flag flag -> none",
        "take_rows": "table index -> taken ?",
        "add_rows": "x index count none false -> counted ?",
    },
    "jit_softmax": {
        "softmax log_softmax": "x last -> x +",
        "softmax_vjp log_softmax_vjp": "x = last -> x +",
    },
    "jit_activations": {
        "sigmoid": "many -> x +",
        "silu mish erf": "x -> x +",
        "sigmoid_vjp silu_vjp mish_vjp tanh_vjp": "x = -> x +",
    },
    "jit_norm": {
        "layer_norm": "x weight weight trailing number -> x rows rows +",
    },
    "jit_pointwise": {
        "relu": "x -> x +",
        "relu_vjp": "x = -> x +",
    },
}
_WRITTEN = {  # fronts that no layout describes
    "jit_joining": "cat stack",
    "jit_small_conv": "conv conv_input conv_weight",
}
_SINGLE = {  # of float32 alone
    "jit_activations": {
        "exponential sin cos": "many -> x +",
        "sin_vjp cos_vjp": "many = -> x +",
    },
}
_DTYPES = {"f4": np.float32, "f8": np.float64}


def front(function: Any, name: str = "") -> Any:
    """A decorator: the function behind the fronts of its name, as far as there is machine code of them."""
    name = name or function.__name__
    if name in background.FUSED and not isa.has_fma():
        return function
    for code in map(_code, reversed(_DTYPES)):
        if code is not None and name in code.entries:
            function = code.function(name, name, function)
    return function


def behind(function: Any) -> Any:
    """The function itself, without fronts."""
    while isinstance(function, BuiltinFunctionType) and callable(function.__self__):
        function = function.__self__
    return function


def short_way(function: Any) -> Any:
    """A decorator: a function of the tape (core/apply.py, core/views.py, core/base.py) behind the machine code of jit_tape.py."""
    code = _code("tape")
    return function if code is None else code.function(function.__name__, function.__name__, function)


@cache
def _code(what: str) -> Code | None:
    """The fronts for a dtype, or the short way of the tape. Where kernels are waited for, they are made."""
    if not SUPPORTED or background.MODE == "off":
        return None
    packed = store.read(_NAME, what, _sources(what))
    if packed is None:
        if background.MODE != "wait":
            return None
        packed = make(what)
    try:
        return Code(_NAME, packed)
    except (LookupError, OSError, ValueError):  # see Kernel.add and Kernel.load
        return None


def make(what: str) -> bytes:
    """Compile the fronts for a dtype, or the short way of the tape, and keep them on disk."""
    from ferro.cpu.kernels import jit_front, jit_tape, jit_total, jit_views

    found: dict[str, Any] = {}
    if what == "tape":
        for module, names in (
            (jit_tape, ("wrap", "unary", "binary", "joined", "apply")),
            (jit_views, ("viewed", "parted")),
        ):
            found.update({name: getattr(module, name) for name in names})
    tables = [*_LAYOUTS.items(), *_SINGLE.items()] if what == "f4" else _LAYOUTS.items() if what == "f8" else ()
    for module, layouts in tables:
        kernels = import_module(f"ferro.cpu.kernels.{module}")
        for names, layout in layouts.items():
            for name in names.split():
                large = getattr(jit_total, name) if "dims" in layout and "+" in layout else None
                found[name] = jit_front.make(getattr(kernels, name), layout, _DTYPES[what], large)
    for module, names in _WRITTEN.items() if what in _DTYPES else ():
        fronts = import_module(f"ferro.cpu.kernels.{module}").fronts(_DTYPES[what])
        found.update(zip(names.split(), fronts, strict=True))
    packed = jit_front.export(found)
    store.write(_NAME, what, _sources(what), packed)
    return packed


def make_missing(dtype: str) -> None:
    """The same of the fronts for a dtype and of the short way of the tape, as far as they are not on disk."""
    for what in (dtype, "tape") if dtype in _DTYPES else ("tape",):
        if SUPPORTED and store.read(_NAME, what, _sources(what)) is None:
            make(what)


def _sources(what: str) -> tuple[str, ...]:
    return ("jit_tape", "jit_views") if what == "tape" else (*_LAYOUTS, *_WRITTEN, "jit_front", "jit_total")


_NAME = "front"  # one that no kernel has
