"""CTC: the loss against the sum over all paths, derivatives to third order, long sequences, infinite losses, errors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def written(path: tuple, blank: int) -> tuple:
    """What a path writes: repetitions taken together, blanks left out."""
    return tuple([k for k, _ in itertools.groupby(path) if k != blank])


def by_all_paths(y: np.ndarray, target: tuple, blank: int) -> tuple[float, np.ndarray]:
    """The loss and the occupancy of one sample (T, C), by adding up every path that writes the target."""
    total, occupancy = 0.0, np.zeros_like(y)
    for path in itertools.product(range(y.shape[1]), repeat=len(y)):
        if written(path, blank) == target:
            p = math.exp(sum(y[t, k] for t, k in enumerate(path)))
            total += p
            for t, k in enumerate(path):
                occupancy[t, k] += p
    return (-math.log(total) if total else math.inf), occupancy / (total or math.nan)


@pytest.mark.parametrize("target", [(), (1,), (1, 2), (2, 2), (1, 1, 1), (1, 2, 1)])
@pytest.mark.parametrize("blank", [0, 3])
def test_loss_and_gradient_are_the_sum_over_all_paths(target: tuple, blank: int, rng: np.random.Generator) -> None:
    y = log_softmax(rng.standard_normal((5, 4)))
    loss, occupancy = by_all_paths(y, target, blank)
    x = ferro.tensor(y[:, None], requires_grad=True)
    labels = ferro.tensor(np.array([target], np.int64).reshape(1, -1))
    got = F.ctc_loss(x, labels, [5], [len(target)], blank, "sum")
    assert got.item() == pytest.approx(loss, rel=1e-12)
    (g,) = ferro.autograd.grad(got, x)
    np.testing.assert_allclose(g.numpy()[:, 0], np.exp(y) - occupancy, atol=1e-12)
    np.testing.assert_allclose(g.numpy().sum(-1), 0, atol=1e-12)


def composed(lengths: Any, targets: Any, reduction: str = "sum") -> Any:
    """The loss of free numbers, as it is used: behind log_softmax."""
    return lambda x: F.ctc_loss(x.log_softmax(2), targets, *lengths, reduction=reduction)


def test_derivatives_exist_to_third_order_and_in_forward_mode(rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((6, 3, 4)), requires_grad=True)
    f = composed(([6, 5, 6], [2, 1, 0]), ferro.tensor([[1, 1], [3, 0], [2, 2]]))
    w = ferro.tensor(rng.standard_normal((6, 3, 4)))

    def second(x: Any) -> Any:
        (g,) = ferro.autograd.grad(f(x), x, create_graph=True)
        return ferro.autograd.grad((g * w).sum(), x, create_graph=True)[0]

    assert ferro.autograd.gradcheck(f, (x,), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(f, (x,))
    assert ferro.autograd.gradcheck(second, (x,))


def test_the_second_derivative_is_minus_the_covariance_of_the_paths(rng: np.random.Generator) -> None:
    y = log_softmax(rng.standard_normal((4, 3)))
    paths = [p for p in itertools.product(range(3), repeat=4) if written(p, 0) == (1, 2)]
    counts = np.array([[[float(k == c) for c in range(3)] for k in p] for p in paths])
    p = np.array([math.exp(sum(y[t, k] for t, k in enumerate(path))) for path in paths])
    p /= p.sum()
    v = rng.standard_normal((4, 3))
    along = (counts * v).sum((1, 2))
    covariance = np.einsum("p,ptk,p->tk", p, counts, along) - np.einsum("p,ptk->tk", p, counts) * (p @ along)
    x = ferro.tensor(y[:, None], requires_grad=True)
    (g,) = ferro.autograd.grad(F.ctc_loss(x, ferro.tensor([[1, 2]]), [4], [2], 0, "sum"), x, create_graph=True)
    (h,) = ferro.autograd.grad((g * ferro.tensor(v[:, None])).sum(), x)
    np.testing.assert_allclose(h.numpy()[:, 0], np.exp(y) * v - covariance, atol=1e-12)


def test_long_sequences_of_improbable_labels_keep_their_digits() -> None:
    mpmath = pytest.importorskip("mpmath")
    steps, labels = 300, [1, 2, 1, 1, 2]
    rng = np.random.default_rng(3)
    y = rng.uniform(-900, -700, (steps, 3))  # of which no product of two is a number
    states = [0]
    for label in labels:
        states += [label, 0]
    alpha = [mpmath.mpf(0)] * len(states)
    with mpmath.workdps(40):
        for t in range(steps):
            new = []
            for s, k in enumerate(states):
                total = mpmath.mpf(1 if s < 2 else 0) if t == 0 else alpha[s] + (alpha[s - 1] if s else 0)
                if t and s > 1 and k != states[s - 2]:
                    total += alpha[s - 2]
                new.append(total * mpmath.exp(mpmath.mpf(float(y[t, k]))))
            alpha = new
        want = float(-mpmath.log(alpha[-1] + alpha[-2]))
    for dtype, tolerance in ((ferro.float64, 1e-14), (ferro.float32, 1e-6)):
        x = ferro.tensor(y[:, None]).to(dtype)
        assert F.ctc_loss(x, ferro.tensor([labels]), [steps], [5], reduction="sum").item() == pytest.approx(
            want, rel=tolerance
        )


def test_large_batches_give_the_numbers_of_single_samples(rng: np.random.Generator) -> None:
    y = ferro.tensor(rng.standard_normal((40, 6, 9))).log_softmax(2).requires_grad_()
    targets = ferro.tensor(rng.integers(1, 9, (6, 7)))
    steps, lengths = [40, 33, 12, 1, 0, 40], [7, 3, 7, 2, 0, 0]
    all_at_once = F.ctc_loss(y, targets, steps, lengths, 0, "none", True)
    (g,) = ferro.autograd.grad(all_at_once.sum(), y)
    for n in range(6):
        part = ferro.tensor(y.detach().numpy()[: max(steps[n], 1), n : n + 1, :], requires_grad=True)
        loss = F.ctc_loss(part, targets[n : n + 1], [steps[n]], [lengths[n]], 0, "sum", True)
        (want,) = ferro.autograd.grad(loss, part)
        np.testing.assert_allclose(all_at_once[n].item(), loss.item(), rtol=1e-12)
        np.testing.assert_allclose(g.numpy()[: len(part), n], want.numpy()[:, 0], atol=1e-12)
        assert not g.numpy()[max(steps[n], 1) :, n].any()  # what lies behind the sequence has no part in the loss


def test_concatenated_targets_are_padded_ones(rng: np.random.Generator) -> None:
    y = ferro.tensor(rng.standard_normal((8, 3, 5))).log_softmax(2)
    padded, lengths = ferro.tensor([[1, 2, 3], [4, 0, 0], [2, 2, 0]]), [3, 1, 2]
    for reduction in ("none", "mean", "sum"):
        one = F.ctc_loss(y, padded, [8, 8, 8], lengths, reduction=reduction)
        other = ferro.ctc_loss(
            y,
            ferro.tensor([1, 2, 3, 4, 2, 2]),
            (8, 8, 8),
            ferro.tensor(lengths),
            0,
            ("none", "mean", "sum").index(reduction),
        )
        assert one.equal(other)
    alone = F.ctc_loss(y[:, 1], ferro.tensor([4]), ferro.tensor(8), ferro.tensor(1), reduction="none")
    assert alone.shape == ()
    assert alone.item() == pytest.approx(F.ctc_loss(y, padded, [8, 8, 8], lengths, reduction="none")[1].item())


def test_the_mean_divides_by_the_lengths_of_the_targets_first(rng: np.random.Generator) -> None:
    y = ferro.tensor(rng.standard_normal((8, 3, 5))).log_softmax(2)
    targets = ferro.tensor([[1, 2, 3], [4, 0, 0], [2, 2, 0]])
    losses = F.ctc_loss(y, targets, [8, 8, 8], [3, 0, 2], reduction="none").numpy()
    mean = F.ctc_loss(y, targets, [8, 8, 8], [3, 0, 2]).item()
    assert mean == pytest.approx(np.mean(losses / [3, 1, 2]))


def test_a_target_that_does_not_fit_has_infinite_loss_unless_it_is_to_count_as_zero() -> None:
    y = ferro.full((2, 2, 3), -math.log(3), dtype=ferro.float64, requires_grad=True)
    targets, lengths = ferro.tensor([[1, 1], [1, 2]]), ([2, 2], [2, 2])  # equal labels need a blank between them
    loss = F.ctc_loss(y, targets, *lengths, reduction="none")
    assert loss[0].item() == math.inf
    assert loss[1].item() == pytest.approx(2 * math.log(3))
    (g,) = ferro.autograd.grad(loss.sum(), y)
    assert g[:, 0].isnan().all()
    assert g[:, 1].isfinite().all()
    loss = F.ctc_loss(y, targets, *lengths, reduction="none", zero_infinity=True)
    (g,) = ferro.autograd.grad(loss.sum(), y, create_graph=True)
    assert loss[0].item() == 0
    assert not g[:, 0].any()
    (h,) = ferro.autograd.grad((g * g).sum(), y)
    assert h.isfinite().all()


def test_a_class_of_probability_zero_has_no_share_and_no_nan() -> None:
    y = np.log(
        np.array([[[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]]]), where=[True, True, False], out=np.full((2, 1, 3), -np.inf)
    )
    x = ferro.tensor(y, requires_grad=True)
    loss = F.ctc_loss(x, ferro.tensor([[1]]), [2], [1], reduction="sum")
    assert loss.item() == pytest.approx(-math.log(0.5 * 0.25 + 0.5 * 0.75 + 0.5 * 0.75))
    (g,) = ferro.autograd.grad(loss, x)
    assert g.isfinite().all()
    assert not g[..., 2].any()


def test_ctc_loss_refuses_what_does_not_fit() -> None:
    y, targets = ferro.zeros(5, 2, 3), ferro.tensor([[1, 2], [1, 1]])

    def call(y: Any = y, targets: Any = targets, steps: Any = (5, 5), lengths: Any = (2, 2), **kwargs: Any) -> Any:
        return F.ctc_loss(y, targets, steps, lengths, **kwargs)

    for wrong, message in [
        ({"steps": (6, 5)}, "input_lengths to have value at most 5"),
        ({"steps": (5,)}, "batch_size"),
        ({"steps": (-1, 5)}, "input_lengths must not be negative"),
        ({"lengths": (3, 1)}, "at most 2"),
        ({"steps": (5.0, 5.0)}, "integral"),
        ({"blank": 3}, "label range"),
        ({"targets": ferro.tensor([1, 2, 1])}, "concatenated"),
        ({"targets": ferro.tensor([[1, 3], [1, 1]])}, "classes from 0 to 2"),
        ({"targets": targets[:1]}, "shape"),
        ({"targets": targets > 0}, "class numbers"),
        ({"y": ferro.zeros(5, 0, 3)}, "not be empty"),
        ({"y": ferro.zeros(5)}, "log_probs of shape"),
        ({"y": y.long()}, "floating-point"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call(**wrong)
    with pytest.raises(NotImplementedError, match="float16"):
        call(y.half())
    with pytest.raises(ValueError, match="reduction"):
        call(reduction="median")
    with pytest.raises(TypeError, match="must be Tensor"):
        call(targets=[[1, 2], [1, 1]])
