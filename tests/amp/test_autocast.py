"""Autocast: which operations run in which precision, as in PyTorch, with gradients in the parameters' own."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro.core import casting
from ferro.core.op import OPS


def _ones(f: Any, *shape: int, dtype: str = "float32") -> Any:
    return f.ones(*shape, dtype=getattr(f, dtype))


def _eye(f: Any, dtype: str) -> Any:
    return f.eye(2, dtype=getattr(f, dtype))


# Of two operands: products run in the low precision, losses in float32; what takes both dtypes is on a list.
TWO: dict[str, Callable] = {
    "mm": lambda f, a, b: _ones(f, 2, 2, dtype=a) @ _ones(f, 2, 2, dtype=b),
    "mv": lambda f, a, b: _ones(f, 2, 2, dtype=a) @ _ones(f, 2, dtype=b),
    "dot": lambda f, a, b: _ones(f, 2, dtype=a) @ _ones(f, 2, dtype=b),
    "torch_dot": lambda f, a, b: f.dot(_ones(f, 2, dtype=a), _ones(f, 2, dtype=b)),
    "linear": lambda f, a, b: f.nn.functional.linear(_ones(f, 2, 2, dtype=a), _ones(f, 2, 2, dtype=b), _ones(f, 2)),
    "baddbmm": lambda f, a, b: f.baddbmm(
        _ones(f, 1, 2, 2, dtype=a), _ones(f, 1, 2, 2, dtype=b), _ones(f, 1, 2, 2, dtype=b)
    ),
    "einsum": lambda f, a, b: f.einsum("ij,jk->ik", _ones(f, 2, 2, dtype=a), _ones(f, 2, 2, dtype=b)),
    "multi_dot": lambda f, a, b: f.linalg.multi_dot([_ones(f, 2, 2, dtype=a), _ones(f, 2, 2, dtype=b)]),
    "conv2d": lambda f, a, b: f.nn.functional.conv2d(
        _ones(f, 1, 1, 4, 4, dtype=a), _ones(f, 1, 1, 2, 2, dtype=b), _ones(f, 1)
    ),
    "conv_transpose1d": lambda f, a, b: f.nn.functional.conv_transpose1d(
        _ones(f, 1, 1, 4, dtype=a), _ones(f, 1, 1, 2, dtype=b)
    ),
    **{
        f"conv{n}d_without_bias": lambda f, a, b, n=n: getattr(f.nn.functional, f"conv{n}d")(
            _ones(f, 1, 1, *(4,) * n, dtype=a), _ones(f, 1, 1, *(2,) * n, dtype=b)
        )
        for n in (1, 2, 3)
    },
    "conv_transpose2d_with_bias": lambda f, a, b: f.nn.functional.conv_transpose2d(
        _ones(f, 1, 1, 4, 4, dtype=a), _ones(f, 1, 1, 2, 2, dtype=b), _ones(f, 1)
    ),
    "bilinear": lambda f, a, b: f.nn.functional.bilinear(
        _ones(f, 2, 3, dtype=a), _ones(f, 2, 3, dtype=b), _ones(f, 4, 3, 3), _ones(f, 4)
    ),
    "tensordot": lambda f, a, b: f.tensordot(_ones(f, 2, 3, dtype=a), _ones(f, 3, 4, dtype=b), 1),
    "inner": lambda f, a, b: f.inner(_ones(f, 2, 3, dtype=a), _ones(f, 2, 3, dtype=b)),
    "kron": lambda f, a, b: f.kron(_ones(f, 2, 3, dtype=a), _ones(f, 2, 3, dtype=b)),
    "attention": lambda f, a, b: f.nn.functional.scaled_dot_product_attention(
        *[_ones(f, 1, 1, 2, 2, dtype=d) for d in (a, b, a)]
    ),
    "lstm": lambda f, a, b: f.nn.LSTM(2, 2)(_ones(f, 3, 1, 2, dtype=a))[0],
    "encoder": lambda f, a, b: f.nn.TransformerEncoderLayer(2, 1, 4)(_ones(f, 3, 1, 2, dtype=a)),
    "prelu": lambda f, a, b: f.nn.PReLU()(_ones(f, 2, dtype=a)),
    "add": lambda f, a, b: _ones(f, 2, dtype=a) + _ones(f, 2, dtype=b),
    "cat": lambda f, a, b: f.cat([_ones(f, 2, dtype=a), _ones(f, 2, dtype=b)]),
    "mse_loss": lambda f, a, b: f.nn.functional.mse_loss(_ones(f, 2, dtype=a), _ones(f, 2, dtype=b)),
    "huber_loss": lambda f, a, b: f.nn.functional.huber_loss(_ones(f, 2, dtype=a), _ones(f, 2, dtype=b)),
    "bce": lambda f, a, b: f.nn.functional.binary_cross_entropy(_ones(f, 2, dtype=a), _ones(f, 2, dtype=b)),
    "bce_logits": lambda f, a, b: f.nn.functional.binary_cross_entropy_with_logits(
        _ones(f, 2, dtype=a), _ones(f, 2, dtype=b)
    ),
    "kl_div": lambda f, a, b: f.nn.functional.kl_div(_ones(f, 2, dtype=a), _ones(f, 2, dtype=b), reduction="sum"),
    "cdist": lambda f, a, b: f.cdist(_ones(f, 2, 2, dtype=a), _ones(f, 2, 2, dtype=b)),
    "batch_norm": lambda f, a, b: f.nn.BatchNorm1d(2)(_ones(f, 2, 2, dtype=a)),
}
ONE: dict[str, Callable] = {
    "prod": lambda f, a: _ones(f, 2, dtype=a).prod(),
    "sum": lambda f, a: _ones(f, 2, dtype=a).sum(),
    "softmax": lambda f, a: _ones(f, 2, dtype=a).softmax(0),
    "trace": lambda f, a: _ones(f, 2, 2, dtype=a).trace(),
    "quantile": lambda f, a: f.quantile(_ones(f, 2, dtype=a), 0.5),
    "cross_entropy": lambda f, a: f.nn.functional.cross_entropy(_ones(f, 2, 2, dtype=a), f.tensor([0, 1])),
    "nll_loss": lambda f, a: f.nn.functional.nll_loss(_ones(f, 2, 2, dtype=a), f.tensor([0, 1])),
    "inverse": lambda f, a: f.inverse(_eye(f, a)),
    "cholesky_inverse": lambda f, a: f.cholesky_inverse(_eye(f, a)),
    "svd": lambda f, a: f.linalg.svd(_eye(f, a))[0],
    "vector_norm": lambda f, a: f.linalg.vector_norm(_ones(f, 2, dtype=a)),
    "rfft": lambda f, a: f.fft.rfft(_ones(f, 2, dtype=a)),
    "avg_pool3d": lambda f, a: f.nn.functional.avg_pool3d(_ones(f, 1, 1, 2, 2, 2, dtype=a), 2),
    "avg_pool2d": lambda f, a: f.nn.functional.avg_pool2d(_ones(f, 1, 1, 2, 2, dtype=a), 2),
    "max_pool3d": lambda f, a: f.nn.functional.max_pool3d(_ones(f, 1, 1, 2, 2, 2, dtype=a), 2),
    "max_pool3d_with_indices": lambda f, a: f.nn.functional.max_pool3d(
        _ones(f, 1, 1, 2, 2, 2, dtype=a), 2, return_indices=True
    )[0],
    "adaptive_max_pool3d": lambda f, a: f.nn.functional.adaptive_max_pool3d(_ones(f, 1, 1, 2, 2, 2, dtype=a), 1),
    "reflect": lambda f, a: f.nn.functional.pad(_ones(f, 1, 1, 4, dtype=a), (1, 1), mode="reflect"),
    "circular": lambda f, a: f.nn.functional.pad(_ones(f, 1, 1, 4, dtype=a), (1, 1), mode="circular"),
    "grid_sample": lambda f, a: f.nn.functional.grid_sample(
        _ones(f, 1, 1, 4, 4, dtype=a), f.zeros(1, 2, 2, 2), align_corners=False
    ),
}


def _dtype(f: Any, call: Callable, *dtypes: str) -> str:
    """The dtype of a result under autocast, or the kind of the error."""
    with f.autocast("cpu"):
        try:
            return str(call(f, *dtypes).dtype).split(".")[1]
        except RuntimeError:
            return "RuntimeError"


@pytest.mark.parametrize("name", TWO)
def test_operations_of_two_tensors_run_in_torchs_precision(torch: Any, name: str) -> None:
    pairs = [(a, b) for a in ("float32", "bfloat16", "float64") for b in ("float32", "bfloat16")]
    if name in (
        "attention",
        "bilinear",
        "conv_transpose2d_with_bias",
        "lstm",
        "encoder",
        "conv2d",
        "linear",
        "prelu",
        "batch_norm",
        "bce_logits",
        "cdist",
    ):
        pairs = pairs[:4]  # (one operand is float32 in any case)
    if name == "lstm":
        _need_onednn_of_lstm(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [_dtype(torch, TWO[name], *p) for p in pairs]
    assert [_dtype(ferro, TWO[name], *p) for p in pairs] == theirs


def _need_onednn_of_lstm(torch: Any) -> None:
    """Skips where PyTorch has no LSTM of bfloat16: oneDNN's, which it calls, needs AVX-512."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(2, 3)(torch.ones(4, 2, 2))
    except RuntimeError as error:
        if "could not create a primitive" not in str(error):
            raise
        pytest.skip(f"PyTorch has no LSTM of bfloat16 on this processor: {str(error).splitlines()[0]}")


RECURRENT: dict[str, Callable] = {
    "rnn": lambda f: f.nn.RNN(2, 3),
    "gru": lambda f: f.nn.GRU(2, 3, 2, bidirectional=True),
    "lstm": lambda f: f.nn.LSTM(2, 3, 2),
    "lstm_projected": lambda f: f.nn.LSTM(2, 3, proj_size=2),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_run_in_torchs_precision(torch: Any, name: str) -> None:
    def dtypes(f: Any) -> list[str]:
        layer, x = RECURRENT[name](f), f.ones(4, 2, 2)
        packed = f.nn.utils.rnn.pack_sequence([f.ones(3, 2), f.ones(2, 2)])
        with f.autocast("cpu", f.bfloat16):
            results = [layer(x), layer(x.bfloat16()), layer(packed)]
        found = [
            t for out, state in results for t in (getattr(out, "data", out), *(state if "lstm" in name else (state,)))
        ]
        return [str(t.dtype).split(".")[1] for t in found]

    if name == "lstm":
        _need_onednn_of_lstm(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (of PyTorch's: oneDNN does not project)
        theirs = dtypes(torch)
    assert dtypes(ferro) == theirs


def test_a_gru_under_autocast_is_torchs(torch: Any) -> None:
    def run(f: Any) -> list:
        layer = f.nn.GRU(2, 3)
        for i, p in enumerate(layer.parameters()):
            p.data.copy_(f.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1) / 4)
        with f.autocast("cpu", f.bfloat16):
            out = layer(f.linspace(-1, 1, 10).reshape(5, 1, 2))[0]
        out.sum().backward()
        return [out.tolist(), *[p.grad.tolist() for p in layer.parameters()]]

    for ours, theirs in zip(run(ferro), run(torch), strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=2e-2, atol=2e-2)


def test_every_name_on_the_lists_is_an_operation() -> None:
    assert {*OPS, "addbmm"} >= casting.LOW | casting.FULL  # (which is made of bmm and a sum)


@pytest.mark.parametrize("name", ONE)
def test_operations_of_one_tensor_run_in_torchs_precision(torch: Any, name: str) -> None:
    for d in ("float32", "bfloat16", "float64"):
        assert _dtype(ferro, ONE[name], d) == _dtype(torch, ONE[name], d)


def test_a_step_of_training_is_torchs(torch: Any) -> None:
    def step(f: Any) -> list:
        weights = [f.full((3, 4), 0.3).requires_grad_(), f.full((2, 3), -0.7).requires_grad_()]
        with f.autocast("cpu", dtype=f.float16):
            y = f.nn.functional.linear(f.linspace(-1, 1, 8).reshape(2, 4), weights[0]).relu()
            loss = f.nn.functional.mse_loss(f.nn.functional.linear(y, weights[1]), f.ones(2, 2))
        assert loss.dtype is f.float32
        loss.backward()
        assert all(w.grad.dtype is f.float32 for w in weights)
        return [loss.item(), *[w.grad.tolist() for w in weights]]

    for ours, theirs in zip(step(ferro), step(torch), strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=2e-3, atol=1e-4)


def test_blocks_nest_end_and_decorate() -> None:
    x = ferro.ones(2, 2)
    with ferro.autocast("cpu", dtype=ferro.float16):
        assert (x @ x).dtype is ferro.float16
        assert ferro.get_autocast_dtype("cpu") is ferro.float16
        with ferro.autocast("cpu", enabled=False):
            assert not ferro.is_autocast_enabled("cpu")
            assert (x @ x).dtype is ferro.float32
        with ferro.no_grad(), ferro.autocast("cpu"):
            assert (x @ x).dtype is ferro.float16
        assert ferro.is_autocast_enabled("cpu")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(ferro.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        assert seen == [False]
    assert not ferro.is_autocast_enabled("cpu")
    assert ferro.autocast("cpu")(lambda: x @ x)().dtype is ferro.bfloat16
    ferro.set_autocast_enabled("cpu", True)
    assert (x @ x).dtype is ferro.bfloat16
    ferro.set_autocast_enabled("cpu", False)
    assert (x @ x).dtype is ferro.float32


def test_wrong_settings_are_refused_as_torch_does(torch: Any) -> None:
    def said(f: Any, call: Callable) -> tuple:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                call(f)
            except (RuntimeError, ValueError, TypeError) as e:
                return type(e), str(e).split("got: ")[0]
        return tuple(str(w.message) for w in seen)

    for call in (
        lambda f: f.autocast("cuda"),
        lambda f: f.autocast("cpu", dtype=f.float32),
        lambda f: f.autocast("cpu", dtype=f.float32, enabled=False),
        lambda f: f.autocast(f.device("cpu")),
        lambda f: f.autocast("cpu")(3),
        lambda f: f.autocast("meta"),
        lambda f: f.cpu.amp.autocast(),
    ):
        ours, theirs = said(ferro, call), said(torch, call)
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine is other or str(other) in str(mine)
    with pytest.raises(RuntimeError, match="Invalid device string: 'not a device'"):
        ferro.autocast("not a device")


def test_custom_functions_keep_the_precision_of_forward() -> None:
    seen = []

    class Product(ferro.autograd.Function):
        @staticmethod
        @ferro.amp.custom_fwd(device_type="cpu", cast_inputs=ferro.float32)
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a.dtype, ferro.is_autocast_enabled("cpu")))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @ferro.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            seen.append((g.dtype, ferro.is_autocast_enabled("cpu")))
            return g @ b.T, a.T @ g

    a = ferro.ones(2, 2, dtype=ferro.bfloat16, requires_grad=True)
    with ferro.autocast("cpu"):
        y = Product.apply(a, ferro.eye(2))
        y.sum().backward()
    assert seen == [(ferro.float32, False), (ferro.float32, False)]
    assert a.grad.dtype is ferro.bfloat16
