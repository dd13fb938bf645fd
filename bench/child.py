"""What only a fresh process can show: `python bench/child.py WHAT ENGINE THREADS WORKLOAD` prints [figure, numbers]."""

import json
import sys
import time

START = time.perf_counter()

from pathlib import Path  # noqa: E402 - the clock comes first
from typing import Any  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))


def memory(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Megabytes that three training steps add, at their peak, to a process that has imported the engine."""
    from bench import harness

    trainer, batch = _trainer(engine, threads, workload)
    before = harness.memory()["rss_mb"]
    losses = [trainer.step(*batch).item() for _ in range(3)]
    return max(harness.memory()["peak_rss_mb"] - before, 0.1), losses


def startup(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Seconds from the start of the program to the end of the first training step."""
    trainer, batch = _trainer(engine, threads, workload)
    loss = trainer.step(*batch).item()
    return time.perf_counter() - START, [loss]


def importing(engine: str, threads: int, workload: str) -> tuple[float, Any]:
    """Seconds that the import takes, NumPy's included."""
    __import__(engine)
    return time.perf_counter() - START, []


def _trainer(engine: str, threads: int, workload: str) -> tuple[Any, Any]:
    """A model, the same for every engine, and its batch."""
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
    return trainer, trainer.load(next(chosen.batches()))


if __name__ == "__main__":
    what, engine, threads, workload = sys.argv[1:]
    figure, numbers = {"memory": memory, "startup": startup, "importing": importing}[what](
        engine, int(threads), workload
    )
    print(json.dumps([figure, numbers]))
