"""What kernels by hand have not is computed by the formula of the CPU: its twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ferro.cuda.twins import formula_of

__all__ = ["or_twin"]


def or_twin(given: Callable) -> Callable:
    """Decorator: a function by kernels, which gives NotImplemented for what these have not; the twin of `given` computes that."""

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def run(*args: Any) -> Any:
            found = function(*args)
            return formula_of(given)(*args) if found is NotImplemented else found

        return run

    return decorate
