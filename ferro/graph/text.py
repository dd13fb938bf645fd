"""Graphs as text, and back.

One line for each value or node: ``input %0 float32[64, 64]``, ``bound %1 float32[8] grad "model.bias"``, ``constant %2
float32[] = 2.0``, ``%3 float32[64] = sum(%0, (1,), False)  # "file.py:7 in forward"``, and last ``return %3``. Behind the
sizes stand the strides of inputs where they are not those of C order. Reading makes nothing but values, and literals.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.core.backend import on_host
from ferro.core.device import DEVICE_BACKENDS, known
from ferro.graph.errors import GraphFormatError
from ferro.graph.functions import is_effect, resolved
from ferro.graph.ir import (
    CAPTURED,
    COMPUTED,
    CONSTANT,
    FOREIGN,
    GRAD,
    INPUT,
    OWN,
    Inner,
    Node,
    Value,
    in_memory,
    laid_out,
    strides_of,
    with_graphs,
)
from ferro.graph.literals import array_of, array_text, dtype_name, dtype_of, read, written
from ferro.graph.there import device_of

VERSION = "ferro graph 1"
_IN = "  "  # before the lines of a graph in a node
SMALL = 64  # bytes of a constant that are written out; greater ones are named, and stand elsewhere

_TYPE = r"%(\d+) (\w+)\[([\d, ]*)(?:; ([-\d, ]*))?\](?: on (\w+))?"
_HEAD = re.compile(rf"(input|bound|constant) {_TYPE}( grad)?( written)?(?: (\"(?:[^\"\\]|\\.)*\"))?(?: = (.*))?")
_OUTPUT = re.compile(_TYPE)
_TEXT = r"\"(?:[^\"\\]|\\.)*\""
_NODE = re.compile(
    r"(?:((?:%\d+ \w+\[[^\]]*\](?: on \w+)?(?:, )?)+) = )?([\w.]+)\((.*)\)( effect)?(?: without ([\d ]+))?"
    rf"(?: by ([\d ]+))?(?: not ([\d ]+))?(?: of (\d+))?(?: again (\d+))?(?:  # ({_TEXT}))?"
)
_VALUE = re.compile(r"""%(\d+)|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


# -- printing ----------------------------------------------------------------------------------------------------------


def printed(graph: Any) -> str:
    """The text of a graph; TypeError for parameters that cannot be written as literals."""
    return "\n".join([VERSION, *_lines(graph, "")])


def _lines(graph: Any, within: str) -> list[str]:
    """The lines of a graph; those of the graphs in a node stand behind its own, two spaces further in."""
    lines = [f"input {_type(value)}{_more(value)}" for value in graph.inputs]
    lines += [f"bound {_type(value)}{_more(value)}" for value in graph.bound]
    for value in graph.constants:
        where = " written" if value.written else ""
        lines.append(f"constant {_type(value)}{where} = {constant_text(value, within)}")
    for i, node in enumerate(graph.nodes):
        lines.append(_node(node))
        for k, inner in enumerate(node.graphs):
            lines += [f"{_IN}{line}" for line in (f"graph {k}", *_lines(inner, f"{within}{i}.{k}."))]
    given = [f"{v!r} {h}".strip() for v, h in zip(graph.outputs, graph.histories, strict=True)]
    return [*lines, f"return {', '.join(given)}"]


def constants_of(graph: Any, within: str = "") -> Iterator[tuple[str, Value]]:
    """The names under which constants stand in a file, those of graphs in nodes too, and the constants."""
    yield from [(constant_name(value, within), value) for value in graph.constants]
    for i, node in enumerate(graph.nodes):
        for k, inner in enumerate(node.graphs):
            yield from constants_of(inner, f"{within}{i}.{k}.")


def _type(value: Value) -> str:
    sizes = ", ".join(map(str, value.shape))
    if value.strides is not None:
        sizes += f"; {', '.join(map(str, value.strides))}"
    return f"{value!r} {dtype_name(value.dtype)}[{sizes}]" + (f" on {value.device}" if value.device else "")


def _more(value: Value) -> str:
    return (" grad" if value.requires_grad else "") + (f" {json.dumps(value.name)}" if value.name else "")


def constant_text(value: Value, within: str = "") -> str:
    """What stands behind the sign of equality: a number, bytes, or the name of a large constant."""
    array = None if value.array is None else on_host(value.array)
    if array is None or array.nbytes > SMALL:
        return f"stored({constant_name(value, within)!r})"
    if array.ndim == 0 and array.dtype.kind in "biuf":
        number = array.item()
        text = repr(number)
        if np.asarray(_number(text), array.dtype).tobytes() == array.tobytes():
            return text
    return f"bytes({array_text(array)})"


def constant_name(value: Value, within: str = "") -> str:
    """Under which name a large constant stands in a file; `within` says in which graph of which node."""
    return f"{within}constant{value.number}"


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


def there(array: Any, value: Value) -> Any:
    """The array of a constant, on the device where it is to lie."""
    if array is None or not value.device:
        return array
    out = in_memory(value.shape, value.strides, value.dtype, device=value.device)
    out[...] = DEVICE_BACKENDS[value.device].from_host(array)
    return out


def _number(text: str) -> Any:
    return (
        {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(text)
        if text in ("inf", "-inf", "nan")
        else ast.literal_eval(text)
    )


def _node(node: Node) -> str:
    left = ", ".join(map(_type, node.outputs))
    numbers = itertools.count()
    args = with_graphs(node.args, lambda _: Inner(next(numbers))) if node.graphs else node.args
    try:
        given = [written(a) for a in args] + [f"{k}={written(a)}" for k, a in node.kwargs.items()]
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
    return _parsed(lines, 1, constants, make)


def _parsed(lines: list[str], start: int, constants: dict[str, np.ndarray], make: Callable) -> Any:
    """The graph of the lines behind number `start`."""
    reader = _Reader(constants)
    while start < len(lines):
        end = start + 1
        while end < len(lines) and lines[end].startswith(_IN):
            end += 1
        line = lines[start]
        try:
            inner = () if end == start + 1 else _parts(lines[:end], start + 1)
            reader.graphs = [_parsed(*part, constants, make) for part in inner]
            reader.line(line)
        except GraphFormatError as e:
            raise e if str(e).startswith("line ") else GraphFormatError(f"line {start + 1}: {e}") from None
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError) as e:
            raise GraphFormatError(f"line {start + 1} cannot be read: {line[:80]!r} ({e})") from None
        start = end
    if reader.outputs is None:
        raise GraphFormatError("the text ends before its last line, which begins with 'return'")
    return make(reader.inputs, list(reader.values.values()), reader.nodes, reader.outputs, reader.histories)


def _parts(lines: list[str], start: int) -> Iterator[tuple[list[str], int]]:
    """Of the lines that are further in from number `start` on, those of each graph, behind as many as stand before them."""
    heads = [i for i in range(start, len(lines)) if lines[i].startswith(f"{_IN}graph ")]
    if len(lines) > start and heads[:1] != [start]:
        raise GraphFormatError(f"line {start + 1}: no graph begins here: {lines[start][:80]!r}")
    for k, (i, end) in enumerate(zip(heads, [*heads[1:], len(lines)], strict=True)):
        if lines[i] != f"{_IN}graph {k}":
            raise GraphFormatError(f"line {i + 1}: graph {k} was expected: {lines[i][:80]!r}")
        yield [line.removeprefix(_IN) for line in lines[:end]], i + 1


class _Reader:
    """What the lines before said."""

    def __init__(self, constants: dict[str, np.ndarray]) -> None:
        self.constants = constants
        self.values: dict[str, Value] = {}
        self.graphs: list[Any] = []  # what stands further in behind the line
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] | None = None
        self.histories: list[str] = []

    def line(self, line: str) -> None:
        """Reads one."""
        if self.outputs is not None:
            raise GraphFormatError("something stands behind 'return'")
        if self.graphs and _NODE.fullmatch(line) is None:
            raise GraphFormatError("graphs stand behind a line that is no node")
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

    def _new(self, kind: str, number: str, dtype: str, sizes: str, strides: str | None, on: str | None) -> Value:
        if number in self.values:
            raise GraphFormatError(f"%{number} is made twice")
        shape = tuple([int(n) for n in sizes.split(", ") if n])
        value = self.values[number] = Value(kind, shape, dtype_of(dtype), int(number))
        if on is not None:
            value.device = known(on).type
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
        on: Any,
        grad: Any,
        copied: Any,
        name: Any,
        given: Any,
    ) -> None:
        if kind == INPUT and number in self.values and given is None:  # one tensor at two places
            self.inputs.append(self.values[number])
            return
        value = self._new(kind, number, dtype, sizes, strides, on)
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
            value.array = there(self._array(value, given), value)

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

    def _with_graphs(self, args: tuple) -> tuple:
        """Arguments with the graphs that stand behind the line, each of which they name once, in order."""
        named: list[int] = []

        def graph(inner: Inner) -> Any:
            named.append(inner.number)
            return self.graphs[inner.number] if inner.number < len(self.graphs) else inner

        found = with_graphs(args, graph)
        if named != list(range(len(self.graphs))):
            raise GraphFormatError(
                f"the arguments name the graphs {named}, and {len(self.graphs)} stand behind the line"
            )
        return found

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
        if function != "xp.from_host":  # (which is of devices alone)
            resolved(function)
        if bool(effect) is not is_effect(function):
            raise GraphFormatError(f"{function} {'is no effect' if effect else 'is an effect'}")
        names = {f"_{number}": value for number, value in self.values.items()}
        source = _VALUE.sub(lambda m: f"_{m[1]}" if m[1] else m[0], given)
        call = ast.parse(f"f({source})", mode="eval").body
        if not isinstance(call, ast.Call) or any(k.arg is None for k in call.keywords):
            raise GraphFormatError(f"no arguments: {given[:80]}")
        args = self._with_graphs(tuple([read(a, names) for a in call.args]))
        node = Node(function, args, {str(k.arg): read(k.value, names) for k in call.keywords}, bool(effect))
        for match in _OUTPUT.finditer(left or ""):
            value = self._new(COMPUTED, *match.groups())
            value.node, value.index = node, len(node.outputs)
            node.outputs.append(value)
        resolved(function, device_of(node))
        node.of, node.again = None if of is None else int(of), int(again or 0)
        node.absent, node.mask, node.foreign = [
            sum(1 << min(int(i), 1000) for i in set((bits or "").split())) for bits in (without, by, foreign)
        ]
        if place:
            node.location, _, node.module = json.loads(place).partition("; ")
        self.nodes.append(node)
