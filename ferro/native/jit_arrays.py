"""Arrays of NumPy as machine code reads and makes them: what they are like, their elements, and new ones.

An array is the number of its address here, as any object: see jit_interpreter.py.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from ferro.native.jit import device
from ferro.native.jit_fields import (
    ALIGNED,
    READABLE,
    WRITABLE,
    array_type,
    byteorder_of,
    class_of,
    count_of,
    data_of,
    dtype_of,
    external,
    flags_of,
    float_type,
    int_type,
    load64,
    ndim_of,
    number_of,
    room,
    shape_of,
    store64,
    strides_of,
    text_type,
    tuple_type,
)
from ferro.native.jit_interpreter import as_long, compared, description, item_at, new_array, new_ref

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64, _int64 = types.int64, ir.IntType(64)
copy_bytes = external("memcpy", _i64, _i64, _i64, _i64)  # target, source, count
BOOL, INT64, DOUBLE = 0, 7, 12  # NPY_BOOL, NPY_LONG (64 bits where loader.py is supported) and NPY_DOUBLE

# --- the elements of arrays -------------------------------------------------------------------------------------------


@intrinsic
def put_number(_typing, dtype, address, value):
    """Write a number as one of a dtype."""

    def generate(context, builder, signature, args):
        number = context.cast(builder, args[2], types.float64, dtype.dtype)
        builder.store(number, builder.inttoptr(args[1], number.type.as_pointer()))
        return context.get_dummy_value()

    return types.none(dtype, _i64, types.float64), generate


@intrinsic
def array_at(_typing, dtype, address, shape):
    """The numbers from an address on, in C order, as an array of that shape, a tuple."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def generate(context, builder, _signature, args):
        found, lengths = make_array(kind)(context, builder), cgutils.unpack_tuple(builder, args[2])
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        strides = [_int64(size)]
        for length in lengths[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(args[1], found.data.type)
        populate_array(found, data=data, shape=lengths, strides=strides, itemsize=_int64(size), meminfo=None)
        return found._getvalue()

    return kind(dtype, _i64, shape), generate


@device
def elements(dtype, array, *shape):
    """The elements of an array object as an array of that shape."""
    return array_at(dtype, data_of(array), shape)


# --- whether arrays are what they should be ---------------------------------------------------------------------------


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
def is_in_order(a):
    """Whether an array's dimensions lie in order, perhaps with gaps: results of one like this have no gaps.

    PyTorch orders dimensions of length 1 by their strides, too, and of equal strides puts the longer one outside.
    """
    strides, before, outside = strides_of(a), 1 << 62, 1 << 62
    for k in range(ndim_of(a)):
        here, long = load64(strides + 8 * k), load64(shape_of(a) + 8 * k)
        if here != 0 or long > 1:
            if here <= 0 or here > before or (here == before and long > outside):
                return False
            before, outside = here, long
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
def repeats(a, b, number, width):
    """How often a whole array repeats another one, without copies: n where its rows of n elements all are that array.

    -n where the array has one number for each row of n; 0 where neither is so. Sizes of 1 and strides of 0 repeat.
    """
    skipped = ndim_of(a) - ndim_of(b)
    if skipped < 0 or not is_array(b, number) or flags_of(b) & ALIGNED == 0:
        return 0
    long, short, strides = shape_of(a) + 8 * skipped, shape_of(b), strides_of(b)
    lead, step, columns = (
        length(a, 0, skipped),
        width,
        1,
    )  # how often repeated, bytes of what is, the same for each number
    for k in range(ndim_of(b) - 1, -1, -1):
        many = load64(long + 8 * k)
        if load64(short + 8 * k) == 1 or (load64(strides + 8 * k) == 0 and load64(short + 8 * k) == many):
            if step == width:
                columns *= many
            else:
                lead *= many
        elif load64(short + 8 * k) == many and load64(strides + 8 * k) == step and lead == length(a, 0, skipped):
            step *= many
        else:
            return 0
    if step == width or (lead > 1) == (columns > 1):  # one number; the same shape, or repeated in two ways
        return 0
    return -columns if columns > 1 else step // width


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
    return compared(a, characters) == 0


@device
def first_dim(dims):
    """The first of consecutive dimensions, a tuple, or the dimension that an int names; -1 for anything else."""
    if class_of(dims) == int_type():
        return as_long(dims)
    if class_of(dims) != tuple_type() or count_of(dims) < 1:
        return -1
    first = -1
    for k in range(count_of(dims)):
        item = item_at(dims, k)
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


# --- new arrays, 0 if there is no memory --------------------------------------------------------------------------------


@device
def reduced(a, first, stop, keep, integers):
    """A new array of the shape of a without some dimensions, or with 1 in their place."""
    shape, ndim, old = room(), 0, shape_of(a)
    for k in range(ndim_of(a)):
        inside = first <= k < stop
        if keep or not inside:
            store64(shape + 8 * ndim, 1 if inside else load64(old + 8 * k))
            ndim += 1
    dtype = description(INT64) if integers else new_ref(dtype_of(a))
    return new_array(array_type(), dtype, ndim, shape, 0, 0, 0, 0)


@device
def shaped(a, ndim, shape):
    """A new array of the dtype of a, its lengths standing at an address."""
    return new_array(array_type(), new_ref(dtype_of(a)), ndim, shape, 0, 0, 0, 0)


@device
def like(a, in_c_order=True):
    """A new array of the shape and dtype of a, in C order or (if a has no gaps) in that of a."""
    strides = 0 if in_c_order else strides_of(a)
    return new_array(array_type(), new_ref(dtype_of(a)), ndim_of(a), shape_of(a), strides, 0, 0, 0)


@device
def may_be_written(out, a, number):
    """Whether `out` is an array that may take what `like` makes of a, which lies in C order."""
    return is_plain(out, number) and flags_of(out) & WRITABLE != 0 and is_like(a, out)


@device
def lies_apart(a, out, width, again):
    """Whether an array without gaps, as large as `out`, may be read while `out` is written: it is that array, or lies elsewhere.

    again: elements may be read again after they have been written, so that it has to lie elsewhere.
    """
    source, target = data_of(a), data_of(out)
    count, total = size_of(a) * width, size_of(out) * width
    return source + count <= target or target + total <= source or (source == target and count == total and not again)


@device
def copied(dtype, a, b, in_c_order):
    """The elements of b, which has the dtype and the shape of a, in an array that `like` makes."""
    found = like(a, in_c_order)
    if found == 0:
        return 0
    shape, index, last, size = shape_of(b), room(), ndim_of(b) - 1, size_of(b)
    old, new, source, target = strides_of(b), strides_of(found), data_of(b), data_of(found)
    for k in range(last):
        store64(index + 8 * k, 0)
    columns, step, width = load64(shape + 8 * last), load64(old + 8 * last), load64(new + 8 * last)
    for _ in range(size // columns):
        if in_c_order and step == width:
            copy_bytes(target, source, columns * width)
        else:
            for i in range(columns):
                put_number(dtype, target + width * i, array_at(dtype, source + step * i, (1,))[0])
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
def sized(a, *lengths):
    """A new array of the dtype of a."""
    shape = room()
    for k in range(len(lengths)):
        store64(shape + 8 * k, lengths[k])
    return shaped(a, len(lengths), shape)


@device
def doubles(n):
    """A new vector of float64."""
    shape = room()
    store64(shape, n)
    return new_array(array_type(), description(DOUBLE), 1, shape, 0, 0, 0, 0)


@device
def taken(a, index, columns):
    """A new array of the dtype of a, with a row for each element of an array."""
    shape, ndim = room(), ndim_of(index)
    for k in range(ndim):
        store64(shape + 8 * k, load64(shape_of(index) + 8 * k))
    store64(shape + 8 * ndim, columns)
    return shaped(a, ndim + 1, shape)
