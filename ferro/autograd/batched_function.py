"""Custom Functions under vmap: the user's `vmap` staticmethod is called with the tensors of all slices."""

from __future__ import annotations

from typing import Any, NamedTuple

from ferro.batched.array import levels_of
from ferro.batched.levels import RUNNING, Level, running_outside
from ferro.core.base import LEAF, TensorBase
from ferro.core.history import history
from ferro.core.node import OutputRef
from ferro.core.tangents import tangents_of
from ferro.core.trees import flatten, spread, unflatten

SEE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a `vmap` staticmethod is told: the size of the batch, and how random functions draw."""

    batch_size: int
    randomness: str


def level_of(leaves: list) -> Level | None:
    """The innermost level of vmap among tensors."""
    found: Level | None = None
    for x in leaves:
        if isinstance(x, TensorBase):
            for level in levels_of(x._data)[:1]:
                if found is None or level.number > found.number:
                    found = level
    return found


def by_staticmethod(cls: Any, args: tuple, kwargs: dict) -> Any:
    """What ``cls.vmap`` gives for batched arguments; NotImplemented if there are none, or forward itself is to be batched."""
    leaves, structure = flatten(args)
    level = level_of(leaves)
    if any(isinstance(v, TensorBase) for v in kwargs.values()) and RUNNING.get():
        raise NotImplementedError(
            f"{cls.__name__}: Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only "
            f"Tensors to autograd.Function. Got: {sorted(kwargs)}"
        )
    if level is None or not level.transform:
        return NotImplemented
    own = getattr(cls, "vmap", None)
    if cls.generate_vmap_rule:
        if own is not None and own is not cls._no_vmap:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
                f"staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. "
                f"{SEE}"
            )
        return NotImplemented
    if own is None or own is cls._no_vmap:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True. {SEE}"
        )
    physical, dims = zip(*[_taken(x, level) for x in leaves], strict=True)
    with running_outside(level):
        result = own(
            VmapInfo(level.size, level.randomness),
            unflatten(structure, dims),
            *unflatten(structure, physical),
            **kwargs,
        )
    return _returned(cls.__name__, result, level)


def _taken(x: Any, level: Level) -> tuple:
    """An argument as the staticmethod gets it, and the dimension of its slices (None if it is the same for all)."""
    from ferro.core import batching

    if not isinstance(x, TensorBase):
        return x, None
    if level not in levels_of(x._data):
        if _differentiated_inside(x, level):  # each slice has its own gradient
            return batching.leave(x, level, 0), 0
        return x, None
    dim = batching.dim_of(x, level)
    return batching.leave(x, level, dim), dim


def _differentiated_inside(x: Any, level: Level) -> bool:
    """Whether a derivative by a tensor without slices was begun within the function of `level`."""
    node = history(x)
    if tangents_of(x):
        return True
    if node is None or node is LEAF:
        return False
    return (node.node if isinstance(node, OutputRef) else node).seq >= level.begin


def _returned(name: str, result: Any, level: Level) -> Any:
    """The outputs of a staticmethod as tensors of the level."""
    from ferro.core import batching

    wrong = (
        f"{name}: Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
        "output. "
    )
    if not isinstance(result, tuple):
        raise RuntimeError(f"{wrong}Got a {type(result)} instead")
    if len(result) != 2:
        raise RuntimeError(f"{wrong}Got {len(result)} returns instead")
    output, out_dims = result
    leaves, structure = flatten(output)
    dims = spread(out_dims, structure)
    if dims is None:
        raise RuntimeError(
            f"The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure {flatten(out_dims)[1]} but "
            f"output has structure {structure}. ({name}) {SEE}"
        )
    entered = [
        o if d is None or not isinstance(o, TensorBase) else batching.enter(o, level, d % max(o._data.ndim, 1))
        for o, d in zip(leaves, dims, strict=True)
    ]
    return unflatten(structure, entered)
