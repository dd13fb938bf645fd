"""What tests share: samples built as tensors of either library, outputs flattened, comparisons, other processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import ferro
from ferro.core.samples import ENTRIES, Arg, Entry, Sample
from ferro.cpu.elementwise import function_of
from ferro.elementwise import DECLARED

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = {
    "float64": (1e-9, 1e-10),
    "complex128": (1e-9, 1e-10),
    "float32": (2e-4, 2e-5),
    "float16": (2e-2, 2e-2),
    "bfloat16": (6e-2, 6e-2),
}


def of_arrays(name: str) -> Any:
    """The elementwise function of that name, on NumPy arrays."""
    return function_of(DECLARED[name])


def rng_of(path: str) -> np.random.Generator:
    """Random numbers that depend on the operation alone."""
    return np.random.default_rng(zlib.crc32(path.encode()))


def run_python(code: str, limit: int = 250, **environment: str) -> str:
    """What a program prints in a process of its own, which must end well, and say nothing else. Warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


def lookup(library: Any, path: str) -> Any:
    """The object at a dotted path below a library."""
    found = library
    for part in path.split("."):
        found = getattr(found, part)
    return found


class Call:
    """One sample as arguments of a library: `args`, `kwargs`, and the floating `inputs` among the tensors."""

    def __init__(
        self, entry: Entry, sample: Sample, library: Any, arrays: list, grad: bool, through: Any = None
    ) -> None:
        """`through`: what the inputs pass before the call (which then sees no leaves)."""
        self.entry, self.library, self.through = entry, library, through
        self.inputs: list = []
        self.tensors: list = []
        self._arrays = iter(arrays)
        self._grad = grad
        self.args = [self._convert(a) for a in sample.args]
        self.kwargs = {k: self._convert(v) for k, v in sample.kwargs.items()}

    def _convert(self, x: Any) -> Any:
        if isinstance(x, Arg):
            array = next(self._arrays)
            t = self._tensor(array)
            self.tensors.append(t)
            if x.grad and array.dtype.kind in "fc":
                if self._grad:
                    t.requires_grad_()
                self.inputs.append(t)
                if self.through is not None:
                    return self.through(t)
            return t
        if isinstance(x, (list, tuple)):
            return type(x)(self._convert(y) for y in x)
        if isinstance(x, ferro.dtype) and self.library is not ferro:
            return getattr(self.library, x.name)
        return x

    def _tensor(self, array: np.ndarray) -> Any:
        if self.library is ferro:
            return ferro.from_numpy(array)
        return self.library.from_numpy(np.ascontiguousarray(array).reshape(array.shape))

    def run(self) -> list:
        """The tensors that the call returns, flattened."""
        function = lookup(self.library, self.entry.path)
        args = list(self.args)
        if self.entry.path.startswith("Tensor.") and self.entry.path.endswith("_") and self._grad:
            args[0] = args[0].clone()  # in-place methods do not take leaves
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flatten(function(*args, **self.kwargs))


def arrays_of(sample: Sample, rng: np.random.Generator, dtype: str) -> list:
    """The arrays of a sample, in the order in which its arguments name them."""
    found: list = []

    def walk(x: Any) -> None:
        if isinstance(x, Arg):
            found.append(x.array(rng, dtype))
        elif isinstance(x, (list, tuple)):
            for y in x:
                walk(y)

    for a in sample.args:
        walk(a)
    for v in sample.kwargs.values():
        walk(v)
    return found


def flatten(result: Any) -> list:
    """All tensors (and numbers) in a result."""
    if isinstance(result, (list, tuple)) and type(result).__name__ != "Size":
        return [leaf for r in result for leaf in flatten(r)]
    return [result]


def to_array(x: Any) -> Any:
    """The values of a tensor of either library as NumPy (16-bit floats widened)."""
    if isinstance(x, (bool, int, float, complex, str)) or x is None:
        return x
    x = x.detach()
    if dtype_name(x) in ("bfloat16", "float16"):
        x = x.float()
    if isinstance(x, ferro.Tensor):
        return np.asarray(x.numpy())
    return np.asarray(x.resolve_conj().resolve_neg().numpy(force=True))  # (force: torch's lazy zeros are made real)


def dtype_name(x: Any) -> str:
    """The dtype without the library's name."""
    return str(x.dtype).rsplit(".", 1)[-1] if hasattr(x, "dtype") else type(x).__name__


def compare(got: Any, want: Any, dtype: str, what: str, scale: float = 1.0) -> None:
    """Asserts that two arrays agree within the tolerance of a dtype, relative to the largest value too."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if want.size == 0:
        return
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    rtol, atol = TOLERANCE[dtype]
    finite = np.abs(want[np.isfinite(want)])
    atol = max(atol, rtol * float(finite.max())) if finite.size else atol
    np.testing.assert_allclose(got, want, rtol=rtol * scale, atol=atol * scale, equal_nan=True, err_msg=what)


def entries() -> list[Entry]:
    """All declarations, in alphabetical order of their paths."""
    return [ENTRIES[path] for path in sorted(ENTRIES)]


def cotangents(outputs: list, rng: np.random.Generator) -> list:
    """A random array for every output that requires grad, None for the others."""
    found: list = []
    for out in outputs:
        if not getattr(out, "requires_grad", False):
            found.append(None)
            continue
        v = rng.standard_normal(tuple(out.shape))
        if dtype_name(out).startswith("complex"):
            v = v + 1j * rng.standard_normal(tuple(out.shape))
        found.append(v.astype(dtype_name(out)) if dtype_name(out) != "bfloat16" else v.astype("float32"))
    return found


def pullback(call: Call, outputs: list, vectors: list, create_graph: bool = False) -> list:
    """The gradients of a call's inputs for the given cotangents (None where the outputs do not depend on one)."""
    library = call.library
    pairs = [(o, library.from_numpy(np.array(v))) for o, v in zip(outputs, vectors, strict=True) if v is not None]
    if not pairs or not call.inputs:
        return [None] * len(call.inputs)
    return list(
        library.autograd.grad(
            [o for o, _ in pairs], call.inputs, [v for _, v in pairs], create_graph=create_graph, allow_unused=True
        )
    )


def outcome(make: Any, library: Any) -> tuple:
    """What a call gives: dtype, shape and values, or the class of its error and the error's words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = make(library)
        except (RuntimeError, TypeError, ValueError, IndexError) as e:
            return type(e).__name__, str(e).split("\nException")[0].strip()
    made = made.detach()
    return str(made.dtype).split(".")[1], tuple(made.shape), made.tolist()


def agree(make: Any) -> None:
    """Asserts that make(ferro) gives what make(torch) gives, or refuses it with the same type of error and PyTorch's words."""
    import torch

    got, want = outcome(make, ferro), outcome(make, torch)
    if len(want) == 3:
        assert got == want
    else:
        assert got[0] == want[0]
        assert _words(want[1]) in _words(got[1])


def _words(message: str) -> str:
    return re.sub(r"\s+", " ", message).replace("torch.", "").replace("ferro.", "").rstrip(". ")
