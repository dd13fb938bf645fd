"""What every benchmark shares: the two engines, interleaved timing, tables of ratios, JSON."""

import argparse
import gc
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

SUBMODULES = ("autograd", "linalg", "nn", "nn.functional", "optim")


def engines(names: Iterable[str] = ("ferro", "torch")) -> dict[str, ModuleType]:
    """The libraries to compare, ferro first. Without torch, ferro is timed alone."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(name)
            for part in SUBMODULES:
                importlib.import_module(f"{name}.{part}")
        except ModuleNotFoundError as error:
            if name == "ferro" or error.name != name:
                raise
            print(f"{name} is not installed: no ratios", file=sys.stderr)
    return found


@dataclass(frozen=True)
class Timing:
    """Seconds per call, or whatever a row measures: the least and the median of `blocks` measured ones."""

    best: float
    median: float
    blocks: int


@dataclass(frozen=True)
class Job:
    """Something to time: `prepare()` is called before each call of `run`, outside the clock, and makes its argument."""

    run: Callable[..., Any]
    prepare: Callable[[], Any] | None = None

    def block(self, calls: int) -> float:
        """Seconds per call, measured over a block of calls. Freeing arguments and results is part of a call."""
        if self.prepare is not None:
            prepared = [self.prepare() for _ in range(calls)]
            start = time.perf_counter()
            while prepared:
                self.run(prepared.pop())
            return (time.perf_counter() - start) / calls
        run = self.run
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - start) / calls


def interleave(
    jobs: Mapping[str, Job | Callable[[], Any]], seconds: float, block_seconds: float = 0.01, pause: float = 0.0
) -> dict[str, Timing]:
    """Time several jobs in alternating blocks, first one order and then the other, for about `seconds` in all.

    A noisy machine then disturbs all of them alike, and the minima compare what each can do. The garbage collector
    stays on, since programs run with it, but a block does not begin with another's litter, nor beside its threads:
    there is a `pause` before each.
    """
    jobs = {name: job if isinstance(job, Job) else Job(job) for name, job in jobs.items()}
    calls = {}
    for name, job in jobs.items():
        job.block(1)  # what the first call compiles or allocates is not measured
        once = min(job.block(1) for _ in range(3))
        most = 1000 if job.prepare is None else 10  # prepared arguments are all alive at once
        calls[name] = max(1, min(most, round(block_seconds / max(once, 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    order = list(jobs)
    deadline = time.perf_counter() + seconds
    while len(samples[order[0]]) < 4 or time.perf_counter() < deadline:
        for name in order:
            gc.collect(0)
            time.sleep(pause)
            samples[name].append(jobs[name].block(calls[name]))
        order.reverse()
    return {name: Timing(min(times), statistics.median(times), len(times)) for name, times in samples.items()}


@dataclass(frozen=True)
class Row:
    """One line of a table: what was timed, what each engine took, and how many operations one call stands for."""

    name: str
    timings: Mapping[str, Timing]
    per: int = 1
    note: str = ""

    def ratio(self, of: str = "best") -> float | None:
        """ferro's time over torch's; None when one of them was not timed."""
        if not {"ferro", "torch"} <= self.timings.keys():
            return None
        return getattr(self.timings["ferro"], of) / getattr(self.timings["torch"], of)

    def record(self, unit: str = "us") -> dict[str, Any]:
        """The row as JSON keeps it: microseconds (or what the unit says) per operation."""
        scale = UNITS[unit] / self.per
        times = {
            engine: {f"min_{unit}": t.best * scale, f"median_{unit}": t.median * scale, "blocks": t.blocks}
            for engine, t in self.timings.items()
        }
        ratios = {"ratio_of_minima": self.ratio("best"), "ratio_of_medians": self.ratio("median")}
        return {"name": self.name, **times, **ratios, "note": self.note}


UNITS = {"us": 1e6, "s": 1.0, "MB": 1.0}  # what a measured number is multiplied by before it is shown


class Table:
    """Rows printed as they come, with the geometric mean of their ratios at the end."""

    def __init__(self, title: str, unit: str = "us", width: int = 44):
        self.title, self.unit, self.width = title, unit, width
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Print a row, after the heading if it is the first, and keep it."""
        if not self.rows:
            print(f"\n{self.title}")
            head = f"{'ferro ' + self.unit:>12}{'torch ' + self.unit:>12}{'min/min':>9}{'med/med':>9}"
            print(f"{'':{self.width}}{head}")
        self.rows.append(row)
        cells = ""
        for engine in ("ferro", "torch"):
            timing = row.timings.get(engine)
            cells += f"{timing.best * UNITS[self.unit] / row.per:12.2f}" if timing else f"{'-':>12}"
        for of in ("best", "median"):
            ratio = row.ratio(of)
            cells += f"{ratio:9.2f}" if ratio is not None else f"{'-':>9}"
        print(f"{row.name:{self.width}}{cells}  {row.note}".rstrip(), flush=True)

    def close(self) -> None:
        """Print the geometric means of the ratios."""
        print_means("geometric mean of the ratios", self.rows, self.width)

    def records(self) -> list[dict[str, Any]]:
        """All rows as JSON keeps them."""
        return [row.record(self.unit) for row in self.rows]


def print_means(label: str, rows: Sequence[Row], width: int) -> None:
    """Print the geometric means of some rows' ratios, below the columns of their table."""
    means = []
    for of in ("best", "median"):
        ratios = [r for r in (row.ratio(of) for row in rows) if r is not None]
        means.append(f"{statistics.geometric_mean(ratios):9.2f}" if ratios else f"{'-':>9}")
    print(f"{label:{width}}{'':24}{''.join(means)}", flush=True)


def machine() -> dict[str, Any]:
    """What a reader of the figures wants to know of where they were taken."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "isa": importlib.import_module("ferro.native.isa").LEVEL,
        "system": platform.system(),
        "python": platform.python_version(),
        "load": load(),
    }


def memory() -> dict[str, float]:
    """Megabytes of this process: resident now, and the most there have been (Linux and macOS; else empty)."""
    figures = {}
    statm = Path("/proc/self/statm")
    if statm.exists():
        figures["rss_mb"] = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    status = Path("/proc/self/status")
    if status.exists():  # (the peak that getrusage knows is inherited from the process that started this one)
        peaks = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if peaks:
            return {**figures, "peak_rss_mb": int(peaks[0]) * 1024 / 1e6}
    try:
        import resource  # not on Windows
    except ImportError:
        return figures
    unit = 1 if sys.platform == "darwin" else 1024
    figures["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return figures


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that every benchmark takes."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for both engines (all processors)")
    result.add_argument("--seconds", type=float, default=1.0, help="spent on each row (default 1)")
    result.add_argument("--only", default="", help="only rows whose name contains this")
    result.add_argument("--json", type=Path, help="where to save the figures")
    result.add_argument(
        "--isa", choices=[*PEERS], default="", help="ferro, PyTorch, OpenBLAS and NumPy keep to this instruction set"
    )
    return result


def restrict(args: argparse.Namespace) -> None:
    """Start this program again in a process whose libraries all keep to the instruction set of --isa, unless it is one."""
    if args.isa and not {"FERRO_ISA": args.isa, **PEERS[args.isa]}.items() <= os.environ.items():
        os.environ.update(restrictions(args.isa))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.argv])


def restrictions(isa: str) -> dict[str, str]:
    """The variables by which ferro, PyTorch (ATen, oneDNN, MKL), OpenBLAS and NumPy do without newer instructions."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    newer = [name for name in __cpu_dispatch__ if __cpu_features__.get(name) and name.startswith(("AVX512", "X86_V4"))]
    return {"FERRO_ISA": isa, **PEERS[isa], "NPY_DISABLE_CPU_FEATURES": " ".join(newer)}


PEERS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}


def begin(args: argparse.Namespace, names: Sequence[str] = ("ferro", "torch")) -> dict[str, ModuleType]:
    """Import the engines, give both the same number of threads, and print what runs where."""
    restrict(args)
    libraries = engines(names)
    for library in libraries.values():
        library.set_num_threads(args.threads)
    # Else each full collection would walk the hundred thousand objects of the other engine's modules.
    gc.collect()
    gc.freeze()
    versions = ", ".join(f"{name} {library.__version__}" for name, library in libraries.items())
    facts = machine()
    where = f"{args.threads} of {facts['processors']} processors: {facts['processor']}"
    print(f"{versions}; Python {facts['python']}; {where}{', restricted to ' + args.isa if args.isa else ''}")
    return libraries


def load() -> float | None:
    """How many processes have wanted to run, on average over the last minute (None where it is not known)."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def save(args: argparse.Namespace, libraries: Mapping[str, ModuleType], results: Mapping[str, Any]) -> None:
    """Write the JSON if it was asked for."""
    if args.json is None:
        return
    versions = {name: str(library.__version__) for name, library in libraries.items()}
    record = {"machine": machine(), "versions": versions, "threads": args.threads, "process": memory(), **results}
    args.json.write_text(json.dumps(record, indent=1) + "\n")
    print(f"saved {args.json}")
