"""Sums of the exponentials of a row, by whole registers of which the last may be partly filled.

LLVM leaves what is behind the last whole turn of a loop to a loop over single numbers. In a row of 103 that takes as long
as half of all others. For float32 the loop is written as LLVM code here; float64 has LLVM's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import overload

from ferro.cpu.kernels.jit_math import exp
from ferro.cpu.kernels.jit_vectors import Code, i64, in_llvm
from ferro.native.jit import _INSIDE, reduction

_WORD = ir.IntType(32)
_OPTIONS: Any = _INSIDE


class _Exponentials(Code):
    """exp of vectors of float32 that are not above 0, number by number what `exp` of jit_math.py is."""

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [float(np.float32(value))] * self.lanes)

    def integers(self, value: int) -> Any:
        return ir.Constant(ir.VectorType(_WORD, self.lanes), [value] * self.lanes)

    def muladd(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self.fma, [a, b, c])

    def exp(self, x: Any) -> Any:
        builder, constant, whole = self.builder, self.constant, self.constant(12582912.0)
        c = builder.select(builder.fcmp_ordered("<", x, constant(-104.0)), constant(-104.0), x)
        t = self.muladd(c, constant(1.4426950408889634), whole)
        n = builder.fsub(t, whole)
        r = self.muladd(n, constant(-0.693359375), c)
        r = self.muladd(n, constant(2.12194440e-4), r)
        p = self.polynomial(r)
        tiny = builder.fcmp_ordered("<", c, constant(-86.0))
        kind = ir.VectorType(_WORD, self.lanes)
        power = builder.shl(builder.bitcast(t, kind), self.integers(23))
        power = builder.add(power, builder.select(tiny, self.integers(64 << 23), self.integers(0)))
        y = builder.bitcast(builder.add(builder.bitcast(p, kind), power), self.vector)
        # (Where e^x is 0, as in masked places, it is multiplied by 0: a product that underflows takes 100 cycles.)
        small = builder.select(builder.fcmp_ordered(">", c, constant(-104.0)), constant(2.0**-64), constant(0.0))
        y = builder.fmul(y, builder.select(tiny, small, constant(1.0)))
        return builder.select(builder.fcmp_ordered("<=", x, constant(0.0)), y, x)  # infinity and nan are their own

    def summand(self, x: Any) -> Any:
        """The same to be added to 1, in half of the time: e^-86 for all that is below (too small to be seen), nan for nan."""
        builder, constant = self.builder, self.constant
        whole = constant(12582912.0 + 127)  # (the exponent of a float32 is kept with 127 added)
        c = builder.select(builder.fcmp_unordered("<", constant(-86.0), x), x, constant(-86.0))
        t = self.muladd(c, constant(1.4426950408889634), whole)
        n = builder.fsub(t, whole)
        p = self.polynomial(self.muladd(n, constant(2.12194440e-4), self.muladd(n, constant(-0.693359375), c)))
        power = builder.shl(builder.bitcast(t, ir.VectorType(_WORD, self.lanes)), self.integers(23))
        return builder.fmul(p, builder.bitcast(power, self.vector))

    def polynomial(self, r: Any) -> Any:
        """e^r between -0.35 and 0.35."""
        p = self.constant(0.00138131795)
        for term in (0.00836941883, 0.0416684562, 0.166665148, 0.499999931, 1.0, 1.0):
            p = self.muladd(p, r, self.constant(term))
        return p

    def total(self, vector: Any) -> Any:
        """The sum of a vector's numbers."""
        while vector.type.count > 1:
            half = vector.type.count // 2
            low, high = [self.shuffled(vector, vector, list(range(k, k + half))) for k in (0, half)]
            vector = self.builder.fadd(low, high)
        return self.builder.extract_element(vector, _WORD(0))


def _exponentials(_typing: Any, x: Any, top: Any, out: Any) -> Any:
    """out = exp(x - top), unless `out` is None, and the sum."""
    signature = x.dtype(x, top, out)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        code = _Exponentials(context, builder, x.dtype)
        source = code.data(x, args[0])
        target = None if out == types.none else code.data(out, args[2])
        exp = code.summand if target is None else code.exp
        given = context.make_array(x)(context, builder, args[0])
        size, shift = cgutils.unpack_tuple(builder, given.shape)[0], code.spread(args[1])
        whole = builder.and_(size, i64(-code.lanes))
        sums = cgutils.alloca_once_value(builder, code.zero)
        with cgutils.for_range_slice(builder, i64(0), whole, i64(code.lanes), inc=True) as (at, _):
            e = exp(builder.fsub(code.load(source, at), shift))
            if target is not None:
                code.store(e, target, at)
            builder.store(builder.fadd(builder.load(sums), e), sums)
        with builder.if_then(builder.icmp_signed("<", whole, size)):
            filled = code.mask(builder.sub(size, whole))
            e = exp(builder.fsub(code.load(source, whole, mask=filled), shift))
            if target is not None:
                code.store(e, target, whole, mask=filled)
            builder.store(builder.fadd(builder.load(sums), builder.select(filled, e, code.zero)), sums)
        return code.total(builder.load(sums))

    return signature, generate


_by_registers: Any = in_llvm(_exponentials)


@reduction
def _exp_into(x, top, out):
    for j in range(x.size):
        out[j] = exp(x[j] - top)
    # (In a loop of its own: where one writes, LLVM may add in another order for arrays that lie close to each other.)
    total = x.dtype.type(0)
    for j in range(x.size):
        total += out[j]
    return total


@reduction
def _exp_within(x, top):
    total = x.dtype.type(0)
    for j in range(x.size):
        e = exp(x[j] - top)
        x[j] = e
        total += e
    return total


@reduction
def _sum_of_exp(x, top):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += exp(x[j] - top)
    return total


def exp_into(x: Any, top: Any, out: Any) -> Any:
    """out = exp(x - top), and its sum, where no number of x is above `top` but infinity; out is another array than x."""
    return _exp_into(x, top, out)


def exp_within(x: Any, top: Any) -> Any:
    """The same with x as the result: LLVM finds vectors only where it sees one array, or two that lie apart."""
    return _exp_within(x, top)


def sum_of_exp(x: Any, top: Any) -> Any:
    """The sum of exp(x - top), likewise, where one of the summands is 1 or nan."""
    return _sum_of_exp(x, top)


@overload(exp_into, jit_options=_OPTIONS)
def _choose_exp_into(x, top, out):
    if x.dtype.bitwidth == 32:
        return lambda x, top, out: _by_registers(x, top, out)
    return lambda x, top, out: _exp_into(x, top, out)


@overload(exp_within, jit_options=_OPTIONS)
def _choose_exp_within(x, top):
    if x.dtype.bitwidth == 32:
        return lambda x, top: _by_registers(x, top, x)
    return lambda x, top: _exp_within(x, top)


@overload(sum_of_exp, jit_options=_OPTIONS)
def _choose_sum_of_exp(x, top):
    if x.dtype.bitwidth == 32:
        return lambda x, top: _by_registers(x, top, None)
    return lambda x, top: _sum_of_exp(x, top)
