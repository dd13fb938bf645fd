"""Recurrent layers all steps at once: against torch and against the steps one by one, all orders and forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.apply import apply
from ferro.core.base import wrap
from ferro.ops import recurrent_steps as recurrent

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)

MODES = ("RNN_TANH", "RNN_RELU", "LSTM", "GRU")
OPERATIONS = {"RNN_TANH": "RnnSteps", "RNN_RELU": "RnnSteps", "LSTM": "LstmSteps", "GRU": "GruSteps"}
FUNCTIONS = {"RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu", "LSTM": "lstm", "GRU": "gru"}


class Problem:
    """The inputs of one direction or of several, as arrays: x, the states, and for each direction its weights."""

    def __init__(
        self,
        rng: np.random.Generator,
        mode: str,
        length: int,
        batch: int,
        width: int,
        hidden: int,
        *,
        layers: int = 1,
        directions: int = 1,
        biased: bool = True,
        projected: int = 0,
        sizes: list[int] | None = None,
        dtype: str = "float64",
    ) -> None:
        self.mode, self.layers, self.directions, self.biased, self.sizes = mode, layers, directions, biased, sizes
        out = projected or hidden
        rows = recurrent.GATES[mode] * hidden

        def draw(*shape: int) -> np.ndarray:
            return rng.uniform(-0.7, 0.7, shape).astype(dtype)

        self.x = draw(sum(sizes), width) if sizes else draw(length, batch, width)
        count = layers * directions
        self.states = [draw(count, batch, out)] + ([draw(count, batch, hidden)] if mode == "LSTM" else [])
        self.weights = []
        for layer in range(layers):
            inputs = width if layer == 0 else out * directions
            for _ in range(directions):
                self.weights += [draw(rows, inputs), draw(rows, out)]
                self.weights += [draw(rows), draw(rows)] if biased else []
                self.weights += [draw(out, hidden)] if projected else []

    def arrays(self) -> list[np.ndarray]:
        return [self.x, *self.states, *self.weights]

    def call(self, library: Any, *tensors: Any) -> tuple:
        """The public function: outputs and last states."""
        x, states, weights = tensors[0], tensors[1 : 1 + len(self.states)], list(tensors[1 + len(self.states) :])
        function = getattr(library, FUNCTIONS[self.mode])
        hx = tuple(states) if self.mode == "LSTM" else states[0]
        bidirectional = self.directions == 2
        if self.sizes:
            sizes = library.tensor(self.sizes)
            return function(x, sizes, hx, weights, self.biased, self.layers, 0.0, True, bidirectional)
        return function(x, hx, weights, self.biased, self.layers, 0.0, True, bidirectional, False)


def results(library: Any, problem: Problem, used: tuple[int, ...] = (0, 1, 2)) -> list[np.ndarray]:
    """The outputs, and the gradients of a weighted sum of those `used`."""
    tensors = [library.tensor(a).requires_grad_() for a in problem.arrays()]
    outs = problem.call(library, *tensors)
    loss: Any = 0.0
    for i, out in enumerate(outs):
        if i in used:
            weights = np.cos(np.arange(out.numel())).reshape(tuple(out.shape)).astype(problem.x.dtype)
            loss = loss + (out * library.tensor(weights)).sum()
    loss.backward()
    return [t.detach().numpy() for t in outs] + [t.grad.numpy() for t in tensors if t.grad is not None]


def small(rng: np.random.Generator, mode: str, **options: Any) -> Problem:
    sizes = options.get("sizes")
    return Problem(rng, mode, 4, sizes[0] if sizes else 2, 3, 4, **options)


VARIANTS = {
    "plain": {},
    "no bias": {"biased": False},
    "two layers": {"layers": 2},
    "both directions": {"directions": 2, "layers": 2},
    "packed": {"sizes": [3, 3, 2, 1]},
    "packed, both directions": {"sizes": [4, 2, 2, 1], "directions": 2},
}
CASES = [(mode, name) for mode in MODES for name in VARIANTS]
PROJECTED = {"projected": {"projected": 2}, "projected, packed": {"projected": 3, "sizes": [3, 2, 1], "directions": 2}}


@pytest.mark.parametrize(("mode", "name"), CASES + [("LSTM", name) for name in PROJECTED])
def test_values_and_gradients_agree_with_torch(mode: str, name: str, rng: np.random.Generator) -> None:
    problem = small(rng, mode, **(VARIANTS | PROJECTED)[name])
    for ours, theirs in zip(results(ferro, problem), results(torch, problem), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("used", [(0,), (1,), (2,)])
def test_absent_gradients_of_outputs_are_zero(used: tuple[int, ...], rng: np.random.Generator) -> None:
    for mode in MODES if used != (2,) else ("LSTM",):
        problem = small(rng, mode, sizes=[3, 2])
        for ours, theirs in zip(results(ferro, problem, used), results(torch, problem, used), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_layers_agree_with_torch(mode: str, dtype: str, rng: np.random.Generator) -> None:
    """These sizes have kernels."""
    tolerance: Any = {"rtol": 2e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-11}
    for sizes in (None, [40] * 3 + [21] * 4 + [1]):
        problem = Problem(rng, mode, 8, 40, 17, 33, sizes=sizes, directions=2, dtype=dtype)
        problem.weights = [w / 3 for w in problem.weights]
        for ours, theirs in zip(results(ferro, problem), results(torch, problem), strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours, theirs, **tolerance)


def inside(problem: Problem) -> tuple[Any, list]:
    """A function of leaves whose every input depends on them, some on each other, and the leaves."""
    tensors = [ferro.tensor(a).requires_grad_() for a in problem.arrays()]

    def function(*leaves: Any) -> tuple:
        bent = [t.sin() if i % 2 else t * 1.1 for i, t in enumerate(leaves)]
        bent[1] = bent[1] + bent[len(problem.states) + 2].mean()  # the state depends on a weight
        return problem.call(ferro, *bent)

    return function, tensors


@pytest.mark.parametrize(("mode", "name"), CASES + [("LSTM", name) for name in PROJECTED])
def test_first_and_second_derivatives_agree_with_differences(mode: str, name: str, rng: np.random.Generator) -> None:
    options = dict((VARIANTS | PROJECTED)[name])
    if "directions" in options:
        options |= {"layers": 1}
    problem = Problem(rng, mode, 2, options.get("sizes", [2])[0], 2, 2 if "projected" not in options else 4, **options)
    function, leaves = inside(problem)
    assert ferro.autograd.gradcheck(function, leaves, fast_mode=True)
    assert ferro.autograd.gradgradcheck(function, leaves, fast_mode=True)


@pytest.mark.parametrize("mode", MODES)
def test_third_derivatives_are_those_of_the_steps_one_by_one(
    mode: str, rng: np.random.Generator, monkeypatch: Any
) -> None:
    def third(problem: Problem) -> list:
        function, leaves = inside(problem)
        value = function(*leaves)[0].sum()
        for _ in range(2):
            found = ferro.autograd.grad(value, leaves, create_graph=True)
            value = sum((g * g).sum() for g in found)
        return [g.numpy() for g in ferro.autograd.grad(value, leaves)]

    problem = small(rng, mode)
    ours = third(problem)
    monkeypatch.setattr(recurrent, "_fits", lambda *_: False)
    for a, b in zip(ours, third(problem), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("mode", "name"), CASES + [("LSTM", name) for name in PROJECTED])
def test_forward_mode_is_the_transpose_of_reverse_mode(mode: str, name: str, rng: np.random.Generator) -> None:
    problem = small(rng, mode, **(VARIANTS | PROJECTED)[name])
    function, leaves = inside(problem)
    xs = tuple([t.detach() for t in leaves])
    ts = tuple([ferro.tensor(rng.standard_normal(tuple(t.shape))) for t in leaves])
    _, moved = ferro.func.jvp(function, xs, ts)
    outs, pull = ferro.func.vjp(function, *xs)
    us = tuple([ferro.tensor(rng.standard_normal(tuple(o.shape))) for o in outs])
    left = sum(float((u * m).sum()) for u, m in zip(us, moved, strict=True))
    right = sum(float((g * t).sum()) for g, t in zip(pull(us), ts, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH"])
def test_forward_over_reverse_over_either_is_one_hessian(mode: str, rng: np.random.Generator) -> None:
    problem = small(rng, mode)
    function, leaves = inside(problem)
    xs = [t.detach() for t in leaves]

    def loss(w: Any) -> Any:
        outs = function(*xs[:-1], w)
        return sum((o * o).sum() for o in outs)

    w = xs[-1]
    by_forward = ferro.func.jacfwd(ferro.func.grad(loss))(w)
    by_reverse = ferro.func.jacrev(ferro.func.grad(loss))(w)
    np.testing.assert_allclose(by_forward.numpy(), by_reverse.numpy(), rtol=1e-9, atol=1e-11)


def test_a_backward_inside_forward_mode_moves_what_was_recorded_before(rng: np.random.Generator) -> None:
    """The operation is recorded outside of the level: its own formula has to carry the tangents."""
    for mode in MODES:
        problem = small(rng, mode)
        tensors = [ferro.tensor(a).requires_grad_() for a in problem.arrays()]
        out = problem.call(ferro, *tensors)[0]
        u = ferro.tensor(rng.standard_normal(tuple(out.shape)))
        with ferro.autograd.forward_ad.dual_level():
            dual = ferro.autograd.forward_ad.make_dual(ferro.ones_like(out), u)
            grads = ferro.autograd.grad(out, tensors, dual, retain_graph=True)
            moved = [ferro.autograd.forward_ad.unpack_dual(g).tangent for g in grads]
        for m, g in zip(moved, ferro.autograd.grad(out, tensors, u), strict=True):
            np.testing.assert_allclose(m.detach().numpy(), g.numpy(), rtol=1e-10, atol=1e-12)
            assert m.grad_fn is None


@pytest.mark.parametrize("mode", MODES)
def test_an_operation_given_tangents_moves_like_the_steps(mode: str, rng: np.random.Generator) -> None:
    problem = small(rng, mode, sizes=[3, 2, 1])
    sizes = tuple(problem.sizes or ())
    given = [ferro.tensor(a) for a in problem.arrays()]
    count = 1 + len(problem.states)
    if mode == "LSTM":
        op, rest, params = recurrent.LSTM, (*given[count:], None), (sizes, True)
    elif mode == "GRU":
        op, rest, params = recurrent.GRU, tuple(given[count:]), (sizes, True)
    else:
        op, rest, params = recurrent.RNN, tuple(given[count:]), (mode, sizes, True)
    tangents = [ferro.tensor(rng.standard_normal(a.shape)) for a in problem.arrays()[:count]]

    def at_once(*heads: Any) -> tuple:
        return apply(op, (*heads, *rest), params)

    def one_by_one(*heads: Any) -> tuple:
        return recurrent._one_by_one(mode, heads[0], heads[1:], rest, sizes, True)

    found = [ferro.func.jvp(f, tuple(given[:count]), tuple(tangents)) for f in (at_once, one_by_one)]
    for a, b in zip(found[0][0] + found[0][1], found[1][0] + found[1][1], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_all_steps_are_one_operation(mode: str, rng: np.random.Generator) -> None:
    problem = small(rng, mode)
    tensors = [ferro.tensor(a).requires_grad_() for a in problem.arrays()]
    outs = problem.call(ferro, *tensors)
    assert {out.grad_fn.name() for out in outs} == {f"{OPERATIONS[mode]}Backward0"}
    for make, name in ((ferro.nn.LSTMCell, "LstmOneBackward0"), (ferro.nn.GRUCell, "GruOneBackward0")):
        found = make(2, 3)(ferro.ones(2, 2))
        assert (found[0] if isinstance(found, tuple) else found).grad_fn.name() == name


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_cells_agree_with_torch_in_all_orders(kind: str, large: bool, rng: np.random.Generator) -> None:
    batch, width, hidden = (40, 20, 32) if large else (2, 3, 2)
    theirs = getattr(torch.nn, kind)(width, hidden).double()
    ours = getattr(ferro.nn, kind)(width, hidden).double()
    ours.load_state_dict({k: ferro.from_numpy(v.detach().numpy()) for k, v in theirs.state_dict().items()})
    x, h, c = [rng.standard_normal((batch, n)) for n in (width, hidden, hidden)]

    def gradients(library: Any, cell: Any) -> list:
        leaves = [library.tensor(a).requires_grad_() for a in (x, h, c)]
        found = cell(leaves[0], tuple(leaves[1:]) if kind == "LSTMCell" else leaves[1])
        found = found if isinstance(found, tuple) else (found,)
        wanted = leaves[: 1 + len(found)] + list(cell.parameters())
        first = library.autograd.grad(sum((o * o).sum() for o in found), wanted, create_graph=True)
        second = library.autograd.grad(sum((g * g).sum() for g in first), wanted)
        return [t.detach().numpy() for t in (*found, *first, *second)]

    for a, b in zip(gradients(ferro, ours), gradients(torch, theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    if not large:
        leaves = [ferro.tensor(a).requires_grad_() for a in (x, h, c)]
        call = (lambda x, h, c: ours(x, (h, c))) if kind == "LSTMCell" else (lambda x, h, c: ours(x, h) * c)
        assert ferro.autograd.gradcheck(call, leaves, check_forward_ad=True)
        assert ferro.autograd.gradgradcheck(call, leaves)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_16_bit_numbers_are_rounded_at_the_end(name: str, rng: np.random.Generator) -> None:
    for mode in MODES:
        problem = small(rng, mode, dtype="float32")
        narrow = [ferro.tensor(a).to(getattr(ferro, name)) for a in problem.arrays()]
        wide = [t.float().requires_grad_() for t in narrow]
        narrow = [t.requires_grad_() for t in narrow]
        for found, want in zip(problem.call(ferro, *narrow), problem.call(ferro, *wide), strict=True):
            assert found.dtype is getattr(ferro, name)
            np.testing.assert_array_equal(found.detach().float().numpy(), want.to(found.dtype).detach().float().numpy())
        for inputs in (narrow, wide):
            total: Any = sum(o.float().sum() for o in problem.call(ferro, *inputs))
            total.backward()
        for a, b in zip(narrow, wide, strict=True):
            assert a.grad.dtype is a.dtype
            np.testing.assert_allclose(a.grad.float().numpy(), b.grad.numpy(), rtol=2e-2, atol=2e-2)
    for cell, state in ((ferro.nn.LSTMCell(3, 2), None), (ferro.nn.GRUCell(3, 2), None)):
        cell.to(getattr(ferro, name))
        found = cell(ferro.ones(2, 3, dtype=getattr(ferro, name)), state)
        (found[0] if isinstance(found, tuple) else found).sum().backward()
        assert all(p.grad.dtype is p.dtype for p in cell.parameters())


def test_numbers_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    before = ferro.get_num_threads()
    try:
        for mode in MODES:
            problem = Problem(rng, mode, 2, 600, 30, 64, dtype="float32")
            ferro.set_num_threads(1)
            alone = results(ferro, problem)
            ferro.set_num_threads(3)
            for a, b in zip(alone, results(ferro, problem), strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        ferro.set_num_threads(before)


@pytest.mark.parametrize("mode", MODES)
def test_inputs_need_not_be_contiguous_and_stay_as_they_are(mode: str, rng: np.random.Generator) -> None:
    problem = Problem(rng, mode, 6, 40, 9, 30)
    direct = results(ferro, problem)
    kept = [a.copy() for a in problem.arrays()]
    turned = [np.asfortranarray(a)[::-1][::-1] for a in problem.arrays()]
    turned[1] = np.repeat(turned[1], 2, -1)[..., ::2]
    problem.x, problem.states = turned[0], turned[1 : 1 + len(problem.states)]
    problem.weights = turned[1 + len(problem.states) :]
    for array in problem.arrays():
        array.flags.writeable = False

    class Library:
        """ferro, its tensors sharing the arrays' memory."""

        def __getattr__(self, name: str) -> Any:
            return getattr(ferro, name)

        def tensor(self, a: Any) -> Any:
            return wrap(a) if isinstance(a, np.ndarray) and a.ndim else ferro.tensor(a)

    for a, b in zip(results(Library(), problem), direct, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for a, b in zip(problem.arrays(), kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nan_and_infinity_stay_in_their_sequence(rng: np.random.Generator) -> None:
    for mode in MODES:
        for batch, hidden in ((3, 2), (40, 32)):
            problem = Problem(rng, mode, 3, batch, 4, hidden, dtype="float32")
            problem.x[1, 1, 0] = np.nan
            problem.x[1, 2, 0] = np.inf
            found, wanted = [problem.call(lib, *map(lib.tensor, problem.arrays()))[0].numpy() for lib in (ferro, torch)]
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
            assert np.isnan(found[1:, 1]).all()
            assert not np.isnan(found[:, 0]).any()


def test_an_output_changed_in_place_is_noticed(rng: np.random.Generator) -> None:
    for mode in MODES:
        problem = small(rng, mode)
        tensors = [ferro.tensor(a).requires_grad_() for a in problem.arrays()]
        out, *last = problem.call(ferro, *tensors)
        last[0].mul_(2)  # which no formula reads
        (out.sum() + last[0].sum()).backward(retain_graph=True)
        out.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_what_does_not_fit_takes_the_steps_one_by_one(rng: np.random.Generator) -> None:
    """Complex numbers; sequences that are not sorted; an empty batch."""
    problem = small(rng, "LSTM")
    tensors = [ferro.tensor(a.astype(complex)) for a in problem.arrays()]
    assert problem.call(ferro, *tensors)[0].dtype is ferro.complex128
    with pytest.raises(RuntimeError, match="dtype"):
        problem.call(ferro, ferro.tensor(problem.x.astype(np.float32)), *map(ferro.tensor, problem.arrays()[1:]))
    layer = ferro.nn.GRU(3, 4)
    out, last = layer(ferro.ones(2, 0, 3))
    assert tuple(out.shape) == (2, 0, 4)
    assert tuple(last.shape) == (1, 0, 4)
