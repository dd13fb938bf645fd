"""Parameters of nodes as text and back: Python's literals, and a few names for what has none. Reading runs no code."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.named_formulas import NAMED, name_of
from ferro.core.op import OPS, Op
from ferro.graph.errors import GraphFormatError
from ferro.graph.ir import HELD, Held, Inner, Value

SAVED = np.dtype(object)  # of what a branch or a loop keeps for its backward: values of any number in one
_NAMES = {"None": None, "True": True, "False": False, "inf": math.inf, "nan": math.nan}


def dtype_name(dtype: Any) -> str:
    """The name of a NumPy dtype of ferro's; TypeError for others."""
    found = dtypes.FROM_NUMPY.get(dtype)
    if dtype == SAVED:
        return "saved"
    if found is None:
        raise TypeError(f"NumPy's {dtype!r} cannot be written into a graph: ferro has no such dtype")
    return found.name.rpartition(".")[2]


def dtype_of(name: str) -> Any:
    """The NumPy dtype of that name; GraphFormatError if there is none."""
    if name == "saved":
        return SAVED
    found = getattr(dtypes, "bool_" if name == "bool" else name, None)
    if not isinstance(found, dtypes.dtype):
        raise GraphFormatError(f"{name!r} is no dtype")
    return found.np


def written(value: Any) -> str:
    """A parameter as text; TypeError for what cannot be written as a literal."""
    kind = type(value)
    if kind is Value:
        return repr(value)
    if value is None or value is Ellipsis or kind in (bool, int, str):
        return "..." if value is Ellipsis else repr(value)
    if kind is float:
        return repr(value)  # (inf and nan are names)
    if kind is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if kind in (tuple, list):
        inner = ", ".join(map(written, value))
        return f"[{inner}]" if kind is list else f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is slice:
        return f"slice({written(value.start)}, {written(value.stop)}, {written(value.step)})"
    if isinstance(value, np.dtype):
        return f'dtype("{dtype_name(value)}")'
    if isinstance(value, dtypes.dtype):
        return f'ferro("{dtype_name(value.np)}")'
    if isinstance(value, np.generic):
        return f'scalar("{dtype_name(value.dtype)}", "{value.tobytes().hex()}")'
    if kind is Inner:
        return f"graph({value.number})"
    if kind is Held:
        return f"held({value.kind!r}, {value.name!r})"
    if isinstance(value, Op):
        return f"op({value.name!r})"
    if callable(value) and (name := name_of(value)) is not None:
        return f"formula({name!r})"
    if isinstance(value, tuple):  # (a Size, say)
        return written(tuple(value))
    raise TypeError(f"a parameter of type {kind.__name__} cannot be written as a literal: {value!r}")


def read(node: ast.AST, values: dict[str, Value]) -> Any:
    """What an expression says; `values` by their names in it. GraphFormatError for anything that `written` does not write."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool, type(None), type(Ellipsis)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in values:
            return values[node.id]
        if node.id in _NAMES:
            return _NAMES[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = read(node.operand, values)
        if type(number) in (int, float):
            return -number
    if isinstance(node, ast.Tuple):
        return tuple([read(e, values) for e in node.elts])
    if isinstance(node, ast.List):
        return [read(e, values) for e in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, [read(a, values) for a in node.args])
    raise GraphFormatError(f"no parameter of a graph: {ast.unparse(node)}")


def _called(name: str, args: list) -> Any:
    kinds = [type(a) for a in args]
    if name == "slice" and len(args) == 3:
        return slice(*args)
    if name == "complex" and kinds == [float, float]:
        return complex(*args)
    if name == "dtype" and kinds == [str]:
        return dtype_of(args[0])
    if name == "ferro" and kinds == [str]:
        return dtypes.FROM_NUMPY[dtype_of(args[0])]
    if name == "scalar" and kinds == [str, str]:
        return _from_hex(dtype_of(args[0]), args[1], 1)[0]
    if name == "graph" and kinds == [int] and args[0] >= 0:
        return Inner(*args)
    if name == "held" and kinds == [str, str] and args[0] in HELD:
        return Held(*args)
    if name == "op" and kinds == [str] and args[0] in OPS:
        return OPS[args[0]]
    if name == "formula" and kinds == [str] and args[0] in NAMED:
        return NAMED[args[0]]
    raise GraphFormatError(f"no parameter of a graph: {name}({', '.join(map(repr, args))})")


def _from_hex(dtype: Any, text: str, count: int) -> Any:
    try:
        found = np.frombuffer(bytes.fromhex(text), dtype)
    except ValueError as e:
        raise GraphFormatError(f"not the bytes of an array of {dtype}: {e}") from None
    if found.size != count:
        raise GraphFormatError(f"{found.size} elements where {count} belong")
    return found


def array_text(array: Any) -> str:
    """The bytes of an array, in C order, as text."""
    return f'"{np.ascontiguousarray(array).tobytes().hex()}"'


def array_of(text: str, shape: tuple, dtype: Any) -> Any:
    """The array that these bytes are."""
    count = math.prod(shape)
    return _from_hex(dtype, text, count).reshape(shape).copy() if count else np.empty(shape, dtype)
