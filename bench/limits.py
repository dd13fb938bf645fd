"""What memory lets any library do on this machine: reads, copies and sums of arrays, by C's and NumPy's loops and by PyTorch's.

python bench/limits.py                 on all processors
python bench/limits.py --threads 1 --isa avx2

The rows of bench/run.py that move memory cannot be faster than these; docs/internals/performance.md compares them. C and NumPy
run on one thread; what several give is seen with PyTorch alone.
"""

import argparse
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
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


def main(argv: list[str] | None = None) -> int:
    """Print the shortest time of each, in microseconds, and the bandwidth that it stands for."""
    parser: argparse.ArgumentParser = harness.parser(__doc__.partition("\n")[0])
    args = parser.parse_args(argv)
    harness.restrict(args)
    torch = harness.engines(["torch"]).get("torch")
    if torch is not None:
        torch.set_num_threads(args.threads)
    facts = harness.machine()
    where = f"{facts['processor']}, {args.isa or facts['isa']}, {args.threads} of {facts['processors']} processors"
    print(f"{where}: us of PyTorch on all of these, of NumPy and C on one")
    for label, size in SIZES.items():
        for name, by in jobs(size, torch).items():
            pause = 0.01 if args.threads > 1 else 0.0
            timings = harness.interleave(by, args.seconds, pause=pause)
            cells = "".join(f"{who:>10}{timing.best * 1e6:10.1f}" for who, timing in timings.items())
            print(f"{label + ', ' + name:{WIDTH}}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
