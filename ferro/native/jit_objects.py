"""The objects of the tape as machine code sees them: what stands in their slots, and what is made of them.

`known` and `slot` go by the table of native/slots.py: addresses of objects, and where classes keep their slots. For what
is made, and who owns it, see jit_interpreter.py.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

from ferro.native.jit import device
from ferro.native.jit_arrays import is_array, size_of
from ferro.native.jit_fields import (
    _by_numbers,
    address_of,
    array_type,
    bool_type,
    class_of,
    count_of,
    dtype_of,
    float_type,
    int_type,
    list_count,
    load64,
    room,
    the_none,
    the_true,
    tuple_type,
)
from ferro.native.jit_interpreter import (
    as_long,
    attribute,
    call,
    called,
    clear_error,
    code_of,
    contains,
    context_value,
    error_is,
    instruction_of,
    item_at,
    new_long,
    pair,
    release,
)
from ferro.native.slots import FIELDS
from ferro.native.thresholds import ENTRY_MOST

intrinsic: Any = extending.intrinsic
_i64, _int64 = types.int64, ir.IntType(64)
FLOAT32, FLOAT64 = 11, 12  # NPY_FLOAT, NPY_DOUBLE
_value_error, _runtime_warning, _overflow_error = [
    address_of(f"PyExc_{name}") for name in ("ValueError", "RuntimeWarning", "OverflowError")
]

# --- the table --------------------------------------------------------------------------------------------------------


def _entry(builder: Any, name: Any) -> Any:
    """Emit the look-up of a number in the table of slots.py."""
    module, kind = builder.module, ir.ArrayType(_int64, len(FIELDS))
    if "ferro.tape" not in module.globals:
        ir.GlobalVariable(module, kind, "ferro.tape").linkage = "external"
    place = [ir.Constant(ir.IntType(32), k) for k in (0, FIELDS.index(name.literal_value))]
    return builder.load(builder.gep(module.globals["ferro.tape"], place))


@intrinsic(prefer_literal=True)
def known(_typing, name):
    """An object of the table."""

    def generate(_context, builder, _signature, _args):
        return _entry(builder, name)

    return _i64(name), generate


@intrinsic(prefer_literal=True)
def slot(_typing, owner, name):
    """What an object keeps in a slot, "Class.slot"."""

    def generate(_context, builder, _signature, args):
        _by_numbers(builder)
        return builder.load(builder.inttoptr(builder.add(args[0], _entry(builder, name)), _int64.as_pointer()))

    return _i64(_i64, name), generate


@intrinsic(prefer_literal=True)
def put(_typing, owner, name, value):
    """Let an object keep another one in a slot, to which it belongs now."""

    def generate(context, builder, _signature, args):
        _by_numbers(builder)
        builder.store(args[2], builder.inttoptr(builder.add(args[0], _entry(builder, name)), _int64.as_pointer()))
        return context.get_dummy_value()

    return types.none(_i64, name, _i64), generate


# --- whether objects are what they should be --------------------------------------------------------------------------


@device
def is_tensor(x):
    """Whether an object is a tensor whose slots are all filled.

    One that another thread is making, or that somebody has taken a slot from, is left to Python.
    """
    kind = class_of(x)
    if kind != known("Tensor") and kind != known("Parameter"):
        return False
    if slot(x, "TensorBase._data") == 0 or slot(x, "TensorBase._node") == 0 or slot(x, "TensorBase._meta") == 0:
        return False
    counter = slot(x, "TensorBase._counter")
    if counter == the_none():
        return True
    if counter == 0 or class_of(counter) != known("Version"):
        return False
    n = slot(counter, "Version.n")
    return n != 0 and class_of(n) == int_type()


@device
def is_op(op):
    return class_of(op) == known("Op")


@device
def are_plain(params):
    """Whether parameters are of kinds that mean the same everywhere: numbers of NumPy's, which would widen a result, are left to Python."""
    for k in range(count_of(params)):
        p = item_at(params, k)
        kind = class_of(p)
        number = kind == float_type() or kind == int_type() or kind == bool_type() or p == the_none()
        several = kind == tuple_type() or kind == array_type() or kind == known("list")
        other = kind == known("str") or kind == known("slice") or class_of(kind) == known("DTypeMeta")
        if not (number or several or other):
            return False
    return True


@device
def is_float(a):
    """Whether an object is an array of float32 or float64."""
    return is_array(a, FLOAT32) or is_array(a, FLOAT64)


@device
def function_for(op, a, b):
    """What computes an operation of two arrays of floats, or of one given twice; 0 if Python has to choose."""
    if not is_float(a) or not is_float(b) or dtype_of(a) != dtype_of(b):
        return 0
    small = size_of(a) < ENTRY_MOST and size_of(b) < ENTRY_MOST
    found = slot(op, "Op.direct") if small else slot(op, "Op.large")
    return 0 if found == the_none() else found


@device
def changes_of(x):
    """How often a tensor has been changed in place."""
    counter = slot(x, "TensorBase._counter")
    return 0 if counter == the_none() else as_long(slot(counter, "Version.n"))


@device
def is_up_to_date(x):
    """Whether the history of a tensor is sure to be what is noted: it is no view, or has not been changed."""
    meta = slot(x, "TensorBase._meta")
    return meta == the_none() or class_of(meta) == known("DetachedMark") or changes_of(x) == 0


# --- calls of Python --------------------------------------------------------------------------------------------------


@device
def handed_on():
    """After an error: 0 where Python has an answer to it, which computes again; else -1, it reaches the caller."""
    for kind in (load64(_value_error()), load64(_runtime_warning()), load64(_overflow_error())):
        if error_is(kind) != 0:
            clear_error()
            return 0
    return -1


@device
def computed(function, arguments, count):
    """The array that a function gives; 0 if it gives anything else, and what `handed_on` says if it raises."""
    out = call(function, arguments, count, 0)
    if out == 0:
        return handed_on()
    if class_of(out) != array_type():
        release(out)
        return 0
    return out


# --- modes and marks --------------------------------------------------------------------------------------------------


@device
def mode_here():
    """What is switched: 0 for nothing, -1 for what only Python deals with; else the mark of what is not recorded."""
    if list_count(known("ACTIVE")) == 0:
        return 0
    found = room()
    if context_value(known("MODE"), 0, found) != 0:
        clear_error()
        return -1
    mode = load64(found)
    mark = 0
    if mode != the_none():
        mark = slot(mode, "Mode.detached") if slot(mode, "Mode.silent") == the_true() else -1
    release(mode)  # (the context holds it)
    return mark


@device
def mark_of(x):
    """The mark that a result without history inherits from a tensor: None for none, 0 if only Python knows."""
    meta = slot(x, "TensorBase._meta")
    if class_of(meta) == known("View"):
        return slot(meta, "View.detached")
    return meta if meta == the_none() or class_of(meta) == known("DetachedMark") else 0


# --- where the user's program is -----------------------------------------------------------------------------------------


@device
def frame_here():
    """The frame of the user's program: two up, or further where that is the library's; 0 if it cannot be found."""
    frame = called(known("_getframe"), known("1"))
    if frame == 0:  # the operation itself is the bottom of the stack
        if error_is(load64(_value_error())) == 0:
            return 0
        clear_error()
        frame = called(known("_getframe"), known("0"))
        if frame == 0:
            return 0
    code = code_of(frame)
    file = attribute(code, known("'co_filename'"))
    release(code)
    outside = contains(known("OUTSIDE"), file) if file != 0 else -1
    release(file)
    if outside == 1:
        return frame
    other = called(known("outermost"), frame) if outside == 0 else 0
    release(frame)
    return other


@device
def location_here():
    """Where the user's program is, as `caller` gives it; 0 if that fails."""
    frame = frame_here()
    if frame == 0:
        return 0
    location = pair(code_of(frame), new_long(instruction_of(frame)))
    release(frame)
    return location
