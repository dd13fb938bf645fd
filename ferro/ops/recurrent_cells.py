"""One step of a recurrent network: the cells of RNN, LSTM and GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.composed import vjp_of
from ferro.core.mode import ACTIVE, current
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.creation import zeros
from ferro.ops.linear import linear
from ferro.ops.recurrent_steps import _STEPS, GATES, _fits, _gru_step, _lstm_step

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]


def lstm_one_vjp(
    g: tuple, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, cell: Any, gates: Any, needs: tuple
) -> tuple:
    """The backward of one step of an LSTM, on Tensors."""

    def run(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
        return _lstm_step(linear(x, w_ih, b_ih), (h, c), w_hh, b_hh)

    return vjp_of(run, (x, h, c, w_ih, w_hh, b_ih, b_hh), g, needs)


def gru_one_vjp(
    g: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: Any, inner: Any, needs: tuple
) -> tuple:
    """The backward of one step of a GRU, on Tensors."""

    def run(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
        return _gru_step(linear(x, w_ih, b_ih), (h,), w_hh, b_hh)

    return vjp_of(run, (x, h, w_ih, w_hh, b_ih, b_hh), (g,), needs)


_CELLS = {
    "LSTM": Op(
        "lstm_one",
        lambda xp, x, h, c, w_ih, w_hh, b_ih, b_hh: xp.lstm_one(x, h, c, w_ih, w_hh, b_ih, b_hh),
        vjp=lambda xp, g, x, h, c, w_ih, w_hh, b_ih, b_hh, cell, gates, needs: xp.lstm_one_vjp(
            g, x, h, c, w_ih, w_hh, b_ih, b_hh, cell, gates, needs
        ),
        diff=("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh"),
        outputs=("new", "cell"),
        aux=("gates",),
        weight=20.0,
    ),
    "GRU": Op(
        "gru_one",
        lambda xp, x, h, w_ih, w_hh, b_ih, b_hh: xp.gru_one(x, h, w_ih, w_hh, b_ih, b_hh),
        vjp=lambda xp, g, x, h, w_ih, w_hh, b_ih, b_hh, gates, inner, needs: xp.gru_one_vjp(
            g, x, h, w_ih, w_hh, b_ih, b_hh, gates, inner, needs
        ),
        diff=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
        aux=("gates", "inner"),
        weight=15.0,
    ),
}


def cell(name: str, mode: str, input: Any, state: tuple | None, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """One step for input of shape (N, I) or (I), from zeros without a state; sizes checked."""
    weights = w_ih, w_hh, b_ih, b_hh
    try:
        shape = input._data.shape
        fits = (
            state is not None
            and len(shape) == 2
            and w_hh._data.size > 0
            and _fits(mode, input, shape[:1], state, weights)
        )
    except AttributeError:  # which _check puts in words
        fits = False
    if not fits:
        shape = _check(name, mode, input, state or (), w_ih, w_hh)
        if state is None:
            state = tuple(
                [zeros(shape, dtype=input.dtype, device=input.device) for _ in range(2 if mode == "LSTM" else 1)]
            )
            return cell(name, mode, input, state, *weights)
    elif mode in _CELLS and not (ACTIVE and current().level):
        found = apply(_CELLS[mode], (input, *state, *weights))
        return found if mode == "LSTM" else (found,)
    return _STEPS[mode](linear(input, w_ih, b_ih), state, w_hh, b_hh)


def _unfit_state(name: str, mode: str, i: int, have: tuple, want: tuple) -> Exception:
    """The error for a state of another shape than wanted."""
    shown = f"hidden state {i} has shape {list(have)}, expected {list(want)}"
    if len(have) not in (1, 2):
        what = f"hx[{i}]" if mode == "LSTM" else "hidden"
        return ValueError(f"{name}: Expected {what} to be 1D or 2D, got {len(have)}D instead: {shown}")
    if have[-1] != want[-1]:
        return RuntimeError(
            f"{name}: hidden{i} has inconsistent hidden_size: got {have[-1]}, expected {want[-1]}: {shown}"
        )
    if len(have) == len(want) == 2:
        return RuntimeError(f"{name}: Input batch size {want[0]} doesn't match hidden{i} batch size {have[0]}: {shown}")
    return RuntimeError(f"{name}: {shown}")


def _check(name: str, mode: str, input: Any, state: tuple, w_ih: Any, w_hh: Any) -> tuple:
    """The shape of a state, which must be that of those given."""
    x, wi, wh = [need_tensor(name, label, t)._data for label, t in (("input", input), ("w_ih", w_ih), ("w_hh", w_hh))]
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected input to be 1D or 2D, got {x.ndim}D instead")
    if x.shape[-1] != wi.shape[1]:
        raise RuntimeError(f"{name}: input has inconsistent input_size: got {x.shape[-1]} expected {wi.shape[1]}")
    shape = (*x.shape[:-1], wh.shape[1])
    for i, part in enumerate(state):
        if need_tensor(name, "hx", part)._data.shape != shape:
            raise _unfit_state(name, mode, i, part._data.shape, shape)
    if wi.shape[0] != GATES[mode] * wh.shape[1] or wh.shape[0] != wi.shape[0]:
        raise RuntimeError(
            f"{name}: expected {GATES[mode]} blocks of {wh.shape[1]} rows in w_ih and w_hh, got shapes "
            f"{list(wi.shape)} and {list(wh.shape)}"
        )
    return shape


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `rnn_tanh`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `rnn_tanh`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(2, 2)
        >>> ferro.rnn_tanh_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("rnn_tanh_cell", "RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `rnn_relu`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `rnn_relu`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(2, 2)
        >>> ferro.rnn_relu_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("rnn_relu_cell", "RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `gru`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `gru`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(6, 2)
        >>> ferro.gru_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("gru_cell", "GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple:
    """One step of `lstm`: the new states and cells, (N, H) each.

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (pair of Tensors): the states and the cells, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): (4 H, I) and (4 H, H)
    - `b_ih`, `b_hh` (Tensor, default None): (4 H)

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(8, 2)
        >>> ferro.lstm_cell(x, (h, h), w, w)
        (tensor([[0., 0.]]), tensor([[0., 0.]]))
    """
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError("lstm_cell: expected two hidden states, hx = (h, c)")
    return cell("lstm_cell", "LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def _weights(blocks: int, inputs: int, hidden: int, rows: int, biased: bool = True) -> list:
    """The weights of `rows` directions of one layer."""
    shapes = [(blocks * hidden, inputs), (blocks * hidden, hidden), *[(blocks * hidden,)] * (2 if biased else 0)]
    return [Arg(*s, low=-1, high=1) for _ in range(rows) for s in shapes]


for _name, _blocks in (("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3)):
    declare(f"{_name}_cell", [Sample(Arg(3, 4), Arg(3, 2), *_weights(_blocks, 4, 2, 1))])
declare("lstm_cell", [Sample(Arg(3, 4), (Arg(3, 2), Arg(3, 2)), *_weights(4, 4, 2, 1))])
