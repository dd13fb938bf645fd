"""Derivatives at kinks, ties and singular points: PyTorch's choice of subgradient, everywhere the same as in PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.autograd.both import account, both, leaf

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")
import ferro  # noqa: E402 (after the check that torch is there)

INF, NAN = float("inf"), float("nan")
TIED = [3.0, 1.0, 3.0, 2.0, 3.0, 1.0]
EDGES = [-INF, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, INF, NAN]


def _F(T: Any) -> Any:
    return T.nn.functional


REDUCTIONS = {
    "max": lambda T, x: x.max(),
    "min": lambda T, x: x.min(),
    "amax": lambda T, x: x.amax(),
    "amin": lambda T, x: x.amin(),
    "amax of rows": lambda T, x: x.view(2, 3).amax(1),
    "amin of both": lambda T, x: x.view(2, 3).amin((0, 1)),
    "aminmax": lambda T, x: sum(T.aminmax(x)),
    "max of rows": lambda T, x: x.view(2, 3).max(1).values,
    "min of columns": lambda T, x: x.view(2, 3).min(0).values,
    "median": lambda T, x: x.median(),
    "median of rows": lambda T, x: x.view(2, 3).median(1).values,
    "nanmedian": lambda T, x: x.nanmedian(),
    "mode": lambda T, x: x.mode().values,
    "kthvalue": lambda T, x: x.kthvalue(4).values,
    "quantile": lambda T, x: x.quantile(0.5),
    "quantile between": lambda T, x: x.quantile(0.35),
    "sort": lambda T, x: x.sort(stable=True).values * T.arange(1.0, 7.0, dtype=T.float64),
    "cummax": lambda T, x: x.cummax(0).values * T.arange(1.0, 7.0, dtype=T.float64),
    "cummin": lambda T, x: x.cummin(0).values * T.arange(1.0, 7.0, dtype=T.float64),
    "norm inf": lambda T, x: T.linalg.vector_norm(x, INF),
    "norm -inf": lambda T, x: T.linalg.vector_norm(x, -INF),
    "prod": lambda T, x: (x - 1).prod(),
    "prod of one zero": lambda T, x: (x - 2).prod(),
    "cumprod": lambda T, x: (x - 2).cumprod(0),
    "std of equals": lambda T, x: (x * 0 + 1).std(),
    "var of equals": lambda T, x: (x * 0 + 1).var(),
    "logsumexp": lambda T, x: x.logsumexp(0),
    "max_pool1d": lambda T, x: _F(T).max_pool1d(x.view(1, 1, 6), 3, 1),
    "max_pool2d": lambda T, x: _F(T).max_pool2d(x.view(1, 1, 2, 3), 2, 1),
    "adaptive_max_pool1d": lambda T, x: _F(T).adaptive_max_pool1d(x.view(1, 1, 6), 2),
    "scatter_reduce amax": lambda T, x: T.zeros(2, dtype=T.float64).scatter_reduce(
        0, T.tensor([0, 0, 0, 1, 1, 1]), x, "amax"
    ),
    "scatter_reduce prod": lambda T, x: T.ones(2, dtype=T.float64).scatter_reduce(
        0, T.tensor([0, 0, 0, 1, 1, 1]), x - 1, "prod"
    ),
    "unique": lambda T, x: x.sort(stable=True, descending=True).values[:3].sum(),
    "renorm": lambda T, x: x.view(2, 3).renorm(2, 0, 1.0),
    "msort": lambda T, x: T.msort(x) * T.arange(1.0, 7.0, dtype=T.float64),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_at_ties(name: str) -> None:
    def program(T: Any) -> Any:
        x = leaf(T, *TIED)
        y = REDUCTIONS[name](T, x)
        y.sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    for found, wanted in zip(program(ferro), program(torch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["topk", "sort", "median", "mode", "kthvalue", "max", "cummax"])
def test_the_gradient_goes_where_the_index_says(name: str) -> None:
    x = leaf(ferro, *TIED)
    values, indices = getattr(x, name)(*{"topk": (2,), "kthvalue": (4,), "sort": ()}.get(name, (0,)))
    values.sum().backward()
    assert x[indices].tolist() == values.tolist()
    assert x.grad.tolist() == np.bincount(np.ravel(indices.numpy()), minlength=6).tolist()


POINTWISE = {
    "abs": lambda T, x: x.abs(),
    "sign": lambda T, x: x.sign(),
    "sgn": lambda T, x: x.sgn(),
    "relu": lambda T, x: x.relu(),
    "relu6": lambda T, x: _F(T).relu6(x * 6),
    "leaky_relu": lambda T, x: _F(T).leaky_relu(x, 0.1),
    "elu": lambda T, x: _F(T).elu(x),
    "celu": lambda T, x: _F(T).celu(x),
    "selu": lambda T, x: _F(T).selu(x),
    "prelu": lambda T, x: _F(T).prelu(x, T.tensor([0.25], dtype=T.float64)),
    "hardtanh": lambda T, x: _F(T).hardtanh(x),
    "hardsigmoid": lambda T, x: _F(T).hardsigmoid(x * 3),
    "hardswish": lambda T, x: _F(T).hardswish(x * 3),
    "hardshrink": lambda T, x: _F(T).hardshrink(x),
    "softshrink": lambda T, x: _F(T).softshrink(x),
    "softsign": lambda T, x: _F(T).softsign(x),
    "threshold": lambda T, x: _F(T).threshold(x, 0.5, 7.0),
    "softplus": lambda T, x: _F(T).softplus(x * 20),
    "clamp": lambda T, x: x.clamp(-1, 1),
    "clamp of equal bounds": lambda T, x: x.clamp(0.5, 0.5),
    "clamp of crossed bounds": lambda T, x: x.clamp(1, -1),
    "clamp_min": lambda T, x: x.clamp_min(0.5),
    "clamp_max": lambda T, x: x.clamp_max(-0.5),
    "clamp with tensors": lambda T, x: x.clamp(T.tensor(-1.0, dtype=T.float64), T.tensor(1.0, dtype=T.float64)),
    "floor": lambda T, x: x.floor(),
    "frac": lambda T, x: x.frac(),
    "trunc": lambda T, x: x.trunc(),
    "round": lambda T, x: x.round(),
    "sqrt": lambda T, x: x.sqrt(),
    "rsqrt": lambda T, x: x.rsqrt(),
    "log": lambda T, x: x.log(),
    "log1p": lambda T, x: x.log1p(),
    "reciprocal": lambda T, x: x.reciprocal(),
    "pow 0": lambda T, x: x**0,
    "pow 0.0": lambda T, x: x**0.0,
    "pow 0.5": lambda T, x: x**0.5,
    "pow 1": lambda T, x: x**1,
    "pow 2": lambda T, x: x**2,
    "pow -1": lambda T, x: x**-1,
    "pow 1.5": lambda T, x: x**1.5,
    "2 pow": lambda T, x: 2**x,
    "0 pow": lambda T, x: T.pow(0.0, x),
    "acos": lambda T, x: x.acos(),
    "asin": lambda T, x: x.asin(),
    "atanh": lambda T, x: x.atanh(),
    "acosh": lambda T, x: x.acosh(),
    "tan": lambda T, x: x.tan(),
    "sinc": lambda T, x: T.where(x.isinf(), 0.0, x).sinc(),
    "xlogy": lambda T, x: T.xlogy(x, 2.0),
    "xlogx": lambda T, x: T.special.entr(x),
    "logit": lambda T, x: x.abs().logit(),
    "logit eps": lambda T, x: x.logit(0.1),
    "nan_to_num": lambda T, x: x.nan_to_num(1.0, 2.0, 3.0),
    "sigmoid": lambda T, x: (x * 1000).sigmoid(),
    "logsigmoid": lambda T, x: _F(T).logsigmoid(x * 1000),
    "tanh": lambda T, x: (x * 100).tanh(),
    "erf": lambda T, x: x.erf(),
    "masked": lambda T, x: T.where(x > 0, x, x * 0),
    # (at infinities PyTorch's slopes of these two are nan, ferro's the limits: tests/ops/test_range.py)
    "gelu": lambda T, x: _F(T).gelu(x.nan_to_num(0.0, 0.0, 0.0)),
    "mish": lambda T, x: _F(T).mish(x.nan_to_num(0.0, 0.0, 0.0)),
    "i0": lambda T, x: x.i0(),
    "fmod": lambda T, x: x.fmod(0.5),
    "remainder": lambda T, x: x.remainder(0.5),
    "smooth_l1": lambda T, x: _F(T).smooth_l1_loss(x, T.zeros(11, dtype=T.float64), reduction="none"),
    "huber": lambda T, x: _F(T).huber_loss(x, T.zeros(11, dtype=T.float64), reduction="none"),
    "l1": lambda T, x: _F(T).l1_loss(x, T.zeros(11, dtype=T.float64), reduction="none"),
    "deg2rad": lambda T, x: x.deg2rad(),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", POINTWISE)
def test_functions_at_kinks_zeros_and_infinities(name: str) -> None:
    def program(T: Any) -> Any:
        x = leaf(T, *EDGES)
        POINTWISE[name](T, x).backward(T.arange(1.0, 12.0, dtype=T.float64))
        return x.grad.numpy(force=True)

    rtol = 1e-7 if name == "hardsigmoid" else 1e-9  # PyTorch multiplies by a sixth rounded to float32
    np.testing.assert_allclose(program(ferro), program(torch), rtol=rtol, atol=1e-12)


BINARY = {
    "maximum": lambda T, x, y: T.maximum(x, y),
    "minimum": lambda T, x, y: T.minimum(x, y),
    "fmax": lambda T, x, y: T.fmax(x, y),
    "fmin": lambda T, x, y: T.fmin(x, y),
    "max of two": lambda T, x, y: T.max(x, y),
    "atan2": lambda T, x, y: T.atan2(x, y),
    "hypot": lambda T, x, y: T.hypot(x + 1, y),
    "pow": lambda T, x, y: T.pow(x, y),
    "div": lambda T, x, y: x / y,
    "fmod": lambda T, x, y: T.fmod(x, y),
    "remainder": lambda T, x, y: T.remainder(x, y),
    "copysign": lambda T, x, y: T.copysign(x, y),
    "clamp by tensors": lambda T, x, y: x.clamp(y, y + 1),
    "clamp_min": lambda T, x, y: x.clamp_min(y),
    "clamp_max": lambda T, x, y: x.clamp_max(y),
    "xlogy": lambda T, x, y: T.xlogy(x, y),
    "logaddexp": lambda T, x, y: T.logaddexp(x, y),
    "logaddexp2": lambda T, x, y: T.logaddexp2(x, y),
    "where": lambda T, x, y: T.where(x >= y, x, y),
    "dist": lambda T, x, y: T.dist(x[:3], x[:3].detach() + 0 * y[:3]),
    "dist 1": lambda T, x, y: T.dist(x[1:4], y[1:4], 1),
    "pairwise": lambda T, x, y: T.nn.functional.pairwise_distance(x[1:4], y[1:4]),
    "cdist of equals": lambda T, x, y: T.cdist(x[1:4, None], x[1:4, None].detach() + 0 * y[1:4, None]),
    "cosine_similarity": lambda T, x, y: T.nn.functional.cosine_similarity(x[3:6], y[3:6], 0),
    "normalize": lambda T, x, y: T.nn.functional.normalize(x[3:6] * 0 + y[3:6] * 0, dim=0),
}
LEFT = [-1.0, 0.0, 1.0, 2.0, 0.0, -0.0, 3.0]
RIGHT = [-1.0, 0.0, 2.0, 1.0, -1.0, 0.0, 3.0]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_at_ties(name: str) -> None:
    def program(T: Any) -> Any:
        x, y = leaf(T, *LEFT), leaf(T, *RIGHT)
        z = BINARY[name](T, x, y)
        gx, gy = T.autograd.grad(
            z, (x, y), T.arange(1.0, 1.0 + z.numel(), dtype=T.float64).reshape(z.shape), allow_unused=True
        )
        return [np.zeros(7) if g is None else g.numpy() for g in (gx, gy)]

    np.testing.assert_allclose(program(ferro), program(torch), rtol=1e-9, atol=1e-12)


def test_where_torch_has_nan_and_there_is_a_subgradient_or_limit() -> None:
    x, y = leaf(ferro, 0.0, 3.0), leaf(ferro, 0.0, 4.0)
    ferro.hypot(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 0.6], [0.0, 0.8])
    z = leaf(ferro, INF, -INF, 0.0)
    z.sinc().sum().backward()
    assert z.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1])
def test_norms_at_zero(p: float) -> None:
    def program(T: Any) -> Any:
        found = []
        for values in ((0.0, 0.0, 0.0), (0.0, 2.0, -2.0), (0.0, 1.0, 3.0)):
            x = leaf(T, *values)
            (T.linalg.vector_norm(x, p) + 0 * x.sum()).backward()
            found.append(x.grad.numpy())
        return found

    np.testing.assert_allclose(program(ferro), program(torch), rtol=1e-9, atol=1e-12)


@both
def test_second_derivatives_at_ties(T: Any) -> Any:
    found = []
    for f in (
        lambda x: x.amax() * x.sum(),
        lambda x: x.max() ** 3,
        lambda x: x.sort(stable=True).values[2] ** 2 * x[0],
        lambda x: x.relu() ** 2,
        lambda x: x.abs() ** 3,
        lambda x: x.clamp(1, 2) ** 2,
        lambda x: (x * x).norm(),
        lambda x: T.maximum(x, x.flip(0)) ** 2,
        lambda x: x.median() ** 2,
    ):
        x = leaf(T, *TIED)
        (g,) = T.autograd.grad(f(x).sum(), x, create_graph=True)
        found.append((g, T.autograd.grad((g * T.arange(1.0, 7.0, dtype=T.float64)).sum(), x, allow_unused=True)[0]))
    return found


# -- overlapping memory ---------------------------------------------------------------------------------------------------------

OVERLAPPING = {
    "expand": lambda T, x: x[:2].view(2, 1).expand(2, 3),
    "expand of expand": lambda T, x: x[:2].view(2, 1).expand(2, 3).unsqueeze(0).expand(2, 2, 3),
    "unfold": lambda T, x: x.unfold(0, 3, 1),
    "unfold twice": lambda T, x: x.view(2, 3).unfold(1, 2, 1).unfold(0, 2, 1),
    "as_strided windows": lambda T, x: x.as_strided((4, 3), (1, 1)),
    "as_strided repeats": lambda T, x: x.as_strided((3, 2), (0, 1), 2),
    "as_strided of expand": lambda T, x: (x[:3] * 1).expand(2, 3).as_strided((2, 2), (0, 1)),
    "as_strided of a slice": lambda T, x: x[2:].as_strided((2, 2), (1, 1)),
    "as_strided of a transpose": lambda T, x: x.view(2, 3).t().as_strided((3, 2), (2, 1)),
    "as_strided of as_strided": lambda T, x: x.as_strided((3, 2), (2, 1)).as_strided((2, 2), (1, 2), 1),
    "broadcast_to": lambda T, x: T.broadcast_to(x[:3], (2, 3)),
    "diagonal of expand": lambda T, x: x[:3].expand(3, 3).diagonal(),
    "meshgrid": lambda T, x: T.meshgrid(x[:2], x[2:5], indexing="ij")[1],
    "repeat_interleave": lambda T, x: x[:3].repeat_interleave(2),
    "index with repeats": lambda T, x: x[T.tensor([0, 0, 1, 0])],
    "gather with repeats": lambda T, x: x.gather(0, T.tensor([2, 2, 2, 5])),
    "unfold of expand": lambda T, x: x[:3].expand(2, 3).unfold(1, 2, 1),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_gradients_of_overlapping_views_add_up(name: str) -> None:
    def program(T: Any) -> Any:
        x = leaf(T, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
        y = OVERLAPPING[name](T, x * 1)
        weights = T.arange(1.0, 1.0 + y.numel(), dtype=T.float64).reshape(y.shape)
        (g,) = T.autograd.grad((y**3 * weights).sum(), x, create_graph=True)
        return y, g, T.autograd.grad((g * g).sum(), x)[0]

    assert account(program(ferro)) == account(program(torch))


def test_products_of_several_zeros_have_no_second_derivative() -> None:
    for values, fails in (([0.0, 0.0], True), ([0.0, 2.0], False)):
        for name in ("scatter_reduce", "index_reduce"):
            found = []
            for T in (torch, ferro):
                x, index = T.tensor([1.0], requires_grad=True), T.tensor([0, 0])
                src = T.tensor(values, requires_grad=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    out = getattr(T, name)(x, 0, index, src, "prod")
                (g,) = T.autograd.grad(out, src, create_graph=True)
                if fails:
                    with pytest.raises(RuntimeError, match=r"Double backward is unsupported for .* when >1 zeros in"):
                        T.autograd.grad(g.sum(), src)
                else:
                    found.append((g.tolist(), T.autograd.grad(g.sum(), src)[0].tolist()))
            assert fails or found[0] == found[1]
