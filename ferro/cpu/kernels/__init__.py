"""Kernels for large arrays, compiled by Numba when they are first needed: the table of them all.

A module such as `softmax` holds functions of NumPy arrays, each with a NumPy formula for small arrays, for dtypes that
no kernel takes, and for as long as there is no machine code. Its compiled half stands in a module named jit_*.

Note [From a kernel to machine code]
    `native.readiness.get` gives a `Kernel` (kernel.py), which is called like the function that it stands for. The machine
    code of its signatures lies on disk (disk_cache.py), from where it is loaded without Numba (loader.py). What is not
    there yet is asked (readiness.py) of a child process (compiler_process.py), which compiles it (jit.py, jit_export.py).
    All these files stand in ferro/native, which knows of kernels what is declared here; prepare.py compiles them ahead.
"""

from __future__ import annotations

from ferro.native import registry

_MODULES = {
    "jit_gather_scatter": (
        "gather scatter scatter_add take add_slices gather_rows scatter_rows scatter_add_rows count_bins"
    ),
    "jit_conv": "correlate in_blocks",
    "jit_conv_points": "in_equal_blocks multiply_images",
    "jit_conv_weight": "correlate_channels correlate_taps from_channels",
    "jit_ctc": "ctc_alpha ctc_occupancy",
    "jit_attention": "attend attend_vjp",
    "jit_gemm": "product_part",
    "jit_grids": "linear_places linear_weights sample_taps spread_taps weigh_taps",
    "jit_interpolation": "resample_lines resample_planes",
    "jit_factor": "eliminate_blocks log_determinants reflect_back reflect_blocks root",
    "jit_linalg": "eliminate exchange outer substitute times_vector vector_times",
    "jit_lstm": "lstm",
    "jit_broadcast": "combine",
    "jit_masks": "choose pick place",
    "jit_strided_copy": "move transposed triangle",
    "jit_pointwise": "hypot fmod remainder floor_divide loss_sum loss_add loss_each loss_vjp",
    "jit_order": "first_of_rows",
    "jit_pool": "max_pool max_pool_vjp avg_pool avg_pool_vjp",
    "jit_program": "run_program",
    "jit_random": (
        "binomial_numbers gamma_numbers normal_numbers pair_numbers poisson_numbers shuffle uniform_numbers whole_numbers"
    ),
    "jit_recurrent": "lstm_gates lstm_gates_vjp gru_gates gru_gates_vjp",
    "jit_reduce": (
        "quotients prod_rows prod_columns sum_rows sum_columns square_rows square_columns "
        "max_rows max_columns min_rows min_columns first_extreme_columns"
    ),
    "jit_scan": "cumsum cumprod running_extremum running_extremum_rows affine_scan picked_sum logcumsumexp",
    "jit_winograd": "winograd winograd_taps",
    "jit_winograd_weight": "winograd_by_taps",
}
# Those that are written for the tile of tiles.py: where there is none, they are neither called nor compiled.
TILED = frozenset(
    [
        "attend",
        "attend_vjp",
        "product_part",
        "eliminate_blocks",
        "exchange",
        "log_determinants",
        "reflect_back",
        "reflect_blocks",
        "root",
        "substitute",
        "lstm",
    ]
)

registry.declare(__name__, _MODULES)
