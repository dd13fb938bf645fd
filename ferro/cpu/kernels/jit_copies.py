"""Copies that entries describe for the kernel `move` (jit_strided_copy.py), which the workers share where they are large.

For arrays that have gone through the caches each function of Python takes a microsecond, and what describes a copy there is a dozen.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_strided_copy import WORDS, move
from ferro.cpu.thresholds import COPY_CHUNK
from ferro.native.jit import device
from ferro.native.jit_arrays import array_at, length
from ferro.native.jit_entries import helpers, queue
from ferro.native.jit_fields import ndim_of
from ferro.native.jit_interpreter import release
from ferro.native.jit_work_queue import freely_in_rows
from ferro.native.thresholds import ENTRY_MOST, MOST_CHUNKS


@device
def words_at(address, copies):
    """The words of so many copies, from an address on."""
    return array_at(np.int64, address, (WORDS * copies,))


@device
def put_copy(words, copy, places, size, lengths, source, target):
    """Describe the copy of that number: where it is read and written, the bytes of an element, or 1 where those of a row lie without
    gaps, three lengths, and the bytes from one element to the next along these, where it is read and where it is written.
    """
    at = 2 * (words.size // WORDS) + (WORDS - 2) * copy
    words[2 * copy], words[2 * copy + 1] = places
    words[at], words[at + 1], words[at + 5], words[at + 9] = size, 1, 0, 0
    for k in range(3):
        words[at + 2 + k], words[at + 6 + k], words[at + 10 + k] = lengths[k], source[k], target[k]


@device
def put_rows(words, copy, places, rows, each, source, target):
    """The same for so many rows of bytes, and the bytes from one row to the next."""
    put_copy(words, copy, places, 1, (1, rows, each), (0, source, 1), (0, target, 1))


@device
def around(x, d, width):
    """How many blocks there are before a dimension, its length, and the bytes of what lies behind each of its places."""
    return length(x, 0, d), length(x, d, d + 1), length(x, d + 1, ndim_of(x)) * width


@device
def copied_into(out, size, words):
    """A new array once the copies into it are made, which have so many elements together; -1 if that fails."""
    many = helpers() if size > ENTRY_MOST else 0
    if many < 0:
        release(out)
        return -1
    parts = max(min(size // COPY_CHUNK, MOST_CHUNKS), 1)
    freely_in_rows(move, (queue(), many, parts, parts, -1, 0), (0, parts, parts, words))
    return out
