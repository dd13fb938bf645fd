"""What a capture is told of beside computing: random numbers, ``.grad`` and ``.data`` that are set, steps of optimisers.

Note [State in graphs].  Such a deed is a node where it stands (state.py). While it happens for real, the tensors that it
touches have their real arrays: eager's own code does it, here as in a replay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ferro.core import mode as _mode
from ferro.core.accumulate import accumulate
from ferro.core.base import TensorBase, wrap
from ferro.core.history import history
from ferro.core.random import default
from ferro.cpu.sparse_rows import Rows
from ferro.graph.array import Drawing, Traced, noted, traced
from ferro.graph.ir import Held, Node
from ferro.graph.there import is_real


class Hooks:
    """The part of a recorder that the rest of the library tells of what happens; see core/captures.py."""

    names: dict[int, str]
    watch: Any = None  # the observer of this capture
    frame: Any = None  # the branch or body that runs: a Frame of control/bodies.py
    control: Any = None  # what captures branches and loops: entered by control/
    note: Callable
    keep: Callable
    converted: Callable
    refuse: Callable
    constant: Callable

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()
        self.held: dict[int, Held] = {}  # objects of the program, by identity
        self.swapped: list[
            tuple[Any, Traced]
        ] = []  # the tensors that were there before, and what stands for their arrays
        self.tensors: dict[int, Traced] = {}  # the same, by the identity of the tensor
        self.external: dict[int, Any] = {}  # those tensors, by the identity of what stands for their arrays
        self.begun: dict[int, int] = {}  # how often they had been changed
        self.leaf_of: dict[int, Any] = {}  # by the identity of a .grad, whose it is
        self.moved: set[int] = set()  # those whose .data was set
        self.counts: dict[int, int] = {}  # by the identity of a version counter, the changes that no node is to count
        self.known: set[int] = set()  # the tensors of which the graph says what .grad they have
        self.accumulating = False
        # Of tensors that were told otherwise, whether they required a gradient before.
        self.required: dict[int, bool] = {}
        self.recomputation = self.recomputations = 0  # which one runs (0: none), how many there were
        self.found: dict[int, bool] = {}  # whether a tensor had a .grad when the function first asked

    def notes(self) -> bool:
        """Whether what runs now belongs to the capture."""
        return threading.get_ident() == self.thread

    @contextmanager
    def recomputing(self) -> Iterator[None]:
        """Within, a checkpoint computes again what it has computed before."""
        before, self.recomputations = self.recomputation, self.recomputations + 1
        self.recomputation = self.recomputations
        try:
            yield
        finally:
            self.recomputation = before

    def alone(self, what: str) -> None:
        """Ends the capture where a branch or a body of a loop does something to what was there before."""
        if self.frame is not None:
            self.refuse(f"a branch or a body {what}")

    # -- random numbers ------------------------------------------------------------------------------------------------

    def drawing(self, generator: Any, stream: Any) -> Drawing:
        """What stands for the stream of a generator; see draws.py."""
        return Drawing(self, self._generator(generator), stream)

    def seeded(self, generator: Any, seed: int) -> None:
        """A generator begins the stream of a seed."""
        noted(self, "random.manual_seed", lambda *_: None, (self._generator(generator), seed), {})

    def _generator(self, generator: Any) -> Held | None:
        if self.frame is not None and self.notes():
            self.frame.draws_from(generator)
        return None if generator is default() else self.holding("generator", generator)

    def holding(self, kind: str, thing: Any) -> Held:
        """What names an object of the program in nodes."""
        found = self.held.get(id(thing))
        if found is None:
            found = self.held[id(thing)] = Held(kind, self.names.get(id(thing), ""), thing)
        return found

    def seeds(self, given: list) -> list:
        """The cotangents that a backward begins with: formulas of traced arrays are to run from there on."""
        return [wrap(traced(t._data, self, self.constant(t._data)), t._node) if is_real(t._data) else t for t in given]

    # -- gradients and data --------------------------------------------------------------------------------------------

    def accumulates(self, leaf: Any, g: Any, record: bool, owned: bool, location: Any) -> bool:
        """Adds a gradient to that of a leaf which was there before the capture, as a node; False for other leaves."""
        before = self.tensors.get(id(leaf))
        if before is None or self.accumulating:
            return False
        self.alone("adds to a .grad")
        if type(g) is Rows or leaf.is_sparse:
            self.refuse("backward() gives a sparse gradient")
            return False
        if record:
            self.grad_read(leaf)
            self.accumulating = True
            try:
                accumulate(leaf, g, record, owned, location)
            finally:
                self.accumulating = False
            self.grad_set(leaf, leaf._meta.grad)
            return True
        with self.outside([leaf, leaf._meta and leaf._meta.grad]):
            accumulate(leaf, g.near if isinstance(g, Traced) else g, False, False, location)
        grad = leaf._meta.grad
        data = grad._data
        grad._data = self.note(
            "tensor.accumulate_grad", (before, g), {}, data.near if isinstance(data, Traced) else data
        )
        self.known.add(id(leaf))
        return True

    def grad_set(self, x: Any, grad: Any) -> None:
        """``x.grad = grad`` was said."""
        if (before := self.tensors.get(id(x))) is not None:
            self.alone("sets a .grad")
            more: tuple = () if grad is None or (owner := self._owner(grad)) is None else (owner,)
            self.note("tensor.set_grad", (before, None if grad is None else self.escaping(grad), *more), {}, None)
            self.known.add(id(x))

    def _owner(self, t: Any) -> Traced | None:
        """What stands for a tensor that was there before, and counts the same changes as one that was not."""
        if t._counter is None or id(t) in self.tensors:
            return None
        return next((array for other, array in self.swapped if other._counter is t._counter), None)

    def grad_read(self, x: Any) -> None:
        """``x.grad`` is asked for: whether it is None decides what the program does."""
        if id(x) in self.tensors and id(x) not in self.known:
            self.found.setdefault(id(x), x._meta is not None and x._meta.grad is not None)

    def data_set(self, x: Any, y: Any) -> None:
        """``x.data = y`` is said; gives the array that x gets."""
        if (before := self.tensors.get(id(x))) is not None:
            self.alone("sets the data of a tensor")
            self.note("tensor.set_data", (before, self.escaping(y)), {}, None)
            self.moved.add(id(x))

    def requires_grad_set(self, x: Any, flag: bool | None) -> None:
        """``x.requires_grad_(flag)`` is said, or x.detach_() (None)."""
        if (before := self.tensors.get(id(x))) is not None:
            self.alone("changes whether a tensor requires a gradient")
            self.required.setdefault(id(x), history(x) is not None)
            name = "tensor.detach" if flag is None else "tensor.set_requires_grad"
            self.note(name, (before,) if flag is None else (before, flag), {}, None)
            before.value.requires_grad = bool(flag)

    def escaping(self, t: Any) -> Traced:
        """The traced array of a tensor that outlives the graph: a constant is a new one in each replay then."""
        data = t._data
        if is_real(data):
            self.watch.writing(t)
            data = t._data
        if not isinstance(data, Traced):
            self.refuse(f"a {type(t).__name__} of a {type(data).__name__} is kept")
            return data
        self.keep(data.near)
        return data

    # -- what eager's own code does ------------------------------------------------------------------------------------

    def steps(self, optimizer: Any, step: Callable) -> None:
        """One step of an optimiser: see state.py. One that is differentiated is captured as it computes."""
        self.alone("makes a step of an optimizer")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        before = [self.tensors.get(id(p)) for p in params]
        if optimizer.defaults.get("differentiable"):
            if any(b is not None for b in before):
                self.refuse(
                    f"{type(optimizer).__name__} is differentiable and changes a parameter that was there before"
                )
            step()
            return
        if any(b is None for b in before):
            self.refuse(f"{type(optimizer).__name__} changes a parameter that was made inside of the function")
            step()
            return
        grads = [p._meta.grad._data for p in params if p._meta is not None and p._meta.grad is not None]
        grads = [a for a in grads if isinstance(a, Traced) and a.value is not None]
        with self.outside():
            step()
        self.note("program.step", (self.holding("optimizer", optimizer), tuple(before), tuple(grads)), {}, None)
        self.trace(t for state in optimizer.state.values() for t in _tensors(state))

    def schedules(self, scheduler: Any, step: Callable, args: tuple) -> None:
        """One step of a scheduler, which gets the arrays of tensors."""
        self.alone("makes a step of a scheduler")
        given = [a._data if isinstance(a, TensorBase) else a for a in args]
        with self.outside():
            step(scheduler, *[a.near if isinstance(a, Traced) else a for a in given])
        self.note("program.schedule", (self.holding("scheduler", scheduler), *given), {}, None)

    def trace(self, tensors: Iterable[Any]) -> None:
        """Puts traced arrays into tensors that were there before the capture, or are kept by the program from now on."""
        for t in tensors:
            if is_real(t._data) and id(t) not in self.tensors:
                array = traced(t._data, self)
                self.swapped.append((t, array))
                self.tensors[id(t)], self.external[id(array)] = array, t
                self.begun[id(t)] = _changes(t)
                if t._meta is not None and t._meta.grad is not None:
                    self.leaf_of[id(t._meta.grad)] = t
                t._data = array

    @contextmanager
    def outside(self, some: list | None = None) -> Iterator[None]:
        """Within, tensors (`some`, or all) have their real arrays, nothing is noted, and no change is counted."""
        tensors = [t for t in some if t is not None] if some is not None else self._all()
        before = [(t, t._data, _changes(t)) for t in tensors if isinstance(t._data, Traced)]
        for t, array, _ in before:
            t._data = array.near
        mode = _mode.current()
        observers = tuple([o for o in mode.observers if o is not self.watch])
        thread, self.thread = self.thread, None
        try:
            with _mode.switched(observers=observers, threads=True):
                yield
        finally:
            self.thread = thread
            counted = {}
            for t, array, changes in before:
                if t._data is not array.near:
                    self.refuse(f"a tensor of shape {list(array.shape)} gets other memory")
                if self.thread is None:  # (released)
                    break
                t._data = array
                counted[id(t._counter)] = _changes(t) - changes
            for counter, n in counted.items():
                self.counts[counter] = self.counts.get(counter, 0) + n

    def _all(self) -> list:
        grads = [t._meta.grad for t, _ in self.swapped if t._meta is not None and t._meta.grad is not None]
        return list({id(t): t for t in (*[t for t, _ in self.swapped], *grads)}.values())

    def restore(self) -> Any:
        """Gives tensors their real arrays; returns one that has another one now, which nobody said."""
        moved = None
        for t, array in self.swapped:
            if t._data is array:
                t._data = array.near
            elif isinstance(t._data, Traced):
                if t._data.near is not array.near and id(t) not in self.moved:
                    moved = t
                t._data = t._data.near
            grad = None if t._meta is None else t._meta.grad
            if grad is not None and isinstance(grad._data, Traced):
                grad._data = grad._data.near
        return moved

    # -- at the end ----------------------------------------------------------------------------------------------------

    def checks(self) -> list[Node]:
        """What a replay asks before all else."""
        return [self._of_tensor("check.has_grad", self.tensors[x], has) for x, has in self.found.items()]

    def found_grads(self) -> list[tuple[Any, bool]]:
        """The tensors of which Python asked whether they have a .grad, and whether they had one."""
        return [(self.external[id(self.tensors[x])], has) for x, has in self.found.items()]

    def changes(self) -> list[Node]:
        """What counts the in-place changes that were made: one node for each version counter."""
        found: dict[int, Node] = {}
        for t, array in self.swapped:
            counter = t._counter
            if counter is not None and array.value is not None and id(counter) not in found:
                count = counter.n - self.begun[id(t)] - self.counts.get(id(counter), 0)
                if count:
                    found[id(counter)] = self._of_tensor("tensor.count_changes", array, count)
        for t, array in self.swapped:  # gradients that the function made, or added to
            grad = None if t._meta is None else t._meta.grad
            counter = None if grad is None else grad._counter
            if counter is not None and id(counter) not in found:
                count = counter.n - self.begun.get(id(grad), 0) - self.counts.get(id(counter), 0)
                if count:
                    found[id(counter)] = self._of_tensor("tensor.count_changes_of_grad", array, count)
        return list(found.values())

    def _of_tensor(self, name: str, array: Traced, parameter: Any) -> Node:
        return Node(name, (self.converted(array), parameter), {}, True)


def _changes(t: Any) -> int:
    return 0 if t._counter is None else t._counter.n


def _tensors(state: Any) -> list:
    values = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else (state,)
    return [t for t in values if isinstance(t, TensorBase)]
