"""Graphs as text, and back.

One line for each value or node: ``input %0 float32[64, 64]``, ``bound %1 float32[8] grad "model.bias"``, ``constant %2
float32[] = 2.0``, ``%3 float32[64] = sum(%0, (1,), False)  # "file.py:7 in forward"``, and last ``return %3``. Behind the
sizes stand the strides of inputs where they are not those of C order. Reading makes nothing but values, and literals.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.graph.errors import GraphFormatError
from ferro.graph.functions import is_effect, resolved
from ferro.graph.ir import CAPTURED, COMPUTED, CONSTANT, FOREIGN, GRAD, INPUT, OWN, Node, Value, laid_out, strides_of
from ferro.graph.literals import array_of, array_text, dtype_name, dtype_of, read, written

VERSION = "ferro graph 1"
SMALL = 64  # bytes of a constant that are written out; greater ones are named, and stand elsewhere

_TYPE = r"%(\d+) (\w+)\[([\d, ]*)(?:; ([-\d, ]*))?\]"
_HEAD = re.compile(rf"(input|bound|constant) {_TYPE}( grad)?( written)?(?: (\"(?:[^\"\\]|\\.)*\"))?(?: = (.*))?")
_OUTPUT = re.compile(_TYPE)
_TEXT = r"\"(?:[^\"\\]|\\.)*\""
_NODE = re.compile(
    r"(?:((?:%\d+ \w+\[[^\]]*\](?:, )?)+) = )?([\w.]+)\((.*)\)( effect)?(?: without ([\d ]+))?"
    rf"(?: by ([\d ]+))?(?: not ([\d ]+))?(?: of (\d+))?(?: again (\d+))?(?:  # ({_TEXT}))?"
)
_VALUE = re.compile(r"""%(\d+)|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


# -- printing ----------------------------------------------------------------------------------------------------------


def printed(graph: Any) -> str:
    """The text of a graph; TypeError for parameters that cannot be written as literals."""
    lines = [VERSION]
    lines += [f"input {_type(value)}{_more(value)}" for value in graph.inputs]
    lines += [f"bound {_type(value)}{_more(value)}" for value in graph.bound]
    for value in graph.constants:
        where = " written" if value.written else ""
        lines.append(f"constant {_type(value)}{where} = {constant_text(value)}")
    lines += [_node(node) for node in graph.nodes]
    lines.append(
        f"return {', '.join([f'{v!r} {h}'.strip() for v, h in zip(graph.outputs, graph.histories, strict=True)])}"
    )
    return "\n".join(lines)


def _type(value: Value) -> str:
    sizes = ", ".join(map(str, value.shape))
    if value.strides is not None:
        sizes += f"; {', '.join(map(str, value.strides))}"
    return f"{value!r} {dtype_name(value.dtype)}[{sizes}]"


def _more(value: Value) -> str:
    return (" grad" if value.requires_grad else "") + (f" {json.dumps(value.name)}" if value.name else "")


def constant_text(value: Value) -> str:
    """What stands behind the sign of equality: a number, bytes, or the name of a large constant."""
    array = value.array
    if array is None or array.nbytes > SMALL:
        return f"stored({constant_name(value)!r})"
    if array.ndim == 0 and array.dtype.kind in "biuf":
        number = array.item()
        text = repr(number)
        if np.asarray(_number(text), array.dtype).tobytes() == array.tobytes():
            return text
    return f"bytes({array_text(array)})"


def constant_name(value: Value) -> str:
    """Under which name a large constant stands in a file."""
    return f"constant{value.number}"


def with_layout(array: Any, value: Value) -> Any:
    """A copy of an array that lies in memory as the text says of a constant; GraphFormatError where that cannot hold its numbers."""
    try:
        out = laid_out(array, value.strides)
    except (MemoryError, OverflowError, ValueError) as e:
        raise GraphFormatError(
            f"the constant {value} cannot lie in memory with the strides {value.strides} ({e})"
        ) from None
    if out.tobytes() != array.tobytes():
        raise GraphFormatError(f"the constant {value} has different numbers at one place of its memory")
    return out


def _number(text: str) -> Any:
    return (
        {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(text)
        if text in ("inf", "-inf", "nan")
        else ast.literal_eval(text)
    )


def _node(node: Node) -> str:
    left = ", ".join(map(_type, node.outputs))
    try:
        given = [written(a) for a in node.args] + [f"{k}={written(a)}" for k, a in node.kwargs.items()]
    except TypeError as e:
        raise TypeError(f"'{node.function}' at {node.line}: {e}") from None
    place = node.line + (f"; {node.module}" if node.module else "")
    line = f"{left} = " if left else ""
    line += f"{node.function}({', '.join(given)})"
    line += (" effect" if node.effect else "") + _bits(" without ", node.absent)
    line += _bits(" by ", node.mask) + _bits(" not ", node.foreign)
    line += "" if node.of is None else f" of {node.of}"
    line += f" again {node.again}" if node.again else ""
    return line + (f"  # {json.dumps(place)}" if place else "")


def _bits(word: str, mask: int) -> str:
    return word + " ".join([str(i) for i in range(mask.bit_length()) if mask >> i & 1]) if mask else ""


# -- reading -----------------------------------------------------------------------------------------------------------


def parsed(source: str, constants: dict[str, np.ndarray], make: Callable) -> Any:
    """The graph of a text, as ``make(inputs, values, nodes, outputs, histories)``; see Graph.parse."""
    if not isinstance(source, str):
        raise TypeError(f"parse: expected a text, got {type(source).__name__}")
    lines = source.strip("\n").split("\n")
    if lines[0] != VERSION:
        raise GraphFormatError(f"a graph begins with {VERSION!r}; this begins with {lines[0][:40]!r}")
    reader = _Reader(constants)
    for number, line in enumerate(lines[1:], 2):
        try:
            reader.line(line)
        except GraphFormatError as e:
            raise GraphFormatError(f"line {number}: {e}") from None
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError) as e:
            raise GraphFormatError(f"line {number} cannot be read: {line[:80]!r} ({e})") from None
    if reader.outputs is None:
        raise GraphFormatError("the text ends before its last line, which begins with 'return'")
    return make(reader.inputs, list(reader.values.values()), reader.nodes, reader.outputs, reader.histories)


class _Reader:
    """What the lines before said."""

    def __init__(self, constants: dict[str, np.ndarray]) -> None:
        self.constants = constants
        self.values: dict[str, Value] = {}
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] | None = None
        self.histories: list[str] = []

    def line(self, line: str) -> None:
        """Reads one."""
        if self.outputs is not None:
            raise GraphFormatError("something stands behind 'return'")
        if line.startswith("return"):
            names = [n for n in line.removeprefix("return").strip().split(", ") if n]
            self.outputs = [self._known(n.partition(" ")[0]) for n in names]
            self.histories = [n.partition(" ")[2] for n in names]
            if not {"", GRAD, FOREIGN, OWN, CAPTURED}.issuperset(self.histories):
                raise GraphFormatError(f"no line of a graph: {line[:80]!r}")
        elif (head := _HEAD.fullmatch(line)) is not None:
            self._head(*head.groups())
        elif (node := _NODE.fullmatch(line)) is not None:
            self._node(*node.groups())
        else:
            raise GraphFormatError(f"no line of a graph: {line[:80]!r}")

    def _known(self, name: str) -> Value:
        if name[1:] not in self.values:
            raise GraphFormatError(f"{name} is used before it is made")
        return self.values[name[1:]]

    def _new(self, kind: str, number: str, dtype: str, sizes: str, strides: str | None) -> Value:
        if number in self.values:
            raise GraphFormatError(f"%{number} is made twice")
        shape = tuple([int(n) for n in sizes.split(", ") if n])
        value = self.values[number] = Value(kind, shape, dtype_of(dtype), int(number))
        if strides is not None:
            value.strides = tuple([int(n) for n in strides.split(", ") if n])
            if len(value.strides) != len(shape):
                raise GraphFormatError(f"%{number} has {len(shape)} sizes and {len(value.strides)} strides")
        return value

    def _head(
        self,
        kind: str,
        number: str,
        dtype: str,
        sizes: str,
        strides: Any,
        grad: Any,
        copied: Any,
        name: Any,
        given: Any,
    ) -> None:
        if kind == INPUT and number in self.values and given is None:  # one tensor at two places
            self.inputs.append(self.values[number])
            return
        value = self._new(kind, number, dtype, sizes, strides)
        if (
            (given is None) is (kind == CONSTANT)
            or (kind == CONSTANT and (grad or name))
            or (copied and kind != CONSTANT)
        ):
            raise GraphFormatError(f"no {kind}")
        value.requires_grad, value.name, value.written = bool(grad), json.loads(name) if name else "", bool(copied)
        if kind == INPUT:
            self.inputs.append(value)
        elif kind == CONSTANT:
            value.array = self._array(value, given)

    def _array(self, value: Value, text: str) -> Any:
        kind, _, rest = text.partition("(")
        if kind == "stored":
            array = self.constants.get(ast.literal_eval(rest.removesuffix(")")))
            if array is not None and (array.shape != value.shape or array.dtype != value.dtype):
                raise GraphFormatError(f"the constant {value} is {array.dtype}{list(array.shape)} where it is stored")
            return array if array is None or strides_of(array) == value.strides else with_layout(array, value)
        if kind == "bytes":
            return with_layout(array_of(ast.literal_eval(rest.removesuffix(")")), value.shape, value.dtype), value)
        if value.shape != () or type(_number(text)) not in (int, float, bool):
            raise GraphFormatError(f"no constant: {text}")
        return np.asarray(_number(text), value.dtype)

    def _node(
        self,
        left: Any,
        function: str,
        given: str,
        effect: Any,
        without: Any,
        by: Any,
        foreign: Any,
        of: Any,
        again: Any,
        place: Any,
    ) -> None:
        resolved(function)
        if bool(effect) is not is_effect(function):
            raise GraphFormatError(f"{function} {'is no effect' if effect else 'is an effect'}")
        names = {f"_{number}": value for number, value in self.values.items()}
        source = _VALUE.sub(lambda m: f"_{m[1]}" if m[1] else m[0], given)
        call = ast.parse(f"f({source})", mode="eval").body
        if not isinstance(call, ast.Call) or any(k.arg is None for k in call.keywords):
            raise GraphFormatError(f"no arguments: {given[:80]}")
        args = tuple([read(a, names) for a in call.args])
        node = Node(function, args, {str(k.arg): read(k.value, names) for k in call.keywords}, bool(effect))
        for match in _OUTPUT.finditer(left or ""):
            value = self._new(COMPUTED, *match.groups())
            value.node, value.index = node, len(node.outputs)
            node.outputs.append(value)
        node.of, node.again = None if of is None else int(of), int(again or 0)
        node.absent, node.mask, node.foreign = [
            sum(1 << min(int(i), 1000) for i in set((bits or "").split())) for bits in (without, by, foreign)
        ]
        if place:
            node.location, _, node.module = json.loads(place).partition("; ")
        self.nodes.append(node)
