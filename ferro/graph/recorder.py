"""The recorder of one capture: values of arrays, and the nodes that were noted so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core.primitives import COPY_SLICES
from ferro.core.provenance import at, caller
from ferro.graph.array import Traced, traced
from ferro.graph.errors import CaptureError
from ferro.graph.executor import arrays_in
from ferro.graph.functions import WRITERS, effects, has_any_shape, is_effect, written_by
from ferro.graph.hooks import Hooks
from ferro.graph.ir import BOUND, COMPUTED, CONSTANT, Node, Value, copy_of, strides_of
from ferro.graph.living import untrace
from ferro.graph.modules import innermost
from ferro.graph.places import Place
from ferro.graph.there import device_name, is_real, shares

REMEDIES = "compute with where() or masks of a fixed shape, say it by cond() or while_loop(), or make this decision before the capture"


class Recorder(Hooks):
    """What a capture has noted. It notes only what its own thread computes, until it is closed."""

    def __init__(self, names: dict[int, str] | None = None, lenient: bool = False) -> None:
        super().__init__()
        self.lenient = lenient
        self.raises = not lenient
        self.inputs: list[Any] = []  # the tensors of the inputs
        self.followed: list[Traced] = []  # arrays that have contents, or had them before the last write
        self.reason: str | None = None  # why a lenient capture ended
        self.closed = False
        self.values: list[Value] = []  # inputs, bound values and constants
        self.nodes: list[Node] = []
        self.constants: dict[int, Value] = {}  # by the identity of their arrays, which they hold
        self.of: int | None = None  # the forward node whose backward runs
        self.names = names or {}  # of modules, by identity
        self.places: dict[int, list] = {}  # by the identity of tensors, where the function finds them
        self.seen: list | None = None
        self.place: Node | None = None  # the forward node whose formulas run
        self.gathered: dict[int, Any] = {}  # what there is of gradients to which the loop adds whose backward runs
        self.stands_in = False  # whether arrays are stand-ins, by which nothing can be decided

    # -- refusals ------------------------------------------------------------------------------------------------------

    def refuse(self, what: str) -> None:
        """Ends the capture: names the line that runs. Nothing in another thread, which sees traced tensors, too."""
        if not self.notes():
            return
        self.end(f"capture: {what}{at(caller(2))}. A graph cannot hold that yet; leave it outside of the capture.")

    def refuse_number(self, array: Traced) -> None:
        """Ends the capture: Python asks for a number."""
        self.living(array)
        if not self.notes():
            return
        self.end(
            f"capture: Python asks for the numbers of a tensor of shape {list(array.shape)}{at(caller(2))} (if t:, item(), tolist(), "
            f"numpy(), a shape that depends on the data). The next call has other numbers: {REMEDIES}."
        )

    def end(self, why: str) -> None:
        """Raises CaptureError. A lenient capture ends here instead, and the call goes on as eager's would."""
        if self.raises:
            raise CaptureError(why)
        if self.reason is None:
            self.reason = why
        self.release()

    def release(self) -> None:
        """Nothing is noted any more: tensors have their real arrays again, and traced ones in nodes of the tape compute plainly."""
        self.thread = None
        self.restore()
        untrace(self)

    def living(self, array: Traced) -> None:
        """CaptureError for an array that outlived its capture."""
        if self.closed and not self.lenient:
            node = None if array.value is None else array.value.node
            where = f" by '{node.function}' at {node.line}" if node is not None else ""
            raise CaptureError(
                f"a tensor of shape {list(array.shape)} was made{where} while a graph was captured, and kept elsewhere: it belongs to "
                "that call. Return it from the function instead. State that begins with the first call (of an optimizer, "
                "say) is to begin before the capture: run the function once."
            )

    # -- notes ---------------------------------------------------------------------------------------------------------

    def before(self, name: str, some: Traced | None, near: tuple) -> None:
        """What precedes a call: constants that it writes into keep what they hold."""
        if some is not None:
            self.living(some)
        if effects(name).writes:
            if self.frame is not None:
                self.frame.written(near[: WRITERS.get(name, 1)])
            for a in _flat(near):
                if is_real(a):
                    self.keep(a)

    def keep(self, array: np.ndarray) -> None:
        """Constants in the memory of an array keep what they hold: each run has a copy of its own, for it is written into, or kept."""
        for value in self.constants.values():
            if not value.written and shares(array, value.array):
                value.array, value.written = copy_of(value.array), True

    def note(self, name: str, args: tuple, kwargs: dict, found: Any) -> Any:
        """Adds the node of a call that gave `found`; returns that with traced arrays in it."""
        if self.thread is None:
            return found
        if self.lenient and has_any_shape(name, args):
            self.refuse(f"the shape of what '{name}' gives depends on the data")
            return found
        node = Node(name, self.converted(args), {k: self.converted(v) for k, v in kwargs.items()}, is_effect(name))
        if self.followed:
            self._follow(node, args, kwargs)
        if effects(name).writes:
            self._write(name, args)
        if self.place is not None:
            node.location, node.module, node.of = self.place.location, self.place.module, self.of
        else:
            node.location = caller(3)
            node.module = innermost(self.names) if self.names else ""
        node.again = self.recomputation
        self.nodes.append(node)
        made = self._wrapped(node, found)
        if self.seen is not None:
            self.seen.append((node, [a.copy() for a in arrays_in(found)]))
        return made

    def _write(self, name: str, args: tuple) -> None:
        """Notes what tensors hold from now on: the value that was written into all of one; nothing that is known, if they share its memory."""
        source = args[1] if name == "xp.write_" else None
        written = [a for a in _flat(args) if isinstance(a, Traced) and a is not source]
        for array in self.followed:
            if any(shares(array.near, target.near) for target in written):
                array.before, array.content = array.content, None
        target = args[0]
        whole = isinstance(target, Traced) and isinstance(source, Traced) and source.near.dtype == target.near.dtype
        if whole and source.near.shape == target.near.shape and source.value.kind == COMPUTED:
            self.holds(target, source.content or source.value)

    def holds(self, array: Traced, content: Value) -> None:
        """Notes the value that an array holds from now on."""
        if all(array is not other for other in self.followed):
            self.followed.append(array)
        array.content, array.before = content, None

    def _follow(self, node: Node, args: tuple, kwargs: dict) -> None:
        """Notes what a node reads if tensors are followed by what was written into them; what is written into stays.

        ``copy_slices`` stands behind the write into a part of its base, and reads what the base held before.
        """
        count = len(written_by(node))
        contents = tuple([a if i < count else _contents(a) for i, a in enumerate(args)])
        if node.function == COPY_SLICES.name:
            contents = (args[0].content or args[0].before or args[0], *contents[1:])
        more = {k: _contents(v) for k, v in kwargs.items()}
        found = self.converted(contents), {k: self.converted(v) for k, v in more.items()}
        if found != (node.args, node.kwargs):
            node.contents = (*found, 0)

    def _wrapped(self, node: Node, found: Any) -> Any:
        if isinstance(found, np.generic):
            found = np.asarray(found)
        if isinstance(found, np.ndarray) or is_real(found):
            value = Value(COMPUTED, found.shape, found.dtype)
            value.device = device_name(found)
            value.node, value.index, value.strides = node, len(node.outputs), strides_of(found)
            node.outputs.append(value)
            return traced(found, self, value)
        if isinstance(found, (tuple, list)):
            return type(found)([self._wrapped(node, f) for f in found])
        if found is not None:
            self.refuse(f"'{node.function}' gives a {type(found).__name__}, which is no array")
            return found
        if not is_effect(node.function):
            node.absent |= 1 << (len(node.outputs) + node.absent.bit_count())
        return None

    def converted(self, arg: Any) -> Any:
        """Arguments with values in the place of arrays."""
        kind = type(arg)
        if issubclass(kind, Traced):
            if arg.value is None:
                arg.value = self.bind(BOUND, self.external[id(arg)], arg.near)
            if self.frame is not None:
                self.frame.arrays.setdefault(arg.value, arg)
            return arg.value
        if is_real(arg):
            return self.constant(arg)
        if kind is tuple or kind is list:
            return kind([self.converted(a) for a in arg])
        if kind is slice:
            return slice(*[self.converted(a) for a in (arg.start, arg.stop, arg.step)])
        if kind is type and issubclass(arg, (np.generic, bool, int, float, complex)):
            return np.dtype(arg)  # (of ``astype(bool)``)
        return arg

    def constant(self, array: np.ndarray) -> Value:
        """The constant that an array is which the capture has not seen: made from Python's numbers, or by a factory."""
        value = self.constants.get(id(array))
        if value is None:
            value = self.constants[id(array)] = Value(CONSTANT, array.shape, array.dtype)
            value.array, value.strides, value.device = array, strides_of(array), device_name(array)
            self.values.append(value)
        return value

    def bind(self, kind: str, tensor: Any, near: np.ndarray) -> Value:
        """The value of a tensor that was there before the capture."""
        value = Value(kind, near.shape, near.dtype)
        value.tensor = tensor if kind == BOUND else None
        value.strides, value.device = strides_of(near), device_name(near)
        value.places = self.places.get(id(tensor), []) if kind == BOUND else []
        leaf = self.leaf_of.get(id(tensor))
        if kind == BOUND and leaf is not None:
            before = self.places.get(id(leaf)) or [Place(None, "", leaf)]
            value.places = [*value.places, *[Place(place, "grad", None) for place in before]]
        self.values.append(value)
        return value


def _contents(arg: Any) -> Any:
    """Arguments with what was written into them in the place of traced arrays."""
    kind = type(arg)
    if issubclass(kind, Traced):
        return arg if arg.content is None else arg.content
    if kind is tuple or kind is list:
        return kind([_contents(a) for a in arg])
    if kind is slice:
        return slice(_contents(arg.start), _contents(arg.stop), _contents(arg.step))
    return arg


def _flat(args: Any) -> Any:
    for a in args:
        if isinstance(a, (tuple, list)):
            yield from _flat(a)
        else:
            yield a
