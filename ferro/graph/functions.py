"""What nodes call, by name: operations, functions of the backend, elementwise functions, operators and methods of arrays.

Each is the very function that eager calls. Of an operation that is the one which the forms of `apply` call
(core/apply.py): its entry, or for large arrays the program of its formula.

    mul                 an operation (core/op.py)
    xp.matmul           a function of ferro.cpu
    elementwise.gelu    an elementwise function (elementwise.py)
    array.add           an operator or method of arrays
    numpy.isfinite      a ufunc of NumPy's, or one of a few functions
    random.uniform      a method of the stream of a generator, or of the generator (draws.py)
    tensor.set_grad     what a program does to tensors beside computing, and ``program.step``: to its other objects (state.py)
    chain.elementwise   several of these, elementwise, as one (chains.py)
    check.is_within     a question to the data that raises unless the answer is yes
    control.branch      one of several graphs is run, or one again and again (control/running.py)
    gradient.tanh.x     the formula of the gradient by one input, of a gradient that is a large array: eager runs it as one program
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ferro import cpu
from ferro.core.backend import on_host
from ferro.core.base import wrap
from ferro.core.op import OPS, Op
from ferro.core.plan import argument_names, bind_large, kind_of
from ferro.cpu.bound import ENTRIES
from ferro.cpu.kernels.strided_copy import assign, zeros
from ferro.cpu.thresholds import COPY_LEAST, PROGRAM_LEAST
from ferro.elementwise import DECLARED
from ferro.graph import chains
from ferro.graph.draws import DRAWS
from ferro.graph.errors import ChangedError, GraphFormatError
from ferro.graph.ir import Node, Value
from ferro.graph.state import CHECK_OF_TENSORS, OF_PROGRAM, OF_TENSORS
from ferro.graph.there import fill, function_there, total
from ferro.linalg_errors import LinAlgError, raise_first

BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = ("neg", "pos", "invert", "abs")
METHODS = (
    *(
        "all",
        "any",
        "argmax",
        "argmin",
        "astype",
        "clip",
        "conj",
        "conjugate",
        "copy",
        "cumprod",
        "cumsum",
        "diagonal",
        "dot",
    ),
    *(
        "flatten",
        "max",
        "mean",
        "min",
        "prod",
        "ravel",
        "repeat",
        "reshape",
        "round",
        "searchsorted",
        "squeeze",
        "std",
        "sum",
    ),
    *("swapaxes", "take", "trace", "transpose", "var", "view"),
)
FUNCTIONS = (
    "diagonal",
    "diff",
    "isin",
    "searchsorted",
)  # of NumPy's, whose results have the same shapes for any numbers
PARTS = ("real", "imag", "T")


def pieces(shape: tuple, gaps: bool, keys: tuple, *parts: Any) -> Any:
    """An array in which parts lie at their keys, which do not overlap; zeros elsewhere, if there are gaps between them."""
    out = zeros(shape, parts[0].dtype) if gaps else np.empty(shape, parts[0].dtype)
    if out.size < COPY_LEAST:
        for key, part in zip(keys, parts, strict=True):
            out[key] = part
    else:
        assign(*[(out[key], part) for key, part in zip(keys, parts, strict=True)])
    return out


def _is_within(index: Any, low: int, high: int) -> None:
    if index.size and not cpu.is_within(index, low, high):
        raise IndexError(f"index out of range: one of [{low}, {high}) was expected, got {index.min()} to {index.max()}")


def _operator(name: str) -> Callable:
    """An operator as formulas that are written out for small arrays have it (core/codegen.py): its entry may choose another layout."""
    function = getattr(operator, f"__{name}__")
    return ENTRIES.get(function, function)


ARRAY: dict[str, Callable] = {
    **{name: _operator(name) for name in (*BINARY, *COMPARED, *UNARY)},
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "fill": fill,
    "pieces": pieces,
    "total": total,
}
for _name in METHODS:
    ARRAY[_name] = getattr(np.ndarray, _name)
for _name in PARTS:
    ARRAY[_name] = operator.attrgetter(_name)


def _holds(condition: Any, kind: str, message: str) -> None:
    if kind not in _ERRORS:
        raise GraphFormatError(f"no error that a graph raises: {kind}")
    if not condition.all():
        raise _ERRORS[kind](message)


def _warns(condition: Any, message: str) -> None:
    if condition.any():
        warnings.warn(message, UserWarning, stacklevel=2)


def _accepted(name: str, info: Any, message: str, kind: str) -> None:
    if kind not in _ERRORS:
        raise GraphFormatError(f"no error that a graph raises: {kind}")
    raise_first(name, on_host(info), message, _ERRORS[kind])


def _equals(array: Any, *numbers: Any) -> None:
    found = on_host(array).tolist()
    if found != list(numbers):
        raise ChangedError(
            f"the graph was captured for the numbers {list(numbers)}, now they are {found}: capture again"
        )


_ERRORS = {
    kind.__name__: kind for kind in (RuntimeError, ValueError, IndexError, TypeError, AssertionError, LinAlgError)
}


# What runs graphs, and what their backward keeps: entered by control/running.py.
CONTROL: dict[str, Callable] = {}
CHECKS: dict[str, Callable] = {
    "accepted": _accepted,
    "equals": _equals,
    "holds": _holds,
    "is_within": _is_within,
    "warns": _warns,
}
# Functions that write, and into how many of their first arguments; of the others, those of `xp` whose names end with "_" write into one.
WRITERS = {"array.setitem": 1, "array.fill": 1, "xp.sgd_step": 2, "xp.adam_step": 4}


# Operations and functions whose results have shapes that depend on the data.
_OF_ANY_SHAPE = frozenset(("masked_select", "xp.masked_select", "xp.nonzero"))


def has_any_shape(name: str, args: tuple) -> bool:
    """Whether the shape of what a function gives depends on the data."""
    return name in _OF_ANY_SHAPE or (name == "array.getitem" and any(a.dtype == np.bool_ for a in _arrays(args[1])))


def _arrays(key: Any) -> list:
    return [
        k for k in (key if isinstance(key, (tuple, list)) else (key,)) if hasattr(k, "dtype") and hasattr(k, "shape")
    ]


class Effects(NamedTuple):
    """What a function does beside giving values. A pass may move, join or leave out a node only if this is `PURE`.

    random: it draws from a generator, so its place among all that draw counts; writes: into memory that was there before
    (see `written_by`); checks: it gives nothing, and raises where the data are not as they must be.
    """

    random: bool = False
    writes: bool = False
    checks: bool = False


PURE = Effects()


class _Saved:
    """What a formula of a plan reads its values from."""

    __slots__ = ("saved",)

    def __init__(self, saved: tuple) -> None:
        self.saved = saved


def gradient(op: Op, name: str) -> Callable:
    """The formula by the input `name`, as eager's engine runs it for large arrays: a function of (g, what the formula names...)."""
    formula = op.formulas[name]
    names = argument_names(formula)[2:]
    bound = bind_large(op, formula, tuple(names))
    kinds = [kind_of(op, n) for n in names]

    def function(g: Any, *values: Any) -> Any:
        return bound(cpu, g, _Saved(tuple([_as_saved(k, v) for k, v in zip(kinds, values, strict=True)])))

    return function


def _as_saved(kind: str, value: Any) -> Any:
    if kind == "tensor":
        return None if value is None else wrap(value)
    return tuple(map(wrap, value)) if kind == "tensors" else value


@cache
def effects(name: str) -> Effects:
    """What a function does beside giving values."""
    writes = (
        name in WRITERS or (name.startswith("xp.") and name.endswith("_")) or name.startswith(("tensor.", "program."))
    )
    return Effects(name.startswith(("random.", "program.")), writes, name.startswith("check."))


def is_effect(name: str) -> bool:
    """Whether a function does anything beside giving values: its node stays where it is."""
    return effects(name) != PURE


def written_by(node: Node) -> list[Value]:
    """The values into whose memory a node writes.

    Those of ``tensor.`` write into no value but the gradient that they give, whose memory may be that of a bound one.
    """
    if node.function == "program.step":
        return list(node.args[1])
    if node.function.startswith(("tensor.", "program.")):
        return list(node.outputs)
    if not effects(node.function).writes:
        return []
    return [v for v in node.args[: WRITERS.get(node.function, 1)] if isinstance(v, Value)]


def eager(op: Op) -> Callable:
    """The function of (arrays, parameters) that the forms of `apply` call for an operation."""
    count = len(op.inputs)
    general = op.direct or partial(op.forward, cpu)
    if op.view or op.variadic or op.aux or op.multi or op.large is None or count > 2:
        return op.viewing if op.short and op.view and op.diff and op.viewing is not None else general

    def function(*args: Any) -> Any:
        for a in args[:count]:
            if a.size >= PROGRAM_LEAST:
                return op.large(*args)
        return general(*args)

    return function if op.short or len(op.params) == 0 else general


def _chain(steps: tuple, *given: Any) -> Any:
    _check_chain(steps, len(given))
    return chains.evaluate(steps, ARRAY.__getitem__, resolved, given)


CHAINED = ("array.", "elementwise.", "gradient.")  # the functions that may be steps of chains, beside operations


@lru_cache(1024)
def _check_chain(steps: tuple, count: int) -> None:
    """GraphFormatError unless these are steps of a chain of so many arrays: a text may hold anything."""
    for i, (name, *args) in enumerate(steps):
        places = [re.fullmatch("([xs])([0-9]+)", a) for a in args if type(a) is str]
        is_step = type(name) is str and (name in OPS or (name.startswith(CHAINED) and known(name) is not None))
        if not is_step or not all(p and int(p[2]) < (count if p[1] == "x" else i) for p in places):
            raise GraphFormatError(f"{(name, *args)} is no step of a chain of {count} arrays")


_SPACES: dict[str, dict[str, Callable]] = {
    "array": ARRAY,
    "chain": {"elementwise": _chain},
    "check": {**CHECKS, **CHECK_OF_TENSORS},
    "control": CONTROL,
    "program": OF_PROGRAM,
    "random": DRAWS,
    "tensor": OF_TENSORS,
}


@cache
def known(name: str) -> Callable | None:
    space, _, rest = name.partition(".")
    if space == "gradient":
        op = OPS.get(rest.rpartition(".")[0])
        by = rest.rpartition(".")[2]
        return gradient(op, by) if op is not None and by in op.formulas else None
    if space == "xp":
        found = getattr(cpu, rest, None)
        return found if callable(found) and not isinstance(found, type) and not rest.startswith("_") else None
    if space == "numpy":
        found = getattr(np, rest, None)
        return found if isinstance(found, np.ufunc) or rest in FUNCTIONS else None
    if space == "elementwise" and rest in DECLARED:
        return partial(cpu.elementwise, DECLARED[rest])
    return _SPACES.get(space, {}).get(rest)


def resolved(name: str, device: str = "") -> Callable:
    """The function of a node, on a device; GraphFormatError if there is none of that name."""
    op = OPS.get(name)
    if device:
        found = function_there(name, device, None if op is not None else known(name))
    else:
        found = eager(op) if op is not None else known(name)
    if found is None:
        raise GraphFormatError(f"no function is called {name!r} here: neither an operation nor one of arrays")
    return found
