"""One comparison of derivatives: numerical Jacobians against those of reverse and forward mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.autograd import forward_ad
from ferro.autograd.backward import grad
from ferro.autograd.directions import _element, _flat, _projected, _random, _tolerance, _unit
from ferro.autograd.function import Function
from ferro.core.backend import beside, on_host
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import COMPLEX, INEXACT
from ferro.core.history import history


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences."""


def _differentiable(outputs: Any) -> list:
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [o for o in outputs if isinstance(o, TensorBase) and o._data.dtype in INEXACT and history(o) is not None]


def _strided(t: Any) -> Any:
    data = t._data
    wide = beside(data, np.zeros((*data.shape, 2), data.dtype))
    wide[..., 0] = data
    return wrap(wide[..., 0]).requires_grad_()


class _Check:
    """One gradcheck: the function as a map between real vectors, its Jacobian by rows, columns or projections."""

    def __init__(self, func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, nondet_tol: float) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.wanted = [i for i, x in enumerate(inputs) if isinstance(x, TensorBase) and history(x) is not None]
        if not self.wanted:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
            )
        for i in self.wanted:
            x = inputs[i]
            if x._data.dtype.itemsize // (2 if x._data.dtype in COMPLEX else 1) < 8:
                warnings.warn(
                    f"gradcheck: input {i} requires gradient and is not a double precision floating point or complex (it has dtype "
                    f"{x.dtype}). Finite differences with eps={eps:g} will likely fail.",
                    UserWarning,
                    stacklevel=4,
                )
            if (
                0 in x._data.strides
                and x._data.size > 1
                and any(s == 0 and n > 1 for s, n in zip(x._data.strides, x._data.shape, strict=True))
            ):
                raise RuntimeError(
                    f"gradcheck: input {i} has a dimension with stride 0 (it was expanded), so its elements cannot be moved one by one; "
                    "use a clone() of it"
                )
        self.outputs = self._call(self.inputs)
        self.live = [i for i, o in enumerate(self.outputs) if history(o) is not None]

    def _call(self, inputs: tuple) -> list:
        outputs = self.func(*inputs)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        return [o for o in outputs if isinstance(o, TensorBase) and o._data.dtype in INEXACT]

    def run(
        self, reverse: bool, forward: bool, undefined: bool, batched: bool, dtypes: bool, fast: bool, together: bool
    ) -> None:
        """All requested checks; GradcheckError at the first that fails."""
        rng = np.random.default_rng(1234)
        if not self.live:
            self._no_graph()
        for k in self.wanted:
            if fast:
                self._projections(k, rng, reverse, forward)
                continue
            numeric = self._numeric(k)
            for j in self.live if reverse else ():
                self._same(self._reverse(j, k, dtypes), numeric[j], j, k, "Jacobian")
            for j, found in enumerate(self._forward(k) if forward else ()):
                self._same(found, numeric[j], j, k, "Jacobian computed with forward mode")
        if reverse and self.live:
            self._scaled()
        if reverse and undefined and self.live:
            self._undefined(rng)
        if forward and undefined:
            self._undefined_tangents(rng)
        if reverse and batched:
            self._batched(rng)
        if forward and together:
            self._pushed_together(rng)

    def _no_graph(self) -> None:
        for k in self.wanted:
            for j, numeric in enumerate(self._numeric(k)):
                if np.abs(numeric).max(initial=0.0) > self.atol:
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {j} changes with input {k}, "
                        "but does not require grad"
                    )

    def _entries(self, k: int) -> Iterator[tuple]:
        """Every real degree of freedom of input k, as (index, unit)."""
        data = self.inputs[k]._data
        for index in np.ndindex(data.shape):
            yield index, 1.0
            if data.dtype in COMPLEX:
                yield index, 1j

    def _moved(self, k: int, direction: Any, h: float) -> list:
        """The outputs with input k moved by h times a direction: in its memory, which the function may know otherwise too."""
        data = self.inputs[k]._data
        before = data.copy()
        data += beside(data, np.asarray(h * direction).astype(data.dtype))
        try:
            outputs = self._call(self.inputs)
            found = [np.array(on_host(o._data)) for o in outputs]
        finally:
            data[...] = before
        for j, (o, before) in enumerate(zip(outputs, self.outputs, strict=False)):
            if (
                o._data.shape != before._data.shape
                or o._data.dtype is not before._data.dtype
                or len(outputs) != len(self.outputs)
            ):
                what = "shape" if o._data.shape != before._data.shape or len(outputs) != len(self.outputs) else "dtype"
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed, but output {j} "
                    f"went from {list(before._data.shape)}, {before.dtype} to {list(o._data.shape)}, {o.dtype}"
                )
        return found

    def _differences(self, k: int, direction: Any) -> list:
        """The differences of all outputs over input k in a direction."""
        plus, minus = self._moved(k, direction, self.eps), self._moved(k, direction, -self.eps)
        return [(p - m) / (2 * self.eps) for p, m in zip(plus, minus, strict=True)]

    def _numeric(self, k: int) -> list:
        """For each output j, d out_j / d in_k as a matrix of real numbers: rows are degrees of freedom of the input."""
        return self._jacobians(k, lambda direction: self._differences(k, direction))

    def _jacobians(self, k: int, along: Callable) -> list:
        """The Jacobians of all outputs by input k from what `along` gives for each of its degrees of freedom."""
        rows: list = [[] for _ in self.outputs]
        for index, unit in self._entries(k):
            direction = np.zeros(self.inputs[k]._data.shape, np.complex128 if isinstance(unit, complex) else np.float64)
            direction[index] = unit
            for found, row in zip(rows, along(direction), strict=True):
                found.append(_flat(row))
        return [
            np.array(found).reshape(len(found), _flat(o._data).size)
            for found, o in zip(rows, self.outputs, strict=True)
        ]

    def _reverse(self, j: int, k: int, dtypes: bool) -> Any:
        """The same by one backward per real degree of freedom of the output."""
        out = self.outputs[j]
        columns = []
        for index in np.ndindex(out._data.shape):
            for unit in (1.0, 1j) if out._data.dtype in COMPLEX else (1.0,):
                v = np.zeros(out._data.shape, out._data.dtype)
                v[index] = unit
                g = self._pull(j, k, v)
                if dtypes and g is not None and g._data.dtype is not self.inputs[k]._data.dtype:
                    raise GradcheckError(
                        f"Expected the gradient of input {k} to have its dtype {self.inputs[k].dtype}, got {g.dtype}"
                    )
                columns.append(np.zeros(_flat(self.inputs[k]._data).size) if g is None else _flat(g._data))
        return np.array(columns).reshape(len(columns), _flat(self.inputs[k]._data).size).T

    def _pull(self, j: int, k: int, v: Any) -> Any:
        seed = wrap(beside(self.outputs[j]._data, v))
        (g,) = grad([self.outputs[j]], [self.inputs[k]], [seed], retain_graph=True, allow_unused=True)
        (again,) = grad([self.outputs[j]], [self.inputs[k]], [seed], retain_graph=True, allow_unused=True)
        if g is not None and np.abs(on_host(g._data) - on_host(again._data)).max(initial=0.0) > self.nondet_tol:
            raise GradcheckError(
                f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                f"different values (input {k}, output {j}). The tolerance for nondeterminism was {self.nondet_tol}."
            )
        if g is not None and g._data.shape != self.inputs[k]._data.shape:
            raise GradcheckError(
                f"the gradient of input {k} has shape {list(g._data.shape)}, expected {list(self.inputs[k]._data.shape)}"
            )
        return g

    def _push(self, k: int, direction: Any) -> list:
        """The directional derivatives of all outputs by forward mode."""
        data = self.inputs[k]._data
        given = wrap(beside(data, np.asarray(direction).astype(data.dtype)))
        return [
            np.zeros(out._data.shape, out._data.dtype) if t is None else np.array(on_host(t._data))
            for out, t in self._tangents({k: given})
        ]

    def _tangents(self, given: dict, plain: int | None = None) -> list:
        """The outputs with their tangents: every differentiable input but `plain` is dual, with the tangent given for it or zero."""
        with forward_ad.dual_level():
            inputs = list(self.inputs)
            for k in self.wanted:
                v = self.inputs[k]
                tangent = given[k] if k in given else wrap(beside(v._data, np.zeros(v._data.shape, v._data.dtype)))
                inputs[k] = v.detach() if k == plain else forward_ad.make_dual(v.detach(), tangent)
            return [forward_ad.unpack_dual(o) for o in self._call(tuple(inputs))]

    def _undefined_tangents(self, rng: np.random.Generator) -> None:
        """An absent tangent acts like zeros: of one input at a time, where the others have some."""
        given = {k: _random(self.inputs[k], rng) for k in self.wanted}
        for k in self.wanted:
            others = {i: t for i, t in given.items() if i != k}
            zero = self._tangents(others)
            absent = self._tangents(others, plain=k)
            for j, ((_, a), (_, b)) in enumerate(zip(zero, absent, strict=True)):
                if (
                    a is not None
                    and b is not None
                    and not np.allclose(on_host(a._data), on_host(b._data), self.rtol, self.atol, equal_nan=True)
                ):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {j} when input: {k} has an undefined tangent value. "
                        f"Got: {b} but expected: {a}"
                    )

    def _pushed_together(self, rng: np.random.Generator) -> None:
        """Tangents that forward mode pushes together, under vmap, agree with a loop."""
        from ferro.core.batching import over_rows

        for k in self.wanted:
            x = self.inputs[k]
            rows = [_random(x, rng) for _ in range(2)]

            def push(given: list, k: int = k) -> list:
                return [o * 0 if d is None else d for o, d in self._tangents({k: given[0]})]

            loop = [push([r]) for r in rows]
            try:
                together = over_rows(
                    push,
                    [wrap(beside(rows[0]._data, np.stack([on_host(r._data) for r in rows])))],
                    len(rows),
                    transform=False,
                )
            except RuntimeError as e:
                raise GradcheckError(
                    f"While computing batched gradients, got: {e}\n\ngradcheck or gradgradcheck failed while testing batched "
                    "forward-mode gradient computation: the function, or a jvp of its operations, does not run under vmap. "
                    "Pass check_batched_forward_grad=False to leave this out."
                ) from e
            for n, row in enumerate(loop):
                for j, (a, b) in enumerate(zip(together, row, strict=True)):
                    if not np.allclose(on_host(a._data)[n], on_host(b._data), self.rtol, self.atol):
                        raise GradcheckError(
                            f"For output {j} and input {k}: batched forward-mode gradients disagree with a loop"
                        )

    def _forward(self, k: int) -> list:
        return self._jacobians(k, lambda direction: self._push(k, direction))

    def _projections(self, k: int, rng: np.random.Generator, reverse: bool, forward: bool) -> None:
        """fast_mode: v^T J u for random unit vectors u and, of each output, v."""
        u = _unit(self.inputs[k], rng)
        vs = [_unit(out, rng) for out in self.outputs]
        numeric = [_projected(v, d) for v, d in zip(vs, self._differences(k, u), strict=True)]
        atol = [_tolerance(self.atol, u, v) for v in vs]
        for j in self.live if reverse else ():
            g = self._pull(j, k, vs[j])
            found = np.zeros((1, 1)) if g is None else _projected(u, g._data)
            self._same(found, numeric[j], j, k, "projected Jacobian", atol[j])
        for j, pushed in enumerate(self._push(k, u) if forward else ()):
            self._same(
                _projected(vs[j], pushed), numeric[j], j, k, "projected Jacobian computed with forward mode", atol[j]
            )

    def _same(self, analytic: Any, numeric: Any, j: int, k: int, what: str, atol: float | None = None) -> None:
        atol = self.atol if atol is None else atol
        if analytic.shape == numeric.shape and np.allclose(analytic, numeric, self.rtol, atol):
            return
        x, out = self.inputs[k], self.outputs[j]
        worst = ""
        if analytic.shape == numeric.shape and analytic.size:
            i, m = np.unravel_index(np.argmax(np.abs(np.nan_to_num(analytic - numeric, nan=np.inf))), analytic.shape)
            where = f" is at element {_element(int(i), x)} of the input and {_element(int(m), out)} of the output"
            where = "" if what.startswith("projected") else where
            worst = (
                f"\nThe largest difference{where}: numerical {numeric[i, m]:.10g}, analytical {analytic[i, m]:.10g} (relative tolerance "
                f"{self.rtol:g}, absolute {atol:g})."
            )
        if x._data.dtype in COMPLEX or out._data.dtype in COMPLEX:
            worst += "\nReal and imaginary parts of complex inputs and outputs count as elements of their own, in turn."
        part = ""
        if out._data.dtype in COMPLEX and analytic.shape == numeric.shape and not what.startswith("projected"):
            wrong = ~np.isclose(analytic, numeric, self.rtol, self.atol)
            which = "imaginary" if wrong[:, 1::2].any() else "real"
            part = f"While considering the {which} part of complex outputs only, "
        raise GradcheckError(
            f"{part}{what} mismatch for output {j} with respect to input {k}{worst}\nnumerical:\n{numeric}\nanalytical:\n{analytic}"
        )

    def _undefined(self, rng: np.random.Generator) -> None:
        """Absent cotangents act like zeros: all of them, one at a time, and with one output given at a time."""
        self._without(self.live)
        if len(self.live) < 2:
            return
        for j in self.live:
            self._without([j])
        targets = [self.inputs[k] for k in self.wanted]
        for j in self.live:
            vectors = [_random(self.outputs[i], rng) for i in self.live]
            zeros = [
                v if i == j else wrap(beside(v._data, np.zeros(v._data.shape, v._data.dtype)))
                for i, v in zip(self.live, vectors, strict=True)
            ]
            dense = grad([self.outputs[i] for i in self.live], targets, zeros, retain_graph=True, allow_unused=True)
            lone = grad([self.outputs[j]], targets, [vectors[self.live.index(j)]], retain_graph=True, allow_unused=True)
            for k, a, b in zip(self.wanted, dense, lone, strict=True):
                a, b = [0.0 if g is None else on_host(g._data) for g in (a, b)]
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise _undefined(
                        f"Expected backward function to handle undefined output grads: input {k}, only output {j} defined"
                    )

    def _without(self, absent: list) -> None:
        """Gradients are absent or zero where all cotangents are: those of the outputs `absent` are None, the others zero."""
        outputs = [_Undefined.apply(self.outputs[j]) if j in absent else self.outputs[j] for j in self.live]
        for k, g in zip(self.wanted, self._zeros(outputs, absent), strict=True):
            if g is not None and np.any(on_host(g._data)):
                raise _undefined(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero: the gradient of "
                    f"input {k} is not, while outputs {absent} have no gradient"
                )

    def _zeros(self, outputs: list, absent: list) -> tuple:
        zeros = [wrap(beside(o._data, np.zeros(o._data.shape, o._data.dtype))) for o in outputs]
        try:
            return grad(outputs, [self.inputs[k] for k in self.wanted], zeros, retain_graph=True, allow_unused=True)
        except (RuntimeError, TypeError, AttributeError) as e:
            if not absent:
                raise
            raise _undefined(
                f"Expected backward function to handle undefined output grads: with None for the gradients of outputs {absent} it "
                f"raised {type(e).__name__}: {e}"
            ) from e

    def _scaled(self) -> None:
        """The gradients are linear in the cotangents: zero for zeros."""
        for k, g in zip(self.wanted, self._zeros([self.outputs[j] for j in self.live], []), strict=True):
            if g is not None and np.any(on_host(g._data)):
                raise GradcheckError(
                    f"backward not multiplied by grad_output: the gradient of input {k} is not zero for zero cotangents"
                )

    def _batched(self, rng: np.random.Generator) -> None:
        targets = [self.inputs[k] for k in self.wanted]
        for j in self.live:
            rows = [_random(self.outputs[j], rng) for _ in range(2)]
            stacked = wrap(beside(rows[0]._data, np.stack([on_host(r._data) for r in rows])))
            together = grad(
                [self.outputs[j]], targets, [stacked], retain_graph=True, allow_unused=True, is_grads_batched=True
            )
            for n, row in enumerate(rows):
                alone = grad([self.outputs[j]], targets, [row], retain_graph=True, allow_unused=True)
                for k, a, b in zip(self.wanted, together, alone, strict=True):
                    if (a is None) != (b is None) or (
                        a is not None and not np.allclose(on_host(a._data)[n], on_host(b._data), self.rtol, self.atol)
                    ):
                        raise GradcheckError(f"batched gradients disagree with a loop: input {k}, output {j}")


def _undefined(text: str) -> GradcheckError:
    """The error of a backward that does not take absent cotangents, after PyTorch's notice of how to do without the check."""
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break existing "
        'callers of this function. If this is true for you, you can call this function with "check_undefined_grad=False" to disable '
        "the feature",
        UserWarning,
        stacklevel=6,
    )
    return GradcheckError(text)


class _Undefined(Function):
    """The identity, with an absent gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> None:
        return None
