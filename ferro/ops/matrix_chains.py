"""Products of several matrices, in the order that costs least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.product_arguments import need_ndim, same_dtype
from ferro.ops.products import mm

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["chain_matmul"]


def multi_dot(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices, multiplied in the order that costs least.

    - `tensors` (sequence of Tensors): matrices; the first and the last may be vectors
    - `out` (Tensor, default None): where to write the result

    RuntimeError for sizes that do not fit and fewer than two tensors.

    Example::

        >>> import ferro
        >>> ferro.linalg.multi_dot([ferro.ones(2, 3), ferro.ones(3, 1), ferro.ones(1, 2)])
        tensor([[3., 3.],
                [3., 3.]])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(chain)}")
    same_dtype("multi_dot", **{f"tensor {i}": t for i, t in enumerate(chain)})
    for i, t in enumerate(chain):
        end = i in (0, len(chain) - 1)
        if t._data.ndim != 2 and not (end and t._data.ndim == 1):
            raise RuntimeError(f"multi_dot(): tensor {i} must be {'1D or ' if end else ''}2D but got {t._data.ndim}D")
        if i and chain[i - 1]._data.shape[-1] != t._data.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(chain[i - 1]._data.shape)} and "
                f"{list(t._data.shape)} cannot be multiplied"
            )
    shape = (chain[0]._data.shape[:-1]) + (chain[-1]._data.shape[1:])
    if chain[0]._data.ndim == 1:
        chain[0] = chain[0].reshape(1, -1)
    if chain[-1]._data.ndim == 1:
        chain[-1] = chain[-1].reshape(-1, 1)
    splits = _best_splits([t._data.shape[0] for t in chain] + [chain[-1]._data.shape[1]])
    result = _multiply(chain, splits, 0, len(chain) - 1)
    if len(shape) < 2:
        result = result.reshape(shape)
    return result if out is None else into("multi_dot", out, result)


def _best_splits(p: list[int]) -> dict[tuple, int]:
    """Where to split the chain i..j of matrices of sizes p[i] x p[i + 1], by dynamic programming over the lengths."""
    n = len(p) - 1
    cost: dict[tuple, int] = {(i, i): 0 for i in range(n)}
    split: dict[tuple, int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            ways = [(cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(ways)
    return split


def _multiply(chain: list, splits: dict[tuple, int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = splits[i, j]
    return mm(_multiply(chain, splits, i, k), _multiply(chain, splits, k + 1, j))


declare(
    "linalg.multi_dot",
    [
        Sample([Arg(2, 3), Arg(3, 4), Arg(4, 1)]),
        Sample([Arg(3), Arg(3, 2), Arg(2)]),
        Sample([Arg(2, 3), Arg(3)]),
        Sample([Arg(0, 2), Arg(2, 3), Arg(3, 2)]),
    ],
    complex=True,
)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of one or more matrices, multiplied in the order that costs least."""
    for i, m in enumerate(matrices):
        need_ndim("chain_matmul", **{f"matrix {i}": (need_tensor("chain_matmul", f"matrix {i}", m), 2)})
    if len(matrices) == 1:
        return matrices[0] if out is None else into("chain_matmul", out, matrices[0])
    return multi_dot(matrices, out=out)


declare("chain_matmul", [Sample(Arg(2, 3), Arg(3, 4), Arg(4, 1)), Sample(Arg(2, 3))], complex=True)
