"""ferro.cuda answers as a build of PyTorch without CUDA does."""

from __future__ import annotations

from typing import Any

import pytest

import ferro

ANSWERS: dict[str, tuple[Any, ...]] = {
    "is_available": (),
    "is_initialized": (),
    "is_bf16_supported": (),
    "is_tf32_supported": (),
    "device_count": (),
    "get_arch_list": (),
    "manual_seed": (1,),
    "manual_seed_all": (1,),
    "seed": (),
    "seed_all": (),
    "get_rng_state_all": (),
    "empty_cache": (),
    "memory_allocated": (),
    "max_memory_allocated": (),
    "memory_reserved": (),
    "max_memory_reserved": (),
    "memory_stats": (),
}
REFUSALS = sorted(set(ferro.cuda.__all__) - set(ANSWERS))


@pytest.mark.parametrize("name", ANSWERS)
def test_questions_are_answered_as_without_a_gpu(torch: Any, name: str) -> None:
    if torch.version.cuda is not None:
        pytest.skip("this PyTorch was built with CUDA")
    assert getattr(ferro.cuda, name)(*ANSWERS[name]) == getattr(torch.cuda, name)(*ANSWERS[name])


@pytest.mark.parametrize("name", REFUSALS)
def test_what_needs_a_gpu_is_refused_by_name(name: str) -> None:
    with pytest.raises(AssertionError, match=rf"Torch not compiled with CUDA enabled: cuda\.{name}\(\) needs a GPU"):
        getattr(ferro.cuda, name)(0)


def test_the_idiom_of_scripts_finds_the_cpu() -> None:
    device = ferro.device("cuda" if ferro.cuda.is_available() else "cpu")
    assert ferro.ones(2, device=device).device.type == "cpu"
