"""PowerSGD: gradients of matrices travel as two matrices of low rank, and what is left out is added to the next ones.

T. Vogels, S. P. Karimireddy and M. Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, 2019,
algorithm 1: P = M Q is added over the ranks and orthogonalised, Q = M^T P is added, and P Q^T stands for the mean of M.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import wrap
from ferro.distributed import collectives
from ferro.distributed.arrays import numpy_of
from ferro.distributed.grad_bucket import GradBucket
from ferro.distributed.group import resolved
from ferro.futures import Future

from .default_hooks import allreduce_hook

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD keeps from step to step: the errors, and the matrices Q.

    - `process_group` (default None): the group; None: the default one
    - `matrix_approximation_rank` (int, default 1): the columns of P and Q
    - `start_powerSGD_iter` (int, default 1000): the steps before it begins, in which gradients travel as they are; at least 2 with
      `use_error_feedback` or `warm_start` (ValueError)
    - `min_compression_rate` (float, default 2): a matrix n x m travels as it is unless n m is more than this many times the
      numbers of P and Q
    - `use_error_feedback` (bool, default True): what was left out is added to the next gradient
    - `warm_start` (bool, default True): Q of the step before is the beginning of the next; False: random numbers
    - `orthogonalization_epsilon` (float, default 0): added to the norm of a column by which it is divided; 0: Householder's method
    - `random_seed` (int, default 0): of the first Q, the same for all ranks
    - `compression_stats_logging_frequency`, `batch_tensors_with_same_shape` (default 10000, False): kept

    Example::

        >>> from ferro.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
        >>> PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10).matrix_approximation_rank
        2
    """

    def __init__(
        self,
        process_group: Any = None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only "
                "be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.rng = np.random.default_rng(random_seed)
        self.error_dict: dict[int, Any] = {}
        self.q_memory_dict: dict[int, list[Any]] = {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.iter = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """The ratio of the numbers before and after, and both, over all steps."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def begins(self, bucket: GradBucket) -> bool:
        """Whether PowerSGD has begun; counts the step with its last bucket."""
        has_begun = self.iter >= self.start_powerSGD_iter
        self.iter += bucket.is_last()
        return has_begun


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Matrices travel at low rank, vectors and small matrices as they are.

    - `state` (PowerSGDState): of this model
    - `bucket` (GradBucket): the gradients; those of more than two dimensions are matrices of their first one and the others
    """
    return _hook(state, bucket, [tuple(g.shape) for g in bucket.gradients()])


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """A whole bucket travels as one square matrix of low rank (with zeros at its end): faster, and less exact."""
    return _hook(state, bucket, [(bucket.buffer().numel(),)], square=True)


def _hook(state: PowerSGDState, bucket: GradBucket, shapes: list[tuple[int, ...]], square: bool = False) -> Future:
    if not state.begins(bucket):
        return allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()._data
    flat = buffer.astype(np.float32) if buffer.dtype in dtypes.HALF else buffer
    error = state.error_dict.get(bucket.index())
    if error is not None and error.size == flat.size:
        flat += error
    given = flat.copy() if state.use_error_feedback else None
    ends = np.cumsum([math.prod(s) for s in shapes])[:-1].tolist()
    matrices, rest = [], []
    for i, (part, shape) in enumerate(zip(numpy_of(flat).split(flat, ends), shapes, strict=True)):
        found = _as_matrix(part, shape, square)
        if _is_worth_it(found.shape, state):
            matrices.append((part, found))
        else:
            rest.append((i, part))
    _sent(state, [part for _, part in rest])
    found = _compressed(state, bucket.index(), [m for _, m in matrices])
    for (part, _), approximation in zip(matrices, found, strict=True):
        part[...] = approximation.reshape(-1)[: part.size]
    if given is not None:
        missed = state.error_dict[bucket.index()] = given - flat
        for i, _ in rest:  # (what has travelled as it is)
            numpy_of(missed).split(missed, ends)[i][...] = 0
    if flat is not buffer:
        buffer[...] = flat
    future: Future = Future()
    future.set_result(bucket.buffer())
    return future


def _as_matrix(part: np.ndarray, shape: tuple[int, ...], square: bool) -> np.ndarray:
    if not square:
        return part.reshape(shape[0], -1) if len(shape) > 1 else part.reshape(1, -1)
    side = math.isqrt(max(part.size - 1, 0)) + 1
    found = numpy_of(part).zeros(side * side, part.dtype)
    found[: part.size] = part
    return found.reshape(side, side)


def _is_worth_it(shape: tuple[int, int], state: PowerSGDState) -> bool:
    n, m = shape
    r = min(n, m, state.matrix_approximation_rank)
    return n > 1 and (n + m) * r * state.min_compression_rate < n * m


def _sent(state: PowerSGDState, parts: list[np.ndarray]) -> None:
    """Makes arrays the means over the ranks, in one exchange."""
    if not parts:
        return
    flat = numpy_of(parts[0]).concatenate([p.reshape(-1) for p in parts])
    collectives.all_reduce(wrap(flat), group=state.process_group)
    flat /= resolved(state.process_group).size()
    start = 0
    for p in parts:
        p[...] = flat[start : start + p.size].reshape(p.shape)
        start += p.size


def _compressed(state: PowerSGDState, index: int, matrices: list[np.ndarray]) -> list[np.ndarray]:
    """What stands for the mean of each matrix."""
    ranks = [min(*m.shape, state.matrix_approximation_rank) for m in matrices]
    qs = state.q_memory_dict.get(index)
    if qs is None or not state.warm_start or [q.shape[0] for q in qs] != [m.shape[1] for m in matrices]:
        drawn = [
            state.rng.standard_normal((m.shape[1], r)).astype(m.dtype) for m, r in zip(matrices, ranks, strict=True)
        ]
        qs = [numpy_of(m).asarray(q) for m, q in zip(matrices, drawn, strict=True)]
    qs = [_orthogonal(q, state) for q in qs]
    ps = [m @ q for m, q in zip(matrices, qs, strict=True)]
    _sent(state, ps)
    ps = [_orthogonal(p, state) for p in ps]
    qs = [m.T @ p for m, p in zip(matrices, ps, strict=True)]
    _sent(state, qs)
    state.q_memory_dict[index] = qs
    state.total_numel_before_compression += sum(m.size for m in matrices)
    state.total_numel_after_compression += sum(a.size for a in (*ps, *qs))
    return [p @ q.T for p, q in zip(ps, qs, strict=True)]


def _orthogonal(matrix: np.ndarray, state: PowerSGDState) -> np.ndarray:
    """Its columns made orthonormal."""
    epsilon, xp = state.orthogonalization_epsilon, numpy_of(matrix)
    if epsilon == 0:
        return xp.linalg.qr(matrix.astype(np.float64 if matrix.dtype == np.float64 else np.float32))[0].astype(
            matrix.dtype
        )
    found = matrix.copy()
    for i in range(found.shape[1]):
        column = found[:, i]
        column /= xp.linalg.norm(column) + epsilon
        found[:, i + 1 :] -= xp.outer(column, column @ found[:, i + 1 :])
    return found
