"""The recorder of writes that leave no history, see jit_recorder.py: a small result, computed and copied to where it belongs."""

from __future__ import annotations

import numpy as np
from numba import types

from ferro.native.jit import device, kernel
from ferro.native.jit_arrays import array_at, copy_bytes, is_array, is_like, is_number, is_plain, size_of
from ferro.native.jit_entries import helpers, queue, want
from ferro.native.jit_fields import (
    ALIGNED,
    WRITABLE,
    address_of,
    class_of,
    count_of,
    data_of,
    dtype_of,
    external,
    flags_of,
    load64,
    ndim_of,
    room,
    shape_of,
    store64,
    strides_of,
    the_none,
    the_true,
)
from ferro.native.jit_interpreter import (
    bundle,
    called,
    clear_error,
    error_is,
    give_up,
    is_tuple,
    item_at,
    new_long,
    new_ref,
    new_tuple,
    put_words,
    release,
    retain,
)
from ferro.native.jit_objects import (
    FLOAT32,
    FLOAT64,
    are_plain,
    changes_of,
    computed,
    handed_on,
    is_float,
    is_op,
    is_tensor,
    is_up_to_date,
    known,
    location_here,
    mode_here,
    put,
    slot,
)
from ferro.native.jit_work_queue import freely_in_rows
from ferro.native.thresholds import CHUNK, ENTRY_MOST, MOST_CHUNKS

_get_item = external("PyObject_GetItem", types.int64, types.int64, types.int64)
_set_item = external("PyObject_SetItem", types.int32, types.int64, types.int64, types.int64)
_index_error, _ellipsis = address_of("PyExc_IndexError"), address_of("_Py_EllipsisObject")


def written(objects, count):
    """written(op, target, x, y, name), of which y may be a number or None."""
    if count != 5:
        return 0
    op, target, x, y = load64(objects), load64(objects + 8), load64(objects + 16), load64(objects + 24)
    if not is_op(op) or slot(op, "Op.taped") != the_true() or not is_tensor(target) or not is_tensor(x):
        return 0
    if y == the_none():
        return _written(op, target, x, 0, load64(objects + 32))
    if is_tensor(y):
        return _written(op, target, x, y, load64(objects + 32))
    if not is_number(y) or not is_float(slot(x, "TensorBase._data")):
        return 0
    number = called(known("constant"), y, dtype_of(slot(x, "TensorBase._data")))
    if number == 0:
        return handed_on()
    found = _written(op, target, x, number, load64(objects + 32)) if is_tensor(number) else 0
    release(number)
    return found


def computed_into(objects, count):
    """computed_into(op, target, inputs, params, name), of which inputs and parameters are tuples."""
    if count != 5:
        return 0
    op, target, inputs, params = load64(objects), load64(objects + 8), load64(objects + 16), load64(objects + 24)
    if not is_op(op) or slot(op, "Op.taped") != the_true() or not is_tensor(target):
        return 0
    if not is_tuple(inputs) or not is_tuple(params) or not are_plain(params):
        return 0
    arrays, others, mode, words = count_of(inputs), count_of(params), mode_here(), room()
    if not 1 <= arrays <= 4 or others > 8 or mode == -1 or not _is_free(target, mode):
        return 0
    for k in range(arrays):
        x = item_at(inputs, k)
        if not is_tensor(x) or not _may_be_read(x, target, mode):
            return 0
        store64(words + 8 * k, slot(x, "TensorBase._data"))
    others = put_words(words + 8 * arrays, params)
    return _put(op, target, words, arrays, others, load64(objects + 32))


def assigned(objects, count):
    """assigned(x, key, value, name), of which the key is a tuple, and the name may be left out."""
    if count < 3 or count > 4:
        return 0
    x, key, value, mode = load64(objects), load64(objects + 8), load64(objects + 16), mode_here()
    if mode == -1 or value == x or not is_tensor(x) or not is_tensor(value) or not is_tuple(key):
        return 0
    a, b = slot(x, "TensorBase._data"), slot(value, "TensorBase._data")
    if not (is_plain(a, FLOAT32) and is_array(b, FLOAT32)) and not (is_plain(a, FLOAT64) and is_array(b, FLOAT64)):
        return 0
    if not flags_of(a) & WRITABLE or not _is_free(x, mode) or not _may_be_read(value, x, mode):
        return 0
    threads = helpers() if size_of(b) >= ENTRY_MOST else 0
    if threads < 0:
        return -1
    retain(a)
    retain(b)
    done = _shared(a, key, b, threads) if threads > 0 else 1 if _set_item(a, key, b) == 0 else -1
    give_up(a, b)
    if done < 0:
        if error_is(load64(_index_error())) == 0:
            return handed_on()
        clear_error()  # (Python has the words)
    if done < 1:
        return 0
    name = load64(objects + 24) if count == 4 else known("'__setitem__'")
    return new_ref(x) if _noted(x, name) else -1


@kernel
def _copy_chunk(source, target):
    """Bytes that lie side by side."""
    copy_bytes(np.int64(target.ctypes.data), np.int64(source.ctypes.data), source.size)


@device
def _shared(a, key, b, threads):
    """a[key] = b by so many helping threads. 0 if something lies with gaps, or is broadcast: Python has it copied; -1 after an error."""
    view = _get_item(a, key)
    if view == 0:
        return -1
    number, width = (FLOAT32, 4) if is_array(a, FLOAT32) else (FLOAT64, 8)
    done = 0
    if is_plain(view, number) and is_plain(b, number) and is_like(view, b):
        size, source, target = size_of(b), data_of(b), data_of(view)
        count = size * width
        if source + count <= target or target + count <= source:
            given = (array_at(np.uint8, source, (count,)), array_at(np.uint8, target, (count,)))
            freely_in_rows(_copy_chunk, (queue(), threads, min(size // CHUNK, MOST_CHUNKS), count, 0, -2), given)
            done = 1
    release(view)
    return done


@device
def _written(op, target, x, y, name):
    """Computes an operation of one tensor (y is 0) or two into a target, and notes the change."""
    mode, a, words = mode_here(), slot(x, "TensorBase._data"), room()
    if mode == -1 or not _is_free(target, mode) or not _may_be_read(x, target, mode):
        return 0
    if y != 0 and not _may_be_read(y, target, mode):
        return 0
    store64(words, a)
    if y != 0:
        store64(words + 8, slot(y, "TensorBase._data"))
    return _put(op, target, words, 1 if y == 0 else 2, 0, name)


@device
def _put(op, target, words, arrays, others, name):
    """Computes an operation of so many arrays, which stand at an address with other values behind them, into a target."""
    out, a = slot(target, "TensorBase._data"), load64(words)
    number = FLOAT32 if is_array(out, FLOAT32) else FLOAT64
    large = False
    for k in range(arrays):
        each = load64(words + 8 * k)
        if not is_array(each, number) or size_of(each) > size_of(a):
            return 0
        large = large or size_of(each) >= ENTRY_MOST
    direct, placed = slot(op, "Op.direct"), slot(op, "Op.placed")
    function = direct
    fits = is_plain(out, number) or (large and flags_of(out) & ALIGNED != 0)
    if placed != the_none() and fits and is_like(out, a):
        function = item_at(placed, 0 if number == FLOAT32 else 1)
    elif large:  # (large results are computed where they belong)
        return 0
    for k in range(arrays + others):
        retain(load64(words + 8 * k))
    retain(out)
    found = 0
    if function != direct:
        want(out)
        found = computed(function, words, arrays + others)
    if found == 0 and not large and direct != the_none():
        found = computed(direct, words, arrays + others)
    if found == out:
        release(found)
        found = new_ref(target) if _noted(target, name) else -1
    elif found > 0:
        found = _copied(found, out, target, name)
    for k in range(arrays + others):
        release(load64(words + 8 * k))
    release(out)
    return found


@device
def _is_free(target, mode):
    """Whether a tensor may be written without a look at histories."""
    meta = slot(target, "TensorBase._meta")
    return mode != 0 or (
        slot(target, "TensorBase._node") == the_none()
        and (meta == the_none() or class_of(meta) == known("DetachedMark"))
    )


@device
def _may_be_read(t, target, mode):
    """Whether an operand has no history that counts, and lies elsewhere, or is the target itself."""
    counter = slot(t, "TensorBase._counter")
    return (mode != 0 or (slot(t, "TensorBase._node") == the_none() and is_up_to_date(t))) and (
        t == target or counter == the_none() or counter != slot(target, "TensorBase._counter")
    )


@device
def _is_expanded(a):
    """Whether several elements of an array are one place."""
    for k in range(ndim_of(a)):  # noqa: SIM110 (Numba knows no generator here)
        if load64(strides_of(a) + 8 * k) == 0 and load64(shape_of(a) + 8 * k) > 1:
            return True
    return False


@device
def _copied(found, out, target, name):
    """Copies an array, which it owns, to where it belongs, and notes that. The target, 0 if it belongs elsewhere, -1 after an error."""
    number, width = (FLOAT32, 4) if is_plain(found, FLOAT32) else (FLOAT64, 8)
    if (
        not is_plain(found, number)
        or not is_array(out, number)
        or not is_like(out, found)
        or not flags_of(out) & WRITABLE
        or _is_expanded(out)
    ):
        release(found)
        return 0
    failed = False
    if is_plain(out, number):
        copy_bytes(data_of(out), data_of(found), size_of(found) * width)
    else:
        failed = _set_item(out, _ellipsis(), found) != 0
    release(found)
    if failed:
        return -1
    return new_ref(target) if _noted(target, name) else -1


@device
def _noted(target, name):
    """Counts a change, as `bump` does; False if that raises."""
    counter = slot(target, "TensorBase._counter")
    if counter == the_none() or slot(target, "TensorBase._meta") != the_none():
        done = called(known("bump"), target, name)
        release(done)
        return done != 0
    retain(counter)
    where, changes = location_here(), new_long(changes_of(target) + 1)
    last = bundle(new_ref(name), where, new_tuple(0)) if where != 0 and changes != 0 else -1
    if last == -1:
        give_up(changes, counter)
        return False
    before, count = slot(counter, "Version.last"), slot(counter, "Version.n")
    put(counter, "Version.n", changes)
    put(counter, "Version.last", last)
    give_up(before, count, counter)
    return True
