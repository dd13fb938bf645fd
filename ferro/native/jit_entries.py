"""Functions that Python calls for arrays: they read the arguments, make the result, and call a kernel.

A call of a NumPy function costs a quarter of a microsecond whatever it computes, and functions of several steps a
multiple of it. An entry is a kernel with all that stands around it in Python: it looks whether the arguments are those
it is made for (C-contiguous arrays of one dtype, Python's numbers), makes the array of the result, computes, and returns
it. Anything else goes to the function that it stands in front of. Most entries are for small arrays alone. For large ones
an entry shares the kernel among the workers, see jit_work_queue.py: after an array has gone through the caches, Python's functions
take a microsecond each, and a kernel in front of a dozen of them 30.

Note [Layouts]
    A layout says what an entry is called with: words for the arguments, then for the results.

    x         the first array; it gives the shape;  many   the same, for functions that NumPy rounds better: not too small
    =         an array of the same shape; a small one that lies otherwise than x is copied
    ~         the same, or an array whose shape is the end of the first one's, or a number
    number    a float or an int, of which the kernel gets a float64
    dims      dimensions: a tuple of ascending ints without gaps, or one int
    keep      a bool: whether reduced dimensions are kept, with size 1
    last      the last dimension, an int;  trailing   how many of the last ones make up a row
    weight    an array of the shape of a row, or None (of which the kernel gets an empty one)
    rows      a vector with a number for each row;  any   what the kernel need not know
    none true false mean   that constant, and nothing else ("mean" is a string)
    one       an array of no dimensions;  norms   a vector with a float64 for each row
    labels    a vector with an int64 for each row, of a matrix x
    table     in place of x a matrix of any size, of which rows are taken;  index   an array of int64
    count     an int: how many rows the result has
    channels  a vector with a number for each channel, dimension 1 of x;  channel   the same, or None
    changed   an x that is written to;  buffer   an array of its shape that is, or None;  flag   a bool

    Where all words are x, many, =, ~ and number, and the result is x (elementwise functions), arrays may have their
    dimensions in any order in memory, the same for all, without gaps: so has the result then. With dims that order may be
    any, too, where all dimensions are reduced, or one of a matrix.

    Results: x, of the shape of the first array; r, of that shape without the dimensions; i, the same of int64; taken, a
    row for each number of the index; counted, a matrix; rows, weight, one, norms and channels as above; none, of functions
    that change their arguments.

    Kernels get flat arrays and numbers in the order of the layout, with dims three lengths (of what lies before the
    dimensions, in them, and behind them), and the flat results. With last, trailing, labels or index, arrays have rows;
    with channel or channels, three dimensions. At the end may stand "?", the kernel says whether it could compute the
    result, and "+", large arrays too: shared by their elements or rows, or with dims by another kernel, which is also
    told where the queue is and how many threads may help.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.np.arrayobj import make_array, populate_array

from ferro.native.jit import NO_WRAPPERS, device
from ferro.native.jit_export import ENTRY, assembled, entry_type
from ferro.native.jit_fields import (  # noqa: F401 (some are named in the texts of arguments alone)
    ALIGNED,
    READABLE,
    WRITABLE,
    array_type,
    bool_type,
    byteorder_of,
    class_of,
    count_of,
    data_of,
    dtype_of,
    external,
    flags_of,
    float_type,
    from_python,
    int_type,
    items_of,
    load64,
    ndim_of,
    number_of,
    room,
    shape_of,
    store64,
    strides_of,
    text_type,
    the_false,
    the_none,
    the_true,
    the_workers,
    tuple_type,
)
from ferro.native.jit_work_queue import freely_in_rows  # noqa: F401 (the texts of entries name it)
from ferro.native.loader import SUPPORTED, address
from ferro.native.thresholds import CHUNK, ENTRY_ALONE, ENTRY_FULL, ENTRY_MOST, MOST_CHUNKS, SMALL
from ferro.native.work_queue import ASLEEP, BUDGET, CORES, GATHER, MEMBERS, QUEUE, RUNS

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64 = types.int64
_int64, _int32, _int8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
# What the texts of entries call the thresholds.
MOST, FULL, LEAST, ALONE, GRAIN, CHUNKS = ENTRY_MOST, ENTRY_FULL, SMALL, ENTRY_ALONE, CHUNK, MOST_CHUNKS
_NO_NUMBER = -(1 << 62)


SYMBOLS = (
    "numpy.94",
    "numpy.45",
    *[f"type.{name}" for name in ("array", "tuple", "float", "int", "bool")],
    "ferro.layout",
    "ferro.tape",
    "ferro.workers",
)

# --- numbers and arrays in memory -------------------------------------------------------------------------------------


@intrinsic
def put_number(_typing, dtype, address, value):
    """Write a number as one of a dtype."""

    def generate(context, builder, signature, args):
        number = context.cast(builder, args[2], types.float64, dtype.dtype)
        builder.store(number, builder.inttoptr(args[1], number.type.as_pointer()))
        return context.get_dummy_value()

    return types.none(dtype, _i64, types.float64), generate


@intrinsic
def flat_at(_typing, dtype, address, size):
    """The numbers from an address on as an array of one dimension."""
    kind = types.Array(dtype.dtype, 1, "C")

    def generate(context, builder, _signature, args):
        return _made(context, builder, kind, args[1], [args[2]])

    return kind(dtype, _i64, _i64), generate


@intrinsic
def _matrix_at(_typing, dtype, address, rows, columns):
    kind = types.Array(dtype.dtype, 2, "C")

    def generate(context, builder, _signature, args):
        return _made(context, builder, kind, args[1], list(args[2:]))

    return kind(dtype, _i64, _i64, _i64), generate


@intrinsic
def _cube_at(_typing, dtype, address, first, second, third):
    kind = types.Array(dtype.dtype, 3, "C")

    def generate(context, builder, _signature, args):
        return _made(context, builder, kind, args[1], list(args[2:]))

    return kind(dtype, _i64, _i64, _i64, _i64), generate


@device
def flat(dtype, array, size):
    """The elements of an array object as an array of one dimension."""
    return flat_at(dtype, data_of(array), size)


@device
def matrix(dtype, array, rows, columns):
    """The elements of an array object as a matrix."""
    return _matrix_at(dtype, data_of(array), rows, columns)


@device
def cube(dtype, array, first, second, third):
    """The elements of an array object as an array of three dimensions."""
    return _cube_at(dtype, data_of(array), first, second, third)


def _made(context: Any, builder: Any, kind: Any, data: Any, shape: list) -> Any:
    found = make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [_int64(size)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        found,
        data=builder.inttoptr(data, found.data.type),
        shape=shape,
        strides=strides,
        itemsize=_int64(size),
        meminfo=None,
    )
    return found._getvalue()


_new = external("numpy.94", _i64, _i64, _i64, types.int32, _i64, _i64, _i64, types.int32, _i64)  # PyArray_NewFromDescr
_description = external("numpy.45", _i64, types.int32)  # PyArray_DescrFromType
_retain, _release = [external(name, types.void, _i64) for name in ("Py_IncRef", "Py_DecRef")]
_as_long = external("PyLong_AsLongLong", _i64, _i64)
_as_double = external("PyFloat_AsDouble", types.float64, _i64)
_failed = external("PyErr_Occurred", _i64)
_clear_error = external("PyErr_Clear", types.void)
_call = external("PyObject_Vectorcall", _i64, _i64, _i64, _i64, _i64)
_new_tuple = external("PyTuple_New", _i64, _i64)
_compared = external("PyUnicode_CompareWithASCIIString", types.int32, _i64, _i64)


@intrinsic
def freely(typing, function, free, values):
    """function(*values), meanwhile without the interpreter's lock if `free`."""
    signature = function.get_call_type(typing, values.types, {})

    def generate(context, builder, _signature, args):
        compiled = function.dispatcher.get_compile_result(signature)
        context.add_linking_libs([compiled.library])
        pointer = _int8.as_pointer()
        state = cgutils.alloca_once_value(builder, pointer(None))
        with builder.if_then(args[1]):
            builder.store(from_python(builder, "PyEval_SaveThread", pointer), state)
        items = [builder.extract_value(args[2], k) for k in range(len(values.types))]
        status, result = context.call_internal_no_propagate(builder, compiled.fndesc, signature, items)
        with builder.if_then(args[1]):
            from_python(builder, "PyEval_RestoreThread", ir.VoidType(), builder.load(state))
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return signature.return_type(function, types.boolean, values), generate


# --- what entries are made of -----------------------------------------------------------------------------------------


@device
def as_long(a):
    """The number that an int is; one far below zero, which nothing takes, if 64 bits do not hold it."""
    found = _as_long(a)
    if found == -1 and _failed() != 0:
        _clear_error()
        return _NO_NUMBER
    return found


@device
def is_array(a, number):
    """Whether an object is an array of the dtype with that number."""
    if class_of(a) != array_type():
        return False
    description = dtype_of(a)
    return number_of(description) == number and byteorder_of(description) != 62  # ">"


@device
def is_plain(a, number):
    """Whether an object is such an array, and lies in memory as kernels read it."""
    return is_array(a, number) and flags_of(a) & READABLE == READABLE


@device
def is_without_gaps(a, itemsize):
    """Whether the elements of an array, of which there are some, lie side by side, its dimensions in any order."""
    shape, strides, step, end = shape_of(a), strides_of(a), itemsize, itemsize * size_of(a)
    while step < end:
        found = 0
        for k in range(ndim_of(a)):
            if load64(strides + 8 * k) == step and load64(shape + 8 * k) > 1:
                found = load64(shape + 8 * k)
        if found == 0:
            return False
        step *= found
    return flags_of(a) & ALIGNED != 0


@device
def lies_like(a, b, number):
    """Whether b is an array of that dtype and of the shape of a, its elements in the same order in memory."""
    if not may_be_read(a, b, number):
        return False
    for k in range(ndim_of(a)):  # noqa: SIM110 (Numba knows no generator here)
        if load64(strides_of(a) + 8 * k) != load64(strides_of(b) + 8 * k) and load64(shape_of(a) + 8 * k) != 1:
            return False
    return True


@device
def may_be_read(a, b, number):
    """Whether b is an array of that dtype and of the shape of a, its elements anywhere in memory."""
    return is_array(b, number) and is_like(a, b) and flags_of(b) & ALIGNED != 0


@device
def size_of(a):
    """How many elements an array has."""
    found, shape = 1, shape_of(a)
    for k in range(ndim_of(a)):
        found *= load64(shape + 8 * k)
    return found


@device
def ends_like(a, b):
    """Whether the last lengths of a are the lengths of b."""
    skipped = ndim_of(a) - ndim_of(b)
    if skipped < 0:
        return False
    long, short = shape_of(a) + 8 * skipped, shape_of(b)
    for k in range(ndim_of(b)):  # noqa: SIM110 (Numba knows no generator here)
        if load64(long + 8 * k) != load64(short + 8 * k):
            return False
    return True


@device
def is_like(a, b):
    return ndim_of(a) == ndim_of(b) and ends_like(a, b)


@device
def is_number(a):
    return class_of(a) == float_type() or class_of(a) == int_type()


@device
def is_vector(a, number, n):
    """Whether an object is such an array of one dimension with n elements."""
    return is_plain(a, number) and ndim_of(a) == 1 and load64(shape_of(a)) == n


@device
def is_mean(a):
    """Whether an object is the string "mean"."""
    if class_of(a) != text_type():
        return False
    characters = room()
    store64(characters, 0x6E61656D)  # in memory these are the letters, and zeros
    return _compared(a, characters) == 0


@device
def first_dim(dims):
    """The first of consecutive dimensions, a tuple, or the dimension that an int names; -1 for anything else."""
    if class_of(dims) == int_type():
        return as_long(dims)
    if class_of(dims) != tuple_type() or count_of(dims) < 1:
        return -1
    first = -1
    for k in range(count_of(dims)):
        item = load64(items_of(dims) + 8 * k)
        if class_of(item) != int_type():
            return -1
        d = as_long(item)
        if k == 0:
            first = d
        elif d != first + k:
            return -1
    return first


@device
def count_dims(dims):
    return 1 if class_of(dims) == int_type() else count_of(dims)


@device
def length(a, first, stop):
    """The product of the lengths of the dimensions from `first` on up to `stop`."""
    found, shape = 1, shape_of(a)
    for k in range(first, stop):
        found *= load64(shape + 8 * k)
    return found


@device
def reduced(a, first, stop, keep, integers):
    """A new array of the shape of a without some dimensions, or with 1 in their place."""
    shape, ndim, old = room(), 0, shape_of(a)
    for k in range(ndim_of(a)):
        inside = first <= k < stop
        if keep or not inside:
            store64(shape + 8 * ndim, 1 if inside else load64(old + 8 * k))
            ndim += 1
    description = dtype_of(a)
    if integers:
        description = _description(7)  # NPY_LONG, 64 bits where loader.py is supported
    else:
        _retain(description)
    return _new(array_type(), description, ndim, shape, 0, 0, 0, 0)


@device
def shaped(a, ndim, shape):
    """A new array of the dtype of a, its lengths standing at an address; 0 if there is no memory."""
    description = dtype_of(a)
    _retain(description)
    return _new(array_type(), description, ndim, shape, 0, 0, 0, 0)


@device
def like(a, in_c_order=True):
    """A new array of the shape and dtype of a, in C order or (if a has no gaps) in that of a."""
    description = dtype_of(a)
    _retain(description)
    return _new(array_type(), description, ndim_of(a), shape_of(a), 0 if in_c_order else strides_of(a), 0, 0, 0)


@device
def copied(dtype, a, b, in_c_order):
    """The elements of b, which has the dtype and the shape of a, in an array that `like` makes; 0 if there is no memory."""
    found = like(a, in_c_order)
    if found == 0:
        return 0
    shape, index, last, size = shape_of(b), room(), ndim_of(b) - 1, size_of(b)
    old, new, source, target = strides_of(b), strides_of(found), data_of(b), data_of(found)
    for k in range(last):
        store64(index + 8 * k, 0)
    columns, step, width = load64(shape + 8 * last), load64(old + 8 * last), load64(new + 8 * last)
    for _ in range(size // columns):
        for i in range(columns):
            put_number(dtype, target + width * i, flat_at(dtype, source + step * i, 1)[0])
        for k in range(last - 1, -1, -1):
            count = load64(index + 8 * k) + 1
            source, target = source + load64(old + 8 * k), target + load64(new + 8 * k)
            store64(index + 8 * k, count)
            if count < load64(shape + 8 * k):
                break
            source, target = source - count * load64(old + 8 * k), target - count * load64(new + 8 * k)
            store64(index + 8 * k, 0)
    return found


@device
def vector(a, n):
    """A new array of n elements of the dtype of a."""
    shape = room()
    store64(shape, n)
    return shaped(a, 1, shape)


@device
def counted(a, rows, columns):
    """A new matrix of the dtype of a."""
    shape = room()
    store64(shape, rows)
    store64(shape + 8, columns)
    return shaped(a, 2, shape)


@device
def doubles(n):
    """A new vector of float64."""
    shape = room()
    store64(shape, n)
    return _new(array_type(), _description(12), 1, shape, 0, 0, 0, 0)  # NPY_DOUBLE


@device
def taken(a, index, columns):
    """A new array of the dtype of a, with a row for each element of an array."""
    shape, ndim = room(), ndim_of(index)
    for k in range(ndim):
        store64(shape + 8 * k, load64(shape_of(index) + 8 * k))
    store64(shape + 8 * ndim, columns)
    return shaped(a, ndim + 1, shape)


@device
def bundle(a, b, c):
    """A tuple of two or three objects, which it owns; -1 if there is no memory, and then they are let go."""
    found = _new_tuple(3 if c != 0 else 2)
    if found == 0:
        for each in (a, b, c):
            _release(each)
        return -1
    store64(items_of(found), a)
    store64(items_of(found) + 8, b)
    if c != 0:
        store64(items_of(found) + 16, c)
    return found


@device
def queue():
    return load64(the_workers() + 8 * QUEUE)


@device
def helpers():
    """How many threads may help with a kernel now, as workers.py counts them. They are called together; -1 if that fails."""
    shared = the_workers()
    count = min(load64(shared + 8 * BUDGET), load64(shared + 8 * CORES)) - 1
    if count < 1 or load64(shared + 8 * RUNS) != 0:
        return 0
    if load64(shared + 8 * MEMBERS) < count or load64(queue() + 8 * ASLEEP) != 0:
        done = _call(load64(shared + 8 * GATHER), 0, 0, 0)
        if done == 0:
            return -1
        _release(done)
    return count if queue() != 0 else 0


# --- from a layout to a function -------------------------------------------------------------------------------------


def make(kernel: Any, layout: str, dtype: Any, large: Any = None) -> Any:
    """The entry of a kernel, a function of the address and the number of arguments (Python's own way of calling).

    It returns the address of the result, 0 for arguments that it is not made for, and -1 if there is no memory. `large`
    is the kernel for large arrays where the layout has dims.
    """
    kind = np.dtype(dtype)
    scope = dict(globals(), kernel=kernel, large=large, T=dtype, number=kind.num, width=kind.itemsize)
    exec(compile(source(layout), f"<entry {kernel.__name__}>", "exec"), scope)
    return scope["entry"]


# What is asked of an argument `a`, and (behind "|") what the kernel gets of it, if anything.
_ARGUMENTS = {
    "x": """
if not is_array({a}, number): return 0
size = size_of({a})
if size < {least} or size > {most}: return 0
plain = is_plain({a}, number)
if not plain{unless_free}: return 0
| {view}(T, {a}, {size})""",
    "=": """
same_{a} = is_plain({a}, number) and is_like({x}, {a}) if plain else lies_like({x}, {a}, number)
if not same_{a} and (size > MOST or not may_be_read({x}, {a}, number)): return 0
| {view}(T, {a}_read, {size})""",
    "~": """
n_{a}, same_{a} = 1, True
if is_number({a}):
    put_number(T, numbers, _as_double({a}))
    if _failed() != 0: return -1
elif is_plain({a}, number) and (plain or ndim_of({a}) == 0):
    if not ends_like({x}, {a}): return 0
    n_{a} = size_of({a})
else:
    n_{a}, same_{a} = size, lies_like({x}, {a}, number)
    if not same_{a} and (size > MOST or not may_be_read({x}, {a}, number)): return 0
| flat_at(T, numbers if is_number({a}) else data_of({a}_read), n_{a})""",
    "weight": """
n_{a} = 0
if {a} != the_none():
    if not is_plain({a}, number) or not ends_like({x}, {a}): return 0
    n_{a} = size_of({a})
| flat(T, {x} if n_{a} == 0 else {a}, n_{a})""",
    "rows": """
if not is_plain({a}, number) or ndim_of({a}) != 1: return 0
| flat(T, {a}, load64(shape_of({a})))""",
    "number": """
if not is_number({a}): return 0
f_{a} = _as_double({a})
if f_{a} == -1 and _failed() != 0: return -1
| f_{a}""",
    "norms": """
if not is_vector({a}, 12, length({x}, 0, 1)): return 0
| flat(np.float64, {a}, size // columns)""",
    "one": """
if not is_plain({a}, number) or ndim_of({a}) != 0: return 0
| flat(T, {a}, 1)""",
    "labels": """
if ndim_of({x}) != 2 or not is_vector({a}, 7, length({x}, 0, 1)): return 0
columns = length({x}, 1, 2)
| flat(np.int64, {a}, size // columns)""",
    "table": """
if not is_plain({a}, number) or ndim_of({a}) != 2: return 0
size, columns = size_of({a}), length({a}, 1, 2)
if size < 1: return 0
| {view}(T, {a}, {size})""",
    "index": """
if not is_plain({a}, 7) or ndim_of({x}) < 1 or ndim_of({a}) > 30: return 0
columns, places = length({x}, ndim_of({x}) - 1, ndim_of({x})), size_of({a})
if places * columns < 1 or places * columns > MOST: return 0
| flat(np.int64, {a}, places)""",
    "count": """
if class_of({a}) != int_type(): return 0
total = as_long({a})
if ndim_of({x}) != ndim_of({index}) + 1 or size != places * columns or total < 1 or total > MOST // columns: return 0
|""",
    "channels": """
if not is_vector({a}, number, channels): return 0
| flat(T, {a}, channels)""",
    "channel": """
if {a} != the_none() and not is_vector({a}, number, channels): return 0
| flat(T, {x} if {a} == the_none() else {a}, 0 if {a} == the_none() else channels)""",
    "changed": """
if not is_plain({a}, number) or flags_of({a}) & WRITABLE == 0: return 0
size = size_of({a})
if size < 1 or size > MOST: return 0
plain = True
| flat(T, {a}, size)""",
    "buffer": """
if {a} != the_none() and not (is_plain({a}, number) and is_like({x}, {a}) and flags_of({a}) & WRITABLE): return 0
| flat(T, {x} if {a} == the_none() else {a}, 0 if {a} == the_none() else size)""",
    "flag": """
if class_of({a}) != bool_type(): return 0
| {a} == the_true()""",
    "none": "if {a} != the_none(): return 0 |",
    "true": "if {a} != the_true(): return 0 |",
    "false": "if {a} != the_false(): return 0 |",
    "mean": "if not is_mean({a}): return 0 |",
    "any": "|",
    "last": """
if class_of({a}) != int_type() or ndim_of({x}) < 1 or as_long({a}) != ndim_of({x}) - 1: return 0
first = ndim_of({x}) - 1
columns = length({x}, first, first + 1)
|""",
    "trailing": """
if class_of({a}) != int_type() or as_long({a}) < 1 or as_long({a}) > ndim_of({x}): return 0
first = ndim_of({x}) - as_long({a})
columns = length({x}, first, ndim_of({x}))
|""",
    "dims": """
first = first_dim({a})
stop = first + count_dims({a})
if first < 0 or stop > ndim_of({x}): return 0
before, inside, behind = length({x}, 0, first), length({x}, first, stop), length({x}, stop, ndim_of({x}))
if not plain and stop - first < ndim_of({x}):
    if ndim_of({x}) > 2: return 0
    before, behind = behind, before
|""",
    "keep": """
if class_of({a}) != bool_type(): return 0
keep = {a} == the_true()
|""",
}
# How an array of the result is made, and what the kernel gets of it.
_RESULTS = {
    "x": "like({x}, plain) | {view}(T, {r}, {size})",
    "one": "shaped({x}, 0, 0) | flat(T, {r}, 1)",
    "norms": "doubles(size // columns) | flat(np.float64, {r}, size // columns)",
    "taken": "taken({x}, {index}, columns) | matrix(T, {r}, places, columns)",
    "counted": "counted({x}, total, columns) | matrix(T, {r}, total, columns)",
    "channels": "vector({x}, channels) | flat(T, {r}, channels)",
    "r": "reduced({x}, first, stop, keep, False) | flat(T, {r}, before * behind)",
    "i": "reduced({x}, first, stop, keep, True) | flat(np.int64, {r}, before * behind)",
    "rows": "vector({x}, size // columns) | flat(T, {r}, size // columns)",
    "weight": "reduced({x}, 0, first, False, False) | flat(T, {r}, columns)",
}


def source(layout: str) -> str:
    """The text of an entry."""
    *words, flags = layout.split() if layout[-1] in "?+" else (*layout.split(), "")
    arguments, results = words[: words.index("->")], words[words.index("->") + 1 :]
    results = [] if results == ["none"] else results
    # whether arrays may lie in any order: x is read as it lies, and so is all that is read with it
    free = {"x": set(arguments) <= {"x", "many", "=", "~", "number"}, "r": True}.get(" ".join(results), False)
    names = {"view": "flat", "size": "size", "least": "LEAST" if "many" in arguments else "1"}
    arguments = ["x" if kind == "many" else kind for kind in arguments]
    in_rows = not {"last", "trailing", "labels", "index"}.isdisjoint(arguments)
    if in_rows:
        names |= {"view": "matrix", "size": "size // columns, columns"}
    channels = not {"channel", "channels"}.isdisjoint(arguments)
    if channels:
        names |= {"view": "cube", "size": "size // (channels * places), channels, places"}
    names["most"] = "FULL" if "+" in flags else "MOST"
    for k, kind in enumerate(arguments):
        if kind in ("x", "table", "changed"):
            names["x"] = f"a{k}"
        elif kind == "index":
            names["index"] = f"a{k}"
    names["unless_free"] = f" and not is_without_gaps({names['x']}, width)" if free else ""
    lines = [f"if count != {len(arguments)}: return 0", "numbers = room()"]
    lines += [f"a{k} = load64(objects + {8 * k})" for k in range(len(arguments))]
    given: list[str] = []
    whole = []
    for k, kind in enumerate(arguments):
        text, _, passed = _ARGUMENTS[kind].format(a=f"a{k}", **names).partition("|")
        lines += text.strip("\n").splitlines()
        whole += [f"({kind == 'weight'} or n_a{k} == 1) << {len(given)}"] if kind in ("weight", "~") else []
        given += [passed.strip()] if passed.strip() else []
        if kind == "x" and channels:
            lines.append(f"if ndim_of(a{k}) < 2: return 0")
            lines.append(f"channels, places = length(a{k}, 1, 2), length(a{k}, 2, ndim_of(a{k}))")
    if "weight" in arguments:
        lines += [f"if n_a{k} != 0 and n_a{k} != columns: return 0" for k, a in enumerate(arguments) if a == "weight"]
    lines += [f"if length(a{k}, 0, 1) != size // columns: return 0" for k, a in enumerate(arguments) if a == "rows"]
    if "+" in flags:
        lines += [f"if size > MOST and 1 < n_a{k} < size: return 0" for k, a in enumerate(arguments) if a == "~"]
        lines += ["count = helpers() if size > MOST else 0", "if count < 0: return -1"]
    given += ["before", "inside", "behind"] if "dims" in arguments else []
    copies, let_go = _copies(arguments, names["x"])
    lines += copies
    for k, kind in enumerate(results):
        text, _, passed = _RESULTS[kind].format(r=f"r{k}", **names).partition("|")
        lines += [f"r{k} = {text}", f"if r{k} == 0:", *[f"    _release(r{j})" for j in range(k)]]
        lines += [*[f"    {line}" for line in let_go], "    return -1"]
        given.append(passed.strip())
    lines.append(f"given = ({', '.join(given)},)")
    if "+" in flags:
        length = "size // columns" if in_rows else "size"
        chunks = f"min(size // GRAIN, CHUNKS, {length}), {length}, {' | '.join(whole) or 0}"
        shared = f"found = freely_in_rows(kernel, (queue(), count, {chunks}, -2), given)"
        large = f"{'fine' if '?' in flags else 'found'} = freely(large, True, (*given, queue(), count))"
        lines += [f"if size > MOST: {large if 'dims' in arguments else shared}", "else:"]
    lines.append(("    " if "+" in flags else "") + "fine = freely(kernel, size >= ALONE, given)")
    lines += let_go
    made = [f"r{k}" for k in range(len(results))]
    if "?" in flags:
        lines += ["if not fine:", *[f"    _release({r})" for r in made], "    return 0"]
    if not made:
        lines += ["_retain(the_none())", "return the_none()"]
    else:
        lines.append("return r0" if len(made) == 1 else f"return bundle({', '.join((*made, '0')[:3])})")
    return "def entry(objects, count):\n" + "".join(f"    {line}\n" for line in lines)


def _copies(arguments: list[str], x: str) -> tuple[list[str], list[str]]:
    """The lines that copy what has to be read in the order of x, and those that let the copies go."""
    lines: list[str] = []
    let_go: list[str] = []
    for a in [f"a{k}" for k, kind in enumerate(arguments) if kind in ("=", "~")]:
        lines += [f"{a}_read = {a} if same_{a} else copied(T, {x}, {a}, plain)"]
        lines += [f"if {a}_read == 0:", *[f"    {line}" for line in let_go], "    return -1"]
        let_go.append(f"_release(0 if same_{a} else {a}_read)")
    return lines, let_go


# --- all together ----------------------------------------------------------------------------------------------------


def export(functions: dict[str, Any]) -> bytes:
    """The machine code of functions of the address and the number of arguments; see `make` for what they return."""
    if not SUPPORTED:
        return b""
    for symbol in SYMBOLS:
        binding.add_symbol(symbol, address(symbol))
    with global_compiler_lock:
        made = [
            numba.njit(_i64(_i64, _i64), error_model="numpy", **NO_WRAPPERS)(function)
            for function in functions.values()
        ]
        compiled = [function.overloads[_i64, _i64] for function in made]

        def write_entries(context: Any, module: Any) -> None:
            for name, function in zip(functions, compiled, strict=True):
                _write_entry(context, module, name, function)

        return assembled(made[0].targetctx, compiled, write_entries)


def _write_entry(context: Any, module: Any, name: str, compiled: Any) -> None:
    """What Python calls: function(fallback, arguments, count)."""
    entry = ir.Function(module, entry_type, f"{ENTRY}{name}")
    fallback, objects, count = entry.args
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    null = fallback.type(None)

    callee = context.declare_function(module, compiled.fndesc)
    given = [builder.ptrtoint(objects, _int64), count]
    status, result = context.call_conv.call_function(builder, callee, _i64, (_i64, _i64), given)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(from_python(builder, "PyErr_NoMemory", fallback.type))
    with builder.if_then(builder.icmp_signed("==", result, _int64(0)), likely=False):
        builder.ret(from_python(builder, "PyObject_Vectorcall", fallback.type, fallback, objects, count, null))
    failed = builder.icmp_signed("==", result, _int64(-1))
    builder.ret(builder.select(failed, null, builder.inttoptr(result, null.type)))
