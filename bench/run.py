"""Every row of bench/rows.py, ferro beside torch: numbers compared first, then interleaved timings, ratios, their means.

python bench/run.py                             all rows (some minutes)
python bench/run.py --rows 'overhead|softmax'   rows whose "group: name, kind" matches a regular expression
python bench/run.py --threads 1 --json out.json
python bench/run.py --isa avx2                  every library without AVX-512, in a process of its own
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.cases import AnyCase, Child, difference, disagreement
from bench.harness import Row, Table
from bench.rows import GROUPS

WIDTH = 56
# Seconds before each block on several threads: torch's threads (libgomp's) watch for more work for 6 to 7 ms after a call,
# and would take a core from the first two thirds of ferro's block. ferro's watch for 1 ms.
PAUSE = 0.01


def timed(
    case: AnyCase, group: str, wanted: re.Pattern, libraries: dict[str, ModuleType], args: argparse.Namespace
) -> Iterator[Row]:
    """The rows of one declaration that the user wants."""
    name = f"{group}: {case.name}"
    if isinstance(case, Child):
        if wanted.search(name):
            found = {engine: case.measure(engine, args.threads) for engine in libraries}
            note = difference(case.rtol, found["ferro"][1], found["torch"][1]) if len(found) > 1 else ""
            yield Row(case.name, {engine: timing for engine, (timing, _) in found.items()}, note=note)
        return
    kinds = ("", "forward", "forward + backward", "backward")
    if not any(wanted.search(f"{name}, {kind}") for kind in kinds):
        return
    ready = {engine: case.prepare(lib) for engine, lib in libraries.items()}
    note = disagreement(case, ready)
    first = next(iter(ready.values()))
    for kind in first.jobs:
        if wanted.search(f"{name}, {kind}"):
            jobs = {engine: it.jobs[kind] for engine, it in ready.items()}
            pause = 0.0 if group == "overhead" or args.threads == 1 else PAUSE
            timings = harness.interleave(jobs, args.seconds, first.block_seconds, pause)
            yield Row(f"{case.name}, {kind}" if kind else case.name, timings, per=first.per, note=note)


def measure(
    libraries: dict[str, ModuleType], args: argparse.Namespace, groups: Sequence[str] = tuple(GROUPS)
) -> dict[str, list[Table]]:
    """Print the tables of some groups as they come, one for each group and unit, and the mean over all rows."""
    wanted = re.compile(args.rows)
    found: dict[str, list[Table]] = {}
    for group in groups:
        for library in libraries.values():  # tensors of 16 numbers are no work for two
            library.set_num_threads(1 if group == "overhead" else args.threads)
        tables: dict[str, Table] = {}
        for case in GROUPS[group]():
            unit = case.unit if isinstance(case, Child) else "us"
            for row in timed(case, group, wanted, libraries, args):
                tables.setdefault(unit, Table(group, unit, WIDTH)).add(row)
        for table in tables.values():
            table.close()
        if tables:
            found[group] = list(tables.values())
    return found


def summary(found: dict[str, list[Table]], threads: int, load: float | None) -> list[str]:
    """Print the mean of each group, of all rows, and what is slower than torch; returns the rows whose numbers differ."""
    processors = os.cpu_count() or 1
    now = harness.load()
    if threads > 1 and load is not None and now is not None and max(load, now) > processors:
        print(
            f"\nNOT A QUIET MACHINE: load {load:.1f} before, {now:.1f} after, on {processors} processors. An engine whose threads "
            "wait for each other (torch's OpenMP) then loses far more than it would alone: ratios of rows on several "
            "threads flatter the other. Compare with --threads 1."
        )
    rows = {group: [row for table in tables for row in table.rows] for group, tables in found.items()}
    everything = [row for group in rows.values() for row in group]
    print(f"\nGeometric means of ferro over torch, {len(everything)} rows")
    for group, some in rows.items():
        harness.print_means(f"{group} ({len(some)})", some, WIDTH)
    harness.print_means("all", everything, WIDTH)
    ratios = [ratio for row in everything if (ratio := row.ratio()) is not None]
    print(f"{sum(r > 1 for r in ratios)} rows above 1.0, {sum(r > 1.5 for r in ratios)} above 1.5")
    differing = [row.name for row in everything if row.note]
    print(f"{len(differing)} rows differ in their numbers: {differing}" if differing else "all numbers agreed")
    return differing


def main(argv: list[str] | None = None, groups: Sequence[str] = tuple(GROUPS)) -> int:
    """The command line; bench/kernels.py and bench/per_op.py call it with fewer groups."""
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.set_defaults(seconds=0.3)
    parser.add_argument("--engines", default="torch,ferro", help="torch,ferro (default) or ferro alone")
    parser.add_argument("--rows", default="", metavar="REGEX", help='rows whose "group: name, kind" matches')
    args = parser.parse_args(argv)
    args.rows = args.rows or re.escape(args.only)
    names = [name for name in ("ferro", "torch") if name in args.engines.split(",")]
    load = harness.load()
    libraries = harness.begin(args, names)
    found = measure(libraries, args, groups)
    differing = summary(found, args.threads, load)
    harness.save(args, libraries, {g: [r for t in tables for r in t.records()] for g, tables in found.items()})
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
