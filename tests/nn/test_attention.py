"""Attention: what it refuses, the algorithms that a program rules out, masks and shared heads, as in PyTorch."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

import pytest

import ferro
from ferro.nn.attention import SDPBackend, sdpa_kernel

F = ferro.nn.functional


def _randn(f: Any, *shape: int) -> Any:
    return f.linspace(-2, 2, int(f.zeros(shape).numel())).reshape(shape).sin()


def _three(f: Any, *shape: int) -> tuple:
    return (_randn(f, *shape),) * 3


CALLS: dict[str, Any] = {
    "float32": lambda f: (_three(f, 2, 2, 3, 8), {}),
    "float64": lambda f: ([x.double() for x in _three(f, 2, 2, 3, 8)], {}),
    "three_dimensions": lambda f: (_three(f, 2, 3, 8), {}),
    "broadcast": lambda f: ((_randn(f, 1, 2, 3, 8), *_three(f, 2, 2, 3, 8)[:2]), {}),
    "boolean_mask": lambda f: ((*_three(f, 2, 2, 3, 8), f.ones(3, 3).tril().bool()), {}),
    "mask_with_gradient": lambda f: ((*_three(f, 2, 2, 3, 8), f.ones(3, 3).requires_grad_()), {}),
    "dropout": lambda f: (_three(f, 2, 2, 3, 8), {"dropout_p": 0.5}),
    "empty": lambda f: (_three(f, 2, 2, 0, 8), {}),
    "strided": lambda f: ([x.transpose(2, 3) for x in _three(f, 2, 2, 3, 8)], {}),
    "wide_heads": lambda f: (_three(f, 1, 1, 2, 257), {}),
    "other_size_of_value": lambda f: ((*_three(f, 2, 2, 3, 8)[:2], _randn(f, 2, 2, 3, 5)), {}),
    "shared_heads": lambda f: ((_randn(f, 1, 4, 3, 2), *_three(f, 1, 2, 3, 2)[:2]), {"enable_gqa": True}),
    "causal": lambda f: (_three(f, 2, 2, 3, 8), {"is_causal": True}),
    "float32_mask_of_doubles": lambda f: ((*[x.double() for x in _three(f, 2, 3, 8)], f.ones(3, 3).tril()), {}),
}


def _run(f: Any, attention: Any, name: str, backends: list[str]) -> Any:
    """The result, or the error with its warnings."""
    args, kwargs = CALLS[name](f)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            with attention.sdpa_kernel([getattr(attention.SDPBackend, b) for b in backends]):
                return f.nn.functional.scaled_dot_product_attention(*args, **kwargs)
        except RuntimeError as e:
            return str(e), " ".join(str(w.message) for w in seen)


@pytest.mark.parametrize(
    "backends", [["MATH"], ["FLASH_ATTENTION"], ["EFFICIENT_ATTENTION", "CUDNN_ATTENTION"], []], ids=str
)
@pytest.mark.parametrize("name", CALLS)
def test_algorithms_that_are_ruled_out_are_refused_where_torch_refuses(torch: Any, name: str, backends: list) -> None:
    theirs = importlib.import_module("torch.nn.attention")
    ours, wanted = _run(ferro, ferro.nn.attention, name, backends), _run(torch, theirs, name, backends)
    if isinstance(wanted, tuple):
        assert isinstance(ours, tuple), f"PyTorch refuses: {wanted}"
        assert wanted[0].split(". ")[0].split(".  ")[0] in ours[0]
        for reason in wanted[1].split("(Triggered")[:1]:
            assert reason.strip() in ours[1]
    else:
        assert not isinstance(ours, tuple), ours
        if name != "dropout":
            torch.testing.assert_close(torch.from_numpy(ours.detach().numpy()), wanted.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "float32_mask_of_doubles"])
def test_what_torch_would_take_is_named(torch: Any, name: str) -> None:
    numbers = []
    for f in (ferro, torch):
        args, kwargs = CALLS[name](f)
        numbers.append(f._fused_sdp_choice(*args, **kwargs))
    assert numbers[0] == numbers[1]


def test_switches_are_put_back_whatever_happens() -> None:
    x = ferro.ones(1, 1, 2, 2)
    with sdpa_kernel([]):
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(x, x, x)
            assert not ferro.backends.cuda.flash_sdp_enabled()
        with pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(x, x, x)
    with pytest.raises(ZeroDivisionError), sdpa_kernel([]):
        raise ZeroDivisionError
    assert ferro.backends.cuda.flash_sdp_enabled()
    ferro.backends.cuda.enable_math_sdp(False)
    try:
        assert not ferro.backends.cuda.math_sdp_enabled()
        with pytest.warns(UserWarning, match="dropout"), pytest.raises(RuntimeError, match="No available kernel"):
            F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    finally:
        ferro.backends.cuda.enable_math_sdp(True)
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"):
        sdpa_kernel("math")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="set_sdp_use_math expects a bool, but got int"):
        ferro.backends.cuda.enable_math_sdp(1)  # type: ignore[arg-type]


REFUSED: dict[str, Any] = {
    "dimensions": lambda f, x: (x[0, 0, 0], x, x),
    "dtypes": lambda f, x: (x, x.double(), x),
    "mask_of_doubles": lambda f, x: (x, x, x, f.ones(3, 3, dtype=f.float64)),
    "mask_of_integers": lambda f, x: (x, x, x, f.ones(3, 3, dtype=f.int32)),
    "sizes": lambda f, x: (x, x[..., :4], x),
    "integers": lambda f, x: (x.int(), x.int(), x.int()),
    "complex": lambda f, x: (x.to(f.complex64),) * 3,
    "dropout": lambda f, x: (x, x, x, None, 1.5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_torchs(torch: Any, name: str) -> None:
    errors = []
    for f in (torch, ferro):
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            f.nn.functional.scaled_dot_product_attention(*REFUSED[name](f, _randn(f, 2, 2, 3, 8)))
        errors.append(error.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]).split("\n")[0].rstrip(".") in str(errors[1])


def test_shapes_that_do_not_fit_are_refused() -> None:
    x: Any = ferro.ones(2, 2, 3, 8)
    cases: list[tuple[tuple, str]] = [
        ((x, x, x[:, :, :2]), "key and value in the one before"),
        ((x, x, x, ferro.ones(5, 2, 2, 3, 3)), "cannot be broadcast to the scores"),
        ((x, x, x, ferro.ones(4, 3)), "cannot be broadcast to the scores"),
    ]
    for args, message in cases:
        with pytest.raises(RuntimeError, match=message):
            F.scaled_dot_product_attention(*args)
    assert F.scaled_dot_product_attention(x[:, :1], x, x[:, :1]).shape == (2, 2, 3, 8)
    with pytest.raises(RuntimeError, match=re.escape("Explicit attn_mask should not be set when is_causal=True")):
        F.scaled_dot_product_attention(x, x, x, ferro.ones(3, 3), is_causal=True)


def test_a_mask_for_each_head_has_the_heads_shape() -> None:
    layer, x = ferro.nn.MultiheadAttention(4, 4), ferro.ones(4, 4)
    assert ferro.nn.modules.activation.MultiheadAttention is ferro.nn.MultiheadAttention
    assert layer(x, x, x, attn_mask=ferro.zeros(4, 4, 4, dtype=ferro.bool))[0].shape == (4, 4)
    with pytest.raises(AssertionError, match=re.escape("Expected `attn_mask` shape to be (4, 4, 4)")):
        layer(x, x, x, attn_mask=ferro.zeros(5, 4, 4, dtype=ferro.bool))
    w = layer.in_proj_weight
    with pytest.raises(AssertionError, match="expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D"):
        F.multi_head_attention_forward(
            x, x, x, 4, 4, w, None, None, None, False, 0.0, layer.out_proj.weight, None, attn_mask=ferro.zeros(4)
        )


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_bias_of_another_dtype_is_added_in_that_of_the_product(torch: Any, need_weights: bool) -> None:
    results = []
    for f in (ferro, torch):
        layer = f.nn.MultiheadAttention(4, 2, batch_first=True, dtype=f.float64)
        with f.no_grad():
            for p in layer.parameters():
                p.copy_(_randn(f, *p.shape))
        layer.in_proj_bias = f.nn.Parameter(layer.in_proj_bias.detach().to(f.float16))
        x = _randn(f, 2, 3, 4).double()
        results.append(layer(x, x, x, need_weights=need_weights)[0])
    assert results[0].dtype is ferro.float64
    torch.testing.assert_close(torch.from_numpy(results[0].detach().numpy()), results[1].detach(), rtol=1e-5, atol=1e-5)
