"""Elementwise functions printed as CUDA C++: one kernel for each, from the expression that the loops of the CPU are printed from.

A formula is traced with a vocabulary that only names functions (expressions.py). Steps of numbers alone stand in front of the loop,
in double; the others inside, in the dtype of the arrays, of 16-bit floats in float. Each text holds two kernels: `flat`, where all
arrays have one shape and lie in C order, and `strided`, which finds the place of an element in each array by its strides, 0 where
an array is broadcast. `flat` reads and writes 16 bytes at once, as long as all arrays begin where that is possible.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cuda.printed_complex import COMPLEX_CALLS, COMPLEX_HEAD, COMPLEX_STORED
from ferro.expressions import Symbol, conjugate, trace_names
from ferro.loop_text import ELEMENT, NUMBER, OPERATORS, TRUTH, LoopText, Unprintable

STORED = {"float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16"}
COMPUTED = {"float32": "float", "float64": "double", "float16": "float", "bfloat16": "float"}

# In front of all kernels: how numbers are read and written, and functions that CUDA has not under these names.
HEAD = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifndef INFINITY  // NVRTC has no <math.h>
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
typedef long long place;
template <class T> __device__ inline T load(T x) { return x; }
__device__ inline float load(__half x) { return __half2float(x); }
__device__ inline float load(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void store(float* p, float x) { *p = x; }
__device__ inline void store(double* p, double x) { *p = x; }
__device__ inline void store(__half* p, float x) { *p = __float2half(x); }
__device__ inline void store(__nv_bfloat16* p, float x) { *p = __float2bfloat16(x); }
template <class T> __device__ inline T larger(T x, T y) { return x > y || x != x ? x : y; }
template <class T> __device__ inline T smaller(T x, T y) { return x < y || x != x ? x : y; }
template <class T> __device__ inline T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T> __device__ inline T normal2(T x) { return erfc(x * T(-0.7071067811865476)); }
template <class T> __device__ inline T gelu(T x) { return x * T(0.5) * normal2(x); }
template <class T> __device__ inline T gelu_slope(T x) {
  x = smaller(larger(x, T(-40)), T(40));
  return T(0.5) * normal2(x) + x * exp(x * x * T(-0.5)) * T(0.3989422804014327);
}
"""

# By the name of the array function: that of CUDA, overloaded for float and double.
CALLS = {
    name: name
    for name in [
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
        *(
            "gelu",
            "gelu_slope",
            "hypot",
            "log",
            "log10",
            "log1p",
            "log2",
            "sigmoid",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
        ),
        *("trunc", "copysign"),
    ]
}
CALLS |= {"maximum": "larger", "minimum": "smaller"}
_OPERATORS = OPERATORS | {
    operator.abs: "fabs({})",
    "abs": "fabs({})",
    operator.and_: "{} && {}",
    operator.or_: "{} || {}",
    operator.invert: "!{}",
}
_STORED = {NUMBER: "double", TRUTH: "bool", ELEMENT: "T"}
PACKED = 16  # bytes that `flat` reads at once
PACK = """template <class S> struct __align__(16) Pack { S v[16 / sizeof(S)]; };
"""


def text_of(name: str, formula: Callable, arrays: int, numbers: int, dtype: str) -> str:
    """The kernels `flat` and `strided` of a formula of (xp, arrays..., numbers...); Unprintable if there are none."""
    is_complex = dtype in COMPLEX_STORED
    given = [Symbol(dtype=np.dtype(dtype if is_complex else np.float32)) for _ in range(arrays)]
    parameters = [Symbol() for _ in range(numbers)]
    found = trace_names(formula, *given, *parameters)
    if found is None:
        raise Unprintable(f"the formula of {name} decides by the elements")
    lines = (ComplexLines if is_complex else Lines)(given, parameters)
    result = lines.name(found)
    stored = computed = COMPLEX_STORED.get(dtype, "")
    if not is_complex:
        stored, computed = STORED[dtype], COMPUTED[dtype]
    reads = [f"const {stored}* a{k}" for k in range(arrays)]
    takes = ", ".join([*reads, *[f"double p{k}" for k in range(numbers)], f"{stored}* out"])
    elements = ", ".join([f"const T x{k}" for k in range(arrays)])
    head = [f"  typedef {computed} T;", *[f"  {line}" for line in lines.before], f"  auto one = [&]({elements}) {{"]
    head += [f"    {line}" for line in (*lines.inside, f"return T({result});")]
    head += [
        "  };",
        "  const place first = blockIdx.x * (place)blockDim.x + threadIdx.x, step = gridDim.x * (place)blockDim.x;",
    ]
    top = f"// {name}\n{HEAD}{COMPLEX_HEAD if is_complex else ''}{PACK}"
    kernels = (
        ("flat", "place n", _flat(arrays, stored)),
        ("strided", "place n, int ndim, const place* layout", _strided(arrays)),
    )
    return top + "".join(
        [
            "\n".join([f'extern "C" __global__ void {kind}({first}, {takes}) {{', *head, *loops, "}\n"])
            for kind, first, loops in kernels
        ]
    )


def _flat(arrays: int, stored: str) -> list[str]:
    """The loops over elements of one place in all arrays: over packs of 16 bytes, and over what is left."""
    names = [f"a{k}" for k in range(arrays)]
    whole = ["  const place each = 16 / sizeof(S), whole = aligned ? n / each : 0;"]
    each = ", ".join([f"load(y{k}.v[j])" for k in range(arrays)])
    return [
        f"  typedef {stored} S;",
        f"  const bool aligned = ({' | '.join([f'(unsigned long long){name}' for name in (*names, 'out')])}) % 16 == 0;",
        *whole,
        "  for (place i = first; i < whole; i += step) {",
        *[f"    const Pack<S> y{k} = ((const Pack<S>*)a{k})[i];" for k in range(arrays)],
        "    Pack<S> made;",
        "#pragma unroll",
        f"    for (int j = 0; j < each; ++j) store(made.v + j, one({each}));",
        "    ((Pack<S>*)out)[i] = made;",
        "  }",
        "  for (place i = whole * each + first; i < n; i += step)",
        f"    store(out + i, one({', '.join([f'load({name}[i])' for name in names])}));",
    ]


def _strided(arrays: int) -> list[str]:
    """The loop over elements of which each array has its own place."""
    walk = [
        "  for (place i = first; i < n; i += step) {",
        f"    place rest = i, {', '.join([f'at{k} = 0' for k in range(arrays)])};",
        "    for (int d = ndim - 1; d >= 0; --d) {",
        "      const place here = rest % layout[d];",
        "      rest /= layout[d];",
        *[f"      at{k} += here * layout[ndim * {k + 1} + d];" for k in range(arrays)],
        "    }",
        f"    store(out + i, one({', '.join([f'load(a{k}[at{k}])' for k in range(arrays)])}));",
        "  }",
    ]
    return walk


class Lines(LoopText):
    """Lines of C++."""

    def number(self, value: float) -> str:
        text = repr(value)
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(text, text)

    def line(self, name: str, kind: str, text: str) -> str:
        return f"const {_STORED[kind]} {name} = {text};"

    def text(self, function: Any, operands: tuple, names: list[str], kinds: list[str]) -> str:
        if function in _OPERATORS:
            return _OPERATORS[function].format(*names)
        if function in CALLS:
            return f"{CALLS[function]}({', '.join(names)})"
        if function == "where":
            return f"{names[0]} ? T({names[1]}) : T({names[2]})"
        if function == "clamp":
            return f"smaller(larger({names[0]}, {names[1]}), {names[2]})"
        if function == "reciprocal":
            return f"1 / {names[0]}"
        if function == "rsqrt":
            return f"1 / sqrt({names[0]})"
        if function is operator.pow and ELEMENT not in kinds:
            return f"pow({names[0]}, {names[1]})"
        raise Unprintable(f"no kernel computes {function}: the functions that are known are {sorted(CALLS)}")


class ComplexLines(Lines):
    """Lines of C++ on complex elements; numbers are real."""

    def name(self, value: Any) -> str:
        name, kind = self._step(value)
        return f"T({name})" if kind is NUMBER else name

    def _step(self, value: Any) -> tuple[str, str]:
        if isinstance(value, Symbol) and value.function is conjugate and value not in self._known:
            name, kind = self._step(value.operands[0])
            self._known[value] = (f"conjugate({name})", ELEMENT) if kind is ELEMENT else (name, kind)
        return self._known[value] if isinstance(value, Symbol) and value in self._known else super()._step(value)

    def text(self, function: Any, operands: tuple, names: list[str], kinds: list[str]) -> str:
        if ELEMENT not in kinds or function in _COMPLEX_OPERATORS or function == "where":
            return super().text(function, operands, names, kinds)
        if function in COMPLEX_CALLS:
            return f"complex_{function}({', '.join(names)})"
        if function == "reciprocal":
            return f"T(1) / {names[0]}"
        if function == "rsqrt":
            return f"T(1) / complex_sqrt({names[0]})"
        raise Unprintable(f"no kernel computes {function} of complex numbers")


_COMPLEX_OPERATORS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.neg,
    operator.eq,
    operator.ne,
)
