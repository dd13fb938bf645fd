"""Hostile cases: memory that ends, and exceptions and interrupts that come, at every place of a call where they can."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from array import array
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

import ferro
from ferro import nn
from ferro.autograd.graph import saved_tensors_hooks
from ferro.core import apply as apply_module
from ferro.core import mode, views
from ferro.core.base import LEAF, TensorBase
from ferro.core.graph_task import STATE
from ferro.core.node import Node
from ferro.utils.checkpoint import checkpoint
from tests.hostile.calls import calls
from tests.hostile.child import Options, note
from tests.hostile.tampered import every_recorder, leaf, view

try:
    import _testcapi
except ImportError:  # a Python without its tests
    _testcapi = None  # type: ignore[assignment]

MADE = isinstance(apply_module.unary, BuiltinFunctionType)  # machine code of the tape is in use
REPEATS = 24  # of one failure: what leaks shows as often


# -- what is interrupted ------------------------------------------------------------------------------------------------


def chain(x: Any) -> Any:
    y = x.sin() * x.cos() + x.exp().view(3, 2).t()
    return ferro.autograd.grad(y.sum(), x)[0]


def branched(x: Any) -> Any:
    y = x * 1
    total = y.sin() * 2 + y.tanh() / 3 + y.sigmoid() - y.square()
    total.mean().backward()
    found, x.grad = x.grad, None
    return found


def network(x: Any) -> Any:
    w, b = x.detach().requires_grad_(), x.detach()[:, 0].clone().requires_grad_()
    out = nn.functional.layer_norm(nn.functional.relu(nn.functional.linear(x, w, b)), (2,))
    nn.functional.cross_entropy(out, ferro.tensor([0, 1])).backward()
    x.grad = None
    return w.grad


def written(x: Any) -> Any:
    y = x * 1
    y[0].mul_(2)
    y[:, 1:] = 3
    y.add_(1)
    return ferro.autograd.grad(y.sum(), x)[0]


def parts(x: Any) -> Any:
    a, b = x.unbind(0)
    c, d, e = (a * b).split(1)
    values, _ = ferro.stack([ferro.cat([c, d, e]), b]).max(0)
    return ferro.autograd.grad(values.sum(), x)[0]


def twice(x: Any) -> Any:
    (g,) = ferro.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    return ferro.autograd.grad(g.square().sum(), x)[0]


def hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    with saved_tensors_hooks(lambda t: t.detach().numpy(), ferro.tensor):
        z = y.exp() * y
    return ferro.autograd.grad(z.sum(), x)[0]


def again(x: Any) -> Any:
    return ferro.autograd.grad(checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).sum(), x)[0]


def switched(x: Any) -> Any:
    with ferro.no_grad():
        y = x * 2
    with ferro.inference_mode():
        z = x.exp()
    return y + z.clone()


PROGRAMS: dict[str, Callable] = {
    f.__name__: f for f in (chain, branched, network, written, parts, twice, hooked, again, switched)
}


def programs() -> dict[str, Callable]:
    """Everything that is interrupted: single calls into machine code, and small programs."""
    called = every_recorder()
    found = {
        f"{text}, x = {make.__name__}()": (f, make)
        for make in (leaf, view)
        for text, f in called.items()
        if "dropout" not in text and text != "hash(x)"  # (which are different each time)
    }
    found.update({name: (f, leaf) for name, f in PROGRAMS.items()})
    return found


# -- the same again -----------------------------------------------------------------------------------------------------


def numbers(result: Any) -> Any:
    """A result as what can be compared: arrays and their dtypes, or its type."""
    if isinstance(result, TensorBase):
        dense = result.detach().to_dense()  # (of a sparse tensor, too)
        return np.array((dense.cfloat() if dense.dtype is ferro.complex32 else dense)._data)
    if isinstance(result, (tuple, list)):
        return [numbers(r) for r in result]
    return result if isinstance(result, (np.ndarray, str, int, float, bool)) else None


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else a == b


COUNTED = (
    None,
    True,
    False,
    LEAF,
    (),
    0,
    1,
    2,
    ferro.float32,
    np.dtype("f4"),
    np.dtype("i8"),
    ferro.Tensor,
    Node,
    np.ndarray,
)


def census() -> array:
    """The blocks of memory that there are, and the references to what everybody shares."""
    found = array("q", [0] * (len(COUNTED) + 1))
    gc.collect()
    for k in range(len(COUNTED)):
        found[k] = sys.getrefcount(COUNTED[k])
    found[-1] = sys.getallocatedblocks()
    return found


def grown(before: array, after: array, most: int) -> dict[str, int]:
    """Of what there is more than before: blocks, or references (of immortal objects the count never changes)."""
    names = [*map(repr, COUNTED), "blocks of memory"]
    return {n: b - a for n, a, b in zip(names, before, after, strict=True) if abs(b - a) >= most}


RAISED = "an exception"  # the result of what raises whatever happens


def settled() -> None:
    """Switch off what an interrupt inside of ``with`` has left on: no context manager written in Python can help that."""
    mode.MODE.set(None)
    mode._ENTERED.set(None)
    mode._STANDING.set(None)
    STATE.run = None


def forgotten() -> None:
    """Take away what an interrupted ``with`` has left in the list of active modes; those that are still held go first."""
    if mode.ACTIVE:
        gc.collect()
        mode.ACTIVE.clear()


def swept(
    text: str, function: Callable, make: Callable, most: int, attempt: Callable, counting: bool, step: int = 1
) -> None:
    """Let `attempt` spoil a call at one place after the other, until nothing is spoilt any more; each some times.

    It gives what the call gave, or the exception that it raised. counting: what is left behind is counted. step: of so
    many places one is tried.
    """
    want = result_of(function, make())
    fine = 0
    lost: list[int] = []  # places where Python could not pass the interrupt on: it keeps a block of some of those
    if attempt in (at_calls, at_lines):
        sys.unraisablehook = lambda told: lost.append(k)
    for k in range(0, most, step):
        said = f"{text}, place {k}"
        note(said)
        for _ in range(4 if counting else 1):  # (what is left behind once is a cache, what is left every time leaks)
            counted: list = []
            for repeat in range(REPEATS + 4 if counting else 1):
                if repeat in (4, REPEATS + 3):
                    counted.append(census())
                x = make()
                got = attempt(k, function, x)
                settled()
                if isinstance(got, SystemError) and attempt in (memory_ends, nothing_is_left) and not counting:
                    got = (
                        MemoryError()
                    )  # where memory ends CPython's ``f_back`` and some of NumPy's functions lose it, too
                assert not isinstance(got, SystemError), (
                    f"{said}: an error of the interpreter: {got!r}, because of {got.__cause__!r}"
                )
                if want is RAISED and isinstance(got, Exception) and not isinstance(got, MemoryError):
                    pass  # it always does
                elif isinstance(got, BaseException):
                    fine = 0
                else:
                    got = numbers(got)
                    assert same(got, want), f"{said}: gave {got}, expected {want}"
                del x, got
                forgotten()
            left = grown(*counted, REPEATS // 2) if counting else {}
            if not left or k in lost:
                break
        assert not left or k in lost, f"{said}: leaves behind {left}, again and again"
        fine += 1
        if fine > 6:
            return


def result_of(function: Callable, x: Any) -> Any:
    """What a call gives, as what can be compared."""
    try:
        return numbers(function(*x))
    except Exception:  # noqa: BLE001 (it is not made for such a tensor)
        return RAISED


# -- what comes ---------------------------------------------------------------------------------------------------------


def memory_ends(k: int, function: Callable, x: Any) -> Any:
    """The call, in which the k-th allocation fails."""
    _testcapi.set_nomemory(k, k + 1)
    try:
        result = function(*x)
    except Exception as e:  # noqa: BLE001 (which one is looked at later)
        _testcapi.remove_mem_hooks()
        return e.with_traceback(None)
    _testcapi.remove_mem_hooks()
    return result


def nothing_is_left(k: int, function: Callable, x: Any) -> Any:
    """The call, in which every allocation from the k-th on fails."""
    _testcapi.set_nomemory(k, 0)
    try:
        result = function(*x)
    except Exception as e:  # noqa: BLE001 (which one is looked at later)
        _testcapi.remove_mem_hooks()
        return e.with_traceback(None)
    _testcapi.remove_mem_hooks()
    return result


class Interrupting:
    """A profile or trace function that raises at the k-th event."""

    def __init__(self, k: int) -> None:
        self.left = k

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is interrupted.__code__:
            return self
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt
        return self


def interrupted(k: int, function: Callable, x: Any, switch: Callable) -> Any:
    """The call, in which an interrupt comes at the k-th event of `sys.setprofile` or `sys.settrace`."""
    switch(Interrupting(k))
    try:
        return function(*x)
    except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 (which one is looked at later)
        return e.with_traceback(None)
    finally:
        switch(None)


def at_calls(k: int, function: Callable, x: Any) -> Any:
    return interrupted(k, function, x, sys.setprofile)


def at_lines(k: int, function: Callable, x: Any) -> Any:
    return interrupted(k, function, x, sys.settrace)


class Recorder:
    """An observer that notes one call of each operation."""

    def __init__(self) -> None:
        self.found: dict[str, tuple] = {}

    def forward(self, op: Any, xs: tuple, params: tuple, mode: Any) -> Any:
        if all(x is None or isinstance(x, TensorBase) for x in xs):
            self.found.setdefault(op.name, (op, tuple([None if x is None else x.detach() for x in xs]), params))
        return apply_module.watched(op, xs, params, mode)


def bare() -> Iterator[tuple[str, Callable]]:
    """Calls of machine code itself, one for each operation, with no frame of Python between: all that is left is its own."""
    recorder = Recorder()
    with mode.switched(observers=(recorder,)):
        for call in calls(2):
            with contextlib.suppress(Exception):
                call.run([ferro.from_numpy(a) for a in call.arrays()])
    for name, (op, xs, params) in sorted(recorder.found.items()):
        function = op.viewing if op.view else op.direct
        arrays = tuple([None if x is None else x._data for x in xs])
        if (
            function is None
            or isinstance(function, FunctionType)
            or not all(x is None or x.is_floating_point() for x in xs)
        ):
            continue
        if not is_clean(function, ((arrays,) if op.variadic else arrays) + params):
            continue
        for way, ready in (("of leaves", as_leaf), ("of results", as_result)):
            inputs = tuple([x if x is None else ready(x) for x in xs])
            for applied, arguments in entries(op, inputs, params):
                if calls_python(applied, arguments):
                    continue
                yield f"{applied.__name__}({name}) {way}", functools.partial(applied, *arguments)


def calls_python(function: Callable, arguments: tuple) -> bool:
    """Whether a call runs any function written in Python."""
    called = []
    function(*arguments)  # (what is made once is made)
    sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return bool(called)


def is_clean(function: Callable, arguments: tuple) -> bool:
    """Whether a function of arrays leaves nothing behind where memory ends: some of NumPy's do (reductions, say), and
    frames of Python do.
    """
    for k in range(12):
        for repeat in range(REPEATS):
            if repeat == 4:
                before = census()
            if isinstance(memory_ends(k, function, arguments), SystemError):
                return False
        if grown(before, census(), REPEATS // 2):
            return False
    return True


def entries(op: Any, xs: tuple, params: tuple) -> Iterator[tuple]:
    """The functions that an operation may be applied by, and their arguments."""
    if op.view:
        yield (views.parted if op.multi else views.viewed), (op, *xs, params)
    elif op.variadic:
        yield apply_module.joined, (op, xs, *params)
    else:
        if op.short:
            yield apply_module.unary, (op, *xs, params)
        if len(xs) == 2 and not params:
            yield apply_module.binary, (op, *xs)
        yield apply_module.apply, (op, xs, params)


def as_leaf(x: Any) -> Any:
    return x.detach().requires_grad_(x.is_floating_point())


def as_result(x: Any) -> Any:
    return as_leaf(x) * 1 if x.is_floating_point() else x


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases: everything that is interrupted, by everything that comes."""
    most = 600 if options.long else 40
    ends = [("no memory once", memory_ends), ("no memory any more", nothing_is_left)] if _testcapi is not None else []
    calls_of_machine_code = list(bare()) if ends and MADE else []
    assert len(calls_of_machine_code) > 60 or not MADE or not ends, len(calls_of_machine_code)
    for text, function in calls_of_machine_code:
        for how, attempt in ends if options.long else ends[:1]:
            yield (
                f"{text}: {how}",
                lambda text=text, f=function, attempt=attempt: swept(text, f, tuple, most, attempt, True),
            )
    found = programs() if options.long else {name: (f, leaf) for name, f in PROGRAMS.items()}
    for text, (f, make) in found.items():
        for how, attempt in (
            *(
                ends[:1] if options.long else ()
            ),  # (where nothing is left, NumPy's functions and ContextVar.set die or hang)
            ("interrupted at calls", at_calls),
            ("interrupted at lines", at_lines),
        ):
            yield (
                f"{text}: {how}",
                lambda text=text, f=f, make=make, attempt=attempt: swept(
                    text,
                    f,
                    lambda: (make(),),
                    600,
                    attempt,
                    attempt in (at_calls, at_lines),
                    step=1 if options.long else 7,
                ),
            )
