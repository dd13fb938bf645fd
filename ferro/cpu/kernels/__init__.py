"""Kernels for large arrays, compiled by Numba when they are first needed: the table of them all.

A module such as `softmax` holds functions of NumPy arrays, each with a NumPy formula for small arrays and for dtypes
that no kernel takes. Its compiled half stands in a module named jit_*.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

_MODULES = {
    "jit_math": (
        "erf exponential sigmoid sigmoid_vjp gelu gelu_vjp gelu_tanh gelu_tanh_vjp silu silu_vjp mish mish_vjp "
        "softplus softplus_vjp elu elu_vjp logsigmoid logaddexp logcumsumexp "
        "softmax scaled_softmax scaled_softmax_vjp softmax_vjp log_softmax log_softmax_vjp logsumexp "
        "softmax_columns softmax_vjp_columns log_softmax_columns log_softmax_vjp_columns "
        "cross_entropy cross_entropy_vjp"
    ),
    "jit_along": (
        "gather scatter scatter_add take add_slices gather_rows scatter_rows scatter_add_rows take_rows add_slices_rows "
        "count_bins"
    ),
    "jit_conv": "correlate correlate_taps in_blocks",
    "jit_ctc": "ctc_alpha ctc_occupancy",
    "jit_grids": "linear_places linear_weights sample_taps spread_taps weigh_taps",
    "jit_interpolation": "resample_lines resample_planes",
    "jit_norm": (
        "layer_norm layer_norm_vjp "
        "channel_moments channel_sums channel_squares channel_products channel_affine channel_norm_vjp channel_mix "
        "column_sums column_squares column_products column_affine column_norm_vjp"
    ),
    "jit_optim": "sgd_step adam_step",
    "jit_pointwise": (
        "relu_vjp hardswish hardswish_vjp hardsigmoid hardsigmoid_vjp hardtanh hardtanh_vjp "
        "leaky_relu leaky_relu_vjp hardshrink softshrink shrink_vjp cube rsqrt lerp hypot fmod remainder floor_divide "
        "loss_sum loss_each loss_vjp"
    ),
    "jit_pool": "max_pool max_pool_vjp avg_pool avg_pool_vjp",
    "jit_reduce": "prod_rows prod_columns sum_rows sum_columns square_rows square_columns",
    "jit_scan": "cumsum cumprod running_extremum affine_scan picked_sum",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


@cache
def get(name: str) -> Any:
    """The compiled function of that name. Its machine code is made, or loaded from disk, when it is first called."""
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def warmup() -> None:
    """Make, or load from disk, the machine code of all kernels for float32 and float64, so that no later call waits."""
    import_module(f"{__name__}.warm").call_all()
