"""GradScaler compared with PyTorch's, step by step."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import ferro


def _trajectory(f: Any, kind: str, overflow_at: int, separately: bool) -> list:
    """Parameters, factor and tracker after each of six steps, one of which has an infinite gradient."""
    w = f.nn.Parameter(f.tensor([1.0, -2.0, 0.5]))
    optimizer = getattr(f.optim, kind)([w], lr=0.1)
    scaler = f.GradScaler("cpu", init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=2)
    found = []
    for step in range(6):
        optimizer.zero_grad()
        scaler.scale((w * w).sum()).backward()
        if step == overflow_at:
            w.grad[1] = float("inf")
        if separately:
            scaler.unscale_(optimizer)
            f.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
        found.append([*w.detach().tolist(), scaler.get_scale(), scaler._get_growth_tracker()])
    return found


@pytest.mark.parametrize("separately", [False, True], ids=["step", "unscale"])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_steps_are_torchs(torch: Any, kind: str, separately: bool) -> None:
    for overflow_at in (2, 9):
        ours, theirs = [_trajectory(f, kind, overflow_at, separately) for f in (ferro, torch)]
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


def test_what_is_out_of_order_is_refused_as_torch_does(torch: Any) -> None:
    def said(f: Any) -> list:
        w = f.nn.Parameter(f.ones(1))
        optimizer = f.optim.SGD([w], lr=1.0)
        scaler = f.GradScaler("cpu")
        loose = f.GradScaler("cpu")
        off = f.GradScaler("cpu", enabled=False)
        scaler.scale(w.sum()).backward()
        calls = [
            lambda: loose.unscale_(optimizer),
            lambda: loose.step(optimizer),
            lambda: loose.update(),
            lambda: loose.scale(3),
            lambda: scaler.update(),
            lambda: scaler.step(optimizer, closure=lambda: None),
            lambda: scaler.unscale_(optimizer),
            lambda: scaler.unscale_(optimizer),
            lambda: scaler.step(optimizer),
            lambda: scaler.step(optimizer),
            lambda: scaler.unscale_(optimizer),
            lambda: pickle.dumps(scaler),
            lambda: scaler.update(f.ones(2)),
            lambda: scaler.update(3.0),
            lambda: scaler.load_state_dict(off.state_dict()),
            lambda: f.GradScaler("cpu", growth_factor=1.0),
            lambda: f.GradScaler("cpu", backoff_factor=1.0),
        ]
        found = []
        for call in calls:
            try:
                call()
                found.append("")
            except (AssertionError, RuntimeError, ValueError) as e:
                found.append(f"{type(e).__name__}: {e}")
        return found

    for ours, theirs in zip(said(ferro), said(torch), strict=True):
        assert theirs in ours
        assert bool(ours) is bool(theirs)


def test_state_goes_through_state_dict_and_pickle() -> None:
    scaler = ferro.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    scaler.scale(ferro.ones(1))
    scaler.update(16.0)
    other = ferro.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() == pickle.loads(pickle.dumps(scaler)).state_dict()
    assert other.get_scale() == 16.0


def test_lists_are_scaled_and_without_cuda_nothing_is() -> None:
    scaler = ferro.GradScaler("cpu", init_scale=2.0)
    a, (b,) = scaler.scale([ferro.ones(1), (ferro.ones(2),)])
    assert (a.tolist(), b.tolist()) == ([2.0], [2.0, 2.0])
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        off = ferro.GradScaler()
    assert off.scale(a) is a
    assert not off.is_enabled()
    assert off.get_scale() == 1.0


def test_gradients_of_half_precision_are_refused() -> None:
    w = ferro.nn.Parameter(ferro.ones(1, dtype=ferro.float16))
    optimizer = ferro.optim.SGD([w], lr=1.0)
    scaler = ferro.GradScaler("cpu", init_scale=2.0)
    scaler.scale(w.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)
