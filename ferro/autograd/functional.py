"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd.backward import grad
from ferro.core import mode as _mode
from ferro.core import worlds
from ferro.core.base import TensorBase, history, wrap

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tuple(name: str, what: str, given: Any) -> tuple[tuple, bool]:
    single = not isinstance(given, tuple)
    found = (given,) if single else given
    for i, t in enumerate(found):
        if not isinstance(t, TensorBase):
            given_as = f"given a {type(t).__name__}" if single else f"element {i} is of type {type(t).__name__}"
            raise TypeError(f"{name}: the {what} must be either a Tensor or a tuple of Tensors, but {given_as}")
    return found, single


def _inputs(name: str, inputs: Any, create_graph: bool) -> tuple[tuple, bool]:
    """Tensors to differentiate by: connected to the given ones if the result is to be differentiated again."""
    xs, single = _tuple(name, "inputs", inputs)
    return tuple(
        [x.view_as(x) if create_graph and history(x) is not None else x.detach().requires_grad_() for x in xs]
    ), single


def _run(name: str, func: Callable, xs: tuple, strict: bool) -> tuple[tuple, bool]:
    outputs, single = _tuple(name, "outputs of the function", func(*xs))
    if strict:
        for i, o in enumerate(outputs):
            if history(o) is None:
                raise RuntimeError(f"{name}: Output {i} of the user-provided function does not require gradients. The outputs must be computed "
                                   "in a differentiable manner from the input when running in strict mode.")  # fmt: skip
    return outputs, single


def _vectors(name: str, v: Any, like: tuple) -> tuple:
    if v is None:
        if len(like) != 1 or like[0]._data.size != 1:
            raise RuntimeError(f"{name}: The vector v can only be None if the user-provided function returns (or takes) a single Tensor with "
                               "a single element.")  # fmt: skip
        return (wrap(np.ones(like[0]._data.shape, like[0]._data.dtype)),)
    vs, _ = _tuple(name, "vector v", v)
    if len(vs) != len(like):
        raise RuntimeError(f"{name}: v is a tuple of invalid length: should be {len(like)} but got {len(vs)}")
    for i, (a, b) in enumerate(zip(vs, like, strict=True)):
        if a._data.shape != b._data.shape:
            raise RuntimeError(
                f"{name}: v[{i}] has invalid size: should be {list(b._data.shape)} but got {list(a._data.shape)}"
            )
    return vs


def _pull(name: str, outputs: Any, xs: tuple, vs: Any, create_graph: bool, strict: bool) -> list:
    """Gradients with zeros for what does not depend on an input (an error in strict mode)."""
    live = [(o, v) for o, v in zip(outputs, vs, strict=True) if history(o) is not None]
    found: Any = [None] * len(xs)
    if live:
        found = grad(
            [o for o, _ in live],
            xs,
            [v for _, v in live],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    result = []
    for i, (g, x) in enumerate(zip(found, xs, strict=True)):
        if g is None and strict:
            raise RuntimeError(
                f"{name}: The output of the user-provided function is independent of input {i}. This is not allowed in strict mode."
            )
        if strict and create_graph and g is not None and history(g) is None:
            raise RuntimeError(f"{name}: The derivative with respect to input {i} is independent of the inputs. This is not allowed in strict mode "
                               "with create_graph=True.")  # fmt: skip
        result.append(wrap(np.zeros(x._data.shape, x._data.dtype)) if g is None else g)
    return result


def _give(tensors: Any, create_graph: bool, single: bool) -> Any:
    found = tuple([t if create_graph else t.detach() for t in tensors])
    return found[0] if single else found


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(outputs, vᵀJ) of ``func`` at ``inputs``.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.vjp(lambda x: x * x, ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 1.0]))[1]
        tensor([2., 4.])
    """
    with _mode.switched(grad=True):
        xs, single_in = _inputs("vjp", inputs, create_graph)
        outputs, single_out = _run("vjp", func, xs, strict)
        vs = _vectors("vjp", v, outputs)
        found = _pull("vjp", outputs, xs, vs, create_graph, strict)
    return _give(outputs, create_graph, single_out), _give(found, create_graph, single_in)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(outputs, J v) of ``func`` at ``inputs``, by differentiating vᵀJ by v (twice reverse)."""
    with _mode.switched(grad=True):
        xs, _ = _inputs("jvp", inputs, create_graph)
        vs = _vectors("jvp", v, xs)
        outputs, single_out = _run("jvp", func, xs, strict)
        seeds = tuple([wrap(np.zeros(o._data.shape, o._data.dtype)).requires_grad_() for o in outputs])
        pulled = _pull("jvp", outputs, xs, seeds, True, strict)
        found = _pull("jvp", pulled, seeds, vs, create_graph, strict)
    return _give(outputs, create_graph, single_out), _give(found, create_graph, single_out)


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:  # fmt: skip
    """The Jacobian: for every output and input a tensor of the output's shape followed by the input's.

    vectorize and strategy ("reverse-mode", "forward-mode") choose how it is computed, not what.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.jacobian(lambda x: x * x, ferro.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: Expected strategy to be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    with _mode.switched(grad=True):
        xs, single_in = _inputs("jacobian", inputs, create_graph)
        outputs, single_out = _run("jacobian", func, xs, strict)
        rows = []
        for out in outputs:
            flat = []
            for index in np.ndindex(out._data.shape):
                unit = np.zeros(out._data.shape, out._data.dtype)
                unit[index] = 1
                flat.append(_pull("jacobian", (out,), xs, (wrap(unit),), create_graph, strict))
            blocks = []
            for i, x in enumerate(xs):
                shape = (*out._data.shape, *x._data.shape)
                if flat:
                    blocks.append(worlds.functional.stack([f[i] for f in flat]).reshape(shape))
                else:
                    blocks.append(wrap(np.zeros(shape, x._data.dtype)))
            rows.append(_give(blocks, create_graph, single_in))
    return rows[0] if single_out else tuple(rows)


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:  # fmt: skip
    """The matrix of second derivatives of a scalar function: a tensor per pair of inputs."""

    def gradient(*xs: Any) -> Any:
        value = func(*xs)
        _scalar("hessian", value)
        if history(value) is None:
            return tuple([x * 0 for x in xs])
        found = grad(value, xs, create_graph=True, allow_unused=True)
        return tuple([x * 0 if g is None else g for g, x in zip(found, xs, strict=True)])

    xs, single = _tuple("hessian", "inputs", inputs)
    result = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result[0][0] if single else result


def _scalar(name: str, value: Any) -> None:
    _tuple(name, "outputs of the function", value)
    if not isinstance(value, TensorBase) or value._data.size != 1:
        shape = list(value._data.shape) if isinstance(value, TensorBase) else type(value).__name__
        raise RuntimeError(
            f"{name}: The Tensor returned by the function given to {name} should contain a single element, got {shape}"
        )


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, vᵀH) of a scalar function at ``inputs``."""
    with _mode.switched(grad=True):
        xs, single = _inputs("vhp", inputs, create_graph)
        vs = _vectors("vhp", v, xs)
        outputs, single_out = _run("vhp", func, xs, strict)
        _scalar("vhp", outputs[0] if single_out else outputs)
        first = _pull(
            "vhp", outputs, xs, (wrap(np.ones(outputs[0]._data.shape, outputs[0]._data.dtype)),), True, strict
        )
        found = _pull("vhp", first, xs, vs, create_graph, False)
    return _give(outputs, create_graph, True), _give(found, create_graph, single)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, H v) of a scalar function at ``inputs``: equal to vᵀH, since H is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
