"""CUDA, which this build of ferro has not: the switches of its products are kept and change nothing; those of attention hold."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ferro import absent
from ferro.backends.switches import AllowTF32, Precision, Reduction, Switch
from ferro.ops.attention_choice import ENABLED, SDPBackend, only

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = [
    "SDPBackend",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]


def is_built() -> bool:
    """Whether ferro was built with CUDA: it was not.

    Example::

        >>> import ferro
        >>> ferro.backends.cuda.is_built()
        False
    """
    return False


class _Products:
    """``ferro.backends.cuda.matmul``: what products of matrices on GPUs may round to."""

    allow_tf32 = AllowTF32("set_allow_tf32_cublas", "cuda", "matmul")
    allow_fp16_reduced_precision_reduction = Reduction("allow_fp16_reduced_precision_reduction")
    allow_bf16_reduced_precision_reduction = Reduction("allow_bf16_reduced_precision_reduction")
    allow_fp16_accumulation = Switch("set_allow_fp16_accumulation_cublas", False)
    fp32_precision = Precision("cuda", "matmul")

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")


matmul = _Products()


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library that GPUs would factorise matrices with: "default", the only one there is to choose.

    Raises:
        RuntimeError: for another one, which ferro has not, and for a name that is none.
    """
    if backend is not None and backend not in ("default", "cusolver", "magma"):
        raise RuntimeError("Unknown input value. Choose from: default, cusolver, magma.")
    if backend in ("cusolver", "magma"):
        raise RuntimeError(
            f"Cannot set preferred backend to {backend}: this build of ferro factorises with LAPACK, on the CPU"
        )
    return "default"


# -- attention ---------------------------------------------------------------------------------------------------------
# Which algorithms scaled_dot_product_attention may choose from: the switches are those of `ferro.nn.attention.sdpa_kernel`.


def _set(setter: str, backend: SDPBackend, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"{setter} expects a bool, but got {type(enabled).__name__}")
    (ENABLED.add if enabled else ENABLED.discard)(backend)


def flash_sdp_enabled() -> bool:
    """Whether attention may be FlashAttention."""
    return SDPBackend.FLASH_ATTENTION in ENABLED


def enable_flash_sdp(enabled: bool) -> None:
    """Sets whether attention may be FlashAttention; RuntimeError for what is no bool."""
    _set("set_sdp_use_flash", SDPBackend.FLASH_ATTENTION, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may be the one that saves memory, which is for GPUs."""
    return SDPBackend.EFFICIENT_ATTENTION in ENABLED


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets whether attention may be the one that saves memory, which is for GPUs; RuntimeError for what is no bool."""
    _set("set_sdp_use_mem_efficient", SDPBackend.EFFICIENT_ATTENTION, enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may be written out as products and a softmax."""
    return SDPBackend.MATH in ENABLED


def enable_math_sdp(enabled: bool) -> None:
    """Sets whether attention may be written out as products and a softmax; RuntimeError for what is no bool."""
    _set("set_sdp_use_math", SDPBackend.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may be cuDNN's, which is for GPUs."""
    return SDPBackend.CUDNN_ATTENTION in ENABLED


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets whether attention may be cuDNN's, which is for GPUs; RuntimeError for what is no bool."""
    _set("set_sdp_use_cudnn", SDPBackend.CUDNN_ATTENTION, enabled)


def is_flash_attention_available() -> bool:
    """Whether FlashAttention for GPUs was built in: it was not."""
    return False


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> AbstractContextManager[None]:
    """The four switches for a while; deprecated, with a FutureWarning.

    Example::

        >>> import ferro, warnings
        >>> with warnings.catch_warnings(action="ignore"), ferro.backends.cuda.sdp_kernel(enable_flash=False):
        ...     print(ferro.backends.cuda.flash_sdp_enabled())
        False
    """
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
        "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=2,
    )
    wanted = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.MATH: enable_math,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    return only({backend for backend, enabled in wanted.items() if enabled})


def __getattr__(name: str) -> Any:
    if name == "cufft_plan_cache":
        raise AttributeError(
            "backends.cuda.cufft_plan_cache: this build of ferro has no CUDA, so there are no plans to keep"
        )
    absent.missing(__name__, name)
