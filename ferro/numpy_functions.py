"""NumPy's functions on tensors: what ``np.sqrt(x)``, ``array * x`` and ``np.concatenate([x, x])`` do.

Tensors without history are computed by NumPy itself, with NumPy's dtypes, as in PyTorch: ufuncs give tensors, most other
functions arrays.  A ufunc of tensors that are being recorded (or batched by vmap, or dual) becomes the operation of ferro
that `OPERATIONS` names, in the dtypes that NumPy would take; where there is none it refuses, as PyTorch does for all of them.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import TensorBase, wrap
from ferro.core.history import history
from ferro.core.mode import is_grad_enabled
from ferro.core.operands import of_array
from ferro.core.tangents import tangents_of

# The functions of ferro that compute a ufunc, where they bear another name.
OPERATIONS = {
    np.absolute: "abs",
    np.fabs: "abs",
    np.rint: "round",
    np.conjugate: "conj",
    np.degrees: "rad2deg",
    np.radians: "deg2rad",
    np.divide: "true_divide",
    np.power: "pow",
    np.not_equal: "ne",
    np.equal: "eq",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.arccos: "acos",
    np.arccosh: "acosh",
    np.arcsin: "asin",
    np.arcsinh: "asinh",
    np.arctan: "atan",
    np.arctanh: "atanh",
    np.arctan2: "atan2",
}
SAME_NAME = (
    "add",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "exp",
    "exp2",
    "expm1",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "positive",
    "rad2deg",
    "reciprocal",
    "remainder",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
)
OPERATIONS.update({getattr(np, name): name for name in SAME_NAME})
# SciPy's ufuncs by their names there (they are looked at only once SciPy is loaded).
SPECIAL = {
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": "erfcx",
    "erfinv": "erfinv",
    "expit": "expit",
    "logit": "logit",
    "gammaln": "gammaln",
    "digamma": "digamma",
    "psi": "digamma",
    "entr": "entr",
    "ndtr": "ndtr",
    "ndtri": "ndtri",
    "log_ndtr": "log_ndtr",
    "i0": "i0",
    "i0e": "i0e",
    "i1": "i1",
    "i1e": "i1e",
    "xlogy": "xlogy",
    "xlog1py": "xlog1py",
    "exp2": "exp2",
    "expm1": "expm1",
    "log1p": "log1p",
    "log_expit": "nn.functional.logsigmoid",
}
REDUCTIONS = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "amax",
    np.minimum: "amin",
    np.logical_and: "all",
    np.logical_or: "any",
    np.logaddexp: "logsumexp",
}
SCANS = {
    np.add: "cumsum",
    np.multiply: "cumprod",
    np.maximum: "cummax",
    np.minimum: "cummin",
    np.logaddexp: "logcumsumexp",
}
# The operators behind which stand ufuncs: NumPy calls these where an array or a number of its own is in front.
OPERATORS = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.matmul: operator.matmul,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}
COMPARISONS = frozenset((np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal))

# What to write instead of a function of NumPy's that makes arrays, where a tensor is being recorded.
INSTEAD = {
    "append": "cat",
    "argsort": "argsort",
    "atleast_1d": "atleast_1d",
    "atleast_2d": "atleast_2d",
    "broadcast_to": "broadcast_to",
    "column_stack": "column_stack",
    "concatenate": "cat",
    "cov": "cov",
    "cross": "cross",
    "cumprod": "cumprod",
    "diag": "diag",
    "diagonal": "diagonal",
    "diff": "diff",
    "dot": "dot",
    "dstack": "dstack",
    "einsum": "einsum",
    "expand_dims": "unsqueeze",
    "flip": "flip",
    "gradient": "gradient",
    "hstack": "hstack",
    "inner": "inner",
    "interp": "searchsorted",
    "kron": "kron",
    "median": "quantile",
    "meshgrid": "meshgrid",
    "moveaxis": "movedim",
    "nan_to_num": "nan_to_num",
    "nanmean": "nanmean",
    "nansum": "nansum",
    "outer": "outer",
    "pad": "nn.functional.pad",
    "percentile": "quantile",
    "quantile": "quantile",
    "ravel": "ravel",
    "repeat": "repeat_interleave",
    "reshape": "reshape",
    "roll": "roll",
    "sort": "sort",
    "split": "tensor_split",
    "stack": "stack",
    "swapaxes": "swapaxes",
    "take": "take",
    "tensordot": "tensordot",
    "tile": "tile",
    "trace": "trace",
    "transpose": "permute",
    "trapezoid": "trapezoid",
    "tril": "tril",
    "triu": "triu",
    "unwrap": "atan2",
    "vdot": "vdot",
    "vstack": "vstack",
    "where": "where",
    "zeros_like": "zeros_like",
    "ones_like": "ones_like",
    "full_like": "full_like",
    "empty_like": "empty_like",
    "det": "linalg.det",
    "eigh": "linalg.eigh",
    "inv": "linalg.inv",
    "norm": "linalg.norm",
    "pinv": "linalg.pinv",
    "qr": "linalg.qr",
    "solve": "linalg.solve",
    "svd": "linalg.svd",
    "fft": "fft.fft",
    "ifft": "fft.ifft",
    "rfft": "fft.rfft",
    "irfft": "fft.irfft",
}
GONE = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."


def followed(x: Any) -> bool:
    """Whether something would be lost if NumPy computed with the numbers of a tensor: history, tangents, other slices."""
    return isinstance(x, TensorBase) and (
        type(x._data) is not np.ndarray or bool(tangents_of(x)) or (history(x) is not None and is_grad_enabled())
    )


def on_ufunc(ufunc: Any, method: str, inputs: tuple, kwargs: dict) -> Any:
    """``Tensor.__array_ufunc__``: a ufunc, or its method `reduce`, `accumulate`, `outer`, ... of inputs among which are tensors."""
    if any(isinstance(x, TensorBase) for x in kwargs.get("out", ())):
        raise TypeError(
            f"return arrays must be of ArrayType: np.{ufunc.__name__}(out=) takes no tensor; a function of ferro does, and so does "
            "x[...] = result"
        )
    if method == "__call__" and not kwargs and ufunc in OPERATORS:
        first, second = inputs
        if isinstance(first, np.generic):
            return OPERATORS[ufunc](first.item(), second)
        if ufunc in COMPARISONS and isinstance(first, np.ndarray):
            # (np.less(x, y) gives bytes of 0 and 1 in PyTorch, where the array cannot be in front of an operator)
            return OPERATORS[ufunc](of_array(ufunc.__name__, first), second)
    given = [*inputs, kwargs.get("where")]
    if not any(map(followed, given)):
        return _of_arrays(getattr(ufunc, method), inputs, kwargs)
    compute = _operation(ufunc, method)
    if compute is None or kwargs.get("out"):
        raise RuntimeError(_refusal(ufunc, method, bool(kwargs.get("out"))))
    made = compute(ufunc, inputs, kwargs)
    return made.to(dtypes.uint8) if made.dtype is dtypes.bool_ else made


def on_function(function: Callable, args: tuple, kwargs: dict) -> Any:
    """``Tensor.__array_function__``: any other function of NumPy's; what PyTorch leaves silent or obscure is mended."""
    rule = RULES.get(function)
    if rule is not None:
        return rule(*args, **kwargs)
    plain: Any = function
    try:
        return plain._implementation(*args, **kwargs)
    except RuntimeError as error:
        instead = INSTEAD.get(function.__name__)
        if instead is None or str(error) != GONE:
            raise
        raise RuntimeError(
            f"{GONE} Or use ferro.{instead}, which has a gradient: np.{function.__name__} makes an array."
        ) from None


# -- ufuncs of tensors without history ------------------------------------------------------------------------------------


def _of_arrays(compute: Callable, inputs: tuple, kwargs: dict) -> Any:
    """What NumPy computes of the arrays of the tensors, as tensors (an array given as `out` is returned as it is)."""
    if "where" in kwargs:
        kwargs["where"] = np.asarray(kwargs["where"])
    made: Any = compute(*(np.asarray(x) if isinstance(x, TensorBase) else x for x in inputs), **kwargs)
    if "out" in kwargs or made is None or compute.__name__ == "outer":  # (of which PyTorch makes an array)
        return made
    return tuple(map(as_tensor, made)) if isinstance(made, tuple) else as_tensor(made)


def as_tensor(made: Any) -> Any:
    """What a function of NumPy's made of a tensor, as a tensor; booleans, as in PyTorch, as bytes of 0 and 1."""
    array = np.asarray(made)
    return wrap(dtypes.own(array.astype(np.uint8) if array.dtype == np.bool_ else array))


# -- ufuncs of recorded tensors -------------------------------------------------------------------------------------------


def _refusal(ufunc: Any, method: str, out: bool) -> str:
    name = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
    if out:
        return f"{GONE} {name}(out=) writes into an array, which has no history."
    known = _named(ufunc) if method == "__call__" else ""
    return f"{GONE} {name} has no operation of ferro's{f' but {known}' if known else ''} that a gradient could follow."


def _named(ufunc: Any) -> str | None:
    """The name of the function of ferro that computes a ufunc."""
    name = OPERATIONS.get(ufunc)
    special = sys.modules.get("scipy.special")
    if name is None and getattr(special, ufunc.__name__, None) is ufunc:
        name = SPECIAL.get(ufunc.__name__)
        name = name if name is None or "." in name else f"special.{name}"
    return name


def _function(name: str) -> Callable:
    """A public function of ferro."""
    return operator.attrgetter(name)(sys.modules["ferro"])


def _operation(ufunc: Any, method: str) -> Callable[[Any, tuple, dict], Any] | None:
    """What computes a method of a ufunc on tensors, given the ufunc, its inputs and keywords; None if nothing does."""
    forms = {
        "__call__": (_named, _called),
        "reduce": (REDUCTIONS.get, _reduced),
        "accumulate": (SCANS.get, _accumulated),
    }
    find, form = forms.get(method, (lambda _: None, None))
    name = find(ufunc)
    return None if name is None or form is None else lambda u, inputs, kwargs: form(u, _function(name), inputs, kwargs)


def _tensor(x: Any, dtype: Any = None) -> Any:
    """An operand as a tensor, of a dtype if one is given."""
    t = of_array("NumPy's function", x) if isinstance(x, (np.ndarray, np.generic)) else _function("as_tensor")(x)
    return t if dtype is None else t.to(dtypes.from_numpy(dtype))


def _called(ufunc: Any, function: Callable, inputs: tuple, kwargs: dict) -> Any:
    """The function of the inputs, in the dtypes in which NumPy would compute."""
    wanted = _dtype_only(ufunc, kwargs)
    if wanted is None:
        own = [type(x) if type(x) in (int, float, complex) else _tensor(x)._data.dtype for x in inputs]
        found = ufunc.resolve_dtypes((*own, *[None] * ufunc.nout))
    else:
        found = [wanted] * len(inputs)
    return function(*map(_tensor, inputs, found))


def _dtype_only(ufunc: Any, kwargs: dict, *also: str) -> Any:
    """The `dtype` among the keywords; TypeError for keywords other than it and `also`."""
    strange = [k for k in kwargs if k not in ("dtype", *also)]
    if strange:
        raise TypeError(
            f"np.{ufunc.__name__} of a tensor that requires grad takes no {strange[0]}=; use the function of ferro's own"
        )
    return None if kwargs.get("dtype") is None else np.dtype(kwargs["dtype"])


def _axes(axis: Any, x: Any) -> tuple[int, ...]:
    """The dimensions that an argument `axis` stands for."""
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (operator.index(axis),)


def _reduced(ufunc: Any, function: Callable, inputs: tuple, kwargs: dict) -> Any:
    """A reduction along some dimensions, the first by default."""
    x = _tensor(inputs[0], _dtype_only(ufunc, kwargs, "axis", "keepdims"))
    axes = _axes(inputs[1] if len(inputs) > 1 else kwargs.get("axis", 0), x)
    keepdim = bool(kwargs.get("keepdims", False))
    if ufunc is not np.multiply:
        return function(x, axes, keepdim=keepdim) if axes else x
    for a in sorted((a % x.ndim for a in axes), reverse=True):  # `prod` takes one dimension at a time
        x = function(x, a, keepdim=keepdim)
    return x


def _accumulated(ufunc: Any, function: Callable, inputs: tuple, kwargs: dict) -> Any:
    """A scan along a dimension, the first by default."""
    x = _tensor(inputs[0], _dtype_only(ufunc, kwargs, "axis"))
    made = function(x, inputs[1] if len(inputs) > 1 else kwargs.get("axis", 0))
    return made[0] if isinstance(made, tuple) else made  # (cummax has indices, too)


# -- other functions ------------------------------------------------------------------------------------------------------


def _spread(name: str) -> Callable:
    """np.std or np.var: of the population (ddof=0), unlike ferro's functions of these names."""

    def rule(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: Any = False,
        **others: Any,
    ) -> Any:
        if out is not None or others or not isinstance(a, TensorBase):
            raise TypeError(
                f"np.{name} of a tensor takes axis, dtype, ddof and keepdims; take np.{name}(x.numpy(), ...)"
            )
        x: Any = a if dtype is None else a.to(dtypes.from_numpy(np.dtype(dtype)))  # type: ignore[attr-defined]
        if x._data.dtype not in dtypes.INEXACT:
            x = x.double()
        keep = False if keepdims is np._NoValue else keepdims
        return _function(name)(x, None if axis is None else _axes(axis, x), correction=ddof, keepdim=keep)

    return rule


def _size(a: Any, axis: Any = None) -> int:
    """The number of elements, of which NumPy asks an attribute that is a method of tensors."""
    return math.prod(a.shape) if axis is None else math.prod(a.shape[i] for i in _axes(axis, a))


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and numbers are equal; of recorded tensors, too, where NumPy says False of all."""
    first, second = (x.detach().numpy() if isinstance(x, TensorBase) else x for x in (a1, a2))  # type: ignore[attr-defined]
    return np.array_equal(first, second, equal_nan=equal_nan)


RULES: dict[Callable, Callable] = {
    np.std: _spread("std"),
    np.var: _spread("var"),
    np.size: _size,
    np.array_equal: _array_equal,
}
