"""How the kernel of a declared array function is called: its arguments as arrays that it reads, chunks for the workers, its results.

A route goes over rows, tiles of columns, groups of channels, channels, or elements: see Note [Array functions] in array_function.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, contiguous, share_rows
from ferro.cpu.thresholds import CHANNEL_ROWS
from ferro.native import registry
from ferro.native.thresholds import CHUNK
from ferro.native.workers import run_parts, run_rows

_PACKAGE = "ferro.cpu.kernels"
TILE = 256  # columns that a kernel takes together
NARROW = 8  # fewer columns than this are turned into rows
COLUMNS = 64  # places of channels side by side in each image, that make a chunk
_WIDE = np.dtype(np.float64)
_add = np.add.reduce
_DTYPE_OF = {"norms": _WIDE, "labels": np.dtype(np.int64)}  # of the others: that of x
# What kernels of rows and channels get of the arguments, by the words of a layout.
_TAKEN = {
    **dict.fromkeys(("x", "="), "array"),
    **dict.fromkeys(("weight", "channel", "channels"), "weight"),
    **{word: word for word in ("rows", "norms", "labels", "number", "flag")},
}


class Routes:
    """A declaration, and the ways to its kernel."""

    __slots__ = (
        "changes",
        "columns",
        "formula",
        "grain",
        "kernels",
        "layout",
        "lead",
        "loop",
        "name",
        "place",
        "results",
        "small",
        "taken",
        "words",
    )

    def __init__(self, name: str, layout: str, formula: Callable, loop: str, small: str, columns: str, grain: float):
        self.name, self.layout, self.formula = name, layout, formula
        self.loop, self.small, self.columns = loop, small or loop, columns
        words, _, results = layout.rstrip("?+ ").partition(" -> ")
        self.words, self.results = words.split(), results.split()
        self.place = {word: k for k, word in enumerate(self.words)}
        self.taken = [(k, _TAKEN[word]) for k, word in enumerate(self.words) if word in _TAKEN]
        self.changes = "changed" in self.place  # arguments, and has no result
        self.lead = self.words.index("changed" if self.changes else "x")
        self.grain = grain
        for kernel in filter(None, (loop, columns)):
            module, _, plain = kernel.partition(".")
            registry.declare(_PACKAGE, {module: plain})
        self.kernels = tuple([kernel.partition(".")[2] for kernel in (loop, columns) if kernel])

    def _check(self, a: np.ndarray, shape: tuple, dtype: Any) -> None:
        if a.shape != shape or a.dtype != dtype:
            raise ValueError(
                f"{self.name}: the result has shape {shape} and dtype {dtype}, not {a.shape} and {a.dtype}"
            )

    def by_kernel(self, args: tuple, outs: tuple | None) -> Any:
        """The results of the kernel, in the arrays of `outs` as far as a kernel can write into these."""
        x = args[self.lead]
        if self.changes:
            return self._changed(args)
        if "dims" in self.place:
            dims = args[self.place["dims"]]
            return self._reduced(x, dims, args[self.place["keep"]]) if dims else self.formula(*args)
        if "groups" in self.place:
            return self._by_groups(args, x, args[self.place["groups"]], outs)
        if "channel" in self.place:
            return self._by_channels(args, x, outs)
        length = x.shape[-1]
        if "last" in self.place:
            dim = args[self.place["last"]] % x.ndim
            if dim != x.ndim - 1:
                return self._along(dim, args)
        elif "trailing" in self.place:
            length = math.prod(x.shape[x.ndim - args[self.place["trailing"]] :])
        return self._by_rows(args, x, length, outs)

    def _by_rows(self, args: tuple, x: np.ndarray, length: int, outs: tuple | None) -> Any:
        """Of matrices with rows of that length."""
        rows, needs = x.size // max(length, 1), self._needs(args)
        given, whole = self._given(args, x.dtype, (rows, length))
        summed = "weight" in self.results
        parts = max(1, min(rows // CHANNEL_ROWS, x.size // CHUNK, MOST_CHUNKS)) if summed else 0
        found = []
        for k, word in enumerate(self.results):
            if word == "weight":
                made = np.zeros((parts, length if needs[k] else 0))
            else:
                made = self._made(outs, k, needs[k], x.shape if word == "x" else (rows,), x.dtype)
            found.append(made)
            given.append(made.reshape(-1, length) if word == "x" else made)
        if summed:
            run_parts(self.kernels[0], parts, tuple(given), whole)
            shape = x.shape[x.ndim - args[self.place["trailing"]] :]
            for k, word in enumerate(self.results):
                if word == "weight" and needs[k]:
                    found[k] = _add(found[k]).astype(x.dtype).reshape(shape)
        elif not share_rows(self.kernels[0], rows, int(self.grain * GRAIN) // max(length, 1), tuple(given), whole):
            return self.formula(*args)
        return _wanted(found, needs)

    def _by_channels(self, args: tuple, x: np.ndarray, outs: tuple | None) -> Any:
        """Of arrays (images, channels, places), whose channels a kernel takes each for itself."""
        channels, needs = x.shape[1], self._needs(args)
        shape = (x.shape[0], channels, -1)
        given, _ = self._given(args, x.dtype, shape)
        span = len(given)  # the place of a chunk's first channel
        found = [
            self._made(outs, k, needs[k], x.shape if word == "x" else (channels,), x.dtype)
            for k, word in enumerate(self.results)
        ]
        least = -(-COLUMNS * len(x) * channels // x.size)  # channels in a chunk
        chunks = min(x.size // int(self.grain * CHUNK), channels // least, MOST_CHUNKS)
        results = [a.reshape(shape if a.size else (0, 0, 0)) if a.ndim > 1 else a for a in found]
        run_rows(self.kernels[0], chunks, channels, (*given, 0, channels, *results), -1, span)
        return _wanted(found, needs)

    def _by_groups(self, args: tuple, x: np.ndarray, groups: int, outs: tuple | None) -> Any:
        """Of arrays (images and groups, channels, places): rows, each with weights of its own and sums for its channels."""
        n, needs = x.shape[0], self._needs(args)
        shape = (n * groups, x.shape[1] // groups, -1)
        given, whole = self._given(args, x.dtype, shape)
        for k, a in enumerate(given):
            if isinstance(a, np.ndarray) and a.ndim == 2 and a.size:
                given[k] = np.tile(a, (n, 1))
        found = []
        for k, word in enumerate(self.results):
            summed = word == "channels"
            full = {"x": x.shape, "channels": x.shape[1:2]}.get(word, (n * groups,))
            made = self._made(outs, k, needs[k], full, x.dtype)
            if summed:
                made = np.empty(shape[:2] if needs[k] else (0, 0))
            whole |= (not needs[k]) << len(given)
            given.append(made.reshape(shape if needs[k] else (0, 0, 0)) if word == "x" else made)
            found.append(made)
        share_rows(self.kernels[0], shape[0], int(self.grain * GRAIN) * shape[0] // x.size, tuple(given), whole)
        for k, word in enumerate(self.results):
            if word == "channels" and needs[k]:
                found[k] = found[k].reshape(n, -1).sum(0).astype(x.dtype)
        return _wanted(found, needs)

    def _needs(self, args: tuple) -> tuple:
        """Which results are wanted."""
        return args[self.place["needs"]] if "needs" in self.place else (True,) * len(self.results)

    def _made(self, outs: tuple | None, k: int, wanted: bool, shape: tuple, dtype: Any) -> np.ndarray:
        """The array that the kernel writes result k into: that of `outs`, if it can; an empty one, if it is not wanted."""
        dtype = _DTYPE_OF.get(self.results[k], dtype)
        if outs is not None and outs[k] is not None:
            self._check(outs[k], shape, dtype)
            if outs[k].flags.carray:
                return outs[k]
        return np.empty(shape if wanted else (0, *shape[1:]), dtype)

    def _given(self, args: tuple, dtype: Any, shape: tuple) -> tuple[list, int]:
        """What the kernel gets of the arguments, arrays in that shape, and a mask of what is not cut into rows."""
        given: list[Any] = []
        whole = 0
        of = shape[1:2] if "groups" in self.place else ()  # rows of weights for groups
        for place, word in self.taken:
            a = args[place]
            if word == "array":
                given.append(contiguous(a, dtype).reshape(shape))
            elif word == "weight":
                whole |= (a is None or "weight" in self.place) << len(given)
                given.append(np.empty((0, *of), dtype) if a is None else contiguous(a, dtype).reshape(-1, *of))
            elif word == "number":
                given.append(float(a))
            elif word == "flag":
                given.append(bool(a))
            else:
                given.append(contiguous(a, _DTYPE_OF.get(word, dtype)).reshape(-1))
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
        return np.ascontiguousarray(np.moveaxis(self.by_kernel(last, None), -1, dim))

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


def _wanted(found: list, needs: tuple) -> Any:
    """One result, or a tuple with None for those that are not wanted."""
    results = [a if need else None for a, need in zip(found, needs, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)
