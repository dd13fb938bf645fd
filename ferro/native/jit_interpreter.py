"""What machine code asks of Python and NumPy: their functions in C, each declared once, and references, ints and tuples.

An object is the number of its address. What makes one returns its address, which the caller owns then, and 0 where that
fails. It takes over the objects that it is made of, and lets them go where it fails; given 0, an object that could not be
made, it fails too. So a row of such functions needs one look at its end.
"""

from __future__ import annotations

from numba import types

from ferro.native.jit import device
from ferro.native.jit_fields import (
    class_of,
    count_of,
    external,
    items_of,
    load64,
    room,
    store64,
    the_none,
    tuple_type,
)

i64, _i32, _nothing = types.int64, types.int32, types.void
_NO_NUMBER = -(1 << 62)

# --- functions in C ---------------------------------------------------------------------------------------------------

retain, release = [
    external(name, _nothing, i64) for name in ("Py_IncRef", "Py_DecRef")
]  # (0 is no object: nothing happens)
call = external("PyObject_Vectorcall", i64, i64, i64, i64, i64)
attribute = external("PyObject_GetAttr", i64, i64, i64)
allocate = external("PyType_GenericAlloc", i64, i64, i64)
next_of = external("PyIter_Next", i64, i64)
new_tuple, tuple_from = [external(name, i64, i64) for name in ("PyTuple_New", "PySequence_Tuple")]
new_long, _as_long = [external(name, i64, i64) for name in ("PyLong_FromLongLong", "PyLong_AsLongLong")]
as_double = external("PyFloat_AsDouble", types.float64, i64)
contains = external("PySet_Contains", _i32, i64, i64)
dict_item = external("PyDict_GetItemWithError", i64, i64, i64)
context_value = external("PyContextVar_Get", _i32, i64, i64, i64)
code_of, instruction_of = external("PyFrame_GetCode", i64, i64), external("PyFrame_GetLasti", _i32, i64)
compared = external("PyUnicode_CompareWithASCIIString", _i32, i64, i64)
failed, clear_error = external("PyErr_Occurred", i64), external("PyErr_Clear", _nothing)
error_is = external("PyErr_ExceptionMatches", _i32, i64)
new_array = external("numpy.94", i64, i64, i64, _i32, i64, i64, i64, _i32, i64)  # PyArray_NewFromDescr
description = external("numpy.45", i64, _i32)  # PyArray_DescrFromType


# --- references and ints -----------------------------------------------------------------------------------------------


@device
def new_ref(value):
    """An object, which has one more owner now."""
    retain(value)
    return value


@device
def give_up(*owned):
    """What a function returns after an error, which reaches the caller: -1. What it owned is let go."""
    for each in owned:
        release(each)
    return -1


@device
def as_long(a):
    """The number that an int is; one far below zero, which nothing takes, if 64 bits do not hold it."""
    found = _as_long(a)
    if found == -1 and failed() != 0:
        clear_error()
        return _NO_NUMBER
    return found


# --- tuples ----------------------------------------------------------------------------------------------------------


@device
def is_tuple(items):
    return class_of(items) == tuple_type()


@device
def item_at(items, k):
    """An item of a tuple."""
    return load64(items_of(items) + 8 * k)


@device
def number_at(items, k):
    return as_long(item_at(items, k))


@device
def set_item(items, k, value):
    """Give a tuple its item, which belongs to the tuple now."""
    store64(items_of(items) + 8 * k, value)


@device
def filled_tuple(n):
    """A tuple of n times None, to be filled while other code runs, which must not see a tuple without items."""
    found = new_tuple(n)
    if found != 0:
        for k in range(n):
            set_item(found, k, new_ref(the_none()))
    return found


@device
def change_item(items, k, value):
    """`set_item` in a tuple that has been filled."""
    set_item(items, k, value)
    release(the_none())


@device
def single(a):
    """A tuple of one object."""
    found = new_tuple(1) if a != 0 else 0
    if found == 0:
        release(a)
        return 0
    set_item(found, 0, a)
    return found


@device
def pair(a, b):
    """A tuple of two objects."""
    found = new_tuple(2) if a != 0 and b != 0 else 0
    if found == 0:
        release(a)
        release(b)
        return 0
    set_item(found, 0, a)
    set_item(found, 1, b)
    return found


@device
def bundle(*objects):
    """A tuple of objects; -1 if there is no memory."""
    found = new_tuple(len(objects))
    if found == 0:
        return give_up(*objects)
    for k in range(len(objects)):
        set_item(found, k, objects[k])
    return found


@device
def put_items(target, first, items):
    """Fill places of a new tuple from `first` on with the items of another one; gives the place behind them."""
    for k in range(count_of(items)):
        set_item(target, first + k, new_ref(item_at(items, k)))
    return first + count_of(items)


# --- calls -----------------------------------------------------------------------------------------------------------


@device
def called(function, *given):
    """What a function of Python gives for these arguments."""
    arguments = room()
    for k in range(len(given)):
        store64(arguments + 8 * k, given[k])
    return call(function, arguments, len(given), 0)


@device
def put_words(address, items):
    """Write the items of a tuple to an address; gives how many."""
    for k in range(count_of(items)):
        store64(address + 8 * k, item_at(items, k))
    return count_of(items)
