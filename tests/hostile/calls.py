"""The calls that hostile cases spoil: every public function and method, with its declared samples or general arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import ferro
from ferro.core.samples import ENTRIES, Arg, Sample
from tests.helpers import lookup, rng_of

MODULES = ("", "nn.functional", "linalg", "special", "fft", "masked", "signal.windows")
# What changes the process for good, or stands for something else than a computation.
LEFT_OUT = {
    "set_num_threads",
    "set_default_dtype",
    "set_rng_state",
    "set_printoptions",
    "set_anomaly_enabled",
    "seed",
    "manual_seed",
    "Tensor.__class__",
    "Tensor.__new__",
    "Tensor.__init__",
    "Tensor.__init_subclass__",
    "Tensor.__subclasshook__",
    "Tensor.__setattr__",
    "Tensor.__delattr__",
    "Tensor.__getattribute__",
    "Tensor.__dir__",
}
# Arguments for what declares no samples: tensors of shape (2, 3) where an Arg stands.
GENERAL = [
    Sample(Arg(2, 3)),
    Sample(Arg(2, 3), Arg(2, 3)),
    Sample(Arg(2, 3), 1),
    Sample(Arg(2, 3), 0, 1),
    Sample(Arg(2, 3), (2, 3)),
]


class Call(NamedTuple):
    """A function by its path below ferro, and one sample of its arguments, in which an Arg stands for a tensor."""

    path: str
    function: Callable
    sample: Sample

    def arrays(self) -> list[np.ndarray]:
        """An array for each Arg; the same ones in every process."""
        rng = rng_of(self.path)
        return [place.array(rng, "float32") for place in places(self.sample)]

    def run(self, tensors: list) -> Any:
        """The result for these objects in the places of the Args."""
        left = iter(tensors)
        args = [filled(a, left) for a in self.sample.args]
        return self.function(*args, **{k: filled(v, left) for k, v in self.sample.kwargs.items()})


def places(sample: Sample) -> list[Arg]:
    """The Args of a sample, in order."""
    found: list[Arg] = []

    def walk(x: Any) -> None:
        if isinstance(x, Arg):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            for y in x:
                walk(y)

    for x in (*sample.args, *sample.kwargs.values()):
        walk(x)
    return found


def filled(x: Any, left: Iterator) -> Any:
    """An argument of a sample with what comes next in the places of its Args."""
    if isinstance(x, Arg):
        return next(left)
    if isinstance(x, (list, tuple)):
        return type(x)(filled(y, left) for y in x)
    return x


def paths() -> list[str]:
    """Every public function, and every method of Tensor, by its path below ferro."""
    found = []
    for module in MODULES:
        owner = lookup(ferro, module) if module else ferro
        names = getattr(owner, "__all__", None) or [n for n in dir(owner) if not n.startswith("_")]
        found += [f"{module}.{n}".lstrip(".") for n in names if _is_function(getattr(owner, n))]
    found += [f"Tensor.{n}" for n in dir(ferro.Tensor) if callable(getattr(ferro.Tensor, n, None))]
    return sorted({path for path in found if path not in LEFT_OUT})


def _is_function(thing: Any) -> bool:
    return callable(thing) and not isinstance(thing, type)


def calls(most: int, methods: bool = True) -> Iterator[Call]:
    """Calls of everything public, at most so many of each: samples of its own, of its namesake, or general ones.

    methods: also those methods that only hand on to a function of the same name, and names that are one function.
    """
    seen: set = set()
    functions = {path.rpartition(".")[2] for path in paths() if not path.startswith("Tensor.")}
    for path in paths():
        if not methods:
            function = lookup(ferro, path)
            if function in seen or (path.startswith("Tensor.") and path[7:] in functions):
                continue
            seen.add(function)
        samples = samples_of(path)
        # Those that differ in the number of tensors tell more than those that differ in their shapes.
        chosen: dict[tuple, Sample] = {}
        for k, sample in enumerate(samples):
            small = sum(a.shape.count(0) for a in places(sample))
            chosen.setdefault((small > 0, len(places(sample)), k if most > 3 else 0), sample)
        ordered = [chosen[key] for key in sorted(chosen)]
        for sample in ordered[:most]:
            yield Call(path, lookup(ferro, path), sample)


def samples_of(path: str) -> list[Sample]:
    """The samples that a public function is called with."""
    name = path.rpartition(".")[2]
    stems = [path, name, f"Tensor.{name}", f"nn.functional.{name}", f"special.{name}", f"linalg.{name}"]
    for stem in (*stems, *[s.rstrip("_") for s in stems], name.strip("_"), name.strip("_")[1:]):
        if stem in ENTRIES:
            return ENTRIES[stem].samples
    return GENERAL
