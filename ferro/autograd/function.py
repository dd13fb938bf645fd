"""Custom functions: `Function`, whose forward and backward the user writes.  The context `ctx` is the node of the tape."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd._jvp import push
from ferro.autograd.batched_function import by_staticmethod
from ferro.batched.levels import ALIVE
from ferro.core import mode as _mode
from ferro.core.apply import address
from ferro.core.base import LEAF, Packed, TensorBase, bump, history, meta_of, modified, root, version_of, wrap
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, INEXACT
from ferro.core.graph_task import current_run
from ferro.core.inplace import before_write, rebase
from ferro.core.node import Freed, FreedError, MultiNode, OutputRef, next_sequence, node_meta
from ferro.core.provenance import caller
from ferro.core.saved import check_registration, freed
from ferro.core.tangents import tangents_of
from ferro.core.transforms import INSIDE


class FunctionCtx:
    """What forward leaves for backward.  Any attribute may be set on it."""

    saved: Any
    needs_input_grad: tuple[bool, ...]
    _to_save: tuple
    _for_forward: tuple
    _dirty: tuple
    _nondiff: tuple
    materialize_grads: bool
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


class FunctionNode(FunctionCtx, MultiNode):
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


def _bound(cls: Any, args: tuple, kwargs: dict) -> tuple:
    """The arguments of forward with its defaults and keywords in their places."""
    code = getattr(cls.forward, "__code__", None)
    if not kwargs and code is not None and len(args) == code.co_argcount and not code.co_kwonlyargcount:
        return args
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class _FunctionOp:
    """Stands for an Op in the plan of a custom function."""

    multi, lone, weight, variadic, view = True, None, 20.0, False, False
    nondiff_indices: frozenset = frozenset()

    def __init__(self, cls: Any) -> None:
        self.name = cls.__name__
        self.backward_name = cls._backward_cls.__name__


class _FunctionPlan:
    """Stands for a Plan: which arguments get gradients, and how the engine runs the user's backward."""

    joint, general, same, keeps, keeps_out = True, True, False, True, False
    formulas = recorded = (None,)
    spread = kinds = names = ()

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
            grads = [self._cotangent(run, g, kind, node) for g, kind in zip(given, kinds, strict=True)]
            found = _backward(self.cls)(node, *grads)
        found = found if isinstance(found, tuple) else (list(found) if isinstance(found, list) else (found,))
        found = list(found)
        name = self.op.backward_name
        if len(found) > self.arity and all(g is None for g in found[self.arity :]):
            found = found[: self.arity]
        if len(found) != self.arity:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {self.arity}, got {len(found)})"
            )
        for i, g in enumerate(found):
            if g is not None and not isinstance(g, TensorBase):
                raise RuntimeError(
                    f"function {name} must return Tensors or None as gradients, but gradient {i} is {type(g).__name__}"
                )
            if g is not None and i not in node.tensor_indices:
                raise RuntimeError(
                    f"function {name} returned a gradient different than None at position {i + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
            if g is not None and i in self.indices:
                expected = node.input_shapes[i]
                if g._data.shape != expected and not _expandable(g._data.shape, expected):
                    raise RuntimeError(
                        f"Function {name} returned an invalid gradient at index {i} - got {list(g._data.shape)} but "
                        f"expected shape compatible with {list(expected)}"
                    )
                if g._data.dtype in COMPLEX and not node.complex_inputs[i]:
                    raise RuntimeError(
                        f"Function {name} returned an invalid gradient at index {i} - got {FROM_NUMPY[g._data.dtype]} but the "
                        "forward input is real; return the real part"
                    )
                found[i] = g if run.record else g._data
        return found

    def _cotangent(self, run: Any, g: Any, kind: Any, node: Any) -> Any:
        if g is None:
            if not node.materialize_grads or kind is None:
                return None
            return wrap(np.zeros(*kind))
        return g if run.record else wrap(g)


def _expandable(have: tuple, want: tuple) -> bool:
    """Whether a gradient of shape `have` can be summed to the shape `want`, as that of what was expanded."""
    try:
        return np.broadcast_shapes(have, want) == have
    except ValueError:
        return False


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


def _contains(group: Any, t: Any) -> bool:
    return any(t is g for g in group)


def _refuse_saved_inputs(cls: Any, ctx: Any, args: tuple, outs: list) -> None:
    """An input that is an output too must not be saved: which of both was meant, setup_context cannot say."""
    for t in (*ctx._to_save, *ctx._for_forward):
        if t is not None and _contains(args, t) and _contains(outs, t) and not _contains(ctx._dirty, t):
            raise RuntimeError(
                f"{cls.__name__}: A input that has been returned as-is as output is being saved for backward. This is not supported "
                "if you override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or "
                "setup ctx inside the forward function itself."
            )


def _returned(out: Any, args: tuple, dirty: tuple) -> Any:
    """An output that is an unchanged input becomes a view of it."""
    if not isinstance(out, TensorBase) or not _contains(args, out) or _contains(dirty, out):
        return out
    given: Any = out
    with _mode.switched(grad=False, level=0):
        return given.view_as(given)


def _check_dirty(cls: Any, ctx: Any, args: tuple, outs: list) -> None:
    """Raises unless what is marked as changed in place are inputs that are returned; warns of what is no input."""
    dirty = tuple([d for d in ctx._dirty if _contains(args, d)])
    if len(dirty) < len(ctx._dirty):
        warnings.warn(
            f"{cls.__name__}: ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should "
            "be passed to ctx.mark_dirty().",
            UserWarning,
            stacklevel=3,
        )
    ctx._dirty = dirty
    if any(not _contains(outs, d) for d in dirty):
        raise RuntimeError(
            f"{cls.__name__}: Some elements marked as dirty during the forward method were not returned as output. The inputs that "
            "are modified inplace must all be outputs of the Function."
        )


def _check_recorded_dirty(cls: Any, dirty: tuple, outs: list) -> None:
    """Raises if the history of an input that was changed in place cannot become that of the Function."""
    for d in dirty:
        view = d._meta.view if d._meta is not None else None
        if view is not None and len(outs) > 1:
            raise RuntimeError(
                f"{cls.__name__}: If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                "return more than one Tensor. This is not supported by the current autograd engine. You should either make sure "
                "the input is not a view (using .clone() for example) or make your Function only return one Tensor (potentially "
                "splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that does "
                "the other operations)."
            )
        if view is not None and root(view)._node is LEAF:
            raise RuntimeError(
                f"{cls.__name__}: a view of a leaf Variable that requires grad is being used in an in-place operation."
            )
        if history(d) is LEAF:
            raise RuntimeError(
                f"{cls.__name__}: a leaf Variable that requires grad has been used in an in-place operation."
            )


def _mark_views(outs: list, dirty: tuple) -> None:
    """Outputs that are views must not be changed in place: the user's backward would be passed over."""
    for out in outs:
        if (
            isinstance(out, TensorBase)
            and out._meta is not None
            and out._meta.view is not None
            and not _contains(dirty, out)
        ):
            view = out._meta.view
            view.creation = "function"
            view.stamp = view.tangent_stamp = version_of(out).n


def _edge(t: Any, dirty: tuple) -> Any:
    """Where a gradient for an argument goes."""
    if t._node is LEAF:
        return t
    return before_write(t, t._node) if _contains(dirty, t) else t._node


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
    anomaly = _mode.current().anomaly
    if anomaly is not None:
        node_meta(ctx).trace = anomaly.trace()
    kinds: list = []
    slots: list = []
    for out in outs:
        tensor = isinstance(out, TensorBase)
        kinds.append((out._data.shape, out._data.dtype) if tensor else None)
        slots.append(kinds[-1] if tensor and out._data.dtype in INEXACT and not _contains(ctx._nondiff, out) else None)
    ctx.output_kinds, ctx.outputs = tuple(kinds), tuple(slots)
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
