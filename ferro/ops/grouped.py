"""Products of groups of rows with matrices of their own, as mixtures of experts need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.arguments import need_tensor
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, INEXACT
from ferro.core.looped import by_slices
from ferro.core.requirements import fixed
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.joining import cat, stack
from ferro.ops.products import matmul

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["grouped_mm"]


@by_slices
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """The products of the groups of two matrices, group i ending at offs[i].

    (M, K) and (G, K, N): rows of mat_a by group, giving (M, N); (G, M, K) and (K, N): columns of mat_b, giving (M, N);
    (M, K) and (K, N): the summed dimension is divided, giving (G, M, N); (G, M, K) and (G, K, N): `offs` is None.  What
    lies behind the last group gives zeros.  RuntimeError for shapes that do not fit, for a `bias` (as in PyTorch) and
    for an `out_dtype` other than that of mat_a.

    - `mat_a`, `mat_b` (Tensor): the factors
    - `offs` (Tensor, default None): where the groups end, int32
    - `bias` (Tensor, default None): must be None
    - `out_dtype` (dtype, default None): that of mat_a, or None

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> rows, experts = ferro.ones(3, 1), ferro.tensor([[[2.0]], [[5.0]]])
        >>> F.grouped_mm(rows, experts, offs=ferro.tensor([1, 3], dtype=ferro.int32)).flatten()
        tensor([2., 5., 5.])
    """
    name = "grouped_mm"
    ends = _ends(name, mat_a, mat_b, offs, bias, out_dtype)
    if ends is None:
        return matmul(mat_a, mat_b)
    begins = [0, *ends[:-1]]
    if mat_a._data.ndim == mat_b._data.ndim:
        return stack([matmul(mat_a[:, i:j], mat_b[i:j]) for i, j in zip(begins, ends, strict=True)])
    by_rows = mat_a._data.ndim == 2
    length = mat_a._data.shape[0] if by_rows else mat_b._data.shape[1]
    parts = [
        matmul(mat_a[i:j], mat_b[k]) if by_rows else matmul(mat_a[k], mat_b[:, i:j])
        for k, (i, j) in enumerate(zip(begins, ends, strict=True))
    ]
    if ends[-1] < length:
        shape = (
            (length - ends[-1], parts[0]._data.shape[1]) if by_rows else (parts[0]._data.shape[0], length - ends[-1])
        )
        parts.append(parts[0].new_zeros(shape))
    return cat(parts, 0 if by_rows else 1)


def _ends(name: str, a: Any, b: Any, offs: Any, bias: Any, out_dtype: Any) -> list[int] | None:
    """The ends of the groups (None: both arguments have a dimension of groups); arguments checked."""
    x, y = need_tensor(name, "mat_a", a)._data, need_tensor(name, "mat_b", b)._data
    shapes = f"mat_a of shape {list(x.shape)} and mat_b of shape {list(y.shape)}"
    if x.dtype is not y.dtype or x.dtype not in INEXACT or x.dtype in COMPLEX:
        raise RuntimeError(
            f"{name}: expected matrices of one real floating-point dtype, got {FROM_NUMPY[x.dtype]} and "
            f"{FROM_NUMPY[y.dtype]}"
        )
    if bias is not None:
        raise RuntimeError(f"{name}: Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError(f"{name}: Grouped gemm output dtype must match `mat_a` dtype, got {out_dtype} and {a.dtype}")
    if x.ndim not in (2, 3) or y.ndim not in (2, 3) or x.shape[-1] != y.shape[-2]:
        raise RuntimeError(f"{name}: expected matrices (M, K) or (G, M, K) and (K, N) or (G, K, N), got {shapes}")
    groups = {m.shape[0] for m in (x, y) if m.ndim == 3}
    if len(groups) > 1:
        raise RuntimeError(f"{name}: batched matrices must have as many groups as each other, got {shapes}")
    if (offs is None) != (x.ndim == y.ndim == 3):
        raise RuntimeError(
            f"{name}: Have to provide offsets if there is a 2d matrix, or none if both are 3d; got {shapes}"
        )
    if offs is None:
        return None
    ends = [int(e) for e in fixed(need_tensor(name, "offs", offs)._data)]
    length = x.shape[0] if y.ndim == 3 else x.shape[1] if x.ndim == 2 else y.shape[1]
    if (
        (groups and len(ends) != next(iter(groups)))
        or ends != sorted(ends)
        or (ends and not 0 <= ends[0] <= ends[-1] <= length)
    ):
        raise RuntimeError(
            f"{name}: offs must rise from 0 to at most {length}, one for each group; got {ends} for {shapes}"
        )
    return ends


def _reference(a: Any, b: Any, offs: Any = None) -> Any:
    """By loops, on NumPy arrays."""
    if offs is None:
        return a @ b
    begins = [0, *offs[:-1]]
    if a.ndim == b.ndim:
        return np.stack([a[:, i:j] @ b[i:j] for i, j in zip(begins, offs, strict=True)])
    out = np.zeros((a.shape[-2], b.shape[-1]), a.dtype)
    for k, (i, j) in enumerate(zip(begins, offs, strict=True)):
        if a.ndim == 2:
            out[i:j] = a[i:j] @ b[k]
        else:
            out[:, i:j] = a[k] @ b[:, i:j]
    return out


_offs: Any = Arg(values=[2, 5], dtype="int32")
declare(
    "nn.functional.grouped_mm",
    [
        Sample(Arg(5, 3), Arg(2, 3, 4), offs=_offs),
        Sample(Arg(6, 3), Arg(2, 3, 4), offs=_offs),
        Sample(Arg(2, 3, 4), Arg(4, 6), offs=_offs),
        Sample(Arg(3, 5), Arg(5, 4), offs=_offs),
        Sample(Arg(2, 3, 4), Arg(2, 4, 5)),
    ],
    reference=_reference,
)
