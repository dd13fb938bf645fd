"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd import forward_ad
from ferro.autograd._functional_arguments import _RETURNS, _STRICT, _TAKES, _inputs, _run, _scalar, _tuple, _vectors
from ferro.autograd.backward import grad
from ferro.batched.levels import running
from ferro.core import backend, batching
from ferro.core import mode as _mode
from ferro.core.base import wrap
from ferro.core.history import history
from ferro.ops.joining import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _raw(outputs: Any, xs: tuple, vs: Any, create_graph: bool) -> list:
    """Gradients of the outputs, weighted by `vs`; None for an input that none of them depends on."""
    live = [(o, v) for o, v in zip(outputs, vs, strict=True) if history(o) is not None]
    if not live:
        return [None] * len(xs)
    given = [v for _, v in live]
    return list(grad([o for o, _ in live], xs, given, retain_graph=True, create_graph=create_graph, allow_unused=True))


def _pull(
    outputs: Any,
    xs: tuple,
    vs: Any,
    create_graph: bool,
    strict: bool,
    what: str = "output",
    of: str = "input",
    derivative: str = "jacobian",
) -> list:
    """The same with zeros for what does not depend on an input (an error in strict mode).

    what, of and derivative: what is differentiated by what, and what its derivative is, for the errors.
    """
    result = []
    for i, (g, x) in enumerate(zip(_raw(outputs, xs, vs, create_graph), xs, strict=True)):
        if g is None and strict:
            raise RuntimeError(f"The {what} of the user-provided function is independent of {of} {i}.{_STRICT}.")
        if strict and create_graph and g is not None and history(g) is None:
            raise RuntimeError(
                f"The {derivative} of the user-provided function is independent of input {i}.{_STRICT} when create_graph=True."
            )
        result.append(wrap(backend.beside(x._data, np.zeros(x._data.shape, x._data.dtype))) if g is None else g)
    return result


def _gradient(outputs: tuple, xs: tuple, strict: bool) -> list:
    """The recorded gradient of a scalar; in strict mode every part of it must depend on the inputs."""
    found = _raw(
        outputs,
        xs,
        (wrap(backend.beside(outputs[0]._data, np.ones(outputs[0]._data.shape, outputs[0]._data.dtype))),),
        True,
    )
    for i, g in enumerate(found if strict else ()):
        if g is None or history(g) is None:
            first = (
                f"The output of the user-provided function is independent of input {i}.{_STRICT}. " if g is None else ""
            )
            raise RuntimeError(
                f"{first}While computing the hessian, found that the jacobian of the user-provided function with respect to input "
                f"{i} is independent of the input.{_STRICT}. You should ensure that your function is twice differentiable and "
                "that the jacobian depends on the inputs (this would be violated by a linear function for example)."
            )
    return _filled(found, xs)


def _give(tensors: Any, create_graph: bool, single: bool) -> Any:
    found = tuple([t if create_graph else t.detach() for t in tensors])
    return found[0] if single else found


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(outputs, vᵀJ) of a function, in reverse mode.

    - `func` (function of tensors): gives a tensor or a tuple
    - `inputs` (Tensor or tuple): where
    - `v` (Tensor or tuple, default None): in the shapes of the outputs; None is 1, for one with one element, else
      RuntimeError
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros

    vᵀJ has the shapes of the inputs.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.vjp(lambda x: x * x, ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 1.0]))[1]
        tensor([2., 4.])
    """
    with _mode.switched(grad=True):
        xs, single_in = _inputs("vjp", inputs, create_graph)
        outputs, single_out = _run("vjp", func, xs, strict)
        vs = _vectors("vjp", v, outputs, single_out, _RETURNS)
        found = _pull(outputs, xs, vs, create_graph, strict)
    return _give(outputs, create_graph, single_out), _give(found, create_graph, single_in)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(outputs, J v) of a function, by differentiating vᵀJ by v (twice reverse).

    - `func` (function of tensors): gives a tensor or a tuple
    - `inputs` (Tensor or tuple): where
    - `v` (Tensor or tuple, default None): in the shapes of the inputs; None is 1, for one with one element, else
      RuntimeError
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros

    J v has the shapes of the outputs. `ferro.func.jvp` takes forward mode, which is cheaper.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.jvp(lambda x: x * x, ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 0.0]))[1]
        tensor([2., 0.])
    """
    with _mode.switched(grad=True):
        xs, single_in = _inputs("jvp", inputs, create_graph)
        vs = _vectors("jvp", v, xs, single_in, _TAKES)
        outputs, single_out = _run("jvp", func, xs, strict)
        seeds = tuple(
            [wrap(backend.beside(o._data, np.zeros(o._data.shape, o._data.dtype))).requires_grad_() for o in outputs]
        )
        pulled = _pull(outputs, xs, seeds, True, strict)
        found = _pull(pulled, seeds, vs, create_graph, strict, "gradient", "the cotangent of output")
    return _give(outputs, create_graph, single_out), _give(found, create_graph, single_out)


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for every output and input a tensor of the output's shape followed by the input's.

    - `func` (function of tensors): gives a tensor or a tuple
    - `inputs` (Tensor or tuple): where
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros
    - `vectorize` (bool, default False): True computes all rows at once; not together with strict (RuntimeError)
    - `strategy` (str, default 'reverse-mode'): or "forward-mode", for few inputs, with vectorize

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.jacobian(lambda x: x * x, ferro.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_strategy("jacobian", strategy, strict, vectorize)
    with _mode.switched(grad=True):
        if strategy == "forward-mode":
            return _by_columns(func, inputs, create_graph)
        xs, single_in = _inputs("jacobian", inputs, create_graph)
        outputs, single_out = _run("jacobian", func, xs, strict)
        blocks = []
        for k, out in enumerate(outputs):
            shape = out._data.shape
            units = wrap(
                backend.beside(out._data, np.eye(out._data.size, dtype=out._data.dtype).reshape(out._data.size, *shape))
            )
            if vectorize and out._data.size:
                rows = _batched(lambda unit, out=out: _filled(_raw((out,), xs, (unit,), create_graph), xs), units)
            else:
                found = [_raw((out,), xs, (unit,), create_graph) for unit in units]
                for row in found if strict else ():
                    _check_row(row, k, create_graph)
                rows = [stack(list(column)) for column in zip(*[_filled(row, xs) for row in found], strict=True)]
            rows = rows or [wrap(backend.beside(x._data, np.zeros(0, x._data.dtype))) for x in xs]
            blocks.append([r.reshape((*shape, *x._data.shape)) for r, x in zip(rows, xs, strict=True)])
    given = [_give(b, create_graph, single_in) for b in blocks]
    return given[0] if single_out else tuple(given)


def _batched(function: Callable, units: Any, out_dim: int = 0) -> list:
    """The results of `function`, several tensors, for all `units` at once: what vmap does."""
    level = batching.begin(units._data.shape[0], transform=False)
    with running(level):
        found = function(batching.enter(units, level, 0))
        return [batching.leave(t, level, out_dim % (t._data.ndim + 1)) for t in found]


def _filled(found: list, xs: tuple) -> list:
    """Gradients with zeros for the inputs that have none."""
    return [
        wrap(backend.beside(x._data, np.zeros(x._data.shape, x._data.dtype))) if g is None else g
        for g, x in zip(found, xs, strict=True)
    ]


def _by_columns(func: Callable, inputs: Any, create_graph: bool) -> Any:
    """The Jacobian in forward mode: the tangents of the outputs along all directions of the inputs, one batch of them for each input."""
    xs, single_in = _tuple("jacobian", "inputs", inputs)
    single_out, shapes = True, []

    def along(i: int) -> Callable:
        def column(tangent: Any) -> list:
            nonlocal single_out
            with forward_ad.transform_level():
                given = [forward_ad.make_dual(x, tangent) if j == i else x for j, x in enumerate(xs)]
                outputs, single_out = _tuple("jacobian", "outputs of the user-provided function", func(*given))
                pairs = [forward_ad.unpack_dual(o) for o in outputs]
            shapes[:] = [p.primal._data.shape for p in pairs]
            return _filled([p.tangent for p in pairs], tuple([p.primal for p in pairs]))

        return column

    columns = []
    for i, x in enumerate(xs):
        units = wrap(
            backend.beside(x._data, np.eye(x._data.size, dtype=x._data.dtype).reshape(x._data.size, *x._data.shape))
        )
        columns.append(_batched(along(i), units, -1))
    blocks = [
        [c[k].reshape((*shape, *x._data.shape)) for c, x in zip(columns, xs, strict=True)]
        for k, shape in enumerate(shapes)
    ]
    given = [_give(b, create_graph, single_in) for b in blocks]
    return given[0] if single_out else tuple(given)


def _check_strategy(name: str, strategy: str, strict: bool, vectorize: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            f'{name}: Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}. Hint: If your function has more '
            'outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strict and (vectorize or strategy == "forward-mode"):
        forward = ('`strategy="forward-mode"`', '`strategy="reverse-mode"`')
        which, cure = ("`vectorized=True`", "`vectorize=False`") if vectorize else forward
        raise RuntimeError(
            f"torch.autograd.functional.{name}: `strict=True` and {which} are not supported together. Please either set "
            f"`strict=False` or {cure}."
        )


def _check_row(found: list, k: int, create_graph: bool) -> None:
    """What strict mode asks of the gradients of one element of output `k`."""
    for i, g in enumerate(found):
        if g is None:
            raise RuntimeError(f"Output {k} of the user-provided function is independent of input {i}.{_STRICT}.")
        if create_graph and history(g) is None:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {i}.{_STRICT} when create_graph=True."
            )


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a scalar function: a tensor for each pair of inputs, of their shapes.

    - `func` (function of tensors): gives one number, else RuntimeError
    - `inputs` (Tensor or tuple): where
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros
    - `vectorize` (bool, default False): True computes all rows at once; not together with strict (RuntimeError)
    - `outer_jacobian_strategy` (str, default 'reverse-mode'): or "forward-mode", with vectorize

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.hessian(lambda x: (x**3).sum(), ferro.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    _check_strategy("hessian", outer_jacobian_strategy, strict, vectorize)

    def gradient(*xs: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple([x if history(x) is not None else x.requires_grad_() for x in xs])
        outputs, single_out = _run("hessian", func, xs, strict)
        _scalar("hessian", outputs, single_out)
        found = _gradient(outputs, xs, strict)
        return tuple([x * 0 if history(g) is None else g for g, x in zip(found, xs, strict=True)])

    xs, single = _tuple("hessian", "inputs", inputs)
    result = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result[0][0] if single else result


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, vᵀH) of a scalar function, H the matrix of its second derivatives.

    - `func` (function of tensors): gives one number, else RuntimeError
    - `inputs` (Tensor or tuple): where
    - `v` (Tensor or tuple, default None): in the shapes of the inputs; None is 1, for one with one element, else
      RuntimeError
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros

    vᵀH has the shapes of the inputs.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.vhp(lambda x: (x**3).sum(), ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 1.0]))[1]
        tensor([ 6., 12.])
    """
    return _second("vhp", func, inputs, v, create_graph, strict)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(value, H v) of a scalar function: equal to vᵀH, since H is symmetric.

    - `func` (function of tensors): gives one number, else RuntimeError
    - `inputs` (Tensor or tuple): where
    - `v` (Tensor or tuple, default None): in the shapes of the inputs; None is 1, for one with one element, else
      RuntimeError
    - `create_graph` (bool, default False): True records the result, so that it can be differentiated
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on an input, False
      gives zeros

    H v has the shapes of the inputs.

    Example::

        >>> import ferro
        >>> ferro.autograd.functional.hvp(lambda x: (x**3).sum(), ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 1.0]))[1]
        tensor([ 6., 12.])
    """
    return _second("hvp", func, inputs, v, create_graph, strict)


def _second(name: str, func: Callable, inputs: Any, v: Any, create_graph: bool, strict: bool) -> Any:
    with _mode.switched(grad=True):
        xs, single = _inputs(name, inputs, create_graph)
        vs = _vectors(name, v, xs, single, _TAKES)
        outputs, single_out = _run(name, func, xs, strict)
        _scalar(name, outputs, single_out)
        first = _gradient(outputs, xs, strict)
        found = _pull(first, xs, vs, create_graph, strict, "jacobian", derivative="hessian")
    return _give(outputs, create_graph, True), _give(found, create_graph, single)
