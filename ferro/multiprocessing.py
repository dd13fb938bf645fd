"""Python's multiprocessing under the name that PyTorch programs import, and `spawn`, which runs a function in many processes.

Tensors that `share_memory_` has moved, and modules after `share_memory`, are shared with processes that are forked or that
they are sent to, as arguments or through queues.  Other tensors are pickled on their way: the process gets a copy.

Example::

    >>> import ferro.multiprocessing as mp
    >>> mp.get_context("spawn").get_start_method()
    'spawn'
"""

from __future__ import annotations

import multiprocessing as _python
import signal as _signal
import traceback as _traceback
import warnings as _warnings
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - all of them, as in PyTorch  # pyright: ignore[reportWildcardImportFromLibrary]
from multiprocessing.connection import wait as _wait
from time import monotonic as _now
from typing import Any

from ferro import absent as _absent
from ferro.core import shared_memory as _shared_memory
from ferro.core.storage import UntypedStorage as _UntypedStorage

# (The star brings Python's own names; a list of strings is what the tools understand.)
__all__ = list(_python.__all__)  # pyright: ignore[reportUnsupportedDunderAll] - they are made when Python runs
__all__ += ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException"]
__all__ += ["SpawnContext", "spawn", "start_processes"]
__all__ += ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]


class ProcessException(Exception):
    """A process that `spawn` started has failed: its number in `error_index`, its id in `error_pid`."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function has raised an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """The process has ended otherwise: by a signal, or with the code `exit_code`."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    """The work of one process."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # (the parent has it, too)
    except Exception:  # noqa: BLE001 - whatever it is, the parent hears of it
        errors.put(_traceback.format_exc()[-30_000:])  # (more would not fit into the pipe before the parent reads)
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that `start_processes` has started; `join` waits for them."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends: True if all have ended well, False if some still run.

        Raises: ProcessRaisedException or ProcessExitedException where one has failed; the others are terminated first,
        and killed where they go on for `grace_period` (30) seconds.
        """
        if not self.sentinels:
            return True
        ready = [self.sentinels.pop(s) for s in _wait(list(self.sentinels), timeout)]  # type: ignore[call-overload]
        for i in ready:
            self.processes[i].join()  # (its end of the pipe closes before its exit code is there)
        failed = next((i for i in ready if self.processes[i].exitcode != 0), None)
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = _now() + (30 if grace_period is None else grace_period)
        for process in self.processes:
            process.join(max(0, end - _now()))
            if process.is_alive():
                process.kill()
            process.join()
        process, errors = self.processes[failed], self.error_queues[failed]
        if not errors.empty():
            message = f"\n\n-- Process {failed} terminated with the following error:\n{errors.get()}"
            raise ProcessRaisedException(message, failed, process.pid)
        code = process.exitcode
        if code < 0:
            name = _signal.Signals(-code).name
            message = f"process {failed} terminated with signal {name}"
            raise ProcessExitedException(message, failed, process.pid, code, name)
        raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: None = None,
) -> ProcessContext | None:
    """`spawn` with any way to start processes."""
    context: Any = _python.get_context(start_method)
    queues = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [context.Process(target=_run, args=(fn, i, args, queues[i]), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes, queues)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls ``fn(i, *args)`` in `nprocs` new processes, i = 0, 1, ...; each has a copy of the
    tensors among `args`, or shares them after `share_memory_`.

    join: waits for them; False: returns a `ProcessContext`, whose `join` waits.

    Raises: ProcessRaisedException with the traceback of a function that raised, ProcessExitedException where a process
    ended otherwise; the others are terminated.
    """
    if start_method != "spawn":
        _warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:\n\t\t"
            " torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


_STRATEGIES = ("file_descriptor", "file_system")
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def set_sharing_strategy(new_strategy: str) -> None:
    """How PyTorch would find shared memory: kept, without effect. Ferro sends descriptors of files that have no name.

    AssertionError for an unknown name.
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}: one of {', '.join(_STRATEGIES)} is needed")
    _strategy[0] = new_strategy


def get_sharing_strategy() -> str:
    """What `set_sharing_strategy` said."""
    return _strategy[0]


_shared_memory.register(_UntypedStorage)
_absent.explain(__name__)
