"""Elementwise functions printed as CUDA C++: one kernel for each, from the expression that the loops of the CPU are printed from.

A formula is traced with a vocabulary that only names functions (expressions.py). Steps of numbers alone stand in front of the loop,
in double; the others inside, in the dtype of the arrays, of 16-bit floats in float. Each text holds two kernels: `flat`, where all
arrays have one shape and lie in C order, and `strided`, which finds the place of an element in each array by its strides, 0 where
an array is broadcast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.expressions import Symbol, trace_names
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
        "acos",
        "asin",
        "atan",
        "cos",
        "erf",
        "exp",
        "exp2",
        "expm1",
        "gelu",
        "gelu_slope",
        "log",
        "log1p",
        "log2",
        "sigmoid",
        "sin",
        "sqrt",
        "tanh",
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


def text_of(name: str, formula: Callable, arrays: int, numbers: int, dtype: str) -> str:
    """The kernels `flat` and `strided` of a formula of (xp, arrays..., numbers...); Unprintable if there are none."""
    given = [Symbol(dtype=np.dtype(np.float32)) for _ in range(arrays)]
    parameters = [Symbol() for _ in range(numbers)]
    found = trace_names(formula, *given, *parameters)
    if found is None:
        raise Unprintable(f"the formula of {name} decides by the elements")
    lines = Lines(given, parameters)
    result = lines.name(found)
    stored, computed = STORED[dtype], COMPUTED[dtype]
    reads = [f"const {stored}* a{k}" for k in range(arrays)]
    takes = ", ".join([*reads, *[f"double p{k}" for k in range(numbers)], f"{stored}* out"])
    body = [f"    {line}" for line in (*lines.inside, f"store(out + i, T({result}));")]
    loop = "  for (place i = blockIdx.x * (place)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (place)blockDim.x) {"
    flat = [f"    const T x{k} = load(a{k}[i]);" for k in range(arrays)]
    walk = [
        f"    place rest = i, {', '.join([f'at{k} = 0' for k in range(arrays)])};",
        "    for (int d = ndim - 1; d >= 0; --d) {",
        "      const place here = rest % layout[d];",
        "      rest /= layout[d];",
        *[f"      at{k} += here * layout[ndim * {k + 1} + d];" for k in range(arrays)],
        "    }",
        *[f"    const T x{k} = load(a{k}[at{k}]);" for k in range(arrays)],
    ]
    head = [f"  typedef {computed} T;", *[f"  {line}" for line in lines.before]]
    kernels = (("flat", "place n", flat), ("strided", "place n, int ndim, const place* layout", walk))
    return f"// {name}\n{HEAD}" + "".join(
        [
            "\n".join(
                [f'extern "C" __global__ void {kind}({first}, {takes}) {{', *head, loop, *reading, *body, "  }\n}\n"]
            )
            for kind, first, reading in kernels
        ]
    )


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
        raise Unprintable(f"no kernel computes {function}: the functions that are known are {sorted(CALLS)}")
