"""Rows on a GPU beside PyTorch CUDA: ``python -m bench.cuda`` (or `make bench-cuda`) prints milliseconds and ratios.

Both libraries run in one process, by turns; each block of calls stands between two events of its library, and the median of the
blocks counts. A ratio is ferro's time over PyTorch's: below 1 is faster. All arrays are float32, products in full float32.
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import ferro

BLOCKS, CALLS = 9, 20


def both(make: Callable[..., Any], *shapes: tuple) -> dict[str, Any]:
    """The same random arrays as tensors of both libraries on the GPU, that want gradients."""
    import torch

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return {
        lib.__name__: make(lib, *[lib.tensor(a, device="cuda", requires_grad=True) for a in arrays])
        for lib in (ferro, torch)
    }


def forward(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A row without gradients."""

    def make(lib: Any, *tensors: Any) -> Callable[[], Any]:
        def call() -> None:
            with lib.no_grad():
                formula(lib, *tensors)

        return call

    return make


def backward(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A row of forward and backward of the sum."""

    def make(lib: Any, *tensors: Any) -> Callable[[], Any]:
        def call() -> None:
            lib.autograd.grad(formula(lib, *tensors).sum(), tensors)

        return call

    return make


def training(lib: Any) -> Callable[[], Any]:
    """A step of Adam for a network of three layers, 4096 rows."""
    nn = lib.nn
    lib.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 10)
    )
    model.to("cuda")
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    x = lib.tensor(rng.standard_normal((4096, 512)).astype(np.float32), device="cuda")
    target = lib.tensor(rng.integers(0, 10, 4096), device="cuda")

    def call() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()

    return call


LARGE, ROWS_OF = (10_000_000,), (8192, 1024)
ROWS: dict[str, tuple] = {
    "x + y 1e7": (forward(lambda lib, x, y: x + y), LARGE, LARGE),
    "x + y 100": (forward(lambda lib, x, y: x + y), (100,), (100,)),
    "gelu 1e7": (forward(lambda lib, x: lib.nn.functional.gelu(x)), LARGE),
    "gelu 1e7, backward": (backward(lambda lib, x: lib.nn.functional.gelu(x)), LARGE),
    "softplus 1e7, backward": (backward(lambda lib, x: lib.nn.functional.softplus(x)), LARGE),
    "sum 1e7": (forward(lambda lib, x: x.sum()), LARGE),
    "sum dim=0 8192x1024": (forward(lambda lib, x: x.sum(0)), ROWS_OF),
    "matmul 2048": (forward(lambda lib, x, y: x @ y), (2048, 2048), (2048, 2048)),
    "matmul 2048, backward": (backward(lambda lib, x, y: x @ y), (2048, 2048), (2048, 2048)),
    "softmax 8192x1024, backward": (backward(lambda lib, x: x.softmax(-1)), ROWS_OF),
    "layer_norm 8192x1024, backward": (backward(lambda lib, x: lib.nn.functional.layer_norm(x, (1024,))), ROWS_OF),
    "conv2d 32x64x32x32, 3x3": (
        forward(lambda lib, x, w: lib.nn.functional.conv2d(x, w, padding=1)),
        (32, 64, 32, 32),
        (64, 64, 3, 3),
    ),
}


def block(lib: Any, call: Callable[[], Any]) -> float:
    """Milliseconds of one call, in a block of some."""
    begin, end = (lib.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / CALLS


def measured(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median of the blocks of both libraries, by turns, after a few calls to warm up."""
    import torch

    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(BLOCKS):
        for lib in (ferro, torch):
            times[lib.__name__].append(block(lib, calls[lib.__name__]))
    return {name: statistics.median(some) for name, some in times.items()}


def main() -> None:
    """Print the table."""
    import torch

    if not (ferro.cuda.is_available() and torch.cuda.is_available()):
        raise SystemExit("bench.cuda needs a GPU that CuPy and PyTorch can use")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{ferro.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'row':34}{'ferro ms':>10}{'torch ms':>10}{'ratio':>8}")
    for name, (make, *shapes) in ROWS.items():
        report(name, measured(both(make, *shapes)))
        ferro.cuda.empty_cache()
        torch.cuda.empty_cache()
    report("a step of Adam, three layers", measured({lib.__name__: training(lib) for lib in (ferro, torch)}))


def report(name: str, found: dict[str, float]) -> None:
    """One line."""
    print(f"{name:34}{found['ferro']:10.4f}{found['torch']:10.4f}{found['ferro'] / found['torch']:8.2f}", flush=True)


if __name__ == "__main__":
    main()
