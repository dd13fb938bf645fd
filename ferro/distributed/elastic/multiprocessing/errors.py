"""`record`: the exception of a program's main function goes into the file that its launcher reads."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ferro import absent as _absent

__all__ = ["ErrorHandler", "get_error_handler", "record"]


class ErrorHandler:
    """Writes an exception as JSON to the file that TORCHELASTIC_ERROR_FILE names in the environment, if it names one."""

    def initialize(self) -> None:
        """Lets Python print where it is when a signal kills it."""
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):  # (standard error may be no file)
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Writes the message, the traceback and the time of the exception that is being handled."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path:
            more = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
            with Path(path).open("w", encoding="utf-8") as file:
                json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": more}}, file)


def get_error_handler() -> ErrorHandler:
    """A new ErrorHandler."""
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """The function; an exception that leaves it is written by the `error_handler` and raised again.

    ``SystemExit(0)`` returns None, as in PyTorch.

    Example::

        >>> from ferro.distributed.elastic.multiprocessing.errors import record
        >>> record(lambda x: x + 1)(1)
        2
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as e:
            handler.record_exception(e)
            raise

    return run


_absent.explain(__name__)
