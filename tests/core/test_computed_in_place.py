"""Results that machine code computes where they belong: no array is made for them, operands that overlap are read before, bits stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import writes
from ferro.core.op import OPS
from tests.configuration import with_machine_recorder

pytestmark = with_machine_recorder
DTYPES = [np.float32, np.float64]
SIZES = [
    (5, 7),
    (150, 100),
    (300, 400),
]  # by one thread; in the thresholds' sense small, middling, shared among threads
PLACED = sorted(name for name, op in OPS.items() if op.placed is not None and op.taped)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = ferro.get_num_threads()
    yield
    ferro.set_num_threads(before)


@pytest.fixture
def _python_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands behind the machine code raises."""

    def refuse(*args: Any) -> None:
        raise AssertionError(f"left to Python: {args[0]}")

    monkeypatch.setattr(writes, "_written", refuse)


def test_operations_of_arithmetic_and_of_steps_are_among_them() -> None:
    assert {
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "abs",
        "sqrt",
        "relu",
        "addcmul",
        "addcdiv",
        "add_scaled",
        "lerp_scalar",
    } <= set(PLACED)
    assert {"exp", "sin", "sigmoid", "clamp_between", "maximum"} & set(PLACED)


def arguments(name: str, shape: tuple, dtype: Any) -> tuple[list, tuple]:
    rng = np.random.default_rng(1)
    op = OPS[name]
    least = 1.2 if name == "acosh" else 0.2
    return [rng.uniform(least, least + 0.7, shape).astype(dtype) for _ in op.inputs], (0.25, 0.75, 1.25)[
        : len(op.params)
    ]


@pytest.mark.usefixtures("_python_refuses")
@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bits_are_those_of_a_new_result(name: str, shape: tuple, dtype: Any) -> None:
    op = OPS[name]
    arrays, params = arguments(name, shape, dtype)
    wanted = op.forward(ferro.cpu, *arrays, *params)
    for threads in (1, 2):
        ferro.set_num_threads(threads)
        for at in (None, *range(len(arrays))):  # into another tensor, or into one of the operands
            tensors = [ferro.from_numpy(a.copy()) for a in arrays]
            target = ferro.empty(shape, dtype=tensors[0].dtype) if at is None else tensors[at]
            data = target._data
            assert writes.computed_into(op, target, tuple(tensors), params, "test") is target
            assert target._data is data
            assert target._version == 1
            assert data.tobytes() == wanted.tobytes()
            for k, (t, a) in enumerate(zip(tensors, arrays, strict=True)):
                assert k == at or t._data.tobytes() == a.tobytes()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_columns_of_a_large_array(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x, row, column = [rng.uniform(0.5, 2, shape).astype(dtype) for shape in ((300, 400), (400,), (300, 1))]
    numpy = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    for threads in (1, 2):
        ferro.set_num_threads(threads)
        for other in (row, column):
            t = ferro.from_numpy(x.copy())
            data = t._data
            getattr(t, f"{name}_")(ferro.from_numpy(other))
            assert t._data is data
            np.testing.assert_array_equal(data, numpy(x, other))


@pytest.mark.parametrize("name", ["add", "mul", "relu", "sin", "addcmul"])
def test_operands_that_lie_partly_in_the_target_are_read_before_it_is_written(name: str) -> None:
    """Two arrays of NumPy that overlap are two tensors that do not know of each other."""
    op = OPS[name]
    for shift in (1, 3, 1000):
        memory = np.random.default_rng(3).uniform(0.2, 0.9, 130_000).astype(np.float32)
        source, target = memory[:-shift], memory[shift:]
        kept = source.copy()
        params = (0.5,)[: len(op.params)]
        wanted = op.forward(ferro.cpu, *[kept] * len(op.inputs), *params)
        t, x = ferro.from_numpy(target), ferro.from_numpy(source)
        if writes.computed_into(op, t, (x,) * len(op.inputs), params, "test") is not None:
            np.testing.assert_array_equal(t.numpy(), wanted)


WAYS: dict[str, tuple[Callable, Callable]] = {
    "cat": (lambda lib, a, b, out: lib.cat((a, b), out=out), lambda a, b: np.concatenate((a, b))),
    "cat columns": (lambda lib, a, b, out: lib.cat((a, b), 1, out=out), lambda a, b: np.concatenate((a, b), 1)),
    "stack": (lambda lib, a, b, out: lib.stack((a, b), out=out), lambda a, b: np.stack((a, b))),
    "stack behind": (lambda lib, a, b, out: lib.stack((a, b), -1, out=out), lambda a, b: np.stack((a, b), -1)),
    "clamp": (lambda lib, a, b, out: lib.clamp(a, 0.25, 0.5, out=out), lambda a, b: np.clip(a, 0.25, 0.5)),
    "addcdiv": (
        lambda lib, a, b, out: lib.addcdiv(a, a, b, value=2, out=out),
        lambda a, b: a + a / b * a.dtype.type(2),
    ),
    "sum": (lambda lib, a, b, out: lib.sum(a, 1, out=out), lambda a, b: a.astype(np.float64).sum(1)),
    "index_select": (
        lambda lib, a, b, out: lib.index_select(a, 0, lib.arange(len(a) - 1, -1, -1), out=out),
        lambda a, b: a[::-1],
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_written_into_out(way: str, shape: tuple, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = [rng.uniform(0.2, 0.9, shape).astype(dtype) for _ in range(2)]
    function, numpy = WAYS[way]
    wanted = numpy(a, b)
    out = ferro.zeros(wanted.shape, dtype=ferro.from_numpy(a).dtype)
    data, view = out._data, out.view(-1)
    assert function(ferro, ferro.from_numpy(a), ferro.from_numpy(b), out) is out
    assert out._data is data
    assert out._version == view._version == 1
    np.testing.assert_allclose(data, wanted, 4 * np.finfo(dtype).eps)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        function(ferro, ferro.from_numpy(a).requires_grad_(), ferro.from_numpy(b), out)
    if way != "sum":  # (which computes in the dtype of out, as in PyTorch)
        with pytest.raises(RuntimeError, match=r"dtype|cast"):
            function(ferro, ferro.from_numpy(a), ferro.from_numpy(b), ferro.zeros(wanted.shape, dtype=ferro.int64))
    for mistake in (5, "out", [out]):
        with pytest.raises(TypeError, match="out"):
            function(ferro, ferro.from_numpy(a), ferro.from_numpy(b), mistake)


def test_a_tensor_joined_into_itself_is_refused_or_read_before() -> None:
    x = ferro.arange(40_000.0).reshape(200, 200)
    out = ferro.zeros(400, 200)
    out[:200] = x
    with pytest.raises(RuntimeError, match=r"overlap|single memory location|same"):
        ferro.cat((out[:200], out[200:]), out=out)


@pytest.mark.parametrize("shape", [(), (3,), (70, 60), (300, 400), (2100, 2100)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_everywhere(shape: tuple, dtype: Any) -> None:
    for threads in (1, 2):
        ferro.set_num_threads(threads)
        x = ferro.from_numpy(np.zeros(shape, dtype))
        assert x.fill_(2.5) is x
        assert x._version == 1
        np.testing.assert_array_equal(x.numpy(), np.full(shape, 2.5, dtype))
        assert x.zero_() is x
        np.testing.assert_array_equal(x.numpy(), np.zeros(shape, dtype))
        np.testing.assert_array_equal(ferro.full(shape, -0.0, dtype=x.dtype).numpy(), np.full(shape, -0.0, dtype))
        assert np.signbit(ferro.full(shape, -0.0, dtype=x.dtype).numpy()).all()
        turned = ferro.from_numpy(np.zeros((*shape, 3), dtype)).transpose(0, -1)[..., ::2]
        turned.fill_(float("nan"))
        assert turned.isnan().all()
