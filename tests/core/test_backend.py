"""A second backend: operations run on any type of arrays that is registered, forward and backward, and bring nothing to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import backend
from ferro.core.base import wrap
from ferro.core.samples import ENTRIES
from tests import second_backend
from tests.helpers import Call, arrays_of, cotangents, rng_of, to_array
from tests.second_backend import Far

second_backend.register()
DEVICE = second_backend.functions.device

FAMILIES = {
    "arithmetic": "add sub mul div remainder addcmul addcdiv lerp floor_divide rsub",
    "exponential": "exp log sigmoid pow sqrt logaddexp log1p expm1 xlogy sinh",
    "reductions": "sum mean prod var std logsumexp amax nansum norm cumsum",
    "views": "reshape transpose permute unsqueeze narrow flip select diagonal Tensor.unfold",
    "indexing": "gather index_select take where masked_select masked_fill index_add scatter index_put take_along_dim",
    "products": "matmul mm bmm outer einsum linalg.solve linalg.cholesky linalg.inv linalg.qr linalg.eigh",
    "normalisation": "nn.functional.layer_norm nn.functional.batch_norm nn.functional.group_norm nn.functional.rms_norm "
    "nn.functional.instance_norm nn.functional.normalize nn.functional.local_response_norm",
    "activations": "nn.functional.relu nn.functional.gelu nn.functional.softplus nn.functional.elu nn.functional.silu "
    "nn.functional.hardtanh nn.functional.leaky_relu softmax log_softmax nn.functional.hardswish",
    "losses": "nn.functional.mse_loss nn.functional.l1_loss nn.functional.huber_loss nn.functional.cross_entropy "
    "nn.functional.nll_loss nn.functional.kl_div nn.functional.binary_cross_entropy_with_logits "
    "nn.functional.smooth_l1_loss nn.functional.gaussian_nll_loss",
    "joining": "cat stack hstack vstack split chunk unbind tile Tensor.repeat roll",
    "layers": "nn.functional.linear nn.functional.conv2d nn.functional.max_pool2d nn.functional.avg_pool2d "
    "nn.functional.embedding nn.functional.scaled_dot_product_attention nn.functional.interpolate lstm gru",
}
PATHS = [(family, path) for family, paths in FAMILIES.items() for path in paths.split()]


class FarCall(Call):
    """A call whose tensors lie beyond the wall."""

    def _tensor(self, array: np.ndarray) -> Any:
        return far(array)


def far(array: np.ndarray) -> Any:
    """A tensor of a far array."""
    return wrap(Far(np.array(array)))


def near(t: Any) -> Any:
    """The numbers of a result, all of which must be far."""
    assert type(t._data) is Far, f"{t!r} has come back to NumPy"
    return t._data.near


def agree(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(near(got), to_array(want), rtol=1e-11, atol=1e-11, err_msg=what)


@pytest.mark.parametrize("path", [p for _, p in PATHS], ids=[f"{f}-{p}" for f, p in PATHS])
def test_samples_run_there_forward_and_backward(path: str) -> None:
    entry = ENTRIES[path]
    for sample in entry.samples:
        rng = rng_of(path)
        arrays = arrays_of(sample, rng, "float64")
        calls = Call(entry, sample, ferro, arrays, True), FarCall(entry, sample, ferro, arrays, True)
        want, got = (call.run() for call in calls)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w, f"{sample}: forward")
        vectors = cotangents(want, rng)
        used = [i for i, v in enumerate(vectors) if v is not None]
        if not used or not calls[0].inputs:
            continue
        gradients = [
            ferro.autograd.grad(
                [outs[i] for i in used], call.inputs, [make(vectors[i]) for i in used], allow_unused=True
            )
            for call, outs, make in zip(calls, (want, got), (ferro.tensor, far), strict=True)
        ]
        for w, g in zip(*gradients, strict=True):
            assert (g is None) == (w is None)
            if g is not None:
                agree(g, w, f"{sample}: gradient")


def test_what_lies_there_is_not_read_as_an_array_of_numpy() -> None:
    x = Far(np.ones(2))
    for read in (np.asarray, np.sum, lambda a: np.add(a, a), lambda a: np.ones(2) + a, lambda a: a + np.ones(2)):
        with pytest.raises(TypeError):
            read(x)


def test_a_type_is_registered_once() -> None:
    with pytest.raises(TypeError, match="Far has a backend already"):
        backend.register(Far, second_backend.functions)
    with pytest.raises(TypeError, match="ndarray has a backend already"):
        backend.register(np.ndarray, second_backend.functions)
    with pytest.raises(ValueError, match=f"device type {DEVICE} has a backend already"):
        backend.register(type("Other", (), {}), second_backend.functions)
    with pytest.raises(TypeError, match="no backend serves complex"):
        backend.xp_of(1j)


def test_tensors_are_placed_and_brought_back() -> None:
    x = ferro.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(DEVICE)
    assert (y.device.type, type(y._data), x.to("cpu") is x) == (DEVICE, Far, True)
    (y * y).sum().cpu().backward()
    assert x.grad is not None
    assert (x.grad.device.type, x.grad.tolist()) == ("cpu", [2.0, 4.0])
    made = ferro.zeros(2, 3, device=DEVICE), ferro.tensor([1.0, 2.0], device=DEVICE), ferro.ones_like(x, device=DEVICE)
    assert [type(t._data) for t in made] == [Far] * 3
    assert ferro.ones_like(y)._data.near.tolist() == [1.0, 1.0]
    assert ferro.tensor([1, 2]).to(y.detach()).device.type == DEVICE
    assert repr(made[1]) == f"tensor([1., 2.], device='{DEVICE}')"
    assert made[1].tolist() == made[1].cpu().numpy().tolist() == made[1].numpy(force=True).tolist() == [1.0, 2.0]
    assert made[1][0].item() == 1.0
    with pytest.raises(TypeError, match=r"can't convert privateuseone device type tensor to numpy\. Use Tensor\.cpu"):
        made[1].numpy()


def test_tensors_of_two_devices_do_not_meet() -> None:
    x, y = ferro.ones(2), ferro.ones(2, device=DEVICE)
    for meet in (lambda: x + y, lambda: y * x, lambda: ferro.cat([x, y]), lambda: ferro.matmul(x, y)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            meet()


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), ferro.tensor(2.0)], ids=["int", "float", "numpy", "0-d"])
def test_a_number_goes_along(number: Any) -> None:
    x = ferro.ones(2, device=DEVICE, requires_grad=True)
    y = x * number
    y.sum().backward()
    assert x.grad is not None
    assert (near(y).tolist(), near(x.grad).tolist()) == ([2.0, 2.0], [2.0, 2.0])


def test_a_leaf_there_gets_its_gradient_and_steps() -> None:
    w = ferro.tensor([[1.0, -2.0], [0.5, 1.0]], dtype=ferro.float64, device=DEVICE, requires_grad=True)
    v = ferro.tensor([[1.0, -2.0], [0.5, 1.0]], dtype=ferro.float64, requires_grad=True)
    for _ in range(3):
        for t in (w, v):
            loss = (t @ t).tanh().sum()
            loss.backward()
            loss = (t.exp() * 0.1).sum()
            loss.backward()  # added to what is there
            with ferro.no_grad():
                assert t.grad is not None
                t -= 0.1 * t.grad
                t.grad.zero_()
    agree(w.detach(), v.detach(), "three steps")


def test_a_gradient_shares_no_memory_with_another() -> None:
    a, b = (ferro.ones(2, device=DEVICE, requires_grad=True) for _ in range(2))
    (a + b).reshape(2, 1).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    a.grad.add_(1)
    assert (near(a.grad).tolist(), near(b.grad).tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_writes_in_place_are_recorded() -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = ferro.arange(4.0).to(device).requires_grad_()
        y = x * 1
        y[1:3] *= 3
        y[0] = 5
        y.index_add_(0, ferro.tensor([3]).to(device), y[:1].detach().clone())
        (y * y).sum().backward()
        assert x.grad is not None
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_gradients_that_are_large_arrays() -> None:
    x = ferro.linspace(-2, 2, 1 << 16, dtype=ferro.float64)
    found = []
    for device in ("cpu", DEVICE):
        y = x.to(device).requires_grad_()
        (g,) = ferro.autograd.grad((y * y).relu().sum(), y)  # a formula of several steps, and one that is a function
        found.append(g)
    agree(found[1], found[0], "gradient")


def test_second_derivatives() -> None:
    found = []
    for device in ("cpu", DEVICE):
        x = ferro.tensor([0.5, 1.5], dtype=ferro.float64).to(device).requires_grad_()
        (g,) = ferro.autograd.grad((x.softmax(0) * x.sin()).sum(), x, create_graph=True)
        found.append(ferro.autograd.grad(g.square().sum(), x)[0].tolist())
    assert found[0] == pytest.approx(found[1])
