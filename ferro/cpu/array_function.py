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

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib import import_module
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, contiguous, has_kernel, is_half, share_rows, widened
from ferro.cpu.kernels.entries import DTYPES, FILES, entry
from ferro.cpu.thresholds import CHANNEL_ROWS
from ferro.native import registry
from ferro.native.entries import EntryFile
from ferro.native.thresholds import CHUNK
from ferro.native.workers import run_parts

_PACKAGE = "ferro.cpu.kernels"
TILE = 256  # columns that a kernel takes together
NARROW = 8  # fewer columns than this are turned into rows
_WIDE = np.dtype(np.float64)
_DTYPE_OF = {"norms": _WIDE, "labels": np.dtype(np.int64)}  # of the others: that of x

DECLARED: dict[str, ArrayFunction] = {}


class ArrayFunction:
    """What `array_function` has been told; see Note [Array functions]."""

    __slots__ = (
        "changes",
        "columns",
        "formula",
        "function",
        "grain",
        "kernels",
        "layout",
        "lead",
        "loop",
        "name",
        "results",
        "small",
        "words",
    )

    def __init__(self, name: str, layout: str, formula: Callable, loop: str, small: str, columns: str, grain: float):
        self.name, self.layout, self.formula = name, layout, formula
        self.loop, self.small, self.columns = loop, small or loop, columns
        words, _, results = layout.rstrip("?+ ").partition(" -> ")
        self.words, self.results = words.split(), results.split()
        self.changes = "changed" in self.words  # arguments, and has no result
        self.lead = self.words.index("changed" if self.changes else "x")
        self.grain = grain
        for kernel in filter(None, (loop, columns)):
            module, _, plain = kernel.partition(".")
            registry.declare(_PACKAGE, {module: plain})
        self.kernels = tuple([kernel.partition(".")[2] for kernel in (loop, columns) if kernel])
        self.function = self._dispatcher()

    def _dispatcher(self) -> Callable:
        """The function behind the entry."""
        formula, lead, kernels = self.formula, self.lead, self.kernels

        @wraps(formula)
        def dispatch(*args: Any) -> Any:
            x = args[lead]
            if x.ndim and has_kernel(x, *kernels):
                return self._by_kernel(args, None)
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
            found = self._by_kernel(args, outs)
        else:
            found = entered(self)(*args)
        pairs = list(zip(outs, found if isinstance(found, tuple) else (found,), strict=True))
        for a, b in pairs:
            if a is not None:
                self._check(a, b.shape, b.dtype)
        for a, b in pairs:
            if a is not None and a is not b:
                np.copyto(a, b)

    def _check(self, a: np.ndarray, shape: tuple, dtype: Any) -> None:
        if a.shape != shape or a.dtype != dtype:
            raise ValueError(
                f"{self.name}: the result has shape {shape} and dtype {dtype}, not {a.shape} and {a.dtype}"
            )

    def _in_float32(self, args: tuple) -> Any:
        """The function of 16-bit floats; x and r are rounded once at the end, the rest stays as it is."""
        found = self.function(*map(widened, args))
        dtype = args[self.lead].dtype
        if not isinstance(found, tuple):
            return found.astype(dtype)
        return tuple(
            [
                a.astype(dtype) if a is not None and word in ("x", "r") else a
                for word, a in zip(self.results, found, strict=True)
            ]
        )

    def _by_kernel(self, args: tuple, outs: tuple | None) -> Any:
        """The results of the kernel, in the arrays of `outs` as far as a kernel can write into these."""
        x = args[self.lead]
        if self.changes:
            return self._changed(args)
        if "dims" in self.words:
            dims = args[self.words.index("dims")]
            return self._reduced(x, dims, args[self.words.index("keep")]) if dims else self.formula(*args)
        length = x.shape[-1]
        if "last" in self.words:
            dim = args[self.words.index("last")] % x.ndim
            if dim != x.ndim - 1:
                return self._along(dim, args)
        elif "trailing" in self.words:
            length = math.prod(x.shape[x.ndim - args[self.words.index("trailing")] :])
        return self._by_rows(args, x, length, outs)

    def _by_rows(self, args: tuple, x: np.ndarray, length: int, outs: tuple | None) -> Any:
        """Of matrices with rows of that length."""
        rows = x.size // max(length, 1)
        needs = args[self.words.index("needs")] if "needs" in self.words else (True,) * len(self.results)
        given, whole = self._given(args, x.dtype, (rows, length))
        summed = "weight" in self.results
        parts = max(1, min(rows // CHANNEL_ROWS, x.size // CHUNK, MOST_CHUNKS)) if summed else 0
        shape = x.shape[x.ndim - args[self.words.index("trailing")] :] if summed else ()  # of a result `weight`
        found = []
        for k, word in enumerate(self.results):
            out = None if outs is None else outs[k]
            full, dtype = {"x": x.shape, "weight": shape}.get(word, (rows,)), _DTYPE_OF.get(word, x.dtype)
            if out is not None:
                self._check(out, full, dtype)
            if word == "weight":
                made = np.zeros((parts, length if needs[k] else 0))
            elif not needs[k]:
                made = np.empty((0, length), dtype)
            else:
                made = out if out is not None and out.flags.carray else np.empty(full, dtype)
            found.append(made)
            given.append(made.reshape(-1, length) if word == "x" else made)
        if summed:
            run_parts(self.kernels[0], parts, tuple(given), whole)
            for k, word in enumerate(self.results):
                if word == "weight" and needs[k]:
                    found[k] = found[k].sum(0).astype(x.dtype).reshape(shape)
        elif not share_rows(self.kernels[0], rows, int(self.grain * GRAIN) // max(length, 1), tuple(given), whole):
            return self.formula(*args)
        results = [a if need else None for a, need in zip(found, needs, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    def _given(self, args: tuple, dtype: Any, shape: tuple[int, int]) -> tuple[list, int]:
        """What the kernel gets of the arguments, and a mask of what is not cut into rows."""
        given: list[Any] = []
        whole = 0
        for word, a in zip(self.words, args, strict=True):
            if word in ("x", "="):
                given.append(contiguous(a, dtype).reshape(shape))
            elif word == "weight":
                whole |= 1 << len(given)
                given.append(np.empty(0, dtype) if a is None else contiguous(a, dtype).reshape(-1))
            elif word in ("rows", "norms", "labels"):
                given.append(contiguous(a, _DTYPE_OF.get(word, dtype)).reshape(-1))
            elif word == "number":
                given.append(float(a))
        return given, whole

    def _changed(self, args: tuple) -> Any:
        """A kernel of elements that writes to its first arrays, if all of these lie alike in memory."""
        x, whole = args[self.lead], 0
        order = None if x.flags.carray else sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
        given: list[Any] = []
        for word, a in zip(self.words, args, strict=True):
            if word in ("changed", "state", "buffer", "="):
                if a is None:
                    whole |= 1 << len(given)
                    given.append(np.empty(0, x.dtype))
                    continue
                moved = a if order is None else a.transpose(order)
                if word != "=" and not (moved.flags.carray and moved.dtype == x.dtype):
                    return self.formula(*args)
                given.append(contiguous(moved, x.dtype).reshape(-1))
            else:
                given.append(bool(a) if word == "flag" else float(a))
        share_rows(self.kernels[0], x.size, int(self.grain * GRAIN), tuple(given), whole)
        return None

    def _along(self, dim: int, args: tuple) -> np.ndarray:
        """The function along a dimension that is not the last; the result is C-contiguous."""
        arrays = [a for word, a in zip(self.words, args, strict=True) if word in ("x", "=")]
        x = args[self.lead]
        length, after = x.shape[dim], math.prod(x.shape[dim + 1 :])
        if self.columns and after >= NARROW:
            out = np.empty(x.shape, x.dtype)
            blocks = [contiguous(a, x.dtype).reshape(-1, length, after) for a in arrays]
            self._by_tiles(*blocks, out.reshape(blocks[0].shape))
            return out
        turned = [contiguous(np.moveaxis(a, dim, -1), x.dtype) for a in arrays]
        last = tuple([turned.pop(0) if word in ("x", "=") else -1 for word in self.words])
        return np.ascontiguousarray(np.moveaxis(self._by_kernel(last, None), -1, dim))

    def _by_tiles(self, *blocks: np.ndarray) -> None:
        """The kernel of columns over arrays (before, along, after), the last one being its result."""
        before, length, after = blocks[0].shape
        tiles = before * -(-after // TILE)
        first = len(blocks)  # the place of a chunk's first tile among the arguments; all arrays are given whole
        args = (*blocks[:-1], TILE, 0, tiles, blocks[-1])
        share_rows(self.kernels[1], tiles, -(-int(self.grain * GRAIN) // (length * min(after, TILE))), args, -1, first)

    def _reduced(self, x: np.ndarray, dims: tuple[int, ...], keep: bool) -> np.ndarray:
        """A number for what lies along `dims`."""
        left = [1 if dim in dims else n for dim, n in enumerate(x.shape) if keep or dim not in dims]
        before, after = math.prod(x.shape[: dims[0]]), math.prod(x.shape[dims[-1] + 1 :])
        if self.columns and after >= NARROW and x.flags.carray and dims[-1] - dims[0] + 1 == len(dims):
            out = np.empty((before, after), x.dtype)
            self._by_tiles(x.reshape(before, -1, after), out)
            return out.reshape(left)
        kept = [dim for dim in range(x.ndim) if dim not in dims]
        rows = contiguous(x.transpose(*kept, *dims)).reshape(-1, math.prod([x.shape[dim] for dim in dims]))
        out = np.empty(rows.shape[0], x.dtype)
        share_rows(self.kernels[0], len(rows), -(-int(self.grain * GRAIN) // max(rows.shape[1], 1)), (rows, out))
        return out.reshape(left)

    def examples(self, x: np.ndarray) -> Iterator[tuple]:
        """Arguments made from the layout for an array of at least two dimensions, one tuple for each route to a kernel."""
        rows, last = x.reshape(len(x), -1), x.ndim - 1
        values: dict[str, Any] = {
            "x": x,
            "=": 1.5 - x,
            "weight": x[-1] + 1,
            "rows": rows[:, 0] / 2,
            "norms": rows[:, -1].astype(_WIDE) + 4,
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
        }
        some: list[dict] = [{}]
        if "weight" in self.words:
            some.append({"weight": None})
        if not {"last", "dims"}.isdisjoint(self.words):
            some += [{"last": dim, "dims": (dim,)} for dim in range(last)]
        if "dims" in self.words and last > 1:
            some.append({"dims": (0, last), "keep": True})
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

    It returns the function behind the entry; `entries` has that with the entry before it.
    """
    if name in DECLARED and DECLARED[name].formula.__module__ != formula.__module__:  # (a module may be loaded again)
        raise ValueError(f"the array function {name} is declared already")
    DECLARED[name] = made = ArrayFunction(name, layout, formula, loop, small, columns, grain)
    return made.function


# --- entries ---------------------------------------------------------------------------------------------------------


def entered(made: ArrayFunction) -> Callable:
    """A declared function behind its entries."""
    return entry(made.function, made.name)


def entries() -> dict[str, Callable]:
    """All declared functions behind their entries, by name. What is declared later has none."""
    if f"{next(iter(DTYPES))}.rows" not in FILES:
        loops = sorted({loop.partition(".")[0] for made in DECLARED.values() for loop in (made.loop, made.small)})
        sources = (*[f"{_PACKAGE}.{module}" for module in loops], "ferro.native.jit_entries")
        layouts = "".join([f"{made.name} {made.layout} {made.small} " for made in DECLARED.values()])
        mark = hashlib.blake2b(layouts.encode(), digest_size=4).hexdigest()
        for code in DTYPES:
            FILES[f"{code}.rows"] = EntryFile(f"{code}rows{mark}", sources, partial(_compiled, code))
    return {name: entered(made) for name, made in DECLARED.items()}


def _compiled(code: str) -> dict[str, Any]:
    """The entries for a dtype, by name; this imports Numba."""
    from ferro.native import jit_entries

    found = {}
    for name, made in DECLARED.items():
        module, _, loop = made.small.partition(".")
        kernel = getattr(import_module(f"{_PACKAGE}.{module}"), loop)
        found[name] = jit_entries.make(
            kernel, made.layout.replace("needs", "any").replace("state", "buffer"), DTYPES[code]
        )
    return found
