"""Branches in graphs: eager's bits forward and backward, one branch runs, text and files, errors that show both sides."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.op import OPS, Op
from ferro.core.samples import Arg, Sample
from ferro.graph import CaptureError, Graph, GraphFormatError, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F

W = ferro.tensor([0.5, -1.5, 2.0], requires_grad=True)


def of_a_closure(x: Any, w: Any) -> Any:
    y = x * 2
    return ferro.cond(x.sum() > 0, lambda y: (y * w + x).tanh() * x.exp(), lambda y: y.exp().cumsum(0) * w, (y,)) * x


def of_a_global(x: Any, w: Any) -> Any:
    return ferro.cond(x.sum() > 0, lambda x: x * W + w, lambda x: x - w, (x,))


def of_what_is_read_around(x: Any, w: Any) -> Any:
    # (contributions to the gradients of x and w come from before, of several in, and from after the branch)
    y = x * w
    z = ferro.cond(x.sum() > 0, lambda x: x.exp() * x + (x * w).sin() * w, lambda x: x / 3 * w, (x,))
    return (y + z).tanh() * x * w


def drawing(x: Any, w: Any) -> Any:
    y = ferro.cond(x.sum() > 0, lambda y: F.dropout(y * w), lambda y: F.dropout(y * w, 0.1) * ferro.rand(3), (x * 2,))
    return y * w + ferro.rand(3)


def nested(x: Any, w: Any) -> Any:
    def first(y: Any) -> Any:
        return ferro.cond(x[0] > 0, lambda a: a.sin() * w, lambda a: (a * w).exp() * x, (y,))

    return ferro.cond(x.sum() > 0, first, lambda y: y * w, (x * 2,)) * w


def writing_inside(x: Any, w: Any) -> Any:
    def first(y: Any) -> Any:
        z = y * w
        z.add_(1)
        z[0] = x[1]
        return z * z

    def second(y: Any) -> Any:
        z = ferro.zeros(3)
        z[1:] = y[:2]
        return z * w

    return ferro.cond(x.sum() > 0, first, second, (x * 2,))


def switching(x: Any, w: Any) -> Any:
    branches = [lambda x: x, lambda x: x * w, lambda x: (x * w).tanh(), lambda x: x.exp() + w]
    return ferro.graph.switch((x > 0).sum(), branches, (x,)) * w


def several_results(x: Any, w: Any) -> Any:
    found = ferro.cond(
        x.sum() > 0,
        lambda x: {"a": x * w, "b": [x.exp(), (x > 0).float()]},
        lambda x: {"a": x + w, "b": [x.sin(), x * 0]},
        (x,),
    )
    return found["a"] * found["b"][0] + found["b"][1]


PROGRAMS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        *(of_a_closure, of_a_global, of_what_is_read_around, drawing, nested, writing_inside, switching),
        several_results,
    )
}


def bits(x: Any) -> Any:
    return None if x is None else x._data


def as_eager(got: Any, want: Any) -> bool:
    """Whether a gradient has eager's bits; where eager has none, because the branch that ran does not read the tensor, it is zeros."""
    if want is None:
        return got is None or not got.any()
    return same_bits(bits(got), bits(want))


def outcome(function: Callable, x: Any, w: Any, state: Any) -> list:
    """The result, gradients, and the state of the generator behind it."""
    ferro.set_rng_state(state)
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    W.grad = None
    y = function(x, w)
    (y * y).sum().backward()
    return [y, x.grad, w.grad, W.grad, ferro.get_rng_state()]


def given(seed: int) -> tuple:
    ferro.manual_seed(seed)
    return ferro.randn(3), ferro.randn(3), ferro.get_rng_state()


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_branches_have_eagers_bits_and_one_capture(name: str) -> None:
    function = PROGRAMS[name]
    compiled = ferro.compile(function, fullgraph=True)
    for seed in range(9):
        x, w, state = given(seed)
        want, got = outcome(function, x, w, state), outcome(compiled, x, w, state)
        assert all(map(as_eager, got, want)), seed
    told = compiled.explain()
    assert (len(told.graphs), told.replays, told.eager) == (1, 8, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_branches_have_eagers_bits(name: str, tmp_path: Path) -> None:
    function = PROGRAMS[name]
    x, w, _ = given(0)
    graph = capture(function, x.requires_grad_(), w.requires_grad_())
    assert sum(bool(node.graphs) for node in graph.nodes) == 1
    again = Graph.parse(str(graph))
    assert str(again) == str(graph)
    graph.save(tmp_path / "graph")
    loaded = Graph.load(tmp_path / "graph")
    assert str(loaded) == str(graph)
    bound = [v.tensor for v in graph.bound]
    gradients = [g.differentiate() for g in (graph, loaded)]
    for seed in range(1, 9):
        x, w, state = given(seed)
        want = outcome(function, x, w, state)
        for g in (graph, loaded, graph.optimise(debug=True)):
            ferro.set_rng_state(state)
            (got,) = g.interpret(x, w, *bound)
            assert same_bits(bits(got), bits(want[0]))
            assert ferro.equal(ferro.get_rng_state(), want[-1])
        for gradient in (*gradients, gradients[0].optimise(debug=True)):
            ferro.set_rng_state(state)
            found = gradient.joint.interpret(x, w, want[0] + want[0], *bound)[1:]
            for k, place in enumerate(gradient.gradients):
                assert place is not None
                assert as_eager(found[place], want[1 + k])
        assert graph.compare(function, x, w) is None


def test_one_branch_runs() -> None:
    index = ferro.tensor([7])

    def function(x: Any, which: Any) -> Any:
        return ferro.cond(which, lambda x: x.index_select(0, index), lambda x: x[:1] * 2, (x,))

    graph = capture(function, ferro.ones(9), ferro.tensor(False))
    assert graph.interpret(ferro.ones(9), ferro.tensor(True))[0].item() == 1
    index[0] = 9
    assert graph.interpret(ferro.ones(9), ferro.tensor(False))[0].item() == 2  # (the other one would raise)
    with pytest.raises(IndexError, match="out of bounds") as raised:
        graph.interpret(ferro.ones(9), ferro.tensor(True))
    notes = "\n".join(raised.value.__notes__)
    assert "'cond'" in notes
    assert notes.count("test_control_flow.py") >= 2


def test_a_branch_that_raises_for_its_data_is_captured_with_others() -> None:
    def function(x: Any, i: Any) -> Any:
        return ferro.cond((i < 3).all(), lambda x, i: x.index_select(0, i), lambda x, i: x[:2] * 0, (x, i))

    graph = capture(function, ferro.arange(3.0), ferro.tensor([5, 0]))
    assert graph.interpret(ferro.arange(3.0), ferro.tensor([2, 1]))[0].tolist() == [2, 1]
    assert graph.interpret(ferro.arange(3.0), ferro.tensor([2, 7]))[0].tolist() == [0, 0]


def test_a_bool_decides_once() -> None:
    graph = capture(lambda x: ferro.cond(True, lambda x: x.exp(), lambda x: x[:1], (x,)), ferro.ones(3))
    assert [node.function for node in graph.nodes] == ["exp"]


def test_results_share_no_memory_with_operands() -> None:
    x = ferro.ones(3)
    y = ferro.cond(ferro.tensor(True), lambda x: x[1:], lambda x: x[:2], (x,))
    y.add_(1)
    assert x.tolist() == [1, 1, 1]

    def function(x: Any) -> Any:
        y = ferro.cond(x.sum() > 0, lambda x: x, lambda x: x, (x,))
        y.add_(1)
        return y, x * 2

    want = [t.clone() for t in function(ferro.ones(3))]
    assert all(map(ferro.equal, capture(function, ferro.ones(3)).interpret(ferro.ones(3)), want))


def test_an_untaken_branch_captures_nothing() -> None:
    def function(x: Any) -> Any:
        return ferro.cond(x.sum() > 0, lambda x: x.exp().sin().tanh(), lambda x: x * 2, (x,)).sum()

    gradient = capture(function, ferro.ones(3, requires_grad=True)).differentiate()
    (saved,) = [v for v in gradient.forward.outputs if v.dtype == object]
    kept = {}
    for x in (ferro.ones(3), -ferro.ones(3)):
        outs = gradient.forward.interpret(x)
        kept[x.sum().item() > 0] = len(outs[gradient.forward.outputs.index(saved)]._data[()][0])
    assert kept == {True: 2, False: 0}


def test_without_gradients_nothing_is_kept() -> None:
    with ferro.no_grad():
        graph = capture(of_a_closure, *given(0)[:2])
    (node,) = [node for node in graph.nodes if node.graphs]
    assert len(node.outputs) == 1


def test_passes_go_into_branches_and_find_nothing_more_then() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return ferro.cond(x.sum() > 0, lambda y: y.exp() * 1 + y.exp(), lambda y: (y + y) + (y + y), (y,))

    graph = capture(function, ferro.ones(3))
    short = graph.optimise(debug=True)

    def sizes(g: Graph) -> list:
        return [len(inner.nodes) for node in g.nodes for inner in node.graphs]

    assert (sizes(graph), sizes(short)) == ([4, 3], [2, 2])
    assert str(short.optimise()) == str(short)
    assert not any(short.optimise().optimised.values())
    assert sizes(graph.optimise(("dead_code",))) == [4, 3]
    for x in (ferro.ones(3), -ferro.ones(3)):
        assert same_bits(short.interpret(x)[0]._data, function(x)._data)


def test_an_operation_declared_elsewhere_in_a_branch() -> None:
    name = "control_flow_test.softclip"
    op = OPS.get(name) or Op(
        name,
        lambda xp, x: x / xp.sqrt(1 + x * x),
        x=lambda xp, g, x: g / xp.sqrt(1 + x * x) ** 3,
        samples=[Sample(Arg(3))],
        path=name,
    )

    def function(x: Any, w: Any) -> Any:
        return ferro.cond(x.sum() > 0, lambda x: ferro.core.apply.unary(op, x * w), lambda x: x * w, (x,))

    compiled = ferro.compile(function, fullgraph=True)
    for seed in range(6):
        x, w, state = given(seed)
        assert all(map(as_eager, outcome(compiled, x, w, state), outcome(function, x, w, state)))
    assert len(compiled.graphs) == 1


@pytest.mark.parametrize("comp", [False, True])
def test_training_steps(comp: bool) -> None:
    def trained(compiled: bool) -> list:
        ferro.manual_seed(3)
        model = ferro.nn.Sequential(ferro.nn.Linear(3, 3), ferro.nn.Dropout(0.2), ferro.nn.Tanh())
        optimizer = ferro.optim.Adam(model.parameters())

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            value = ferro.cond(x.sum() > 0, lambda x: model(x).exp(), lambda x: model(model(x)), (x,)).pow(2).sum()
            value.backward()
            optimizer.step()
            return value

        run = ferro.compile(step) if compiled else step
        values = [run(ferro.randn(2, 3)) for _ in range(10)]
        if compiled:
            assert (len(run.explain().graphs), run.explain().replays, run.explain().fallbacks) == (1, 8, [])
        return [*values, *model.parameters()]

    assert all(same_bits(bits(a), bits(b)) for a, b in zip(trained(comp), trained(False), strict=True))


def test_second_derivatives_of_compiled_branches() -> None:
    def second(function: Callable, x: Any, w: Any) -> list:
        x, w = x.double().requires_grad_(), w.double().requires_grad_()
        g = ferro.autograd.grad(function(x, w).pow(2).sum(), (x, w), create_graph=True)
        return list(ferro.autograd.grad(sum(t.pow(2).sum() for t in g), (x, w), allow_unused=True))

    for function in (of_a_closure, nested):
        compiled = ferro.compile(function, fullgraph=True)
        for seed in range(6):
            x, w, _ = given(seed)
            for got, want in zip(second(compiled, x, w), second(function, x, w), strict=True):
                assert np.allclose(got._data, want._data, rtol=1e-13, atol=0)
        assert len(compiled.graphs) == 1


def test_a_derivative_of_a_derivative_is_no_graph() -> None:
    x, w, _ = given(0)
    gradient = capture(of_a_closure, x.requires_grad_(), w).differentiate()
    with pytest.raises(NotImplementedError, match=r"cond: a derivative .*test_control_flow.py:\d+"):
        gradient.joint.differentiate(f=1, wrt=0)


# -- bad input ---------------------------------------------------------------------------------------------------------

THERE = ferro.zeros(3)
REFUSED: dict[str, tuple[Callable, str]] = {
    "shapes": (
        lambda x: x[:2] * 1,
        r"branches of cond at .* differ: 0 gives float32\[3\] at .*:\d+ in .*1 gives float32\[2\] at ",
    ),
    "dtypes": (lambda x: x.double(), r"0 gives float32\[3\].*1 gives float64\[3\]"),
    "nesting": (lambda x: (x * 1, x * 2), r"nested as \*.*nested as \(\*, \*\)"),
    "a write into an operand": (lambda x: x.add_(1) * 1, r"writes into a tensor of shape \[3\] that was there before"),
    "a write into a global": (
        lambda x: THERE.add_(1) * 1,
        r"writes into a tensor of shape \[3\] that was there before",
    ),
    "a tensor from outside": (lambda x: THERE, r"gives a tensor from outside; give a copy"),
    "a question": (lambda x: x if x.sum() > 0 else x + 1, r"Python asks for the numbers"),
    "backward": (lambda x: ((W * x).sum().backward(), x * 1)[1], r"adds to a .grad"),
    "what raises always": (
        lambda x: ferro.linalg.inv(x[None])[0],
        r"cond: the branch that is not taken raises .*test_control_flow.py",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_untaken_branches_are_refused(name: str) -> None:
    branch, said = REFUSED[name]
    before = THERE.clone()

    def function(x: Any) -> Any:
        return ferro.cond(x.sum() > 0, lambda x: x.exp(), branch, (x,))

    x = ferro.ones(3)
    W.grad = None
    with pytest.raises(CaptureError, match=re.compile(said, re.DOTALL)):
        capture(function, x)
    assert ferro.equal(THERE, before)
    assert x.tolist() == [1, 1, 1]
    assert W.grad is None
    compiled = ferro.compile(function)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            assert ferro.equal(compiled(x), x.exp())
    assert len(told) == 1
    assert compiled.explain().fallbacks


def checkpointed(x: Any, w: Any) -> Any:
    def function(x: Any) -> Any:
        return ferro.cond(x.sum() > 0, lambda x: (x * w).sin().exp(), lambda x: (x * w).exp(), (x,)).tanh()

    return ferro.utils.checkpoint.checkpoint(function, x, use_reentrant=False)


def second_inside(x: Any, w: Any) -> Any:
    y = ferro.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: (x * w).exp(), (x,))
    (g,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
    return g * g


@pytest.mark.parametrize(
    ("function", "said"),
    [(checkpointed, "cond at .* runs in a checkpoint"), (second_inside, "a derivative goes through the derivative of")],
)
def test_what_runs_as_it_is_written(function: Callable, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        capture(function, *[t.requires_grad_() for t in given(0)[:2]])
    compiled = ferro.compile(function)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for seed in range(4):
            got, want = outcome(compiled, *given(seed)), outcome(function, *given(seed))
            assert all(
                np.allclose(a._data, b._data, rtol=1e-5) for a, b in zip(got, want, strict=True) if b is not None
            )
    assert len(told) == 1


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: ferro.cond(x, abs, abs, (x,)), RuntimeError, r"pred is .*float32 of shape \[3\]"),
        (lambda x: ferro.cond("1", abs, abs, (x,)), RuntimeError, "pred is a str"),
        (lambda x: ferro.cond(True, abs, abs, x), RuntimeError, "operands is a Tensor"),
        (lambda x: ferro.cond(True, abs, 3, (x,)), RuntimeError, "a branch is a int"),
        (lambda x: ferro.cond(True, lambda x: 3, abs, (x,)), TypeError, "a branch gives a int"),
        (lambda x: ferro.graph.switch(3, [abs, abs], (x,)), IndexError, "the index is 3, there are 2 branches"),
        (lambda x: ferro.graph.switch(x, [abs], (x,)), RuntimeError, "index is"),
        (lambda x: ferro.graph.switch(0, [], (x,)), RuntimeError, "functions were expected"),
        (lambda x: ferro.graph.switch(ferro.tensor(-1), [abs, abs], (x,)), IndexError, "the index is -1"),
    ],
)
def test_wrong_arguments(call: Callable, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        call(ferro.ones(3))


def test_an_index_that_no_branch_has_is_told_by_a_replay() -> None:
    graph = capture(lambda i: ferro.graph.switch(i, [lambda: W * 1, lambda: W * 2]), ferro.tensor(0))
    with pytest.raises(IndexError, match="the index is 2, there are 2 branches") as raised:
        graph.interpret(ferro.tensor(2))
    assert "'switch', from " in raised.value.__notes__[-1]


def test_damaged_texts() -> None:
    text = str(capture(of_a_closure, *given(0)[:2]))
    for old, new in (
        ("  graph 1", "  graph 2"),
        ("graph(1)", "graph(0)"),
        ("graph(1)", "graph(7)"),
        ("  graph 0\n", ""),
        ("\n  return", "\n  give"),
    ):
        assert old in text
        with pytest.raises(GraphFormatError):
            Graph.parse(text.replace(old, new, 1))
