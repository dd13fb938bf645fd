"""Functions that Python calls for small arrays: they read the arguments, make the result, and call a kernel.

A call of a NumPy function costs a quarter of a microsecond whatever it computes, and functions of several steps a
multiple of it. A front is a kernel with all that stands around it in Python: it looks whether the arguments are those
it is made for (small C-contiguous arrays of one dtype, Python's numbers), makes the array of the result, computes, and
returns it. Anything else goes to the function that it stands in front of.

Note [Layouts]
    A layout says what a front is called with: words for the arguments, then for the results.

    x         the first array; it gives the shape;  many   the same, for functions that NumPy rounds better: not too small
    =         an array of the same shape
    ~         an array whose shape is the end of the first one's, or a number
    number    a float or an int, of which the kernel gets a float64
    dims      dimensions: a tuple of ascending ints without gaps, or one int
    keep      a bool: whether reduced dimensions are kept, with size 1
    last      the last dimension, an int;  trailing   how many of the last ones make up a row
    weight    an array of the shape of a row, or None (of which the kernel gets an empty one)
    rows      a vector with a number for each row;  any   what the kernel need not know

    Results: x, of the shape of the first array; r, of that shape without the dimensions; i, the same of int64; rows and
    weight as above.

    Kernels get flat arrays and numbers in the order of the layout, with dims three lengths (of what lies before the
    dimensions, in them, and behind them), and the flat results. With last or trailing, arrays have rows. A "?" at the
    end: the kernel says whether it could compute the result.
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

from ferro.cpu.kernels.jit import device
from ferro.cpu.kernels.jit_export import (
    BYTE_ORDER,
    DATA,
    DESCRIPTION,
    ENTRY,
    FLAGS,
    NDIM,
    NUMBER,
    READABLE,
    SHAPE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    TYPE,
    assembled,
    entry_type,
)
from ferro.cpu.kernels.machine import SUPPORTED, address

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64 = types.int64
_word, _half, _byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
MOST = 1 << 15  # elements; larger arrays are for programs and threads
LEAST = 1 << 12  # elements of an array that is not too small
ALONE = 1 << 11  # elements from which other threads of Python may run meanwhile


SYMBOLS = (
    "numpy.94",
    "numpy.45",
    *[f"type.{name}" for name in ("array", "tuple", "float", "int", "bool")],
    "ferro.tape",
)

# --- objects and their fields ----------------------------------------------------------------------------------------


def _field(kind: Any) -> Any:
    """An intrinsic that reads a signed number of that width at an address."""

    def read(_typing, _address):
        def generate(_context, builder, _signature, args):
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
            return value if kind is _word else builder.sext(value, _word)

        return _i64(_i64), generate

    return intrinsic(read)


word, half, byte = _field(_word), _field(_half), _field(_byte)


@intrinsic
def put(_typing, address, value):
    """Write a word."""

    def generate(context, builder, _signature, args):
        builder.store(args[1], builder.inttoptr(args[0], _word.as_pointer()))
        return context.get_dummy_value()

    return types.none(_i64, _i64), generate


def address_of(name: str) -> Any:
    """An intrinsic that gives the address of an object of the process."""

    def address(_typing):
        def generate(_context, builder, _signature, _args):
            module = builder.module
            if name not in module.globals:
                ir.GlobalVariable(module, _byte, name).linkage = "external"
            return builder.ptrtoint(module.globals[name], _word)

        return _i64(), generate

    return intrinsic(address)


array_type, _tuple_type, _float_type, _int_type, _bool_type = [
    address_of(f"type.{name}") for name in ("array", "tuple", "float", "int", "bool")
]
_none, _true = address_of("_Py_NoneStruct"), address_of("_Py_TrueStruct")


@intrinsic
def room(_typing):
    """The address of 64 words in the caller's frame."""

    def generate(_context, builder, _signature, _args):
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_word, 64)), _word)

    return _i64(), generate


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


@device
def flat(dtype, array, size):
    """The elements of an array object as an array of one dimension."""
    return flat_at(dtype, word(array + DATA), size)


@device
def matrix(dtype, array, rows, columns):
    """The elements of an array object as a matrix."""
    return _matrix_at(dtype, word(array + DATA), rows, columns)


def _made(context: Any, builder: Any, kind: Any, data: Any, shape: list) -> Any:
    found = make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [_word(size)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        found,
        data=builder.inttoptr(data, found.data.type),
        shape=shape,
        strides=strides,
        itemsize=_word(size),
        meminfo=None,
    )
    return found._getvalue()


def external(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the process."""
    return types.ExternalFunction(name, result(*arguments))


_new = external("numpy.94", _i64, _i64, _i64, types.int32, _i64, _i64, _i64, types.int32, _i64)  # PyArray_NewFromDescr
_description = external("numpy.45", _i64, types.int32)  # PyArray_DescrFromType
_retain, _release = [external(name, types.void, _i64) for name in ("Py_IncRef", "Py_DecRef")]
_as_long = external("PyLong_AsLongLong", _i64, _i64)
_as_double = external("PyFloat_AsDouble", types.float64, _i64)
_failed = external("PyErr_Occurred", _i64)
_new_tuple = external("PyTuple_New", _i64, _i64)
_let_go, _take_back = external("PyEval_SaveThread", _i64), external("PyEval_RestoreThread", types.void, _i64)


# --- what fronts are made of -----------------------------------------------------------------------------------------


@device
def is_array(a, number):
    """Whether an object is an array of the dtype with that number."""
    if word(a + TYPE) != array_type():
        return False
    description = word(a + DESCRIPTION)
    return half(description + NUMBER) == number and byte(description + BYTE_ORDER) != 62  # ">"


@device
def is_plain(a, number):
    """Whether an object is such an array, and lies in memory as kernels read it."""
    return is_array(a, number) and half(a + FLAGS) & READABLE == READABLE


@device
def size_of(a):
    """How many elements an array has."""
    found, shape = 1, word(a + SHAPE)
    for k in range(half(a + NDIM)):
        found *= word(shape + 8 * k)
    return found


@device
def ends_like(a, b):
    """Whether the last lengths of a are the lengths of b."""
    skipped = half(a + NDIM) - half(b + NDIM)
    if skipped < 0:
        return False
    long, short = word(a + SHAPE) + 8 * skipped, word(b + SHAPE)
    for k in range(half(b + NDIM)):  # noqa: SIM110 (Numba knows no generator here)
        if word(long + 8 * k) != word(short + 8 * k):
            return False
    return True


@device
def is_like(a, b):
    return half(a + NDIM) == half(b + NDIM) and ends_like(a, b)


@device
def is_number(a):
    return word(a + TYPE) == _float_type() or word(a + TYPE) == _int_type()


@device
def first_dim(dims):
    """The first of consecutive dimensions, a tuple, or the dimension that an int names; -1 for anything else."""
    if word(dims + TYPE) == _int_type():
        return _as_long(dims)
    if word(dims + TYPE) != _tuple_type() or word(dims + TUPLE_SIZE) < 1:
        return -1
    first = -1
    for k in range(word(dims + TUPLE_SIZE)):
        item = word(dims + TUPLE_ITEMS + 8 * k)
        if word(item + TYPE) != _int_type():
            return -1
        d = _as_long(item)
        if k == 0:
            first = d
        elif d != first + k:
            return -1
    return first


@device
def count_dims(dims):
    return 1 if word(dims + TYPE) == _int_type() else word(dims + TUPLE_SIZE)


@device
def length(a, first, stop):
    """The product of the lengths of the dimensions from `first` on up to `stop`."""
    found, shape = 1, word(a + SHAPE)
    for k in range(first, stop):
        found *= word(shape + 8 * k)
    return found


@device
def like(a):
    """A new array of the shape and dtype of a; 0 if there is no memory."""
    description = word(a + DESCRIPTION)
    _retain(description)
    return _new(array_type(), description, half(a + NDIM), word(a + SHAPE), 0, 0, 0, 0)


@device
def reduced(a, first, stop, keep, integers):
    """A new array of the shape of a without some dimensions, or with 1 in their place."""
    shape, ndim, old = room(), 0, word(a + SHAPE)
    for k in range(half(a + NDIM)):
        inside = first <= k < stop
        if keep or not inside:
            put(shape + 8 * ndim, 1 if inside else word(old + 8 * k))
            ndim += 1
    description = word(a + DESCRIPTION)
    if integers:
        description = _description(7)  # NPY_LONG, 64 bits where machine.py is supported
    else:
        _retain(description)
    return _new(array_type(), description, ndim, shape, 0, 0, 0, 0)


@device
def vector(a, n):
    """A new array of n elements of the dtype of a."""
    shape = room()
    put(shape, n)
    description = word(a + DESCRIPTION)
    _retain(description)
    return _new(array_type(), description, 1, shape, 0, 0, 0, 0)


@device
def bundle(a, b, c):
    """A tuple of two or three objects."""
    found = _new_tuple(3 if c != 0 else 2)
    if found != 0:
        put(found + TUPLE_ITEMS, a)
        put(found + TUPLE_ITEMS + 8, b)
        if c != 0:
            put(found + TUPLE_ITEMS + 16, c)
    return found


# --- from a layout to a function -------------------------------------------------------------------------------------


def make(kernel: Any, layout: str, dtype: Any) -> Any:
    """The front of a kernel, a function of the address and the number of arguments (Python's own way of calling).

    It returns the address of the result, 0 for arguments that it is not made for, and -1 if there is no memory.
    """
    scope = dict(globals(), kernel=kernel, T=dtype, number=np.dtype(dtype).num)
    exec(compile(source(layout), f"<front {kernel.__name__}>", "exec"), scope)
    return scope["front"]


# What is asked of an argument `a`, and (behind "|") what the kernel gets of it, if anything.
_ARGUMENTS = {
    "x": """
if not is_plain({a}, number): return 0
size = size_of({a})
if size < 1 or size > MOST: return 0
| {view}(T, {a}, {size})""",
    "many": """
if not is_plain({a}, number): return 0
size = size_of({a})
if size < LEAST or size > MOST: return 0
| {view}(T, {a}, {size})""",
    "=": """
if not is_plain({a}, number) or not is_like(a0, {a}): return 0
| {view}(T, {a}, {size})""",
    "~": """
n_{a} = 1
if is_number({a}):
    put_number(T, numbers, _as_double({a}))
    if _failed() != 0: return -1
elif not is_plain({a}, number) or not ends_like(a0, {a}): return 0
else: n_{a} = size_of({a})
| flat_at(T, numbers if is_number({a}) else word({a} + DATA), n_{a})""",
    "weight": """
n_{a} = 0
if {a} != _none():
    if not is_plain({a}, number) or not ends_like(a0, {a}): return 0
    n_{a} = size_of({a})
| flat(T, a0 if n_{a} == 0 else {a}, n_{a})""",
    "rows": """
if not is_plain({a}, number) or half({a} + NDIM) != 1: return 0
| flat(T, {a}, word(word({a} + SHAPE)))""",
    "number": """
if not is_number({a}): return 0
f_{a} = _as_double({a})
if f_{a} == -1 and _failed() != 0: return -1
| f_{a}""",
    "any": "|",
    "last": """
if word({a} + TYPE) != _int_type() or half(a0 + NDIM) < 1 or _as_long({a}) != half(a0 + NDIM) - 1: return 0
first = half(a0 + NDIM) - 1
columns = length(a0, first, first + 1)
|""",
    "trailing": """
if word({a} + TYPE) != _int_type() or _as_long({a}) < 1 or _as_long({a}) > half(a0 + NDIM): return 0
first = half(a0 + NDIM) - _as_long({a})
columns = length(a0, first, half(a0 + NDIM))
|""",
    "dims": """
first = first_dim({a})
stop = first + count_dims({a})
if first < 0 or stop > half(a0 + NDIM): return 0
before, inside, behind = length(a0, 0, first), length(a0, first, stop), length(a0, stop, half(a0 + NDIM))
|""",
    "keep": """
if word({a} + TYPE) != _bool_type(): return 0
keep = {a} == _true()
|""",
}
# How an array of the result is made, and what the kernel gets of it.
_RESULTS = {
    "x": "like(a0) | {view}(T, {r}, {size})",
    "r": "reduced(a0, first, stop, keep, False) | flat(T, {r}, before * behind)",
    "i": "reduced(a0, first, stop, keep, True) | flat(np.int64, {r}, before * behind)",
    "rows": "vector(a0, size // columns) | flat(T, {r}, size // columns)",
    "weight": "reduced(a0, 0, first, False, False) | flat(T, {r}, columns)",
}


def source(layout: str) -> str:
    """The text of a front."""
    may_fail = layout.endswith("?")
    arguments, results = [part.split() for part in layout.removesuffix("?").split("->")]
    in_rows = "last" in arguments or "trailing" in arguments
    names = {"view": "matrix" if in_rows else "flat", "size": "size // columns, columns" if in_rows else "size"}
    lines = [f"if count != {len(arguments)}: return 0", "numbers = room()"]
    lines += [f"a{k} = word(objects + {8 * k})" for k in range(len(arguments))]
    given: list[str] = []
    for k, kind in enumerate(arguments):
        text, _, passed = _ARGUMENTS[kind].format(a=f"a{k}", **names).partition("|")
        lines += text.strip("\n").splitlines()
        given += [passed.strip()] if passed.strip() else []
    if "weight" in arguments:
        lines += [f"if n_a{k} != 0 and n_a{k} != columns: return 0" for k, a in enumerate(arguments) if a == "weight"]
    if "rows" in arguments:
        lines += [f"if length(a{k}, 0, 1) != size // columns: return 0" for k, a in enumerate(arguments) if a == "rows"]
    given += ["before", "inside", "behind"] if "dims" in arguments else []
    for k, kind in enumerate(results):
        text, _, passed = _RESULTS[kind].format(r=f"r{k}", **names).partition("|")
        lines += [f"r{k} = {text}", f"if r{k} == 0: return -1"]
        given.append(passed.strip())
    lines += [
        "state = _let_go() if size >= ALONE else 0",
        f"fine = kernel({', '.join(given)})",
        "if state != 0: _take_back(state)",
    ]
    made = [f"r{k}" for k in range(len(results))]
    if may_fail:
        lines += ["if not fine:", *[f"    _release({r})" for r in made], "    return 0"]
    lines.append("return r0" if len(made) == 1 else f"return bundle({', '.join((*made, '0')[:3])})")
    return "def front(objects, count):\n" + "".join(f"    {line}\n" for line in lines)


# --- all together ----------------------------------------------------------------------------------------------------


def export(functions: dict[str, Any]) -> bytes:
    """The machine code of functions of the address and the number of arguments; see `make` for what they return."""
    if not SUPPORTED:
        return b""
    for symbol in SYMBOLS:
        binding.add_symbol(symbol, address(symbol))
    with global_compiler_lock:
        made = [numba.njit(_i64(_i64, _i64), error_model="numpy")(function) for function in functions.values()]
        compiled = [function.overloads[_i64, _i64] for function in made]

        def write_entries(context: Any, module: Any) -> None:
            for name, function in zip(functions, compiled, strict=True):
                _write_entry(context, module, name, function)

        return assembled(made[0].targetctx, compiled, write_entries)


def _write_entry(context: Any, module: Any, name: str, compiled: Any) -> None:
    """What Python calls: function(behind, arguments, count)."""
    entry = ir.Function(module, entry_type, f"{ENTRY}{name}")
    behind, objects, count = entry.args
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    null = behind.type(None)

    def call(function: str, *arguments: Any) -> Any:
        kind = ir.FunctionType(behind.type, [a.type for a in arguments])
        return builder.call(cgutils.get_or_insert_function(module, kind, function), arguments)

    callee = context.declare_function(module, compiled.fndesc)
    given = [builder.ptrtoint(objects, _word), count]
    status, result = context.call_conv.call_function(builder, callee, _i64, (_i64, _i64), given)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(call("PyErr_NoMemory"))
    with builder.if_then(builder.icmp_signed("==", result, _word(0)), likely=False):
        builder.ret(call("PyObject_Vectorcall", behind, objects, count, null))
    failed = builder.icmp_signed("==", result, _word(-1))
    builder.ret(builder.select(failed, null, builder.inttoptr(result, null.type)))
