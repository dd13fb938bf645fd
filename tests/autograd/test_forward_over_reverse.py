"""Forward mode over a recorded backward: formulas that read results, inputs and parameters, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

CASES = {
    "exp": lambda T, x: x.exp() * x,
    "tanh": lambda T, x: x.tanh(),
    "sqrt": lambda T, x: x.sqrt(),
    "softmax": lambda T, x: x.softmax(1) * x,
    "logsumexp": lambda T, x: T.logsumexp(x, 1),
    "sort": lambda T, x: x.sort().values ** 3,
    "cumprod": lambda T, x: x.cumprod(0),
    "inv": lambda T, x: T.linalg.inv(x),
    "in place": lambda T, x: (x * 1).exp_(),
}


def product(T: Any, function: Any) -> Any:
    """The second derivative of the sum, times a direction."""
    x = T.tensor([[0.3, 0.7], [1.2, 0.4]], dtype=T.float64, requires_grad=True)
    forward_ad = T.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, T.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=T.float64))
        (g,) = T.autograd.grad(function(T, dual).sum(), x, create_graph=True)
        return forward_ad.unpack_dual(g).tangent.tolist()


def exponential(T: Any, x: Any) -> Any:
    """A custom Function that saves its output."""

    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.exp()
            ctx.save_for_backward(out)
            ctx.save_for_forward(out)
            ctx.out = out
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t * ctx.out

    return Exp.apply(x) * x


CASES["Function"] = exponential


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own decompositions
@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_by_forward_over_reverse(name: str, torch: Any) -> None:
    assert np.allclose(product(ferro, CASES[name]), product(torch, CASES[name]), rtol=1e-12)
