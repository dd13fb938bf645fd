"""NumPy's functions, ufuncs and methods of batched arrays: what code that calls NumPy itself comes to by NumPy's protocols."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ferro.batched.array import (
    IN_PLACE,
    Batched,
    NotPlain,
    aligned,
    batch,
    by,
    fronted,
    has,
    is_array,
    top,
)
from ferro.batched.levels import Level
from ferro.batched.rules import call, loop, rebatched

FUNCTIONS: dict[Any, Callable] = {}


def _ufunc(x: Batched, f: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """A ufunc, or one of its methods, of arguments some of which are batched."""
    out = kwargs.pop("out", None)
    level: Any = top((args, out))
    where = kwargs.get("where", True)
    if method == "at":
        raise NotPlain(IN_PLACE)
    if method != "__call__":
        result = loop(f"numpy.{f.__name__}.{method}", getattr(f, method), level, args, kwargs)
    elif f is np.matmul:
        result = call("matmul", *args)
    elif f.signature is not None:
        result = loop(f"numpy.{f.__name__}", partial(by, f), level, args, kwargs)
    else:
        operands = (*args, where)
        ndim = max([a.ndim for a in operands if is_array(a)])
        *given, mask = [aligned(a, level, ndim) for a in operands]
        if where is not True:
            kwargs["where"] = mask
        target = out[0] if out is not None and len(out) == 1 else None
        if type(target) is Batched and target.level is level and target.dtype is not None and where is True:
            if np.broadcast_shapes(*[a.shape for a in args if hasattr(a, "shape")]) != target.shape:
                raise ValueError(f"operands cannot be broadcast to the shape {list(target.shape)} of the result")
            by(f, *[_as_wide(a, level, target.physical.ndim) for a in args], out=_one(target.physical), **kwargs)
            return target
        result = rebatched(by(f, *given, **kwargs), level)
    if out is None:
        return result
    for target, value in zip(out, result if type(result) is tuple else (result,), strict=True):
        by(np.copyto, target, value, casting="same_kind", where=where)
    return out[0] if len(out) == 1 else out


def _one(target: Any) -> Any:
    """The result of a ufunc as its `out` takes it: CuPy's takes an array, and no tuple."""
    return (target,) if type(target) in (np.ndarray, Batched) else target


def _as_wide(a: Any, level: Level, ndim: int) -> Any:
    return aligned(a, level, ndim - 1)


def _function(x: Batched, f: Any, types: Any, args: tuple, kwargs: dict) -> Any:
    """A function of NumPy of arguments some of which are batched."""
    found = FUNCTIONS.get(f)
    if found is not None:
        return found(*args, **kwargs)
    if "out" in kwargs:
        raise NotPlain(IN_PLACE)
    level: Any = top((args, tuple(kwargs.values())))
    return loop(f"numpy.{f.__name__}", partial(by, f), level, args, kwargs)


def _method(x: Batched, name: str) -> Any:
    """A method of NumPy's arrays, of a batched one."""
    if name.startswith("__") or not hasattr(np.ndarray, name):
        raise AttributeError(f"batched arrays have no attribute {name!r}")
    found = METHODS.get(name)
    if found is not None:
        return lambda *args, **kwargs: found(x, *args, **kwargs)
    if name in ("real", "imag"):
        return batch(getattr(x.physical, name), x.level)
    if name in _CHANGING:
        raise NotPlain(f"vmap: {name}() of an array changes it in place and has no batching rule")
    return lambda *args, **kwargs: loop(
        f"ndarray.{name}", lambda a, *rest, **more: getattr(a, name)(*rest, **more), x.level, (x, *args), kwargs
    )


Batched.__array_ufunc__, Batched.__array_function__, Batched.__getattr__ = _ufunc, _function, _method

_CHANGING = (
    "sort",
    "partition",
    "put",
    "resize",
    "setfield",
    "setflags",
    "itemset",
    "byteswap",
    "dump",
    "tofile",
    "data",
    "flat",
    "getfield",
)


# -- rules -------------------------------------------------------------------------------------------------------------


def rule_of(*functions: Any) -> Callable:
    def enter(rule: Callable) -> Callable:
        for f in functions:
            FUNCTIONS[f] = rule
        return rule

    return enter


def _elementwise(f: Any) -> None:
    def rule(*args: Any, **kwargs: Any) -> Any:
        level: Any = top(args)
        ndim = max([a.ndim for a in args if is_array(a)])
        return rebatched(by(f, *[aligned(a, level, ndim) for a in args], **kwargs), level)

    FUNCTIONS[f] = rule


for _f in (
    np.where,
    np.nan_to_num,
    np.angle,
    np.sinc,
    np.isclose,
    np.real,
    np.imag,
    np.around,
    np.round,
    np.i0,
    np.isneginf,
    np.isposinf,
    np.isreal,
    np.iscomplex,
    np.fix,
):
    _elementwise(_f)


@rule_of(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    if a_min is not None:
        a = by(np.maximum, a, a_min)
    return a if a_max is None else by(np.minimum, a, a_max)


def _axes(x: Batched, axis: Any) -> Any:
    """The axes of a reduction, in `physical`: None means all of a slice."""
    n = x.ndim
    if axis is None:
        return tuple(range(1, n + 1))
    if isinstance(axis, tuple):
        return tuple([a + 1 if a >= 0 else a for a in axis])
    if not n:
        raise np.exceptions.AxisError(axis, 0)
    return axis + 1 if axis >= 0 else axis


def _reduction(f: Any) -> None:
    def rule(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(a) is not Batched or kwargs.get("out") is not None or top((args, tuple(kwargs.values()))):
            return loop(f"numpy.{f.__name__}", f, top((a, args, tuple(kwargs.values()))), (a, axis, *args), kwargs)  # type: ignore[arg-type]
        if a.level.size == 0 and f in (np.min, np.max):
            raise RuntimeError(f"numpy.{f.__name__}: no reduction over a batch without slices")
        return batch(by(f, a.physical, _axes(a, axis), *args, **kwargs), a.level)

    FUNCTIONS[f] = rule


for _f in (
    np.sum,
    np.prod,
    np.mean,
    np.any,
    np.all,
    np.min,
    np.max,
    np.amin,
    np.amax,
    np.count_nonzero,
    np.var,
    np.std,
):
    _reduction(_f)


def _along(f: Any, default: int | None = None) -> None:
    """A function along one axis (None: of the flattened slice)."""

    def rule(a: Any, axis: Any = default, **kwargs: Any) -> Any:
        p = a.physical
        if axis is None or not a.ndim:
            p, axis = p.reshape((len(p), -1)), 0
        return batch(by(f, p, axis=axis + 1 if axis >= 0 else axis, **kwargs), a.level)

    FUNCTIONS[f] = rule


for _f in (np.argmax, np.argmin, np.cumsum, np.cumprod):
    _along(_f)
_along(np.argsort, -1)


@rule_of(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    n = a.ndim
    axes = tuple(range(n))[::-1] if axes is None else [d % n for d in axes]
    return batch(a.physical.transpose((0, *[d + 1 for d in axes])), a.level)


@rule_of(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    n = a.ndim
    return batch(a.physical.swapaxes(axis1 % n + 1, axis2 % n + 1), a.level)


@rule_of(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    n = a.ndim
    shifted = [tuple([d % n + 1 for d in (v if isinstance(v, (tuple, list)) else (v,))]) for v in (source, destination)]
    return batch(by(np.moveaxis, a.physical, *shifted), a.level)


@rule_of(np.reshape)
def _reshape(a: Any, shape: Any, order: Any = "C", **kwargs: Any) -> Any:
    if order != "C":
        return loop("numpy.reshape", np.reshape, a.level, (a, shape, order), {})
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if -1 in shape and 0 in a.physical.shape:  # NumPy cannot divide by the size of the batch
        known = 1
        for s in shape:
            known *= s if s != -1 else 1
        shape = tuple([(a.size // known if known else 0) if s == -1 else s for s in shape])
    return batch(a.physical.reshape((a.level.size, *shape)), a.level)


@rule_of(np.ravel)
def _ravel(a: Any, order: Any = "C") -> Any:
    return _reshape(a, (a.size,), order)


@rule_of(np.broadcast_to)
def _broadcast_to(a: Any, shape: Any, subok: bool = False) -> Any:
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return batch(by(np.broadcast_to, aligned(a, a.level, len(shape)), (a.level.size, *shape)), a.level)


@rule_of(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple:
    shape = np.broadcast_shapes(*[np.shape(a) for a in args])
    return tuple([by(np.broadcast_to, a, shape) for a in args])


@rule_of(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    n = a.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    axes = tuple([d % n + 1 for d in (axis if isinstance(axis, tuple) else (axis,))])
    return batch(by(np.expand_dims, a.physical, axes), a.level)


@rule_of(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    n = a.ndim
    if axis is None:
        axis = tuple([d for d in range(n) if a.shape[d] == 1])
    axes = tuple([d % n + 1 for d in (axis if isinstance(axis, tuple) else (axis,))]) if n else ()
    return batch(a.physical.squeeze(axes), a.level)


@rule_of(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    return batch(by(np.flip, m.physical, _axes(m, axis)), m.level)


@rule_of(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    found = tuple(
        [a[None] if type(a) is Batched and not a.ndim else a if type(a) is Batched else np.atleast_1d(a) for a in arys]
    )
    return found[0] if len(found) == 1 else found


@rule_of(np.stack)
def _stack(arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    arrays = list(arrays)
    level: Any = top(arrays)
    return batch(
        by(
            np.stack,
            [fronted(a if is_array(a) else np.asarray(a), level) for a in arrays],
            axis + 1 if axis >= 0 else axis,
        ),
        level,
    )


@rule_of(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, **kwargs: Any) -> Any:
    arrays = list(arrays)
    level: Any = top(arrays)
    return batch(by(np.concatenate, [fronted(a, level) for a in arrays], axis + 1 if axis >= 0 else axis), level)


def _like(f: Any, more: int) -> None:
    """numpy.zeros_like and its kind; `more` arguments stand between the array and the dtype."""

    def rule(a: Any, *args: Any, **kwargs: Any) -> Any:
        shape = kwargs.pop("shape", None)
        if shape is not None:
            kwargs["shape"] = (a.level.size, *(shape if isinstance(shape, (tuple, list)) else (shape,)))
        values = [aligned(v, a.level, a.ndim) for v in args[:more]]
        return batch(by(f, a.physical, *values, *args[more:], **kwargs), a.level)

    FUNCTIONS[f] = rule


for _f, _n in ((np.zeros_like, 0), (np.ones_like, 0), (np.empty_like, 0), (np.full_like, 1)):
    _like(_f, _n)


@rule_of(np.copy)
def _copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    p = a.physical
    return batch(np.array(p, order=order) if type(p) is np.ndarray else p.copy(), a.level)


@rule_of(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    level = top((dst, src, where))
    if not has(dst, level):  # type: ignore[arg-type]
        raise NotPlain(IN_PLACE)
    n = dst.ndim
    if is_array(src) and src.ndim > n:
        src = src.reshape(src.shape[src.ndim - n :])  # (NumPy drops leading dimensions of size 1)
    by(np.copyto, dst.physical, aligned(src, level, n), casting=casting, where=aligned(where, level, n))  # type: ignore[arg-type]


# -- methods -----------------------------------------------------------------------------------------------------------


def _sizes(args: tuple) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _astype(x: Batched, dtype: Any, *args: Any, **kwargs: Any) -> Any:
    found = x.physical.astype(dtype, *args, **kwargs)
    return x if found is x.physical else batch(found, x.level)


def _view(x: Batched, dtype: Any = None) -> Any:
    return batch(x.physical.view() if dtype is None else x.physical.view(dtype), x.level)


def _fill(x: Batched, value: Any) -> None:
    x[...] = value


METHODS: dict[str, Callable] = {
    "astype": _astype,
    "view": _view,
    "copy": lambda x, order="C": batch(x.physical.copy(), x.level),
    "fill": _fill,
    "reshape": lambda x, *shape, **kwargs: _reshape(x, _sizes(shape), **kwargs),
    "transpose": lambda x, *axes: _transpose(x, _sizes(axes) or None if x.ndim else ()),
    "swapaxes": _swapaxes,
    "squeeze": _squeeze,
    "ravel": _ravel,
    "flatten": lambda x, order="C": _copy(_ravel(x, order)),
    "conj": lambda x: by(np.conjugate, x),
    "conjugate": lambda x: by(np.conjugate, x),
    "round": lambda x, *args, **kwargs: by(np.round, x, *args, **kwargs),
    "clip": lambda x, *args, **kwargs: _clip(x, *args, **kwargs),
    "nonzero": np.nonzero,
}
for _name in ("sum", "prod", "mean", "any", "all", "min", "max", "argmax", "argmin", "cumsum", "cumprod", "var", "std"):
    METHODS[_name] = FUNCTIONS[getattr(np, _name)]
for _name in ("take", "repeat", "dot", "searchsorted", "argsort", "trace", "diagonal"):
    METHODS[_name] = lambda x, *args, name=_name, **kwargs: by(getattr(np, name), x, *args, **kwargs)
