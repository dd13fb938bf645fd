"""Which algorithms `scaled_dot_product_attention` may take: the switches of a process, and the choice among what they leave.

ferro has one algorithm, exact and on every shape.  The choice is what PyTorch's would be on the CPU, so that a program which
rules algorithms out is refused here where it is refused there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from ferro.core.dtypes import INEXACT

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class SDPBackend(Enum):
    """The algorithms of attention; on the CPU there are MATH and FLASH_ATTENTION.

    Example::

        >>> from ferro.nn.attention import SDPBackend
        >>> int(SDPBackend.FLASH_ATTENTION)
        1
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


ENABLED: set[SDPBackend] = set(SDPBackend) - {SDPBackend.ERROR}  # what a program may switch off
ALL = len(ENABLED)


@contextmanager
def only(backends: set[SDPBackend]) -> Iterator[None]:
    """These are switched on, and no others, for a while."""
    before = set(ENABLED)
    try:
        _put(backends)
        yield
    finally:
        _put(before)


def _put(backends: set[SDPBackend]) -> None:
    ENABLED.intersection_update(backends)
    ENABLED.update(backends)


def chosen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    """The number of the algorithm that PyTorch takes for these: flash attention where it can, else the one in steps.

    Raises RuntimeError if neither is switched on, or if flash attention alone is and cannot take these.
    """
    reasons: list[str] = []
    if SDPBackend.FLASH_ATTENTION in ENABLED:
        reasons = list(_against_flash(query, key, value, attn_mask, dropout_p, enable_gqa))
        if not reasons:
            return SDPBackend.FLASH_ATTENTION.value
    if SDPBackend.MATH in ENABLED:
        return SDPBackend.MATH.value
    if reasons:
        warnings.warn(f"Flash attention kernel not used because: {' '.join(reasons)}", stacklevel=3)
        raise RuntimeError(
            f"scaled_dot_product_attention: No available kernel.  Aborting execution. {' '.join(reasons)} "
            "Switch on SDPBackend.MATH, which takes everything."
        )
    raise RuntimeError(
        "scaled_dot_product_attention: No viable backend for scaled_dot_product_attention was found. This is likely due to "
        "turning off both the math kernel and the fused kernels. On the CPU these are SDPBackend.MATH and FLASH_ATTENTION."
    )


def _against_flash(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, enable_gqa: bool
) -> Iterator[str]:
    """Why PyTorch's flash attention on the CPU does not take these."""
    arrays = {"Query": query._data, "Key": key._data, "Value": value._data}
    q, k, v = arrays.values()
    if any(a.ndim != 4 for a in arrays.values()):
        found = ", ".join(f"{name} dim: {a.ndim}" for name, a in arrays.items())
        yield f"All fused kernels requires query, key and value to be 4 dimensional, but got {found} instead."
        return
    if dropout_p > 0:
        yield "Both fused kernels do not support non-zero dropout."
    shapes = ", ".join(f"{name}.sizes(): {list(a.shape)}" for name, a in arrays.items())
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        yield f"For dense inputs, both fused kernels require query, key and value to have the same batch_size. {shapes} instead."
    if not enable_gqa and not q.shape[1] == k.shape[1] == v.shape[1]:
        yield f"For dense input, both fused kernels require query, key and value to have the same num_heads. {shapes} instead."
    if not q.shape[3] == k.shape[3] == v.shape[3]:
        found = ", ".join(f"{name}.size(-1): {a.shape[3]}" for name, a in arrays.items())
        yield f"Flash attention requires q,k,v to have the same last dimension. Got {found} instead."
    if any(a.shape[3] > 1 and a.strides[3] != a.itemsize for a in arrays.values()):
        found = ", ".join(f"{name}.stride(-1): {a.strides[3] // a.itemsize}" for name, a in arrays.items())
        yield f"All fused kernels require the last dimension of the input to have stride 1. Got {found}."
    if q.dtype not in INEXACT or q.dtype.kind == "c":
        yield f"Expected query, key and value to be real floating tensors, but got Query dtype: {query.dtype}."
    if mask is not None and mask.requires_grad:
        yield "The mask requires a gradient."
