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
    "set_rng_state": (ferro.get_rng_state(),),
    "set_rng_state_all": ([],),
    "get_gencode_flags": (),
    "set_stream": (None,),
}
VALUES = {"has_half", "default_generators"}
OLD = {"memory_cached", "max_memory_cached"}
TYPES = sorted(name for name in ferro.cuda.__all__ if name.endswith("Tensor"))
CLASSES = {
    "OutOfMemoryError",
    "Stream",
    "Event",
    "ExternalStream",
    "CUDAGraph",
    "StreamContext",
    "device",
    "device_of",
    "graph",
    "stream",
}
REFUSALS = sorted(
    set(ferro.cuda.__all__) - {*ANSWERS, *VALUES, *OLD, *TYPES, *CLASSES, "amp", "nvtx", "is_current_stream_capturing"}
)


@pytest.mark.parametrize("name", ANSWERS)
def test_questions_are_answered_as_without_a_gpu(torch: Any, name: str) -> None:
    if torch.version.cuda is not None:
        pytest.skip("this PyTorch was built with CUDA")
    assert getattr(ferro.cuda, name)(*ANSWERS[name]) == getattr(torch.cuda, name)(*ANSWERS[name])


@pytest.mark.parametrize("name", sorted(VALUES))
def test_values_are_those_without_a_gpu(torch: Any, name: str) -> None:
    assert getattr(ferro.cuda, name) == getattr(torch.cuda, name)


@pytest.mark.parametrize("name", sorted(OLD))
def test_old_names_warn_as_pytorchs(torch: Any, name: str) -> None:
    said = []
    for t in (torch, ferro):
        with pytest.warns(FutureWarning) as warned:
            assert getattr(t.cuda, name)() == 0
        said.append(str(warned[0].message))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", TYPES)
def test_old_types_of_a_gpu_make_nothing(torch: Any, name: str) -> None:
    theirs, ours = getattr(torch.cuda, name), getattr(ferro.cuda, name)
    assert str(ours.dtype) == str(theirs.dtype).replace("torch", "ferro")
    assert (ours.is_cuda, ours.is_sparse, isinstance(ferro.ones(1), ours)) == (True, False, False)
    for kind in (theirs, ours):
        with pytest.raises(
            TypeError, match=f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled"
        ):
            kind(3)


@pytest.mark.parametrize("name", REFUSALS)
def test_what_needs_a_gpu_is_refused_by_name(name: str) -> None:
    with pytest.raises(AssertionError, match=rf"Torch not compiled with CUDA enabled: cuda\.{name}\(\) needs a GPU"):
        getattr(ferro.cuda, name)(0)


def test_the_idiom_of_scripts_finds_the_cpu() -> None:
    assert ferro.cuda.is_current_stream_capturing() is False  # (PyTorch without CUDA raises)
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


ASKED: dict[str, Any] = {  # what a program says to a GPU, and to streams and events
    "tensor": lambda t: t.ones(1).cuda(),
    "to": lambda t: t.ones(1).to("cuda"),
    "device": lambda t: t.ones(1, device="cuda"),
    "module": lambda t: t.nn.Linear(1, 1).cuda(),
    "type": lambda t: t.ones(1).type(t.cuda.FloatTensor),
    "type by name": lambda t: t.ones(1).type("torch.cuda.FloatTensor"),
    "default type": lambda t: t.set_default_tensor_type(t.cuda.FloatTensor),
    "default type by name": lambda t: t.set_default_tensor_type("torch.cuda.FloatTensor"),
    "Stream": lambda t: t.cuda.Stream(),
    "Stream with options": lambda t: t.cuda.Stream(device="cuda", priority=-1),
    "Event": lambda t: t.cuda.Event(enable_timing=True),
    "CUDAGraph": lambda t: t.cuda.CUDAGraph(),
    "graph": lambda t: t.cuda.graph(None),
    "stream of None": lambda t: t.cuda.stream(None).__enter__(),
    "stream": lambda t: t.cuda.StreamContext(None).stream,
    "device 0": lambda t: t.cuda.device(0).__enter__(),
    "device -1": lambda t: t.cuda.device(-1).__enter__(),
    "device cpu": lambda t: t.cuda.device("cpu"),
    "device by name": lambda t: t.cuda.device("cuda:1").idx,
    "device_of": lambda t: t.cuda.device_of(t.ones(1)).__enter__(),
    "nvtx push": lambda t: t.cuda.nvtx.range_push("forward"),
    "nvtx pop": lambda t: t.cuda.nvtx.range_pop(),
    "nvtx mark": lambda t: t.cuda.nvtx.mark("here"),
    "nvtx range": lambda t: t.cuda.nvtx.range("forward").__enter__(),
    "cuda.random": lambda t: t.cuda.random.manual_seed(1),
    "cuda.memory": lambda t: t.cuda.memory.empty_cache(),
    "a stream": lambda t: t.Stream(),
    "a stream of the CPU": lambda t: t.Stream("cpu").device.type,
    "a stream of a GPU": lambda t: t.Stream(device="cuda"),
    "a stream by number": lambda t: t.Stream(0),
    "streams are equal": lambda t: t.Stream() == t.Stream() and hash(t.Stream()) == hash(t.Stream()),
    "numbers of a stream": lambda t: (t.Stream().device_index, t.Stream().device_type, t.Stream().stream_id),
    "stream.query": lambda t: t.Stream().query(),
    "stream.synchronize": lambda t: t.Stream().synchronize(),
    "stream.record_event": lambda t: t.Stream().record_event(),
    "stream.wait_event": lambda t: t.Stream().wait_event(t.Event()),
    "stream.wait_stream": lambda t: t.Stream().wait_stream(t.Stream()),
    "a block in a stream": lambda t: t.Stream().__enter__(),
    "an event": lambda t: t.Event("cpu", enable_timing=True),
    "an event of a GPU": lambda t: t.Event(device="cuda"),
    "event.query": lambda t: t.Event().query(),
    "event.wait": lambda t: t.Event().wait(),
    "event.synchronize": lambda t: t.Event().synchronize(),
    "event.record": lambda t: t.Event().record(),
    "event.elapsed_time": lambda t: t.Event().elapsed_time(t.Event()),
    "event.elapsed_time, timed": lambda t: t.Event(enable_timing=True).elapsed_time(t.Event(enable_timing=True)),
    "get_device_module": lambda t: t.get_device_module("cuda") is t.cuda and t.get_device_module() is t.cpu,
    "get_device_module of no module": lambda t: t.get_device_module("meta"),
    "cpu.synchronize": lambda t: t.get_device_module("cpu").synchronize(),
    "cpu.stream": lambda t: t.cpu.stream(t.cpu.Stream()).__enter__(),
    "cpu.current_stream": lambda t: t.cpu.current_stream() is t.cpu.current_stream(),
    "cpu.wait_stream": lambda t: t.cpu.Stream().wait_stream(t.cpu.current_stream()),
    "cpu.device": lambda t: (
        t.cpu.device_count(),
        t.cpu.current_device(),
        t.cpu.is_available(),
        t.cpu.is_initialized(),
    ),
    "cpu.set_device": lambda t: t.cpu.set_device("cpu"),
    "cpu.Event": lambda t: (
        t.cpu.Event().query(),
        t.cpu.Event().record(),
        t.cpu.Event().synchronize(),
        t.cpu.Event().wait(),
    ),
}


def outcome(function: Any, t: Any) -> tuple[Exception | None, str]:
    """The error and what it says, or None and the value as text."""
    try:
        return None, repr(function(t))
    except (RuntimeError, AssertionError, ValueError, TypeError, AttributeError) as error:
        return error, str(error)


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
@pytest.mark.parametrize("name", ASKED)
def test_devices_streams_and_events_are_those_without_a_gpu(torch: Any, name: str) -> None:
    if torch.version.cuda is not None:
        pytest.skip("this PyTorch was built with CUDA")
    (their_error, theirs), (our_error, ours) = outcome(ASKED[name], torch), outcome(ASKED[name], ferro)
    if their_error is None:
        assert (our_error, ours) == (None, theirs)
    else:
        assert isinstance(our_error, type(their_error))
        assert theirs.partition(". PyTorch splits")[0] in str(our_error)


@pytest.mark.parametrize("name", ["CUDAGraph", "Event", "ExternalStream", "Stream", "graph"])
def test_classes_of_a_gpu_are_there_to_be_named(torch: Any, name: str) -> None:
    assert isinstance(getattr(ferro.cuda, name), type)
    assert isinstance(getattr(torch.cuda, name), type)
    with pytest.raises(RuntimeError, match=rf"Tried to instantiate dummy base class {name}.*requires CUDA support"):
        getattr(ferro.cuda, name)()
