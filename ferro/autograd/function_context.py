"""The context of a custom function: what its forward leaves for its backward."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ferro.core import mode as _mode
from ferro.core.base import TensorBase, meta_of, version_of, wrap
from ferro.core.graph_task import current_run
from ferro.core.node import Freed, FreedError, OutputRef
from ferro.core.packing import address
from ferro.core.saved import check_registration, freed
from ferro.core.saved_values import Packed, modified
from ferro.core.tangents import tangents_of


class FunctionCtx:
    """What forward leaves for backward.  Any attribute may be set on it."""

    saved: Any
    needs_input_grad: tuple[bool, ...]
    _to_save: tuple
    _for_forward: tuple
    _dirty: tuple
    _nondiff: tuple
    materialize_grads: bool
    _near: Any = None  # an array where the outputs lie, if that is no memory of the processor's
    _materialize_non_diff_grads: bool  # whether absent cotangents of outputs without a derivative come as zeros, too

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps inputs, outputs or other tensors (or None) for backward, where they are ``ctx.saved_tensors``."""
        for t in tensors:
            if t is not None and not isinstance(t, TensorBase):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}; "
                    "keep other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for jvp."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Says which inputs forward has changed in place; they must be returned."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Says which outputs have no derivative."""
        self._nondiff = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether absent cotangents come as zeros (True, the default) or None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        """The tensors given to save_for_backward, after checking that none was changed in place since."""
        saved = self.saved
        if type(saved) is Freed:
            raise (RuntimeError(freed(self)) if current_run() is None else FreedError)  # type: ignore[arg-type]
        if saved is None:  # still within forward, or nothing recorded
            return self._to_save or self._for_forward
        return tuple([entry() for entry in saved])


class _Saved:
    """One saved tensor: an input or another tensor by itself, an output as its array (its tensor would hold the node)."""

    __slots__ = ("expected", "index", "node", "packed", "tensor", "version")

    def __init__(self, t: Any, node: Any, index: int | None) -> None:
        import weakref

        self.version = version_of(t) if t is not None else None
        if self.version is not None and self.version.inference:
            raise RuntimeError(
                f"{type(node)._forward_cls.__name__}: Inference tensors cannot be saved for backward. To work around you can make "
                "a clone to get a normal tensor and use it in autograd."
            )
        self.expected = self.version.n if self.version is not None else 0
        self.index = index
        self.node = weakref.ref(node)
        self.packed: Packed | None = None
        pack = _mode.current().pack
        self.tensor = t if index is None or t is None else t._data
        if t is not None and pack:
            self._pack(t, *pack[-1])

    def _pack(self, t: Any, pack: Callable, unpack: Callable) -> None:
        """Hands the tensor to a pair of hooks."""
        with _mode.switched(grad=False, pack=()):
            # an output belongs to the node, which must not hold itself: the hook sees it without history, _result adds that
            given = t if self.index is None else wrap(t._data)
            if self.index is not None and getattr(pack, "keeps_guards", False):
                given._counter = self.version
            before = version_of(given).n
            self.packed = Packed(pack(given), unpack, address(t) if self.index is None else None, tangents_of(t))
        if given._counter.n != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be "
                "modified by in-place operations."
            )
        self.tensor = None

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Keeps ``pack_hook(tensor)`` from now on instead of the tensor, which ``unpack_hook`` gives back when it is needed."""
        check_registration(self.node(), self.packed or self.tensor, pack_hook, unpack_hook)
        self._pack(self(), pack_hook, unpack_hook)

    def __call__(self) -> Any:
        if self.packed is not None:
            t: Any = self.packed.tensor()
            return t if self.index is None else self._result(t._data)
        if self.tensor is None:
            return None
        node: Any = self.node()
        if self.version is not None and self.version.n != self.expected:
            shape = self.tensor.shape
            modified(node, self.version, self.expected, shape)
        if self.index is None:
            return self.tensor
        t = self._result(self.tensor)
        t._counter = self.version
        return t

    def _result(self, data: Any) -> Any:
        """A saved output with its history and, in forward mode, its tangents."""
        node: Any = self.node()
        out = node.outputs[self.index]
        t = wrap(data, None if out is None else OutputRef(node, self.index, *out))  # type: ignore[arg-type]
        if node.meta is not None and node.meta.tangents is not None:
            meta_of(t).tangents = node.meta.tangents.get(self.index)
        return t


def _bound(cls: Any, args: tuple, kwargs: dict) -> tuple:
    """The arguments of forward with its defaults and keywords in their places."""
    code = getattr(cls.forward, "__code__", None)
    if not kwargs and code is not None and len(args) == code.co_argcount and not code.co_kwonlyargcount:
        return args
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args
