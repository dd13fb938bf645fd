"""Reverse mode: grad, grad_and_value, vjp."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ferro.autograd import grad as _grad
from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT, from_numpy
from ferro.core.history import history
from ferro.core.trees import Structure, flatten, map_tensors, tree_map, unflatten
from ferro.func.levels import Foreign, Transform, chosen, outputs_of, pair, recorded, settled, zeros_like

CALLS = {"vjp": "vjp(f, *primals)", "jacrev": "vjp in jacrev"}  # what PyTorch's messages name


class Pullback:
    """A function that has run once, and the way back from its outputs to the gradients of some of its arguments."""

    def __init__(self, name: str, func: Callable, args: tuple, argnums: Any, has_aux: bool) -> None:
        numbers = tuple(range(len(args))) if argnums is None else chosen(argnums, len(args))
        with Transform(name, func) as transform:
            full = [tree_map(transform.follow, a) if i in numbers else a for i, a in enumerate(args)]
            result = func(*full)
        name = CALLS.get(name, name)
        result, aux = pair(name, result) if has_aux else (result, None)
        self.outputs, self.structure = outputs_of(name, result)
        for o in self.outputs:
            if o._data.dtype not in INEXACT:
                raise RuntimeError(
                    f"{name}: all outputs of the function must be floating-point or complex tensors, got one "
                    f"of dtype {from_numpy(o._data.dtype)}"
                )
        inner = full[numbers[0]] if isinstance(argnums, int) else tuple([full[i] for i in numbers])
        self.xs, self.xs_structure = flatten(inner)
        foreign = Foreign()
        outer = _mode.is_grad_enabled()
        self.value = unflatten(self.structure, [settled(o, foreign, outer) for o in self.outputs])
        self.aux = map_tensors(lambda t: settled(t, foreign, outer), aux)

    def __call__(self, cotangents: list, retain_graph: bool = True, create_graph: bool | None = None) -> list:
        """The gradients of the arguments, flattened; a cotangent that is None is absent."""
        live = [
            (o, v) for o, v in zip(self.outputs, cotangents, strict=True) if history(o) is not None and v is not None
        ]
        found: Any = (None,) * len(self.xs)
        if live and self.xs:
            roots, seeds = [o for o, _ in live], [v for _, v in live]
            create = create_graph is not False and (
                recorded(roots) or (_mode.is_grad_enabled() and any(_followed(v) for v in seeds))
            )
            with _mode.switched(inference=False):
                found = _grad(roots, self.xs, seeds, retain_graph=retain_graph, create_graph=create, allow_unused=True)
        foreign = Foreign()
        return [zeros_like(x) if g is None else settled(g, foreign) for x, g in zip(self.xs, found, strict=True)]


def _followed(v: Any) -> bool:
    return isinstance(v, TensorBase) and history(v) is not None


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``func(*primals)`` and a function from cotangents to the gradients of the primals (a tuple).

    The cotangents come as the value does: a tensor, or the same nesting of tuples, lists and dictionaries (RuntimeError
    otherwise).  The gradients are nested as the primals are; a primal that does not matter gets zeros.  With has_aux,
    func returns (output, aux), and the result is (value, pullback, aux).

    Example::

        >>> import ferro
        >>> value, pullback = ferro.func.vjp(lambda x: x * x, ferro.tensor(3.0))
        >>> pullback(ferro.tensor(1.0))
        (tensor(6.),)
    """
    back = Pullback("vjp", func, primals, None, has_aux)

    def pullback(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, structure = flatten(cotangents)
        _same("vjp", "cotangents", structure, "the outputs of the function", back.structure)
        return unflatten(back.xs_structure, back(given, retain_graph, create_graph))

    return (back.value, pullback, back.aux) if has_aux else (back.value, pullback)


def _same(name: str, what: str, got: Structure, like: str, want: Structure) -> None:
    if got != want:
        raise RuntimeError(
            f"{name}: Expected pytree structure of {what} to be the same as pytree structure of outputs to the function. {what}: "
            f"{got}, primal output ({like}): {want}"
        )


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """A function that returns (gradient, value) of the scalar `func`; with has_aux (gradient, (value, aux)).

    See :func:`grad`.

    Example::

        >>> import ferro
        >>> ferro.func.grad_and_value(lambda x: x * x * x)(ferro.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @_like(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = chosen(argnums, len(args))
        with Transform("grad", func) as transform:
            full = [tree_map(transform.follow, a) if i in numbers else a for i, a in enumerate(args)]
            result = func(*full, **kwargs)
        value, aux = pair("grad_and_value(f)(*args)", result) if has_aux else (result, None)
        if not isinstance(value, TensorBase):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
        if value._data.ndim:
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {value._data.ndim} dims "
                f"(shape {list(value._data.shape)}). Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        xs, structure = flatten(full[numbers[0]] if isinstance(argnums, int) else tuple([full[i] for i in numbers]))
        found: Any = (None,) * len(xs)
        if history(value) is not None and xs:
            create = recorded([value])
            with _mode.switched(inference=False):
                found = _grad([value], xs, create_graph=create, allow_unused=True)
        foreign, outer = Foreign(), _mode.is_grad_enabled()
        gs = [zeros_like(x) if g is None else settled(g, foreign, outer) for x, g in zip(xs, found, strict=True)]
        gradient = unflatten(structure, gs)
        value = settled(value, foreign, outer)
        return (
            (gradient, (value, map_tensors(lambda t: settled(t, foreign, outer), aux)))
            if has_aux
            else (gradient, value)
        )

    return wrapper


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func`, whose value is a 0-d tensor, by its arguments `argnums`.

    An argument may be a nesting of tuples, lists and dictionaries; the gradient is nested likewise.  A tuple of numbers
    gives a tuple of gradients.  With has_aux, func returns (value, aux), and the result is (gradient, aux).

    Raises RuntimeError if the value is no 0-d tensor or argnums names no argument, ValueError if an argument to
    differentiate by holds anything but tensors.

    Example::

        >>> import ferro
        >>> ferro.func.grad(ferro.func.grad(lambda x: x * x * x))(ferro.tensor(2.0))
        tensor(12.)
        >>> ferro.func.grad(lambda p: (p["w"] * p["b"]).sum())({"w": ferro.tensor(2.0), "b": ferro.tensor(3.0)})
        {'w': tensor(3.), 'b': tensor(2.)}
    """
    both = grad_and_value(func, argnums, has_aux)

    @_like(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def _like(func: Callable) -> Callable:
    """Gives a transformed function the name of the original, if it has one (a partial has none)."""
    return wraps(func) if hasattr(func, "__name__") else lambda wrapper: wrapper
