"""Training steps and a chain of small operations under ferro.compile, beside eager ferro and PyTorch.

python bench/graphs.py                    all rows
python bench/graphs.py --only MLP --threads 1
"""

import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.workloads import WORKLOADS, Trainer, initial_state, mixed

WIDTH = 44


def steps(libraries: dict[str, ModuleType]) -> Iterator[tuple[str, Callable[[], dict[str, Callable[[], Any]]]]]:
    """Whole training steps: the model forward, backward, the optimiser's update."""
    for name in WORKLOADS:

        def made(name: str = name) -> dict[str, Callable[[], Any]]:
            workload, jobs = WORKLOADS[name], {}
            state = initial_state(workload, libraries["ferro"])
            for engine, lib in {**libraries, "graph": libraries["ferro"]}.items():
                trainer = Trainer(workload, lib, state)
                batch = trainer.load(next(workload.batches()))
                step = lib.compile(trainer.step) if engine == "graph" else trainer.step
                step(*batch)
                step(*batch)
                jobs[engine] = lambda s=step, b=batch: s(*b)
            return jobs

        yield name, made


def small(libraries: dict[str, ModuleType]) -> dict[str, Callable[[], Any]]:
    """100 mixed operations on 4x4 numbers, forward and backward."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-0.5, 0.5, (4, 4)).astype(np.float32) for _ in range(3)]
    jobs: dict[str, Callable[[], Any]] = {}
    for engine, lib in libraries.items():
        x, w, b = [lib.from_numpy(a.copy()).requires_grad_() for a in arrays]

        def run(f: Callable, lib: ModuleType = lib, x: Any = x, w: Any = w, b: Any = b) -> Any:
            return lib.autograd.grad(f(x, w, b).sum(), (x, w, b))

        jobs[engine] = partial(run, partial(mixed, lib))
        if engine == "ferro":
            jobs["graph"] = partial(run, lib.compile(lambda x, w, b, lib=lib: mixed(lib, x, w, b)))
            for _ in range(2):
                jobs["graph"]()
    return jobs


def main() -> None:
    args = harness.parser(__doc__.partition("\n")[0]).parse_args()
    libraries = harness.begin(args)
    print(f"{'':{WIDTH}}{'graph us':>10}{'ferro us':>10}{'torch us':>10}{'graph/ferro':>13}{'graph/torch':>13}")
    rows = [("100 mixed operations on 4x4, f + b", lambda: small(libraries)), *steps(libraries)]
    found: dict[str, list[float]] = {}
    for name, made in rows:
        if args.only in name:
            timings = harness.interleave(made(), args.seconds)
            best = {engine: timing.best for engine, timing in timings.items()}
            ratios = [best["graph"] / best[engine] for engine in libraries]
            for engine, ratio in zip(libraries, ratios, strict=True):
                found.setdefault(engine, []).append(ratio)
            cells = "".join([f"{best[engine] * 1e6:10.1f}" for engine in ("graph", *libraries)])
            print(f"{name:{WIDTH}}{cells}{ratios[0]:13.2f}{ratios[-1]:13.2f}", flush=True)
    means = "".join([f"{statistics.geometric_mean(ratios):13.2f}" for ratios in found.values()])
    print(f"{'geometric mean':{WIDTH}}{'':30}{means}")


if __name__ == "__main__":
    main()
