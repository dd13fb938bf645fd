"""What one small operation costs: the rows "overhead" of bench/run.py, under several settings, or in a very long chain.

python bench/per_op.py                  the rows, ferro beside torch
python bench/per_op.py --settings       the rows of ferro alone: all machine code, FERRO_TAPE=python, FERRO_KERNELS=off
python bench/per_op.py --deep 1000000   a chain of a million operations instead: time, and memory per node (ferro only)
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness, run


def deep(lib: ModuleType, count: int) -> dict[str, float]:
    """Build, differentiate and free a chain of `count` operations; memory per node from the resident set."""
    x = lib.ones(4, 4).requires_grad_()

    def build() -> Any:
        out = x
        for _ in range(count // 2):
            out = lib.tanh(out * 1.25)  # tanh(1.25 x) has a fixed point near 0.71, with slope below 1
        return out

    def timed(what: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter()
        result = what()
        return time.perf_counter() - start, result

    gc.collect()
    before = harness.memory().get("rss_mb", 0.0)
    forward, out = timed(build)
    built = harness.memory().get("rss_mb", 0.0)
    backward, _ = timed(lambda: out.backward(lib.ones(4, 4)))
    during = harness.memory().get("peak_rss_mb", 0.0)
    assert bool(lib.isfinite(x.grad).all()), "the gradient of the deep chain must be finite"

    def free() -> None:
        nonlocal out
        out = None

    freed_after, _ = timed(free)
    left = harness.memory().get("rss_mb", 0.0)
    out = build()
    freed_recorded, _ = timed(free)
    print(f"\nA chain of {count:,} operations (multiply, tanh, ...) on 4x4 float32 tensors")
    for label, seconds in (
        ("forward", forward),
        ("backward", backward),
        ("free after backward", freed_after),
        ("free without backward", freed_recorded),
    ):
        print(f"{label:24}{seconds:9.2f} s{seconds / count * 1e6:9.2f} us per op")
    per_node = (built - before) * 1e6 / count
    print(f"memory per node {per_node:.0f} bytes, its 4x4 result included ({built - before:.0f} MB in all)")
    print(f"resident: {before:.0f} MB before, {built:.0f} built, {during:.0f} at the peak, {left:.0f} after freeing")
    return {
        "operations": count,
        "forward_s": forward,
        "backward_s": backward,
        "free_after_backward_s": freed_after,
        "free_without_backward_s": freed_recorded,
        "bytes_per_node": per_node,
        "peak_rss_mb": during,
        "rss_after_mb": left,
    }


SETTINGS = {
    "machine code": {"FERRO_KERNELS": "wait", "FERRO_TAPE": "machine"},
    "TAPE=python": {"FERRO_KERNELS": "wait", "FERRO_TAPE": "python"},
    "KERNELS=off": {"FERRO_KERNELS": "off", "FERRO_TAPE": "machine"},
}


def under(setting: str, args: argparse.Namespace) -> dict[str, float]:
    """Microseconds per operation, row by row, in a process of its own under a setting."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        given = ["--engines", "ferro", "--seconds", str(args.seconds), "--rows", args.rows, "--json", str(path)]
        command = [sys.executable, __file__, *given, "--threads", "1"]
        subprocess.run(command, env={**os.environ, **SETTINGS[setting]}, check=True, stdout=subprocess.DEVNULL)
        return {row["name"]: row["ferro"]["min_us"] for row in json.loads(path.read_text())["overhead"]}


def settings(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Print the rows under every setting, in turns, the least of several processes each; the geometric mean at the end."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(args.rounds):
        for setting in SETTINGS:
            for name, figure in under(setting, args).items():
                row = best.setdefault(name, {})
                row[setting] = min(figure, row.get(setting, figure))
    print(f"\n{'us per operation':{run.WIDTH}}{''.join(f'{setting:>14}' for setting in SETTINGS)}")
    for name, row in best.items():
        print(f"{name:{run.WIDTH}}{''.join(f'{row[setting]:14.2f}' for setting in SETTINGS)}")
    means = [statistics.geometric_mean(row[setting] for row in best.values()) for setting in SETTINGS]
    print(f"{f'geometric mean of {len(best)} rows':{run.WIDTH}}{''.join(f'{mean:14.2f}' for mean in means)}")
    return best


def main(argv: list[str] | None = None) -> int:
    """The rows, or with --settings the table of settings, or with --deep the chain."""
    given = sys.argv[1:] if argv is None else argv
    if "--settings" in given:
        parser = harness.parser(__doc__)
        parser.set_defaults(seconds=0.05)
        parser.add_argument("--settings", action="store_true", help="ferro under several settings")
        parser.add_argument("--rounds", type=int, default=3, help="processes for each setting (default 3)")
        parser.add_argument("--rows", default="", metavar="REGEX", help='rows whose "group: name, kind" matches')
        args = parser.parse_args(given)
        facts = harness.machine()
        print(f"Python {facts['python']}; {facts['processor']}; load {facts['load']}")
        harness.save(args, {}, {"settings": settings(args)})
        return 0
    if "--deep" not in given:
        return run.main(given, ("overhead",))
    parser = harness.parser(__doc__)
    parser.add_argument("--deep", type=int, metavar="N", help="time a chain of N operations instead (ferro only)")
    args = parser.parse_args(given)
    libraries = harness.begin(args, ("ferro",))
    harness.save(args, libraries, {"deep": deep(libraries["ferro"], args.deep)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
