"""Forward mode: jvp, and linearize, which computes the linear part once for many directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd import forward_ad
from ferro.autograd import grad as _grad
from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT
from ferro.core.history import history
from ferro.core.transforms import inside
from ferro.core.trees import flatten, map_tensors, tree_map, unflatten
from ferro.func.levels import Foreign, Transform, outputs_of, pair, recorded, settled, zeros_like

JVP = "jvp(f, primals, tangents)"  # as messages call it


def push(
    name: str, func: Callable, args: tuple, flat: list, numbers: tuple, structure: Any, tangents: list, has_aux: bool
) -> tuple:
    """Runs a function on dual numbers.

    `flat` are the leaves of the arguments `numbers`, nested as `structure`, and `tangents` theirs (None: none).  Returns
    the outputs and their tangents (None where there is none), both flattened, the structure of the outputs, and aux.
    """
    with forward_ad.transform_level():
        duals = unflatten(
            structure, [x if t is None else forward_ad.make_dual(x, t) for x, t in zip(flat, tangents, strict=True)]
        )
        full = list(args)
        for i, dual in zip(numbers, duals, strict=True):
            full[i] = dual
        with inside("jvp", function=func):
            result = func(*full)
        result, aux = pair(name, result) if has_aux else (result, None)
        outputs, outputs_structure = outputs_of(name, result)
        pairs = [forward_ad.unpack_dual(o) for o in outputs]
        aux = map_tensors(lambda t: forward_ad.unpack_dual(t).primal, aux)
    return [p.primal for p in pairs], [p.tangent for p in pairs], outputs_structure, aux


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of `func(*primals)` and its directional derivative along `tangents`.

    - `func` (function of tensors): the outputs may be nested
    - `primals`, `tangents` (tuples): one entry for each argument, nested alike, else RuntimeError
    - `strict` (bool, default False): True raises RuntimeError for an output that does not depend on the primals, False
      gives a zero tangent
    - `has_aux` (bool, default False): True: func returns (output, aux), and the result is (value, tangent, aux)

    Example::

        >>> import ferro
        >>> ferro.func.jvp(lambda x: x * x, (ferro.tensor(3.0),), (ferro.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals). Got {type(primals).__name__}"
        )
    xs, structure = flatten(primals)
    ts, tangent_structure = flatten(tangents)
    if structure != tangent_structure:
        raise RuntimeError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 tensors, "
            f"tangents also must be. Got primals with structure {structure} and tangents with structure {tangent_structure}"
        )
    for what, leaves in (("primals", xs), ("tangents", ts)):
        if not leaves:
            raise RuntimeError(f"{JVP}: Expected {what} to contain at least one Tensor.")
        for x in leaves:
            if not isinstance(x, TensorBase):
                raise RuntimeError(f"{JVP}: Expected {what} to only contain Tensors, got {type(x)}")
    out, moved, out_structure, aux = push(JVP, func, primals, xs, tuple(range(len(primals))), structure, ts, has_aux)
    if strict and any(t is None for t in moved):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
        )
    value = unflatten(out_structure, out)
    tangent = unflatten(out_structure, [zeros_like(o) if t is None else t for o, t in zip(out, moved, strict=True)])
    return (value, tangent, aux) if has_aux else (value, tangent)


def linearize(func: Callable, *primals: Any) -> tuple:
    """The value of ``func(*primals)`` and its derivative there as a function of tangents.

    func runs once; every call of the derivative costs about as much as a backward.  That is the gain over jvp, which runs
    func for each direction.  The tangents are given like the primals, one argument each, nested alike, of the same
    shapes and dtypes (RuntimeError otherwise).

    The derivative is the transpose of the transpose: <vjp(u), t> is linear in the cotangent u, and its gradient by u is
    J t.  So func is evaluated without forward mode.

    Example::

        >>> import ferro
        >>> value, derivative = ferro.func.linearize(lambda x: x * x, ferro.tensor(3.0))
        >>> derivative(ferro.tensor(1.0)), derivative(ferro.tensor(2.0))
        (tensor(6.), tensor(12.))
    """
    recording = _mode.is_grad_enabled()
    with Transform("linearize", func, hooks=True) as transform:
        full = tree_map(transform.follow, primals)
        outputs, out_structure = flatten(func(*full))
        xs, structure = flatten(full)
        roots = [
            o for o in outputs if isinstance(o, TensorBase) and history(o) is not None and o._data.dtype in INEXACT
        ]
        seeds = [transform.leaf(backend.beside(o._data, np.zeros(o._data.shape, o._data.dtype))) for o in roots]
        pulled: Any = (
            _grad(roots, xs, seeds, create_graph=True, allow_unused=True) if roots and xs else [None] * len(xs)
        )
    foreign = Foreign()
    value = unflatten(out_structure, [settled(o, foreign, recording) for o in outputs])

    def derivative(*tangents: Any) -> Any:
        ts, tangent_structure = flatten(tangents)
        if tangent_structure != structure:
            raise RuntimeError(
                f"linearize: expected the tangents to be nested as the primals are, {structure}, got {tangent_structure}"
            )
        for i, (t, x) in enumerate(zip(ts, xs, strict=True)):
            if not isinstance(t, TensorBase) or (t._data.shape, t._data.dtype) != (x._data.shape, x._data.dtype):
                got = (
                    f"{t._data.dtype} of shape {list(t._data.shape)}" if isinstance(t, TensorBase) else type(t).__name__
                )
                raise RuntimeError(
                    f"linearize: expected tangent {i} to be like its primal, {x._data.dtype} of shape "
                    f"{list(x._data.shape)}, got {got}"
                )
        live = [(p, t) for p, t in zip(pulled, ts, strict=True) if p is not None and history(p) is not None]
        found: Any = [None] * len(seeds)
        if live:
            paths, directions = [p for p, _ in live], [t for _, t in live]
            create = recorded(paths) or (_mode.is_grad_enabled() and any(history(t) is not None for t in directions))
            with _mode.switched(inference=False):
                found = _grad(paths, seeds, directions, retain_graph=True, create_graph=create, allow_unused=True)
        by_root = {id(r): g for r, g in zip(roots, found, strict=True) if g is not None}
        outside = Foreign()
        moved = [by_root.get(id(o)) for o in outputs]
        return unflatten(out_structure, [_moved(o, t, outside) for o, t in zip(outputs, moved, strict=True)])

    return value, derivative


def _moved(o: Any, t: Any, foreign: Foreign) -> Any:
    """The tangent of an output: zeros where there is none; what is no tensor stays."""
    if t is not None:
        return settled(t, foreign)
    return zeros_like(o) if isinstance(o, TensorBase) else o
