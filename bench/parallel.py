"""Backward over many heavy independent branches: bitwise equal for any number of threads, and how long it takes.

python bench/parallel.py                64 branches of 256x256: matmul, tanh, matmul, sin, all reading one shared input
python bench/parallel.py --rows         the rows "parallel" of bench/run.py: all threads beside one, in one process
"""

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.cases import Case
from bench.harness import UNITS, Job, Row, Table
from bench.rows import GROUPS

THREADS = (1, 2, 4, 8)
SLOWER = 1.03  # of the time of one thread: what more threads may cost where they gain nothing


class Branches:
    """loss = Σ_i mean(sin(tanh(x Wᵢ) Vᵢ)): the gradient of x is a sum of one contribution per branch."""

    def __init__(self, lib: ModuleType, branches: int, size: int):
        self.lib = lib
        rng = np.random.default_rng(0)

        def leaf() -> Any:
            array = rng.normal(size=(size, size)).astype(np.float32) / np.sqrt(size).astype(np.float32)
            return lib.from_numpy(array).requires_grad_()

        self.x = leaf()
        self.weights = [(leaf(), leaf()) for _ in range(branches)]
        self.leaves = [self.x, *(w for pair in self.weights for w in pair)]

    def loss(self) -> Any:
        """Build the graph anew and forget the gradients."""
        for leaf in self.leaves:
            leaf.grad = None
        total = 0.0
        for w, v in self.weights:
            total = total + self.lib.sin(self.lib.tanh(self.x @ w) @ v).mean()
        return total

    def gradients(self) -> list[np.ndarray]:
        """Copies of all gradients."""
        return [leaf.grad.numpy().copy() for leaf in self.leaves]


def backward_with(problem: Branches, threads: int) -> list[np.ndarray]:
    """All gradients, computed by ferro's engine with this number of threads."""
    problem.loss().backward(num_threads=threads)
    return problem.gradients()


def check(problem: Branches, repeats: int) -> dict[int, bool]:
    """For each number of threads: whether every gradient had the serial run's bits in each of `repeats` runs."""
    serial = backward_with(problem, 1)
    equal = {}
    for threads in THREADS:
        equal[threads] = all(
            ours.tobytes() == reference.tobytes()
            for _ in range(repeats)
            for ours, reference in zip(backward_with(problem, threads), serial, strict=True)
        )
        verdict = "bitwise equal to the serial run" if equal[threads] else "NOT EQUAL to the serial run"
        print(f"{threads} threads: {len(serial)} gradients, {repeats} runs: {verdict}")
    return equal


def agrees_with_torch(problems: dict[str, Branches]) -> float:
    """The largest difference between the engines' gradients, relative to the largest number of each gradient."""
    for problem in problems.values():
        problem.loss().backward()
    pairs = zip(problems["ferro"].gradients(), problems["torch"].gradients(), strict=True)
    return max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs)


def with_threads(lib: ModuleType, job: Job, threads: int) -> Job:
    """The job with so many threads for whatever can use them: branches and kernels."""

    def prepare() -> Any:
        made = job.prepare() if job.prepare is not None else None
        lib.set_num_threads(threads)
        return made

    return Job(job.run, prepare)


def measure(problems: dict[str, Branches], args: Any) -> Table:
    """Backward alone, by number of threads, interleaved with torch, which uses all of --threads in its kernels.

    "kernels alone": the branches one after the other, with all of --threads in each kernel.
    """
    ferro, forward = problems["ferro"].lib, problems["ferro"].loss
    jobs = {}
    for n in THREADS:
        jobs[f"{n} threads"] = with_threads(ferro, Job(lambda loss, n=n: loss.backward(num_threads=n), forward), n)
    serial = Job(lambda loss: loss.backward(num_threads=1), forward)
    jobs["kernels alone"] = with_threads(ferro, serial, args.threads)
    jobs["default"] = with_threads(ferro, Job(lambda loss: loss.backward(), forward), args.threads)
    if "torch" in problems:
        jobs["torch"] = Job(lambda loss: loss.backward(), prepare=problems["torch"].loss)
    timings = harness.interleave(jobs, args.seconds * 10, block_seconds=0.0)
    table = Table("Backward alone; torch's time is the same in every row", unit="us", width=34)
    reference = {"torch": timings["torch"]} if "torch" in timings else {}
    one = timings["1 threads"].best
    for name in jobs:
        if name != "torch":
            faster = f"{one / timings[name].best:.2f} times the serial speed"
            table.add(Row(f"ferro, {name}", {"ferro": timings[name], **reference}, note=faster))
    return table


def compare_rows(lib: ModuleType, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All threads beside one in every row "parallel" of bench/run.py: prints and returns the times and ratios."""
    print(f"\nBackward alone, us{'1 thread':>43}{f'{args.threads} threads':>12}{'min/min':>9}{'med/med':>9}")
    records = []
    for case in [row for row in GROUPS["parallel"]() if isinstance(row, Case)]:
        for kind, job in case.prepare(lib).jobs.items():
            timed = job if isinstance(job, Job) else Job(lambda _, run=job: run(), lambda: None)
            jobs = {str(n): with_threads(lib, timed, n) for n in (1, args.threads)}
            one, all_threads = harness.interleave(jobs, args.seconds * 4, block_seconds=0.0).values()
            ratios = all_threads.best / one.best, all_threads.median / one.median
            name = f"{case.name}, {kind}"
            times = one.best * UNITS["us"], all_threads.best * UNITS["us"]
            note = "  slower than one thread" if min(ratios) > SLOWER else ""
            print(f"{name:50}{times[0]:12.2f}{times[1]:12.2f}{ratios[0]:9.2f}{ratios[1]:9.2f}{note}", flush=True)
            records.append({"name": name, "us": times, "ratio_of_minima": ratios[0], "ratio_of_medians": ratios[1]})
    return records


def main(argv: list[str] | None = None) -> int:
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.add_argument("--branches", type=int, default=64)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5, help="runs compared for each number of threads (default 5)")
    parser.add_argument("--rows", action="store_true", help="one thread and all of them in every row of bench/run.py")
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
    if args.rows:
        harness.save(args, libraries, {"rows": compare_rows(libraries["ferro"], args)})
        return 0
    problems = {engine: Branches(lib, args.branches, args.size) for engine, lib in libraries.items()}
    print(f"{args.branches} branches of {args.size}x{args.size}")
    equal = check(problems["ferro"], args.repeats)
    if "torch" in problems:
        print(f"largest difference from torch's gradients: {agrees_with_torch(problems):.1e} of the largest number")
    table = measure(problems, args)
    bits = {str(n): same for n, same in equal.items()}
    harness.save(args, libraries, {"bitwise_equal": bits, "rows": table.records()})
    return 0 if all(equal.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
