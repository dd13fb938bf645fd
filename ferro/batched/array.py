"""Batched: what stands for every slice of an array at once while a function runs under vmap.

Note [Batched arrays].  A `Batched` has the shape of one slice; its `physical` array has the dimension of the batch in
front of that.  Where vmaps are nested, `physical` is Batched itself; the level with the greatest number is outermost, so
that two arrays agree on the order of their levels however they came about.  Views of a Batched share its memory, since
they are made as views of `physical`.  Arrays of a device may be batched as NumPy's are: `by` then calls the function of their
library that has the name of NumPy's.  NumPy's functions and ufuncs find their way here by NumPy's own protocols
(``__array_ufunc__``, ``__array_function__``), and what NumPy would have to read as plain numbers raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ferro.batched.levels import Level
from ferro.cpu.shape import geometry, reach

ALL = slice(None)
# By types of arrays that lie on devices: the library that has NumPy's names for them, and their functions in place of `ferro.cpu`.
LIBRARIES: dict[type, Any] = {}
SERVING: dict[type, Any] = {}

ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to "
    "rewrite what you're doing with other operations. (A number is asked for, and every slice of the batch has another.)"
)
CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please "
    "shout over at https://github.com/pytorch/functorch/issues/257 . (Every slice of the batch may decide otherwise; use "
    "where() instead.)"
)
IN_PLACE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more "
    "elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try "
    "to use out-of-place operators instead of inplace arithmetic. If said operator is being called inside the PyTorch framework, "
    "please file a bug report instead."
)
DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Here the shape of the result depends on the data ({}): "
    "This operation has data-dependent output shape and is not supported inside of vmap; every slice of the batch may have another. "
    "Compute with masks of a fixed shape instead."
)


class NotPlain(RuntimeError):
    """A batched array was used where the numbers of one array are needed."""


def batch(physical: Any, level: Level) -> Any:
    """The Batched of `level` whose slices lie along the first dimension of `physical`."""
    if type(physical) is Batched and physical.level.number > level.number:
        return Batched(batch(physical.physical.swapaxes(0, 1), level), physical.level)
    return Batched(physical, level)


class Batched:
    """See Note [Batched arrays]."""

    __slots__ = ("level", "physical")
    __array_priority__ = 1000  # (CuPy's arrays leave operators to what has more than their 100)

    def __init__(self, physical: Any, level: Level) -> None:
        self.physical, self.level = physical, level

    # -- what the array is ---------------------------------------------------------------------------------------------

    shape = property(lambda self: self.physical.shape[1:], doc="The shape of one slice.")
    dtype = property(lambda self: self.physical.dtype, doc="The dtype.")
    ndim = property(lambda self: self.physical.ndim - 1, doc="The number of dimensions of one slice.")
    strides = property(lambda self: self.physical.strides[1:], doc="The steps in memory of one slice, in bytes.")
    itemsize = property(lambda self: self.physical.itemsize, doc="Bytes of an element.")
    base = None

    @property
    def size(self) -> int:
        """The number of elements of one slice."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of one slice."""
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        """NumPy's flags of a slice."""
        return (self.physical[0, ...] if self.level.size else self.physical).flags

    @property
    def ctypes(self) -> Any:
        """NumPy's view of the memory for C; the address is that of the whole batch."""
        return self.physical.ctypes

    @property
    def T(self) -> Any:
        """The dimensions of each slice in reverse order."""
        return self.transpose()

    def geometry(self) -> tuple:
        """Shape, strides and offset of the first slice, counted in elements, as if it began at its storage."""
        shape, strides, _ = geometry(self.physical[0, ...] if self.level.size else self.physical)
        return (shape, strides, 0) if self.level.size else (self.shape, strides[1:], 0)

    def storage_bytes(self) -> int:
        """Bytes of the storage of a slice that is as short as can be."""
        _, strides, _ = self.geometry()
        return reach(self.shape, strides, 0) * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Batched({self.physical!r}, {self.level!r})"

    # -- what it is not: one array of numbers --------------------------------------------------------------------------

    def item(self, *args: Any) -> NoReturn:
        """Raises: there are as many numbers as slices."""
        raise NotPlain(ITEM)

    tolist = __float__ = __int__ = __complex__ = __index__ = tobytes = item

    def __bool__(self) -> NoReturn:
        raise NotPlain(CONTROL_FLOW)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotPlain(
            "vmap: this operation reads the numbers of a tensor outside of what can be batched (as .numpy() and .tolist() do); in a "
            "function under vmap the tensor stands for every slice of the batch at once. Call it outside of vmap."
        )

    # -- NumPy's protocols, operators, methods -------------------------------------------------------------------------

    __array_ufunc__: Any  # these three are given by protocol.py
    __array_function__: Any
    __getattr__: Any
    __getitem__: Any  # and these by indexing.py
    __setitem__: Any
    __hash__ = object.__hash__


def _operators() -> None:
    """Gives Batched Python's operators, which are NumPy's ufuncs."""
    binary = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "truediv": np.true_divide,
        "floordiv": np.floor_divide,
        "mod": np.remainder,
        "pow": np.power,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "lshift": np.left_shift,
        "rshift": np.right_shift,
        "matmul": np.matmul,
    }
    compare = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for name, f in binary.items():
        setattr(Batched, f"__{name}__", lambda x, y, f=f: by(f, x, y))
        setattr(Batched, f"__r{name}__", lambda x, y, f=f: by(f, y, x))
        if f is not np.matmul:
            setattr(Batched, f"__i{name}__", lambda x, y, f=f: by(f, x, y, out=(x,)))
    for name, f in compare.items():
        setattr(Batched, f"__{name}__", lambda x, y, f=f: by(f, x, y))
    for name, f in {"neg": np.negative, "pos": np.positive, "invert": np.invert, "abs": np.absolute}.items():
        setattr(Batched, f"__{name}__", lambda x, f=f: by(f, x))


_operators()


# -- taking levels off -------------------------------------------------------------------------------------------------


def levels_of(x: Any) -> list[Level]:
    """The levels of an array, outermost first."""
    found = []
    while type(x) is Batched:
        found.append(x.level)
        x = x.physical
    return found


def top(values: Any) -> Level | None:
    """The outermost level among values, tuples and lists of values."""
    found = None
    for v in values:
        kind = type(v)
        if kind is Batched:
            level = v.level
        elif kind is tuple or kind is list:
            level = top(v)
            if level is None:
                continue
        else:
            continue
        if found is None or level.number > found.number:
            found = level
    return found


def has(x: Any, level: Level) -> bool:
    """Whether an array is batched at a level."""
    return type(x) is Batched and x.level is level


def pulled(x: Any, level: Level) -> Any:
    """The array with the batch of `level`, which it has, as its first dimension."""
    if x.level is level:
        return x.physical
    return Batched(pulled(x.physical, level).swapaxes(0, 1), x.level)


def expanded(x: Any, level: Level) -> Any:
    """`x` (not batched at `level`) once for every slice: a view with the dimension of the batch in front."""
    return by(np.broadcast_to, x, (level.size, *x.shape))


def fronted(x: Any, level: Level) -> Any:
    """The array with the dimension of the batch in front, whether it is batched at `level` (then a view) or not."""
    return x.physical if type(x) is Batched and x.level is level else expanded(x, level)


def aligned(x: Any, level: Level, ndim: int) -> Any:
    """What broadcasts against other arrays whose slices have up to `ndim` dimensions; what is not batched stays."""
    if type(x) is not Batched or x.level is not level:
        return x
    p = x.physical
    missing = ndim + 1 - p.ndim
    return p[(ALL, *(None,) * missing)] if missing > 0 else p


def new_array(like: Any, shape: tuple, make: Any) -> Any:
    """make(shape), or of a batched array `like` one such array for each slice, into which something else may be written."""
    if type(like) is not Batched:
        return make(shape)
    return batch(new_array(like.physical, (like.level.size, *shape), make), like.level)


def as_array(x: Any, dtype: Any = None) -> Any:
    """numpy.asarray, which leaves what is batched so, and arrays of other backends."""
    if type(x) is Batched or (hasattr(x, "strides") and not isinstance(x, (np.ndarray, np.generic))):
        return x if dtype is None else x.astype(dtype, copy=False)
    return np.asarray(x, dtype)


def is_array(x: Any) -> bool:
    """Whether a value is an array: NumPy's, a device's, or batched."""
    return isinstance(x, (np.ndarray, Batched)) or type(x) in LIBRARIES


def device_type(values: Any) -> Any:
    """The type of arrays of a device that is among values, or in them; None if there is none."""
    for v in values:
        kind = type(plain(v))
        if kind in LIBRARIES:
            return kind
        if kind in (tuple, list) and (found := device_type(v)) is not None:
            return found
    return None


def by(f: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of NumPy's of arrays of any backend."""
    if LIBRARIES and (kind := device_type((args, kwargs.get("out")))) is not None:
        if top((args, tuple(kwargs.values()))) is None:
            given = [a[()] if type(a) is np.ndarray and not a.ndim else a for a in args]
            name = str(_NAMES.get(f.__name__, f.__name__))
            function = getattr(LIBRARIES[kind], name)
            if isinstance(f, np.ufunc) and f.signature is None and not kwargs:
                return SERVING[kind].by_element(function, tuple(given))
            return function(*given, **kwargs)
        if isinstance(f, np.ufunc):
            return Batched.__array_ufunc__(args[0], f, "__call__", *args, **kwargs)
        return Batched.__array_function__(args[0], f, (), args, kwargs)
    return f(*args, **kwargs)


_NAMES = {"absolute": "abs", "conjugate": "conj"}


def numbers(n: int, near: Any, dtype: Any = None) -> Any:
    """The numbers 0 to n - 1, where an array lies."""
    found, kind = np.arange(n, dtype=dtype), type(plain(near))
    return SERVING[kind].from_host(found) if kind in SERVING else found


def plain(x: Any) -> Any:
    """The array of one backend that holds all slices."""
    while type(x) is Batched:
        x = x.physical
    return x
