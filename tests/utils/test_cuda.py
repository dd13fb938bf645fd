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
    "set_rng_state_all": ([],),
    "empty_cache": (),
    "memory_allocated": (),
    "max_memory_allocated": (),
    "memory_reserved": (),
    "max_memory_reserved": (),
    "memory_stats": (),
}
CLASSES = ["CUDAGraph", "Event", "ExternalStream", "Stream", "graph"]  # which programs name in annotations
CONTEXTS = ["StreamContext", "device", "device_of", "stream"]
REFUSALS = sorted(
    set(ferro.cuda.__all__) - {*ANSWERS, *CLASSES, *CONTEXTS, "amp", "nvtx", "default_generators", "OutOfMemoryError"}
)


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


@pytest.mark.parametrize("name", ["autocast", "GradScaler", "custom_fwd", "custom_bwd"])
def test_old_names_of_mixed_precision_warn_as_pytorchs(torch: Any, name: str) -> None:
    decorates = name.startswith("custom")
    call, arguments = ((lambda ctx, x: x,), {}) if decorates else ((), {"enabled": False})
    with pytest.warns(FutureWarning) as theirs:
        getattr(torch.cuda.amp, name)(*call, **arguments)
    with pytest.warns(FutureWarning) as ours:
        getattr(ferro.cuda.amp, name)(*call, **arguments)
    assert str(theirs[0].message) in str(ours[0].message)


@pytest.mark.filterwarnings("ignore:`torch.cuda.amp")
def test_a_training_step_with_the_old_names_trains() -> None:
    weight = ferro.ones(3, requires_grad=True)
    optimizer = ferro.optim.SGD([weight], lr=0.5)
    scaler = ferro.cuda.amp.GradScaler(enabled=ferro.cuda.is_available())
    with ferro.cuda.amp.autocast(enabled=ferro.cuda.is_available()):
        loss = (weight * 2).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_a_gpu_are_there_to_be_named(torch: Any, name: str) -> None:
    assert isinstance(getattr(ferro.cuda, name), type)
    assert isinstance(getattr(torch.cuda, name), type)
    with pytest.raises(RuntimeError, match=rf"Tried to instantiate dummy base class {name}.*requires CUDA support"):
        getattr(ferro.cuda, name)()


def test_contexts_without_a_gpu_change_nothing(torch: Any) -> None:
    for m in (ferro, torch):
        if m is torch and torch.version.cuda is not None:
            continue
        with m.cuda.stream(None), m.cuda.StreamContext(None), m.cuda.device(-1), m.cuda.device_of(m.ones(2)):
            assert len(m.cuda.default_generators) == 0
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            m.cuda.device("cpu")
    with (
        pytest.raises(AssertionError, match=r"Torch not compiled with CUDA enabled: cuda\.device\(0\)"),
        ferro.cuda.device(0),
    ):
        pass
    with pytest.raises(TypeError, match="there is no GPU, so None"):
        ferro.cuda.stream(ferro.ones(2))  # type: ignore[arg-type]
