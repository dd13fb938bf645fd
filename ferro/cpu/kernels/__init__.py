"""Kernels for large arrays, compiled by Numba when they are first needed: the table of them all.

A module such as `softmax` holds functions of NumPy arrays, each with a NumPy formula for small arrays, for dtypes that
no kernel takes, and for as long as there is no machine code. Its compiled half stands in a module named jit_*.

Note [From a kernel to machine code]
    `get` gives a `Kernel` (kernel.py), which is called like the function that it stands for. The machine code of its
    signatures lies on disk (store.py), from where it is loaded without Numba (machine.py). What is not there yet is
    ordered (background.py) of a child process (workshop.py), which compiles it (jit.py, jit_export.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from ferro.cpu.kernels import store
from ferro.cpu.kernels.kernel import Kernel, describe, tag_of

_MODULES = {
    "jit_activations": (
        "erf erf_vjp exponential sigmoid sigmoid_vjp gelu gelu_vjp gelu_tanh gelu_tanh_vjp silu silu_vjp mish mish_vjp "
        "softplus softplus_vjp elu elu_vjp logsigmoid logaddexp tanh_vjp sin cos sin_vjp cos_vjp "
        "bce_logits bce_logits_vjp"
    ),
    "jit_softmax": (
        "softmax scaled_softmax scaled_softmax_vjp softmax_vjp log_softmax log_softmax_vjp logsumexp "
        "softmax_columns logsumexp_columns softmax_vjp_columns log_softmax_columns log_softmax_vjp_columns "
        "cross_entropy cross_entropy_vjp"
    ),
    "jit_along": (
        "gather scatter scatter_add take add_slices gather_rows scatter_rows scatter_add_rows take_rows add_slices_rows "
        "count_bins"
    ),
    "jit_conv": "correlate correlate_channels correlate_taps from_channels in_blocks in_equal_blocks multiply_images",
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
    "jit_moves": "move transposed triangle",
    "jit_norm": (
        "layer_norm layer_norm_vjp "
        "channel_moments channel_sums channel_squares channel_products channel_affine channel_norm_vjp channel_mix "
        "column_sums column_squares column_products column_affine column_norm_vjp batch_norm batch_norm_vjp"
    ),
    "jit_optim": "sgd_step adam_step",
    "jit_pointwise": (
        "relu relu_vjp hardswish hardswish_vjp hardsigmoid hardsigmoid_vjp hardtanh hardtanh_vjp "
        "leaky_relu leaky_relu_vjp hardshrink softshrink shrink_vjp cube rsqrt addcmul lerp hypot fmod remainder floor_divide "
        "loss_sum loss_add loss_each loss_vjp"
    ),
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
    "jit_team": "set_up wake serve",
    "jit_winograd": "winograd winograd_by_taps winograd_taps",
}
# Those that are written for AVX-512: elsewhere they are neither called nor compiled.
WIDE = frozenset(
    [
        "attend",
        "attend_vjp",
        "product_part",
        "eliminate_blocks",
        "log_determinants",
        "reflect_back",
        "reflect_blocks",
        "root",
        "substitute",
        "lstm",
    ]
)
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


@cache
def get(name: str) -> Kernel:
    """The kernel of that name. Its machine code is made, or loaded from disk, when it is first called.

    "name.rows" is the twin of a kernel that works in chunks of rows, see jit_team.py.
    """
    sources = (_MODULE_OF[name.partition(".")[0]], *(("jit_team",) if "." in name else ()))
    return Kernel(name, sources, partial(compiler, name), _wait_for)


@cache
def compiler(name: str) -> Any:
    """The function that Numba makes of a kernel; this imports Numba."""
    plain, _, rows = name.partition(".")
    function = getattr(import_module(f"{__name__}.{_MODULE_OF[plain]}"), plain)
    return import_module(f"{__name__}.jit_team").rows_of(function) if rows else function


def _wait_for(kernel: Kernel, signature: str) -> None:
    from ferro.cpu.kernels import background

    background.wait_for(kernel, signature)


@cache
def signatures() -> dict[str, tuple[str, ...]]:
    """The signatures that kernels are called with, found by a rehearsal: in the calls of warm.py nothing is computed.

    Other threads must not call kernels meanwhile.
    """
    found: dict[str, dict[str, None]] = {}

    def note(self: Kernel, *args: Any) -> bool:
        found.setdefault(self.name, {})[describe(args)] = None
        if sys._getframe(1).f_code.co_name in ("run_rows", "run_parts"):  # several threads would call the twin
            found.setdefault(f"{self.name}.rows", {})[describe((*[0] * 6, *args))] = None
        return True

    from ferro.cpu import threads
    from ferro.cpu.kernels import background, warm

    call, Kernel.__call__ = Kernel.__call__, note
    number = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        with background.as_if_all_were_ready(), np.errstate(all="ignore"):
            warm.call_all()
    finally:
        Kernel.__call__ = call
        threads.set_num_threads(number)
    return {name: tuple(some) for name, some in found.items()}


def compile_for(name: str, wanted: str) -> bool:
    """Make what machine code there is not of a kernel, for a signature or for all whose tags begin so ("f4-").

    Whether it could be kept.
    """
    some = [wanted]
    if wanted.endswith("-"):
        some = [signature for signature in signatures().get(name, ()) if tag_of(signature).startswith(wanted)]
    kept = [get(name).load(tag_of(signature)) or get(name).compile(signature) for signature in some]
    return all(kept)


def compile_all(wanted: str) -> Iterator[None]:
    """The same for all kernels, pausing after each; at last a mark is set on disk, which `all_were_made` finds."""
    for name in signatures():
        compile_for(name, wanted)
        yield
    from ferro.cpu.kernels import front

    front.make_missing(wanted.rstrip("-"))
    store.write(_ALL, wanted, tuple(_MODULES), b"")


def all_were_made(wanted: str) -> bool:
    """Whether there was machine code on disk of all kernels at the start, as far as their tags begin so ("f4-")."""
    sources = tuple(_MODULES)
    return wanted in store.tags(_ALL, sources) and store.read(_ALL, wanted, sources) is not None


_ALL = "all"  # a name that no kernel has


KINDS = ("f4-", "f8-", "any-")  # how the tags of all kernels begin
