"""What autograd knows of a tensor, as attributes and methods of Tensor: gradients, history, hooks, detaching."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.batched.array import levels_of
from ferro.core import backend, dtypes
from ferro.core.base import LEAF, Leaf, Meta, TensorBase, is_inference, lose, meta_of, root, version_of, wrap
from ferro.core.captures import CAPTURES, capturing
from ferro.core.history import history
from ferro.core.inplace import retain
from ferro.core.mode import is_inference_mode_enabled
from ferro.core.node import Handle, OutputRef, hooks_of, table
from ferro.core.shown import Node, shown
from ferro.core.transforms import refuse_inside

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class AutogradMethods:
    """Methods of Tensor."""

    __slots__ = ()

    @property
    def requires_grad(self: Any) -> bool:
        """Whether operations on the tensor are recorded; can be set on leaves.

        True also, as in PyTorch, for a view of a tensor that requires grad which was made under no_grad (or before the
        tensor required grad): such a view has no history, and no gradient flows through it.
        """
        if history(self) is not None:
            return True
        m: Meta | None = self._meta
        if m is None or m.view is None or self._data.dtype not in dtypes.INEXACT:
            return False
        base = root(m.view)
        if base._node is None or base._counter is not self._counter:  # without history, or it has moved to other memory
            return False
        return all(op.diff for op, _, _ in m.view.steps)

    @requires_grad.setter
    def requires_grad(self: Any, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}")
        if value and not self.is_leaf:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        if value and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients, got {self.dtype}"
            )
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self: Any) -> None:
        raise RuntimeError("requires_grad must be a bool; it cannot be deleted")

    def requires_grad_(self: Any, requires_grad: bool = True) -> Tensor:
        """Starts (or, False, stops) recording operations on this leaf; returns the tensor."""
        refuse_inside("Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs)", "requires_grad_()")
        return self._as_leaf(requires_grad, "floating point")

    def _as_leaf(self: Any, requires_grad: bool, kinds: str = "floating point and complex") -> Any:
        """requires_grad_ for ferro's own use, also inside of transforms."""
        node = history(self)
        if isinstance(node, Leaf) or node is None:
            if requires_grad and self._data.dtype not in dtypes.INEXACT:
                raise RuntimeError(f"only Tensors of {kinds} dtype can require gradients, got {self.dtype}")
            if requires_grad and node is None and is_inference(self) and not is_inference_mode_enabled():
                raise RuntimeError(
                    "requires_grad_: Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; "
                    "clone() it to get a normal tensor"
                )
            if CAPTURES and (capture := capturing()) is not None:
                capture.requires_grad_set(self, requires_grad)
            self._node = LEAF if requires_grad else None
        elif not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        return self

    @property
    def is_leaf(self: Any) -> bool:
        """Whether the tensor was made by the user rather than recorded as the result of an operation."""
        node = history(self)
        return node is None or node is LEAF

    @property
    def grad_fn(self: Any) -> Node | None:
        """The node of the tape that computes the gradients of the tensor's inputs; None for a leaf."""
        node = history(self)
        if node is None or node is LEAF:
            return None
        return shown(node.node if isinstance(node, OutputRef) else node)

    @property
    def output_nr(self: Any) -> int:
        """Which output of its ``grad_fn`` the tensor is."""
        return self._node.index if isinstance(history(self), OutputRef) else 0

    @property
    def grad(self: Any) -> Tensor | None:
        """The gradient accumulated by backward(); None before the first, and (with a warning) for what is not a leaf."""
        m = self._meta
        if (
            (m is None or m.grad is None)
            and self._node is not None
            and self._node is not LEAF
            and not (m and m.retains)
        ):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
                "during backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() "
                "on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        if CAPTURES and (capture := capturing()) is not None:
            capture.grad_read(self)
        return None if m is None else m.grad

    @grad.setter
    def grad(self: Any, value: Tensor | None) -> None:
        if value is None:
            if CAPTURES and (capture := capturing()) is not None:
                capture.grad_set(self, None)
            if self._meta is not None and self._meta.grad is not None:
                self._meta.grad = None
            return
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        own, given = self._data, value if value.is_sparse else value._data
        if given.shape != own.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: attempting to assign a gradient of size {list(given.shape)} "
                f"to a tensor of size {list(own.shape)}"
            )
        if given.dtype is not own.dtype and value.dtype is not self.dtype:
            raise RuntimeError(f"assigned grad has data of a different type: {value.dtype} instead of {self.dtype}")
        if CAPTURES and (capture := capturing()) is not None:
            capture.grad_set(self, value)
        meta_of(self).grad = value

    @grad.deleter
    def grad(self: Any) -> None:
        self.grad = None

    _grad = grad  # PyTorch's other name of it, which programs set

    def backward(
        self: Any,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        num_threads: int | None = None,
    ) -> None:
        """Adds the gradient of this tensor to the ``.grad`` of the leaves: see :func:`ferro.autograd.backward`.

        - `self` (Tensor): mostly of one element
        - `gradient` (Tensor, default None): the cotangent, in the shape of the tensor; needed unless the tensor has one
          element
        - `retain_graph` (bool, default None): keeps the saved values for another backward; None: as `create_graph`
        - `create_graph` (bool, default False): records the gradients, for derivatives of them
        - `inputs` (sequence of Tensors, default None): only these get gradients; None: all leaves
        - `num_threads` (int, default None): how many threads share the work; None: as set by `set_num_threads`

        RuntimeError if nothing was recorded, or if the graph was freed by an earlier backward; the message names the
        lines.

        Example::

            >>> import ferro
            >>> w = ferro.tensor([1.0, 2.0], requires_grad=True)
            >>> (w**2).sum().backward()
            >>> w.grad
            tensor([2., 4.])
        """
        backend.backward(self, gradient, retain_graph, create_graph, inputs=inputs, num_threads=num_threads)

    def module_load(self: Any, other: Tensor, assign: bool = False) -> Tensor:
        """What `Module.load_state_dict` puts in the place of this tensor when it swaps (`ferro.__future__`).

        A copy of `other` in this tensor, or with `assign` `other` itself, detached.  Subclasses may define it.
        """
        return other.detach() if assign else self.copy_(other).detach()

    def detach(self: Any) -> Tensor:
        """A tensor that shares the data (and the version counter) but no history.

        Example::

            >>> import ferro
            >>> x = ferro.ones(2, requires_grad=True)
            >>> y = (x * 2).detach()
            >>> y.requires_grad
            False
        """
        t = wrap(self._data)
        t._counter = version_of(self)
        if self._node is not None:
            lose(t, self, "detach()")
        elif self._meta is not None:
            t._meta = self._meta.detached
        return t

    def detach_(self: Any) -> Tensor:
        """Cuts the tensor off from its history; refused for views."""
        if self._meta is not None and self._meta.view is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if self._node is not None:
            lose(self, self, "detach_()")
        if CAPTURES and (capture := capturing()) is not None:
            capture.requires_grad_set(self, None)
        self._node = None
        if self._meta is not None and self._meta.tangents:
            self._meta.tangents = None
        return self

    @property
    def data(self: Any) -> Tensor:
        """A tensor that shares the data, but neither history nor version counter."""
        if levels_of(self._data):
            raise RuntimeError("accessing `data` under vmap transform is not allowed (use detach())")
        t = wrap(self._data)
        if self._node is not None:
            lose(t, self, ".data")
        if is_inference(self):
            t._counter = self._counter
        return t

    @data.setter
    def data(self: Any, value: Tensor) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._node is not None and value._data.dtype not in dtypes.INEXACT:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, "
                f"got {value.dtype}"
            )
        if CAPTURES and (capture := capturing()) is not None:
            capture.data_set(self, value)
        self._data = value._data

    @data.deleter
    def data(self: Any) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @property
    def _grad_fn(self: Any) -> Any:
        """PyTorch's other name of grad_fn."""
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self: Any) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def _backward_hooks(self: Any) -> dict | None:
        """The hooks of a leaf by number; None if there are none (those of other tensors hang on their node)."""
        return None if self._meta is None else self._meta.hooks

    @_backward_hooks.setter
    def _backward_hooks(self: Any, hooks: dict | None) -> None:
        if hooks is not None and not isinstance(hooks, dict):
            raise TypeError(f"_backward_hooks must be a dict or None, not {type(hooks).__name__}")
        meta_of(self).hooks = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self: Any) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    def retain_grad(self: Any) -> None:
        """Makes backward() keep the gradient of this non-leaf in ``.grad``."""
        refuse_inside("Tensor.retain_grad()", "retain_grad()")
        node = history(self)
        if node is None and not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        m = meta_of(self)
        if node is LEAF or node is None or m.retains:
            return
        m.retains = True
        retain(self)

    @property
    def retains_grad(self: Any) -> bool:
        """Whether retain_grad() was called on this non-leaf."""
        return self._meta is not None and self._meta.retains

    def register_hook(self: Any, hook: Callable) -> Handle:
        """Calls ``hook(grad)`` when the gradient of the tensor is known; a tensor it returns replaces the gradient.

        Returns a handle; ``handle.remove()`` takes the hook away.

        Example::

            >>> import ferro
            >>> w = ferro.ones(2, requires_grad=True)
            >>> handle = w.register_hook(lambda grad: grad * 10)
            >>> w.sum().backward()
            >>> w.grad
            tensor([10., 10.])
        """
        node = history(self)
        if node is None:
            if not self.requires_grad:
                raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
            return Handle({}, hook)  # a view made under no_grad: no gradient will come
        if node is LEAF:
            return Handle(table(meta_of(self), "hooks"), hook)
        if isinstance(node, OutputRef):
            return Handle(hooks_of(node.node, node.index), hook)
        return Handle(hooks_of(node, 0), hook)

    def register_post_accumulate_grad_hook(self: Any, hook: Callable) -> Handle:
        """Calls ``hook(tensor)`` after backward() has added to ``.grad`` of this leaf."""
        if history(self) is not LEAF:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors or tensors that do not require grad"
            )
        return Handle(table(meta_of(self), "post"), hook)

    @property
    def _cdata(self: Any) -> int:
        """A number that the same tensor, and no other that exists, has: PyTorch's is an address, too."""
        return id(self)

    @property
    def _version(self: Any) -> int:
        """How often the storage was changed in place."""
        if is_inference(self):
            raise RuntimeError("Inference tensors do not track version counter.")
        if self._counter is None and self._node is not None and self._node is not LEAF:
            return version_of(self).n  # (a node may have one for its result)
        return 0 if self._counter is None else self._counter.n

    @property
    def _base(self: Any) -> Tensor | None:
        """The tensor this one is a view of."""
        m: Meta | None = self._meta
        return None if m is None or m.view is None else m.view.base  # type: ignore[return-value]

    def _is_view(self: Any) -> bool:
        return self._base is not None
