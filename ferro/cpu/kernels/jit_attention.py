"""Compiled attention of whole heads and its backward, for x86 processors with AVX-512: see jit_gemm.py.

Note [Attention of a head]
    The keys of a head are turned round once. Then some rows of queries at a time are multiplied by them, made weights,
    and multiplied by the values, while their scores are in the cache. Causal rows leave out the columns behind them,
    and so the more are left out the fewer rows are taken at a time.

    Addresses are taken in every round of a loop since Numba frees an array once nobody mentions it any more.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_exponentials import exp_into
from ferro.cpu.kernels.jit_gemm import (
    REGISTER,
    ROWS,
    VECTORS,
    address,
    aligned,
    multiply,
    room_left,
    room_right,
    size_of,
    tile,
    turn_rows,
)
from ferro.cpu.kernels.jit_rows import dot, largest
from ferro.native.jit import device, kernel, whole_registers


@device
def _room(size, rows, width):
    """Bytes for a matrix that `turn_rows` makes."""
    wide = VECTORS * (REGISTER // size)
    return -(-rows // wide) * wide * width * size + REGISTER


@device
def _scores(number, a, a_step, b, width, rows, columns, c, c_step):
    """c = a b for a `b` that `turn_rows` has made."""
    size = size_of(number)
    wide = VECTORS * (REGISTER // size)
    tiles = -(-rows // ROWS)
    for i in range(tiles):
        row = i * rows // tiles
        for j in range(0, columns, wide):
            tile(
                number,
                (i + 1) * rows // tiles - row,
                min(wide, columns - j),
                width,
                a + row * a_step,
                a_step,
                size,
                b + j * width * size,
                VECTORS * REGISTER,
                c + row * c_step + j * size,
                c_step,
                0,
                0,
            )


@device
def _weigh(scores, scale, first, causal):
    """In place the softmax of scale x; `causal`: of row i over its first `first` + i + 1 numbers, zeros behind them."""
    T = scores.dtype.type
    for i in range(scores.shape[0]):
        row = scores[i, : min(first + i + 1, scores.shape[1])] if causal else scores[i]
        for j in range(row.size):
            row[j] *= T(scale)
        factor = T(1) / exp_into(row, largest(row), row)
        for j in range(row.size):
            row[j] *= factor
        scores[i, row.size :] = T(0)


@kernel
def attend(first, last, q, k, v, p, out, scale, causal, plan):
    """p = softmax(scale q kᵀ) and out = p v for some of the blocks of all heads; p and out are (head, row, column).

    Of q, k and v there are arrays that begin where these do; the numbers of a row are contiguous. The plan: rows of a
    block, how many heads lie in the last of the two dimensions of heads, the width of q, and the bytes between the heads
    of each dimension and between rows in q, k and v.
    """
    whole_registers()
    number = p.dtype.type(0)
    size = size_of(number)
    rows, columns, block, width, depth = p.shape[1], p.shape[2], plan[0], plan[2], out.shape[2]
    blocks = -(-rows // block)
    keys = np.empty(_room(size, columns, width), np.uint8)
    of_left, of_right = np.empty(room_left(size, 0), np.uint8), np.empty(room_right(size, columns, depth), np.uint8)
    for number_of_block in range(first, last):
        turned_keys, left, right = aligned(keys), aligned(of_left), aligned(of_right)
        head, i = number_of_block // blocks, number_of_block % blocks * block
        x, y = head // plan[1], head % plan[1]
        if i == 0 or number_of_block == first:
            turn_rows(number, address(k) + x * plan[6] + y * plan[7], plan[8], columns, width, turned_keys)
        count = min(block, rows - i)
        end = min(i + count, columns) if causal else columns
        own = p[head, i : i + count]
        _scores(
            number,
            address(q) + x * plan[3] + y * plan[4] + i * plan[5],
            plan[5],
            turned_keys,
            width,
            count,
            end,
            address(own),
            columns * size,
        )
        _weigh(own, scale, i, causal)
        multiply(
            number,
            address(own),
            columns * size,
            size,
            address(v) + x * plan[9] + y * plan[10],
            plan[11],
            size,
            address(out[head, i:]),
            depth * size,
            0,
            0,
            count,
            end,
            depth,
            left,
            right,
        )


@kernel
def attend_vjp(first, last, g, q, k, v, p, dq, dk, dv, scale, causal, plan):
    """The backward of `attend` by q, k and v for some of the heads; the distances in the plan begin with those of g."""
    whole_registers()
    number = p.dtype.type(0)
    T = p.dtype.type
    size = size_of(number)
    rows, columns, block, width, depth = p.shape[1], p.shape[2], plan[0], plan[2], dv.shape[2]
    is_cut = causal or block < rows  # then the parts of dk and dv are added up
    scores, values = np.empty((min(block, rows), columns), p.dtype), np.empty(_room(size, columns, depth), np.uint8)
    of_left = np.empty(room_left(size, block), np.uint8)
    of_right = np.empty(room_right(size, max(columns, block), max(width, depth)), np.uint8)
    for head in range(first, last):
        turned_values, left, right = aligned(values), aligned(of_left), aligned(of_right)
        x, y = head // plan[1], head % plan[1]
        of_g, of_q = address(g) + x * plan[3] + y * plan[4], address(q) + x * plan[6] + y * plan[7]
        of_k, of_v = address(k) + x * plan[9] + y * plan[10], address(v) + x * plan[12] + y * plan[13]
        of_dk, of_dv = address(dk[head]), address(dv[head])
        turn_rows(number, of_v, plan[14], columns, depth, turned_values)
        if is_cut:
            dk[head], dv[head] = T(0), T(0)
        for i in range(0, rows, block):
            count = min(block, rows - i)
            end = min(i + count, columns) if causal else columns
            here_g, here_q = of_g + i * plan[5], of_q + i * plan[8]
            ds = scores[:count]
            _scores(number, here_g, plan[5], turned_values, depth, count, end, address(ds), columns * size)
            for r in range(count):
                d, weights = ds[r, :end], p[head, i + r, :end]
                total = dot(d, weights)
                for j in range(end):
                    d[j] = (d[j] - total) * weights[j] * T(scale)
            multiply(
                number,
                address(ds),
                columns * size,
                size,
                of_k,
                plan[11],
                size,
                address(dq[head, i:]),
                width * size,
                0,
                0,
                count,
                end,
                width,
                left,
                right,
            )
            multiply(
                number,
                address(ds),
                size,
                columns * size,
                here_q,
                plan[8],
                size,
                of_dk,
                width * size,
                of_dk if is_cut else 0,
                width * size,
                end,
                count,
                width,
                left,
                right,
            )
            multiply(
                number,
                address(p[head, i:]),
                size,
                columns * size,
                here_g,
                plan[5],
                size,
                of_dv,
                depth * size,
                of_dv if is_cut else 0,
                depth * size,
                end,
                count,
                depth,
                left,
                right,
            )
