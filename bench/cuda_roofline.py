"""The measured column of docs/internals/cuda_kernels.md: ``python -m bench.cuda_roofline`` (or `make bench-cuda`) on a machine with a GPU.

Each function of that page is called with float32, 8192 x 1024 elements, between two events; the median of some blocks counts. The times go to
docs/internals/cuda_measured.json with the card and the date, from where docs/cuda_kernels.py takes them.
"""

from __future__ import annotations

import datetime as dt
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ferro
from ferro.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "internals" / "cuda_measured.json"
BLOCKS, CALLS = 9, 20
Call = Callable[[], Any]


def _there(*shape: int, grad: bool = True) -> Any:
    return ferro.rand(*shape, device="cuda", requires_grad=grad)


def _forward(function: Callable[[Any], Any]) -> Callable[[int, int], Call]:
    """A row of a function of one array, without gradients."""

    def make(rows: int, width: int) -> Call:
        x = _there(rows, width, grad=False)
        return lambda: function(x)

    return make


def _backward(function: Callable[..., Any], *others: Callable[[int, int], Any]) -> Callable[[int, int], Call]:
    """A row of the backward alone: of all tensors of a function."""

    def make(rows: int, width: int) -> Call:
        tensors = _there(rows, width), *[other(rows, width) for other in others]
        out = function(*tensors)
        g, wanted = ferro.ones_like(out), [t for t in tensors if t.requires_grad]
        return lambda: ferro.autograd.grad(out, wanted, g, retain_graph=True)

    return make


def _line(_: int, width: int) -> Any:
    return _there(width)


def _classes(rows: int, width: int) -> Any:
    return ferro.randint(width, (rows,), device="cuda")


def _images(x: Any) -> Any:
    """The same elements as images whose windows of 2 x 2 lie side by side."""
    return x.reshape(-1, 1, 32, 32)


def _batch_norm(x: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(x, None, None, w, b, True)


def _with(function: Callable[..., Any], *others: Callable[[int, int], Any]) -> Callable[[int, int], Call]:
    """A row of a function of several tensors, without gradients."""

    def make(rows: int, width: int) -> Call:
        tensors = [t.detach() for t in (_there(rows, width), *[other(rows, width) for other in others])]
        return lambda: function(*tensors)

    return make


def _step(rows: int, width: int) -> Call:
    parameter = _there(rows, width)
    parameter.grad = ferro.rand(rows, width, device="cuda")
    return ferro.optim.Adam([parameter]).step


def _scatter(rows: int, width: int) -> Call:
    n = rows * width
    table, index, src = (
        ferro.zeros(1000, 1, device="cuda"),
        ferro.randint(1000, (n,), device="cuda"),
        _there(n, 1, grad=False),
    )
    return lambda: table.index_add_(0, index, src)


def _gather(rows: int, width: int) -> Call:
    table, index = _there(rows, width, grad=False), ferro.randint(rows, (rows,), device="cuda")
    return lambda: F.embedding(index, table)


ROWS: dict[str, Callable[[int, int], Call]] = {
    "sum, mean, prod, amax, amin": _forward(lambda x: x.sum()),
    "max and min along a dimension, argmax, argmin": _forward(lambda x: x.max(1)),
    "vector_norm": _forward(lambda x: x.norm()),
    "softmax, log_softmax": _forward(lambda x: x.softmax(-1)),
    "softmax, log_softmax, backward": _backward(lambda x: x.softmax(-1)),
    "layer_norm, group_norm": _with(lambda x, w, b: F.layer_norm(x, w.shape, w, b), _line, _line),
    "rms_norm": _with(lambda x, w: F.rms_norm(x, w.shape, w), _line),
    "layer_norm, group_norm, backward": _backward(lambda x, w, b: F.layer_norm(x, w.shape, w, b), _line, _line),
    "rms_norm, backward": _backward(lambda x, w: F.rms_norm(x, w.shape, w), _line),
    "batch_norm": _with(_batch_norm, _line, _line),
    "batch_norm, backward": _backward(_batch_norm, _line, _line),
    "cross_entropy": _with(F.cross_entropy, _classes),
    "cross_entropy, backward": _backward(F.cross_entropy, _classes),
    "max_pool2d, avg_pool2d, windows of 2 x 2 side by side": _forward(lambda x: F.avg_pool2d(_images(x), 2)),
    "avg_pool2d, backward": _backward(lambda x: F.avg_pool2d(_images(x), 2)),
    "SGD with momentum, Adam, a step": _step,
    "index_add, embedding's backward, of n rows of 1": _scatter,
    "embedding, index_select": _gather,
    "rand, randn": lambda rows, width: lambda: ferro.rand(rows, width, device="cuda"),
    "dropout, forward or backward": _forward(lambda x: F.dropout(x, 0.5)),
}


def measured(call: Call) -> float:
    """Microseconds of a call: the median of blocks, after a few calls to warm up."""
    for _ in range(3):
        call()
    times = []
    for _ in range(BLOCKS):
        begin, end = (ferro.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / CALLS * 1e3)
    return statistics.median(times)


def main() -> None:
    """Measure all rows, keep them, and write the page."""
    if not ferro.cuda.is_available():
        raise SystemExit("bench.cuda_roofline needs a GPU that CuPy can use")
    found: dict[str, Any] = {
        "card": ferro.cuda.get_device_name(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }
    found["microseconds"] = {}
    for name, make in ROWS.items():
        found["microseconds"][name] = round(measured(make(8192, 1024)), 1)
        print(f"{name:60}{found['microseconds'][name]:12.1f} us", flush=True)
        ferro.cuda.empty_cache()
    MEASURED.write_text(json.dumps(found, indent=1) + "\n")
    subprocess.run([sys.executable, str(ROOT / "docs" / "cuda_kernels.py"), "--tables"], check=True)


if __name__ == "__main__":
    main()
