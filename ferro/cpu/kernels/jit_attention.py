"""Compiled attention of whole heads and its backward, by the tile of jit_tile.py.

Note [Attention of a head]
    The keys of a head are turned round once. Then some rows of queries at a time are multiplied by them, made weights,
    and multiplied by the values, while their scores are in the cache. Causal rows leave out the columns behind them,
    and so the more are left out the fewer rows are taken at a time.

    Addresses are taken in every round of a loop since Numba frees an array once nobody mentions it any more.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_exponentials import exp_within
from ferro.cpu.kernels.jit_gemm import multiply, panels_room, room_left, room_right, tiles, turn_rows
from ferro.cpu.kernels.jit_rows import dot, largest
from ferro.cpu.kernels.jit_vectors import address, aligned, size_of
from ferro.native.jit import device, kernel, whole_registers


@device
def _weigh(scores, scale, first, causal):
    """In place the softmax of scale x; `causal`: of row i over its first `first` + i + 1 numbers, zeros behind them."""
    T = scores.dtype.type
    for i in range(scores.shape[0]):
        row = scores[i, : min(first + i + 1, scores.shape[1])] if causal else scores[i]
        for j in range(row.size):
            row[j] *= T(scale)
        factor = T(1) / exp_within(row, largest(row))
        for j in range(row.size):
            row[j] *= factor
        scores[i, row.size :] = T(0)


@device
def _weigh_back(ds, p, columns, scale):
    """In place the backward of `_weigh` by its results p, of the first columns."""
    T = ds.dtype.type
    for r in range(ds.shape[0]):
        d, weights = ds[r, :columns], p[r, :columns]
        total = dot(d, weights)
        for j in range(d.size):
            d[j] = (d[j] - total) * weights[j] * T(scale)


@device
def _head(array, plan, first, head):
    """Where a head of an array begins, by the three distances in the plan from `first` on."""
    x, y = head // plan[1], head % plan[1]
    return address(array) + x * plan[first] + y * plan[first + 1]


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
    blocks, line = -(-rows // block), columns * size
    keys = np.empty(panels_room(size, columns, width), np.uint8)
    of_left = np.empty(room_left(size, columns), np.uint8)
    of_right = np.empty(room_right(size, columns, depth), np.uint8)
    for number_of_block in range(first, last):
        turned_keys, left, right = aligned(keys), aligned(of_left), aligned(of_right)
        head, i = number_of_block // blocks, number_of_block % blocks * block
        if i == 0 or number_of_block == first:
            turn_rows(number, _head(k, plan, 6, head), plan[8], columns, width, turned_keys)
        count = min(block, rows - i)
        end = min(i + count, columns) if causal else columns
        own = p[head, i : i + count]
        queries, scores = (_head(q, plan, 3, head) + i * plan[5], plan[5]), (address(own), line)
        tiles(number, queries, count, width, turned_keys, end, scores, (0, 0))
        _weigh(own, scale, i, causal)
        values, target = (_head(v, plan, 9, head), plan[11], size), (address(out[head, i:]), depth * size)
        multiply(number, (address(own), line, size), values, target, (0, 0), (count, end, depth), left, right)


@kernel
def attend_vjp(first, last, g, q, k, v, p, dq, dk, dv, scale, causal, plan):
    """The backward of `attend` by q, k and v for some of the heads; the distances in the plan begin with those of g."""
    whole_registers()
    number = p.dtype.type(0)
    size = size_of(number)
    rows, columns, block, width, depth = p.shape[1], p.shape[2], plan[0], plan[2], dv.shape[2]
    is_cut, line = causal or block < rows, columns * size  # if cut, the parts of dk and dv are added up
    scores = np.empty((min(block, rows), columns), p.dtype)
    values = np.empty(panels_room(size, columns, depth), np.uint8)
    of_left = np.empty(room_left(size, max(columns, block)), np.uint8)
    of_right = np.empty(room_right(size, max(columns, block), max(width, depth)), np.uint8)
    for head in range(first, last):
        turned_values, left, right = aligned(values), aligned(of_left), aligned(of_right)
        of_dk, of_dv = (address(dk[head]), width * size), (address(dv[head]), depth * size)
        turn_rows(number, _head(v, plan, 12, head), plan[14], columns, depth, turned_values)
        if is_cut:
            dk[head], dv[head] = number, number
        for i in range(0, rows, block):
            count = min(block, rows - i)
            end = min(i + count, columns) if causal else columns
            here_g, here_q = _head(g, plan, 3, head) + i * plan[5], _head(q, plan, 6, head) + i * plan[8]
            ds = scores[:count]
            tiles(number, (here_g, plan[5]), count, depth, turned_values, end, (address(ds), line), (0, 0))
            _weigh_back(ds, p[head, i : i + count], end, scale)
            slopes, weights = (address(ds), line, size), address(p[head, i:])
            keys, target = (_head(k, plan, 9, head), plan[11], size), (address(dq[head, i:]), width * size)
            multiply(number, slopes, keys, target, (0, 0), (count, end, width), left, right)
            slopes, weights = (slopes[0], size, line), (weights, size, line)
            here, target = (here_q, plan[8], size), (of_dk[0] if is_cut else 0, of_dk[1])
            multiply(number, slopes, here, of_dk, target, (end, count, width), left, right)
            here, target = (here_g, plan[5], size), (of_dv[0] if is_cut else 0, of_dv[1])
            multiply(number, weights, here, of_dv, target, (end, count, depth), left, right)
