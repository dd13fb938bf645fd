"""Tests of other folders that are skipped with tensors on the device "cuda", and why: by file, then by a pattern for the test's name,
with or without its parameters.
"""

from __future__ import annotations

import re

MEMORY = "is about memory of the processor: shared with NumPy, addresses, storages"
SEEDED = "compares with numbers of PyTorch's generator of the CPU"
ELSEWHERE = "makes some of its tensors on the CPU itself"
CPU_NAMED = "names the CPU, and the tensors lie on the device"
CPU_ONLY = "calls what PyTorch has for tensors of the CPU alone"
WORDS = "compares texts that name the device or the processor's functions"
CHOICE = "looks at which way the CPU's code takes"
COUNTS = "compares in float64, but with capturable=True the device counts and computes with counts in float32, as PyTorch's does"
CAPSULES = "hands memory of the device to a PyTorch without CUDA"
BESIDE = "sets NumPy's arrays beside tensors, which on a device is an error, as in PyTorch"
GROWS = "grows without bounds, so that a rounding in a sum decides in which step a loss overflows"
DEFAULT = "sets the default device itself"

# NumPy's functions of two arguments, of which a test gives one as an array.
OF_TWO = (
    "add|arctan2|copysign|divide|equal|float_power|floor_divide|fmax|fmin|fmod|greater|greater_equal|hypot|less|less_equal|logaddexp|"
    "logaddexp2|logical_and|logical_or|logical_xor|matmul|maximum|minimum|multiply|nextafter|not_equal|power|remainder|subtract"
)

NOT: dict[str, dict[str, str]] = {
    "ops/test_creation.py": {
        "test_an_array_that_is_read_only_is_warned_of_once_and_cannot_be_written": MEMORY,
    },
    "ops/test_data.py": {
        "test_asarray_shares_memory_and_copies_when_asked_to": MEMORY,
        # (PyTorch's answers are those of its tensors of the processor, which NumPy computes)
        r"test_with_numpys_functions_and_numbers_as_in_torch\[np\.(add|matmul)\(np.*\]": BESIDE,
        r"test_with_numpys_functions_and_numbers_as_in_torch\[np\.divmod.*\]": MEMORY,
        "test_memory_that_numpy_was_given_is_not_resized": MEMORY,
        "test_capsules_go_to_torch_and_back": CAPSULES,
        "test_(a_device_is_the_default_of_its_block|blocks_of_devices_may_be_left_in_another_order)": DEFAULT,
        "test_the_default_device_is_one_that_there_is": DEFAULT,
    },
    "ops/test_indexing.py": {
        r"test_every_key_reads_and_writes_what_pytorch_does\[3\]": MEMORY,  # (asks whether memory is shared with NumPy)
        "test_an_index_that_left_its_bounds_behind_our_back_is_found": MEMORY,
    },
    "ops/test_legacy.py": {r"test_the_old_constructors_do_what_pytorchs_do\[device-new\]": CPU_NAMED},
    "ops/test_linalg_solve.py": {
        "test_large_factorisations_do_not_depend_on_the_number_of_threads": CHOICE,
    },
    "ops/test_linalg_spectral.py": {
        r"test_errors_name_what_is_wrong\[.*LinAlgError-(inf or nan[02]|Batch element)\]": WORDS
    },
    "ops/test_nn_functional.py": {
        "test_16_bit_slopes_are_those_of_float32_rounded_once": ELSEWHERE,
        "test_(feature_dropout_drops_whole_channels|rrelu_draws_slopes_between_its_bounds)": ELSEWHERE,
        "test_(dropout_zeros_a_share_p_and_scales_the_rest|alpha_dropout_keeps_mean_and_variance)": ELSEWHERE,
        "test_gumbel_softmax_hard_is_one_hot_with_the_gradient_of_the_soft_sample": ELSEWHERE,
    },
    "ops/test_numpy_functions.py": {
        rf"test_a_ufunc_gives_what_numpy_gives\[({OF_TWO})-.*\]": BESIDE,
        r"test_a_ufunc_gives_what_numpy_gives\[reciprocal-int64\]": MEMORY,  # (NumPy's gives integers)
        "test_an_array_or_a_number_of_numpys_on_the_left": BESIDE,
        "test_(a_gradient_flows_past_an_array_on_the_left|dtypes_are_numpys_with_and_without_history)": BESIDE,
        r"test_what_cannot_be_recorded_is_refused\[(a ufunc.*|two.*|the sign.*|outer|at|reduceat|out|augmented)\]": BESIDE,
        "test_an_array_takes_what_is_added_of_a_plain_tensor": BESIDE,
    },
    "ops/test_old_idioms.py": {
        r"test_an_old_idiom_does_what_pytorchs_does\[t\.ones\(2\)\.(storage\(\)|is_cuda|get_device\(\))\]": WORDS,
        r"test_an_old_idiom_does_what_pytorchs_does\[.*\.cuda\(\)\]": CAPSULES,
    },
    "ops/test_protocol.py": {"test_an_array_on_the_right_of_an_operator": BESIDE},
    "ops/test_recurrent.py": {"test_numbers_do_not_depend_on_the_number_of_threads": CHOICE},
    "ops/test_shape.py": {r"test_values\[<lambda>8\]": BESIDE},
    "autograd/test_api.py": {"test_the_state_of_the_default_generator_can_be_kept_and_restored": CPU_ONLY},
    "autograd/test_forward_mode.py": {"test_arguments_of_make_dual": WORDS},
    "autograd/test_modes.py": {"test_a_view_made_under_no_grad_says_that_its_base_requires_grad": WORDS},
    "autograd/test_provenance.py": {r"test_the_message_names_the_lines\[an array leaves by numpy\(\)\]": ELSEWHERE},
    "autograd/test_saved_hooks.py": {
        "test_only_what_changes_is_copied_and_nothing_outlives_the_context": MEMORY,
    },
    "autograd/test_views.py": {
        "test_element_by_element": CPU_ONLY,
        "test_element_by_element_counts_as_a_change": CPU_ONLY,
    },
    "optim/test_fused.py": {"test_memory_that_must_not_be_written_is_refused": MEMORY},
    "optim/test_optimizers.py": {
        r"test_thirty_steps_are_those_of_torch\[SGD-lr=0.01-momentum=0.9-dampening=0.3-maximize=True\]": GROWS,
        r"test_switches_between_implementations_change_nothing\[capturable\]": COUNTS,
    },
    "optim/test_trajectories.py": {},
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
        r"test_modules_in_other_dtypes\[float32\]": ELSEWHERE,
        "test_modules_refuse_what_pytorch_refuses": ELSEWHERE,
    },
}


def reason_of(nodeid: str) -> str | None:
    """Why a test is skipped; None if it runs."""
    file, _, name = nodeid.partition("::")
    known = NOT.get(file.removeprefix("tests/"), {})
    return next((why for pattern, why in known.items() if re.fullmatch(rf"{pattern}(\[.*\])?", name)), None)
