"""Results written where they belong without a history: what machine code leaves is what Python leaves, and errors come before the write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.core import writes
from ferro.core.op import OPS
from ferro.core.provenance import line_of
from ferro.native.entries import fallback
from tests.configuration import with_machine_recorder

SHAPES = [(3, 4), (0,), (), (200, 300)]
DTYPES = ["float32", "float64"]
FORMS: dict[str, tuple[Callable, Callable]] = {
    "add_": (lambda x, y: x.add_(y), lambda a, b: a + b),
    "add_ itself": (lambda x, y: x.add_(x), lambda a, b: a + a),
    "sub_": (lambda x, y: x.sub_(y), lambda a, b: a - b),
    "mul_ number": (lambda x, y: x.mul_(2.5), lambda a, b: a * a.dtype.type(2.5)),
    "div_ row": (lambda x, y: x.div_(y[:1]) if x.dim() else x.div_(y), lambda a, b: a / (b[:1] if a.ndim else b)),
    "reciprocal_": (lambda x, y: x.reciprocal_(), lambda a, b: 1 / a),
    "neg_": (lambda x, y: x.neg_(), lambda a, b: -a),
    "relu_": (lambda x, y: x.sub_(1.0).relu_(), lambda a, b: np.maximum(a - 1, 0)),
    "clamp_": (lambda x, y: x.clamp_(0.75, 1.5), lambda a, b: np.clip(a, 0.75, 1.5)),
    "clamp_min_": (lambda x, y: x.clamp_(min=1), lambda a, b: np.maximum(a, 1)),
    "clamp_max_": (lambda x, y: x.clamp_max_(1.25), lambda a, b: np.minimum(a, a.dtype.type(1.25))),
    "pow_": (lambda x, y: x.pow_(2), lambda a, b: a * a),
    "round_": (lambda x, y: x.round_(), lambda a, b: np.round(a)),
    "add_ alpha": (lambda x, y: x.add_(y, alpha=0.5), lambda a, b: a + b * a.dtype.type(0.5)),
    "sub_ alpha": (lambda x, y: x.sub_(y, alpha=2), lambda a, b: a - b * 2),
    "addcmul_": (lambda x, y: x.addcmul_(y, y, value=0.5), lambda a, b: a + b * b * a.dtype.type(0.5)),
    "lerp_": (lambda x, y: x.lerp_(y, 0.25), lambda a, b: a + (b - a) * a.dtype.type(0.25)),
    "lerp_ tensor": (
        lambda x, y: x.lerp_(y, y),
        lambda a, b: np.where(b < 0.5, a + (b - a) * b, b - (b - a) * (1 - b)),
    ),
    "copy_": (lambda x, y: x.copy_(y), lambda a, b: b),
    "fill_": (lambda x, y: x.fill_(1.5), lambda a, b: np.full_like(a, 1.5)),
    "zero_": (lambda x, y: x.zero_(), lambda a, b: np.zeros_like(a)),
    "add out": (lambda x, y: ferro.add(y, y, out=x), lambda a, b: b + b),
    "neg out": (lambda x, y: ferro.neg(y, out=x), lambda a, b: -b),
    "mul out of itself": (lambda x, y: ferro.mul(x, y, out=x), lambda a, b: a * b),
}


def last_change(x: Any) -> tuple:
    """The last operation that changed the tensor's memory, where, and through which views."""
    assert x._counter is not None
    return x._counter.change


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("recording", [True, False])
def test_the_result_is_written_and_counted(form: str, shape: tuple, dtype: str, recording: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.uniform(0.5, 2.0, shape).astype(dtype) for _ in range(2)]
    x, y = ferro.from_numpy(a.copy()), ferro.from_numpy(b.copy())
    function, expected = FORMS[form]
    data, view = x._data, x.view(-1)
    with ferro.set_grad_enabled(recording):
        assert function(x, y) is x
    assert x._data is data
    eps = (
        float(np.finfo(dtype).eps) if "lerp" in form or "addcmul" in form else 0
    )  # (a product and a sum may be rounded once)
    np.testing.assert_allclose(x.numpy(), expected(a, b), 4 * eps, 4 * eps)
    np.testing.assert_array_equal(view.numpy(), x.numpy().reshape(-1))
    np.testing.assert_array_equal(y.numpy(), b)
    assert (x._version, y._version, x._node) == (2 if form == "relu_" else 1, 0, None)
    assert last_change(x)[1][0].co_filename == __file__


def test_the_last_change_is_noted_with_its_place() -> None:
    x, y = ferro.ones(3), ferro.ones(3)
    x.add_(y)
    x.mul_(2.0)
    here = sys._getframe().f_lineno - 1
    culprit, location, through = last_change(x)
    assert (culprit, line_of(location), through) == ("mul_", here, ())
    x[0] = ferro.ones(())
    culprit, location, _ = last_change(x)
    assert (culprit, line_of(location)) == ("__setitem__", here + 4)
    ferro.add(y, y, out=x)
    assert (last_change(x)[0], x._version) == ("add(out=)", 4)


@with_machine_recorder
@pytest.mark.parametrize("name", ["written", "assigned"])
def test_machine_code_does_what_python_does(name: str) -> None:
    function = getattr(writes, name)
    found = []
    for f in (function, fallback(function)):
        x, y = ferro.arange(6.0).reshape(2, 3).clone(), ferro.tensor([1.0, 2.0, 3.0])
        z = ferro.ones(2, 3)
        if name == "written":
            done = [
                f(OPS["mul"], x, x, z * 2, "mul_"),
                f(OPS["exp"], x, x, None, "exp_"),
                f(OPS["add"], x, x, 3, "add_"),
            ]
            done += [
                f(OPS["add"], x, x, y.double(), "add_"),
                f(OPS["add"], y, x, x, "add_"),
                f(OPS["eq"], x, x, z, "eq_"),
            ]
        else:
            done = [
                f(x, (0, ...), y),
                f(x, (5, ...), y),
                f(x, (0, ...), z),
                f(x, (slice(1, 2), ...), ferro.tensor(4.0)),
            ]
            done += [f(x, (0, ...), y.double()), f(x, (0, ...), x)]
        found.append(
            ([t is x for t in done], [t is None for t in done], x.tolist(), y.tolist(), x._version, last_change(x)[0])
        )
    assert found[0] == found[1]
    assert found[0][0] == (
        [True, True, True, False, False, False] if name == "written" else [True, False, False, True, False, False]
    )


@with_machine_recorder
@pytest.mark.parametrize("call", [lambda x, y: x.add_(y), lambda x, y: x.__setitem__(0, y), lambda x, y: x.mul_(2.0)])
def test_nothing_is_kept(call: Callable) -> None:
    x, y = ferro.ones(2, 4), ferro.ones(4)
    call(x, y)
    watched = [x, y, x._data, y._data, x._counter, None, OPS["add"]]

    def counts() -> list[int]:
        return [sys.getrefcount(w) for w in watched]

    for _ in range(10):
        call(x, y)
    before = counts()
    for _ in range(300):
        call(x, y)
    assert all(abs(a - b) < 50 for a, b in zip(counts(), before, strict=True))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a leaf": lambda x, y: x.requires_grad_().add_(y),
    "a view of a leaf": lambda x, y: x.requires_grad_()[0].add_(y[0]),
    "out of a leaf": lambda x, y: ferro.add(x, y.requires_grad_(), out=ferro.ones(3, 4)),
    "a larger operand": lambda x, y: x.add_(ferro.ones(2, 3, 4)),
    "larger operands": lambda x, y: x.addcmul_(ferro.ones(2, 3, 4), y),
    "an end of itself": lambda x, y: x[1:].lerp_(x[:-1], 0.5),
    "a larger source": lambda x, y: x.copy_(ferro.ones(2, 3, 4)),
    "a leaf clamped": lambda x, y: x.requires_grad_().clamp_(0, 1),
    "shapes": lambda x, y: x.add_(ferro.ones(5)),
    "other elements of itself": lambda x, y: x[1:].add_(x[:-1]),
    "elements of itself assigned": lambda x, y: x.__setitem__(slice(1, None), x[:-1]),
    "an expanded tensor": lambda x, y: ferro.ones(1, 4).expand(3, 4).add_(y),
    "an index": lambda x, y: x.__setitem__(3, ferro.ones(4)),
    "a shape assigned": lambda x, y: x.__setitem__(0, ferro.ones(3)),
    "too many indices": lambda x, y: x.__setitem__((0, 0, 0), ferro.ones(())),
    "a complex operand": lambda x, y: x.add_(y * 1j),
    "no tensor": lambda x, y: x.add_("1"),
    "an item of a leaf": lambda x, y: x.requires_grad_().__setitem__(0, y[0]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_come_before_anything_is_written(case: str) -> None:
    x, y = ferro.arange(12.0).reshape(3, 4).clone(), ferro.ones(3, 4)
    before = x.tolist()
    with pytest.raises((RuntimeError, IndexError, TypeError)):
        REFUSED[case](x, y)
    assert (x.tolist(), x._version) == (before, 0)


@pytest.fixture
def _threads() -> Iterator[None]:
    before = ferro.get_num_threads()
    yield
    ferro.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x.addcmul_(y, y),
        lambda x, y: x.lerp_(y, 0.5),
        lambda x, y: x.add_(y, alpha=2),
    ],
)
def test_a_large_result_that_does_not_fit_is_refused(write: Callable, threads: int) -> None:
    ferro.set_num_threads(threads)
    x = ferro.zeros(200_000)
    with pytest.raises(RuntimeError, match=r"shape|size"):
        write(x, ferro.ones(2, 200_000))
    assert not x.any()
    with pytest.warns(UserWarning, match="resized"):
        ferro.add(x, ferro.ones(2, 200_000), out=x)  # (as in PyTorch)
    assert x.tolist() == [[1.0] * 200_000] * 2


IN_PLACE = sorted(
    name[:-1]
    for name in dir(ferro.Tensor)
    if name.endswith("_")
    and not name.startswith("_")
    and name[:-1] in OPS
    and OPS[name[:-1]].short
    and not OPS[name[:-1]].params
)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("shape", [(3, 4), (300, 400)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_forms_of_one_tensor_give_the_bits_of_their_functions(name: str, shape: tuple, dtype: str) -> None:
    x = ferro.from_numpy(np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(dtype))
    method = getattr(ferro.Tensor, name)
    wanted = method(x)
    if wanted.dtype is not x.dtype or wanted.shape != x.shape:
        pytest.skip("its result is of another kind")
    for threads in (1, 2):
        ferro.set_num_threads(threads)
        y = x.clone()
        data = y._data
        assert getattr(y, f"{name}_")() is y
        assert y._data is data
        assert y._version == 1
        assert y.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_sum_with_a_factor_names_the_function_in_its_errors(name: str) -> None:
    x, y = ferro.ones(3), ferro.ones(4)
    for call in (lambda: getattr(ferro, name)(x, y, alpha=2.0), lambda: getattr(x, f"{name}_")(y, alpha=2.0)):
        with pytest.raises(RuntimeError, match=rf"^{name}_?: shapes"):
            call()
    z = ferro.add(x.requires_grad_(), ferro.ones(3), alpha=2.0)
    assert z.grad_fn.name() == "AddBackward0"


def test_read_only_arrays_are_not_written() -> None:
    array = np.zeros(3, np.float32)
    x = ferro.from_numpy(array)
    array.flags.writeable = x._data.flags.writeable = False
    for write in (lambda: x.add_(1.0), lambda: x.add_(ferro.ones(3)), lambda: ferro.neg(ferro.ones(3), out=x)):
        with pytest.raises((RuntimeError, ValueError)):
            write()
    assert array.tolist() == [0, 0, 0]


def test_warnings_of_numpy_that_are_errors_change_no_result() -> None:
    for size in (4, 100_000):
        x = ferro.zeros(size)
        with np.errstate(divide="warn"):
            x.reciprocal_()
        assert bool((x == float("inf")).all())
        assert x._version == 1


def test_a_written_input_is_seen_by_backward() -> None:
    w = ferro.ones(3, requires_grad=True)
    for change in (lambda x: x.add_(1.0), lambda x: x.__setitem__(0, ferro.zeros(()))):
        x = ferro.ones(3)
        loss = (w * x).sum()
        change(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_values_are_written_by_all_threads(threads: int, dtype: str, rng: np.random.Generator) -> None:
    before = ferro.get_num_threads()
    ferro.set_num_threads(threads)
    try:
        a, b = rng.uniform(-1, 1, (300, 400)).astype(dtype), rng.uniform(-1, 1, (250, 400)).astype(dtype)
        x, want = ferro.from_numpy(a.copy()), a.copy()
        x[10:260] = ferro.from_numpy(b)
        want[10:260] = b
        np.testing.assert_array_equal(x.numpy(), want)
        x[:, 1::2] = ferro.from_numpy(b[:1, :200].repeat(300, 0))
        want[:, 1::2] = b[0, :200]
        np.testing.assert_array_equal(x.numpy(), want)
        x[:250, ...] = ferro.from_numpy(x.numpy()[50:])  # (the same memory, which no tensor knows of)
        want[:250] = want[50:].copy()
        np.testing.assert_array_equal(x.numpy(), want)
        with pytest.raises(RuntimeError, match="must match"):
            x[:299] = ferro.from_numpy(b)
        np.testing.assert_array_equal(x.numpy(), want)
    finally:
        ferro.set_num_threads(before)


def test_of_places_that_overlap_the_last_one_written_counts(rng: np.random.Generator) -> None:
    before = ferro.get_num_threads()
    ferro.set_num_threads(2)
    try:
        value = rng.uniform(-1, 1, (400, 300))
        want = np.zeros(699)
        for i, row in enumerate(value):
            want[i : i + 300] = row
        for _ in range(200):  # (by two threads at once it came out otherwise in one of 50)
            base = np.zeros(699)
            cpu.write_(np.lib.stride_tricks.as_strided(base, (400, 300), (8, 8)), value)
            np.testing.assert_array_equal(base, want)
        with ferro.no_grad():
            tensor = ferro.zeros(699, dtype=ferro.float64)
            tensor.as_strided((400, 300), (1, 1))[...] = ferro.from_numpy(value)
        np.testing.assert_array_equal(tensor.numpy(), want)
    finally:
        ferro.set_num_threads(before)


def test_recorded_writes_of_large_tensors_are_the_same_for_any_number_of_threads(rng: np.random.Generator) -> None:
    a, b = rng.uniform(-1, 1, (300, 400)), rng.uniform(-1, 1, (250, 400))
    before, found = ferro.get_num_threads(), []
    try:
        for threads in (1, 2):
            ferro.set_num_threads(threads)
            x, y = [ferro.from_numpy(array.copy()).requires_grad_() for array in (a, b)]
            z = x * 2
            z[10:260] = y * 3
            z.mul_(z.detach().clone()).exp_()
            z.sum().backward()
            found.append([t.numpy().copy() for t in (z.detach(), x.grad, y.grad)])
    finally:
        ferro.set_num_threads(before)
    want = 2 * a
    want[10:260] = 3 * b
    np.testing.assert_allclose(found[0][0], np.exp(want * want), rtol=1e-12)
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()
