"""Tests derived from the declarations: every public function x its samples x each check, against PyTorch and against itself.

forward and first and second derivatives equal PyTorch's; first derivatives agree with central differences; the reverse
and forward modes are adjoint, <v, J u> = <J^T v, u>; strides do not matter; inputs stay as they were.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import (
    Call,
    arrays_of,
    compare,
    cotangents,
    dtype_name,
    entries,
    pullback,
    rng_of,
    to_array,
)

ENTRIES = entries()
ALL = pytest.mark.parametrize("entry", ENTRIES, ids=[e.path for e in ENTRIES])
DIFFERENTIABLE = [e for e in ENTRIES if e.differentiable]
DIFF = pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=[e.path for e in DIFFERENTIABLE])


def _dtypes(entry: Any) -> list[str]:
    return ["float64", "complex128"] if entry.complex else ["float64"]


def _samples(entry: Any, dtype: str) -> list:
    return [s for s in entry.samples if s.complex or not dtype.startswith("complex")]


def _reference(entry: Any) -> Any:
    if entry.reference == "torch":
        return pytest.importorskip("torch", reason="PyTorch is the oracle of this test and is not installed")
    return None


@ALL
def test_forward_equals_the_reference(entry: Any) -> None:
    torch = _reference(entry)
    for dtype in [*_dtypes(entry), "float32"]:
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            arrays = arrays_of(sample, rng, dtype)
            kept = [a.copy() for a in arrays]
            got = Call(entry, sample, ferro, arrays, False).run()
            if not entry.path.endswith("_"):
                for a, k in zip(arrays, kept, strict=True):
                    np.testing.assert_array_equal(a, k, err_msg=f"{sample} changed its input")
            if torch is None:
                want = entry.reference(*kept)
                want = list(want) if isinstance(want, (list, tuple)) else [want]
            else:
                want = Call(entry, sample, torch, kept, False).run()
            assert len(got) == len(want), f"{sample}: {len(got)} results, expected {len(want)}"
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                if torch is not None:
                    assert dtype_name(g) == dtype_name(w), (
                        f"{sample} result {i}: dtype {dtype_name(g)}, expected {dtype_name(w)}"
                    )
                    w = to_array(w)
                compare(to_array(g), w, dtype, f"{sample} result {i}")


@ALL
def test_what_comes_out_of_a_pickle_is_taken_like_everything_else(entry: Any) -> None:
    """NumPy gives it a dtype that is equal to its own, but another object."""
    for dtype in [*_dtypes(entry)[1:], "float32"]:
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            arrays = arrays_of(sample, rng, dtype)
            again = [pickle.loads(pickle.dumps(a)) for a in arrays]
            found = []
            for given in ([a.copy() for a in arrays], again):
                ferro.manual_seed(0)
                found.append(Call(entry, sample, ferro, given, entry.differentiable).run())
            for a, b in zip(*found, strict=True):
                assert dtype_name(a) == dtype_name(b)
                np.testing.assert_array_equal(to_array(a), to_array(b), err_msg=f"{sample}")


@DIFF
def test_gradient_equals_the_reference(entry: Any) -> None:
    torch = _reference(entry)
    if torch is None:
        pytest.skip("no reference with derivatives")
    for dtype in [*_dtypes(entry), "float32"]:
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            arrays = arrays_of(sample, rng, dtype)
            found = {}
            vectors: Any = None
            for library in (torch, ferro):
                call = Call(entry, sample, library, [a.copy() for a in arrays], True)
                outputs = call.run()
                if vectors is None:
                    vectors = cotangents(outputs, rng)
                for v, o in zip(vectors, outputs, strict=True):
                    have = bool(getattr(o, "requires_grad", False))
                    assert have == (v is not None), f"{sample}: requires_grad is {have}, expected {v is not None}"
                found[library] = [None if g is None else to_array(g) for g in pullback(call, outputs, vectors)]
            for i, (g, w) in enumerate(zip(found[ferro], found[torch], strict=True)):
                if g is None and w is None:
                    continue
                g = np.zeros_like(w) if g is None else g
                w = np.zeros_like(g) if w is None else w
                compare(g, w, dtype, f"{sample} gradient {i}", scale=10)


COMPLEX = [e for e in DIFFERENTIABLE if e.complex and e.reference == "torch"]


@pytest.mark.parametrize("entry", COMPLEX, ids=[e.path for e in COMPLEX])
def test_gradients_between_complex_operations_equal_the_reference(entry: Any) -> None:
    """A real result between complex numbers: its gradient comes complex, and only the real part counts."""
    torch = _reference(entry)
    rng = rng_of(entry.path)
    for sample in _samples(entry, "complex128")[:3]:
        arrays = arrays_of(sample, rng, "complex128")
        found = {}
        for library in (torch, ferro):
            call = Call(entry, sample, library, [a.copy() for a in arrays], True, through=lambda t: t * (0.8 + 0.6j))
            outputs = [o * (1 - 2j) for o in call.run() if getattr(o, "requires_grad", False)]
            total = sum(o.real.sum() for o in outputs)
            if not call.inputs or not outputs:
                break
            grads = library.autograd.grad(total, call.inputs, allow_unused=True)
            found[library] = [None if g is None else to_array(g) for g in grads]
        for i, (g, w) in enumerate(zip(found.get(ferro, []), found.get(torch, []), strict=True)):
            if g is not None and w is not None:
                compare(g, w, "complex128", f"{sample} gradient {i}", scale=10)


@DIFF
def test_gradient_agrees_with_central_differences(entry: Any) -> None:
    for dtype in _dtypes(entry):
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            arrays = arrays_of(sample, rng, dtype)
            call = Call(entry, sample, ferro, [a.copy() for a in arrays], True)
            outputs = call.run()
            vectors = cotangents(outputs, rng)
            if not sample.smooth or not call.inputs or all(v is None for v in vectors):
                continue
            grads = pullback(call, outputs, vectors)
            directions = [_like(t, rng) for t in call.inputs]
            analytic = _inner([None if g is None else to_array(g) for g in grads], directions)
            h = 1e-6
            moved = [_shifted(entry, sample, arrays, directions, s * h) for s in (1, -1)]
            numeric = sum(
                _real_dot(v, (p - m) / (2 * h)) for v, p, m in zip(vectors, *moved, strict=True) if v is not None
            )
            size = sum(_size(v, p) for v, p in zip(vectors, moved[0], strict=True) if v is not None)
            assert abs(analytic - numeric) <= 1e-5 * (1 + abs(analytic)) + 1e-8 * size, (
                f"{sample}: {analytic} against {numeric}"
            )


def _like(t: Any, rng: np.random.Generator) -> np.ndarray:
    u = rng.standard_normal(tuple(t.shape))
    if dtype_name(t).startswith("complex"):
        u = u + 1j * rng.standard_normal(tuple(t.shape))
    return np.asarray(u)


def _real_dot(a: Any, b: Any) -> float:
    return float(np.sum(np.conj(a) * b).real)


def _size(a: Any, b: Any) -> float:
    return float(np.sum(np.abs(a) * np.abs(b)))


def _inner(gradients: list, directions: list) -> float:
    return sum(_real_dot(g, u) for g, u in zip(gradients, directions, strict=True) if g is not None)


def _shifted(entry: Any, sample: Any, arrays: list, directions: list, h: float) -> list:
    """The outputs at inputs moved by h along the directions."""
    call = Call(entry, sample, ferro, [a.copy() for a in arrays], False)
    for t, u in zip(call.inputs, directions, strict=True):
        t += ferro.from_numpy(np.asarray(h * u, to_array(t).dtype))
    return [to_array(o) for o in call.run()]


@DIFF
def test_second_order_equals_the_reference(entry: Any) -> None:
    torch = _reference(entry)
    if torch is None or entry.order < 2:
        pytest.skip(entry.why or "no reference with derivatives")
    for dtype in _dtypes(entry):
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            if not sample.twice:
                continue
            arrays = arrays_of(sample, rng, dtype)
            _compare_second(entry, sample, torch, arrays, rng, dtype)


def _compare_second(entry: Any, sample: Any, torch: Any, arrays: list, rng: Any, dtype: str) -> None:
    found: dict = {}
    vectors: Any = None
    seconds: Any = None
    for library in (torch, ferro):
        call = Call(entry, sample, library, [a.copy() for a in arrays], True)
        outputs = call.run()
        if vectors is None:
            vectors = cotangents(outputs, rng)
        if not call.inputs or all(v is None for v in vectors):
            return
        grads = pullback(call, outputs, vectors, create_graph=True)
        if seconds is None:
            seconds = [None if g is None else _like(g, rng).astype(dtype_name(g)) for g in grads]
        roots = [
            (g, library.from_numpy(s.copy()))
            for g, s in zip(grads, seconds, strict=True)
            if g is not None and s is not None and g.requires_grad
        ]
        if not roots:
            found[library] = [np.zeros(tuple(t.shape)) for t in call.inputs]
            continue
        try:
            second = library.autograd.grad([g for g, _ in roots], call.inputs, [s for _, s in roots], allow_unused=True)
        except (RuntimeError, NotImplementedError) as e:
            if library is torch and "not implemented" in str(e):
                return  # PyTorch has no second derivative here
            raise
        found[library] = [
            np.zeros(tuple(t.shape)) if s is None else to_array(s) for s, t in zip(second, call.inputs, strict=True)
        ]
    for i, (g, w) in enumerate(zip(found[ferro], found[torch], strict=True)):
        compare(g, w, dtype, f"{sample} second gradient {i}", scale=1000)


@DIFF
def test_forward_mode_is_the_adjoint_of_reverse_mode(entry: Any) -> None:
    for dtype in _dtypes(entry):
        rng = rng_of(entry.path)
        for sample in _samples(entry, dtype):
            arrays = arrays_of(sample, rng, dtype)
            call = Call(entry, sample, ferro, [a.copy() for a in arrays], True)
            outputs = call.run()
            vectors = cotangents(outputs, rng)
            if not call.inputs or all(v is None for v in vectors):
                continue
            grads = [None if g is None else to_array(g) for g in pullback(call, outputs, vectors)]
            directions = [_like(t, rng) for t in call.inputs]
            pushed = _pushforward(entry, sample, arrays, directions)
            left = sum(_real_dot(v, p) for v, p in zip(vectors, pushed, strict=True) if v is not None and p is not None)
            right = _inner(grads, directions)
            if not (np.isfinite(left) and np.isfinite(right)):
                continue
            size = sum(float(np.abs(g * u).sum()) for g, u in zip(grads, directions, strict=True) if g is not None)
            assert abs(left - right) <= 1e-9 * (1 + size), f"{sample}: <v, Ju> = {left}, <J'v, u> = {right}"


def _pushforward(entry: Any, sample: Any, arrays: list, directions: list) -> list:
    """The directional derivatives of the outputs (None where there is none)."""
    fwAD = ferro.autograd.forward_ad
    call = Call(entry, sample, ferro, [a.copy() for a in arrays], False)
    duals: dict = {}
    with fwAD.dual_level():
        for t, u in zip(call.inputs, directions, strict=True):
            duals[id(t)] = fwAD.make_dual(t, ferro.from_numpy(u))
        call.args = [_exchange(a, duals) for a in call.args]
        call.kwargs = {k: _exchange(v, duals) for k, v in call.kwargs.items()}
        found = []
        for out in call.run():
            t = fwAD.unpack_dual(out).tangent if isinstance(out, ferro.Tensor) else None
            found.append(None if t is None else to_array(t))
    return found


def _exchange(x: Any, duals: dict) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_exchange(y, duals) for y in x)
    return duals.get(id(x), x)


@ALL
def test_strides_do_not_matter(entry: Any) -> None:
    rng = rng_of(entry.path)
    for sample in entry.samples:
        arrays = arrays_of(sample, rng, "float64")
        if not any(a.ndim for a in arrays):
            continue
        want = [to_array(o) for o in Call(entry, sample, ferro, [a.copy() for a in arrays], False).run()]
        for strided in (_transposed, _stepped):
            got = [to_array(o) for o in Call(entry, sample, ferro, [strided(a) for a in arrays], False).run()]
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                compare(g, w, "float64", f"{sample} result {i} with {strided.__name__} inputs")


@ALL
def test_channels_last_and_overlapping_inputs_give_what_copies_give(entry: Any) -> None:
    """Values and gradients, or the same error."""
    if entry.path.endswith("_"):
        pytest.skip("what is written in place may not overlap: tests/ops/test_overlapping.py")
    for sample in _samples(entry, "float32"):
        arrays = arrays_of(sample, rng_of(entry.path), "float32")
        for layout in (_channels_last, _expanded):
            if layout is _expanded and entry.path in FULL_RANK:
                continue
            laid = [layout(a) for a in arrays]
            copies = [np.array(a, order="C") for a in laid]
            if all(a.strides == b.strides for a, b in zip(laid, copies, strict=True)):
                continue
            want, got = _outcome(entry, sample, copies), _outcome(entry, sample, laid)
            assert len(want) == len(got), f"{sample} with {layout.__name__} inputs: {got} instead of {want}"
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                if isinstance(g, np.ndarray) and isinstance(w, np.ndarray):
                    compare(g, w, "float32", f"{sample} result {i} with {layout.__name__} inputs", scale=10)
                else:
                    assert g == w, f"{sample} result {i} with {layout.__name__} inputs"


def _outcome(entry: Any, sample: Any, arrays: list) -> list:
    """Results and gradients, or the kind of the error."""
    ferro.manual_seed(0)
    try:
        call = Call(entry, sample, ferro, arrays, entry.differentiable)
        outputs = call.run()
    except (RuntimeError, ValueError, ferro.linalg.LinAlgError) as e:
        return [type(e)]
    found = [to_array(o) for o in outputs]
    vectors = cotangents(outputs, rng_of("layouts"))
    if call.inputs and any(v is not None for v in vectors):
        found += [None if g is None else to_array(g) for g in pullback(call, outputs, vectors)]
    return found


def _channels_last(a: np.ndarray) -> np.ndarray:
    """The same values with the second dimension lying last in memory."""
    return np.moveaxis(np.array(np.moveaxis(a, 1, -1), order="C"), -1, 1) if a.ndim > 2 else np.array(a, order="F")


# What equal rows make singular, so that rounding alone decides the numbers.
FULL_RANK = ("linalg.lstsq",)


def _expanded(a: np.ndarray) -> np.ndarray:
    """Numbers that are the same along the first dimension, and one place in memory."""
    if a.ndim == 0 or a.dtype.kind not in "fc" or a.size == 0:
        return a
    return np.lib.stride_tricks.as_strided(a[:1].copy(), a.shape, (0, *a[:1].strides[1:]))


def _transposed(a: np.ndarray) -> np.ndarray:
    """The same values in Fortran order."""
    return np.asarray(a, order="F")


def _stepped(a: np.ndarray) -> np.ndarray:
    """The same values at every second place of a larger array, backwards."""
    if a.ndim == 0:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    view = wide[..., ::-2][..., : a.shape[-1]]
    view[...] = a
    return view
