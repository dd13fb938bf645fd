"""CUDA, which this build of ferro has not: the switches of its products and of attention are kept and change nothing."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferro.backends.switches import AllowTF32, Precision, Reduction, Switch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
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
# Which algorithms scaled_dot_product_attention may choose from. ferro's has one, which is exact and is not switched off.

_FLASH, _EFFICIENT = Switch("set_sdp_use_flash"), Switch("set_sdp_use_mem_efficient")
_MATH, _CUDNN = Switch("set_sdp_use_math"), Switch("set_sdp_use_cudnn")


def flash_sdp_enabled() -> bool:
    """Whether attention on GPUs may be FlashAttention."""
    return _FLASH.value


def enable_flash_sdp(enabled: bool) -> None:
    """Sets whether attention on GPUs may be FlashAttention."""
    _FLASH.set(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention on GPUs may be the one that saves memory."""
    return _EFFICIENT.value


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets whether attention on GPUs may be the one that saves memory."""
    _EFFICIENT.set(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention on GPUs may be written out as products and a softmax."""
    return _MATH.value


def enable_math_sdp(enabled: bool) -> None:
    """Sets whether attention on GPUs may be written out as products and a softmax."""
    _MATH.set(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention on GPUs may be cuDNN's."""
    return _CUDNN.value


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets whether attention on GPUs may be cuDNN's."""
    _CUDNN.set(enabled)


def is_flash_attention_available() -> bool:
    """Whether FlashAttention was built in: it was not."""
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """The four switches for a while.

    Example::

        >>> import ferro
        >>> with ferro.backends.cuda.sdp_kernel(enable_flash=False):
        ...     print(ferro.backends.cuda.flash_sdp_enabled())
        False
    """
    switches = (_FLASH, _MATH, _EFFICIENT, _CUDNN)
    before = [switch.value for switch in switches]
    try:
        for switch, value in zip(
            switches, (enable_flash, enable_math, enable_mem_efficient, enable_cudnn), strict=True
        ):
            switch.set(value)
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.set(value)


def __getattr__(name: str) -> Any:
    if name == "cufft_plan_cache":
        raise AttributeError(
            "backends.cuda.cufft_plan_cache: this build of ferro has no CUDA, so there are no plans to keep"
        )
    raise AttributeError(f"module {sys.modules[__name__].__name__!r} has no attribute {name!r}")
