"""The profiler: events of forward and backward with their threads, named parts, tables, traces and steps."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro import profiler
from ferro.autograd._observer import Observer
from ferro.autograd.profiler import profile, record_function
from ferro.profiler import ProfilerAction


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


def names(prof: Any) -> list:
    return [e.name for e in prof.function_events]


def test_forward_and_backward_are_recorded_with_times_and_linked() -> None:
    x = leaf(1.0, 2.0)
    with profile() as prof:
        (x.exp() * x).sum().backward()
    assert names(prof) == ["aten::exp", "aten::mul", "aten::sum", "SumBackward0", "MulBackward0", "ExpBackward0"]
    assert [e.kind for e in prof.function_events] == ["forward"] * 3 + ["backward"] * 3
    assert all(e.cpu_time_total > 0 and e.thread == threading.get_ident() for e in prof.function_events)
    assert [e.sequence_nr for e in prof.function_events[:3]] == [e.sequence_nr for e in prof.function_events[:2:-1]]
    assert ferro.allclose(x.grad, x.exp() * (x + 1))
    (x * 2).sum()
    assert len(prof.function_events) == 6  # over is over


def test_the_same_gradients_as_without_it() -> None:
    def run() -> Any:
        x = ferro.arange(12.0).reshape(3, 4).requires_grad_()
        y = x.softmax(1).max(0).values
        y.mul_(2)
        (g,) = ferro.autograd.grad((y * y).sum(), x, create_graph=True)
        return ferro.autograd.grad((g * g).sum(), x)[0]

    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        profiled = run()
    assert ferro.equal(profiled, run())


def test_self_time_leaves_out_what_runs_inside() -> None:
    x = leaf(1.0, 2.0)
    with profile() as prof, record_function("outer"):
        with record_function("inner"):
            x.exp()
        x.sin()
    outer, inner, exp, sin = prof.function_events
    assert [outer.name, inner.name, exp.name, sin.name] == ["outer", "inner", "aten::exp", "aten::sin"]
    assert exp.cpu_parent is inner
    assert inner.cpu_parent is sin.cpu_parent is outer
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total - sin.cpu_time_total)
    assert prof.self_cpu_time_total == pytest.approx(outer.cpu_time_total)


def test_record_function_as_decorator_and_without_a_profile() -> None:
    @record_function("mine")
    def work(x: Any) -> Any:
        """Works."""
        return x * 2

    assert work(3) == 6
    assert work.__doc__ == "Works."
    with profile() as prof:
        work(ferro.ones(1))
    assert names(prof) == ["mine", "aten::mul"]
    with record_function("alone"):
        pass


def test_events_end_when_an_operation_raises() -> None:
    with profile() as prof, record_function("part"):
        with pytest.raises(RuntimeError, match="broadcast"):
            ferro.ones(2) + ferro.ones(3)
        ferro.ones(2).exp()
    part, failed, exp = prof.function_events
    assert (failed.name, exp.name) == ("aten::add", "aten::exp")
    assert failed.cpu_parent is exp.cpu_parent is part


def test_key_averages_and_table() -> None:
    x = ferro.rand(50, 50)
    with profile(record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            x @ x
        x.exp()
        x[0].exp()
    table = prof.key_averages()
    entries = {e.key: e for e in table}
    assert entries["aten::mm"].count == 3
    assert entries["aten::mm"].cpu_time == pytest.approx(entries["aten::mm"].cpu_time_total / 3)
    assert entries["aten::mm"].cpu_memory_usage == 3 * 50 * 50 * 4
    assert entries["aten::exp"].count == 2
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert sorted(str(e.input_shapes) for e in by_shape if e.key == "aten::exp") == ["[[50, 50]]", "[[50]]"]
    text = table.table(sort_by="count", row_limit=1, header="mine")
    assert text.startswith("mine\n")
    assert "mm" in text
    assert "exp" not in text
    assert "# of Calls" in text
    assert "CPU Mem" in text
    assert "Self CPU time total:" in text
    assert str(table) == table.table()
    assert prof.total_average().count == len(prof.function_events)
    with pytest.raises(ValueError, match="sort_by must be one of"):
        table.table(sort_by="colour")
    assert "mm" in prof.table(top_level_events_only=True)


def test_a_disabled_profile_records_nothing() -> None:
    with profile(enabled=False) as prof:
        ferro.ones(2).exp()
    assert prof.function_events == []


def test_the_stack_says_where() -> None:
    with profile(with_stack=True) as prof:
        ferro.ones(2).exp()
    assert "test_profiler.py:" in prof.function_events[0].stack[0]
    assert len(prof.key_averages(group_by_stack_n=1)) == 1


def heavy() -> Any:
    a, b = [ferro.rand(300, 300, requires_grad=True) for _ in range(2)]
    return ((a @ a).sin() * (b @ b).sin()).sum()


def test_a_chrome_trace_has_one_lane_per_thread(tmp_path: Path) -> None:
    loss = heavy()
    with profile() as prof:
        loss.backward(retain_graph=True)
        ferro.autograd.backward(loss * 2, num_threads=3)
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    ran = [e for e in events if e["ph"] == "X"]
    assert len(ran) == len(prof.function_events)
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in ran} == set(lanes)
    assert len(lanes) == len({e.thread for e in prof.function_events})
    assert "MainThread" in lanes.values()
    for lane in lanes:  # in one lane events lie behind or inside each other
        spans = sorted((e["ts"], -e["dur"]) for e in ran if e["tid"] == lane)
        end = 0.0
        for start, negative in spans:
            assert start >= end - 1e-3 or start - negative <= end + 1e-3
            end = max(end, start - negative)


def test_backward_on_several_threads_is_recorded_in_their_lanes() -> None:
    gate = threading.Barrier(2)
    seen: set = set()

    def meet(run: Any, node: Any, g: Any, rest: Any) -> Any:
        if node.name() == "SinBackward0" and len(seen) < 2:  # the first two wait for each other: two threads run them
            seen.add(threading.get_ident())
            gate.wait(20)
        return rest()

    class Meeting(Observer):
        backward = staticmethod(meet)

    x = ferro.rand(400, 400, requires_grad=True)
    loss = (x @ x).sin() + (x @ x).sin()
    with profile() as prof, Meeting():
        ferro.autograd.backward(loss, ferro.ones(400, 400), num_threads=2)
    backward = [e for e in prof.function_events if e.kind == "backward"]
    assert len({e.thread for e in backward if e.name == "SinBackward0"}) == 2
    times = prof.backward_times()
    assert len(times) == len(backward)
    assert len({thread for _, thread in times.values()}) == 2


def test_traces_link_forward_to_backward(tmp_path: Path) -> None:
    x = leaf(1.0)
    with profile(record_shapes=True, with_stack=True) as prof:
        x.exp().backward()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    (begin,) = [e for e in events if e["ph"] == "s"]
    (end,) = [e for e in events if e["ph"] == "f"]
    assert begin["id"] == end["id"]
    (exp,) = [e for e in events if e["name"] == "aten::exp"]
    assert exp["args"]["input shapes"] == [[1]]
    assert "test_profiler.py" in exp["args"]["at"]
    prof.export_stacks(tmp_path / "stacks.txt")
    assert "test_profiler.py" in (tmp_path / "stacks.txt").read_text("utf-8")
    assert ";aten::exp " in (tmp_path / "stacks.txt").read_text("utf-8")
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(tmp_path / "stacks.txt", "self_cuda_time_total")


# -- by steps ----------------------------------------------------------------------------------------------------------


def test_profiler_profile_records_between_start_and_stop() -> None:
    ready: list = []
    prof = profiler.profile(activities=[profiler.ProfilerActivity.CPU], on_trace_ready=ready.append, record_shapes=True)
    prof.start()
    ferro.ones(3).exp()
    prof.stop()
    ferro.ones(3).sin()
    assert [e.name for e in prof.events()] == ["aten::exp"]
    assert prof.key_averages(group_by_input_shape=True)[0].input_shapes == [[3]]
    assert ready == [prof]
    with pytest.raises(RuntimeError, match="didn't finish running"):
        profiler.profile().key_averages()


def test_schedule_is_the_one_of_pytorch(torch: Any) -> None:
    for options in (
        {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 3},
        {"wait": 0, "warmup": 0, "active": 1},
        {"wait": 2, "warmup": 1, "active": 3, "repeat": 1, "skip_first": 1, "skip_first_wait": 1},
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ours, theirs = profiler.schedule(**options), torch.profiler.schedule(**options)
        assert [str(w.message) for w in told][::2] == [str(w.message) for w in told][1::2]
        assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)]
    with pytest.raises(ValueError, match="schedule"):
        profiler.schedule(wait=0, warmup=0, active=0)


def test_steps_are_recorded_by_the_schedule(tmp_path: Path) -> None:
    seen: list = []

    def ready(prof: Any) -> None:
        seen.append([e.name for e in prof.events()])

    x = ferro.ones(2)
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profiler.profile(schedule=plan, on_trace_ready=ready) as prof:
        for i in range(10):
            x.exp() if i % 2 else x.sin()
            prof.step()
    assert seen == [
        ["ProfilerStep#2", "aten::sin", "ProfilerStep#3", "aten::exp"],
        ["ProfilerStep#6", "aten::sin", "ProfilerStep#7", "aten::exp"],
    ]
    assert prof.current_action is ProfilerAction.NONE
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "me")):
        x.exp()
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("me.")
    assert "exp" in file.read_text("utf-8")


def test_profile_and_guard_work_together() -> None:
    x = leaf(1.0, 2.0)
    with profile() as prof, ferro.debug.nan_guard():
        x.exp().sum().backward()
        with pytest.raises(ferro.debug.NonFiniteError):
            (-x).log()
    assert names(prof) == ["aten::exp", "aten::sum", "SumBackward0", "ExpBackward0", "aten::neg", "aten::log"]


def test_ranges_for_gpus_are_refused(torch: Any) -> None:
    """The class is there for `isinstance` and annotations."""
    with pytest.raises(RuntimeError, match="NVTX functions not installed"), ferro.autograd.profiler.emit_nvtx():
        pass
    with ferro.autograd.profiler.emit_nvtx(enabled=False) as ranges:
        assert not ranges.enabled
    assert profiler.kineto_available() is False  # (PyTorch's tracing library; the profiler here is ferro's own)
