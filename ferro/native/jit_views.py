"""Elementwise kernels on arrays whose rows begin anywhere: they are called row by row.

Note [Views in entries]
    NumPy's loops over slices (``x[:, 1:] - x[:, :-1]``) took two to six times as long as over whole arrays. Kernels of elementwise
    functions take whole arrays only, and a second version of each would be as many again. (Gathering what does not lie side by
    side gained nothing beside NumPy's loops: that is left to them.) So an entry describes where the
    rows of its arrays begin, in words, and `by_views`, which is compiled once for all, calls the kernel for each row, by the
    address of a small function that the entry has for it. Rows are never cut, so bits do not depend on the number of threads.

    The result may go into an array that there is, with gaps, too, whose rows are described like those of the others.

    The words: what is called for a row, and with what; how many arrays and dimensions there are, the lengths, a bit for
    each array that may be one number for a row; then for each array, the result being the last one, where it begins and the
    bytes from each element to the next along the dimensions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from ferro.native.jit import device, kernel, link_late, once
from ferro.native.jit_arrays import is_like, may_be_read
from ferro.native.jit_fields import WRITABLE, data_of, flags_of, load64, ndim_of, room, shape_of, store64, strides_of
from ferro.native.jit_work_queue import call_body
from ferro.native.thresholds import VIEW_COLUMNS

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64, _int64, _pointer = types.int64, ir.IntType(64), ir.IntType(8).as_pointer()
_BODY, _RECORD, _ARRAYS, _DIMS, _NUMBERS, _LENGTHS = 0, 8, 16, 24, 32, 40  # bytes from the beginning of the words
_MOST = 8  # dimensions
_VIEWS, _VIEW = _LENGTHS + 8 * _MOST, 8 * (1 + _MOST)

# --- the words -----------------------------------------------------------------------------------------------------------


@once
def put_lengths(words, x, numbers):
    """Begin the words with the lengths of x that are not 1; False if there are too many."""
    n = 0
    store64(words + _ARRAYS, 0)
    store64(words + _NUMBERS, numbers)
    for d in range(ndim_of(x)):
        here = load64(shape_of(x) + 8 * d)
        if here != 1:
            if n == _MOST:
                return False
            store64(words + _LENGTHS + 8 * n, here)
            n += 1
    store64(words + _DIMS, n)
    return True


@device
def _step(words, k, d):
    """The bytes from each element of an array to the next along a dimension."""
    return load64(words + _VIEWS + _VIEW * k + 8 * (d + 1))


@device
def _next_view(words):
    """The address of the words of one more array."""
    count = load64(words + _ARRAYS)
    store64(words + _ARRAYS, count + 1)
    return words + _VIEWS + _VIEW * count


@once
def put_view(words, x, a):
    """Add an array, which is broadcast to the shape of x."""
    view, n, skipped = _next_view(words), 0, ndim_of(x) - ndim_of(a)
    store64(view, data_of(a))
    for d in range(ndim_of(x)):
        here = load64(shape_of(x) + 8 * d)
        if here != 1:
            n += 1
            there = d >= skipped and load64(shape_of(a) + 8 * (d - skipped)) == here
            store64(view + 8 * n, load64(strides_of(a) + 8 * (d - skipped)) if there else 0)


@once
def put_one(words, address):
    """Add a number that stands at an address."""
    view = _next_view(words)
    store64(view, address)
    for n in range(_MOST):
        store64(view + 8 * (n + 1), 0)


@once
def put_new(words, width):
    """Add a new array for the result, in C order, that `put_address` will name."""
    view, step, dims = _next_view(words), width, load64(words + _DIMS)
    for d in range(dims - 1, -1, -1):
        store64(view + 8 * (d + 1), step)
        step *= load64(words + _LENGTHS + 8 * d)


@device
def _length(a, d):
    return load64(shape_of(a) + 8 * d)


@device
def _stride(a, d):
    return load64(strides_of(a) + 8 * d)


@device
def _end(a, width):
    """The address behind the last element of an array, 0 if strides are negative."""
    end = data_of(a) + width
    for d in range(ndim_of(a)):
        if _stride(a, d) < 0:
            return 0
        end += _stride(a, d) * (_length(a, d) - 1)
    return end


@once
def takes_rows(out, x, number, width):
    """Whether `out` is an array that may take a result like x, and no two of whose elements share a place."""
    if not may_be_read(x, out, number) or flags_of(out) & WRITABLE == 0:
        return False
    reach = width
    for d in range(ndim_of(out) - 1, -1, -1):
        if _length(out, d) != 1:
            if _stride(out, d) < reach:
                return False
            reach += _stride(out, d) * (_length(out, d) - 1)
    return True


@once
def is_clear(a, out, width, again):
    """Whether an array, which is not empty, may be read while `out` is written row by row: see `lies_apart` in jit_arrays.py."""
    same = data_of(a) == data_of(out) and is_like(a, out)
    for d in range(ndim_of(a)):
        same = same and (_stride(a, d) == _stride(out, d) or _length(a, d) == 1)
    end = _end(a, width)
    return (same and not again) or (end > 0 and (end <= data_of(out) or _end(out, width) <= data_of(a)))


@once
def in_rows(words, width):
    """Make one of dimensions that go on into each other in all arrays.

    Gives how many rows there are, 0 if they are short, or their elements do not lie side by side.
    """
    dims = load64(words + _DIMS)
    arrays, last, step = load64(words + _ARRAYS), 0, width
    for d in range(dims):
        step *= load64(words + _LENGTHS + 8 * d)
    for d in range(1, dims):
        here, together = load64(words + _LENGTHS + 8 * d), True
        for k in range(arrays):
            steps = words + _VIEWS + _VIEW * k + 8
            together = together and load64(steps + 8 * last) == load64(steps + 8 * d) * here
        if together:
            here *= load64(words + _LENGTHS + 8 * last)
        else:
            last += 1
        store64(words + _LENGTHS + 8 * last, here)
        for k in range(arrays):
            steps = words + _VIEWS + _VIEW * k + 8
            store64(steps + 8 * last, load64(steps + 8 * d))
    store64(words + _DIMS, last + 1)
    columns, numbers = load64(words + _LENGTHS + 8 * last), load64(words + _NUMBERS)
    for k in range(arrays):
        here = _step(words, k, last)
        if here != width and (here != 0 or (numbers >> k) & 1 == 0):
            return 0
    return 0 if columns < VIEW_COLUMNS else step // (width * columns)


@device
def put_address(words, out):
    """Say which array the result's is."""
    store64(words + _VIEWS + _VIEW * (load64(words + _ARRAYS) - 1), data_of(out))


@intrinsic
def put_body(typing, function, words, values):
    """Say what is called for each row: function(*values), arrays being those of the row."""
    signature = function.get_call_type(typing, values.types, {})

    def generate(context, builder, _signature, args):
        compiled = function.dispatcher.get_compile_result(signature)
        link_late(context, compiled)
        items = [builder.extract_value(args[2], k) for k in range(len(values.types))]
        record = ir.LiteralStructType([item.type for item in items])
        frame = cgutils.alloca_once(builder, record)
        for k, item in enumerate(items):
            builder.store(item, cgutils.gep_inbounds(builder, frame, 0, k))
        body = _row(context, builder.module, compiled, record)
        for offset, address in ((_BODY, body), (_RECORD, frame)):
            place = builder.inttoptr(builder.add(args[1], _int64(offset)), _int64.as_pointer())
            builder.store(builder.ptrtoint(address, _int64), place)
        return context.get_dummy_value()

    return types.none(function, _i64, values), generate


def _row(context: Any, module: Any, compiled: Any, record: Any) -> Any:
    """The function of the address of values and that of the row's arrays: of each where it begins and its length."""
    kind = ir.FunctionType(ir.VoidType(), [_pointer, _int64])
    body = ir.Function(module, kind, module.get_unique_name("row"))
    body.linkage = "internal"
    builder = ir.IRBuilder(body.append_basic_block("entry"))
    place = builder.bitcast(body.args[0], record.as_pointer())
    row = builder.inttoptr(body.args[1], _int64.as_pointer())
    arguments, arrays = [], 0
    for k, each in enumerate(compiled.signature.args):
        if isinstance(each, types.Array):
            data, length = [builder.load(builder.gep(row, [_int64(2 * arrays + n)])) for n in range(2)]
            array = make_array(each)(context, builder)
            size = _int64(context.get_abi_sizeof(context.get_data_type(each.dtype)))
            data = builder.inttoptr(data, array.data.type)
            populate_array(array, data=data, shape=[length], strides=[size], itemsize=size, meminfo=None)
            arguments.append(array._getvalue())
            arrays += 1
        else:
            arguments.append(builder.load(cgutils.gep_inbounds(builder, place, 0, k)))
    context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, arguments)
    builder.ret_void()
    return body


# --- the rows ------------------------------------------------------------------------------------------------------------


@device
def _begin(words, row, place):
    """Write where a row of each array begins."""
    arrays, dims = load64(words + _ARRAYS), load64(words + _DIMS)
    for k in range(arrays):
        store64(place + 16 * k, load64(words + _VIEWS + _VIEW * k))
    for d in range(dims - 2, -1, -1):
        count = load64(words + _LENGTHS + 8 * d)
        index = row % count if d > 0 else row
        row //= count
        for k in range(arrays):
            store64(place + 16 * k, load64(place + 16 * k) + index * _step(words, k, d))


@kernel
def by_views(start, stop, words):
    """What the words say, for the rows from `start` to `stop`."""
    arrays, last = load64(words + _ARRAYS), load64(words + _DIMS) - 1
    columns, body, record = load64(words + _LENGTHS + 8 * last), load64(words + _BODY), load64(words + _RECORD)
    row = room()
    for k in range(arrays):
        store64(row + 16 * k + 8, 1 if _step(words, k, last) == 0 else columns)
    inner = load64(words + _LENGTHS + 8 * (last - 1)) if last > 0 else 1
    while start < stop:
        _begin(words, start, row)
        count = min(inner - start % inner, stop - start)
        for _ in range(count):
            call_body(body, record, row)
            for k in range(arrays):
                store64(row + 16 * k, load64(row + 16 * k) + _step(words, k, last - 1))
        start += count
