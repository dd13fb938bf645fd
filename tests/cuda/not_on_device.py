"""Tests of other folders that are skipped with tensors on the device "cuda", and why: by file, then by a pattern for the test's name,
with or without its parameters.

What is marked OPEN differs from the CPU, or from PyTorch on a GPU, and is not mended.
"""

from __future__ import annotations

import re

MEMORY = "is about memory of the processor: shared with NumPy, addresses, storages"
SEEDED = "compares with numbers of PyTorch's generator of the CPU"
LAYOUT = "OPEN: results of elementwise functions lie in C order on the device (docs/cuda.md), PyTorch's in the order of their inputs"
ELSEWHERE = "makes some of its tensors on the CPU itself"
CPU_ONLY = "calls what PyTorch has for tensors of the CPU alone"
WORDS = "compares texts that name the device or the processor's functions"
CHOICE = "looks at which way the CPU's code takes"
COUNTS = "compares in float64, but with capturable=True the device counts and computes with counts in float32, as PyTorch's does"
OPEN = "OPEN: differs on the device, not mended"

# Modules whose results PyTorch lays out as their inputs.
IN_C_ORDER = (
    "AdaptiveAvgPool2d|AdaptiveMaxPool2d|AvgPool2d|BatchNorm2d|BatchNorm3d|Conv2d|ConvTranspose2d|Hardshrink|"
    "Hardswish|LPPool2d|LazyBatchNorm2d|LazyBatchNorm3d|LazyConv2d|LazyConvTranspose2d|MaxPool2d|MaxPool3d|"
    "MaxUnpool2d|PReLU|ReLU|ReLU6|Sigmoid|Threshold"
)

NOT: dict[str, dict[str, str]] = {
    "ops/test_derived.py": {"test_gradient_agrees_with_central_differences": MEMORY},  # (moves inputs by `numpy()`)
    "autograd/test_api.py": {"test_the_state_of_the_default_generator_can_be_kept_and_restored": CPU_ONLY},
    "autograd/test_backward.py": {"test_the_layout_of_a_new_grad_follows_the_leaf": LAYOUT},
    "autograd/test_forward_mode.py": {
        "test_a_tangent_lies_in_memory_as_its_tensor": LAYOUT,
        "test_arguments_of_make_dual": WORDS,
    },
    "autograd/test_gradcheck.py": {
        r"test_right_derivatives_are_accepted\[fast\]": OPEN
    },  # (one of its functions raises)
    "autograd/test_hooks_of_nodes.py": {
        # A gradient is copied to `.grad`, where the CPU and PyTorch hand its array over, which a hook had kept.
        "test_hooks_of_a_leaf_and_of_its_node_run_in_order_on_one_gradient": OPEN,
        "test_a_recorded_gradient_is_a_copy_laid_out_like_its_leaf": LAYOUT,
    },
    "autograd/test_modes.py": {"test_a_view_made_under_no_grad_says_that_its_base_requires_grad": WORDS},
    "autograd/test_provenance.py": {r"test_the_message_names_the_lines\[an array leaves by numpy\(\)\]": ELSEWHERE},
    "autograd/test_saved_hooks.py": {
        "test_only_what_changes_is_copied_and_nothing_outlives_the_context": MEMORY,
        "test_which_values_are_packed": OPEN,  # (numbers are saved as tensors of no dimension)
    },
    "autograd/test_views.py": {
        "test_element_by_element": CPU_ONLY,
        "test_element_by_element_counts_as_a_change": CPU_ONLY,
        "test_as_strided_chains": OPEN,  # (storage_offset() of such a view is 0: docs/cuda.md, Limits)
    },
    "autograd/test_vmap.py": {
        r"test_refusals\[in place\]": OPEN,  # (writes run as a loop over the slices, which a warning says)
    },
    "optim/test_fused.py": {"test_memory_that_must_not_be_written_is_refused": MEMORY},
    "optim/test_optimizers.py": {r"test_switches_between_implementations_change_nothing\[capturable\]": COUNTS},
    "optim/test_trajectories.py": {
        r"test_thirty_steps_with_an_option_are_those_of_torch\[.*-capturable\]": COUNTS,
        r"test_thirty_steps_of_complex_parameters_are_those_of_torch\[.*-capturable\]": COUNTS,
    },
    "nn/test_init.py": {"test_a_generator_makes_it_repeatable": ELSEWHERE},
    "nn/test_seeded_weights.py": {
        "test_modules_begin_with_the_weights_of_torch": SEEDED,
        "test_stacked_layers_have_the_weights_of_torch": SEEDED,
        "test_a_seeded_network_trains_like_that_of_torch": SEEDED,
    },
    # PyTorch's database of modules makes them on the CPU; this loss has parameters that nothing moves.
    "nn/test_module_db.py": {
        r"test_(a_module_is_pytorchs|copies_and_pickles_compute_the_same)\[LinearCrossEntropyLoss\]": ELSEWHERE,
        r"test_channels_last_and_strided_inputs\[LinearCrossEntropyLoss\]": ELSEWHERE,
        "test_modules_in_other_dtypes": ELSEWHERE,
        "test_modules_refuse_what_pytorch_refuses": ELSEWHERE,
        rf"test_channels_last_and_strided_inputs\[({IN_C_ORDER})\]": LAYOUT,
    },
}


def reason_of(nodeid: str) -> str | None:
    """Why a test is skipped; None if it runs."""
    file, _, name = nodeid.partition("::")
    known = NOT.get(file.removeprefix("tests/"), {})
    return next((why for pattern, why in known.items() if re.fullmatch(rf"{pattern}(\[.*\])?", name)), None)
