"""What one small operation costs: chains on 4x4 float32 tensors, forward and backward, ferro beside torch.

python bench/per_op.py                  chains and single operations
python bench/per_op.py --deep 1000000   a chain of a million operations instead: time, and memory per node (ferro only)
"""

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.harness import Job, Row, Table

CYCLE = 20


def mixed(lib: ModuleType, x: Any, w: Any, b: Any, cycles: int = 5) -> Any:
    """A chain of 20 operations per cycle, of the kinds that models are made of; every value stays within ±8."""
    tanh, sigmoid, exp, sin, cos, relu, sqrt = lib.tanh, lib.sigmoid, lib.exp, lib.sin, lib.cos, lib.relu, lib.sqrt
    for _ in range(cycles):
        y = x @ w  # 1: the rows of w have norm 1
        y = y + b
        y = tanh(y)
        z = y * x  # 4
        z = sigmoid(z)
        z = z - y
        e = exp(z)  # 7: within (e⁻¹, e²)
        z = y / e
        z = sin(z)
        z = -z  # 10
        r = relu(z)
        z = z * 0.5
        z = z + r  # 13
        z = z.t()
        q = z**2
        q = q + 1.0  # 16
        q = sqrt(q)
        z = z / q
        z = cos(z)
        x = z - y  # 20
    return x


def operands(lib: ModuleType) -> tuple[Any, Any, Any]:
    """x, w and b of the chains: leaves that require gradients, the same numbers for every engine."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.uniform(-1, 1, (4, 4)).astype(np.float32) for _ in range(3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return tuple(lib.from_numpy(array).requires_grad_() for array in (x, w, b))


def no_gradients(leaves: tuple[Any, ...]) -> None:
    """Forget gradients, as zero_grad() does between steps."""
    for leaf in leaves:
        leaf.grad = None


def chain_jobs(lib: ModuleType, cycles: int) -> dict[str, Any]:
    """Forward with and without recording, forward + backward, and backward alone of a mixed chain."""
    leaves = operands(lib)
    seed = lib.ones(4, 4)

    def forward() -> Any:
        return mixed(lib, *leaves, cycles=cycles)

    def not_recorded() -> None:
        with lib.no_grad():
            forward()

    def backward(out: Any) -> None:
        no_gradients(leaves)
        out.backward(seed)

    return {
        "forward, not recorded": not_recorded,
        "forward, recorded": forward,
        "forward + backward": lambda: backward(forward()),
        "backward alone": Job(backward, prepare=forward),
    }


# name -> (function of lib, x, positive y in (1, 2)), operations it counts for); each is applied again to its result.
SINGLE: dict[str, tuple[Callable[[Any, Any, Any], Any], int]] = {
    "x + y": (lambda lib, x, y: x + y, 1),
    "x - y": (lambda lib, x, y: x - y, 1),
    "x * y": (lambda lib, x, y: x * y, 1),
    "x / y": (lambda lib, x, y: x / y, 1),
    "x * 1.01": (lambda lib, x, y: x * 1.01, 1),
    "-x": (lambda lib, x, y: -x, 1),
    "1.5 - x ** 2": (lambda lib, x, y: 1.5 - x**2, 2),
    "exp(-x)": (lambda lib, x, y: lib.exp(-x), 2),
    "log(y + x * x)": (lambda lib, x, y: lib.log(y + x * x), 3),
    "sqrt(y + x * x)": (lambda lib, x, y: lib.sqrt(y + x * x), 3),
    "tanh": (lambda lib, x, y: lib.tanh(x), 1),
    "sigmoid": (lambda lib, x, y: lib.sigmoid(x), 1),
    "sin": (lambda lib, x, y: lib.sin(x), 1),
    "relu": (lambda lib, x, y: lib.relu(x), 1),
    "softmax": (lambda lib, x, y: lib.softmax(x, dim=-1), 1),
    "maximum": (lambda lib, x, y: lib.maximum(x, y), 1),
    "where(x > 0, x, y)": (lambda lib, x, y: lib.where(x > 0, x, y), 2),
    "x + row (broadcast)": (lambda lib, x, y: x + y[0], 2),
    "x - sum": (lambda lib, x, y: x - x.sum(), 2),
    "x - mean(dim, keepdim)": (lambda lib, x, y: x - x.mean(dim=-1, keepdim=True), 2),
    "x @ y * 0.1": (lambda lib, x, y: x @ y * 0.1, 2),
    "transpose": (lambda lib, x, y: x.transpose(0, 1), 1),
    "reshape": (lambda lib, x, y: x.reshape(2, 8).reshape(4, 4), 2),
    "cat of halves": (lambda lib, x, y: lib.cat((x[2:], x[:2])), 3),
}
REPEAT = 20


def single_jobs(lib: ModuleType, function: Callable[[Any, Any, Any], Any]) -> dict[str, Callable[[], Any]]:
    """Forward, and forward + backward, of one operation applied 20 times over."""
    x, y, _ = operands(lib)
    y = (y.detach().abs() + 1).requires_grad_()
    seed = lib.ones(4, 4)

    def forward() -> Any:
        out = x
        for _ in range(REPEAT):
            out = function(lib, out, y)
        return out

    def both() -> None:
        no_gradients((x, y))
        forward().backward(seed)

    return {"forward": forward, "forward + backward": both}


def compare(args: Any, libraries: dict[str, ModuleType]) -> dict[str, list[dict[str, Any]]]:
    """Time the chains and the single operations in both engines."""
    chains = Table("Mixed chain of 4x4 float32 tensors, time per operation")
    for label, cycles in (("100 ops", 5), ("1000 ops", 50)):
        jobs = {engine: chain_jobs(lib, cycles) for engine, lib in libraries.items()}
        for kind in jobs["ferro"]:
            name = f"{label}, {kind}"
            if args.only in name:
                timings = harness.interleave({engine: jobs[engine][kind] for engine in jobs}, args.seconds)
                chains.add(Row(name, timings, per=cycles * CYCLE))
    singles = Table(f"One operation {REPEAT} times over, time per operation")
    for name, (function, count) in SINGLE.items():
        jobs = {engine: single_jobs(lib, function) for engine, lib in libraries.items()}
        for kind in ("forward", "forward + backward"):
            if args.only in f"{name}, {kind}":
                timings = harness.interleave({engine: jobs[engine][kind] for engine in jobs}, args.seconds / 4)
                singles.add(Row(f"{name}, {kind}", timings, per=REPEAT * count))
    for table in (chains, singles):
        if table.rows:
            print(f"\n{table.title}:")
            table.close()
    return {"chains": chains.records(), "singles": singles.records()}


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


def main(argv: list[str] | None = None) -> None:
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.set_defaults(threads=1)  # tensors of 16 numbers are no work for two
    parser.add_argument("--deep", type=int, metavar="N", help="time a chain of N operations instead (ferro only)")
    args = parser.parse_args(argv)
    libraries = harness.begin(args, ("ferro",) if args.deep else ("ferro", "torch"))
    results = {"deep": deep(libraries["ferro"], args.deep)} if args.deep else compare(args, libraries)
    figures = harness.memory()
    print("\nmemory of this process: " + ", ".join(f"{name} {value:.0f}" for name, value in figures.items()))
    harness.save(args, libraries, results)


if __name__ == "__main__":
    main()
