"""Gates of a step of an LSTM and of a GRU, and their backward: one launch each, between the products of cuBLAS.

They write into arrays that they are given, as those of ferro/cpu/kernels/recurrent.py do. A thread has one element of a state and
the gates that make it. Bytes of an LSTM: six arrays of states read, six written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.cpu.kernels import recurrent
from ferro.cuda.by_hand.launching import THREADS, is_float, launch
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.twins import formula_of

__all__ = ["function"]

TEXT = """
// Element `column` of a state of n, and where its gates lie in rows of `gates` times n.
#define PLACE(gates) \\
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x; \\
  if (id >= total) return; \\
  const place at = id / n * (gates) * n + id % n;
KERNEL lstm_gates(place total, place n, S* gates, const S* c, S* cell, S* h) {
  PLACE(4)
  const T i = sigmoid(load(gates[at])), f = sigmoid(load(gates[at + n])), g = tanh(load(gates[at + 2 * n]));
  const T o = sigmoid(load(gates[at + 3 * n])), now = f * load(c[id]) + i * g;
  store(gates + at, i);
  store(gates + at + n, f);
  store(gates + at + 2 * n, g);
  store(gates + at + 3 * n, o);
  store(cell + id, now);
  store(h + id, o * tanh(now));
}
KERNEL lstm_gates_vjp(place total, place n, const S* dh, S* dc, const S* gates, const S* c, const S* cell, S* d) {
  PLACE(4)
  const T i = load(gates[at]), f = load(gates[at + n]), g = load(gates[at + 2 * n]), o = load(gates[at + 3 * n]);
  const T t = tanh(load(cell[id])), by_h = load(dh[id]), by_c = load(dc[id]) + by_h * o * (1 - t * t);
  store(d + at, by_c * g * (i - i * i));
  store(d + at + n, by_c * load(c[id]) * (f - f * f));
  store(d + at + 2 * n, by_c * i * (1 - g * g));
  store(d + at + 3 * n, by_h * t * (o - o * o));
  store(dc + id, by_c * f);
}
KERNEL gru_gates(place total, place n, const S* z, S* gates, const S* h, S* inner, S* fresh) {
  PLACE(3)
  const T own = load(z[at + 2 * n]), r = sigmoid(load(gates[at]) + load(z[at]));
  const T keep = sigmoid(load(gates[at + n]) + load(z[at + n])), now = tanh(load(gates[at + 2 * n]) + r * own);
  store(inner + id, own);
  store(gates + at, r);
  store(gates + at + n, keep);
  store(gates + at + 2 * n, now);
  store(fresh + id, (load(h[id]) - now) * keep + now);
}
KERNEL gru_gates_vjp(place total, place n, S* dh, const S* gates, const S* h, const S* inner, S* d, S* e) {
  PLACE(3)
  const T r = load(gates[at]), keep = load(gates[at + n]), now = load(gates[at + 2 * n]), g = load(dh[id]);
  const T by_now = g * (1 - keep) * (1 - now * now), by_keep = g * (load(h[id]) - now) * (keep - keep * keep);
  const T by_r = by_now * load(inner[id]) * (r - r * r);
  store(d + at, by_r);
  store(d + at + n, by_keep);
  store(d + at + 2 * n, by_now);
  store(e + at, by_r);
  store(e + at + n, by_keep);
  store(e + at + 2 * n, by_now * r);
  store(dh + id, g * keep);
}
"""
STATE = {
    "lstm_gates": 1,
    "lstm_gates_vjp": 0,
    "gru_gates": 2,
    "gru_gates_vjp": 0,
}  # which argument has one element for a thread


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def function(name: str, gates: Any, rows: int) -> Callable[..., None]:
    """The function of that name, which writes into its arguments."""

    def run(*arrays: Any) -> None:
        state = arrays[STATE[name]]
        if not is_float(*arrays) or not all(a.flags.c_contiguous for a in arrays):
            formula_of(recurrent._PLAIN[name])(*arrays)
            return
        blocks = (-(-state.size // THREADS),)
        launch(text_of(TEXT, state.dtype.name), name, blocks, (THREADS,), state.size, state.shape[1], *arrays)

    return run
