"""Complex autograd: PyTorch's convention, dtypes of gradients, real and complex mixed, .real/.imag/view_as_real as writable views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from tests.autograd.both import account, both, error, leaf

POINTS = [0.5 + 1.5j, -1.25 + 0.75j, 2.0 - 0.5j]


def complex_leaf(T: Any, values: Any = POINTS) -> Any:
    return T.tensor(values, dtype=T.complex128, requires_grad=True)


FUNCTIONS = {
    "abs": lambda T, z: z.abs(),
    "abs of zero": lambda T, z: (z - z.detach()).abs(),
    "angle": lambda T, z: z.angle(),
    "square of abs": lambda T, z: (z * z.conj()).real,
    "real": lambda T, z: z.real,
    "imag": lambda T, z: z.imag * 2,
    "holomorphic": lambda T, z: (z**3 + z.exp() - 1 / z).real,
    "conj": lambda T, z: (z.conj() * (1 + 2j)).imag,
    "conj_physical": lambda T, z: (z.conj_physical() * (1 + 2j)).imag,
    "sqrt": lambda T, z: z.sqrt().real,
    "log": lambda T, z: z.log().imag,
    "sin": lambda T, z: z.sin().abs(),
    "tanh": lambda T, z: z.tanh().real,
    "sigmoid": lambda T, z: z.sigmoid().imag,
    "sgn": lambda T, z: z.sgn().real,
    "pow": lambda T, z: (z ** (0.5 + 1j)).real,
    "power of": lambda T, z: ((1 + 1j) ** z).real,
    "by a real tensor": lambda T, z: (z * T.tensor([1.0, 2.0, 3.0], dtype=T.float64)).imag,
    "divided": lambda T, z: ((1 + 1j) / z).real,
    "view_as_real": lambda T, z: T.view_as_real(z) ** 2,
    "polar": lambda T, z: T.polar(z.abs(), z.angle()).real,
    "complex": lambda T, z: T.complex(z.imag, z.real).abs(),
    "cumprod": lambda T, z: z.cumprod(0).real,
    "prod": lambda T, z: z.prod().imag,
    "sum": lambda T, z: z.sum().abs(),
    "norm": lambda T, z: T.linalg.vector_norm(z, 3),
    "dot": lambda T, z: T.dot(z, z.flip(0)).real,
    "vdot": lambda T, z: T.vdot(z, z * 1j).imag,
    "matmul": lambda T, z: (z.view(3, 1) @ z.view(1, 3)).real,
    "where": lambda T, z: T.where(z.real > 0, z, z * 1j).imag,
    "mean": lambda T, z: z.mean().real,
    "index": lambda T, z: z[T.tensor([0, 0, 2])].imag,
    "reciprocal": lambda T, z: z.reciprocal().imag,
    "atan": lambda T, z: z.atan().real,
    "acosh": lambda T, z: z.acosh().real,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_real_losses(name: str, torch: Any) -> None:
    def program(T: Any) -> Any:
        z = complex_leaf(T)
        y = FUNCTIONS[name](T, z)
        weights = T.arange(1.0, 1.0 + y.numel(), dtype=T.float64).reshape(y.shape)
        (g,) = T.autograd.grad((y * weights).sum(), z, create_graph=True)
        if name == "abs of zero":
            return g.detach().resolve_conj().numpy(), g.detach().resolve_conj().numpy()
        (h,) = T.autograd.grad((g * g.conj()).real.sum() + 0 * z.real.sum(), z)
        return g.detach().resolve_conj().numpy(), h.resolve_conj().numpy()

    for found, wanted in zip(program(ferro), program(torch), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@both
def test_the_gradient_is_the_direction_of_steepest_ascent(T: Any) -> Any:
    z = complex_leaf(T)
    loss = (z.abs() ** 2).sum()
    loss.backward()
    with T.no_grad():
        z -= 0.25 * z.grad
    return z.grad, (z.abs() ** 2).sum() < loss, z


@both
def test_dtypes_of_gradients(T: Any) -> Any:
    x, z = leaf(T, 1.0, 2.0, 3.0), complex_leaf(T)
    single = T.ones(3, requires_grad=True)
    found = []
    for y in (x * z, x + z, z / x, x.to(T.complex128) * z, T.complex(x, x) * z, (single * z), z.pow(x), x * 2j * z):
        gs = T.autograd.grad(y.abs().sum(), (x, z, single), allow_unused=True)
        found.append([None if g is None else g for g in gs])
    return found


@both
def test_seeds_and_losses(T: Any) -> Any:
    z = complex_leaf(T)
    x = leaf(T, 1.0, 2.0, 3.0)
    y = z * z
    return (
        error(y.sum().backward, "grad can be implicitly created only for real scalar outputs"),
        T.autograd.grad(y, z, T.tensor(POINTS, dtype=T.complex128), retain_graph=True)[0],
        error(lambda: T.autograd.grad(z * z, z, T.ones(3, dtype=T.float64)), "complex"),
        error(lambda: T.autograd.grad(x * x, x, T.tensor(POINTS, dtype=T.complex128)), "complex"),
        T.autograd.grad(x * 1j, x, T.tensor(POINTS, dtype=T.complex128))[0],
    )


@both
def test_the_grad_attribute_keeps_its_dtype(T: Any) -> Any:
    z = complex_leaf(T)
    (z.real * 2).sum().backward()
    (z * 1j).real.sum().backward()
    x = leaf(T, 1.0)
    return (
        z.grad,
        error(lambda: setattr(x, "grad", T.ones(1, dtype=T.complex128))),
        error(lambda: setattr(z, "grad", T.ones(3))),
    )


# -- views ---------------------------------------------------------------------------------------------------------------------------

WRITES = {
    "real times": lambda T, z, x: z.real.mul_(x),
    "imag plus": lambda T, z, x: z.imag.add_(x),
    "an element of imag": lambda T, z, x: z.imag.__setitem__(0, x[1] * 2),
    "real set": lambda T, z, x: setattr(z, "real", x * 5),
    "imag set": lambda T, z, x: setattr(z, "imag", x * x),
    "real zeroed": lambda T, z, x: z.real.zero_(),
    "view_as_real": lambda T, z, x: T.view_as_real(z)[:, 1].sub_(x),
    "view_as_real of a slice": lambda T, z, x: T.view_as_real(z[1:]).mul_(x[0]),
    "real of a slice": lambda T, z, x: z[::2].real.copy_(x[:2]),
    "complex into a slice": lambda T, z, x: z[1:].copy_(T.complex(x[:2], x[1:])),
    "real into complex": lambda T, z, x: z.copy_(x),
    "times complex": lambda T, z, x: z.mul_(T.complex(x, -x)),
    "conj_physical": lambda T, z, x: z.conj_physical_().mul_(x),
    "sgn": lambda T, z, x: z.mul_(x).sgn_(),
    "a mask": lambda T, z, x: z.__setitem__(z.detach().real > 0, x[0] * 1j),
    "base after view": lambda T, z, x: (z.real, z.mul_(x * 1j))[0].add_(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_parts_of_complex_tensors(name: str, torch: Any) -> None:
    def program(T: Any) -> Any:
        w, x = complex_leaf(T), leaf(T, 1.5, -2.0, 0.5)
        z = w * (1 + 0.5j)
        before = z.imag
        WRITES[name](T, z, x)
        loss = (z.abs() ** 2 * T.arange(1.0, 4.0, dtype=T.float64)).sum() + before.sum()
        grads = [
            None if g is None else g.resolve_conj().numpy(force=True)
            for g in T.autograd.grad(loss, (w, x), allow_unused=True)
        ]
        return grads, account([z, before, z._version])

    (found, said), (wanted, expected) = program(ferro), program(torch)
    assert said == expected
    for f, w in zip(found, wanted, strict=True):
        assert (f is None) == (w is None)
        if f is not None:
            np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-12)


@both
def test_view_as_complex_shares_memory(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0, 4.0)
    pairs = (x * 1).view(2, 2)
    z = T.view_as_complex(pairs)
    z.mul_(1 + 1j)
    T.view_as_real(z)[0].mul_(3)
    (pairs**2).sum().backward()
    return z, pairs, x.grad, T.view_as_real(z)._is_view(), error(lambda: T.view_as_complex(T.ones(2, 3)))


@both
def test_parts_of_real_tensors(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0) * 1
    x.real = x.detach() * 3
    return (
        x.real is x,
        x,
        x.conj() is x,
        error(lambda: x.imag, "not implemented for tensors with non-complex dtypes"),
        error(lambda: T.view_as_real(x)),
        T.resolve_conj(x) is x,
    )


@both
def test_conjugates_of_results(T: Any) -> Any:
    z = complex_leaf(T)
    c = z.conj()
    y = T.resolve_conj(c) * z
    (g,) = T.autograd.grad((y * c).real.sum(), z)
    return (
        T.resolve_conj(c),
        g,
        c.conj(),
        z.mH if z.dim() == 2 else z.view(1, 3).mH,
        z.view(1, 3).adjoint(),
        z.view(3, 1).H,
    )


def test_conj_is_a_copy() -> None:
    # In PyTorch it is a view with a flag; a change of one then changes the other.  Here both keep their content.
    z = ferro.tensor(POINTS, dtype=ferro.complex128)
    c = z.conj()
    z.mul_(2)
    assert c.tolist() == [p.conjugate() for p in POINTS]
    assert not c._is_view()


# -- gradcheck -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_of_complex_functions(fast: bool) -> None:
    z, x = complex_leaf(ferro), leaf(ferro, 1.0, 2.0, 3.0)
    for f in (
        lambda z, x: z * x + z.conj(),
        lambda z, x: (z.abs() * x, z.exp()),
        lambda z, x: ferro.view_as_real(z) * x[0],
        lambda z, x: (z * 1).mul_(x).real,
        lambda z, x: z.pow(x * (1 + 0j)),
    ):
        assert ferro.autograd.gradcheck(f, (z, x), fast_mode=fast, check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(lambda z, x: z * z.conj() * x, (z, x), fast_mode=fast)

    class Wrong(ferro.autograd.Function):
        """The derivative without the conjugate."""

        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

    with pytest.raises(ferro.autograd.GradcheckError, match="mismatch"):
        ferro.autograd.gradcheck(Wrong.apply, (z,), fast_mode=fast)
