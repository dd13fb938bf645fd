"""Both sides of each threshold of ferro/cpu/thresholds.py, in one process: where they cross, and what else a block costs.

python bench/thresholds.py                  all entries that can be timed (some minutes)
python bench/thresholds.py SUM_LEAST        some of them
python bench/thresholds.py --page           the same, and docs/internals/thresholds.md is written anew

A threshold between two ways is moved out of the way, first below and then above all sizes, so that both ways compute
arrays of sizes on both sides of it; a size of blocks or chunks is halved, doubled, ... Blocks of calls alternate.
Begin with `python -m ferro.warmup`: where a kernel is not compiled yet, both ways are NumPy's.
"""

import argparse
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import ferro
from bench import harness
from ferro import cpu
from ferro.core import accumulate
from ferro.cpu import blocks, fusion, thresholds
from ferro.cpu.kernels import gather_scatter, gemm, strided_copy
from ferro.native import thresholds as native
from ferro.native.entries import fallback

PAGE = Path(__file__).parents[1] / "docs/internals/thresholds.md"
TABLES = (thresholds, native)
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
NEVER = 1 << 62
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Entry:
    """A threshold as its table says it."""

    name: str
    value: Any
    unit: str
    meaning: str
    shown_by: str


def entries() -> dict[str, Entry]:
    """All thresholds, by name."""
    found = {}
    for table in TABLES:
        text = Path(str(table.__file__)).read_text("utf-8")
        for unit, meaning, shown, name in re.findall(
            r"^# ([\w ,]+): (.*)\n# shown by: (.*)\n([A-Z][A-Z_]+) = .+$", text, re.MULTILINE
        ):
            found[name] = Entry(name, getattr(table, name), unit, meaning, shown)
    return found


@contextmanager
def moved(name: str, value: int) -> Iterator[None]:
    """The threshold at another value, in all modules of ferro that have imported it."""
    holders = [m for key, m in list(sys.modules.items()) if key.startswith("ferro.") and name in vars(m)]
    before = {m: getattr(m, name) for m in holders}
    for module in holders:
        setattr(module, name, value)
        for kept in vars(module).values():  # plans that were made with another value
            if hasattr(kept, "cache_clear") and getattr(kept, "__module__", "") == module.__name__:
                kept.cache_clear()
    try:
        yield
    finally:
        for module, was in before.items():
            setattr(module, name, was)


def numbers(*shape: int) -> Any:
    """Random numbers of float32 between 0 and 1."""
    return rng.random(shape, np.float32)


# --- what is called for a size, in the unit of the threshold -----------------------------------------------------------


def _formula(xp: Any, g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def _blocked(x: Any) -> Any:
    return np.where(x > 0.5, x, -x) * x


def _program(n: int) -> Callable[[], Any]:
    g, y = numbers(n), numbers(n)
    return lambda: fusion.run(_formula, cpu, g, y)


def _columns(n: int) -> Callable[[], Any]:
    g, y = numbers((1 << 18) // n, n), numbers(n)
    return lambda: fusion.run(_formula, cpu, g, y)


def _stream(size: int) -> Callable[[], Any]:
    x, y = numbers(size // 12), numbers(size // 12)
    return lambda: fusion.run(lambda xp, x, y: x * y, cpu, x, y)


def _blocks(n: int) -> Callable[[], Any]:
    x = numbers(n)
    return lambda: blocks.by_blocks(_blocked, x)


def _special(n: int) -> Callable[[], Any]:
    x = numbers(n)
    return lambda: cpu.erfinv(x)


def _gather(n: int) -> Callable[[], Any]:
    x, index = numbers(n // 64, 64), rng.integers(0, 64, (n // 64, 64))
    return lambda: cpu.gather(x, 1, index)


def _copy(n: int) -> Callable[[], Any]:
    x = numbers(n // 16, 8, 4)[:, ::2, :]
    return lambda: strided_copy.contiguous(x)


def _index_add(n: int) -> Callable[[], Any]:
    out, index, source = numbers(64, 16), rng.integers(0, 64, n // 16), numbers(n // 16, 16)
    return lambda: cpu.index_add(out, 0, index, source)


def _look(n: int) -> Callable[[], Any]:
    index = rng.integers(0, 64, n)
    return lambda: gather_scatter.within(index, 64)


def _take_narrow(width: int) -> Callable[[], Any]:
    x, index = numbers(4096, max(width, 2)), rng.integers(0, 4096, (1 << 18) // max(width, 2))
    return lambda: fallback(cpu.index_select)(x, 0, index)


def _sum(n: int) -> Callable[[], Any]:
    x = numbers(n // 64, 64)
    return lambda: fallback(cpu.sum)(x, (0,), False)


def _order(n: int) -> Callable[[], Any]:
    x = numbers(n // 64, 64)
    return lambda: cpu.argsort(x, 1, False)[:, 20] - 2 * cpu.kthvalue(x, 20, 1, False)[1]


def _gemm(work: int) -> Callable[[], Any]:
    n = round(work ** (1 / 3))
    x, y = numbers(n, n), numbers(n, n)
    return lambda: gemm.gemm(x, y)


def _gemm_stack(work: int) -> Callable[[], Any]:
    x, y = numbers(max(2, work >> 15), 32, 32), numbers(max(2, work >> 15), 32, 32)
    return lambda: gemm.gemm(x, y)


def _gemm_each(work: int) -> Callable[[], Any]:
    n = round(work ** (1 / 3))
    x, y = numbers((1 << 20) // work + 1, n, n), numbers((1 << 20) // work + 1, n, n)
    return lambda: gemm.gemm(x, y)


def _leading(n: int) -> Callable[[], Any]:
    g = numbers(n, 64)
    return lambda: cpu.leading_sum(g)


def _channels(n: int) -> Callable[[], Any]:
    g = numbers(16, 32, n)
    return lambda: cpu.channel_sum(g)


def _cholesky(count: int) -> Callable[[], Any]:
    n = math.isqrt(count)
    a = numbers(n, n)
    x = a @ a.T + n * np.eye(n, dtype=np.float32)
    return lambda: cpu.cholesky_ex(x)


def _substitute(n: int) -> Callable[[], Any]:
    a, b = np.tril(numbers(n, n)) + n * np.eye(n, dtype=np.float32), numbers(n, 64)
    return lambda: cpu.solve_tri(a, b, False, True, False)


def _conv(work: int) -> Callable[[], Any]:
    n = max(3, math.isqrt(work // (8 * 8 * 9)))
    x, w = numbers(1, 8, n, n), numbers(8, 8, 3, 3)
    return lambda: fallback(cpu.conv)(x, w, None, (n, n), (1, 1), (1, 1), (1, 1), 1)


def _add(n: int) -> Callable[[], Any]:
    g = numbers(n)

    def run() -> Any:
        total = g + 1
        return accumulate.add(total, g)

    return run


# Between two ways: below the threshold the first, from it on the second, or (UPTO) the other way round.
WAYS: dict[str, Callable[[int], Callable[[], Any]]] = {
    "ADD_IN_PLACE_LEAST": _add,
    "BLOCK_LEAST": _blocks,
    "CONV_LEAST": _conv,
    "COPY_LEAST": _copy,
    "FACTOR_MOST": _cholesky,
    "GEMM_LEAST": _gemm,
    "GEMM_LEAST_EACH": _gemm_each,
    "GEMM_LEAST_STACK": _gemm_stack,
    "INDEX_LEAST": _index_add,
    "INDEX_LIST": _look,
    "ONES_COLUMNS": _channels,
    "ONES_ROWS": _leading,
    "ORDER_LEAST": _order,
    "PROGRAM_COLUMNS": _columns,
    "PROGRAM_LEAST": _program,
    "SMALL": _gather,
    "SPECIAL_LEAST": _special,
    "STREAM_LEAST": _stream,
    "SUM_LEAST": _sum,
    "TAKE_NARROW": _take_narrow,
    "TRIANGLE_MOST": _substitute,
}
# Sizes of blocks and chunks: what is computed meanwhile.
PARTS: dict[str, Callable[[], Callable[[], Any]]] = {
    "BLOCK": lambda: _blocks(1 << 20),
    "CHUNK": lambda: _program(1 << 18),
    "COPY_CHUNK": lambda: _copy(1 << 18),
    "MOST_CHUNKS": lambda: _program(1 << 21),
    "PROGRAM_BLOCK": lambda: _program(1 << 20),
    "STREAM_BLOCK": lambda: _stream(1 << 27),
    "SUM_GRAIN": lambda: _sum(1 << 20),
}


# --- timing ------------------------------------------------------------------------------------------------------------


def least(run: Callable[[], Any], values: tuple[int, ...], name: str, seconds: float) -> list[float]:
    """The least seconds that a call takes with the threshold at each of some values, in blocks that alternate."""
    found = [math.inf] * len(values)
    calls = [1] * len(values)
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < 4 or time.perf_counter() < deadline:
        for k, value in enumerate(values):
            with moved(name, value):
                run()
                spent = harness.Job(run).block(calls[k])
            found[k] = min(found[k], spent)
            calls[k] = max(1, min(500, round(0.002 / found[k])))
        rounds += 1
    return found


def crossing(sizes: list[int], pairs: list[list[float]]) -> str:
    """From which of the sizes on the second way is the faster one; noise is weighed by what it would cost to be wrong."""

    def cost(k: int) -> float:
        below = [max(0.0, math.log(first / second)) for first, second in pairs[:k]]
        return sum(below) + sum([max(0.0, math.log(second / first)) for first, second in pairs[k:]])

    best = min(range(len(sizes) + 1), key=cost)
    if best == len(sizes):
        return f"not yet at {sizes[-1]}"
    return f"from {sizes[best]} on" if best else f"already at {sizes[0]}"


def show(entry: Entry, seconds: float) -> str:
    """Print what an entry's two sides take; a cell for the page."""
    print(f"\n{entry.name} = {entry.value}  ({entry.unit}: {entry.meaning})")
    if entry.name in WAYS:
        sizes = sorted({max(2, round(entry.value * factor)) for factor in FACTORS})
        pairs = []
        for size in sizes:
            run = WAYS[entry.name](size)
            pairs.append(least(run, (NEVER, 0), entry.name, seconds))
            first, second = (1e6 * t for t in pairs[-1])
            print(f"{size:>12}  {first:10.2f} us  {second:10.2f} us  {second / first:6.2f}", flush=True)
        return f"above is faster {crossing(sizes, pairs)}"
    run = PARTS[entry.name]()
    values = tuple(max(1, round(entry.value * factor)) for factor in FACTORS)
    times = least(run, values, entry.name, 4 * seconds)
    for value, spent in zip(values, times, strict=True):
        print(f"{value:>12}  {1e6 * spent:10.2f} us", flush=True)
    best = min(zip(times, values, strict=True))
    own = times[values.index(entry.value)]
    return f"best at {best[1]}, where it takes {best[0] / own:.2f} of the time"


def page(found: dict[str, str], threads: int) -> str:
    """docs/internals/thresholds.md; what is not in `found` stays as it was measured before."""
    facts = harness.machine()
    before = (
        dict(re.findall(r"^\| `(\w+)` .* \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
        if PAGE.exists()
        else {}
    )
    lines = [
        "# Thresholds",
        "",
        "Sizes from which ferro changes its way: `ferro/cpu/thresholds.py` and `ferro/native/thresholds.py`. This page is written by",
        "`python bench/thresholds.py --page`; what it times is repeated there in one process, the two ways in alternating blocks",
        f"(minima). Measured on {facts['processor']}, {threads} of {facts['processors']} processors, load {facts['load']:.1f}.",
        "The others are shown by the program in the last column.",
        "",
        "| name | value | unit | meaning | measured, or shown by |",
        "|---|---|---|---|---|",
    ]
    for entry in entries().values():
        value = str(entry.value) if isinstance(entry.value, int) else ", ".join(map(str, entry.value))
        meaning = entry.meaning.replace("|", "\\|")
        shown = f"`{entry.shown_by}`".replace("|", "\\|")
        last = found.get(entry.name) or (before.get(entry.name, shown) if entry.name in WAYS | PARTS else shown)
        lines.append(f"| `{entry.name}` | {value} | {entry.unit} | {meaning} | {last} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="entries (all that can be timed)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each size (default 0.2)")
    parser.add_argument("--page", action="store_true", help="write docs/internals/thresholds.md")
    args = parser.parse_args()
    known = entries()
    wanted = args.names or sorted(WAYS.keys() | PARTS.keys())
    unknown = [name for name in wanted if name not in WAYS and name not in PARTS]
    if unknown:
        shown = [f"{name}: {known[name].shown_by if name in known else 'no such entry'}" for name in unknown]
        parser.error(f"not timed here: {'; '.join(shown)}")
    ferro.set_num_threads(args.threads)
    found = {name: show(known[name], args.seconds) for name in wanted}
    print()
    for name, said in found.items():
        print(f"{name:20}{said}")
    if args.page:
        PAGE.write_text(page(found, args.threads), "utf-8")


if __name__ == "__main__":
    main()
