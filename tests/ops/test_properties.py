"""Calls that hypothesis makes up, against PyTorch: any shape, stride, dimension, parameter; values, first and second gradients.

The pointwise calls are drawn from the declarations, with other shapes and numbers than the samples have; for the other
families the parameters are drawn too.  Where PyTorch refuses a call, ferro must refuse it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import ferro
from ferro.core.samples import Arg
from tests.helpers import compare, dtype_name, entries, flatten, lookup, to_array

seeds = st.integers(0, 2**32 - 1)
booleans = st.booleans()


class Input:
    """A tensor argument: its values and how it lies in memory."""

    def __init__(self, array: np.ndarray, layout: str, grad: bool) -> None:
        self.array, self.layout, self.grad = array, layout, grad and array.dtype.kind in "fc"

    def __repr__(self) -> str:
        return f"{self.layout} {self.array!r}"

    def tensor(self, library: Any) -> Any:
        """The argument for a library.  (PyTorch gets it contiguous: strides are what is tested here.)"""
        if library is not ferro:
            return library.from_numpy(self.array.copy())
        return library.from_numpy(LAYOUTS[self.layout](self.array))


def _every_second(a: np.ndarray) -> np.ndarray:
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype) if a.ndim else a.copy()
    if a.ndim:
        wide[..., : 2 * a.shape[-1] : 2] = a
        wide = wide[..., : 2 * a.shape[-1] : 2]
    return wide


def _backwards(a: np.ndarray) -> np.ndarray:
    return np.flip(np.flip(a).copy()) if a.ndim else a.copy()


LAYOUTS: dict[str, Any] = {
    "contiguous": np.copy,
    "fortran": lambda a: np.array(a, order="F"),
    "stepped": _every_second,
    "backwards": _backwards,
}


class Call:
    """A call of the function at `path` with arguments in which Inputs become tensors."""

    def __init__(self, path: str, args: tuple, kwargs: dict) -> None:
        self.path, self.args, self.kwargs = path, args, kwargs

    def __repr__(self) -> str:
        given = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.path}({', '.join(given)})"

    def run(self, library: Any) -> tuple[list, list]:
        """The differentiable inputs, and the tensors among the results."""
        inputs: list = []

        def convert(x: Any) -> Any:
            if isinstance(x, Input):
                t = x.tensor(library)
                if x.grad:
                    inputs.append(t.requires_grad_())
                return t
            if isinstance(x, (list, tuple)):
                return type(x)(convert(y) for y in x)
            return x

        args = [convert(a) for a in self.args]
        kwargs = {k: convert(v) for k, v in self.kwargs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = lookup(library, self.path)(*args, **kwargs)
        return inputs, [o for o in flatten(found) if hasattr(o, "detach")]


# -- what is checked ---------------------------------------------------------------------------------------------------


def check(call: Call, torch: Any) -> None:
    """Values, first and second gradients of a call agree with PyTorch's."""
    try:
        want_inputs, want = call.run(torch)
    except (RuntimeError, IndexError, ValueError, TypeError) as refusal:
        if "does not support automatic differentiation" in str(refusal):
            return  # which ferro has
        try:
            call.run(ferro)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return
        raise AssertionError(f"PyTorch refuses this: {refusal}") from None
    inputs, got = call.run(ferro)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert dtype_name(g) == dtype_name(w)
        assert g.requires_grad == w.requires_grad
        agree(g, w, "result", 1)
    rng = np.random.default_rng(0)
    pairs = [(g, w, like(w, rng)) for g, w in zip(got, want, strict=True) if w.requires_grad]
    if not pairs:
        return
    try:
        theirs = pull(torch, [w for _, w, _ in pairs], want_inputs, [v for _, _, v in pairs])
    except RuntimeError:
        return  # PyTorch fails in its own derivative (clamp of 0-d tensors, scatter of nothing)
    mine = pull(ferro, [g for g, _, _ in pairs], inputs, [v for _, _, v in pairs])
    for g, w in zip(mine, theirs, strict=True):
        agree(g, w, "gradient", 10)
    check_second(torch, inputs, mine, want_inputs, theirs, rng)


def check_second(torch: Any, inputs: list, mine: list, want_inputs: list, theirs: list, rng: Any) -> None:
    """The gradients of the gradients agree."""
    directions = [None if w is None or not w.requires_grad else like(w, rng) for w in theirs]
    live = [i for i, d in enumerate(directions) if d is not None]
    if not live:
        return
    try:
        want = pull(torch, [theirs[i] for i in live], want_inputs, [directions[i] for i in live])
    except (RuntimeError, NotImplementedError):
        return  # PyTorch has no second derivative here, or fails in it
    usable = [i for i in live if mine[i] is not None and mine[i].requires_grad]
    got = (
        pull(ferro, [mine[i] for i in usable], inputs, [directions[i] for i in usable])
        if usable
        else [None] * len(inputs)
    )
    for g, w in zip(got, want, strict=True):
        agree(g, w, "second gradient", 1000)


def like(t: Any, rng: Any) -> np.ndarray:
    """A random array like a tensor."""
    v = rng.standard_normal(tuple(t.shape))
    if dtype_name(t).startswith("complex"):
        v = v + 1j * rng.standard_normal(tuple(t.shape))
    return np.asarray(v, dtype_name(t))


def pull(library: Any, roots: list, inputs: list, vectors: list) -> list:
    """The gradients of the inputs, recorded."""
    return list(
        library.autograd.grad(
            roots, inputs, [library.from_numpy(v.copy()) for v in vectors], create_graph=True, allow_unused=True
        )
    )


def agree(got: Any, want: Any, what: str, scale: float) -> None:
    """Two tensors agree; an absent gradient is zero; where PyTorch's derivative is nan or infinite nothing is said."""
    if got is None and want is None:
        return
    w = np.zeros_like(to_array(got)) if want is None else to_array(want)
    g = np.zeros_like(w) if got is None else to_array(got)
    if what != "result":
        known = np.isfinite(w)
        assert g.shape == w.shape, f"{what}: shape {g.shape}, expected {w.shape}"
        g, w = np.where(known, g, 0), np.where(known, w, 0)
    single = dtype_name(want if want is not None else got) in ("float32", "complex64")
    compare(g, w, "float32" if single else "float64", what, scale=scale)


# -- drawing -----------------------------------------------------------------------------------------------------------


@st.composite
def shapes(draw: Any, least: int = 0, most: int = 3, smallest: int = 0) -> tuple:
    """A shape of a few dimensions; sizes of 0 are rare."""
    size = st.sampled_from([*([0] if smallest == 0 else []), *[s for s in (1, 1, 2, 2, 3, 3, 4) if s >= smallest]])
    return tuple(draw(st.lists(size, min_size=least, max_size=most)))


def numbers(rng: Any, shape: tuple, low: float, high: float, dtype: str, coarse: bool) -> np.ndarray:
    """Random numbers; `coarse` ones are multiples of 1/4, so that ties and zeros are frequent."""

    def part() -> np.ndarray:
        a = rng.uniform(low, high, shape)
        return np.clip(np.round(a * 4) / 4, low, high) if coarse else a

    return np.asarray(part() + 1j * part() if dtype.startswith("complex") else part(), dtype)


@st.composite
def tensors(
    draw: Any,
    shape: tuple,
    low: float = -2.0,
    high: float = 2.0,
    dtype: str = "float64",
    coarse: bool | None = None,
    grad: bool = True,
) -> Input:
    """An Input of a shape."""
    rng = np.random.default_rng(draw(seeds))
    ties = draw(booleans) if coarse is None else coarse
    return Input(numbers(rng, shape, low, high, dtype, ties), draw(st.sampled_from(list(LAYOUTS))), grad)


@st.composite
def whole(draw: Any, shape: tuple, low: int, high: int) -> Input:
    """An Input of indices from low to high - 1."""
    rng = np.random.default_rng(draw(seeds))
    return Input(rng.integers(low, max(high, low + 1), shape), draw(st.sampled_from(list(LAYOUTS))), False)


@st.composite
def masks(draw: Any, shape: tuple) -> Input:
    """An Input of booleans."""
    return Input(np.random.default_rng(draw(seeds)).random(shape) < 0.5, draw(st.sampled_from(list(LAYOUTS))), False)


def dim_of(shape: tuple) -> Any:
    """A dimension, counted from either end; rarely one that is not there."""
    n = max(len(shape), 1)
    return st.integers(-n, n - 1) if n > 1 else st.sampled_from([0, -1, 0, -1, 0, -1, 1])


def dims_of(shape: tuple) -> Any:
    """None, a dimension, or some of them."""
    n = max(len(shape), 1)
    several = st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n).map(tuple)
    return st.one_of(st.none(), dim_of(shape), several)


FLOATS = st.sampled_from(["float64", "float64", "float64", "complex128", "float32"])
REALS = st.sampled_from(["float64", "float64", "float32"])


def call(path: str, *args: Any, **kwargs: Any) -> Call:
    return Call(path, args, kwargs)


# -- the families ------------------------------------------------------------------------------------------------------

POINTWISE = (
    "activations",
    "arithmetic",
    "bessel",
    "comparison",
    "complex",
    "exponential",
    "polynomials",
    "rounding",
    "special",
    "trigonometric",
)


def _free(x: Any) -> bool:
    return isinstance(x, Arg) and x.values is None and x.make is None and x.dtype is None


def _pointwise() -> list:
    """The declarations of pointwise functions, with those of their samples that say nothing of a shape."""
    found = []
    for entry in entries():
        module = getattr(lookup(ferro, entry.path), "__module__", "").rsplit(".", 1)[-1]
        if (
            module not in POINTWISE
            or entry.reference != "torch"
            or entry.path.startswith("Tensor.")
            or not entry.differentiable
        ):
            continue
        samples = [
            s
            for s in entry.samples
            if s.smooth
            and s.args
            and _free(s.args[0])
            and all(_free(a) or isinstance(a, (int, float)) for a in s.args)
            and not any(isinstance(v, Arg) for v in s.kwargs.values())
        ]
        together = {len({a.shape for a in s.args if isinstance(a, Arg)}) for s in samples}
        if samples:
            found.append((entry, samples, max(together) > 1))
    return found


FROM_DECLARATIONS = _pointwise()


@st.composite
def pointwise(draw: Any) -> Call:
    """A pointwise function of operands that broadcast, over the ranges of its samples."""
    entry, samples, broadcasts = draw(st.sampled_from(FROM_DECLARATIONS))
    sample = draw(st.sampled_from(samples))
    count = sum(isinstance(a, Arg) for a in sample.args)
    if count > 1 and broadcasts:
        drawn = draw(mutually_broadcastable_shapes(num_shapes=count, min_dims=0, max_dims=3, min_side=0, max_side=3))
        sizes = list(drawn.input_shapes)
    else:
        sizes = [draw(shapes())] * count
    dtype = draw(FLOATS if entry.complex and sample.complex else REALS)
    left = iter(sizes)
    args = [
        draw(tensors(next(left), a.low, a.high, dtype, coarse=False, grad=a.grad)) if isinstance(a, Arg) else a
        for a in sample.args
    ]
    return Call(entry.path, tuple(args), dict(sample.kwargs))


@st.composite
def reduction(draw: Any) -> Call:
    """A reduction over any dimensions."""
    shape = draw(shapes())
    name = draw(
        st.sampled_from(
            [
                "sum",
                "mean",
                "prod",
                "nansum",
                "var",
                "std",
                "logsumexp",
                "amax",
                "amin",
                "aminmax",
                "max",
                "min",
                "median",
                "var_mean",
                "std_mean",
                "count_nonzero",
                "all",
                "argmax",
                "nanmean",
            ]
        )
    )
    real = name in (
        "nansum",
        "logsumexp",
        "amax",
        "amin",
        "aminmax",
        "max",
        "min",
        "median",
        "argmax",
        "all",
        "nanmean",
    )
    x = draw(
        tensors(shape, dtype=draw(REALS if real else FLOATS), coarse=False if name in ("std", "std_mean") else None)
    )
    single = name in ("prod", "max", "min", "median", "argmax")
    dim = draw(dim_of(shape) if name == "aminmax" else dim_of(shape) if single else dims_of(shape))
    keepdim = {} if name == "count_nonzero" else {"keepdim": draw(booleans)}
    if name in ("var", "std", "var_mean", "std_mean"):
        keepdim["correction"] = draw(st.sampled_from([0, 1, 0.5]))
    if name == "logsumexp" and dim is None:
        dim = tuple(range(len(shape))) or 0
    if name in ("amax", "amin") and dim is None:
        dim = ()
    return Call(name, (x,), {"dim": dim, **keepdim})


@st.composite
def scan(draw: Any) -> Call:
    """A scan along any dimension."""
    shape = draw(shapes())
    name = draw(
        st.sampled_from(
            ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "trapezoid", "cumulative_trapezoid"]
        )
    )
    complex_too = name in ("cumsum", "cumprod", "diff", "trapezoid", "cumulative_trapezoid")
    x = draw(tensors(shape, dtype=draw(FLOATS if complex_too else REALS)))
    dim = draw(dim_of(shape))
    if name == "diff":
        return call(name, x, n=draw(st.integers(0, 3)), dim=dim)
    return call(name, x, dim=dim)


@st.composite
def reshaping(draw: Any) -> Call:
    """A view, a copy or a rearrangement."""
    shape = draw(shapes(least=1))
    n = len(shape)
    x = draw(tensors(shape, dtype=draw(FLOATS)))
    d, e = draw(dim_of(shape)), draw(dim_of(shape))
    small = st.integers(-3, 3)
    total = int(np.prod(shape))
    makers: dict[str, Any] = {
        "permute": lambda: (tuple(draw(st.permutations(range(n)))),),
        "transpose": lambda: (d, e),
        "flip": lambda: (draw(st.lists(st.integers(0, n - 1), unique=True).map(tuple)),),
        "roll": lambda: (draw(small), d),
        "reshape": lambda: (draw(st.sampled_from([(-1,), (total,), (1, -1), (total, 1), (*shape[::-1],), (2, -1)])),),
        "flatten": lambda: (d, e),
        "movedim": lambda: (d, e),
        "unsqueeze": lambda: (draw(st.integers(-n - 2, n + 1)),),
        "squeeze": lambda: draw(st.sampled_from([(), (d,)])),
        "narrow": lambda: (d, draw(small), draw(st.integers(0, 2))),
        "select": lambda: (d, draw(small)),
        "tril": lambda: (draw(small),),
        "triu": lambda: (draw(small),),
        "diagonal": lambda: (draw(small), d, e),
        "diag_embed": lambda: (draw(small),),
        "tile": lambda: (draw(st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)),),
        "rot90": lambda: (draw(small), (d, e)),
        "chunk": lambda: (draw(st.integers(1, 4)), d),
        "split": lambda: (draw(st.integers(1, 3)), d),
        "tensor_split": lambda: (draw(st.sampled_from([1, 2, 3, (1, 2), (0, 3)])), d),
        "unbind": lambda: (d,),
        "repeat_interleave": lambda: (draw(st.integers(0, 3)), d),
        "Tensor.expand": lambda: (draw(st.sampled_from([(2, *shape), (-1,) * n, (0, *shape)])),),
        "Tensor.repeat": lambda: (tuple(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n + 1))),),
        "Tensor.unfold": lambda: (d, draw(st.integers(0, 3)), draw(st.integers(1, 2))),
        "nn.functional.pad": lambda: (tuple(draw(st.lists(st.integers(-1, 2), min_size=2, max_size=2))),),
        "sort": lambda: (d, draw(booleans)),
        "atleast_2d": tuple,
        "ravel": tuple,
    }
    name = draw(st.sampled_from(sorted(makers)))
    if name == "sort":
        x = draw(tensors(shape, coarse=False))
    return Call(name, (x, *makers[name]()), {})


@st.composite
def joining(draw: Any) -> Call:
    """Several tensors put together."""
    shape = draw(shapes(least=1))
    dtype = draw(FLOATS)
    name = draw(st.sampled_from(["cat", "stack", "hstack", "vstack", "dstack", "column_stack"]))
    count = draw(st.integers(1, 3))
    d = draw(dim_of(shape))
    others = []
    for _ in range(count):
        own = list(shape)
        if name == "cat" and d < len(shape):
            own[d] = draw(st.integers(0, 3))
        others.append(draw(tensors(tuple(own), dtype=dtype)))
    return Call(name, (others,), {"dim": d} if name in ("cat", "stack") else {})


@st.composite
def indexing(draw: Any) -> Call:
    """Reading and writing by index or mask."""
    shape = draw(shapes(least=1, smallest=1))
    x = draw(tensors(shape, dtype=draw(FLOATS)))
    dtype = str(x.array.dtype)
    d = draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[d]
    part = tuple(
        [draw(st.integers(0, s)) if i != d % len(shape) else draw(st.integers(0, 3)) for i, s in enumerate(shape)]
    )
    count = draw(st.integers(0, 3))
    replaced = tuple([count if i == d % len(shape) else s for i, s in enumerate(shape)])
    flat = draw(shapes(most=2))
    same = draw(tensors(shape, dtype=dtype))
    makers: dict[str, Any] = {
        "gather": lambda: (d, draw(whole(part, 0, n))),
        "scatter": lambda: (d, _distinct(draw, part, d, n), draw(tensors(part, dtype=dtype))),
        "scatter_add": lambda: (d, draw(whole(part, 0, n)), draw(tensors(part, dtype=dtype))),
        "index_select": lambda: (d, draw(whole((count,), 0, n))),
        "index_add": lambda: (d, draw(whole((count,), 0, n)), draw(tensors(replaced, dtype=dtype))),
        "index_fill": lambda: (d, draw(whole((count,), 0, n)), 1.5),
        "take": lambda: (draw(whole(flat, -x.array.size, x.array.size)),),
        "masked_select": lambda: (draw(masks(shape)),),
        "masked_fill": lambda: (draw(masks(shape[-1:])), 0.5),
        "where": lambda: (),
        "Tensor.__getitem__": lambda: (_index(draw, shape),),
        "take_along_dim": lambda: (draw(whole(replaced, 0, n)), d),
        "select_scatter": lambda: (
            draw(tensors(shape[: d % len(shape)] + shape[d % len(shape) + 1 :], dtype=dtype)),
            d,
            n - 1,
        ),
    }
    name = draw(st.sampled_from(sorted(makers)))
    if name == "where":
        return call("where", draw(masks(shape)), x, same)
    return Call(name, (x, *makers[name]()), {})


def _distinct(draw: Any, part: tuple, d: int, n: int) -> Input:
    """Indices that do not repeat along dimension d (what a repeated one writes is not determined)."""
    rng = np.random.default_rng(draw(seeds))
    keys = rng.random([n if i == d % len(part) else s for i, s in enumerate(part)])
    order = np.argsort(keys, axis=d)
    return Input(np.take(order, range(min(part[d], n)), axis=d), "contiguous", False)


def _index(draw: Any, shape: tuple) -> tuple:
    """An index of numbers, slices, None, ... and index tensors."""
    found: list = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["number", "slice", "slice", "tensor", "mask", "none"]))
        if kind == "none":
            found.append(None)
        found.append(
            {
                "number": lambda size=size: draw(st.integers(-size, size - 1)),
                "slice": lambda: slice(
                    draw(st.sampled_from([None, 0, 1, -1])),
                    draw(st.sampled_from([None, 2, -1])),
                    draw(st.sampled_from([None, 1, 2])),
                ),
                "tensor": lambda size=size: draw(whole((2,), -size, size)),
                "mask": lambda size=size: (
                    Input(np.arange(size) % 2 == 0, "contiguous", False) if size in (3, 4) else slice(None)
                ),
                "none": lambda: slice(None),
            }[kind]()
        )
    if draw(booleans):
        found.append(...)
    return tuple(found)


@st.composite
def product(draw: Any) -> Call:
    """A product of vectors, matrices or more."""
    dtype = draw(FLOATS)
    size = st.integers(0, 3)
    i, j, k, b = draw(size), draw(size), draw(size), draw(size)
    lead = draw(mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3, min_side=0)).input_shapes
    t = lambda *s: draw(tensors(s, dtype=dtype))  # noqa: E731
    makers: dict[str, Any] = {
        "matmul": lambda: draw(
            st.sampled_from(
                [
                    ((*lead[0], i, j), (*lead[1], j, k)),
                    ((j,), (*lead[1], j, k)),
                    ((*lead[0], i, j), (j,)),
                    ((j,), (j,)),
                    ((i, j), (k, j)),
                ]
            )
        ),
        "mm": lambda: ((i, j), (j, k)),
        "bmm": lambda: ((b, i, j), (b, j, k)),
        "mv": lambda: ((i, j), (j,)),
        "dot": lambda: ((i,), (i,)),
        "outer": lambda: ((i,), (j,)),
        "kron": lambda: ((i, j), draw(st.sampled_from([(k,), (k, b)]))),
        "addmm": lambda: (draw(st.sampled_from([(i, k), (k,), (1, k), ()])), (i, j), (j, k)),
        "baddbmm": lambda: ((b, i, k), (b, i, j), (b, j, k)),
        "addmv": lambda: ((i,), (i, j), (j,)),
        "addr": lambda: ((i, j), (i,), (j,)),
        "addbmm": lambda: ((i, k), (b, i, j), (b, j, k)),
        "nn.functional.linear": lambda: ((*lead[0], j), (k, j), (k,)),
        "linalg.vecdot": lambda: ((*lead[0], j), (*lead[1], j)),
        "linalg.multi_dot": lambda: ((i, j), (j, k), (k, b)),
    }
    name = draw(st.sampled_from([*sorted(makers), "einsum", "tensordot"]))
    if name == "einsum":
        return _einsum(draw, dtype)
    if name == "tensordot":
        return call(
            "tensordot", t(i, j, k), t(k, j, b), dims=draw(st.sampled_from([1, ([1, 2], [1, 0]), ([2], [0]), 0]))
        )
    operands = [t(*s) for s in makers[name]()]
    if name == "linalg.multi_dot":
        return call(name, operands)
    scaled = name.startswith(("add", "badd"))
    return Call(
        name,
        tuple(operands),
        {"beta": draw(st.sampled_from([1, 0, 0.5])), "alpha": draw(st.sampled_from([1, -2]))} if scaled else {},
    )


def _einsum(draw: Any, dtype: str) -> Call:
    """A random contraction of one to three operands, with repeated letters and an ellipsis."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcd"}
    terms = [draw(st.lists(st.sampled_from("abcd"), max_size=3)) for _ in range(draw(st.integers(1, 3)))]
    used = sorted({x for term in terms for x in term})
    out = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
    dots = draw(booleans)
    left = ",".join(("..." if dots else "") + "".join(term) for term in terms)
    equation = left + draw(st.sampled_from(["", "->" + ("..." if dots else "") + "".join(out)]))
    lead = (2,) if dots else ()
    operands = [draw(tensors((*lead, *[sizes[x] for x in term]), dtype=dtype)) for term in terms]
    return call("einsum", equation, *operands)


@st.composite
def norm(draw: Any) -> Call:
    """A norm or a distance away from zero."""
    shape = draw(shapes(least=1))
    dtype = draw(FLOATS)
    p = draw(st.sampled_from([0, 1, 1.5, 2, 2.5, 3, float("inf"), float("-inf"), -1, 0.5]))
    x = draw(tensors(shape, dtype=dtype, coarse=False))
    name = draw(
        st.sampled_from(
            [
                "norm",
                "linalg.vector_norm",
                "nn.functional.normalize",
                "dist",
                "cdist",
                "nn.functional.cosine_similarity",
                "nn.functional.pairwise_distance",
                "renorm",
                "linalg.matrix_norm",
                "nn.functional.pdist",
            ]
        )
    )
    if name in ("norm", "linalg.vector_norm"):
        return Call(name, (x, p), {"dim": draw(dims_of(shape)), "keepdim": draw(booleans)})
    if name == "nn.functional.normalize":
        return call(name, x, p, draw(dim_of(shape)))
    if name == "renorm":
        return call(
            name, x, draw(st.sampled_from([1, 2, 3])), draw(dim_of(shape)), draw(st.sampled_from([0.5, 1.0, 10.0]))
        )
    if name == "linalg.matrix_norm":
        x = draw(tensors(draw(shapes(least=2, smallest=1)), dtype=dtype, coarse=False))
        return call(name, x, draw(st.sampled_from(["fro", 1, -1, float("inf"), float("-inf")])), keepdim=draw(booleans))
    if name in ("cdist", "nn.functional.pdist"):
        n, m, d = (draw(st.integers(0, 4)) for _ in range(3))
        p = draw(st.sampled_from([0, 1, 1.5, 2, 3, float("inf")]))
        one = draw(tensors((n, d), dtype=draw(REALS), coarse=False))
        if name == "nn.functional.pdist" and n:  # (with no row PyTorch's backward kills the process)
            return call(name, one, p)
        name = "cdist"
        return call(name, one, draw(tensors((m, d), dtype=str(one.array.dtype), coarse=False)), p)
    y = draw(tensors(shape, 2.5, 4.5, dtype=dtype, coarse=False))  # (derivatives at equal points are another test's)
    if name == "dist":
        return call(name, x, y, p)
    if name == "nn.functional.pairwise_distance":
        return call(name, x, y, draw(st.sampled_from([1, 2, 3, 1.5])), keepdim=draw(booleans))
    real = [Input(v.array.real.copy(), v.layout, True) for v in (x, y)]
    return call(name, *real, dim=draw(dim_of(shape)))


@st.composite
def normalising(draw: Any) -> Call:
    """A softmax or a normalisation."""
    shape = draw(shapes(least=1))
    x = draw(tensors(shape, dtype=draw(REALS)))
    dtype = str(x.array.dtype)
    d = draw(dim_of(shape))
    name = draw(
        st.sampled_from(
            [
                "softmax",
                "log_softmax",
                "nn.functional.softmin",
                "nn.functional.layer_norm",
                "nn.functional.rms_norm",
                "group_norm",
                "nn.functional.batch_norm",
                "nn.functional.glu",
            ]
        )
    )
    if name in ("softmax", "log_softmax", "nn.functional.softmin", "nn.functional.glu"):
        return call(name, x, d)
    x = draw(tensors(shape, dtype=dtype, coarse=False))
    if name in ("nn.functional.layer_norm", "nn.functional.rms_norm"):
        inner = shape[draw(st.integers(0, len(shape) - 1)) :]
        weights = [draw(tensors(inner, dtype=dtype)) for _ in range(1 if "rms" in name else 2)]
        return call(name, x, inner, *weights, eps=0.1)
    if name == "nn.functional.batch_norm":
        x = draw(tensors(draw(shapes(least=2, smallest=1)), dtype=dtype, coarse=False))
    channels = x.array.shape[1] if x.array.ndim > 1 else 1
    weights = [draw(tensors((channels,), dtype=dtype)) for _ in range(2)]
    if name == "group_norm":  # (that of nn.functional refuses single elements in PyTorch)
        return call(name, x, draw(st.sampled_from([1, 2])), *weights, eps=0.1)
    return call(name, x, None, None, *weights, training=True, eps=0.1)


@st.composite
def loss(draw: Any) -> Call:
    """A loss function."""
    dtype = draw(REALS)
    shape = draw(shapes(least=1))
    reduction = draw(st.sampled_from(["none", "mean", "sum"]))
    x, y = draw(tensors(shape, dtype=dtype)), draw(tensors(shape, dtype=dtype))
    unit = draw(tensors(shape, 0.05, 0.95, dtype=dtype))
    makers: dict[str, Any] = {
        "mse_loss": lambda: ((x, y), {}),
        "l1_loss": lambda: ((x, y), {}),
        "smooth_l1_loss": lambda: ((x, y), {"beta": draw(st.sampled_from([1.0, 0.3]))}),
        "huber_loss": lambda: ((x, y), {"delta": draw(st.sampled_from([1.0, 0.3]))}),
        "kl_div": lambda: ((x, unit), {"log_target": draw(booleans)}),
        "binary_cross_entropy": lambda: ((unit, draw(tensors(shape, 0.0, 1.0, dtype=dtype))), {}),
        "binary_cross_entropy_with_logits": lambda: (
            (x, unit),
            {
                "weight": draw(st.one_of(st.none(), tensors(shape[-1:], 0.5, 2.0, dtype=dtype, grad=False))),
                "pos_weight": draw(st.one_of(st.none(), tensors(shape[-1:], 0.5, 2.0, dtype=dtype, grad=False))),
            },
        ),
        "poisson_nll_loss": lambda: ((x, unit), {"log_input": draw(booleans), "full": draw(booleans)}),
        "soft_margin_loss": lambda: ((x, Input(np.sign(y.array + 0.1), y.layout, False)), {}),
        "hinge_embedding_loss": lambda: ((x, Input(np.sign(y.array + 0.1), y.layout, False)), {}),
        "gaussian_nll_loss": lambda: ((x, y, draw(tensors(shape, 0.5, 2.0, dtype=dtype))), {"full": draw(booleans)}),
    }
    name = draw(st.sampled_from([*sorted(makers), "cross_entropy", "nll_loss", "multi_margin_loss"]))
    if name in makers:
        args, kwargs = makers[name]()
        return Call(f"nn.functional.{name}", args, {**kwargs, "reduction": reduction})
    return _classes(draw, name, dtype, reduction)


def _classes(draw: Any, name: str, dtype: str, reduction: str) -> Call:
    """A loss of class scores."""
    # (of no row PyTorch's multi_margin_loss returns what was in memory)
    n, c = draw(st.integers(int(name == "multi_margin_loss"), 3)), draw(st.integers(1, 4))
    rest = () if name == "multi_margin_loss" else draw(shapes(most=2, smallest=1))
    x = draw(tensors((n, c, *rest), dtype=dtype, coarse=False))
    target = draw(whole((n, *rest), 0, c))
    weight = draw(st.one_of(st.none(), tensors((c,), 0.5, 2.0, dtype=dtype, grad=False)))
    kwargs: dict = {"weight": weight, "reduction": reduction}
    if name == "multi_margin_loss":
        return Call(f"nn.functional.{name}", (x, target), {**kwargs, "p": draw(st.sampled_from([1, 2]))})
    kwargs["ignore_index"] = draw(st.sampled_from([-100, 0]))
    if name == "cross_entropy":
        kwargs["label_smoothing"] = draw(st.sampled_from([0.0, 0.1]))
        if draw(booleans):
            kwargs.pop("ignore_index")
            target = draw(tensors((n, c, *rest), 0.0, 1.0, dtype=dtype))
    return Call(f"nn.functional.{name}", (x, target), kwargs)


FAMILIES = {
    "pointwise": pointwise(),
    "reductions": reduction(),
    "scans": scan(),
    "shape": reshaping(),
    "joining": joining(),
    "indexing": indexing(),
    "products": product(),
    "norms": norm(),
    "normalising": normalising(),
    "losses": loss(),
}
EXAMPLES = {"pointwise": 300, "shape": 150, "indexing": 120, "products": 120, "norms": 120, "losses": 120}


@pytest.mark.parametrize("many", [1, pytest.param(20, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_call_agrees_with_torch(family: str, many: int, torch: Any) -> None:
    @settings(max_examples=EXAMPLES.get(family, 80) * many, suppress_health_check=list(HealthCheck))
    @given(FAMILIES[family])
    def run(drawn: Call) -> None:
        check(drawn, torch)

    run()
