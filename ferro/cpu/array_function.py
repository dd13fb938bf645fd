"""Array functions over rows: one block declares the formula in NumPy, the arguments, and the loop that a kernel is made of.

Note [Array functions]
    From `array_function(name, layout, formula=..., loop=...)` follow

    - the entry in machine code, which answers for most arrays (native/jit_layouts.py: there the words of a layout are said);
    - the kernel for what no entry takes and that is not small, its rows shared among the workers;
    - the function of Python behind the entry: strides, dimensions that are not the last, 16-bit floats, the formula;
    - `ArrayFunction.into`, which writes the results into arrays that there are;
    - the name in the registry, what is compiled ahead, and tests/cpu/test_array_functions.py.

    A loop is named "module.function", a module of cpu/kernels. It gets what the layout gives to entries: matrices for x and
    =, vectors for weight (empty for None), rows, norms and labels, then the results. Its rows must not depend on each other. A
    result `weight` is a sum over rows: the loop adds each chunk's to a row of float64 of its own. A loop that may return False
    (layout: "?") leaves the answer to the formula then.

    Words beside those of entries: needs, a tuple of bools, which results are wanted (the loop gets empty arrays for the others);
    state, as buffer, but never None (the loop sees to it). A function with a result `none` writes to its first arrays, and its
    loop goes over elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from ferro.cpu.kernel_routes import Routes
from ferro.cpu.kernels.common import has_kernel, is_half, widened
from ferro.cpu.kernels.conversions import converted
from ferro.cpu.kernels.entries import declare, with_entry

DECLARED: dict[str, ArrayFunction] = {}


class ArrayFunction(Routes):
    """What `array_function` has been told; see Note [Array functions]."""

    __slots__ = ("function",)

    def __init__(self, *declared: Any):
        super().__init__(*declared)
        self.function = self._dispatcher()

    def _dispatcher(self) -> Callable:
        """The function behind the entry."""
        formula, lead, kernels = self.formula, self.lead, self.kernels

        @wraps(formula)
        def dispatch(*args: Any) -> Any:
            x = args[lead]
            if x.ndim and has_kernel(x, *kernels):
                return self.by_kernel(args, None)
            return self._in_float32(args) if is_half(x) and not self.changes else formula(*args)

        dispatch.__name__ = dispatch.__qualname__ = self.name
        return dispatch

    def into(self, out: Any, *args: Any) -> None:
        """Write the result into `out`: an array, or a tuple of arrays (None for what `needs` does not ask for).

        They have the shapes and dtypes of the results, which are the same numbers; ValueError where they have not.
        """
        x = args[self.lead]
        outs = out if isinstance(out, tuple) else (out,)
        if x.ndim and has_kernel(x, *self.kernels):
            found = self.by_kernel(args, outs)
        else:
            found = entered(self)(*args)
        pairs = list(zip(outs, found if isinstance(found, tuple) else (found,), strict=True))
        for a, b in pairs:
            if a is not None:
                self._check(a, b.shape, b.dtype)
        for a, b in pairs:
            if a is not None and a is not b:
                np.copyto(a, b)

    def _in_float32(self, args: tuple) -> Any:
        """The function of 16-bit floats; x and r are rounded once at the end, the rest stays as it is."""
        found = self.function(*map(widened, args))
        dtype = args[self.lead].dtype
        if not isinstance(found, tuple):
            return converted(found, dtype)
        return tuple(
            [
                converted(a, dtype) if a is not None and word in ("x", "r") else a
                for word, a in zip(self.results, found, strict=True)
            ]
        )

    def examples(self, x: np.ndarray) -> Iterator[tuple]:
        """Arguments made from the layout for an array of at least two dimensions, one tuple for each route to a kernel."""
        groups = next(k for k in (3, 2, 1) if x.shape[1] % k == 0) if "groups" in self.words else 1
        rows, last = x.reshape(len(x) * groups, -1), x.ndim - 1
        channels = x.swapaxes(0, 1).reshape(x.shape[1], -1)[:, 0]
        values: dict[str, Any] = {
            "x": x,
            "=": 1.5 - x,
            "weight": x[-1] + 1,
            "rows": rows[:, 0] / 2,
            "norms": rows[:, -1].astype(np.float64) + 4,
            "labels": np.arange(len(x)) % x.shape[1],
            "number": 0.25,
            "trailing": last,
            "last": last,
            "dims": (last,),
            "keep": False,
            "needs": (True,) * len(self.results),
            "changed": x,
            "state": 2.5 - x,
            "flag": False,
            "channel": channels + 1,
            "channels": channels / 2,
            "groups": groups,
        }
        some: list[dict] = [{}]
        if "weight" in self.words:
            some.append({"weight": None})
        if not {"last", "dims"}.isdisjoint(self.words):
            some += [{"last": dim, "dims": (dim,)} for dim in range(last)]
        if "dims" in self.words and last > 1:
            some.append({"dims": (0, last), "keep": True})
        if "channel" in self.words:
            some += [{"flag": True}, {"flag": True, "channel": None}]
        if "buffer" in self.words:
            some.append({"flag": True, "buffer": x + 1})
        for other in some:
            yield tuple([(values | other).get(word) for word in self.words])


def array_function(
    name: str,
    layout: str,
    *,
    formula: Callable,
    loop: str,
    small: str = "",
    columns: str = "",
    grain: float = 1.0,
) -> Callable:
    """Declare a function of arrays; see Note [Array functions].

    - `name` (str): by which `xp` knows it
    - `layout` (str): its arguments and results, see Note [Layouts] in native/jit_layouts.py
    - `formula` (function): what it computes, of arrays of any real floating dtype (16 bits are widened before) and strides
    - `loop` (str): "module.function" of cpu/kernels over rows
    - `small` (str): likewise, the loop of the entry where another one pays there
    - `columns` (str): likewise, the loop along a dimension that is not the last: see `softmax_columns`
    - `grain` (float): elements that a thread takes in 50 microseconds, over `common.GRAIN`

    It returns the function behind the entry, which stands before it in ferro.cpu.
    """
    if name in DECLARED and DECLARED[name].formula.__module__ != formula.__module__:  # (a module may be loaded again)
        raise ValueError(f"the array function {name} is declared already")
    DECLARED[name] = made = ArrayFunction(name, layout, formula, loop, small, columns, grain)
    declare(name, layout.replace("needs", "any").replace("state", "buffer"), made.small)
    return made.function


def entered(made: ArrayFunction) -> Callable:
    """A declared function behind its entries."""
    return with_entry(made.function, made.name)
