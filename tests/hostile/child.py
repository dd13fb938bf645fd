"""The process of its own that hostile cases run in: ``python -m tests.hostile.child PROGRAM [options]``.

A program is a module beside this one whose `cases(options)` yields names and functions. Cases run in children of this
process, which has imported ferro and done nothing yet: some share a child, until one of them is wrong, then each has
its own; with ``--only`` a case runs right here. A case is wrong if it raises, if a signal ends it, or if it does not
end; what it was calling then is told. Ordinary exceptions of hostile calls are caught by `outcome`.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import mmap
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

if __name__ == "__main__":  # the programs import this module by its own name: there is one
    sys.exit(importlib.import_module("tests.hostile.child").main(sys.argv[1:]))

_note = mmap.mmap(-1, 4096)  # shared with children: it outlives them


class Raised(NamedTuple):
    """What a hostile call gives if it raises."""

    error: Exception


class Options(NamedTuple):
    """How a program runs."""

    long: bool
    rounds: int


def note(text: str) -> None:
    """Say what is called next; it is told if this process dies."""
    data = text.encode("utf-8", "replace")[: len(_note) - 1]
    _note[: len(data) + 1] = data + b"\0"


def noted() -> str:
    """What was said last."""
    return _note[:].partition(b"\0")[0].decode("utf-8", "replace")


def outcome(text: str, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """The result of a hostile call, or a Raised. An error of the interpreter itself is a failure of the case."""
    note(text)
    try:
        return function(*args, **kwargs)
    except SystemError as e:
        raise AssertionError(f"{text}: an error of the interpreter: {e!r}, because of {e.__cause__!r}") from e
    except Exception as e:  # noqa: BLE001 (any ordinary exception will do)
        return Raised(e.with_traceback(None))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--part", default="0/1", help="which cases: k/n for every n-th")
    parser.add_argument("--only", default="", help="run this case alone, in this process")
    parser.add_argument("--collect", action="store_true", help="collect garbage whenever there may be some")
    parser.add_argument("--long", action="store_true", help="more cases")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=30, help="seconds for one child")
    parser.add_argument("--share", type=int, default=16, help="cases for one child")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run cases; 0 if all are right, 1 if one is wrong."""
    given = _parsed(arguments)
    warnings.simplefilter("ignore")
    faulthandler.enable(all_threads=False)
    program = importlib.import_module(f"tests.hostile.{given.program}")
    k, n = map(int, given.part.split("/"))
    gc.collect()
    gc.freeze()  # nobody need look again at what is there by now
    cases = list(program.cases(Options(given.long, given.rounds)))[k::n]
    if given.only:
        return _run([case for case in cases if case[0] == given.only], given)
    gc.collect()
    gc.freeze()
    wrong = 0
    for start in range(0, len(cases), given.share):
        some = cases[start : start + given.share]
        if not _in_child(some, given, told=len(some) == 1):
            found = [_in_child([case], given, told=True) for case in some] if len(some) > 1 else [False]
            wrong += not all(found)
    return min(wrong, 1)


def _in_child(cases: list, given: argparse.Namespace, told: bool) -> bool:
    """Whether the cases are right, in a child. What is wrong is told, if that is wanted."""
    print("child", *[name for name, _ in cases], sep="\n  ", flush=True)
    note("")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if not told:
                _silence()
            code = _run(cases, given)
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if told and status != 0:
        how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        print(f"wrong {cases[0][0]}\n{how} in: {noted()}", flush=True)
    return status == 0


def _silence() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _run(cases: list, given: argparse.Namespace) -> int:
    """Run cases here: 0 if they are right, 1 if one raises or does not end."""
    faulthandler.dump_traceback_later(given.limit, exit=True)
    if given.collect:
        gc.set_threshold(1)
    try:
        for _, case in cases:
            case()
        gc.collect()  # (if that goes wrong, each case has a process of its own and the next look)
    except SystemExit as e:
        return 1 if e.code else 0
    except BaseException:  # noqa: BLE001 (whatever it is, the case is wrong)
        traceback.print_exc(limit=-12)
        return 1
    faulthandler.cancel_dump_traceback_later()
    return 0
