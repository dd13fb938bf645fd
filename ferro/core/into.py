"""Functions with `out=`: the result written into a tensor that there is, and where nothing is recorded, computed there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ferro.core.apply import apply, binary, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, bump, is_inference
from ferro.core.history import history
from ferro.core.inplace import announce, is_expanded, refuse_overlap
from ferro.core.mode import current, is_grad_enabled, is_inference_mode_enabled
from ferro.core.op import Op
from ferro.core.outputs import refuse_dtype
from ferro.core.tangents import tangents_of
from ferro.core.writes import WHOLE, assigned, computed_into, written
from ferro.cpu.layouts import is_dense


def into(name: str, out: Any, result: Any, *inputs: Any) -> Any:
    """Writes a result into the `out=` argument (None: the result itself); not differentiable, as in PyTorch.

    inputs: operands of an elementwise operation, whose memory `out` may share as a whole, but not in part.
    """
    if out is None:
        return result
    if isinstance(out, TensorBase) and out._data.shape == result._data.shape:
        done = _copied(name, out, result, inputs)
        if done is not None:
            return done
    need_tensor(name, "out", out)
    refuse_overlap(f"{name}(out=)", out, inputs)
    if is_grad_enabled() and (history(result) is not None or history(out) is not None):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if is_inference(out) and not is_inference_mode_enabled():
        raise RuntimeError(
            f"{name}(out=): Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone "
            "to get a normal tensor before doing inplace update."
        )
    if current().level and (tangents_of(result) or tangents_of(out)):
        raise NotImplementedError(
            f"Trying to use forward AD with {name} that does not support it because it is an out= function (functions with out=... arguments "
            "don't support forward mode); use the result instead of out="
        )
    refuse_dtype(name, result._data, out._data, inputs)
    if out._data.shape != result._data.shape:
        _resize(name, out, result)
    if is_expanded(out._data):
        raise RuntimeError(
            f"{name}(out=): unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
    announce(out._data)
    out._data[...] = result._data
    bump(out, f"{name}(out=)")
    return out


def _resize(name: str, out: Any, result: Any) -> None:
    """Gives `out` the shape of a result, and warns."""
    if out._data.size:
        warnings.warn(
            f"{name}(out=): An output with one or more elements was resized since it had shape {list(out._data.shape)}, "
            f"which does not match the required output shape {list(result._data.shape)}. This behavior is deprecated, "
            "and in a future PyTorch release outputs will not be resized unless they have zero elements. You can "
            "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=4,
        )
    out.resize_(result._data.shape)
    data = result._data
    if (
        data.size
        and data.strides != np.empty(data.shape, data.dtype).strides
        and is_dense(data.shape, data.strides, data.itemsize)
    ):
        out.as_strided_(data.shape, [s // data.itemsize for s in data.strides])  # without gaps: in that order, too


def _copied(name: str, out: Any, result: Any, inputs: tuple) -> Any:
    """`into` where nothing is recorded and nothing refused: see Note [Short writes]. `out`, or None: nothing has been written."""
    if out._node is not None or result._node is not None or result is out:
        return None
    if inputs and out._counter is not None:
        refuse_overlap(f"{name}(out=)", out, inputs)
    return assigned(out, WHOLE, result, f"{name}(out=)")


def applied_into(name: str, out: Any, op: Op, inputs: tuple, params: tuple) -> Any:
    """The function `name`, which applies an operation to tensors and parameters as they are, with its `out=` (None: without)."""
    if out is None:
        return apply(op, inputs, params)
    done = computed_into(op, out, inputs, params, f"{name}(out=)") if isinstance(out, TensorBase) else None
    return into(name, out, apply(op, inputs, params), *inputs) if done is None else done


def binary_into(name: str, out: Any, op: Op, x: Any, y: Any) -> Any:
    """The function `name`, which applies an operation to x and y as they are, with its `out=`."""
    done = written(op, out, x, y, f"{name}(out=)")
    return into(name, out, binary(op, x, y), x, y) if done is None else done


def unary_into(name: str, out: Any, op: Op, x: Any) -> Any:
    """The function `name`, which applies an operation to x as it is, with its `out=`."""
    done = written(op, out, x, None, f"{name}(out=)")
    return into(name, out, unary(op, x), x) if done is None else done
