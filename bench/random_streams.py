"""Draws of random numbers, ferro and PyTorch in turn in one process, and ferro's with fast streams.

    python -m bench.random_streams [--rounds N] [--threads N]

Prints, for draws of several sizes, the shortest time of each (other load disturbs it least), the ratio ferro / torch, and the
ratio of PyTorch's stream to the fast one: above 1.2 for large draws, `ferro.random.use_fast_streams()` is worth it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import ferro

SIZES = {4: 200, 16: 200, 1000: 50, 1_000_000: 1}  # elements, and draws in one measurement

DRAWS: dict[str, Callable[[Any, int], Any]] = {
    "rand": lambda m, n: m.rand(n),
    "rand, float64": lambda m, n: m.rand(n, dtype=m.float64),
    "randn": lambda m, n: m.randn(n),
    "randn, float64": lambda m, n: m.randn(n, dtype=m.float64),
    "randn, bfloat16": lambda m, n: m.randn(n, dtype=m.bfloat16),
    "randint": lambda m, n: m.randint(10, (n,)),
    "randperm": lambda m, n: m.randperm(n),
    "bernoulli_": lambda m, n: m.empty(n).bernoulli_(0.5),
    "dropout": lambda m, n: m.nn.functional.dropout(m.ones(n)),
    "exponential_": lambda m, n: m.empty(n).exponential_(),
    "poisson": lambda m, n: m.poisson(m.full((n,), 2.0)),
    "binomial": lambda m, n: m.binomial(m.full((n,), 30.0), m.full((n,), 0.4)),
    "gamma": lambda m, n: m._standard_gamma(m.full((n,), 2.0)),
    "Linear": lambda m, n: m.nn.Linear(round(n**0.5), round(n**0.5)),
}


def seconds(call: Callable[[], Any], count: int) -> float:
    """The time of one of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure(draw: Callable[[Any, int], Any], n: int, rounds: int, torch: Any) -> list[float]:
    """The shortest times of ferro, of ferro with fast streams, and of PyTorch."""
    best = [float("inf")] * 3
    for _ in range(rounds + 1):  # (the first round warms up)
        for k, (library, fast) in enumerate(((ferro, False), (ferro, True), (torch, False))):
            ferro.random.use_fast_streams(fast)
            best[k] = min(best[k], seconds(lambda library=library: draw(library, n), SIZES[n]))
    ferro.random.use_fast_streams(False)
    return best


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    import torch

    for library in (ferro, torch):
        library.set_num_threads(given.threads)
        library.manual_seed(0)
    print(f"{'draw':16} {'elements':>9} {'ferro us':>10} {'fast us':>10} {'torch us':>10} {'/ torch':>8} {'/ fast':>8}")
    for n in SIZES:
        for name, draw in DRAWS.items():
            ours, fast, theirs = measure(draw, n, given.rounds, torch)
            times = " ".join(f"{t * 1e6:10.1f}" for t in (ours, fast, theirs))
            print(f"{name:16} {n:9} {times} {ours / theirs:8.2f} {ours / fast:8.2f}")


if __name__ == "__main__":
    main()
