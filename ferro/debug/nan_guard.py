"""nan_guard: raises where nan (or inf) comes into being, forward or backward, and names the operation, line and element."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ferro.autograd._location import Location, location
from ferro.autograd._observer import Observer, arrays_of, node_of, outputs_of
from ferro.batched.array import plain
from ferro.core.apply import watched
from ferro.core.backend import on_host
from ferro.core.dtypes import FROM_NUMPY, INEXACT
from ferro.core.node import Freed
from ferro.core.op import Op
from ferro.core.saved_values import Packed
from ferro.debug.locations import location_of, note_location


class NonFiniteError(RuntimeError):
    """A value that is not finite came into being: `op`, `phase` ("forward" or "backward"), `index`, `location`."""

    def __init__(self, message: str, op: str, phase: str, index: tuple, where: Location | None) -> None:
        super().__init__(message)
        self.op, self.phase, self.index, self.location = op, phase, index, where


class _Running(threading.local):
    """The nodes whose backward runs in this thread."""

    depth = 0


class nan_guard(Observer):
    """Inside, an operation that makes nan out of inputs without nan raises `NonFiniteError`; so does a backward formula.

    nan, inf: what to look for.  where: "forward", "backward" or "both".  allow: names of operations that may make such
    values.  Nan that comes in with data, or that an allowed operation made, passes: only its producer is at fault.
    Backward must run inside to be looked at; it names the line of forward if that ran inside too.  Off, it costs nothing.

    Example::

        >>> import ferro
        >>> with ferro.debug.nan_guard():
        ...     ferro.tensor([1.0, -1.0]).log()
        Traceback (most recent call last):
            ...
        ferro.debug.nan_guard.NonFiniteError: nan_guard: 'log' made nan ...
    """

    def __init__(self, nan: bool = True, inf: bool = False, where: str = "both", allow: Iterable[str] = ()) -> None:
        if where not in ("both", "forward", "backward"):
            raise ValueError(f"nan_guard: where must be 'both', 'forward' or 'backward', got {where!r}")
        if not (nan or inf):
            raise ValueError("nan_guard: with nan=False and inf=False there is nothing to look for")
        self.nan, self.inf = nan, inf
        self.look_forward, self.look_backward = where != "backward", where != "forward"
        self.allow = frozenset([allow] if isinstance(allow, str) else allow)
        self.running = _Running()

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation and looks at its results.  (What formulas compute on their way is looked at as a whole.)"""
        result = watched(op, xs, params, mode)
        if self.look_forward and not self.running.depth and op.name not in self.allow:
            for t in outputs_of(op, result):
                bad = self._bad(plain(t._data))
                if bad is not None:
                    arrays = arrays_of(xs)
                    if all(self._bad(a) is None for a in arrays):
                        self._raise_forward(op, xs, plain(t._data), bad)
        node = node_of(op, result)
        if node is not None:
            note_location(node)
        return result

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Runs the formulas of a node and looks at the gradients they give."""
        self.running.depth += 1
        try:
            gs = rest()
        finally:
            self.running.depth -= 1
        op = node.plan.op
        if self.look_backward and op.name not in self.allow and op.backward_name not in self.allow:
            for position, gx in enumerate(gs):
                bad = None if gx is None else self._bad(arrays_of([gx])[0])
                if bad is not None and self._is_producer(node, g):
                    self._raise_backward(node, g, position, arrays_of([gx])[0], bad)
        return gs

    def _bad(self, a: Any) -> Any:
        """Where an array has what is looked for, as an array of bool; None if nowhere."""
        a = on_host(a)
        if a.dtype not in INEXACT or np.isfinite(a).all():
            return None
        bad = (np.isnan(a) if self.nan else False) | (np.isinf(a) if self.inf else False)
        return bad if np.any(bad) else None

    def _is_producer(self, node: Any, g: Any) -> bool:
        """Whether what came in was without fault.

        A fault in a saved value counts as incoming only if forward was guarded: then it has been allowed there.
        """
        if any(self._bad(a) is not None for a in arrays_of([g])):
            return False
        guarded = self.look_forward and location_of(node) is not None
        return not (guarded and any(self._bad(a) is not None for _, a in _saved(node)))

    def _kind(self, a: Any, index: tuple) -> str:
        return "nan" if np.isnan(on_host(a[index])) else "inf"

    def _raise_forward(self, op: Op, xs: tuple, out: Any, bad: Any) -> None:
        index = _first(bad)
        kind = self._kind(out, index)
        names = [f"{op.inputs[0]}[{i}]" for i in range(len(xs))] if op.variadic else op.inputs
        inputs = [_at(n, plain(x._data), index, out.shape) for n, x in zip(names, xs, strict=False) if x is not None]
        here = location()
        raise NonFiniteError(
            f"nan_guard: '{op.name}' made {kind} from inputs without {self._watched()}: {_count(bad, out)}, the first at index "
            f"{list(index)}. Inputs: {'; '.join(inputs)}. At {here}.",
            op.name,
            "forward",
            index,
            here,
        )

    def _raise_backward(self, node: Any, g: Any, position: int, gx: Any, bad: Any) -> None:
        index = _first(bad)
        kind = self._kind(gx, index)
        op = node.plan.op
        number = node.plan.indices[position]
        inputs = getattr(op, "inputs", ())
        name = f"'{inputs[number]}'" if number < len(inputs) and not op.variadic else f"number {number}"
        given = [_at("incoming gradient", a, index, gx.shape) for a in arrays_of([g])]
        given += [_at(f"saved {n}", a, index, gx.shape) for n, a in _saved(node)]
        here = location_of(node)
        ran = f"Its forward ran at {here}." if here is not None else "Run forward inside nan_guard too to see its line."
        raise NonFiniteError(
            f"nan_guard: the backward of '{op.name}' ({node.name()}) made {kind} from a gradient without {self._watched()}: in "
            f"the gradient of input {name}, {_count(bad, gx)}, the first at index {list(index)}. Its inputs: "
            f"{'; '.join(given)}. {ran}",
            op.name,
            "backward",
            index,
            here,
        )

    def _watched(self) -> str:
        return " or ".join(name for name, on in (("nan", self.nan), ("inf", self.inf)) if on)


def _first(bad: Any) -> tuple:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _count(bad: Any, a: Any) -> str:
    return f"{int(bad.sum())} of {a.size} elements (shape {list(a.shape)}, {FROM_NUMPY[a.dtype]})"


def _saved(node: Any) -> list[tuple[str, Any]]:
    """The names and arrays of the floating values a node has saved, as far as they lie open."""
    saved = node.saved
    if type(saved) is Freed or saved is None:
        return []
    names = node.plan.names or [str(i) for i in range(len(saved))]
    found = []
    for name, value in zip(names, saved, strict=False):
        value = getattr(value, "tensor", value) if not callable(getattr(value, "tensor", None)) else value
        if type(value) is not Packed:
            found += [(name, a) for a in arrays_of([value]) if a.dtype in INEXACT]
    return found


def _at(name: str, a: Any, index: tuple, shape: tuple) -> str:
    """An input at the place of the fault where shapes say which element belongs to it, otherwise its shape and range."""
    try:
        fits = np.broadcast_shapes(a.shape, shape) == shape
    except ValueError:
        fits = False
    if fits:
        there = index[len(shape) - a.ndim :] if a.ndim else ()
        return f"{name} = {a[tuple(0 if n == 1 else i for i, n in zip(there, a.shape, strict=True))]} there"
    if not a.size or a.dtype.kind == "c":
        return f"{name} of shape {list(a.shape)}"
    return f"{name} of shape {list(a.shape)}, from {np.nanmin(a)} to {np.nanmax(a)}"
