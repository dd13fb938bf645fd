"""Random autograd programs: plain data, made from a seed, printed as code, run by any library with PyTorch's names."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import ferro
from tests.helpers import to_array


class Name(str):
    """The name of a tensor among the arguments of a step."""

    __slots__ = ()


class Step(NamedTuple):
    """``out = args[0].call(*args[1:])``; calls with a dot belong to the library or to the custom functions."""

    out: tuple[str, ...]
    call: str
    args: tuple
    no_grad: bool = False

    def __str__(self) -> str:
        left = f"{', '.join(self.out)}{',' if len(self.out) > 1 else ''} = " if self.out else ""
        shown = [
            str(a) if isinstance(a, (Name, list)) else f"np.{a!r}" if isinstance(a, np.ndarray) else repr(a)
            for a in self.args
        ]
        if "." in self.call:
            return f"{left}{self.call}({', '.join(shown)}){'  # no_grad' if self.no_grad else ''}"
        return f"{left}{shown[0]}.{self.call}({', '.join(shown[1:])}){'  # no_grad' if self.no_grad else ''}"


class Program(NamedTuple):
    """Leaves (shape, requires_grad), steps, and how gradients are asked for at the end."""

    seed: int
    leaves: dict[str, tuple[tuple, bool]]
    steps: list[Step]
    roots: list[str]
    ending: str
    inputs: list[str]
    quiet: frozenset

    def __str__(self) -> str:
        leaves = [f"{n} = randn{s}{'.requires_grad_()' if r else ''}" for n, (s, r) in self.leaves.items()]
        return "\n".join(
            [
                f"# seed {self.seed}",
                *leaves,
                *map(str, self.steps),
                f"{self.ending}({self.roots}, inputs={self.inputs})",
            ]
        )


class Broken(ValueError):
    """What the raising formulas raise."""


# -- making programs ---------------------------------------------------------------------------------------------------

BOUNDED = ("sin", "cos", "tanh", "sigmoid")
UNARY = (*BOUNDED, "neg", "abs", "square", "clone", "relu", "exp", "contiguous")
INPLACE = (
    "sin_",
    "cos_",
    "tanh_",
    "sigmoid_",
    "neg_",
    "abs_",
    "square_",
    "exp_",
    "relu_",
    "zero_",
    "mul_",
    "add_",
    "sub_",
    "copy_",
    "masked_fill_",
    "fill_",
    "clamp_",
    "__setitem__",
    "write_",
)
WEIGHTS = {
    "unary": 4.0,
    "binary": 5.0,
    "view": 6.0,
    "inplace": 5.0,
    "reduce": 1.5,
    "join": 0.8,
    "where": 0.5,
    "detach": 0.5,
    "hook": 2.8,
    "retain": 1.0,
    "custom": 1.8,
}
LIMIT = 50.0  # what values may grow to: beyond it the rounding of two libraries may part ways


class Maker:
    """Writes one program, knowing of each tensor its shape, its memory and a bound of its values."""

    def __init__(self, seed: int, large: bool = False, breaking: bool | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.large = large
        self.steps: list[Step] = []
        self.shape: dict[str, tuple] = {}
        self.memory: dict[str, int] = {}
        self.bound: list[float] = []
        self.quiet: set[str] = set()  # views made under no_grad: PyTorch is of two minds whether they require grad
        self.changed: set[int] = set()
        self.frozen: set[int] = (
            set()
        )  # memory with a hook on a view: in-place operations on it would part from PyTorch's
        self.breaking = self.rng.random() < 0.1 if breaking is None else breaking

    def make(self) -> Program:
        """The whole program."""
        rng = self.rng
        shapes = (
            [(240, 256), (256,), (240, 1)]
            if self.large
            else [(3, 4), (4, 3), (4,), (2, 3, 4), (3, 1), (12,), (), (4, 4)]
        )
        leaves: dict = {}
        for i in range(int(rng.integers(2, 5))):
            shape = shapes[0] if self.large and i == 0 else shapes[int(rng.integers(len(shapes)))]
            name = self.new(shape, 2.0)
            leaves[name] = (shape, bool(i == 0 or rng.random() < 0.8))
        kinds, weights = list(WEIGHTS), np.array(list(WEIGHTS.values()))
        for name in list(leaves):
            if rng.random() < 0.7:  # something that in-place operations may change
                self.step("clone", name, out=[self.new(self.shape[name], 2.0)])
        for _ in range(int(rng.integers(4, 12 if self.large else 22))):
            getattr(self, kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))])()
        if any(step.call == "retain_grad" and self.memory[step.args[0]] in self.changed for step in self.steps):
            ending = {
                "second": "twice"
            }  # there PyTorch leads a second backward through views that were written through
        elif any(step.call == "hook.replace" for step in self.steps):
            ending = {
                "second": "twice"
            }  # there it leads gradients of zero through a mask, to hooks that make something of them
        else:
            ending = {}
        if any(step.call == "hook.node" for step in self.steps):
            ending["inputs"] = (
                "backward"  # PyTorch runs the node of an input itself, for nothing but the hooks after it
            )
        names = [n for n in self.shape if n not in self.quiet]
        late = names[len(leaves) :] or names
        roots = [str(n) for n in rng.choice(late, size=min(len(late), int(rng.integers(1, 4))), replace=False)]
        chosen = str(
            rng.choice(["backward", "twice", "again", "inputs", "grad", "second"], p=[0.4, 0.1, 0.05, 0.1, 0.15, 0.2])
        )
        ending = ending.get(chosen, chosen)
        inputs = [n for n, (_, r) in leaves.items() if r]
        if ending in ("inputs", "grad"):
            on = [step.args[0] for step in self.steps if step.call.startswith("hook.")]
            # (fn.Double returns the tensor that it is given: a hook on the one is a hook on the other)
            hooked = {n for names in on for n in (names if isinstance(names, list) else [names])} - set(leaves)
            hooked = {self.memory[n] for n in hooked}
            inputs = [
                str(n)
                for n in dict.fromkeys([*inputs[:1], *rng.choice(names, size=2)])
                if (n in leaves or self.memory[n] not in hooked) and self.memory[n] not in self.changed
            ]
        # PyTorch 2.13 does not count a lone root among the tensors that a multi-grad hook waits for
        ends = {self.memory[n] for n in roots}
        # and where an output of several is changed, the gradient that it retains may end that of another output
        several = {n for s in self.steps if len(s.out) > 1 for n in s.out if self.memory[n] in self.changed}
        self.steps = [s for s in self.steps if s.call != "retain_grad" or s.args[0] not in several]
        steps = [s for s in self.steps if s.call != "hook.all" or not ends & {self.memory[n] for n in s.args[0]}]
        return Program(self.seed, leaves, steps, roots, ending, inputs, frozenset(self.quiet))

    def new(self, shape: tuple, bound: float, like: str | None = None) -> str:
        """A name for a tensor: with memory of its own, or in that of another."""
        name = f"t{len(self.shape)}"
        self.shape[name] = tuple(shape)
        if like is None:
            self.memory[name] = len(self.bound)
            self.bound.append(bound)
        else:
            self.memory[name] = self.memory[like]
        return name

    def step(self, call: str, *args: Any, out: Any = ()) -> None:
        """Appends a step, now and then under no_grad."""
        args = tuple([Name(a) if isinstance(a, str) and a in self.shape else a for a in args])
        spoken = ("retain_grad", "contiguous", "detach", "fn.Double")
        quiet = call not in spoken and not call.startswith("hook.") and bool(self.rng.random() < 0.07)
        if (
            quiet
            and out
            and self.memory[out[0]] < len(self.bound)
            and self.memory[out[0]] in [self.memory[n] for n in self.shape if n not in out]
        ):
            self.quiet.update(out)
        self.steps.append(Step(tuple(out), call, args, quiet))

    def some(self, test: Callable[[str], bool] = lambda n: True, quiet: bool = False) -> str | None:
        """A tensor that passes a test, the young ones more often."""
        names = [n for n in self.shape if (quiet or n not in self.quiet) and test(n)]
        if not names:
            return None
        if self.rng.random() < 0.6:
            names = names[-4:]
        return names[int(self.rng.integers(len(names)))]

    def restrided(self) -> bool:
        """Whether what depends on strides may differ: NumPy and PyTorch lay out results of permuted tensors differently at times."""
        return any(step.call in ("transpose", "permute", "expand") for step in self.steps)

    def size(self, name: str) -> float:
        return self.bound[self.memory[name]]

    def unary(self) -> None:
        a: Any = self.some()
        call = UNARY[int(self.rng.integers(len(UNARY)))]
        bound = {"exp": math.exp(min(self.size(a), 9)), "square": self.size(a) ** 2}.get(call, max(1.0, self.size(a)))
        if bound > LIMIT:
            call, bound = "tanh", 1.0
        if call == "contiguous" and self.restrided():
            call = "clone"  # contiguous may return its input or not
        same = call == "contiguous"
        self.step(call, a, out=[self.new(self.shape[a], bound, a if same else None)])

    def operand(self, a: str, fits: bool, itself: bool = False) -> str | None:
        """A tensor that broadcasts with `a`; with `fits` one that `a` may take in place, in other memory or itself."""

        def test(b: str) -> bool:
            try:
                shape = np.broadcast_shapes(self.shape[a], self.shape[b])
            except ValueError:
                return False
            if fits:
                return shape == self.shape[a] and (self.memory[a] != self.memory[b] or (a == b and itself))
            return math.prod(shape) <= max(200, math.prod(self.shape[a]), math.prod(self.shape[b]))

        return self.some(test)

    def binary(self) -> None:
        a: Any = self.some()
        b: Any = self.operand(a, False)
        call = str(self.rng.choice(["add", "mul", "sub", "matmul"]))
        if call == "matmul":
            if len(self.shape[a]) != 2 or self.large:
                return
            b = self.some(lambda n: len(self.shape[n]) in (1, 2) and self.shape[n][0] == self.shape[a][1])
            if b is None:
                return
            bound = self.size(a) * self.size(b) * self.shape[a][1]
            shape = (self.shape[a][0], *self.shape[b][1:])
        else:
            bound = self.size(a) * self.size(b) if call == "mul" else self.size(a) + self.size(b)
            shape = np.broadcast_shapes(self.shape[a], self.shape[b])
        if bound > LIMIT:
            self.unary()
            return
        self.step(call, a, b, out=[self.new(shape, bound)])

    def view(self) -> None:
        """A view, often of a view."""
        rng = self.rng
        a: Any = self.some(lambda n: len(self.shape[n]) > 0)
        if a is None:
            return
        shape = self.shape[a]
        n = len(shape)
        d = int(rng.integers(n))
        size = shape[d]
        rest = shape[:d] + shape[d + 1 :]
        i = int(rng.integers(size))
        start, stop = sorted(int(v) for v in rng.integers(0, size + 1, 2))
        if start == stop:
            start, stop = 0, size
        options: list[tuple] = [
            ("select", (d, i), rest),
            ("narrow", (d, start, stop - start), (*shape[:d], stop - start, *shape[d + 1 :])),
            ("unsqueeze", (d,), (*shape[:d], 1, *shape[d:])),
            ("__getitem__", (i if d == 0 else -1,), shape[1:]),
            ("__getitem__", (slice(None, None, 2),), ((shape[0] + 1) // 2, *shape[1:])),
            ("flatten", (), (math.prod(shape),)),
            ("view_as", (Name(a),), shape),
        ]
        if n > 1:
            e = int(rng.integers(n))
            swapped = list(shape)
            swapped[d], swapped[e] = swapped[e], swapped[d]
            options += [
                ("transpose", (d, e), tuple(swapped)),
                ("reshape", ((-1, shape[-1]),), (math.prod(shape[:-1]), shape[-1])),
                ("reshape", ((shape[-1], -1),), (shape[-1], math.prod(shape[:-1]))),
                ("diagonal", (0, 0, 1), (*shape[2:], min(shape[:2]))),
                ("__getitem__", ((slice(None), 0),), (shape[0], *shape[2:])),
                ("permute", (tuple(range(n))[::-1],), shape[::-1]),
            ]
        if size == 1:
            options += [("squeeze", (d,), rest)] * 2
        if math.prod(shape) <= 60:
            options.append(("expand", ((2, *shape),), (2, *shape)))
        if size <= 4:
            options += [("unbind", (d,), [rest] * size)] * 2
        parts = [(size + 1) // 2, size // 2] if size > 1 else [1]
        options.append(("split", ((size + 1) // 2, d), [(*shape[:d], p, *shape[d + 1 :]) for p in parts]))
        call, args, shapes = options[int(rng.integers(len(options)))]
        shapes = shapes if isinstance(shapes, list) else [shapes]
        if call in ("flatten", "reshape") and self.restrided():
            self.frozen.add(self.memory[a])  # this may be a view or not
        self.step(call, a, *args, out=[self.new(s, 0.0, a) for s in shapes])

    def detach(self) -> None:
        a: Any = self.some()
        self.step("detach", a, out=[self.new(self.shape[a], 0.0, a)])

    def inplace(self) -> None:
        """Changes a tensor, more often one that is a view, sometimes a leaf (which must be refused)."""
        rng = self.rng
        views = rng.random() < 0.5
        a = self.some(lambda n: not views or list(self.memory.values()).count(self.memory[n]) > 1, quiet=True)
        if a is None or self.memory[a] in self.frozen or (a in list(self.shape)[:2] and rng.random() < 0.8):
            return
        call = INPLACE[int(rng.integers(len(INPLACE)))]
        grown, args = max(1.0, self.size(a)), []
        if call in ("mul_", "add_", "sub_", "copy_", "write_"):
            b = self.operand(a, True, call in ("mul_", "add_"))
            if b is None:
                return
            grown = {"mul_": self.size(a) * self.size(b), "copy_": self.size(b), "write_": self.size(b)}.get(
                call, self.size(a) + self.size(b)
            )
            args = [b]
            if call == "write_":
                call, args = "__setitem__", [Ellipsis, b]
        elif call == "__setitem__":
            if not self.shape[a]:
                return
            rest = self.shape[a][1:]
            b = self.some(lambda n: self.shape[n] == rest and self.memory[n] != self.memory[a])
            key: Any = int(rng.integers(self.shape[a][0]))
            if rng.random() < 0.3:
                if any(step.call == "expand" for step in self.steps):  # as for fill_
                    return
                key = list(rng.permutation(self.shape[a][0])[:2].tolist())
            elif rng.random() < 0.3:
                if any(step.call == "expand" for step in self.steps):  # as for fill_
                    return
                key, b = rng.random(self.shape[a]) < 0.4, None
            args = [key, 0.5 if b is None else b]
            grown = self.size(b) if b is not None else 1.0
        elif call == "masked_fill_":
            if any(step.call == "expand" for step in self.steps):  # as for fill_
                return
            args = [rng.random(self.shape[a]) < 0.4, 0.25]
        elif call in ("fill_", "zero_"):
            if any(
                step.call == "expand" for step in self.steps
            ):  # PyTorch alone lets these write to an expanded tensor
                return
            args = [0.75] if call == "fill_" else []
        elif call == "clamp_":
            args = [-0.9, 0.9]
        elif call in ("exp_", "square_"):
            grown = math.exp(min(self.size(a), 9)) if call == "exp_" else self.size(a) ** 2
        if grown > LIMIT:
            return
        self.bound[self.memory[a]] = max(grown, self.size(a))
        self.changed.add(self.memory[a])
        self.step(call, a, *args)

    def reduce(self) -> None:
        a: Any = self.some(lambda n: len(self.shape[n]) > 0 and self.size(n) * max(self.shape[n]) < 20 * LIMIT)
        if a is None:
            return
        d = int(self.rng.integers(len(self.shape[a])))
        shape = self.shape[a]
        keep = bool(self.rng.random() < 0.5)
        shape = (*shape[:d], *([1] if keep else []), *shape[d + 1 :])
        self.step("mean", a, d, keep, out=[self.new(shape, self.size(a))])

    def join(self) -> None:
        a: Any = self.some(lambda n: len(self.shape[n]) > 0)
        b = self.some(lambda n: self.shape[n] == self.shape.get(a))
        if b is None or self.large:
            return
        bound, shape = max(self.size(a), self.size(b)), self.shape[a]
        if self.rng.random() < 0.5:
            self.step("lib.cat", [Name(a), Name(b)], 0, out=[self.new((2 * shape[0], *shape[1:]), bound)])
        else:
            self.step("lib.stack", [Name(a), Name(b)], 0, out=[self.new((2, *shape), bound)])

    def where(self) -> None:
        a: Any = self.some()
        b: Any = self.some(lambda n: self.shape[n] == self.shape[a])
        mask = self.rng.random(self.shape[a]) < 0.5
        self.step("lib.where", np.asarray(mask), a, b, out=[self.new(self.shape[a], max(self.size(a), self.size(b)))])

    def hook(self) -> None:
        a: Any = self.some()
        if list(self.memory.values()).count(self.memory[a]) > 1:
            if self.memory[a] in self.changed:
                return
            self.frozen.add(self.memory[a])
        kinds = ["keep", "scale", "replace", "node", "before", "post", "all", "any"]
        kind = str(self.rng.choice(kinds, p=[0.3, 0.15, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05]))
        if self.breaking and self.rng.random() < 0.4:
            kind = "break"
        if kind == "post":
            a = next(iter(self.shape))  # the first leaf requires grad
        if kind not in ("all", "any"):
            self.step(f"hook.{kind}", a)
            return
        b = self.some(lambda n: list(self.memory.values()).count(self.memory[n]) == 1)
        if b is not None:
            self.step(f"hook.{kind}", [Name(a), Name(b)])

    def retain(self) -> None:
        self.step("retain_grad", self.some())

    def custom(self) -> None:
        a: Any = self.some()
        shape = self.shape[a]
        call = str(self.rng.choice(["Pair", "Lazy", "Second", "Double"]))
        if self.breaking and self.rng.random() < 0.5:
            call = "Breaks"
        if call in ("Pair", "Lazy"):
            self.step(f"fn.{call}", a, out=[self.new(shape, 1.0), self.new(shape, 2 * self.size(a))])
        elif call == "Second":
            b: Any = self.some(lambda n: self.shape[n] == shape)
            self.step("fn.Second", a, b, out=[self.new(shape, self.size(a) + self.size(b))])
        elif call == "Double":
            if self.size(a) * 2 < LIMIT and self.memory[a] not in self.frozen:
                self.bound[self.memory[a]] *= 2
                self.step("fn.Double", a, out=[self.new(shape, 0.0, a)])
        else:
            self.step("fn.Breaks", a, out=[self.new(shape, self.size(a))])


def functions(lib: Any) -> dict[str, Any]:
    """The custom functions of the programs."""

    class Pair(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.sin(), x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            (x,) = ctx.saved_tensors
            return a * x.cos() + b * 2

    class Lazy(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x.tanh(), x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return None if b is None else b * 2  # the first output passes no gradient

    class Second(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None, g

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Breaks(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise Broken("this formula breaks")

    return {f.__name__: f for f in (Pair, Lazy, Second, Double, Breaks)}


# -- running them ------------------------------------------------------------------------------------------------------


class Outcome:
    """What a run showed: errors by step, and arrays (or None) by what they are."""

    def __init__(self) -> None:
        self.errors: dict[Any, Exception] = {}
        self.values: dict[str, Any] = {}
        self.flags: dict[str, tuple] = {}
        self.grads: dict[str, Any] = {}


def leaves_of(program: Program) -> Iterator[tuple[str, np.ndarray, bool]]:
    """The arrays of the leaves."""
    rng = np.random.default_rng(program.seed + 1)
    for name, (shape, requires) in program.leaves.items():
        yield name, np.clip(rng.standard_normal(shape), -2, 2).reshape(shape), requires


def seed_of(program: Program, shape: tuple) -> np.ndarray:
    """The cotangent of a root."""
    return np.random.default_rng(program.seed + 2).standard_normal(shape).reshape(shape)


_functions: dict = {}


def without_hooks(program: Program, errors: Any) -> Program:
    """The program without hooks, retained gradients and the steps that raised: what is left has a functional twin."""
    steps = [
        step
        for i, step in enumerate(program.steps)
        if i not in errors and not step.call.startswith(("hook.", "retain"))
    ]
    leaves = [n for n, (_, requires) in program.leaves.items() if requires]
    ending = "twice" if program.ending == "again" else program.ending
    return program._replace(steps=steps, inputs=leaves, ending=ending)


def run(program: Program, lib: Any, twin: Any = None, **threads: int | None) -> Outcome:
    """Runs a program.  An error in a step is noted and what depends on it left out.  `twin`: see the module of that name."""
    found = Outcome()

    def make(array: np.ndarray) -> Any:
        return lib.from_numpy(np.array(array))

    if lib not in _functions:
        _functions[lib] = functions(lib)
    tensors: dict[str, Any] = {}
    for name, array, requires in leaves_of(program):
        t = make(array).requires_grad_() if requires else make(array)
        tensors[name] = t if twin is None else twin.Twin.of(t, t)
    kept: dict[str, Any] = {}
    for number, step in enumerate(program.steps):
        names = [n for a in step.args for n in (a if isinstance(a, list) else [a]) if isinstance(n, Name)]
        if any(n not in tensors for n in names):
            continue
        try:
            with lib.no_grad() if step.no_grad else contextlib.nullcontext():
                result = _perform(step, number, tensors, lib, make, kept, twin)
        except Exception as e:  # noqa: BLE001 (which errors come is what is compared)
            found.errors[number] = e
            continue
        if step.out:
            tensors.update(zip(step.out, result if isinstance(result, (tuple, list)) else [result], strict=True))
    if twin is not None:
        found.values = {n: np.array(t.now().detach().numpy()) for n, t in tensors.items() if n not in program.quiet}
        tensors = {n: t.leaf if t.leaf is not None and t.leaf.requires_grad else t.now() for n, t in tensors.items()}
    for name, t in tensors.items():
        if name in program.quiet:
            continue
        try:
            found.flags[name] = (t.requires_grad, t.is_leaf)
        except RuntimeError as e:
            found.errors[f"flags of {name}"] = e
        if twin is None:
            found.values[name] = np.array(t.detach().numpy())
    try:
        _finish(program, tensors, lib, make, found, threads)
    except Exception as e:  # noqa: BLE001
        found.errors[program.ending] = e
    retained = {step.args[0] for step in program.steps if step.call == "retain_grad"}
    for name, t in tensors.items():
        if name in program.leaves or name in retained or (program.ending == "inputs" and name in program.inputs):
            found.grads[f"{name}.grad"] = t.grad
    found.grads.update(kept)
    found.grads = {k: None if g is None else np.array(to_array(g)) for k, g in found.grads.items()}
    return found


def _perform(step: Step, number: int, tensors: dict, lib: Any, make: Callable, kept: dict, twin: Any) -> Any:
    def convert(a: Any) -> Any:
        if isinstance(a, Name):
            return tensors[a]
        if isinstance(a, list):
            return [convert(x) for x in a]
        return lib.from_numpy(np.array(a)) if isinstance(a, np.ndarray) else a

    args = [convert(a) for a in step.args]
    family, _, call = step.call.rpartition(".")
    if twin is not None and family == "lib":
        return twin.twins(getattr(lib, call)(*map(twin.plain, args)))
    if twin is not None and family == "fn":
        return args[0].apply_function(_functions[lib][call], *args[1:])
    if family == "lib":
        return getattr(lib, call)(*args)
    if family == "fn":
        return _functions[lib][call].apply(*args)
    if family == "hook":
        return _hook(call, args[0], number, lib, make, kept)
    if (
        call == "retain_grad"
    ):  # PyTorch 2.13 does nothing for a view whose base began to require grad unless it is asked
        _ = args[0].grad_fn
    return getattr(args[0], call)(*args[1:])


def _hook(kind: str, on: Any, number: int, lib: Any, make: Callable, kept: dict) -> Any:
    """Registers a hook; what hooks are given is kept."""
    factor = make(np.asarray(0.5))
    graph = lib.autograd.graph

    def keep(*given: Any) -> None:
        call = sum(k.split()[1] == str(number) and k.endswith(" 0") for k in kept)
        for i, g in enumerate(given):
            name = f"{'first' if kind == 'any' else 'hook'} {number} call {call} gradient {i}"
            kept[name] = g if g is None or lib is ferro else g.clone()  # PyTorch may add into g

    def fail(g: Any) -> None:
        raise Broken("this hook breaks")

    if kind in ("all", "any"):
        return graph.register_multi_grad_hook(on, lambda gs: keep(*(gs if kind == "all" else [gs])), mode=kind)
    node = (
        on.grad_fn
    )  # PyTorch 2.13 crashes in register_hook on a view whose base was changed unless it is asked for first
    if kind == "post":
        return on.register_post_accumulate_grad_hook(lambda t: keep(None if t.grad is None else t.grad.detach() * 1))
    if kind == "node":
        return node.register_hook(lambda gi, go: keep(*go))
    if kind == "before":
        return node.register_prehook(lambda go: tuple([None if g is None else g * factor for g in go]))
    found = {"keep": keep, "scale": lambda g: g * factor, "replace": lib.ones_like, "break": fail}
    return on.register_hook(found[kind])


def _finish(program: Program, tensors: dict, lib: Any, make: Callable, found: Outcome, threads: dict) -> None:
    """Asks for gradients."""
    roots = [tensors[n] for n in program.roots if n in tensors and tensors[n].requires_grad]
    inputs = [n for n in program.inputs if n in tensors and tensors[n].requires_grad]
    if not roots:
        return
    seeds = [make(seed_of(program, tuple(r.shape))) for r in roots]
    wanted = [tensors[n] for n in inputs]
    autograd = lib.autograd
    if program.ending in ("backward", "inputs"):
        chosen = {"inputs": wanted} if program.ending == "inputs" and wanted else {}
        autograd.backward(roots, seeds, **chosen, **threads)
    elif program.ending in ("twice", "again"):
        autograd.backward(roots, seeds, retain_graph=program.ending == "twice", **threads)
        autograd.backward(roots, seeds, **threads)
    elif program.ending == "grad" and wanted:
        found.grads.update(zip(inputs, autograd.grad(roots, wanted, seeds, allow_unused=True, **threads), strict=True))
    elif program.ending == "second" and wanted:
        first = autograd.grad(roots, wanted, seeds, create_graph=True, allow_unused=True, **threads)
        found.grads.update(zip(inputs, first, strict=True))
        again = [(g * g).sum() for g in first if g is not None and g.requires_grad]
        if again:
            second = autograd.grad(again, wanted, allow_unused=True, **threads)
            found.grads.update(zip([f"second {n}" for n in inputs], second, strict=True))
