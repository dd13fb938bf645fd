"""A script for several ranks: gradients through exchanges are those of one process that has all tensors, by central differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro.distributed.nn import functional as D
from tests.distributed.placing import BACKEND, DEVICE, checked

warnings.simplefilter("ignore", FutureWarning)  # (PyTorch deprecates most of these)
dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp
SHAPE = (SIZE, 2)
XS = [np.random.default_rng(r).uniform(0.5, 2, SHAPE) for r in range(SIZE)]
WEIGHTS = [np.random.default_rng(100 + r).uniform(-1, 1, SHAPE) for r in range(SIZE)]
Lists = Callable[[list[Any]], list[Any]]  # the inputs of all ranks -> their outputs


def loss(outputs: list[np.ndarray]) -> float:
    """Of all ranks; each output has weights of its own."""
    return float(sum((w[: len(o)] * o**2).sum() for w, o in zip(WEIGHTS, outputs, strict=True)))


def differences(function: Lists) -> np.ndarray:
    """The gradient of the loss of all by this rank's input."""
    found, h = np.zeros(SHAPE), 1e-6
    for place in np.ndindex(SHAPE):
        ends = []
        for sign in (1, -1):
            xs = [x.copy() for x in XS]
            xs[RANK][place] += sign * h
            ends.append(loss(function(xs)))
        found[place] = (ends[0] - ends[1]) / (2 * h)
    return found


def check(name: str, function: Callable[[Any], Any], everywhere: Lists) -> None:
    x = ferro.tensor(XS[RANK], requires_grad=True, device=DEVICE)
    out = function(x)
    np.testing.assert_allclose(out.detach().cpu().numpy(), everywhere(XS)[RANK], rtol=1e-12, err_msg=name)
    weights = ferro.tensor(WEIGHTS[RANK], device=DEVICE)[: out.shape[0]]
    (weights * out**2).sum().backward()
    np.testing.assert_allclose(
        x.grad.cpu().numpy(), differences(everywhere), rtol=1e-6, atol=1e-8, err_msg=f"{name}, rank {RANK}"
    )


def only(rank: int, value: Any) -> list[Any]:
    """The value in one rank, zeros in the others."""
    return [value if r == rank else np.zeros_like(value) for r in range(SIZE)]


def room(*shape: int) -> Any:
    return ferro.empty(shape, dtype=ferro.float64, device=DEVICE)


LAST = SIZE - 1
here = float(RANK == LAST)
check("sum", D.all_reduce, lambda xs: [sum(xs)] * SIZE)
check("mean", lambda x: D.all_reduce(x, Op.AVG), lambda xs: [sum(xs) / SIZE] * SIZE)
check("max", lambda x: D.all_reduce(x, Op.MAX), lambda xs: [np.max(xs, 0)] * SIZE)
check("min", lambda x: D.all_reduce(x, Op.MIN), lambda xs: [np.min(xs, 0)] * SIZE)
check("product", lambda x: D.all_reduce(x, Op.PRODUCT), lambda xs: [np.prod(xs, 0)] * SIZE)
FACTORS = [0.5 + r for r in range(SIZE)]
MULTIPLIED = dist._make_nccl_premul_sum(FACTORS[RANK])


def multiplied(xs: list[Any]) -> Any:
    return sum(f * x for f, x in zip(FACTORS, xs, strict=True))


check("multiplied", lambda x: D.all_reduce(x, MULTIPLIED), lambda xs: [multiplied(xs)] * SIZE)
check("reduce, multiplied", lambda x: here * D.reduce(x, LAST, MULTIPLIED), lambda xs: only(LAST, multiplied(xs)))
check("broadcast", lambda x: D.broadcast(x, LAST), lambda xs: [xs[LAST]] * SIZE)
check("reduce", lambda x: here * D.reduce(x, LAST), lambda xs: only(LAST, sum(xs)))
check("reduce, mean", lambda x: here * D.reduce(x, LAST, Op.AVG), lambda xs: only(LAST, sum(xs) / SIZE))
check(
    "gather",
    lambda x: here * sum((k + 1) * p for k, p in enumerate(D.gather(x, LAST))),
    lambda xs: only(LAST, sum((k + 1) * p for k, p in enumerate(xs))),
)
check(
    "scatter",
    lambda x: D.scatter([(k + 1) * x for k in range(SIZE)], LAST),
    lambda xs: [(r + 1) * xs[LAST] for r in range(SIZE)],
)
check(
    "all_gather",
    lambda x: sum((k + RANK + 1) * p for k, p in enumerate(D.all_gather(x))),
    lambda xs: [sum((k + r + 1) * p for k, p in enumerate(xs)) for r in range(SIZE)],
)
for op, divisor in ((Op.SUM, 1), (Op.AVG, SIZE)):
    check(
        f"reduce_scatter {op}",
        lambda x, op=op: D.reduce_scatter(room(*SHAPE), [(k + 1) * x for k in range(SIZE)], op),
        lambda xs, n=divisor: [(r + 1) * sum(xs) / n for r in range(SIZE)],
    )


def exchanged(x: Any) -> Any:
    parts: Any = D.all_to_all([room(2) for _ in range(SIZE)], list(x.unbind()))
    total: Any = sum((k + 1) * p for k, p in enumerate(parts))
    return total[None]


check("all_to_all", exchanged, lambda xs: [sum((k + 1) * p[r : r + 1] for k, p in enumerate(xs)) for r in range(SIZE)])
check(
    "all_to_all_single",
    lambda x: D.all_to_all_single(room(*SHAPE), x),
    lambda xs: [np.stack([p[r] for p in xs]) for r in range(SIZE)],
)

# a second derivative: of the sum of cubes of a sum over ranks
x = ferro.tensor(XS[RANK], requires_grad=True, device=DEVICE)
(first,) = ferro.autograd.grad((D.all_reduce(x) ** 3).sum(), x, create_graph=True)
np.testing.assert_allclose(first.detach().cpu().numpy(), 3 * SIZE * sum(XS) ** 2, rtol=1e-12)
first.sum().backward()
np.testing.assert_allclose(x.grad.cpu().numpy(), 6 * SIZE**2 * sum(XS), rtol=1e-12)
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks agree on gradients")
