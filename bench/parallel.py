"""Backward over many heavy independent branches: bitwise equal for any number of threads, and how long it takes.

python bench/parallel.py                64 branches of 256x256: matmul, tanh, matmul, sin, all reading one shared input
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.harness import Job, Row, Table

THREADS = (1, 2, 4, 8)


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


def measure(problems: dict[str, Branches], args: Any) -> Table:
    """Backward alone, by number of threads, interleaved with torch, which uses all of --threads in its kernels."""
    forward = problems["ferro"].loss
    jobs = {f"{n} threads": Job(lambda loss, n=n: loss.backward(num_threads=n), prepare=forward) for n in THREADS}
    jobs["default"] = Job(lambda loss: loss.backward(), prepare=forward)
    if "torch" in problems:
        jobs["torch"] = Job(lambda loss: loss.backward(), prepare=problems["torch"].loss)
    timings = harness.interleave(jobs, args.seconds * 10, block_seconds=0.0)
    table = Table("Backward alone; torch's time is the same in every row", unit="us", width=34)
    reference = {"torch": timings["torch"]} if "torch" in timings else {}
    serial = timings["1 threads"].best
    for name in jobs:
        if name != "torch":
            faster = f"{serial / timings[name].best:.2f} times the serial speed"
            table.add(Row(f"ferro, {name}", {"ferro": timings[name], **reference}, note=faster))
    return table


def main(argv: list[str] | None = None) -> int:
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.add_argument("--branches", type=int, default=64)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5, help="runs compared for each number of threads (default 5)")
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
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
