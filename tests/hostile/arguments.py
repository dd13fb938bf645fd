"""Hostile cases: odd arrays, odd numbers, wrong dtypes, shapes and dimensions, for everything that is public."""

from __future__ import annotations

import mmap
import resource
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ferro
from tests.hostile.calls import Call, calls, filled, places
from tests.hostile.child import Options, Raised, note, outcome
from tests.hostile.failures import numbers

SHARE = 4  # in the short form one of so many odd things is tried with each function
MEMORY = 3 << 30  # bytes of addresses: what asks for more gets a MemoryError, not the machine


class Odd(np.ndarray):
    """A subclass of arrays."""


class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


class Pair(tuple):
    """A subclass of tuple."""

    __slots__ = ()


class Liar:
    """Says that it is a number, and raises when it is asked for it."""

    def __index__(self) -> int:
        raise KeyError("__index__")

    __int__ = __index__

    def __float__(self) -> float:
        raise KeyError("__float__")

    def __eq__(self, other: object) -> bool:
        raise KeyError("__eq__")

    def __hash__(self) -> int:
        raise KeyError("__hash__")

    def __len__(self) -> int:
        return -5

    def __bool__(self) -> bool:
        raise KeyError("__bool__")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self


def layouts(a: np.ndarray) -> Iterator[tuple[str, Callable]]:
    """Arrays of the same values that lie otherwise in memory: whatever takes them must give the same numbers."""
    back = (slice(None, None, -1),) * a.ndim
    yield "in Fortran's order", lambda: np.array(a, order="F")
    yield "backwards", lambda: a[back].copy()[back]
    yield "every third element", lambda: spread(a)
    yield "misaligned", lambda: misaligned(a)
    yield "read-only", lambda: fixed(a)
    yield "a subclass", lambda: a.copy().view(Odd)
    yield "in a map of memory", lambda: mapped(a)
    yield "with unit strides of nothing", lambda: strided(a.copy())


def strided(a: np.ndarray) -> np.ndarray:
    """The same memory, with meaningless strides where there is one element."""
    strides = tuple(s if n != 1 else 12345 for n, s in zip(a.shape, a.strides, strict=True))
    return np.lib.stride_tricks.as_strided(a, a.shape, strides)


def spread(a: np.ndarray) -> np.ndarray:
    wide = np.zeros(tuple(3 * n for n in a.shape), a.dtype)
    wide[(slice(None, None, 3),) * a.ndim] = a
    return wide[(slice(None, None, 3),) * a.ndim]


def misaligned(a: np.ndarray) -> np.ndarray:
    memory = np.zeros(a.nbytes + 1, np.uint8)[1:]
    found = memory.view(a.dtype).reshape(a.shape)
    found[...] = a
    return found


def fixed(a: np.ndarray) -> np.ndarray:
    found = a.copy()
    found.flags.writeable = False
    return found


def mapped(a: np.ndarray) -> np.ndarray:
    found = np.frombuffer(mmap.mmap(-1, max(a.nbytes, 1)), a.dtype, a.size).reshape(a.shape)
    found[...] = a
    return found


def odd_arrays() -> dict[str, Callable]:
    """Arrays that do not belong here."""
    return {
        "empty": lambda: np.empty((0,), "f4"),
        "empty, three dimensions": lambda: np.empty((3, 0, 2), "f4"),
        "0-d": lambda: np.array(1.5, "f4"),
        "zero strides": lambda: np.broadcast_to(np.float32(2), (4, 3)),
        "overlapping": lambda: np.lib.stride_tricks.as_strided(np.arange(6, dtype="f4"), (4, 3), (4, 4)),
        "swapped bytes": lambda: np.arange(6, dtype=">f4").reshape(2, 3),
        "objects": lambda: np.array([1.0, None], dtype=object),
        "text": lambda: np.array(["a", "b"]),
        "records": lambda: np.zeros(2, [("a", "f4")]),
        "long doubles": lambda: np.ones(3, "g"),
        "halves": lambda: np.ones(3, "f2"),
        "dates": lambda: np.zeros(2, "M8[s]"),
        "complex numbers": lambda: np.ones((2, 3), "c8"),
        "booleans": lambda: np.ones((2, 3), bool),
        "unsigned": lambda: np.ones((2, 3), "u8"),
        "matrix": lambda: np.matrix([[1.0, 2.0]]),
        "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        "sixty-four dimensions": lambda: np.ones((1,) * 64, "f4"),
        "negative integers": lambda: -np.ones((2, 3), "i8"),
        "large integers": lambda: np.full((2, 3), 2**62),
        "nan": lambda: np.full((2, 3), np.nan, "f4"),
        "inf": lambda: np.full((2, 3), np.inf, "f4"),
        "minus inf": lambda: np.full((2, 3), -np.inf),
    }


def odd_objects() -> dict[str, Any]:
    """What stands where something else should."""
    return {
        "None": None,
        "2**70": 2**70,
        "-2**70": -(2**70),
        "2**63": 2**63,
        "2**31": 2**31,
        "-1": -1,
        "0": 0,
        "True": True,
        "1.5": 1.5,
        "nan": float("nan"),
        "inf": float("inf"),
        "1j": 1j,
        "text": "text",
        "": "",
        "bytes": b"bytes",
        "()": (),
        "[]": [],
        "{}": {},
        "[[]]": [[]],
        "(None,)": (None,),
        "(2**70,)": (2**70,),
        "(-1, -1)": (-1, -1),
        "(0, 0, 0)": (0, 0, 0),
        "seventy ones": (1,) * 70,
        "int64": np.int64(1),
        "float32": np.float32(1),
        "float64": np.float64(1),
        "bool": np.bool_(True),
        "uint8": np.uint8(255),
        "float16": np.float16(1),
        "complex64": np.complex64(1),
        "0-d array": np.array(1),
        "Whole": Whole(1),
        "Real": Real(1.0),
        "Pair": Pair((1, 1)),
        "Size": ferro.Size((1, 1)),
        "Liar": Liar(),
        "object": object(),
        "type": int,
        "function": len,
        "slice": slice(None),
        "Ellipsis": ...,
        "range": range(2),
        "generator": (k for k in ()),
        "dtype": ferro.int8,
        "NumPy's dtype": np.dtype("f4"),
        "set": {1},
        "NotImplemented": NotImplemented,
        "a 0-d tensor": ferro.tensor(1),
        "a tensor": ferro.ones(2, 3),
        "complex tensor": ferro.ones(2, dtype=ferro.complex64),
    }


def limited() -> None:
    """Give this process so much memory and no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def laid_out(call: Call) -> None:
    """The same values in other layouts: the same numbers, or the same refusal."""
    arrays = call.arrays()
    text = f"ferro.{call.path} with {call.sample}"
    ferro.manual_seed(0)
    want = outcome(text, call.run, [ferro.from_numpy(a.copy()) for a in arrays])
    if isinstance(want, Raised):
        return
    ways = [list(layouts(a)) for a in arrays]
    for k in range(len(ways[0])):
        name = ways[0][k][0]
        tensors = outcome(f"ferro.from_numpy, {name}", lambda k=k: [ferro.from_numpy(w[k][1]()) for w in ways])
        if isinstance(tensors, Raised):
            continue
        ferro.manual_seed(0)
        got = outcome(f"{text}, arrays {name}", call.run, tensors)
        alike(f"{text}, arrays {name}", call.path, got, want)


# What tells of memory itself, or of nothing at all, or draws numbers, which fill a tensor in the order of its memory.
TELLING = (
    "data_ptr",
    "stride",
    "storage_offset",
    "is_contiguous",
    "empty",
    "as_strided",
    "hash",
    "sizeof",
    "resize",
    "set_",
    "dlpack",
    "rand",
    "normal",
    "dropout",
    "rrelu",
    "bernoulli",
    "uniform",
    "cauchy",
    "exponential",
    "geometric",
    "poisson",
    "binomial",
    "multinomial",
    "gamma",
    "dirichlet",
    "gumbel",
)


def alike(text: str, path: str, got: Any, want: Any) -> None:
    """Fail if a layout has changed the numbers."""
    if any(word in path for word in TELLING) or isinstance(got, Raised):
        return
    a, b = numbers(got), numbers(want)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind in "fc":
        assert a.shape == b.shape, f"{text}: shape {a.shape} instead of {b.shape}"
        assert np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True), f"{text}: {a} instead of {b}"


def picked(text: str, share: int) -> bool:
    """Whether a case is one of those that stand for `share` of them: the same ones in every process."""
    return share == 1 or zlib.crc32(text.encode()) % share == 0


def odd_tensors(call: Call, share: int) -> None:
    """Tensors of odd arrays in the place of each tensor; and the arrays themselves. One of `share` is tried."""
    limited()
    fine = [ferro.from_numpy(a) for a in call.arrays()]
    for name, make in odd_arrays().items():
        for wrap in (ferro.from_numpy, ferro.tensor, np.asarray):
            if not picked(f"{call.path}{call.sample}: {wrap.__name__} of {name}", share):
                continue
            thing = outcome(f"{wrap.__name__} of an array: {name}", lambda wrap=wrap, make=make: wrap(make()))
            if isinstance(thing, Raised):
                continue
            for k in range(len(fine)):
                outcome(
                    f"ferro.{call.path} with {call.sample}, tensor {k}: {wrap.__name__} of {name}",
                    call.run,
                    [*fine[:k], thing, *fine[k + 1 :]],
                )
            outcome(
                f"ferro.{call.path} with {call.sample}, all tensors: {wrap.__name__} of {name}",
                call.run,
                [thing] * len(fine),
            )


def odd_numbers(call: Call, share: int) -> None:
    """An odd thing in the place of each argument. One of `share` is tried."""
    limited()
    left = iter([ferro.from_numpy(a) for a in call.arrays()])
    args = [filled(a, left) for a in call.sample.args]
    kwargs = {k: filled(v, left) for k, v in call.sample.kwargs.items()}
    for name, thing in odd_objects().items():
        if not picked(f"{call.path}{call.sample}: {name}", share):
            continue
        for k in range(len(args)):
            outcome(
                f"ferro.{call.path} with {call.sample}, argument {k}: {name}",
                call.function,
                *args[:k],
                thing,
                *args[k + 1 :],
                **kwargs,
            )
        for k in kwargs:
            outcome(f"ferro.{call.path} with {call.sample}, {k}={name}", call.function, *args, **{**kwargs, k: thing})
        outcome(
            f"ferro.{call.path} with {call.sample}, one more argument: {name}", call.function, *args, thing, **kwargs
        )
    outcome(f"ferro.{call.path}()", call.function)


def resized() -> None:
    """Arrays whose shape, dtype, strides or memory change while a tensor holds them."""
    for text, change in {
        "a.shape = (3, 2)": lambda a: setattr(a, "shape", (3, 2)),
        "a.dtype = 'i4'": lambda a: setattr(a, "dtype", "i4"),
        "a.dtype = 'f2'": lambda a: setattr(a, "dtype", "f2"),
        "a.strides = (0, 0)": lambda a: setattr(a, "strides", (0, 0)),
        "a.resize(50, 50)": lambda a: a.resize((50, 50), refcheck=False),
        "a.resize(0)": lambda a: a.resize(0, refcheck=False),
        "a.setflags(write=False)": lambda a: a.setflags(write=False),
    }.items():
        if "resize" in text:
            continue  # (refcheck=False is a promise to NumPy that nobody else holds the array)
        for make in (ferro.from_numpy, ferro.tensor, ferro.as_tensor):
            a = np.ones((2, 3), "f4")
            x = make(a).requires_grad_()
            y = x.exp()
            note(f"{make.__name__}: {text}")
            change(a)
            for f in (
                lambda x: x + x,
                lambda x: x.sin(),
                lambda x: x.view(6),
                lambda x: x.unbind(),
                repr,
                lambda x, y=y: (y * x).sum().backward(),
            ):
                got = outcome(f"{make.__name__}, then {text}", f, x)
                del got
            assert tuple(x.shape) == (2, 3), f"{make.__name__}, then {text}: the tensor has the shape {x.shape}"
            assert x.dtype is ferro.float32, f"{make.__name__}, then {text}: the tensor has the dtype {x.dtype}"


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases."""
    yield "arrays that change under a tensor", resized
    share = 1 if options.long else SHARE
    for call in calls(1000 if options.long else 1, methods=options.long):
        text = f"ferro.{call.path}{call.sample}"
        if places(call.sample):
            yield f"{text}: layouts", lambda call=call: laid_out(call)
            yield f"{text}: odd arrays", lambda call=call: odd_tensors(call, share)
        yield f"{text}: odd objects", lambda call=call: odd_numbers(call, share)
