"""A call of every kernel, by way of the functions that are declared to call it, with the examples of their declarations."""

from __future__ import annotations

import numpy as np

from ferro.cpu.array_function import DECLARED as OF_ROWS
from ferro.cpu.by_kernels import DECLARED as BY_KERNELS
from ferro.cpu.kernels.common import pointwise
from ferro.elementwise import DECLARED as ELEMENTWISE


def call_all() -> None:
    """In float32 and in float64."""
    for dtype in (np.float32, np.float64):
        x = np.linspace(0, 1, 64 * 64, dtype=dtype).reshape(64, 64)
        for function in ELEMENTWISE.values():
            pointwise(function.__name__, *[x] * function.arrays, parameters=(0.5,) * function.numbers)
        for made in OF_ROWS.values():
            for arguments in made.examples(x):
                made.function(*arguments)
        for declared in BY_KERNELS.values():
            for arguments in declared.examples(lambda *shape, dtype=dtype: np.ones(shape, dtype)):
                declared.function(*arguments)
