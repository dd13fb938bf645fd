"""The kinds of rows that bench/rows.py declares: how each is made ready in an engine, what is timed, what is compared."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.harness import Job, Timing
from bench.workloads import Trainer, Workload, initial_state

FORWARD, BOTH = "forward", "forward + backward"

os.environ.setdefault("FERRO_KERNELS", "wait")  # what is timed is a program that has its kernels; see Child for others


@dataclass
class Ready:
    """A row in one engine: what can be timed, by name, and the numbers that must agree between the engines."""

    jobs: dict[str, Job | Callable[[], Any]]
    numbers: Callable[[], list[np.ndarray]]
    per: int = 1  # operations that one call of a job stands for
    block_seconds: float = 0.01


@dataclass(frozen=True)
class Case:
    """A function on given inputs: float arrays are differentiated, integer arrays are not."""

    name: str
    function: Callable[..., Any]  # of the library (the state, if there is one) and the inputs as its tensors
    shapes: tuple[tuple[int, ...], ...]
    low: float = -2.0
    high: float = 2.0
    classes: int = 0  # > 0: the last input holds integers below this
    rtol: float = 2e-5  # of the largest number of a result: sums of float32 in another order
    repeat: int = 1  # the function is applied to its own result so many times, with the other inputs
    per: int = 1  # operations that one application stands for
    state: Callable[[ModuleType], Any] | None = None  # what the function takes after the library: a module
    forward_only: bool = False
    backward_only: bool = False
    dtype: str = "float32"

    def in_float64(self) -> "Case":
        """The same row in float64."""
        return replace(self, name=f"{self.name}, float64", dtype="float64", rtol=self.rtol * 1e-6)

    def arrays(self) -> list[np.ndarray]:
        """The inputs, the same for both engines."""
        rng = np.random.default_rng(0)
        result: list[np.ndarray] = [rng.uniform(self.low, self.high, shape).astype(self.dtype) for shape in self.shapes]
        if self.classes:
            result[-1] = rng.integers(0, self.classes, self.shapes[-1])
        return result

    def prepare(self, lib: ModuleType) -> Ready:
        """The row in one engine."""
        running = Running(lib, self)
        jobs: dict[str, Any] = {FORWARD: running.forward, BOTH: running.both}
        if self.backward_only:
            jobs = {"backward": Job(running.backward, prepare=running.recorded)}
        elif self.forward_only:
            del jobs[BOTH]
        return Ready(jobs, running.numbers, self.repeat * self.per)


class Running:
    """A case in one engine: its inputs as tensors, a fixed cotangent, and the calls that are timed."""

    def __init__(self, lib: ModuleType, case: Case):
        self.lib, self.case = lib, case
        self.inputs = [lib.from_numpy(array) for array in case.arrays()]
        dtype = getattr(lib, case.dtype)
        self.given: tuple[Any, ...] = (lib,) if case.state is None else (lib, case.state(lib).to(dtype))
        self.leaves = []
        if not case.forward_only:
            self.leaves = [tensor.requires_grad_() for tensor in self.inputs if tensor.dtype == dtype]
        shape = tuple(self.forward().shape)
        self.cotangent = lib.from_numpy(
            np.random.default_rng(1).uniform(0.5, 1, shape).astype(case.dtype).reshape(shape)
        )

    def recorded(self) -> Any:
        """The operation with what it records; gradients of earlier calls are forgotten."""
        for leaf in self.leaves:
            leaf.grad = None
        function, given = self.case.function, self.given
        x, *others = self.inputs
        for _ in range(self.case.repeat):
            x = function(*given, x, *others)
        return x

    def forward(self) -> Any:
        """The operation without recording."""
        with self.lib.no_grad():
            return self.recorded()

    def backward(self, out: Any) -> None:
        """The backward pass of what `recorded` gave."""
        out.backward(self.cotangent)

    def both(self) -> Any:
        """The operation recorded, and its backward pass."""
        out = self.recorded()
        out.backward(self.cotangent)
        return out

    def numbers(self) -> list[np.ndarray]:
        """The result and all gradients (an empty array for an input without influence)."""
        if self.case.forward_only:
            return [np.array(self.forward().numpy())]
        out = self.both()
        gradients = [np.empty(0) if leaf.grad is None else leaf.grad.numpy() for leaf in self.leaves]
        return [out.detach().numpy(), *gradients]


def module(make: Callable[[Any], Any]) -> Callable[[ModuleType], Any]:
    """The state of a case that calls a module: `make(nn)` with the same parameters in every engine."""

    def build(lib: ModuleType) -> Any:
        built = make(lib.nn)
        rng = np.random.default_rng(2)
        with lib.no_grad():
            for parameter in built.parameters():
                parameter.copy_(lib.from_numpy(rng.uniform(-0.5, 0.5, tuple(parameter.shape)).astype(np.float32)))
        return built

    return build


@dataclass(frozen=True)
class Update:
    """A step of an optimiser over parameters of given shapes; with `zero`, only zero_grad()."""

    name: str
    optimizer: Callable[[ModuleType, Any], Any]
    shapes: tuple[tuple[int, ...], ...]
    zero: bool = False
    rtol: float = 1e-5

    def prepare(self, lib: ModuleType) -> Ready:
        """The row in one engine; the numbers are the parameters after one step."""
        rng = np.random.default_rng(0)
        parameters = [lib.nn.Parameter(lib.from_numpy(rng.normal(size=s).astype(np.float32))) for s in self.shapes]
        gradients = [lib.from_numpy(rng.normal(size=s).astype(np.float32)) for s in self.shapes]
        optimizer = self.optimizer(lib, parameters)

        def give() -> None:
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = g

        def give_and_forget() -> None:
            give()
            optimizer.zero_grad()

        def numbers() -> list[np.ndarray]:
            give()
            optimizer.step()
            return [p.detach().numpy().copy() for p in parameters]

        return Ready({"": give_and_forget if self.zero else optimizer.step}, numbers)


@dataclass(frozen=True)
class Clip:
    """clip_grad_norm_ of parameters of given shapes; what must agree are the norm and the gradients."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    rtol: float = 1e-5

    def prepare(self, lib: ModuleType) -> Ready:
        """The row in one engine; gradients that have been clipped keep their norm."""
        rng = np.random.default_rng(0)
        parameters = [lib.nn.Parameter(lib.zeros(s)) for s in self.shapes]
        for p, s in zip(parameters, self.shapes, strict=True):
            p.grad = lib.from_numpy(rng.normal(size=s).astype(np.float32))

        def numbers() -> list[np.ndarray]:
            norm = lib.nn.utils.clip_grad_norm_(parameters, 1.0)
            return [np.array(norm.item()), *[p.grad.numpy().copy() for p in parameters]]

        return Ready({"": lambda: lib.nn.utils.clip_grad_norm_(parameters, 1.0)}, numbers)


@dataclass(frozen=True)
class Training:
    """A whole training step; the numbers that must agree are the losses of the first four."""

    name: str
    workload: Workload
    rtol: float = 2e-4
    dtype: str = "float32"

    def in_float64(self) -> "Training":
        """The same row in float64."""
        return replace(self, name=f"{self.name}, float64", dtype="float64", rtol=self.rtol * 1e-6)

    def prepare(self, lib: ModuleType) -> Ready:
        """The row in one engine."""
        trainer = Trainer(self.workload, lib, _state(self.workload), self.dtype)
        batch = trainer.load(next(self.workload.batches()))

        def numbers() -> list[np.ndarray]:
            return [np.array([trainer.step(*batch).item() for _ in range(4)])]

        return Ready({"": lambda: trainer.step(*batch)}, numbers, block_seconds=0.05)


def _state(workload: Workload) -> dict[str, np.ndarray]:
    """Weights that every engine begins with, ferro's own."""
    import ferro

    return initial_state(workload, ferro)


@dataclass(frozen=True)
class Child:
    """What only a fresh process can show: bench/child.py prints the figure and the numbers that must agree."""

    name: str
    what: str  # a function of bench/child.py
    workload: str  # its argument, a key of WORKLOADS ("": none)
    unit: str = "MB"
    rtol: float = 2e-4
    runs: int = 3
    cold: bool = False  # with an empty cache of compiled kernels

    def measure(self, engine: str, threads: int) -> tuple[Timing, list[np.ndarray]]:
        """The least and the median of some processes."""
        figures, numbers = [], []
        script = Path(__file__).with_name("child.py")
        command = [sys.executable, str(script), self.what, engine, str(threads), self.workload]
        for _ in range(self.runs):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:  # kernels may still come
                # (Installed packages have their bytecode on disk; the first of the processes writes ferro's.)
                environment = {**os.environ, "FERRO_KERNELS": "", "PYTHONDONTWRITEBYTECODE": ""}
                if self.cold:
                    environment["FERRO_CACHE_DIR"] = empty
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            figure, numbers = json.loads(done.stdout.splitlines()[-1])
            figures.append(figure)
        figures.sort()
        return Timing(figures[0], figures[len(figures) // 2], len(figures)), [np.array(numbers)]


AnyCase = Case | Update | Clip | Training | Child


def difference(rtol: float, ours: list[np.ndarray], theirs: list[np.ndarray]) -> str:
    """Empty if two engines computed the same numbers, else what differs."""
    for position, (mine, reference) in enumerate(zip(ours, theirs, strict=True)):
        what = "result" if position == 0 else f"gradient {position}"
        if mine.shape != reference.shape or mine.dtype != reference.dtype:
            return f"{what} differs in kind: {mine.dtype}{mine.shape}, {reference.dtype}{reference.shape}"
        if not mine.size:
            continue
        error = np.abs(mine.astype(np.float64) - reference).max() / max(np.abs(reference).max(), 1e-30)
        if not error <= rtol:
            return f"{what} DIFFERS by {error:.1e} of its largest number (allowed {rtol:.0e})"
    return ""


def disagreement(case: Any, ready: dict[str, Any]) -> str:
    """Empty if the engines compute the same numbers for a row, else what differs."""
    if len(ready) < 2:
        return ""
    return difference(case.rtol, ready["ferro"].numbers(), ready["torch"].numbers())
