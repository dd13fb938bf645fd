"""The array functions of a GPU, by the names of `ferro.cpu`: the `xp` of formulas where arrays are CuPy's.

A name is looked for in this order: the functions of own files, the twins of the CPU's formulas (twins.py), and a refusal by name.
"""

from __future__ import annotations

from typing import Any

from ferro import cpu, xp
from ferro.core import backend
from ferro.core.owners import UNSHARED
from ferro.cpu import shape
from ferro.cuda import kernels, layouts, order, own, own_images, own_linalg, own_sparse, own_variance, pinned, pool
from ferro.cuda.by_hand import (
    attention,
    batch_norms,
    convolution,
    extremes,
    gates,
    gathers,
    indexing,
    losses,
    norms,
    optimisers,
    pooling,
    reductions,
    softmax,
    stepping,
)
from ferro.cuda.driver import cupy
from ferro.cuda.generator import CudaGenerator
from ferro.cuda.missing import elsewhere, named
from ferro.cuda.numpy_by_cupy import numpy
from ferro.cuda.philox import Philox
from ferro.cuda.twins import INSTEAD, twin
from ferro.cuda.waiting import waits
from ferro.native.entries import fallback

# Modules of `ferro.cpu` whose functions have twins; the others call what only a processor has.
TWINS = frozenset(
    [
        "activations",
        "attention",
        "blocks",
        "convolution",
        "ctc",
        "determinants",
        "elementwise",
        "embedding",
        "grids",
        "half",
        "indexing",
        "interpolation",
        "joining",
        "losses",
        "masks",
        "mean_pooling",
        "normalisation",
        "norms",
        "order",
        "pointwise",
        "pooling",
        "powers",
        "products",
        "quotients",
        "recurrent",
        "reductions",
        "scans",
        "shape",
        "softmax",
        "special",
        "steps",
        "structure",
    ]
)
# Functions of these modules that go beyond what CuPy has, each with what it would need.
REFUSED = frozenset(
    [
        "airy_ai",
        "airy_ai_prime",
        "bessel_i_of_order",
        "bessel_ie_of_order",
        "bessel_j_of_order",
        "chebyshev_polynomial_t",
        "ctc_fwd",
        "ctc_occupancy",
        "ctc_vjp",
        "gegenbauer",
        "gegenbauer_pair",
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre",
        "spherical_j_of_order",
    ]
)
# Functions of other modules that are formulas of those above.
ALLOWED = frozenset(
    [
        "count_above",
        "geqrf",
        "householder_product",
        "lstsq",
        "matrix_exp",
        "nuclear_norm",
        "ormqr",
        "polar_factor",
        "pseudo_inverse",
    ]
)


class Functions:
    """The namespace; see the first lines of this file."""

    device, index, library = "cuda", 0, numpy

    @staticmethod
    def from_host(array: Any) -> Any:
        """A copy of a NumPy array on the GPU, in the same order of dimensions."""
        return order.same_order(cupy().asarray, array)

    @staticmethod
    def moved(array: Any, strides: tuple) -> Any:
        """The array if its elements lie by these strides (in bytes), else a copy."""
        return order.moved(array, strides)

    address, by_element = staticmethod(layouts.address), staticmethod(order.by_element)
    is_pinned = staticmethod(pinned.is_pinned)

    @staticmethod
    def pinned(array: Any) -> Any:
        """A copy of a NumPy array in pinned memory, in the same order of dimensions; itself if it lies there."""
        return array if pinned.is_pinned(array) else order.same_order(pinned.pinned, array)

    @staticmethod
    def from_pinned(array: Any) -> Any:
        """A copy of a NumPy array on the GPU, in the same order of dimensions, which nobody waits for if the array is pinned."""
        return order.same_order(pinned.from_pinned, array)

    @staticmethod
    def is_recording() -> bool:
        """Whether work is recorded into a graph, so that no number can be looked at."""
        return bool(cupy().cuda.get_current_stream().is_capturing())

    asked = staticmethod(waits)

    @staticmethod
    def to_host(array: Any) -> Any:
        """A copy of an array of the GPU in NumPy's, in the same order of dimensions."""
        waits("a copy to the CPU")
        return order.same_order(lambda given: given.get(), array)

    @staticmethod
    def from_dlpack(array: Any, copy: bool | None) -> Any:
        """The array of another library, or in a capsule, in its memory."""
        asked = {"copy": False} if copy is False and hasattr(array, "__dlpack_device__") else {}
        found = cupy().from_dlpack(array, **asked)
        return layouts.copied(found) if copy else found  # (CuPy makes no copies of memory of a GPU)

    @staticmethod
    def from_interface(array: Any) -> Any:
        """The same of an array with ``__cuda_array_interface__``."""
        return cupy().asarray(array)

    def whole(self, op: Any) -> Any:
        """The function that computes an operation; None for its forward function."""
        return order.whole(op, self)

    @staticmethod
    def record_stream(tensor: Any, stream: Any) -> None:
        """Lets the memory of a tensor live until a stream has done what it was given before the tensor died."""
        pool.used_in(tensor, stream._stream)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *OWN, *[name for name in dir(cpu) if not name.startswith("_")]} - LEFT)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (name not in OWN and (not hasattr(cpu, name) or name in LEFT)):
            raise AttributeError(name)
        found = _made(name)
        setattr(self, name, found)
        return found


_BY_HAND = (
    attention,
    batch_norms,
    convolution,
    extremes,
    gathers,
    indexing,
    losses,
    norms,
    optimisers,
    pooling,
    softmax,
    stepping,
)
OWN: dict[str, Any] = {
    name: getattr(module, name)
    for module in (own, own_images, own_linalg, own_sparse, own_variance, kernels, *_BY_HAND)
    for name in module.__all__
} | {"vector_norm": reductions.vector_norm}
# General forms, of steps that are functions here: better than the CPU's formulas, which begin with a look at the numbers.
LEFT = frozenset(form.__name__ for form in xp.FORMS) - frozenset(OWN)


def state(name: str) -> str:
    """How a function of `ferro.cpu` is computed on a GPU: "own", "general", "twin" or "absent"."""
    if name in OWN:
        return "own"
    if name in LEFT:
        return "general"
    module = str(getattr(fallback(getattr(cpu, name)), "__module__", ""))
    known = module == "numpy" or (
        module.startswith("ferro.cpu.") and module.removeprefix("ferro.cpu.").partition(".")[0] in TWINS
    )
    known |= module in ("ferro.cpu.kernels.strided_copy", "_operator")
    known |= name in ALLOWED
    return "twin" if known and name not in REFUSED else "absent"


def _made(name: str) -> Any:
    if name in OWN:
        return named(name, OWN[name])
    if state(name) == "absent":
        return elsewhere(name)
    given = getattr(cpu, name)
    return given if name == "slice_get" else named(name, twin(given))


for _name, _function in OWN.items():
    _given = fallback(getattr(cpu, _name, None))
    INSTEAD[f"{getattr(_given, '__module__', '')}.{getattr(_given, '__qualname__', _name)}"] = _function
INSTEAD["ferro.cpu.indexing._places"], INSTEAD["ferro.cpu.indexing._mesh"] = own.places, own.mesh
INSTEAD["ferro.cpu.linalg_spectral.threshold"] = own_linalg.threshold
INSTEAD["ferro.cpu.kernels.recurrent.function"] = gates.function
CudaGenerator.make = staticmethod(Philox)
functions = Functions()
layouts.MODULES["ferro.cpu"] = functions


def register() -> None:
    """Makes tensors on a device "cuda" possible; RuntimeError with what is missing."""
    array = cupy().ndarray
    if backend.module_of(array) is not None:
        return
    pool.install()
    named_so = (layouts.geometry, layouts.storage_bytes, layouts.memory_of, layouts.memory_bytes, layouts.over)
    shape.GEOMETRIES[array] = shape.Places(*named_so)
    UNSHARED[array] = layouts.is_unshared
    backend.register(array, functions)
