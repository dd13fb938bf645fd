"""What memory lets any library do on this machine: reads, copies and sums of arrays, by C's and NumPy's loops and by PyTorch's.

python bench/limits.py                 on all processors
python bench/limits.py --threads 1 --isa avx2

The rows of bench/run.py that move memory cannot be faster than these; docs/internals/performance.md compares them. C and NumPy
run on one thread; what several give is seen with PyTorch alone. Arrays of a size come first, then what single rows of
bench/run.py move: written into one place, and ("new") into results that are made. PyTorch and ferro make them always, as the rows do.
"""

import argparse
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from bench import harness

# Numbers of float32: what 1000x1000 and 1e7 rows of bench/run.py move, and half of the former.
SIZES = {"2 MB": 490_000, "4 MB": 1_000_000, "8 MB": 2_000_000, "40 MB": 10_000_000}
WIDTH = 44


def jobs(size: int, torch: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """What is timed for arrays of so many numbers, by what it is and by who does it."""
    x, y, z = [np.random.default_rng(k).random(size, np.float32) for k in range(3)]
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "read (largest number)": {"C, NumPy": lambda: x.max()},
        "copy": {"C, NumPy": lambda: ctypes.memmove(z.ctypes.data, x.ctypes.data, x.nbytes)},
        "add two, into a third": {"C, NumPy": lambda: np.add(x, y, out=z)},
        "fill": {"C, NumPy": lambda: z.fill(1)},
    }
    if torch is not None:
        a, b, c = [torch.from_numpy(array) for array in (x, y, z)]
        found["read (largest number)"]["PyTorch"] = lambda: a.max()
        found["read (sum)"] = {"PyTorch": lambda: a.sum()}
        found["copy"]["PyTorch"] = lambda: c.copy_(a)
        found["add two, into a third"]["PyTorch"] = lambda: torch.add(a, b, out=c)
        found["fill"]["PyTorch"] = lambda: c.fill_(1)
    return found


def _arrays(dtype: Any) -> SimpleNamespace:
    """What rows of bench/run.py move."""
    rng = np.random.default_rng(0)
    square, other = rng.random((2, 1000, 1000)).astype(dtype)
    table, row = rng.random((10_000, 96)).astype(dtype), rng.random(1000).astype(dtype)
    long, longer = rng.random((2, 10_000_000)).astype(dtype)
    return SimpleNamespace(
        x=square,
        y=other,
        row=row,
        table=table,
        index=rng.integers(0, 10_000, 1024),
        places=rng.integers(0, 1000, (1000, 1000)),
        parts=[rng.random((500, 500)).astype(dtype) for _ in range(4)],
        long=long,
        longer=longer,
    )


def _by_numpy(a: SimpleNamespace) -> dict[str, Callable[[], Any]]:
    """Into one place, where a result is not new."""
    out, wide, taken = np.empty_like(a.x), np.empty((1000, 2000), a.x.dtype), np.empty((1024, 96), a.x.dtype)
    four = np.empty((500, 4, 500), a.x.dtype)

    def roll() -> None:
        out[:, 3:], out[:, :3] = a.x[:, :-3], a.x[:, -3:]

    return {
        "rows of a table": lambda: np.take(a.table, a.index, 0, out=taken, mode="clip"),
        "cat": lambda: np.concatenate((a.x, a.y), 1, out=wide),
        "stack": lambda: np.stack(a.parts, 1, out=four),
        "flip": lambda: np.copyto(out, a.x[:, ::-1]),
        "roll": roll,
        "repeat": lambda: np.copyto(wide.reshape(1000, 2, 1000), a.x[:, None]),
        "add row": lambda: np.add(a.x, a.row, out=out),
        "add row, new": lambda: a.x + a.row,
        "div, new": lambda: a.x / a.y,
        "sum of columns": lambda: a.x.sum(0),
        "product of rows": lambda: a.x.prod(1),
        "relu 1e7, new": lambda: np.maximum(a.long, 0),
        "add 1e7, new": lambda: a.long + a.longer,
        "add_ 1e7": lambda: np.add(a.longer, a.long, out=a.longer),
    }


def _by(lib: Any, arrays: SimpleNamespace) -> dict[str, Callable[[], Any]]:
    """The operations of a library; all but add_ and scatter_add_ make their results."""
    a = SimpleNamespace(**{name: lib.from_numpy(v) for name, v in vars(arrays).items() if name != "parts"})
    parts, changed = [lib.from_numpy(part) for part in arrays.parts], a.y.clone()
    return {
        "rows of a table": lambda: a.table.index_select(0, a.index),
        "cat": lambda: lib.cat((a.x, a.y), 1),
        "stack": lambda: lib.stack(parts, 1),
        "flip": lambda: a.x.flip(1),
        "roll": lambda: a.x.roll(3, 1),
        "repeat": lambda: a.x.repeat_interleave(2, 0),
        "add row, new": lambda: a.x + a.row,
        "div, new": lambda: a.x / a.y,
        "sum of columns": lambda: a.x.sum(0),
        "product of rows": lambda: a.x.prod(1),
        "scatter_add_": lambda: changed.scatter_add_(1, a.places, a.x),
        "relu 1e7, new": lambda: lib.relu(a.long),
        "add 1e7, new": lambda: a.long + a.longer,
        "add_ 1e7": lambda: a.longer.add_(a.long),
    }


def rows(libraries: dict[str, Any], dtype: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """The movements of rows of bench/run.py, by what moves and by who does it."""
    arrays = _arrays(dtype)
    by = {"NumPy": _by_numpy(arrays), **{name: _by(lib, arrays) for name, lib in libraries.items()}}
    names = dict.fromkeys(name for some in by.values() for name in some)
    return {name: {who: some[name] for who, some in by.items() if name in some} for name in names}


def main(argv: list[str] | None = None) -> int:
    """Print the shortest time of each, in microseconds, and the bandwidth that it stands for."""
    parser: argparse.ArgumentParser = harness.parser(__doc__.partition("\n")[0])
    args = parser.parse_args(argv)
    harness.restrict(args)
    libraries = harness.engines(["ferro", "torch"])
    torch = libraries.get("torch")
    for library in libraries.values():
        library.set_num_threads(args.threads)
    facts = harness.machine()
    where = f"{facts['processor']}, {args.isa or facts['isa']}, {args.threads} of {facts['processors']} processors"
    print(f"{where}: us of PyTorch and ferro on all of these, of NumPy and C on one")
    for label, size in SIZES.items():
        _show(label, jobs(size, torch), args)
    for dtype in (np.float32, np.float64):
        _show(np.dtype(dtype).name, rows(libraries, dtype), args)
    return 0


def _show(label: str, table: dict[str, dict[str, Callable[[], Any]]], args: Any) -> None:
    """Time what a table says, in turns."""
    for name, by in table.items():
        if args.only not in f"{label}, {name}":
            continue
        timings = harness.interleave(by, args.seconds, pause=0.01 if args.threads > 1 else 0.0)
        cells = "".join(f"{who:>10}{timing.best * 1e6:10.1f}" for who, timing in timings.items())
        print(f"{label + ', ' + name:{WIDTH}}{cells}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
