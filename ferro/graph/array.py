"""Traced arrays: NumPy arrays that note what is computed of them while a graph is captured.

Note [Traced arrays].  They are a backend (Note [Backends] in core/backend.py), so a formula, the engine and NumPy's
protocols come to them as they come to any other arrays. Each holds a real array and computes with it, by the function
that eager calls, so shapes, dtypes and layouts are exact. What would read a number raises: Python cannot decide by it
unseen. While an operation is applied, its inner steps are not noted, only the operation (`Functions.whole`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import SERVING
from ferro.core import backend
from ferro.core.op import Op
from ferro.core.plan import argument_names, kind_of
from ferro.core.saved_values import saved_arrays
from ferro.graph.draws import DRAWS
from ferro.graph.functions import (
    ARRAY,
    BINARY,
    CHECKS,
    COMPARED,
    FUNCTIONS,
    METHODS,
    PARTS,
    UNARY,
    eager,
    gradient,
    resolved,
)
from ferro.graph.there import device_name, forward_of, shares


class Traced:
    """See Note [Traced arrays]. `value` is None until a node reads it; `content` is the value that was written into all of it last, `before` what
    that was before a write into a part of it.
    """

    __slots__ = ("before", "content", "near", "recorder", "value")
    __hash__ = object.__hash__

    def __init__(self, near: Any, recorder: Any, value: Any = None) -> None:
        self.near, self.recorder, self.value = near, recorder, value
        self.content: Any = None
        self.before: Any = None

    stands_for_host = True  # see backend.is_host; False of those that stand for arrays of a device
    shape = property(lambda self: self.near.shape)
    dtype = property(lambda self: self.near.dtype)
    ndim = property(lambda self: self.near.ndim)
    size = property(lambda self: self.near.size)
    itemsize = property(lambda self: self.near.itemsize)
    nbytes = property(lambda self: self.near.nbytes)
    flags = property(lambda self: self.near.flags)
    strides = property(lambda self: self.near.strides)
    ctypes = property(lambda self: self.near.ctypes)
    base = property(lambda self: None if self.near.base is None else True)  # (whose, only `may_share_memory` says)

    def geometry(self) -> tuple:
        """Shape, strides and offset in the storage, in elements."""
        return cpu.geometry(self.near)

    def storage_bytes(self) -> int:
        """Bytes of the storage."""
        return cpu.storage_bytes(self.near)

    def __len__(self) -> int:
        return len(self.near)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.near)))

    def __repr__(self) -> str:
        return f"Traced(shape={list(self.shape)}, dtype={self.dtype})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(type(self.near), name):
            raise AttributeError(name)
        self.recorder.refuse(f"the method {name}() of arrays is called outside of an operation")
        return getattr(self.near, name)

    def __getitem__(self, key: Any) -> Any:
        return called("array.getitem", ARRAY["getitem"], self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        called("array.setitem", ARRAY["setitem"], self, key, value)

    def fill(self, value: Any) -> None:
        """Writes a number everywhere."""
        called("array.fill", ARRAY["fill"], self, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            self.recorder.refuse(f"numpy.{ufunc.__name__}{'' if method == '__call__' else f'.{method}'} with options")
            return getattr(ufunc, method)(*_near(args), **{k: _near(v) for k, v in kwargs.items()})
        return called(f"numpy.{ufunc.__name__}", ufunc, *args)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if function in _OF_SHAPES:
            return function(*_near(args), **kwargs)
        if function is np.copyto and isinstance(args[0], Traced) and kwargs == {"casting": "unsafe"}:
            return called("xp.write_", cpu.write_, *args)
        if function.__name__ in FUNCTIONS and getattr(np, function.__name__) is function:
            return called(f"numpy.{function.__name__}", function, *args, **kwargs)
        self.recorder.refuse(f"numpy.{function.__name__} is called outside of an operation")
        return function(*_near(args), **{k: _near(v) for k, v in kwargs.items()})


_OF_SHAPES = (
    np.may_share_memory,
    np.shares_memory,
    np.result_type,
    np.can_cast,
    np.shape,
    np.ndim,
    np.size,
    np.iscomplexobj,
    np.empty_like,
    np.zeros_like,
    np.ones_like,
)


def _near(arg: Any) -> Any:
    """Arguments with the real arrays in the place of traced ones."""
    kind = type(arg)
    if issubclass(kind, Traced):
        return arg.near
    if kind is tuple or kind is list:
        return kind([_near(a) for a in arg])
    if kind is slice:
        return slice(_near(arg.start), _near(arg.stop), _near(arg.step))
    return arg


def traced_in(arg: Any) -> Traced | None:
    """A traced array among arguments."""
    kind = type(arg)
    if issubclass(kind, Traced):
        return arg
    if kind is slice:
        return traced_in((arg.start, arg.stop, arg.step))
    if kind is tuple or kind is list:
        for a in arg:
            found = traced_in(a)
            if found is not None:  # (a traced array has no truth)
                return found
    return None


def called(name: str, function: Any, *args: Any, itself: bool = True, **kwargs: Any) -> Any:
    """Calls a function of arrays, and notes the call if some are traced.

    itself: what is given back as it was given is that traced array again, and there is nothing to note.
    """
    some = traced_in((*args, *kwargs.values()))
    if some is None:
        return function(*args, **kwargs)
    return noted(some.recorder, name, function, args, kwargs, itself, some)


def noted(
    recorder: Any, name: str, function: Any, args: tuple, kwargs: dict, itself: bool = True, some: Traced | None = None
) -> Any:
    """The same for a recorder that is known; `some` is a traced array among the arguments."""
    near, more = _near(args), {k: _near(v) for k, v in kwargs.items()}
    if some is not None and not some.stands_for_host and name.startswith(("array.", "numpy.")):
        function = resolved(name, device_name(some.near))
    if not recorder.notes():
        return function(*near, **more)  # (another thread's)
    recorder.before(name, some, near)
    # As in a replay; an operation that NumPy warns of would be called anew, by its steps.
    outlined = getattr(function, "outlined", None) if recorder.stands_in else None
    thread, recorder.thread = recorder.thread, None  # (a branch that runs draws no numbers for the capture)
    try:
        with np.errstate(all="ignore"):
            found = (outlined or function)(*near, **more)
    finally:
        recorder.thread = thread
    for a in args if itself else ():
        if isinstance(a, Traced) and a.near is found:
            return a
    result = recorder.note(name, args, kwargs, found)
    for a, n in zip(args, near, strict=True):
        if type(a) is list and len(a) != len(n):  # results that the function hands out through an argument
            a[:] = [next(t for t in result if isinstance(t, Traced) and t.near is array) for array in n]
    return result


def _method(name: str) -> Any:
    function = ARRAY[name]
    return lambda *args, **kwargs: called(f"array.{name}", function, *args, **kwargs)


def _reflected(name: str) -> Any:
    function = ARRAY[name]
    return lambda x, y: called(f"array.{name}", function, y, x)


def _number(name: str) -> Any:
    """A method that gives numbers, which would be baked in: it raises, or ends the capture; see Recorder.end."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        self.recorder.refuse_number(self)
        return getattr(self.near, name)(*args, **kwargs)

    return method


for _name in (
    "item",
    "tolist",
    "tobytes",
    *(f"__{n}__" for n in ("float", "int", "complex", "index", "bool", "array")),
):
    setattr(Traced, _name, _number(_name))
for _name in (*BINARY, *COMPARED, *UNARY):
    setattr(Traced, f"__{_name}__", _method(_name))
for _name in BINARY:
    setattr(Traced, f"__r{_name}__", _reflected(_name))
for _name in METHODS:
    setattr(Traced, _name, _method(_name))
for _name in PARTS:
    setattr(Traced, _name, property(_method(_name)))


def _formula(plan: Any, by: str) -> Any:
    op = plan.op
    names = argument_names(op.formulas[by])[2:]
    entries = [(kind_of(op, n), plan.names.index(n)) for n in names]
    function = gradient(op, by)
    return lambda xp, g, node: called(f"gradient.{op.name}.{by}", function, g, *saved_arrays(node, entries, ()))


class Drawing:
    """The stream of a generator for the thread that captures: what it draws is noted; see draws.py."""

    def __init__(self, recorder: Any, held: Any, stream: Any) -> None:
        self._recorder, self._held, self._stream = recorder, held, stream

    FAST = property(lambda self: self._stream.FAST)
    STATE_BYTES = property(lambda self: self._stream.STATE_BYTES)

    def __getattr__(self, name: str) -> Any:
        if name not in DRAWS:
            raise AttributeError(name)
        method = getattr(self._stream, name)

        def draw(*args: Any, **kwargs: Any) -> Any:
            return noted(
                self._recorder, f"random.{name}", lambda _, *a, **k: method(*a, **k), (self._held, *args), kwargs
            )

        return draw

    def state(self, seed: int) -> Any:
        """The state of the generator."""
        return noted(self._recorder, "random.get_state", lambda _: self._stream.state(seed), (self._held,), {})

    def continue_from(self, state: Any) -> int:
        """Continues from a state; returns its seed."""
        seeds: list[int] = []

        def function(_: Any, state: Any) -> None:
            seeds.append(self._stream.continue_from(state))

        noted(self._recorder, "random.set_state", function, (self._held, state), {})
        return seeds[0]


class Functions:
    """The module of functions of traced arrays: those of ferro.cpu, or of the backend of a device, each noted as a node."""

    stands_for_host = True
    # Formulas inside formulas are noted step by step: only what has a name can be found again by a replay.
    _STEPS = frozenset(("once", "in_one_pass"))

    def __init__(self, module: Any = cpu, device: str = "") -> None:
        self.module, self.place = module, device
        if device:
            self.device, self.index = device, getattr(module, "index", None)

    def whole(self, op: Op) -> Any:
        """An operation as one node."""
        function = eager(op) if self.module is cpu else forward_of(op, self.module)
        return lambda *args: called(op.name, function, *args, itself=False)

    def large_formulas(self, plan: Any) -> tuple:
        """The formulas of a plan, each as one node; on a device their steps."""
        if self.module is not cpu:
            return plan.formulas
        return tuple([_formula(plan, plan.op.inputs[i]) for i in plan.indices])

    def elementwise(self, function: Any, *values: Any) -> Any:
        """An elementwise function as one node."""
        return called(f"elementwise.{function.__name__}", partial(self.module.elementwise, function), *values)

    @staticmethod
    def may_share_memory(x: Any, y: Any) -> bool:
        """Whether two arrays may show the same memory: for the same layouts the same in every call."""
        return shares(_near(x), _near(y))

    def is_within(self, index: Any, low: int, high: int) -> bool:
        """A check of the data, which every replay makes again."""
        called("check.is_within", resolved("check.is_within", self.place), index, low, high)
        return True

    @staticmethod
    def require(condition: Any, kind: str, message: str) -> None:
        """A condition of the data, which every replay asks again."""
        called("check.holds", CHECKS["holds"], condition, kind, message)

    @staticmethod
    def warned(condition: Any, message: str) -> None:
        """What is warned of if the data are so: every replay asks again."""
        called("check.warns", CHECKS["warns"], condition, message)

    @staticmethod
    def require_accepted(name: str, info: Any, message: str, kind: str) -> None:
        """What LAPACK says of matrices, which every replay asks again."""
        called("check.accepted", CHECKS["accepted"], name, info, message, kind)

    @staticmethod
    def fixed(array: Any) -> list:
        """Numbers by which arrays are divided: every replay asks whether they are the same."""
        numbers = backend.on_host(array.near).tolist()
        called("check.equals", CHECKS["equals"], array, *numbers)
        return numbers

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in dir(self.module) if n not in self._STEPS)})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._STEPS or name in ("place", "module") or not hasattr(self.module, name):
            raise AttributeError(name)
        found = getattr(self.module, name)
        function = partial(called, f"xp.{name}", found) if callable(found) else found
        setattr(self, name, function)
        return function


functions = Functions()
backend.register(Traced, functions)

# -------------------------------------------------------------------- arrays of devices

_THERE: dict[
    type, tuple[type, FunctionsThere]
] = {}  # by the type of arrays: the class of what stands for them, and its functions


class FunctionsThere(Functions):
    """The same of a device."""

    stands_for_host = False

    def from_host(self, array: Any) -> Any:
        """A number of the processor's, which is brought along where it meets arrays of the device."""
        if isinstance(array, Traced):
            return called("xp.from_host", self.module.from_host, array)
        return self.module.from_host(array)

    def to_host(self, array: Any) -> Any:
        """Numbers are asked for."""
        array.recorder.refuse_number(array)
        return self.module.to_host(array.near)

    def address(self, array: Any) -> int:
        """Where the elements of an array begin."""
        return self.module.address(array.near)


def _there(kind: type) -> tuple[type, FunctionsThere]:
    """What stands for arrays of a type of a device; see Note [Graphs of a device] in there.py."""
    found = _THERE.get(kind)
    if found is None:
        module = SERVING[kind]
        made = type("TracedThere", (Traced,), {"__slots__": (), "stands_for_host": False, "__array_priority__": 1000})
        found = _THERE[kind] = made, FunctionsThere(module, module.device)
        backend.enter(made, found[1])
    return found


def traced(near: Any, recorder: Any, value: Any = None) -> Traced:
    """What stands for an array while a graph is captured."""
    kind = Traced if isinstance(near, backend.HOST) else _there(type(near))[0]
    return kind(near, recorder, value)


def functions_of(device: str) -> Functions:
    """The functions of traced arrays on a device; empty for the CPU."""
    if not device:
        return functions
    kind = next(kind for kind, module in SERVING.items() if module.device == device)
    return _there(kind)[1]
