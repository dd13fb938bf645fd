"""Entries of small convolutions without groups (see native/jit_entries.py), in one to three dimensions.

All are derivatives of one form, see Note [The convolution family] in cpu/convolution.py; it is summed as it stands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.thresholds import CONV_LONGEST, CONV_TERMS
from ferro.native.jit import device
from ferro.native.jit_arrays import elements, is_plain, is_vector, length, shaped, size_of
from ferro.native.jit_fields import (
    class_of,
    count_of,
    int_type,
    items_of,
    load64,
    ndim_of,
    room,
    shape_of,
    store64,
    the_none,
    tuple_type,
)
from ferro.native.jit_interpreter import as_long
from ferro.native.thresholds import ENTRY_MOST

# Where numbers for each of three dimensions stand in a table, those that there are behind ones and zeros for the others.
_INPUT, _KERNEL, _OUTPUT, _STRIDE, _PAD, _DILATION = range(0, 144, 24)


@device
def _sizes(table, place, a):
    """Enter the lengths of an array from the third dimension on."""
    n = ndim_of(a) - 2
    for k in range(3):
        store64(table + place + 8 * k, load64(shape_of(a) + 8 * (k - 1 + n)) if k >= 3 - n else 1)


@device
def _numbers(table, place, numbers, n, other, least):
    """Enter a tuple of n ints; False if it is none."""
    if class_of(numbers) != tuple_type() or count_of(numbers) != n:
        return False
    for k in range(3):
        v = other
        if k >= 3 - n:
            item = load64(items_of(numbers) + 8 * (k - 3 + n))
            if class_of(item) != int_type():
                return False
            v = as_long(item)
        if v < least or v > CONV_LONGEST:
            return False
        store64(table + place + 8 * k, v)
    return True


@device
def _product(table, place):
    return load64(table + place) * load64(table + place + 8) * load64(table + place + 16)


@device
def _result(like, table, place, first, second):
    """A new array of two lengths and those in the table; 0 if it would be large, -1 if there is no memory."""
    if max(first * second, _product(table, place), first * second * _product(table, place)) > ENTRY_MOST:
        return 0
    shape, n = room(), ndim_of(like) - 2
    store64(shape, first)
    store64(shape + 8, second)
    for k in range(n):
        store64(shape + 16 + 8 * k, load64(table + place + 8 * (3 - n + k)))
    found = shaped(like, n + 2, shape)
    return -1 if found == 0 else found


@device
def _number_at(table, place):
    return load64(table + place), load64(table + place + 8), load64(table + place + 16)


@device
def _fill(out, bias, images, channels, places):
    """The bias of its channel, or 0, in all places."""
    for i in range(images * channels):
        v = bias[i % channels] if bias.size else out.dtype.type(0)
        for p in range(places):
            out[i * places + p] = v


@device
def _form(x, w, y, table, images, inputs, outputs, wanted):
    """Adds to one of x, w and y (that is `wanted`: 0, 1, 2) the product of the two others wherever they meet."""
    i0, i1, i2 = _number_at(table, _INPUT)
    k0, k1, k2 = _number_at(table, _KERNEL)
    o0, o1, o2 = _number_at(table, _OUTPUT)
    s0, s1, s2 = _number_at(table, _STRIDE)
    p0, p1, p2 = _number_at(table, _PAD)
    d0, d1, d2 = _number_at(table, _DILATION)
    for place in range(images * outputs * o0 * o1 * o2):
        c, rest = place % o2, place // o2
        b, rest = rest % o1, rest // o1
        a, rest = rest % o0, rest // o0
        image, output = rest // outputs, rest % outputs
        for channel in range(inputs):
            for k in range(k0 * k1):
                r0, r1 = a * s0 - p0 + k // k1 * d0, b * s1 - p1 + k % k1 * d1
                if r0 < 0 or r0 >= i0 or r1 < 0 or r1 >= i1:
                    continue
                row = (((image * inputs + channel) * i0 + r0) * i1 + r1) * i2
                taps = ((output * inputs + channel) * k0 * k1 + k) * k2
                for j in range(k2):
                    r2 = c * s2 - p2 + j * d2
                    if r2 < 0 or r2 >= i2:
                        continue
                    if wanted == 0:
                        x[row + r2] += w[taps + j] * y[place]
                    elif wanted == 1:
                        w[taps + j] += x[row + r2] * y[place]
                    else:
                        y[place] += x[row + r2] * w[taps + j]


def entries(dtype: Any) -> dict[str, Any]:  # noqa: C901 (three functions)
    """The entries of conv, conv_input and conv_weight in cpu/convolution.py."""
    number = np.dtype(dtype).num

    @device
    def dims_of(a):
        """How many dimensions images have; 0 for what are none."""
        return ndim_of(a) if is_plain(a, number) and 3 <= ndim_of(a) <= 5 else 0

    @device
    def geometry(table, n, stride, pad, dilation, groups):
        """Enter what windows are like; False if there are groups."""
        return (
            _numbers(table, _STRIDE, stride, n, 1, 1)
            and _numbers(table, _PAD, pad, n, 0, 0)
            and _numbers(table, _DILATION, dilation, n, 1, 1)
            and class_of(groups) == int_type()
            and as_long(groups) == 1
        )

    @device
    def with_weight(objects, count, forward):
        """conv, or conv_input."""
        if count != 8:
            return 0
        given, weight, bias = load64(objects), load64(objects + 8), load64(objects + 16)
        table, ndim = room(), dims_of(given)
        if ndim == 0 or dims_of(weight) != ndim:
            return 0
        outputs, inputs = length(weight, 0, 1), length(weight, 1, 2)
        taken, made = (inputs, outputs) if forward else (outputs, inputs)
        if length(given, 1, 2) != taken or (bias != the_none() and not is_vector(bias, number, made)):
            return 0
        known, wanted = (_INPUT, _OUTPUT) if forward else (_OUTPUT, _INPUT)
        _sizes(table, known, given)
        _sizes(table, _KERNEL, weight)
        if not _numbers(table, wanted, load64(objects + 24), ndim - 2, 1, 1):
            return 0
        if not geometry(
            table, ndim - 2, load64(objects + 32), load64(objects + 40), load64(objects + 48), load64(objects + 56)
        ):
            return 0
        images, places = length(given, 0, 1), _product(table, wanted)
        work = (images * outputs * _product(table, _OUTPUT)) * (inputs * _product(table, _KERNEL))
        if max(size_of(given), size_of(weight), places, work) > CONV_TERMS or work < 1:
            return 0
        out = _result(given, table, wanted, images, made)
        if out <= 0:
            return out
        a, w, result = elements(dtype, given, size_of(given)), elements(dtype, weight, size_of(weight)), size_of(out)
        b = elements(dtype, out if bias == the_none() else bias, 0 if bias == the_none() else made)
        filled = elements(dtype, out, result)
        _fill(filled, b, images, made, places)
        if forward:
            _form(a, w, filled, table, images, inputs, outputs, 2)
        else:
            _form(filled, w, a, table, images, inputs, outputs, 0)
        return out

    def conv(objects, count):
        return with_weight(objects, count, True)

    def conv_input(objects, count):
        return with_weight(objects, count, False)

    def conv_weight(objects, count):
        if count != 7:
            return 0
        x, y = load64(objects), load64(objects + 8)
        table, ndim = room(), dims_of(x)
        if ndim == 0 or dims_of(y) != ndim or length(x, 0, 1) != length(y, 0, 1):
            return 0
        _sizes(table, _INPUT, x)
        _sizes(table, _OUTPUT, y)
        if not _numbers(table, _KERNEL, load64(objects + 16), ndim - 2, 1, 1):
            return 0
        if not geometry(
            table, ndim - 2, load64(objects + 24), load64(objects + 32), load64(objects + 40), load64(objects + 48)
        ):
            return 0
        inputs, outputs, places = length(x, 1, 2), length(y, 1, 2), _product(table, _KERNEL)
        if max(size_of(x), size_of(y), places) > CONV_TERMS:
            return 0
        work = size_of(y) * inputs * places
        if work > CONV_TERMS or work < 1:
            return 0
        out = _result(x, table, _KERNEL, outputs, inputs)
        if out <= 0:
            return out
        a, w, b = elements(dtype, x, size_of(x)), elements(dtype, out, size_of(out)), elements(dtype, y, size_of(y))
        w[:] = 0
        _form(a, w, b, table, length(x, 0, 1), inputs, outputs, 1)
        return out

    return {"conv": conv, "conv_input": conv_input, "conv_weight": conv_weight}
