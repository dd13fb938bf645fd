"""Functions of functions, as in torch.func: derivatives of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd import forward_ad
from ferro.autograd import grad as _grad
from ferro.core import mode as _mode
from ferro.core.base import TensorBase, history, position, wrap
from ferro.core.node import Pick

__all__ = ["grad", "grad_and_value", "jvp", "vjp"]


def tree_map(f: Callable, tree: Any) -> Any:
    """`f` of every tensor in nested tuples, lists and dictionaries."""
    if isinstance(tree, TensorBase):
        return f(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[tree_map(f, x) for x in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_map(f, x) for x in tree)
    if isinstance(tree, dict):
        return {k: tree_map(f, v) for k, v in tree.items()}
    return tree


def leaves_of(tree: Any) -> list:
    """The tensors in nested tuples, lists and dictionaries, in order."""
    found: list = []
    tree_map(found.append, tree)
    return found


def _zeros(t: Any) -> Any:
    return wrap(np.zeros(t._data.shape, t._data.dtype))


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of ``func(*primals)`` and its directional derivative along ``tangents``; with has_aux also what func returns second.

    Example::

        >>> import ferro
        >>> ferro.func.jvp(lambda x: x * x, (ferro.tensor(3.0),), (ferro.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(
            f"jvp: expected primals and tangents to be tuples, got {type(primals).__name__} and {type(tangents).__name__}"
        )
    xs, ts = leaves_of(primals), leaves_of(tangents)
    if len(xs) != len(ts) or not xs:
        raise RuntimeError(f"jvp: expected as many tangents as primals and at least one, got {len(ts)} for {len(xs)}")
    with forward_ad.dual_level() as level:
        supply = iter(ts)
        duals = tree_map(lambda x: forward_ad.make_dual(x, next(supply)), primals)
        result = func(*duals)
        result, aux = result if has_aux else (result, None)
        if not leaves_of(result):
            raise RuntimeError(f"jvp: expected func to return tensors, got {type(result).__name__}")
        pairs = {id(o): forward_ad.unpack_dual(o, level=level) for o in leaves_of(result)}
        if strict and any(p.tangent is None for p in pairs.values()):
            raise RuntimeError("jvp: an output of the function does not depend on the inputs (strict=True)")
        out = tree_map(lambda o: pairs[id(o)].primal, result)
        tangent = tree_map(lambda o: _zeros(o) if pairs[id(o)].tangent is None else pairs[id(o)].tangent, result)
        aux = tree_map(lambda o: forward_ad.unpack_dual(o, level=level).primal, aux)
    return (out, tangent, aux) if has_aux else (out, tangent)


def _tracked(x: Any) -> Any:
    """A tensor with the value of x whose gradient can be asked for, still connected to the history of x."""
    return x.view_as(x) if history(x) is not None else x.detach().requires_grad_()


def _settled(t: Any, own: list) -> Any:
    """`t`, without history if that leads to nothing but the leaves `own` that a transform made for itself."""
    node = history(t)
    if node is None:
        return t
    start = position(t)
    mine = {id(x) for x in own}
    todo, seen = [start.node if isinstance(start, Pick) else start], set()
    while todo:
        n = todo.pop()
        if isinstance(n, TensorBase):
            if id(n) not in mine:
                return t
            continue
        for edge in n.edges:
            e = edge.node if isinstance(edge, Pick) else edge
            if id(e) not in seen:
                seen.add(id(e))
                todo.append(e)
    return t.detach()


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``func(*primals)`` and a function from cotangents to the gradients of the primals (a tuple).

    Example::

        >>> import ferro
        >>> value, pullback = ferro.func.vjp(lambda x: x * x, ferro.tensor(3.0))
        >>> pullback(ferro.tensor(1.0))
        (tensor(6.),)
    """
    outer = _mode.is_grad_enabled()
    with _mode.switched(grad=True):
        tracked = tree_map(_tracked, primals)
        result = func(*tracked)
    result, aux = result if has_aux else (result, None)
    roots = leaves_of(result)

    def pullback(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple:
        given = leaves_of(cotangents)
        if len(given) != len(roots):
            raise RuntimeError(f"vjp: expected {len(roots)} cotangents, like the outputs of func, got {len(given)}")
        create = _mode.is_grad_enabled() if create_graph is None else create_graph
        live = [(r, v) for r, v in zip(roots, given, strict=True) if history(r) is not None]
        xs = leaves_of(tracked)
        found: Any = [None] * len(xs)
        if live:
            found = _grad(
                [r for r, _ in live],
                xs,
                [v for _, v in live],
                retain_graph=retain_graph,
                create_graph=create,
                allow_unused=True,
            )
        gs = {id(x): _zeros(x) if g is None else _settled(g, xs) for x, g in zip(xs, found, strict=True)}
        return tree_map(lambda x: gs[id(x)], tracked)

    own = leaves_of(tracked)
    value = tree_map(lambda t: _settled(t, own) if outer else t.detach(), result)
    return (value, pullback, aux) if has_aux else (value, pullback)


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of the scalar `func` by its arguments `argnums`, and its value."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for i in wanted:
            if not -len(args) <= i < len(args):
                raise RuntimeError(f"grad: argnums {argnums} is out of range for {len(args)} positional arguments")
        create = _mode.is_grad_enabled()
        with _mode.switched(grad=True):
            full = list(args)
            for i in wanted:
                full[i] = tree_map(_tracked, args[i])
            result = func(*full, **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, TensorBase) or value._data.ndim:
                shape = f"shape {list(value._data.shape)}" if isinstance(value, TensorBase) else type(value).__name__
                raise RuntimeError(f"grad: expected the function to return a scalar tensor, got {shape}")
            xs = leaves_of([full[i] for i in wanted])
            found: Any = [None] * len(xs)
            if history(value) is not None:
                found = _grad([value], xs, create_graph=True, allow_unused=True)
        gs = {
            id(x): _zeros(x) if g is None else (_settled(g, xs) if create else g.detach())
            for x, g in zip(xs, found, strict=True)
        }
        trees = tuple([tree_map(lambda x: gs[id(x)], full[i]) for i in wanted])
        gradient = trees[0] if isinstance(argnums, int) else trees
        value = _settled(value, xs) if create else value.detach()  # type: ignore[attr-defined]
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return wrapper


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of the scalar `func` by its arguments `argnums`.

    Example::

        >>> import ferro
        >>> ferro.func.grad(lambda x: x * x * x)(ferro.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper
