"""The recorder of the tape in machine code: it does what its fallback in Python does, and keeps nothing."""

from __future__ import annotations

import functools
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import apply as applying
from ferro.core import operands
from ferro.core.base import View
from ferro.core.node import MultiNode, Node, OutputRef
from ferro.core.op import OPS
from ferro.core.provenance import line_of
from ferro.native import recorder
from ferro.native.entries import fallback
from tests.configuration import with_machine_recorder

pytestmark = with_machine_recorder
FUNCTIONS = recorder.STANDING


def leaf(*shape: int) -> Any:
    return ferro.linspace(0.5, 2.0, int(ferro.ones(shape).numel())).reshape(shape).detach().requires_grad_()


def changed(*shape: int) -> Any:
    """A leaf that has been changed in place, so that nodes watch it."""
    x = leaf(*shape)
    with ferro.no_grad():
        x.mul_(1.5)
    return x


def detached(*shape: int) -> Any:
    with ferro.no_grad():
        return leaf(*shape) * 2


INPUTS: dict[str, Any] = {
    "leaf": lambda: leaf(2, 4),
    "changed leaf": lambda: changed(2, 4),
    "result": lambda: leaf(2, 4) * 3,
    "plain": lambda: leaf(2, 4).detach(),
    "detached": lambda: detached(2, 4),
    "view": lambda: (leaf(4, 2) * 2).t(),
    "plain view": lambda: leaf(4, 2).detach().t(),
    "pick": lambda: (leaf(4, 4) * 2).chunk(2)[1],
    "double": lambda: leaf(2, 4).detach().double().requires_grad_(),
    "parameter": lambda: ferro.nn.Parameter(leaf(2, 4).detach()),
}
# By the function of the tape: operation, inputs behind the first one, parameters.
CALLS: dict[str, tuple[str, str, Any]] = {
    "exp": ("unary", "exp", lambda x: (x,)),
    "neg": ("unary", "neg", lambda x: (x,)),
    "relu": ("unary", "relu", lambda x: (x,)),
    "sin": ("unary", "sin", lambda x: (x,)),
    "sum": ("unary", "sum", lambda x: (x, ((0,), False))),
    "softmax": ("unary", "softmax", lambda x: (x, (1,))),
    "add": ("binary", "add", lambda x: (x, x)),
    "mul": ("binary", "mul", lambda x: (x, leaf(4).to(x.dtype))),
    "mul by a number": ("binary", "mul", lambda x: (x, 2.5)),
    "number minus": ("binary", "sub", lambda x: (3, x)),
    "div": ("binary", "div", lambda x: (x, leaf(2, 4).to(x.dtype))),
    "maximum": ("binary", "maximum", lambda x: (leaf(2, 4).to(x.dtype), x)),
    "more than a number": ("binary", "gt", lambda x: (x, 1.25)),
    "equal": ("binary", "eq", lambda x: (leaf(2, 4).to(x.dtype), x)),
    "reshape": ("viewed", "reshape", lambda x: (x, ((8,),))),
    "transpose": ("viewed", "transpose", lambda x: (x, (0, 1))),
    "unbind": ("parted", "unbind", lambda x: (x, (0,))),
    "cat": ("joined", "cat", lambda x: ((x, leaf(2, 4).to(x.dtype), x), 1)),
    "where": ("apply", "where", lambda x: ((x > 1, x, leaf(2, 4).to(x.dtype)),)),
    "linear": ("apply", "linear", lambda x: ((x, leaf(3, 4).to(x.dtype), leaf(3).to(x.dtype)),)),
    "maxima": ("apply", "aminmax", lambda x: ((x,), (1, False))),
    "maximum and index": ("apply", "max", lambda x: ((x,), (1, False))),
    "layer_norm": ("apply", "layer_norm", lambda x: ((x, leaf(4).to(x.dtype), None), (1, 1e-5))),
}


def arguments_of(call: str, x: Any) -> tuple:
    function, name, make = CALLS[call]
    op = next(op for key, op in OPS.items() if key == name)
    return FUNCTIONS[function], (op, *make(x))


def described(value: Any, seen: dict[int, int]) -> Any:
    """All that a tensor or a node holds, numbered in the order of first sight where it is an object."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if isinstance(value, tuple):
        return tuple(described(v, seen) for v in value)
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Node):
        known = {name: described(getattr(value, name), seen) for name in ("edges", "saved", "shape")}
        known |= {
            "plan": (value.plan.op.name, value.plan.mask, value.plan is value.plan.op.plans[value.plan.mask]),
            "dtype": str(value.dtype),
            "meta": type(value.meta).__name__,
            "kind": type(value).__name__,
        }
        known["guards"] = None if value.meta is None else [g[1:] for g in value.meta.guards]
        known["line"] = None if value.location is None else (value.location[0].co_filename, line_of(value.location))
        if type(value) is MultiNode:
            known["outputs"] = str(value.outputs)
        return known
    if isinstance(value, OutputRef):
        return (described(value.node, seen), value.index, value.shape, str(value.dtype))
    if isinstance(value, ferro.Tensor):
        # A number beside a tensor is kept for the next use, so its version counter depends on who has used it before.
        kept = any(value is constant for constant in operands._constants.values())
        view = value._meta if isinstance(value._meta, View) else None
        about = None
        if view is not None:
            about = [described(getattr(view, n), seen) for n in ("base", "stamp", "tangent_stamp", "creation", "dual")]
            about += [bool(view.born), len(view.steps), [s[1:] for s in view.steps]]
            about += [type(view.under).__name__, type(view.detached).__name__]
            about += [view.location and (view.location[0].co_filename, line_of(view.location))]
        else:
            about = (type(value._meta).__name__, str(value._meta) if value._meta is not None else None)
        counter = value._counter
        history = described(value._node, seen) if isinstance(value._node, (Node, OutputRef)) else str(type(value._node))
        return (
            type(value).__name__,
            value.tolist(),
            str(value.dtype),
            history,
            about,
            None if kept else counter and counter.n,
        )
    return str(type(value))


def library(function: Any, arguments: tuple) -> Any:
    """A call as the functions of the library make it: that `apply` stands behind these, it takes for granted."""
    return function(*arguments)


library.__code__ = library.__code__.replace(co_filename=applying.__file__)


def outcome(function: Any, arguments: tuple, inputs: list) -> Any:
    found = library(function, arguments)
    return described(found, {id(x): k for k, x in enumerate(inputs)})


def test_every_version_in_machine_code_stands_before_its_function() -> None:
    assert set(FUNCTIONS) == {name for names in recorder.VERSIONS.values() for name in names}
    assert all(getattr(applying, name) is FUNCTIONS[name] for name in ("unary", "binary", "joined", "apply"))
    with pytest.raises(LookupError, match="arguments_of has no version in machine code"):
        recorder.accelerated(arguments_of)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("recording", [True, False])
def test_machine_code_leaves_what_python_leaves(call: str, kind: str, recording: bool) -> None:
    x = INPUTS[kind]()
    function, arguments = arguments_of(call, x)
    assert isinstance(function, BuiltinFunctionType)
    inputs = [v for group in arguments[1:] for v in (group if isinstance(group, tuple) else (group,))]
    inputs = [v for v in inputs if isinstance(v, ferro.Tensor)]
    with ferro.set_grad_enabled(recording):
        fallback(function)(*arguments)  # makes the plan and the version counter
        expected, found = [outcome(f, arguments, inputs) for f in (fallback(function), function)]
    assert found == expected


def report() -> dict[str, Any]:
    """What every call leaves in this process, who makes the calls, and who computes."""
    found = {}
    for call in CALLS:
        for kind, make in INPUTS.items():
            for recording in (True, False):
                x = make()
                function, arguments = arguments_of(call, x)
                with ferro.set_grad_enabled(recording):
                    library(function, arguments)  # makes the plan and the version counter
                    found[f"{call}, {kind}, {recording}"] = outcome(function, arguments, [x])
    tape = {name: type(function).__name__ for name, function in FUNCTIONS.items()}
    code = ferro.show_config("dicts")["machine code"]
    return {"found": found, "tape": tape, "entry": type(OPS["add"].direct).__name__, "code": code}


def reported(**settings: str) -> dict[str, Any]:
    """The report of a process of its own: what other tests have done to this one would be seen in it."""
    program = "import json, tests.core.test_recorder as t; print(json.dumps(t.report()))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **settings}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=250, check=True
    )
    return json.loads(done.stdout)


def test_a_switch_takes_off_the_recorder_alone() -> None:
    here, other = reported(), reported(FERRO_TAPE="python")
    assert set(other["tape"].values()) == {"function"}
    assert set(here["tape"].values()) == {"builtin_function_or_method"}
    assert other["entry"] == here["entry"] == "builtin_function_or_method"
    assert other["code"] == {**here["code"], "tape": "off: FERRO_TAPE=python"}
    assert other["found"] == here["found"]


def test_an_unknown_recorder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRO_TAPE", "mchine")
    with pytest.raises(ValueError, match="FERRO_TAPE is 'mchine'; it may be 'machine' or 'python'"):
        recorder._is_wanted()


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("call", CALLS)
def test_machine_code_answers(call: str, kind: str) -> None:
    if call == "reshape" and kind in ("view", "plain view"):
        pytest.skip("this one has to be copied, which is left to Python")
    function, arguments = arguments_of(call, INPUTS[kind]())
    function(*arguments)  # the plan of an operation is made by Python
    codes, met = {fallback(f).__code__ for f in FUNCTIONS.values()}, []

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            met.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    assert not met


@functools.cache
def _dot_gives_dtypes_back() -> bool:
    """Whether NumPy's own dot leaves the count of a dtype alone: with Python 3.12, that of NumPy 2.5 adds one a call."""
    a = np.ones((2, 2), np.float32)
    before = sys.getrefcount(a.dtype)
    for _ in range(100):
        np.dot(a, a)
    return sys.getrefcount(a.dtype) - before < 50


@pytest.mark.parametrize("kind", ["leaf", "changed leaf", "detached", "view", "pick"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("recording", [True, False])
def test_nothing_is_kept_or_given_away(call: str, kind: str, recording: bool) -> None:
    x = INPUTS[kind]()
    function, arguments = arguments_of(call, x)
    watched = [x, arguments[0], arguments, ferro.Tensor, Node, x._data, *arguments[1:]]
    if _dot_gives_dtypes_back():
        watched.append(x._data.dtype)

    def repeat(times: int) -> None:
        with ferro.set_grad_enabled(recording):
            for _ in range(times):
                function(*arguments)

    repeat(60)
    gc.collect()
    counts, blocks = [sys.getrefcount(v) for v in watched], sys.getallocatedblocks()
    repeat(200)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 100  # one lost object per call would be 200
    assert [sys.getrefcount(v) for v in watched] == counts


@pytest.mark.parametrize(
    "call",
    [
        *("exp", "softmax", "mul by a number", "more than a number", "cat", "where", "layer_norm", "maxima"),
        *("maximum and index", "transpose", "unbind"),
    ],
)
@pytest.mark.parametrize("recording", [True, False])
def test_what_cannot_be_made_takes_nothing_with_it(call: str, recording: bool) -> None:
    testing = pytest.importorskip("_testcapi", reason="this Python cannot be told to have no memory")
    x = changed(2, 4)
    function, arguments = arguments_of(call, x)
    if sys.version_info[:2] != (3, 11) or type(OPS["add"].direct) is not BuiltinFunctionType:
        pytest.skip(
            "functions of Python and NumPy lose objects themselves where memory is short, other ones in each version"
        )
    watched = [x, x._data, x._counter, *arguments, ferro.Tensor, Node, MultiNode, OutputRef, View]

    def short_of(allocation: int) -> bool:
        """Whether a call fails that gets no memory when it asks for the time of that number."""
        testing.set_nomemory(allocation, allocation + 1)
        try:
            function(*arguments)
        except (MemoryError, SystemError):  # (the second one is NumPy's)
            return True
        finally:
            testing.remove_mem_hooks()
        return False

    with ferro.set_grad_enabled(recording):
        function(*arguments)  # the plan of an operation is made by Python
        for allocation in range(
            call == "unbind", 60
        ):  # (the first view of an array that NumPy cannot make keeps the array)
            counts, blocks = [sys.getrefcount(v) for v in watched], sys.getallocatedblocks()
            failed = [short_of(allocation) for _ in range(40)]
            assert sys.getallocatedblocks() - blocks < 20  # one lost object per call would be 40
            assert [sys.getrefcount(v) for v in watched] == counts
            if not any(failed):
                break
    assert 1 < allocation < 59


def test_none_and_true_keep_their_count_of_references() -> None:
    x = leaf(2, 4)
    before = sys.getrefcount(None), sys.getrefcount(True)
    for _ in range(2000):
        (x * 2).reshape(8).exp().chunk(2)
        x.max(1)
        ferro.nn.functional.linear(x, x)
    assert abs(sys.getrefcount(None) - before[0]) < 200
    assert abs(sys.getrefcount(True) - before[1]) < 200


def test_what_is_no_plain_tensor_goes_to_python() -> None:
    x = leaf(2, 4)
    assert (x.half() + x.half()).dtype is ferro.float16
    assert (ferro.arange(3) + 1).tolist() == [1, 2, 3]
    assert (ferro.nn.Buffer(ferro.tensor([1.0, 2.0])) * 2).tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match=r"shapes \[2, 4\] and \[3\] cannot be broadcast"):
        x + leaf(3)
    with pytest.raises(TypeError):
        x + "text"


def test_modes_are_seen() -> None:
    x = leaf(2, 4)
    with ferro.inference_mode():
        assert (x + 1).is_inference()
    with ferro.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert (x * x).grad_fn is not None
    assert (x * x).grad_fn is not None


@pytest.mark.parametrize("call", ["exp", "add", "linear", "cat", "reshape", "unbind"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_is_not_swallowed(call: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    function, (op, *rest) = arguments_of(call, leaf(2, 4))
    calls = []

    def broken(*_: Any) -> Any:
        calls.append(1)
        raise kind("stop")

    for slot in ("direct", "viewing"):
        if getattr(op, slot) is not None:
            monkeypatch.setattr(op, slot, broken)
    with pytest.raises(kind, match="stop"):
        function(op, *rest)
    assert len(calls) == 1
