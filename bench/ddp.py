"""Data-parallel training steps of ferro over MPI beside PyTorch's over gloo, on the same cores, one thread a rank.

python bench/ddp.py                            2 and 4 ranks, three models
python bench/ddp.py --ranks 2 --only char-GPT  some rows
python bench/ddp.py --cap 0.125                with buckets of so many megabytes, in both libraries
python bench/ddp.py --how fsdp                 with fully_shard of each layer, in both: a step and the memory alone

Per row: milliseconds of a step; of one in `no_sync` (no communication); of the communication alone (the buckets one after the
other, nothing else running); the share of it that a step hides, 1 - (step - no_sync) / alone, and as PyTorch's own log counts it:
of the time from the first bucket's beginning to the last one's end, what lay within backward; megabytes of a rank at its peak.
"""

import argparse
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.ranks import last_word

MODELS = {
    "MLP": "MLP 784-512-512-10, batch 128, SGD",
    "ResNet-8": "ResNet-8 32x3x32x32, SGD",
    "char-GPT": "char-GPT 2x64, 16x64 characters, AdamW",
}
FIGURES = ("step_ms", "no_sync_ms", "alone_ms")


# -------------------------------------------------------------------- in a rank


def rank(engine: str, model: str, seconds: float, cap: float | None, rounds: int, how: str) -> dict[str, Any] | None:
    """What one rank measures; rank 0 returns it."""
    import importlib

    import numpy as np

    from bench import harness
    from bench.workloads import WORKLOADS, Trainer

    lib = importlib.import_module(engine)
    for part in (*harness.SUBMODULES, "distributed", "nn.parallel"):
        importlib.import_module(f"{engine}.{part}")
    lib.set_num_threads(1)
    dist = lib.distributed
    dist.init_process_group("mpi" if engine == "ferro" else "gloo")
    workload = WORKLOADS[MODELS[model]]
    state = {name: value.numpy().copy() for name, value in workload.model(lib).state_dict().items()}
    draw = np.random.default_rng(0)
    for name, value in state.items():
        if value.dtype.kind == "f" and "running" not in name:
            state[name] = (draw.uniform(-1, 1, value.shape) / max(value.shape[-1], 1) ** 0.5).astype(np.float32)
    trainer = Trainer(workload, lib, state)
    if how == "fsdp":
        shard(engine, trainer.model)
        trainer.optimizer = workload.optimizer(lib, trainer.model.parameters())
    else:
        trainer.model = lib.nn.parallel.DistributedDataParallel(trainer.model, bucket_cap_mb=cap)
    batch = trainer.load(next(workload.batches()))
    losses = [float(trainer.step(*batch).item()) for _ in range(5)]
    found = {"loss": losses[-1], **timed(engine, trainer, batch, seconds, rounds, how), **harness.memory()}
    first = dist.get_rank() == 0
    dist.barrier()
    dist.destroy_process_group()
    return found if first else None


def shard(engine: str, model: Any) -> None:
    """Divides the layers that stand in lists, and what is left, over the ranks."""
    import importlib

    fully_shard = importlib.import_module(f"{engine}.distributed.fsdp").fully_shard
    mesh = importlib.import_module(f"{engine}.distributed.device_mesh").init_device_mesh(
        "cpu", (importlib.import_module(f"{engine}.distributed").get_world_size(),)
    )
    for holder in list(model.modules()):
        if type(holder).__name__ in ("ModuleList", "Sequential"):
            for layer in holder:
                if any(True for _ in layer.parameters()):
                    fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def timed(engine: str, trainer: Any, batch: Any, seconds: float, rounds: int, how: str) -> dict[str, Any]:
    """Milliseconds of a step and, of copies, of its parts."""
    lib, dist = trainer.lib, trainer.lib.distributed

    def step() -> None:
        trainer.step(*batch)

    if how == "fsdp":
        return measured(dist, {"step_ms": step}, seconds, rounds)
    sizes = bucket_sizes(engine, trainer.model)

    def no_sync() -> None:
        with trainer.model.no_sync():
            trainer.step(*batch)

    flats = [lib.zeros(n // 4) for n in sizes]

    def alone() -> None:
        for flat in flats:
            dist.all_reduce(flat)

    best = measured(dist, {"step_ms": step, "no_sync_ms": no_sync, "alone_ms": alone}, seconds, rounds)
    found = {**best, "buckets": len(sizes), "bytes": sum(sizes)}
    return {**found, "in_backward": logged(engine, trainer.model)}


def measured(dist: Any, jobs: dict[str, Callable[[], None]], seconds: float, rounds: int) -> dict[str, float]:
    """Milliseconds of each job, the least of blocks that take turns; all ranks run as many."""
    best = dict.fromkeys(jobs, float("inf"))
    counts = {}
    for name, job in jobs.items():
        job()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(3):
            job()
        once = (time.perf_counter() - start) / 3
        told = [max(1, min(100, round(seconds / len(jobs) / rounds / once)))]
        dist.broadcast_object_list(told, 0)
        counts[name] = told[0]
    for _ in range(rounds):
        for name, job in jobs.items():
            dist.barrier()
            start = time.perf_counter()
            for _ in range(counts[name]):
                job()
            dist.barrier()
            best[name] = min(best[name], (time.perf_counter() - start) / counts[name] * 1000)
    return best


def bucket_sizes(engine: str, model: Any) -> list[int]:
    """Bytes of each bucket."""
    if engine == "ferro":
        return [bucket.bytes for bucket in model._reducer.buckets]
    log = model._get_ddp_logging_data()
    sizes = log.get("rebuilt_bucket_sizes") or log["bucket_sizes"]
    return [int(size) for size in sizes.split(",")]


def logged(engine: str, model: Any) -> float | None:
    """The share of the communication's time that lay within backward, as the library counts it."""
    if engine == "ferro":
        told = getattr(model, "communication", None)
        return None if told is None else told().overlap
    log = model._get_ddp_logging_data()
    whole = log["avg_backward_comm_time"]
    return log["avg_backward_compute_comm_overlap_time"] / whole if whole else None


# -------------------------------------------------------------------- the ranks


def launch(engine: str, count: int, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Starts the ranks of one engine and returns what rank 0 says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = [engine, model, str(args.seconds), str(args.cap), str(args.rounds), args.how]
    return last_word(
        ["-n", str(count), sys.executable, str(Path(__file__).resolve()), "--rank", *given],
        f"{engine}, {count} ranks, {model}",
        300,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )


def row(count: int, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Both engines by turns; of each figure the least."""
    best: dict[str, dict[str, Any]] = {}
    for turn in range(args.turns):
        for engine in args.engines if turn % 2 == 0 else args.engines[::-1]:
            found = launch(engine, count, model, args)
            before = best.setdefault(engine, found)
            names = [name for name in (*FIGURES, "peak_rss_mb") if name in found]
            best[engine] = {**found, **{name: min(found[name], before[name]) for name in names}}
    for found in best.values() if args.how == "ddp" else ():
        exposed = found["step_ms"] - found["no_sync_ms"]
        found["hidden"] = 1 - exposed / found["alone_ms"] if found["alone_ms"] else None
    return {"ranks": count, "model": model, "engines": best}


def show(found: dict[str, Any]) -> None:
    """Prints a row."""
    if "no_sync_ms" not in next(iter(found["engines"].values())):
        show_steps(found)
        return
    for engine, f in found["engines"].items():
        logged = "-" if f["in_backward"] is None else f"{f['in_backward']:.0%}"
        print(
            f"{found['ranks']:5}  {found['model']:10}{engine:7}{f['step_ms']:9.2f}{f['no_sync_ms']:9.2f}{f['alone_ms']:9.2f}"
            f"{f['hidden']:8.0%}{logged:>9}{f['buckets']:8}{f['bytes'] / 1e6:7.2f}{f['peak_rss_mb']:9.0f}"
        )
    both = found["engines"]
    if {"ferro", "torch"} <= both.keys():
        ratios = [both["ferro"][name] / both["torch"][name] for name in (*FIGURES, "peak_rss_mb")]
        apart = abs(both["ferro"]["loss"] - both["torch"]["loss"])
        cells = f"{ratios[0]:9.2f}{ratios[1]:9.2f}{ratios[2]:9.2f}{'':32}{ratios[3]:9.2f}"
        print(f"{'':17}{'ratio':7}{cells}   losses differ by {apart:.1e}")
    sys.stdout.flush()


def show_steps(found: dict[str, Any]) -> None:
    """Prints a row of models in parts."""
    both = found["engines"]
    for engine, f in both.items():
        print(f"{found['ranks']:5}  {found['model']:10}{engine:7}{f['step_ms']:9.2f}{f['peak_rss_mb']:9.0f}")
    if {"ferro", "torch"} <= both.keys():
        ratios = [both["ferro"][name] / both["torch"][name] for name in ("step_ms", "peak_rss_mb")]
        apart = abs(both["ferro"]["loss"] - both["torch"]["loss"])
        print(f"{'':17}{'ratio':7}{ratios[0]:9.2f}{ratios[1]:9.2f}   losses differ by {apart:.1e}")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--engines", nargs="+", default=["ferro", "torch"])
    parser.add_argument("--seconds", type=float, default=6.0, help="in each process (default 6)")
    parser.add_argument("--rounds", type=int, default=8, help="blocks of each job in a process (default 8)")
    parser.add_argument("--turns", type=int, default=2, help="processes of each engine (default 2)")
    parser.add_argument("--cap", type=float, default=None, help="bucket_cap_mb (default: what each library takes)")
    parser.add_argument(
        "--how", choices=["ddp", "fsdp"], default="ddp", help="copies of the model (default), or parts of it"
    )
    parser.add_argument("--json", type=Path, help="where to save the figures")
    args = parser.parse_args(argv)
    from bench import harness

    facts = harness.machine()
    print(f"one thread a rank on {facts['processors']} processors: {facts['processor']}; load {facts['load']}")
    if args.how == "fsdp":
        print("ranks  model     engine  step ms  peak MB")
    else:
        print("ranks  model     engine  step ms  no_sync    alone  hidden  in back.  buckets     MB  peak MB")
    rows = []
    for count in args.ranks:
        for model in MODELS:
            if args.only in model:
                rows.append(row(count, model, args))
                show(rows[-1])
    if args.json is not None:
        args.json.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    return 0


def as_rank(given: list[str]) -> int:
    """Measures as a rank and prints what was found."""
    found = os.environ.get("PMI_RANK", "0"), os.environ.get("PMI_SIZE", "1")
    os.environ.update(RANK=found[0], WORLD_SIZE=found[1])
    engine, model, seconds, cap, rounds, how = given
    with contextlib.redirect_stdout(sys.stderr):
        result = rank(engine, model, float(seconds), None if cap == "None" else float(cap), int(rounds), how)
    if result is not None:
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(as_rank(sys.argv[2:]) if sys.argv[1:2] == ["--rank"] else main())
