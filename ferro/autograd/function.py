"""Custom functions: `Function`, whose forward and backward the user writes.  The context `ctx` is the node of the tape."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd._jvp import push
from ferro.autograd.batched_function import by_staticmethod
from ferro.autograd.function_context import FunctionCtx, _bound, _Saved
from ferro.autograd.function_outputs import (
    _check_dirty,
    _check_recorded_dirty,
    _checked_gradients,
    _contains,
    _edge,
    _mark_views,
    _refuse_saved_inputs,
    _returned,
)
from ferro.batched.levels import ALIVE
from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, bump, wrap
from ferro.core.dtypes import COMPLEX, INEXACT
from ferro.core.history import history
from ferro.core.inplace import rebase
from ferro.core.node import Freed, MultiNode, OutputRef, next_sequence, node_meta
from ferro.core.plan import CalledOp, CalledPlan
from ferro.core.provenance import caller
from ferro.core.saved import freed
from ferro.core.shown import Node
from ferro.core.tangents import tangents_of
from ferro.core.transforms import INSIDE


class FunctionNode(FunctionCtx, Node, MultiNode):
    """The node of a custom function; the user's ctx."""

    writes_view = (
        False  # whether it wrote its output into a view: then, as in PyTorch, it is not called without a gradient
    )

    def __init__(self) -> None:
        self.saved = None
        self._to_save = self._for_forward = self._dirty = self._nondiff = ()
        self.materialize_grads = self._materialize_non_diff_grads = True
        self.meta = None
        self.outputs = ()
        self.shape = None  # type: ignore[assignment]
        self.dtype = None

    @property
    def saved_variables(self) -> tuple:
        """The old name of saved_tensors."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def apply(self, *grads: Any) -> Any:
        """Calls the user's backward."""
        return _backward(type(self)._forward_cls)(self, *grads)  # type: ignore[attr-defined]

    @property
    def _raw_saved_tensors(self) -> tuple:
        """The places of the saved tensors, on which saved-tensor hooks can be registered."""
        if type(self.saved) is Freed:
            raise RuntimeError(freed(self))
        return self.saved or ()


# Not methods of Function: classes of other libraries have methods of these names.
def _backward(cls: Any) -> Callable:
    """The user's rule for the backward."""
    if cls.vjp is not Function.vjp and cls.backward is not Function.backward:
        raise RuntimeError(
            f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed ({cls.__name__})"
        )
    return cls.vjp if cls.vjp is not Function.vjp else cls.backward


class _FunctionOp(CalledOp):
    """Stands for an Op in the plan of a custom function."""

    def __init__(self, cls: Any) -> None:
        self.name = cls.__name__
        self.backward_name = cls._backward_cls.__name__


class _FunctionPlan(CalledPlan):
    """Stands for a Plan: which arguments get gradients, and how the engine runs the user's backward."""

    def __init__(self, cls: Any, arity: int, indices: tuple) -> None:
        self.cls, self.arity, self.indices = cls, arity, indices
        self.op = _FunctionOp(cls)

    @property
    def definition(self) -> Any:
        """The place of the user's backward."""
        code = getattr(_backward(self.cls), "__code__", None)
        return None if code is None else (code, 0)

    def user(self, run: Any, given: list, node: Any) -> list:
        """Calls the user's backward and checks what it returns."""
        with run.lock, run.user():
            kinds = node.output_kinds
            if not node._materialize_non_diff_grads:
                kinds = [None if slot is None else kind for kind, slot in zip(kinds, node.outputs, strict=True)]
            near = next((g for g in given if g is not None), node._near)
            grads = [self._cotangent(run, g, kind, node, near) for g, kind in zip(given, kinds, strict=True)]
            found = _backward(self.cls)(node, *grads)
        return _checked_gradients(self, found, node, run.record)

    def _cotangent(self, run: Any, g: Any, kind: Any, node: Any, near: Any) -> Any:
        if g is None:
            if not node.materialize_grads or kind is None:
                return None
            zeros = np.zeros(*kind)
            return wrap(zeros if near is None else backend.beside(getattr(near, "_data", near), zeros))
        return g if run.record else wrap(g)


class Function:
    """A differentiable function written by the user: static methods ``forward`` and ``backward`` (and ``jvp``).

    Two styles: ``forward(ctx, *args)``, or ``forward(*args)`` with ``setup_context(ctx, inputs, output)``.

    Example::

        >>> import ferro
        >>> class Cube(ferro.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return 3 * x**2 * g
        >>> x = ferro.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
    """

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """The outputs for a batch of arguments, and where the batch lies in them: what vmap calls instead of forward.

        info: has the fields batch_size and randomness; in_dims: nested as the arguments, the dimension of the batch in
        each (None: the argument is the same for all).  With ``generate_vmap_rule = True`` forward and backward are
        batched themselves, and this is not needed.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    _no_vmap = vmap

    _backward_cls: type  # the class of the nodes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._backward_cls = _node_class(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the "
            "class itself: use Function.apply(...). Instantiating an autograd function will raise an error in a future version of "
            "PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with "
            "static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Fills ctx after a forward without ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of all arguments of forward (None where there is none), given those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it "
            "with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs, given those of the arguments."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records one node."""
        recording = _mode.is_grad_enabled()
        separate = cls.setup_context is not Function.setup_context
        if INSIDE.get() and not separate:
            raise RuntimeError(
                f"{cls.__name__}: In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                "must override the setup_context staticmethod. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html"
            )
        if ALIVE:
            found = by_staticmethod(cls, args, kwargs)
            if found is not NotImplemented:
                return found
        if separate:
            args, kwargs = _bound(cls, args, kwargs), {}
        needs = tuple([isinstance(a, TensorBase) and history(a) is not None for a in args])
        ctx = cls._backward_cls()
        ctx.needs_input_grad = needs
        with _mode.switched(grad=False, level=0):
            if separate:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        many = isinstance(result, tuple)
        outs = list(result) if many else [result]
        if separate:
            _refuse_saved_inputs(cls, ctx, args, outs)
        if ctx._dirty:
            _check_dirty(cls, ctx, args, outs)
        dirty, nondiff = ctx._dirty, ctx._nondiff
        if recording and any(needs):
            outs = _record(cls, ctx, args, needs, outs)
        else:
            outs = [_returned(o, args, dirty) for o in outs]
        if recording:
            _mark_views(outs, dirty)
        level = _mode.current().level
        if level and any(isinstance(a, TensorBase) and level in tangents_of(a) for a in args):
            push(cls, ctx, args, outs, dirty, nondiff, level)
        return tuple(outs) if many else outs[0]


def _node_class(cls: type) -> type:
    """The class of the nodes of a Function."""
    return type(
        f"{cls.__name__}Backward", (FunctionNode,), {"__doc__": f"The node of {cls.__name__}.", "_forward_cls": cls}
    )


Function._backward_cls = _node_class(Function)


class InplaceFunction(Function):
    """The old name for a Function that works in place: nothing but a Function; ctx.mark_dirty says what is changed."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _show(ctx: Any, mode: _mode.Mode) -> None:
    """Shows a new node to what looks on."""
    if mode.anomaly is not None:
        node_meta(ctx).trace = mode.anomaly.trace()
    for observer in mode.observers:
        observer.recorded(ctx)


def _near(outs: list) -> Any:
    """A number on the device of the outputs; None where all are the processor's."""
    for out in outs if backend.DEVICES else ():
        if isinstance(out, TensorBase) and not backend.is_host(out._data):
            return backend.beside(out._data, np.zeros(()))
    return None


def _record(cls: Any, ctx: Any, args: tuple, needs: tuple, outs: list) -> list:
    """Makes ctx a node of the tape and gives the outputs their history."""
    _check_recorded_dirty(cls, ctx._dirty, outs)
    indices = tuple([i for i, n in enumerate(needs) if n])
    ctx.plan = _FunctionPlan(cls, len(args), indices)
    ctx.edges = tuple([_edge(args[i], ctx._dirty) for i in indices])
    ctx.tensor_indices = frozenset(i for i, a in enumerate(args) if isinstance(a, TensorBase))
    ctx.input_shapes = tuple([a._data.shape if isinstance(a, TensorBase) else None for a in args])
    ctx.complex_inputs = tuple([isinstance(a, TensorBase) and a._data.dtype in COMPLEX for a in args])
    ctx.seq = next_sequence()
    ctx.code, ctx.offset = caller()
    _show(ctx, _mode.current())
    kinds: list = []
    slots: list = []
    for out in outs:
        tensor = isinstance(out, TensorBase)
        kinds.append((out._data.shape, out._data.dtype) if tensor else None)
        slots.append(kinds[-1] if tensor and out._data.dtype in INEXACT and not _contains(ctx._nondiff, out) else None)
    ctx.output_kinds, ctx.outputs, ctx._near = tuple(kinds), tuple(slots), _near(outs)
    inputs_before = {id(a): a for a in args if isinstance(a, TensorBase)}
    own = [i for i, o in enumerate(outs) if id(o) not in inputs_before or _contains(ctx._dirty, o)]
    save = [(t, next((i for i in reversed(own) if outs[i] is t), None)) for t in ctx._to_save]
    fresh: list = []
    for i, out in enumerate(outs):
        again = (
            next((k for k in range(i) if outs[k] is out), None)
            if slots[i] is not None and not _contains(args, out)
            else None
        )
        if again is not None:  # one tensor for both, which has the cotangent of the last
            fresh.append(fresh[again])
            fresh[again]._node = OutputRef(ctx, i, *slots[i])
            continue
        t = _returned(out, args, ctx._dirty)
        if slots[i] is not None:
            pick = OutputRef(ctx, i, *slots[i])
            if _contains(ctx._dirty, out):
                bump(out, cls.__name__)
                rebase(out, wrap(out._data, pick))
                ctx.writes_view = out._meta is not None and out._meta.view is not None
            else:
                if t._node is not None:
                    t = wrap(t._data)
                t._node = pick
        fresh.append(t)
    ctx.saved = tuple([_Saved(fresh[i] if i is not None else t, ctx, i) for t, i in save])
    ctx._to_save = ctx._dirty = ctx._nondiff = ()
    return fresh


class Error(Function):
    """Passes on what must not be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*outputs: Any) -> tuple:
        return tuple([wrap(o._data) if isinstance(o, TensorBase) else o for o in outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"trying to differentiate twice a function that was marked with @once_differentiable ({ctx.function})"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """Nothing is kept."""


Error._backward_cls.__name__ = "Error"  # as in PyTorch


def once_differentiable(function: Callable) -> Callable:
    """Decorator of ``backward``: it runs without recording, and differentiating its result raises."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with _mode.switched(grad=False):
            outputs = function(ctx, *args)
        if not _mode.is_grad_enabled():
            return outputs
        many = isinstance(outputs, tuple)
        probes = [_probe(o) for o in (outputs if many else (outputs,))]
        result = Error.apply(*probes)
        for out in result:
            if isinstance(out, TensorBase) and out._node is not None:
                out._node.node.function = type(ctx).__name__
        return result if many else result[0]

    return wrapper


def _probe(output: Any) -> Any:
    """A leaf that holds an output, so that what is made of it has a history; other outputs as they are."""
    return wrap(output._data, LEAF) if isinstance(output, TensorBase) and output._data.dtype in INEXACT else output
