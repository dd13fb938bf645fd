"""What the large operations cost, forward and forward + backward, ferro beside torch, on inputs that are checked first.

python bench/kernels.py                 all rows; a row whose numbers differ between the engines says so and exits 1
python bench/kernels.py --only conv2d   some rows
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.harness import Row, Table


@dataclass(frozen=True)
class Case:
    """An operation on given inputs: float arrays are differentiated, integer arrays are not."""

    name: str
    function: Callable[..., Any]  # of the library and the inputs as its tensors
    shapes: tuple[tuple[int, ...], ...]
    low: float = -2.0
    high: float = 2.0
    classes: int = 0  # > 0: the last input holds integers below this
    rtol: float = 2e-5  # of the largest number of a result: sums of float32 in another order

    def arrays(self) -> list[np.ndarray]:
        """The inputs, the same for both engines."""
        rng = np.random.default_rng(0)
        result: list[np.ndarray] = [rng.uniform(self.low, self.high, shape).astype(np.float32) for shape in self.shapes]
        if self.classes:
            result[-1] = rng.integers(0, self.classes, self.shapes[-1])
        return result


def elementwise() -> list[Case]:
    """Pointwise operations from cache-sized to memory-bound."""
    unary: dict[str, Callable[..., Any]] = {
        "exp": lambda lib, x: lib.exp(x),
        "tanh": lambda lib, x: lib.tanh(x),
        "sigmoid": lambda lib, x: lib.sigmoid(x),
        "relu": lambda lib, x: lib.relu(x),
        "sin": lambda lib, x: lib.sin(x),
        "gelu": lambda lib, x: lib.nn.functional.gelu(x),
        "silu": lambda lib, x: lib.nn.functional.silu(x),
        "x * 2 + 1": lambda lib, x: x * 2 + 1,
    }
    binary: dict[str, Callable[..., Any]] = {
        "add": lambda lib, x, y: x + y,
        "mul": lambda lib, x, y: x * y,
        "div": lambda lib, x, y: x / y,
        "chain tanh(x * y) + x": lambda lib, x, y: lib.tanh(x * y) + x,
    }
    cases = []
    for size in (10_000, 1_000_000, 10_000_000):
        label = f"1e{round(math.log10(size))}"
        cases += [Case(f"{name} {label}", f, ((size,),)) for name, f in unary.items()]
        cases += [Case(f"{name} {label}", f, ((size,),) * 2, low=0.5) for name, f in binary.items()]
    cases.append(Case("add row 1000x1000 + 1000", lambda lib, x, y: x + y, ((1000, 1000), (1000,))))
    cases.append(Case("add column 1000x1000 + 1000x1", lambda lib, x, y: x + y, ((1000, 1000), (1000, 1))))
    return cases


def reductions() -> list[Case]:
    """Reductions over everything, the last and the first dimension, and normalisations."""
    table: dict[str, Callable[..., Any]] = {
        "sum": lambda lib, x: x.sum(),
        "sum dim=-1": lambda lib, x: x.sum(dim=-1),
        "sum dim=0": lambda lib, x: x.sum(dim=0),
        "mean dim=-1": lambda lib, x: x.mean(dim=-1),
        "amax dim=-1": lambda lib, x: x.amax(dim=-1),
        "var dim=-1": lambda lib, x: x.var(dim=-1),
        "norm": lambda lib, x: lib.norm(x),
        "logsumexp dim=-1": lambda lib, x: lib.logsumexp(x, dim=-1),
        "softmax": lambda lib, x: lib.softmax(x, dim=-1),
        "log_softmax": lambda lib, x: lib.log_softmax(x, dim=-1),
        "cumsum dim=-1": lambda lib, x: lib.cumsum(x, dim=-1),
    }
    cases = [Case(f"{name} 1000x1000", f, ((1000, 1000),), rtol=1e-4) for name, f in table.items()]
    cases += [Case(f"{name} 64x10", table[name], ((64, 10),)) for name in ("softmax", "log_softmax")]
    return cases


def layers() -> list[Case]:
    """Products, convolutions, pooling, norms, losses: what models are made of."""

    def conv(lib, x, w, b):
        return lib.nn.functional.conv2d(x, w, b, padding=1)

    def cross_entropy(lib, x, target):
        return lib.nn.functional.cross_entropy(x, target)

    def layer_norm(lib, x, w, b):
        return lib.nn.functional.layer_norm(x, (x.shape[-1],), w, b)

    def batch_norm(lib, x, w, b):
        return lib.nn.functional.batch_norm(x, None, None, w, b, training=True)

    def attention(lib, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v

    def linear(lib, x, w, b):
        return lib.nn.functional.linear(x, w, b)

    def matmul(lib, x, y):
        return x @ y

    square = {size: ((size, size),) * 2 for size in (64, 256, 1024)}
    cases = [Case(f"matmul {size}x{size}", matmul, square[size], rtol=1e-4) for size in square]
    cases += [
        Case("bmm 64 x 64x64", matmul, ((64, 64, 64),) * 2, rtol=1e-4),
        Case("linear 64x784 -> 256", linear, ((64, 784), (256, 784), (256,)), rtol=1e-4),
        Case("attention 16x4x64x24", attention, ((16, 4, 64, 24),) * 3, rtol=1e-4),
        Case("conv2d 64x1x8x8 -> 16", conv, ((64, 1, 8, 8), (16, 1, 3, 3), (16,)), rtol=1e-4),
        Case("conv2d 64x16x8x8 -> 32", conv, ((64, 16, 8, 8), (32, 16, 3, 3), (32,)), rtol=1e-4),
        Case("conv2d 8x64x56x56 -> 64", conv, ((8, 64, 56, 56), (64, 64, 3, 3), (64,)), rtol=1e-4),
        Case("max_pool2d 64x32x28x28", lambda lib, x: lib.nn.functional.max_pool2d(x, 2), ((64, 32, 28, 28),)),
        Case("avg_pool2d 64x32x28x28", lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), ((64, 32, 28, 28),)),
        Case("layer_norm 1024x96", layer_norm, ((1024, 96), (96,), (96,)), rtol=1e-4),
        Case("layer_norm 1024x1024", layer_norm, ((1024, 1024), (1024,), (1024,)), rtol=1e-4),
        Case("batch_norm 64x32x28x28", batch_norm, ((64, 32, 28, 28), (32,), (32,)), rtol=1e-3),
        Case("cross_entropy 64x10", cross_entropy, ((64, 10), (64,)), classes=10),
        Case("cross_entropy 1024x103", cross_entropy, ((1024, 103), (1024,)), classes=103),
        Case("mse_loss 1000x1000", lambda lib, x, y: lib.nn.functional.mse_loss(x, y), ((1000, 1000),) * 2, rtol=1e-4),
        Case(
            "embedding 1024 of 10000x96",
            lambda lib, w, index: lib.nn.functional.embedding(index, w),
            ((10000, 96), (1024,)),
            classes=10000,
        ),
        Case("index rows 1024 of 10000x96", lambda lib, x, i: x[i], ((10000, 96), (1024,)), classes=10000),
        Case("cat 2 x 1000x1000", lambda lib, x, y: lib.cat((x, y), dim=1), ((1000, 1000),) * 2),
        Case("transpose + contiguous 1000x1000", lambda lib, x: x.t().contiguous(), ((1000, 1000),)),
    ]
    return cases


class Running:
    """A case in one engine: its inputs as tensors, a fixed cotangent, and the two calls that are timed."""

    def __init__(self, lib: ModuleType, case: Case):
        self.lib, self.case = lib, case
        self.inputs = [lib.from_numpy(array) for array in case.arrays()]
        self.leaves = []
        for tensor in self.inputs:
            if tensor.dtype == lib.float32:
                self.leaves.append(tensor.requires_grad_())
        shape = tuple(self.forward().shape)
        self.cotangent = lib.from_numpy(
            np.random.default_rng(1).uniform(0.5, 1, shape).astype(np.float32).reshape(shape)
        )

    def forward(self) -> Any:
        """The operation without recording."""
        with self.lib.no_grad():
            return self.case.function(self.lib, *self.inputs)

    def both(self) -> Any:
        """The operation recorded, and its backward pass."""
        for leaf in self.leaves:
            leaf.grad = None
        out = self.case.function(self.lib, *self.inputs)
        out.backward(self.cotangent)
        return out

    def numbers(self) -> list[np.ndarray]:
        """The result and all gradients."""
        out = self.both()
        return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in self.leaves)]


def disagreement(case: Case, running: dict[str, Running]) -> str:
    """Empty if the engines compute the same numbers, else what differs."""
    if len(running) < 2:
        return ""
    ours, theirs = (running[engine].numbers() for engine in ("ferro", "torch"))
    for position, (mine, reference) in enumerate(zip(ours, theirs, strict=True)):
        what = "result" if position == 0 else f"gradient {position}"
        if mine.shape != reference.shape or mine.dtype != reference.dtype:
            return f"{what} differs in kind: {mine.dtype}{mine.shape}, {reference.dtype}{reference.shape}"
        error = np.abs(mine.astype(np.float64) - reference).max() / max(np.abs(reference).max(), 1e-30)
        if not error <= case.rtol:
            return f"{what} DIFFERS by {error:.1e} of its largest number (allowed {case.rtol:.0e})"
    return ""


def adam_steps(libraries: dict[str, ModuleType], args: Any, table: Table) -> None:
    """A step of Adam on one large matrix and on forty small ones."""
    for label, shapes in (("1e6 parameters", [(1000, 1000)]), ("40 x 64x64", [(64, 64)] * 40)):
        name = f"Adam step, {label}"
        if args.only not in name:
            continue
        jobs, after = {}, {}
        for engine, lib in libraries.items():
            rng = np.random.default_rng(0)
            parameters = [lib.nn.Parameter(lib.from_numpy(rng.normal(size=s).astype(np.float32))) for s in shapes]
            for p in parameters:
                p.grad = lib.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32))
            optimizer = lib.optim.Adam(parameters)
            optimizer.step()
            after[engine] = parameters[-1].detach().numpy().copy()
            jobs[engine] = optimizer.step
        same = len(after) < 2 or np.allclose(after["ferro"], after["torch"], rtol=0, atol=1e-6)
        timings = harness.interleave(jobs, args.seconds)
        table.add(Row(name, timings, note="" if same else "DIFFERS after one step"))


def main(argv: list[str] | None = None) -> int:
    parser = harness.parser(__doc__.partition("\n")[0])
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
    tables = {}
    for title, cases in (("Elementwise", elementwise()), ("Reductions", reductions()), ("Layers", layers())):
        table = tables[title] = Table(f"{title}, time per call")
        for case in cases:
            if args.only not in case.name:
                continue
            running = {engine: Running(lib, case) for engine, lib in libraries.items()}
            note = disagreement(case, running)
            for kind, method in (("forward", "forward"), ("forward + backward", "both")):
                jobs = {engine: getattr(job, method) for engine, job in running.items()}
                table.add(Row(f"{case.name}, {kind}", harness.interleave(jobs, args.seconds / 2), note=note))
        if title == "Layers":
            adam_steps(libraries, args, table)
        if table.rows:
            table.close()
    harness.save(args, libraries, {title.lower(): table.records() for title, table in tables.items()})
    wrong = sorted({row.name for table in tables.values() for row in table.rows if row.note})
    print(f"\n{len(wrong)} rows differ in their numbers: {wrong}" if wrong else "\nall rows computed the same numbers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
