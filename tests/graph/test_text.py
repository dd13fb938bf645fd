"""The text of a graph and its parser are inverses; files hold the same; damaged ones raise GraphFormatError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph import Graph, GraphFormatError, capture


def some() -> Graph:
    """A graph with all that a text can hold."""
    table = ferro.arange(40.0).reshape(5, 8).t()
    factors = np.arange(30, dtype=np.float64)

    def function(x: Any, i: Any) -> Any:
        y = ferro.zeros(3)
        y[1:] = x[0, 1:3]
        z = x.to(ferro.float64).sum(1, keepdim=True) * ferro.from_numpy(factors)
        return y * float("inf"), z, table.index_select(0, i), (x > 0.5).all(), x.chunk(2, 1)

    x = ferro.ones(2, 4, requires_grad=True)
    with ferro.no_grad():
        return capture(function, x, ferro.tensor([0, 2]))


def test_text_and_parser_are_inverses() -> None:
    graph = some()
    source = str(graph)
    again = Graph.parse(source, {f"constant{v.number}": v.array for v in graph.constants})
    assert str(again) == source
    assert "bound %2 float32[8, 5; 1, 8]" in source
    assert " written = " in source
    assert " effect" in source
    x, i = ferro.randn(2, 4), ferro.tensor([3, 1])
    table = graph.bound[0].tensor
    for got, want in zip(again.interpret(x, i, table), graph.interpret(x, i), strict=True):
        assert got._data.tobytes() == want._data.tobytes()
    with pytest.raises(ValueError, match="1 bound values have no tensor here"):
        again.interpret(x, i)
    with pytest.raises(ValueError, match="has no array: give it to"):
        Graph.parse(source).interpret(x, i, table)


def test_numbers_keep_their_bits() -> None:
    numbers = [0.1, -0.0, float("inf"), float("nan"), 1e-45, 3]
    graph = capture(lambda x: [x * n for n in numbers], ferro.ones(2))
    again = Graph.parse(str(graph))
    for mine, its in zip(graph.constants, again.constants, strict=True):
        assert (mine.array.tobytes(), mine.array.dtype) == (its.array.tobytes(), its.array.dtype)


def test_files(tmp_path: Path) -> None:
    graph = some()
    graph.save(tmp_path / "graph.safetensors")
    again = Graph.load(tmp_path / "graph.safetensors")
    assert str(again) == str(graph)
    x, i = ferro.randn(2, 4), ferro.tensor([3, 1])
    for got, want in zip(again.interpret(x, i, graph.bound[0].tensor), graph.interpret(x, i), strict=True):
        assert got._data.tobytes() == want._data.tobytes()


def test_damaged_files_raise_one_error(tmp_path: Path) -> None:
    graph = some()
    path = tmp_path / "graph.safetensors"
    graph.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for k in range(2000):
        data = bytearray(whole)
        if k % 3 == 0:
            del data[int(rng.integers(len(data))) :]
        else:
            for place in rng.integers(len(data), size=1 + k % 4):
                data[place] = int(rng.integers(256))
        path.write_bytes(data)
        try:
            found = Graph.load(path)
        except GraphFormatError:
            refused += 1
        else:
            assert isinstance(str(found), str)
    assert refused > 1400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ferro graph 1", "ferro graph 2"), "a graph begins with 'ferro graph 1'"),
        (("exp(%0)", "system(%0)"), r"line 3: no function is called 'system'"),
        (("exp(%0)", "xp.__init__(%0)"), "no function is called"),
        (("exp(%0)", "numpy.save(%0)"), "no function is called"),
        (("exp(%0)", "exp(%9)"), "line 3: no parameter of a graph: _9"),
        (("exp(%0)", "exp(__import__('os'))"), "no parameter of a graph"),
        (("exp(%0)", "exp(*%0)"), "no parameter of a graph"),
        (("exp(%0)", "exp(%0"), "no line of a graph"),
        (("return %1", "return %7"), "%7 is used before it is made"),
        (("return %1", ""), "the text ends before its last line|no line of a graph"),
        (("%1 float32", "%0 float32"), "%0 is made twice"),
        (("float32[2]", "float33[2]"), "'float33' is no dtype"),
    ],
)
def test_what_is_no_graph_is_refused(change: tuple[str, str], message: str) -> None:
    source = str(capture(lambda x: x.exp(), ferro.ones(2)))
    with pytest.raises(GraphFormatError, match=message):
        Graph.parse(source.replace(*change))


def test_parameters_without_a_literal_are_named() -> None:
    graph = capture(lambda x: x.exp(), ferro.ones(2))
    graph.nodes[0].args = (*graph.nodes[0].args, object())
    with pytest.raises(
        TypeError, match=r"'exp' at .*test_text\.py.* a parameter of type object cannot be written as a literal"
    ):
        str(graph)


LAYOUTS = {
    "transposed": lambda a: a.T,
    "with gaps": lambda a: a[:, ::2],
    "backwards": lambda a: a[::-1],
    "expanded": lambda a: np.lib.stride_tricks.as_strided(a, a.shape, (0, 4)),
    "small": lambda a: a[:2, :2].T,
    "one column": lambda a: a[:, 1:2],
}


@pytest.mark.parametrize(
    ("name", "written"),
    [*[(name, False) for name in LAYOUTS], *[(name, True) for name in LAYOUTS if name != "expanded"]],
)
def test_constants_keep_their_layout(name: str, written: bool, tmp_path: Path) -> None:
    layout = LAYOUTS[name](np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32))

    def function(x: Any) -> Any:
        table = ferro.from_numpy(layout)
        if written:
            table[0] = 7.0
        return table.sum(1), table * x, table

    before = layout.strides
    graph = capture(function, ferro.ones(1))
    path = tmp_path / "graph.safetensors"
    graph.save(path)
    parsed = Graph.parse(str(graph), {f"constant{v.number}": v.array for v in graph.constants})
    x = ferro.tensor([0.1])
    want = function(x)
    for found in (graph, parsed, Graph.load(path)):
        got = found.interpret(x)
        assert str(found) == str(graph)
        assert [t.stride() for t in got] == [t.stride() for t in want]
        assert all(g._data.tobytes() == w._data.tobytes() for g, w in zip(got, want, strict=True))
    assert layout.strides == before
    if layout.size:
        assert f"; {', '.join(str(s // 4) for s in before)}]" in str(graph)


def test_a_layout_that_cannot_hold_the_numbers_is_refused() -> None:
    table = np.lib.stride_tricks.as_strided(np.float32([1.0, 2.0]), (2, 2), (0, 4))
    source = str(capture(lambda x: x * ferro.from_numpy(table), ferro.ones(1)))
    assert "float32[2, 2; 0, 1] = bytes(" in source
    with pytest.raises(GraphFormatError, match="has different numbers at one place of its memory"):
        Graph.parse(source.replace("[2, 2; 0, 1]", "[2, 2; 1, 0]"))
    with pytest.raises(GraphFormatError, match="line 3"):
        Graph.parse(source.replace("[2, 2; 0, 1]", "[2, 2; 1, 99999999999999999999]"))
