"""The optimisers that rows of bench/run.py time."""

from typing import Any


def sgd(lib: Any, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.01)


def momentum(lib: Any, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adam(lib: Any, parameters: Any) -> Any:
    return lib.optim.Adam(parameters)


def adamw(lib: Any, parameters: Any) -> Any:
    return lib.optim.AdamW(parameters)
