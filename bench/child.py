"""What only a fresh process can show: `python bench/child.py WHAT ENGINE THREADS WORKLOAD` prints [figure, numbers]."""

import gc
import itertools
import json
import sys
import time
import tracemalloc

START = time.perf_counter()

from pathlib import Path  # noqa: E402 - the clock comes first
from typing import Any  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))


def memory(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Megabytes that three training steps add, at their peak, to a process that has imported the engine."""
    from bench import harness

    trainer, batch, _ = _trainer(engine, threads, workload)
    before = harness.memory()["rss_mb"]
    losses = [trainer.step(*batch).item() for _ in range(3)]
    return max(harness.memory()["peak_rss_mb"] - before, 0.1), losses


def arrays(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Megabytes of tensors that a training step adds at its peak; ferro's Python objects are counted too."""
    trainer, batch, _ = _trainer(engine, threads, workload)
    losses = [trainer.step(*batch).item()]
    if engine == "torch":
        from torch.autograd.profiler import profile

        losses.append(trainer.step(*batch).item())
        with profile(profile_memory=True) as seen:
            losses.append(trainer.step(*batch).item())
        found: Any = seen.kineto_results
        events = [(e.start_ns(), e.nbytes()) for e in found.events() if e.name() == "[memory]"]
        return max(itertools.accumulate(size for _, size in sorted(events))) / 1e6, losses
    tracemalloc.start()
    losses.append(trainer.step(*batch).item())
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    losses.append(trainer.step(*batch).item())
    return (tracemalloc.get_traced_memory()[1] - before) / 1e6, losses


def startup(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Seconds from the start of the program to the end of the first training step, without reading the data."""
    trainer, batch, reading = _trainer(engine, threads, workload)
    loss = trainer.step(*batch).item()
    return time.perf_counter() - START - reading, [loss]


def importing(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Seconds that the import takes, NumPy's included."""
    __import__(engine)
    return time.perf_counter() - START, []


def _trainer(engine: str, threads: int, workload: str) -> tuple[Any, Any, float]:
    """A model, the same for every engine, its batch, and the seconds that it took to read the data.

    The digits come with a package that takes longer than all the rest.
    """
    import importlib

    import numpy as np

    from bench import harness
    from bench.workloads import WORKLOADS, Trainer

    lib = importlib.import_module(engine)
    for part in harness.SUBMODULES:
        importlib.import_module(f"{engine}.{part}")
    lib.set_num_threads(threads)
    chosen = WORKLOADS[workload]
    rng = np.random.default_rng(0)
    state = {name: value.numpy().copy() for name, value in chosen.model(lib).state_dict().items()}
    for name, value in state.items():
        if value.dtype.kind == "f" and "running" not in name:
            state[name] = (rng.uniform(-1, 1, value.shape) / max(value.shape[-1], 1) ** 0.5).astype(np.float32)
    trainer = Trainer(chosen, lib, state)
    start = time.perf_counter()
    batch = next(chosen.batches())
    reading = time.perf_counter() - start
    return trainer, trainer.load(batch), reading


if __name__ == "__main__":
    what, engine, threads, workload = sys.argv[1:]
    measures = {"memory": memory, "arrays": arrays, "startup": startup, "importing": importing}
    figure, numbers = measures[what](engine, int(threads), workload)
    print(json.dumps([figure, numbers]))
