"""Training steps and a chain of small operations under ferro.compile, beside eager ferro and PyTorch.

python bench/graphs.py                    all rows
python bench/graphs.py --only MLP --threads 1
python bench/graphs.py --torch-compile    torch.compile of the models, too (needs a C++ compiler; a minute for each row)
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

WIDTH, INDUCTOR = 44, "torch.compile"


def job(name: str, engine: str, lib: ModuleType, state: Any) -> Callable[[], Any]:
    """A training step of a workload by an engine, which has been done a few times."""
    workload = WORKLOADS[name]
    trainer = Trainer(workload, lib, state)
    batch = trainer.load(next(workload.batches()))
    if engine == INDUCTOR:
        trainer.model = lib.compile(trainer.model)
    step = lib.compile(trainer.step) if engine == "graph" else trainer.step
    for _ in range(5):  # (the plan of a graph's memory is made in the fourth)
        step(*batch)
    return lambda: step(*batch)


def steps(libraries: dict[str, ModuleType], inductor: bool) -> Iterator[tuple[str, Callable[[], dict[str, Callable]]]]:
    """Whole training steps: the model forward, backward, the optimiser's update."""
    every = {**libraries, "graph": libraries["ferro"]}
    if inductor:
        every[INDUCTOR] = libraries["torch"]
    for name in WORKLOADS:

        def made(name: str = name) -> dict[str, Callable]:
            state = initial_state(WORKLOADS[name], libraries["ferro"])
            jobs = {}
            for engine, lib in every.items():
                try:
                    jobs[engine] = job(name, engine, lib, state)
                except Exception as error:
                    if engine != INDUCTOR:
                        raise
                    print(f"{name}: torch.compile raises {type(error).__name__}")
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
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.add_argument("--torch-compile", action="store_true", help="torch.compile of the models, too")
    args = parser.parse_args()
    libraries = harness.begin(args)
    peers = [*libraries, *([INDUCTOR] if args.torch_compile else [])]
    titles = [*[f"{e} us" for e in ("graph", *peers)], *[f"graph/{e}" for e in peers]]
    print(f"{'':{WIDTH}}" + "".join([f"{title:>20}" for title in titles]))
    rows = [("100 mixed operations on 4x4, f + b", lambda: small(libraries)), *steps(libraries, args.torch_compile)]
    found: dict[str, list[float]] = {}
    for name, made in rows:
        if args.only in name:
            timings = harness.interleave(made(), args.seconds)
            best = {engine: timing.best for engine, timing in timings.items()}
            for engine in peers:
                if engine in best:
                    found.setdefault(engine, []).append(best["graph"] / best[engine])
            cells = [f"{best[e] * 1e6:20.1f}" if e in best else f"{'-':>20}" for e in ("graph", *peers)]
            cells += [f"{best['graph'] / best[e]:20.2f}" if e in best else f"{'-':>20}" for e in peers]
            print(f"{name:{WIDTH}}{''.join(cells)}", flush=True)
    means = "".join([f"{statistics.geometric_mean(found[e]):20.2f}" for e in peers if e in found])
    print(f"{'geometric mean':{WIDTH}}{'':{20 * (1 + len(peers))}}{means}")


if __name__ == "__main__":
    main()
