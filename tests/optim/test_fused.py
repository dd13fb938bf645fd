"""Steps that kernels make in place: the same numbers as the operations on Tensors, the same checks, changes counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu, optim
from ferro.optim import adam, sgd

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "maximize": True}),
]
LARGE = (80, 60)


def parameter(rng: np.random.Generator, shape: tuple, dtype: ferro.dtype = ferro.float64, turned: bool = False) -> Any:
    """A parameter with a gradient; turned, its memory lies in the other order."""
    value = ferro.tensor(rng.standard_normal(shape)).to(dtype)
    param = (value.t().contiguous().t() if turned else value).requires_grad_()
    param.grad = ferro.tensor(rng.standard_normal(shape)).to(dtype)
    return param


def stepped(case: tuple[str, dict], param: Any) -> tuple[Any, dict]:
    """A copy of the parameter after three steps, and its state."""
    twin = param.detach().clone().requires_grad_()
    twin.grad = param.grad.clone()
    optimizer = getattr(optim, case[0])([twin], **case[1])
    for _ in range(3):
        optimizer.step()
    return twin, optimizer.state[twin]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(3, 2), LARGE])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_and_operations_give_the_same_numbers(
    case: tuple[str, dict], shape: tuple, turned: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    param = parameter(rng, shape, turned=turned)
    fused, state = stepped(case, param)
    for module in (adam, sgd):
        monkeypatch.setattr(module, "arrays_to_change", lambda *_: None)
    plain, plain_state = stepped(case, param)
    np.testing.assert_allclose(fused.detach(), plain.detach(), rtol=1e-12, atol=1e-12)
    assert state.keys() == plain_state.keys()
    for key, value in plain_state.items():
        np.testing.assert_allclose(state[key], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 2), LARGE])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_step_between_forward_and_backward_is_noticed(
    case: tuple[str, dict], shape: tuple, rng: np.random.Generator
) -> None:
    param = parameter(rng, shape)
    optimizer = getattr(optim, case[0])([param], **case[1])
    optimizer.step()
    saved = [param, *[value for value in optimizer.state[param].values() if value.shape == shape]]
    versions = [t._version for t in saved]
    loss = (param * param).sum()
    optimizer.step()
    assert all(t._version > version for t, version in zip(saved, versions, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_memory_that_must_not_be_written_is_refused(name: str, rng: np.random.Generator) -> None:
    array = rng.standard_normal(LARGE)
    param = ferro.from_numpy(array).requires_grad_()
    param._data.flags.writeable = False  # (from_numpy would warn of an array that is read-only before)
    param.grad = ferro.ones(LARGE, dtype=ferro.float64)
    before = array.copy()
    with pytest.raises(RuntimeError, match="read-only"):
        getattr(optim, name)([param]).step()
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("dtype", [ferro.float16, ferro.bfloat16])
@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_sixteen_bit_parameters_are_stepped_by_operations(
    case: tuple[str, dict], dtype: ferro.dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("adam_step", "sgd_step"):
        monkeypatch.delattr(cpu, name)
    param = parameter(rng, LARGE, dtype)
    after, _ = stepped(case, param)
    assert after.dtype is dtype
    assert not ferro.equal(after, param)


def test_modes_that_watch_operations_keep_them(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cpu, "adam_step")
    param = parameter(rng, LARGE)
    before = param.detach().clone()
    with ferro.inference_mode():
        optim.Adam([param], lr=0.1).step()
    assert (param.detach() - before).abs().amin() > 0.09  # the first step of Adam is lr in the gradient's direction
