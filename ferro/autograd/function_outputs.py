"""What a custom function has returned or written to: outputs, gradients, changed inputs, checked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, root, version_of
from ferro.core.dtypes import COMPLEX, FROM_NUMPY
from ferro.core.history import history
from ferro.core.inplace import before_write


def _expandable(have: tuple, want: tuple) -> bool:
    """Whether a gradient of shape `have` can be summed to the shape `want`, as that of what was expanded."""
    try:
        return np.broadcast_shapes(have, want) == have
    except ValueError:
        return False


def _checked_gradients(plan: Any, found: Any, node: Any, recorded: bool) -> list:
    """The gradients that the user's backward returned, one for each argument: tensors if `recorded`, else arrays."""
    found = found if isinstance(found, tuple) else (list(found) if isinstance(found, list) else (found,))
    found = list(found)
    name = plan.op.backward_name
    if len(found) > plan.arity and all(g is None for g in found[plan.arity :]):
        found = found[: plan.arity]
    if len(found) != plan.arity:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {plan.arity}, got {len(found)})"
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
        if g is not None and i in plan.indices:
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
            found[i] = g if recorded else g._data
    return found


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
