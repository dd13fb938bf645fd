"""Which functions of the device read numbers, and so wait for the GPU: seen by the stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ferro.core.backend import DEVICE_BACKENDS
from ferro.cuda.waiting import WAITS
from tests.cuda import stand_in


@contextmanager
def unlisted_waits() -> Iterator[set[str]]:
    """The functions that read numbers meanwhile and are not in WAITS; one that goes to the CPU says so itself."""
    running: list[str] = []
    unlisted: set[str] = set()

    def noted(original: Callable) -> Callable:
        def read(array: Any) -> Any:
            if running and running[-1] not in WAITS:
                unlisted.add(running[-1])
            return original(array)

        return read

    def named(name: str, function: Callable) -> Callable:
        def run(*args: Any, **kwargs: Any) -> Any:
            running.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                running.pop()

        return run

    functions = DEVICE_BACKENDS["cuda"]
    # (made when first asked for: so that all are there)
    found = {name: getattr(functions, name) for name in dir(functions)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stand_in, "_read", noted(stand_in._read))
        for name, value in found.items():
            if callable(value):
                patched.setitem(vars(functions), name, named(name, value))
        yield unlisted
