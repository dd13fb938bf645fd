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
OFFSET = "OPEN: storage_offset() of views on the device is 0"
STORAGE = "OPEN: a storage on the device has no bytes to be looked at"
CAPSULES = "OPEN: a bare DLPack capsule of a GPU's memory is not taken (objects with __dlpack__ are)"
EXPANDED = "meets what only the stand-in does: NumPy's expanded arrays are read-only, and it warns of divisions by 0"
BESIDE = "sets NumPy's arrays beside tensors, which on a device is an error, as in PyTorch"
GROWS = "grows without bounds, so that a rounding in a sum decides in which step a loss overflows"
DEFAULT = "sets the default device itself"
OPEN = "OPEN: differs on the device, not mended"

# Modules whose results PyTorch lays out as their inputs.
IN_C_ORDER = (
    "AdaptiveAvgPool2d|AdaptiveMaxPool2d|AvgPool2d|BatchNorm2d|BatchNorm3d|Conv2d|ConvTranspose2d|Hardshrink|"
    "Hardswish|LPPool2d|LazyBatchNorm2d|LazyBatchNorm3d|LazyConv2d|LazyConvTranspose2d|MaxPool2d|MaxPool3d|"
    "MaxUnpool2d|PReLU|ReLU|ReLU6|Sigmoid|Threshold"
)

NOT: dict[str, dict[str, str]] = {
    "ops/test_derived.py": {"test_gradient_agrees_with_central_differences": MEMORY},  # (moves inputs by `numpy()`)
    "ops/test_creation.py": {
        "test_a_view_as_out_writes_into_its_base": OFFSET,
        "test_an_array_that_is_read_only_is_warned_of_once_and_cannot_be_written": MEMORY,
    },
    "ops/test_data.py": {
        "test_tensors_like_others_lie_as_torchs": LAYOUT,
        "test_asarray_shares_memory_and_copies_when_asked_to": MEMORY,
        "test_with_numpys_functions_and_numbers_as_in_torch": MEMORY,
        "test_memory_that_numpy_was_given_is_not_resized": MEMORY,
        "test_(capsules_go_to_torch_and_back|a_capsule_is_used_once)": CAPSULES,
        r"test_memory_of_others_is_read_and_refused_as_torch_does\[.*to_dlpack.*\]": CAPSULES,
        "test_(a_device_is_the_default_of_its_block|blocks_of_devices_may_be_left_in_another_order)": DEFAULT,
        "test_the_default_device_is_one_that_there_is": DEFAULT,
    },
    "ops/test_indexing.py": {
        r"test_every_key_reads_and_writes_what_pytorch_does\[3\]": MEMORY,  # (asks whether memory is shared with NumPy)
        "test_an_index_that_left_its_bounds_behind_our_back_is_found": MEMORY,
    },
    "ops/test_layouts.py": {
        "test_(tensors_like_others|results)_lie_in_memory_as_.*": LAYOUT,
        "test_copying_forms_of_views_are_in_c_order": STORAGE,
        "test_complex_numbers_and_their_parts_view_one_memory": STORAGE,
    },
    "ops/test_legacy.py": {"test_the_old_constructors_do_what_pytorchs_do": STORAGE},
    "ops/test_linalg_solve.py": {
        "test_large_factorisations_do_not_depend_on_the_number_of_threads": CHOICE,
    },
    "ops/test_linalg_spectral.py": {"test_errors_name_what_is_wrong": WORDS},
    "ops/test_nn_functional.py": {
        "test_16_bit_slopes_are_those_of_float32_rounded_once": ELSEWHERE,
        "test_(feature_dropout_drops_whole_channels|rrelu_draws_slopes_between_its_bounds)": ELSEWHERE,
        "test_(dropout_zeros_a_share_p_and_scales_the_rest|alpha_dropout_keeps_mean_and_variance)": ELSEWHERE,
        "test_gumbel_softmax_hard_is_one_hot_with_the_gradient_of_the_soft_sample": ELSEWHERE,
    },
    "ops/test_numbers_of_numpy.py": {
        "test_parameters_of_other_classes_mean_the_same": MEMORY
    },  # (takes bytes of arrays)
    "ops/test_numpy_functions.py": {
        "test_(a_ufunc_gives_what_numpy_gives|an_array_or_a_number_of_numpys_on_the_left)": BESIDE,
        "test_(a_gradient_flows_past_an_array_on_the_left|dtypes_are_numpys_with_and_without_history)": BESIDE,
        "test_(what_cannot_be_recorded_is_refused|an_array_takes_what_is_added_of_a_plain_tensor)": BESIDE,
    },
    "ops/test_old_idioms.py": {"test_an_old_idiom_does_what_pytorchs_does": WORDS},
    "ops/test_order_in_memory.py": {"test_.*": LAYOUT},
    "ops/test_overlapping.py": {
        "test_expanded_tensors_are_written_warned_of_or_refused_as_torch_does": EXPANDED,
        "test_in_place_operations_refuse_an_expanded_tensor": EXPANDED,
        "test_a_warning_is_given_once_unless_all_are_asked_for": EXPANDED,
    },
    "ops/test_pooling.py": {
        "test_(many_images_with_channels_last|channels_last_is_kept_by_volumes_without_a_batch_and_by_unpooling)": LAYOUT,
    },
    "ops/test_protocol.py": {"test_an_array_on_the_right_of_an_operator": BESIDE},
    "ops/test_recurrent.py": {"test_numbers_do_not_depend_on_the_number_of_threads": CHOICE},
    "ops/test_reductions.py": {"test_the_variance_over_too_few_elements_is_infinite_or_nan": EXPANDED},
    "ops/test_shape.py": {
        "test_a_view_has_the_strides_of_pytorch_and_shares_memory": OFFSET,
        "test_expand_repeats_without_memory_and_refuses_writes": EXPANDED,
        r"test_values\[<lambda>8\]": BESIDE,
    },
    "ops/test_views_inplace.py": {"test_(allowed|random_programs)": EXPANDED},
    "autograd/test_api.py": {"test_the_state_of_the_default_generator_can_be_kept_and_restored": CPU_ONLY},
    "autograd/test_backward.py": {"test_the_layout_of_a_new_grad_follows_the_leaf": LAYOUT},
    "autograd/test_forward_mode.py": {
        "test_a_tangent_lies_in_memory_as_its_tensor": LAYOUT,
        "test_arguments_of_make_dual": WORDS,
    },
    "autograd/test_hooks_of_nodes.py": {
        "test_a_recorded_gradient_is_a_copy_laid_out_like_its_leaf": LAYOUT,
    },
    "autograd/test_modes.py": {"test_a_view_made_under_no_grad_says_that_its_base_requires_grad": WORDS},
    "autograd/test_provenance.py": {r"test_the_message_names_the_lines\[an array leaves by numpy\(\)\]": ELSEWHERE},
    "autograd/test_saved_hooks.py": {
        "test_only_what_changes_is_copied_and_nothing_outlives_the_context": MEMORY,
    },
    "autograd/test_views.py": {
        "test_element_by_element": CPU_ONLY,
        "test_element_by_element_counts_as_a_change": CPU_ONLY,
        "test_as_strided_chains": OPEN,  # (storage_offset() of such a view is 0: docs/cuda.md, Limits)
    },
    "optim/test_fused.py": {"test_memory_that_must_not_be_written_is_refused": MEMORY},
    "optim/test_optimizers.py": {
        r"test_thirty_steps_are_those_of_torch\[SGD-lr=0.01-momentum=0.9-dampening=0.3-maximize=True\]": GROWS,
        r"test_switches_between_implementations_change_nothing\[capturable\]": COUNTS,
    },
    "optim/test_trajectories.py": {
        r"test_thirty_steps_with_an_option_are_those_of_torch\[(ASGD|NAdam)-capturable\]": COUNTS,
        r"test_thirty_steps_of_complex_parameters_are_those_of_torch\[(ASGD|NAdam)-capturable\]": COUNTS,
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
