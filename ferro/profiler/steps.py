"""Profiling by steps: which steps of a training loop are recorded, and what happens with the result."""

from __future__ import annotations

import enum
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from ferro.autograd import profiler as _profiler
from ferro.autograd.profiler import EventList, record_function


class ProfilerActivity(enum.Enum):
    """What can be recorded."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """What happens in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What ferro can record."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """After `skip_first` steps, cycles of `wait` idle, `warmup` and `active` recorded steps; `repeat` of them (0: no end).

    skip_first_wait: leave out the idle steps of the first cycle (1).
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError(
            f"schedule: wait, warmup, repeat and skip_first must not be negative and active must be positive, got "
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}"
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes every finished recording as a Chrome trace into a folder."""
    if use_gzip:
        raise ValueError("tensorboard_trace_handler: compressed traces are not written; use use_gzip=False")
    worker = worker_name or f"{platform.node()}_{os.getpid()}"

    def handler(prof: Any) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        prof.export_chrome_trace(Path(dir_name) / f"{worker}.{time.time_ns()}.pt.trace.json")

    return handler


class profile:
    """Records operations and backward between start and stop, or in the steps that `schedule` names (see `step`).

    Example::

        >>> import ferro
        >>> with ferro.profiler.profile() as prof:
        ...     _ = ferro.ones(3) + 1
        >>> [e.key for e in prof.key_averages()]
        ['aten::add']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.options = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack}
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self.profiler: _profiler.profile | None = None
        self._running = False
        self._label: record_function | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with the first step."""
        self.step_num = 0
        self._enter(ProfilerAction.RECORD if self.schedule is None else self.schedule(0))

    def stop(self) -> None:
        """Ends; a recording that runs is finished and handed to `on_trace_ready`."""
        recording = self._running
        self._leave()
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """Says that a step of the training loop has ended and the next begins."""
        finished = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        action = ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)
        if finished or action in (ProfilerAction.NONE, ProfilerAction.WARMUP):
            recording = self._running
            self._leave()
            if recording and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif self._label is not None:
            self._label.__exit__(None, None, None)
            self._label = None
        self._enter(action)

    def _enter(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action not in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            return
        if not self._running:
            self.profiler = _profiler.profile(**self.options)
            self.profiler.__enter__()
            self._running = True
        if self.schedule is not None:
            self._label = record_function(f"ProfilerStep#{self.step_num}")
            self._label.__enter__()

    def _leave(self) -> None:
        if self._label is not None:
            self._label.__exit__(None, None, None)
            self._label = None
        if self._running:
            assert self.profiler is not None
            self.profiler.__exit__(None, None, None)
            self._running = False

    def _result(self) -> _profiler.profile:
        if self.profiler is None:
            raise RuntimeError("Profiler didn't finish running: no step has been recorded yet")
        return self.profiler

    def events(self) -> EventList:
        """The events of the last recording."""
        return self._result().function_events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of the last recording by name."""
        return self._result().key_averages(group_by_input_shape, group_by_stack_n)

    def hidden(self) -> float:
        """The share of the time of exchanges between processes in which this one ran operations or their backward; 0 without any."""
        return self._result().hidden()

    def export_chrome_trace(self, path: str | os.PathLike) -> None:
        """Writes the last recording for chrome://tracing or Perfetto, one lane per thread."""
        self._result().export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike, metric: str = "self_cpu_time_total") -> None:
        """Writes times by location in the program (with_stack=True), for flame graphs."""
        self._result().export_stacks(path, metric)

    def backward_times(self) -> dict[int, tuple[int, str]]:
        """See `ferro.autograd.profiler.profile.backward_times`."""
        return self._result().backward_times()
