"""The gates of one step of an LSTM and of a GRU, and their derivatives: NumPy for short sequences, kernels for others.

All write into arrays that they are given, and take arrays of one dtype, float32 or float64; see jit_recurrent.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.common import contiguous, has_kernel, share_rows
from ferro.cpu.kernels.tiles import DTYPES
from ferro.cpu.thresholds import GRAIN, LSTM_CHUNK, LSTM_SHARED
from ferro.native.readiness import get
from ferro.native.workers import run_rows

SEQUENCES = 16  # that a thread takes through all steps
_ONE = {np.dtype(c): np.ones((), c) for c in "fd"}


def function(name: str, gates: np.ndarray, rows: int) -> Callable[..., object]:
    """The function of that name for a sequence with these gates, of which `rows` belong to the longest step."""
    if not has_kernel(gates, *_KERNELS):
        return _PLAIN[name]
    grain = GRAIN // gates.shape[1] + 1
    if 4 * rows < grain:
        return get(name)
    return lambda *arrays: share_rows(name, len(arrays[0]), grain, arrays)


def lstm(
    slices: list[slice],
    gates: np.ndarray,
    w: np.ndarray,
    h: np.ndarray,
    c: np.ndarray,
    cells: np.ndarray,
    out: np.ndarray,
) -> bool:
    """All steps of an LSTM by one kernel, if there is one for them: h and c become the states after the steps."""
    if len(h) * w.size >= LSTM_SHARED or gates.dtype not in DTYPES or not has_kernel(gates, *_LSTM):
        return False
    starts, ends = np.array([rows.start for rows in slices]), np.array([rows.stop for rows in slices])
    args = (0, len(h), starts, ends - starts, gates, contiguous(w), h, c, cells, out)
    run_rows("lstm", min(len(h) // SEQUENCES, len(gates) * w.size // LSTM_CHUNK), len(h), args, -1, 0)
    return True


_KERNELS = kernels("jit_recurrent.lstm_gates lstm_gates_vjp gru_gates gru_gates_vjp")
_LSTM = kernels("jit_lstm.lstm", here=bool(DTYPES))


# -- NumPy's -----------------------------------------------------------------------------------------------------------


def _to_sigmoid(x: np.ndarray) -> None:
    np.negative(x, x)
    np.exp(x, x)
    np.add(x, _ONE[x.dtype], x)
    np.reciprocal(x, x)


def _parts(x: np.ndarray, n: int) -> np.ndarray:
    """The blocks of n columns, one after the other."""
    return x.reshape(len(x), -1, n).swapaxes(0, 1)


def _lstm_gates(gates: np.ndarray, c: np.ndarray, cell: np.ndarray, h: np.ndarray) -> None:
    i, f, g, o = _parts(gates, c.shape[1])
    np.tanh(g, h)
    _to_sigmoid(gates)
    g[:] = h
    np.multiply(f, c, cell)
    np.multiply(i, h, h)
    np.add(cell, h, cell)
    np.tanh(cell, h)
    np.multiply(h, o, h)


def _lstm_gates_vjp(
    dh: np.ndarray, dc: np.ndarray, gates: np.ndarray, c: np.ndarray, cell: np.ndarray, d: np.ndarray
) -> None:
    n = c.shape[1]
    i, f, g, o = _parts(gates, n)
    di, df, dg, do = _parts(d, n)
    one = _ONE[d.dtype]
    t = np.tanh(cell)
    slopes = gates - gates * gates
    np.subtract(one, g * g, slopes[:, 2 * n : 3 * n])
    np.multiply(dh, t, do)
    dc += dh * o * (one - t * t)
    np.multiply(dc, g, di)
    np.multiply(dc, c, df)
    np.multiply(dc, i, dg)
    d *= slopes
    dc *= f


def _gru_gates(z: np.ndarray, gates: np.ndarray, h: np.ndarray, inner: np.ndarray, new: np.ndarray) -> None:
    n = h.shape[1]
    found = gates + z
    _to_sigmoid(found)  # of all, for one piece of memory is quicker than two thirds of each row
    reset, update, fresh = _parts(found, n)
    inner[:] = z[:, 2 * n :]
    np.multiply(reset, inner, new)
    new += gates[:, 2 * n :]
    np.tanh(new, fresh)
    np.subtract(h, fresh, new)
    new *= update
    new += fresh
    gates[:] = found


def _gru_gates_vjp(
    dh: np.ndarray, gates: np.ndarray, h: np.ndarray, inner: np.ndarray, d: np.ndarray, e: np.ndarray
) -> None:
    n = h.shape[1]
    r, z, new = _parts(gates, n)
    dr, dz, dn = _parts(d, n)
    slopes = gates - gates * gates
    one = _ONE[d.dtype]
    np.subtract(one, new * new, slopes[:, 2 * n :])
    np.multiply(dh, one - z, dn)
    np.multiply(dh, h - new, dz)
    np.multiply(dn, slopes[:, 2 * n :], dn)
    np.multiply(dn, inner, dr)
    d[:, : 2 * n] *= slopes[:, : 2 * n]
    e[:, : 2 * n] = d[:, : 2 * n]
    np.multiply(dn, r, e[:, 2 * n :])
    dh *= z


_PLAIN: dict[str, Callable[..., None]] = {
    "lstm_gates": _lstm_gates,
    "lstm_gates_vjp": _lstm_gates_vjp,
    "gru_gates": _gru_gates,
    "gru_gates_vjp": _gru_gates_vjp,
}
