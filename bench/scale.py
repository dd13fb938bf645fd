"""What more machines would give: measures exchanges and steps on 1 to 8 ranks here, fits a model of them, and predicts 2 to 4,096 ranks.

python bench/scale.py                             measures, fits, predicts
python bench/scale.py --ranks 1 2 --only GPT      less of it
sudo python bench/scale.py --emulate              besides, two points over an emulated network (bench/emulated.py)

The model: an all-reduce of S bytes on n ranks takes  r (a + S/b)  up to 2,048 bytes, and  6 r a + 2 (n-1)/n S/b  above, with r = log2 n
rounded up, the latency a and the bandwidth b of a link (recursive doubling; reduce-scatter and all-gather, R. Thakur, R. Rabenseifner
and W. Gropp, Optimization of Collective Communication Operations in MPICH, 2005, whose messages are asked for, answered and sent: three
latencies), and 2 (n-1)/n S g for what the processor itself does with the bytes, which hides behind nothing; between ranks of one
machine that is all. A bucket begins when backward has computed it and the one before it has ended. Compute is measured where each
processor has a rank; where n ranks share c < n processors it takes n/c times as long, and a and g are others.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.ranks import last_word

SIZES = (64, 4096, 65536, 1 << 20, 4 << 20)
EXCHANGES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
SHORT = 2048  # bytes, up to which MPICH sends all of a tensor in each round
COUNTS = (2, 8, 64, 512, 4096)
# One-way latency in seconds and bytes a second of a link.
NETWORKS = {
    "1 Gbit/s Ethernet": (50e-6, 117e6),
    "25 Gbit/s Ethernet": (15e-6, 2.9e9),
    "200 Gbit/s InfiniBand": (1.5e-6, 24e9),
}


def wide_gpt(lib: Any) -> Any:
    """A char-GPT of 3.3 million parameters."""
    from bench.workloads import char_gpt

    return char_gpt(lib, width=320, heads=8)


def models() -> dict[str, Any]:
    """The four models, by name."""
    from bench.ddp import MODELS
    from bench.workloads import WORKLOADS, Workload

    named = {name: WORKLOADS[key] for name, key in MODELS.items()}
    gpt = named["char-GPT"]
    return {**named, "char-GPT 320": Workload(wide_gpt, gpt.batches, gpt.optimizer, gpt.loss)}


# -------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Link:
    """Seconds of latency, bytes a second, and seconds of the processor for a byte."""

    latency: float
    bandwidth: float
    per_byte: float = 0.0

    def all_reduce(self, size: float, ranks: int) -> tuple[float, float]:
        """Seconds of an all-reduce: on the way, and of the processor."""
        if ranks == 1:
            return 0.0, 0.0
        rounds = math.ceil(math.log2(ranks))
        volume = 2 * (ranks - 1) / ranks * size
        if size <= SHORT:
            return rounds * (self.latency + size / self.bandwidth), volume * self.per_byte
        return 6 * rounds * self.latency + volume / self.bandwidth, volume * self.per_byte


@dataclass(frozen=True)
class Step:
    """A training step of one rank: seconds of forward, backward and the rest, and bytes of its buckets in their order."""

    forward: float
    backward: float
    rest: float
    buckets: tuple[int, ...]

    def on(self, ranks: int, link: Link, share: float = 1.0) -> float:
        """Seconds of a step on so many ranks, each of which has a `share` of a processor."""
        now = self.forward / share
        over = now + self.backward / share
        whole = sum(self.buckets)
        ready, free, work = now, 0.0, 0.0
        for size in self.buckets:
            ready += self.backward / share * size / whole
            way, own = link.all_reduce(size, ranks)
            free = max(ready, free) + way
            work += own / share
        return max(over, free) + work + self.rest / share


def fitted(rows: Sequence[dict[str, Any]], processors: int) -> tuple[Link, Link]:
    """What explains all-reduces measured on one machine best: with a processor for each rank, and where they share them."""
    several = [r for r in rows if r["ranks"] > 1]
    plain = [r for r in several if r["ranks"] <= processors] or several
    shared = [r for r in several if r["ranks"] > processors] or several
    return _link(plain), _link(shared)


def _link(rows: Sequence[dict[str, Any]]) -> Link:
    """The latency, and seconds of the processor for a byte, with the least squares of relative errors."""
    best: tuple[float, Link] | None = None
    for latency in np.geomspace(3e-7, 3e-2, 120):
        for per_byte in np.geomspace(2e-11, 1e-7, 120):
            link = Link(float(latency), math.inf, float(per_byte))
            told = np.array([sum(link.all_reduce(r["bytes"], r["ranks"])) for r in rows])
            error = float((np.log(told / np.array([r["seconds"] for r in rows])) ** 2).sum())
            if best is None or error < best[0]:
                best = error, link
    assert best is not None
    return best[1]


# -------------------------------------------------------------------- in a rank


def exchanges(dist: Any, lib: Any, rounds: int) -> list[dict[str, Any]]:
    """Seconds of each exchange by bytes (of what a rank gives; of all_gather of what it gets): the least of some rounds."""
    ranks = dist.get_world_size()
    rows = []
    for name in EXCHANGES:
        for size in SIZES:
            count = max(ranks, size // 4 // ranks * ranks)
            whole, part, other = lib.zeros(count), lib.zeros(count // ranks), lib.zeros(count)
            call = {
                "all_reduce": lambda w=whole: dist.all_reduce(w),
                "all_gather": lambda w=whole, p=part: dist.all_gather_single(w, p),
                "reduce_scatter": lambda w=whole, p=part: dist.reduce_scatter_single(p, w),
                "broadcast": lambda w=whole: dist.broadcast(w, 0),
                "all_to_all": lambda w=whole, o=other: dist.all_to_all_single(o, w),
            }[name]
            rows.append({"exchange": name, "ranks": ranks, "bytes": 4 * count, "seconds": least(dist, call, rounds)})
    return rows


def least(dist: Any, call: Any, rounds: int) -> float:
    """The least seconds of a call among some rounds, that begin on all ranks together."""
    best = math.inf
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(4):
            call()
        best = min(best, (time.perf_counter() - start) / 4)
    return best


def step_of(lib: Any, dist: Any, workload: Any, rounds: int) -> dict[str, Any]:
    """What a rank's step consists of, and how long it takes with exchanges: the least of some rounds."""
    from bench.workloads import Trainer

    lib.manual_seed(0)
    state = {name: value.numpy().copy() for name, value in workload.model(lib).state_dict().items()}
    trainer = Trainer(workload, lib, state)
    if dist.get_world_size() > 1:
        trainer.model = lib.nn.parallel.DistributedDataParallel(trainer.model)
    x, target = trainer.load(next(workload.batches()))
    best = dict.fromkeys(("forward", "backward", "rest", "step"), math.inf)
    sync = getattr(trainer.model, "no_sync", contextlib.nullcontext)
    for turn in range(rounds + 2):
        with sync():
            marks = [time.perf_counter()]
            loss = workload.loss(lib, trainer.model, x, target)
            trainer.optimizer.zero_grad()
            marks.append(time.perf_counter())
            loss.backward()
            marks.append(time.perf_counter())
            trainer.optimizer.step()
            marks.append(time.perf_counter())
        if turn > 1:
            for i, name in enumerate(("forward", "backward", "rest")):
                best[name] = min(best[name], marks[i + 1] - marks[i])
    for _ in range(3):
        trainer.step(x, target)
    best["step"] = least(dist, lambda: trainer.step(x, target), rounds)
    reducer = getattr(trainer.model, "_reducer", None)
    sizes = [] if reducer is None else [b.bytes for b in reducer.buckets]
    return {**best, "ranks": dist.get_world_size(), "buckets": sizes}


def as_rank(what: str, only: str, rounds: int) -> None:
    """Measures; rank 0 prints."""
    import ferro
    import ferro.distributed as dist
    import ferro.nn.parallel

    ferro.set_num_threads(1)
    dist.init_process_group("mpi")
    found: dict[str, Any] = {"exchanges": exchanges(dist, ferro, rounds) if what != "steps" else []}
    found["steps"] = {
        name: step_of(ferro, dist, workload, rounds) for name, workload in models().items() if only in name
    }
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# -------------------------------------------------------------------- here


def launched(
    ranks: int, args: argparse.Namespace, inside: Sequence[Sequence[str]] | None = None, **variables: str
) -> dict[str, Any]:
    """What so many ranks measure; `inside`: what each is started by."""
    rank = [sys.executable, str(Path(__file__).resolve()), "--as-rank", "all", args.only, str(args.rounds)]
    command = ["-n", str(ranks), *rank]
    if inside is not None:
        command = [word for one in inside for word in ("-n", "1", *one, *rank, ":")][:-1]
    return last_word(command, f"{ranks} ranks", 600, **variables)


def steps_by_model(measured: Sequence[dict[str, Any]], ranks: int) -> dict[str, Step]:
    """The step of a rank of each model, as it was where so many computed, with the buckets that several have."""
    found = {}
    chosen = next((m for m in measured if any(s["ranks"] == ranks for s in m["steps"].values())), measured[0])
    for name, one in chosen["steps"].items():
        buckets = next((m["steps"][name]["buckets"] for m in measured if m["steps"][name]["buckets"]), [])
        found[name] = Step(one["forward"], one["backward"], one["rest"], tuple(buckets))
    return found


def show_exchanges(measured: Sequence[dict[str, Any]]) -> None:
    """Latency and bandwidth of each exchange by number of ranks."""
    print("\nexchange        ranks   latency us   MB/s at 4 MB")
    for name in EXCHANGES:
        for m in measured:
            rows = [r for r in m["exchanges"] if r["exchange"] == name]
            if rows and rows[0]["ranks"] > 1:
                speed = rows[-1]["bytes"] / rows[-1]["seconds"] / 1e6
                print(f"{name:16}{rows[0]['ranks']:5}{rows[0]['seconds'] * 1e6:13.1f}{speed:15.0f}")


def show_errors(
    measured: Sequence[dict[str, Any]],
    steps: dict[str, Step],
    busy: dict[str, Step],
    links: tuple[Link, Link],
    processors: int,
) -> None:
    """The model beside what was measured here; `busy`: the steps where each processor has a rank."""
    print(f"\n{'model':16}ranks  measured ms  predicted ms   error")
    for name in steps:
        for m in measured:
            got = m["steps"][name]
            step = (busy if got["ranks"] > 1 else steps)[name]
            share = min(1.0, processors / got["ranks"])
            told = step.on(got["ranks"], links[got["ranks"] > processors], share)
            print(f"{name:16}{got['ranks']:5}{got['step'] * 1e3:13.2f}{told * 1e3:14.2f}{told / got['step'] - 1:8.0%}")


def show_predictions(steps: dict[str, Step], per_byte: float) -> None:
    """Efficiency of many machines, each with one rank: the speed of a rank beside that of one alone."""
    print(
        f"\nefficiency on{'':26}"
        + "".join(f"{n:8}" for n in COUNTS)
        + "   (ranks, one a machine, each with its own batch)"
    )
    for name, step in steps.items():
        for network, (latency, bandwidth) in NETWORKS.items():
            link = Link(latency, bandwidth, per_byte)
            cells = "".join(f"{step.on(1, link) / step.on(n, link):8.0%}" for n in COUNTS)
            print(f"{name:15}{network:24}{cells}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8])
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--emulate", action="store_true", help="two points over an emulated network (Linux, as root)")
    parser.add_argument("--json", type=Path, help="where to save the figures")
    args = parser.parse_args(argv)
    from bench import harness

    facts = harness.machine()
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"one thread a rank on {processors} processors: {facts['processor']}; load {facts['load']}", flush=True)
    measured = [launched(n, args) for n in sorted({1, *args.ranks})]
    show_exchanges(measured)
    rows = [r for m in measured for r in m["exchanges"] if r["exchange"] == "all_reduce"]
    links = fitted(rows, processors)
    print()
    for words, link in zip(("a processor for each rank", "ranks that share processors"), links, strict=True):
        print(f"{words}: latency {link.latency * 1e6:.1f} us, {1e-6 / link.per_byte:.0f} MB/s")
    steps, busy = steps_by_model(measured, 1), steps_by_model(measured, processors)
    show_errors(measured, steps, busy, links, processors)
    show_predictions(steps, links[0].per_byte)
    record: dict[str, Any] = {"machine": facts, "measured": measured}
    if args.emulate:
        from bench.emulated import points

        record["emulated"] = points(busy, args, links[0].per_byte)
    if args.json is not None:
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-rank"]:
        as_rank(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        sys.exit(0)
    sys.exit(main())
