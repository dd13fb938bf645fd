"""Where a transform begins and ends: the arguments it follows, and results that keep only the history of other transforms.

Note [Transforms on one tape]
All transforms record on the same tape.  An argument that one of them differentiates by is replaced by a view of a leaf
that the transform made (`Own`), or, where the argument has a history already (of a transform outside, or because the
user asked for gradients), by a view of the argument itself.  So a derivative by an argument never counts another way to
the same tensor.  When a transform ends, its results keep their history only if it leads to something other than leaves
of transforms that have ended: otherwise, seen from outside, they are constants.  Forward mode needs none of this:
tangents carry their level with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro._overriding import disabled
from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, meta_of, version_of, view_of, wrap
from ferro.core.dtypes import COMPLEX, INEXACT, from_numpy
from ferro.core.history import history, position
from ferro.core.node import OutputRef
from ferro.core.tangents import tangents_of
from ferro.core.transforms import inside
from ferro.core.trees import flatten
from ferro.tensor import Tensor


def zeros_like(t: Any) -> Any:
    """Zeros in the shape and dtype of a tensor."""
    return wrap(backend.beside(t._data, np.zeros(t._data.shape, t._data.dtype)))


class Transform:
    """Context manager: the function of a transform runs inside, recorded whatever the modes outside."""

    def __init__(self, name: str, function: Any = None, hooks: bool = False) -> None:
        self.inside = inside(name, hooks, function)

    def __enter__(self) -> Transform:
        self.inside.__enter__()
        self.open = True
        self.mode = _mode.switched(grad=True, inference=False)
        self.mode.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.mode.__exit__(*exc)
        self.open = False
        self.inside.__exit__(*exc)

    def leaf(self, data: Any) -> Any:
        """A leaf of this transform."""
        t: Any = wrap(data, LEAF, Own)
        t.transform = self
        return t

    def follow(self, x: Any) -> Any:
        """What stands for the argument `x` inside: a tensor with the same data that requires grad."""
        if not isinstance(x, TensorBase):
            raise ValueError(
                f"the arguments to differentiate by must be tensors, got {type(x).__name__}; choose others with argnums"
            )
        if x._data.dtype not in INEXACT:
            raise RuntimeError(
                f"only Tensors of floating point or complex dtype can require gradients, got "
                f"{from_numpy(x._data.dtype)}"
            )
        base = self.leaf(x._data)
        if x._counter is None or not x._counter.inference:
            base._counter = version_of(x)
        tangents = tangents_of(x)
        with _mode.switched(level=0):
            t = backend.functional.reshape(base if history(x) is None else x, x._data.shape)
        # To the in-place rules it is a view of a leaf: a transform's argument must not be overwritten.
        meta = meta_of(t)
        meta.view = view_of(base, (), version_of(base).n, None)
        meta.tangents = dict(tangents) or None
        return t


class Own(Tensor):
    """A leaf that a transform made; nobody but the tape sees it."""

    __slots__ = ("transform",)
    __torch_function__ = disabled

    transform: Transform


class Foreign:
    """Tells whether the history of tensors leads to anything but leaves of transforms that have ended."""

    def __init__(self) -> None:
        self.clean: set[int] = set()  # nodes known to lead to nothing else

    def __call__(self, t: Any) -> bool:
        start = position(t)
        if start is None:
            return False
        seen: dict[int, Any] = {}
        todo = [start.node if isinstance(start, OutputRef) else start]
        while todo:
            n = todo.pop()
            if isinstance(n, TensorBase):
                if not isinstance(n, Own) or n.transform.open:
                    return True
                continue
            for edge in n.edges:
                e = edge.node if isinstance(edge, OutputRef) else edge
                if e is not None and id(e) not in seen and id(e) not in self.clean:
                    seen[id(e)] = e
                    todo.append(e)
        self.clean.update(seen)
        return False


def settled(t: Any, foreign: Foreign, recording: bool = True) -> Any:
    """A result as the world outside of a transform sees it."""
    if not isinstance(t, TensorBase):
        return t
    tangents = tangents_of(t)
    keeps = recording and (history(t) is None or foreign(t))
    inner = {k: settled(v, foreign, recording) for k, v in tangents.items()}
    if (keeps or history(t) is None) and all(inner[k] is v for k, v in tangents.items()):
        return t
    plain = wrap(t._data, t._node if keeps else None)
    plain._counter = version_of(t)
    if keeps and t._meta is not None:
        meta_of(plain).view = t._meta.view
    if inner:
        meta_of(plain).tangents = inner
    return plain


def recorded(roots: list) -> bool:
    """Whether a backward from `roots` must be recorded for the sake of what is outside of the transform."""
    if not _mode.is_grad_enabled():
        return False
    foreign = Foreign()
    return _mode.current().level > 0 or any(foreign(r) for r in roots)


def only_real(name: str, tree: Any, what: str) -> None:
    """RuntimeError if a tree holds complex tensors."""
    for i, x in enumerate(flatten(tree)[0]):
        if isinstance(x, TensorBase) and x._data.dtype in COMPLEX:
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {i} "
                f"({from_numpy(x._data.dtype)})"
            )


def pair(name: str, result: Any) -> Any:
    """What a function with has_aux returned: (output, aux)."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result).__name__}"
        )
    for x in flatten(result[1])[0]:
        if not isinstance(x, TensorBase):
            raise RuntimeError(f"{name}: Expected tensors, got unsupported type {type(x)} in aux")
    return result


def outputs_of(name: str, result: Any) -> tuple:
    """The leaves and the structure of a function's result, which must all be tensors and at least one."""
    leaves, structure = flatten(result)
    if not leaves or (len(leaves) == 1 and leaves[0] is None):
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {result})")
    for o in leaves:
        if not isinstance(o, TensorBase):
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(o)}")
    return leaves, structure


def chosen(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions that `argnums` names among `count` arguments."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for n in numbers:
        if isinstance(argnums, tuple) and not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
    if not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
    if len({n % count for n in numbers}) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([n % count for n in numbers])
