"""Branches and loops that a capture meets: their functions are captured, and one node stands for all."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ferro.core import backend, trees
from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.history import history
from ferro.core.provenance import at, caller
from ferro.graph.array import Traced
from ferro.graph.control.derivatives import prepared
from ferro.graph.control.frames import Frame, Placeholders, described, tensor_of
from ferro.graph.control.loop_derivatives import prepared_body
from ferro.graph.control.operations import DRAWING, OPERATIONS
from ferro.graph.control.running import chosen
from ferro.graph.errors import CaptureError
from ferro.graph.formulas import stand_in
from ferro.graph.ir import GRAD, Value
from ferro.graph.literals import dtype_name
from ferro.graph.living import memory
from ferro.graph.operands import arguments

_FERRO = str(Path(__file__).parents[2]) + "/"


class Control:
    """What a capture does with branches and loops. A method gives None where the capture ended: the call is eager's then."""

    @staticmethod
    def branches(recorder: Any, name: str, index: Any, functions: Sequence[Callable], operands: Any) -> Any:
        """One of some functions of `operands`; see Note [Control flow]."""
        recorder.watch.writing(index)
        taken = chosen(index._data.near, len(functions))
        try:
            _require_no_hooks(name)
            roots = memory()
            frames = [_branch(recorder, name, fn, operands, roots, i == taken) for i, fn in enumerate(functions)]
            _require_same(name, frames)
            return _node(recorder, name, index, frames)
        except CaptureError as error:
            if recorder.thread is not None:
                recorder.end(str(error))
            return None

    @staticmethod
    def given(carried: list, xs: Sequence = (), reverse: bool = False) -> Loop:
        """What a loop is given."""
        return Loop(carried, xs, reverse)

    @staticmethod
    def loop(recorder: Any, name: str, condition: Callable | None, body: Callable, given: Loop) -> Any:
        """A loop of `given`; see control_flow.py. The carried tensors and, of a scan, what the trips give, stacked."""
        try:
            _require_no_hooks(name)
            return _loop(recorder, name, condition, body, given)
        except CaptureError as error:
            if recorder.thread is not None:
                recorder.end(str(error))
            return None


class Loop(NamedTuple):
    """What a loop is given: carried tensors, tensors that it gets slices of, and whether from their ends."""

    carried: list
    xs: Sequence = ()
    reverse: bool = False


def _loop(recorder: Any, name: str, condition: Callable | None, body: Callable, given: Loop) -> Any:
    count, slices = len(given.carried), len(given.xs)
    firsts = [*[_near(t) for t in given.carried], *[_near(x)[0] for x in given.xs]]
    graded = [history(t) is not None for t in (*given.carried, *given.xs)]
    roots = memory()
    while True:  # until every carried value that gets a gradient in some trip has one in all
        stand = Placeholders(recorder, firsts, graded)
        frame = Frame(recorder, roots).run(lambda: body(*stand.tensors), name)  # noqa: B023 (called at once)
        _require_carried(name, stand.values[:count], frame)
        has = [h or frame.histories[j] == GRAD for j, h in enumerate(graded[:count])]
        if has == graded[:count]:
            break
        graded[:count] = has
    frames = [frame]
    if condition is not None:
        asked = Frame(recorder, roots).run(lambda: condition(*stand.tensors), name)
        frames.append(asked)
        if [(v.shape, v.dtype.kind) for v in asked.outputs] not in ([((), "b")], [((1,), "b")]):
            raise CaptureError(
                f"capture: the condition of {name}{at(caller(3))} gives {described(asked)}; a bool tensor of one element was expected"
            )
    free = [v for v in dict.fromkeys([v for f in frames for v in f.free()]) if v not in stand.values]
    if any(v in free for f in frames for v in f.outputs):
        raise CaptureError(
            f"capture: a body of {name}{at(caller(3))} gives a tensor from outside; give a copy (clone())"
        )
    tensors = [tensor_of(frames, v) for v in free]
    flags = [*graded, *[history(t) is not None for t in tensors]]
    graphs = [f.graph([*stand.values, *free], flags) for f in frames]
    ready, with_gradient = prepared_body(graphs[0], count, count + slices)
    op = OPERATIONS[(DRAWING if any(f.draws for f in frames) else "") + name]
    params = (ready, count, slices, given.reverse) if condition is None else (graphs[1], ready, count)
    made = list(backend.apply(op, arguments([*given.carried, *given.xs, *tensors], count + slices), params))[
        : len(with_gradient)
    ]
    for t, has in zip(made, with_gradient, strict=True):
        if not has:
            t._node = None
    return made, frame.structure


def _near(t: Any) -> Any:
    return t._data.near if isinstance(t._data, Traced) else t._data


def _require_carried(name: str, values: list[Value], frame: Frame) -> None:
    """CaptureError unless a body gives what it gets."""
    kinds = [(v.shape, v.dtype) for v in values]
    if [(v.shape, v.dtype) for v in frame.outputs[: len(values)]] != kinds:
        gets = ", ".join([f"{dtype_name(v.dtype)}{list(v.shape)}" for v in values])
        raise CaptureError(f"capture: the body of {name}{at(caller(4))} gets {gets} and gives {described(frame)}")


def _branch(recorder: Any, name: str, fn: Callable, operands: Any, roots: dict, taken: bool) -> Frame:
    """A branch, captured. One that is not taken may raise for its data: it is tried with other numbers then."""
    frame = Frame(recorder, roots)
    try:
        return frame.run(lambda: fn(operands), name)
    except CaptureError:
        raise
    except Exception as error:
        if taken:
            raise
        given = [t._data for t in trees.flatten(operands)[0] if isinstance(t, TensorBase)]
        arrays = list({id(a): a for a in (*frame.arrays.values(), *given) if isinstance(a, Traced)}.values())
        return _with_stand_ins(name, Frame(recorder, roots), lambda: fn(operands), arrays, error)


def _with_stand_ins(name: str, frame: Frame, fn: Callable, arrays: list[Traced], error: Exception) -> Frame:
    """The same with numbers that most functions take, in the place of those for which it raised."""
    before = [(a, a.near) for a in arrays]
    try:
        for a, near in before:
            like = Value("input", near.shape, near.dtype)
            a.near = stand_in(like)
        return frame.run(fn, name)
    except CaptureError:
        raise
    except Exception:  # noqa: BLE001 (the numbers mean nothing)
        raise CaptureError(
            f"capture: {name}: the branch that is not taken raises {type(error).__name__} ({error}){_line(error)}, whatever its data are"
        ) from error
    finally:
        for a, near in before:
            a.near = near


def _line(error: BaseException) -> str:
    """Where in the program an error arose."""
    places = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(error.__traceback__)]
    found = [f" at {name}:{n}" for name, n in places if not name.startswith((_FERRO, "<"))]
    return found[-1] if found else ""


def _require_no_hooks(name: str) -> None:
    """CaptureError where saved tensors go into the hands of hooks, which do not know what a branch keeps."""
    if _mode.current().pack:
        raise CaptureError(
            f"capture: {name}{at(caller(4))} runs in a checkpoint, or under hooks of saved tensors; leave the checkpoint out of the capture"
        )


def _require_same(name: str, frames: list[Frame]) -> None:
    """CaptureError unless all branches give the same."""
    first = frames[0]
    kinds = [(v.shape, v.dtype) for v in first.outputs]
    for i, frame in enumerate(frames):
        if frame.structure != first.structure or [(v.shape, v.dtype) for v in frame.outputs] != kinds:
            raise CaptureError(
                f"capture: the branches of {name}{at(caller(3))} differ: 0 gives {described(first)}; {i} gives {described(frame)}"
            )


def _node(recorder: Any, name: str, index: Any, frames: list[Frame]) -> Any:
    """The results of the node of some branches."""
    free = list(dict.fromkeys([v for frame in frames for v in frame.free()]))
    if any(v in frame.free() for frame in frames for v in frame.outputs):
        raise CaptureError(
            f"capture: a branch of {name}{at(caller(4))} gives a tensor from outside; give a copy (clone())"
        )
    tensors = [tensor_of(frames, v) for v in free]
    graded = [history(t) is not None for t in tensors]
    ready = prepared([frame.graph(free, graded) for frame in frames])
    op = OPERATIONS[(DRAWING if any(frame.draws for frame in frames) else "") + name]
    xs = (index, *[t for t, n in zip(tensors, ready.repeats, strict=True) for _ in range(n)])
    made = list(backend.apply(op, xs, (ready.graphs, ready.repeats)))[: len(ready.graded)]
    for t, has in zip(made, ready.graded, strict=True):
        if not has:
            t._node = None
    return trees.unflatten(frames[0].structure, made)
