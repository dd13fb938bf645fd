"""ferro.debug: nan_guard, memory, graph and locations."""

from __future__ import annotations

import inspect
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro import debug, nn
from ferro.core import mode
from ferro.debug import layout


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


def line() -> int:
    """The number of the line after the caller's."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno + 1


# -- nan_guard ---------------------------------------------------------------------------------------------------------


def test_forward_names_the_producer_its_line_and_the_element() -> None:
    x = ferro.tensor([[1.0, 2.0], [-3.0, -4.0]])
    at = line() + 1
    with pytest.raises(debug.NonFiniteError, match="'log' made nan") as error, debug.nan_guard():
        x.log()
    e = error.value
    assert (e.op, e.phase, e.index) == ("log", "forward", (1, 0))
    assert e.location is not None
    assert (Path(e.location.file).name, e.location.line) == ("test_debug.py", at)
    for part in ("2 of 4 elements", "shape [2, 2]", "index [1, 0]", "= -3.0 there", f"test_debug.py:{at}"):
        assert part in str(e)
    assert mode.MODE.get() is None


def test_forward_names_the_module() -> None:
    class Bad(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x - 10).sqrt()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Sequential(nn.ReLU(), Bad())])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    with pytest.raises(debug.NonFiniteError, match=r"'sqrt'.*in module 'Net.layers.1.1'"), debug.nan_guard():
        Net()(ferro.zeros(1, 2))


def test_backward_names_the_producer_and_the_line_of_its_forward() -> None:
    x = leaf(4.0, 0.0)
    with debug.nan_guard():
        at = line()
        y = x.sqrt()
        loss = (y * ferro.tensor([1.0, 0.0])).sum()
        with pytest.raises(debug.NonFiniteError, match="the backward of 'sqrt'") as error:
            loss.backward()
    e = error.value
    assert (e.op, e.phase, e.index) == ("sqrt", "backward", (1,))
    assert e.location is not None
    assert e.location.line == at
    assert "incoming gradient = 0.0 there" in str(e)
    assert "saved out = 0.0 there" in str(e)


@pytest.mark.parametrize("threads", [1, 3])
def test_inf_is_looked_for_when_asked(threads: int) -> None:
    x = leaf(4.0, 0.0)
    with debug.nan_guard():
        ferro.autograd.backward(x.sqrt().sum(), num_threads=threads)
    with (
        pytest.raises(debug.NonFiniteError, match=r"the backward of 'sqrt'.* made inf"),
        debug.nan_guard(nan=False, inf=True),
    ):
        ferro.autograd.backward(x.sqrt().sum(), num_threads=threads)
    with pytest.raises(debug.NonFiniteError, match="'div' made inf"), debug.nan_guard(inf=True):
        1 / x
    with debug.nan_guard(nan=False, inf=True):
        (x - 10).log()  # nan


def test_only_the_producer_is_at_fault() -> None:
    x = ferro.tensor([1.0, float("nan")], requires_grad=True)
    with debug.nan_guard():
        (x * 2).exp().sum().backward()
    with debug.nan_guard(allow=["log"]):
        y = leaf(-1.0).log() * 3
        y.sum().backward()
    with pytest.raises(debug.NonFiniteError), debug.nan_guard(allow="sqrt"):
        leaf(-1.0).log()


def test_where_chooses_the_phase() -> None:
    x = leaf(-1.0, 0.0)
    with debug.nan_guard(where="backward"):
        x.log()
    with debug.nan_guard(where="forward"):
        (leaf(0.0).sqrt() * 0).sum().backward()
    w = leaf(1.0, 1.0)
    with (
        pytest.raises(debug.NonFiniteError, match=r"saved x = nan there|saved y = nan there"),
        debug.nan_guard(where="backward"),
    ):
        ferro.autograd.grad((w * x.log()).sum(), w)
    for wrong in ({"where": "sideways"}, {"nan": False}):
        with pytest.raises(ValueError, match="nan_guard"):
            debug.nan_guard(**wrong)


def test_double_backward_is_guarded() -> None:
    x = leaf(0.0)
    with debug.nan_guard():
        y = (x**1.5).sum()
        at = line()
        (g,) = ferro.autograd.grad(y, x, create_graph=True)  # 1.5 √x: finite, but its derivative is not
        loss = (g * leaf(0.0)).sum()
        with pytest.raises(debug.NonFiniteError, match="the backward of 'pow_number'") as error:
            loss.backward()
    e = error.value
    assert e.phase == "backward"
    assert e.location is not None
    assert e.location.line == at  # where the first derivative was recorded


def test_in_place_16_bit_complex_and_several_outputs() -> None:
    with debug.nan_guard():
        x = ferro.tensor([1.0, -1.0])
        with pytest.raises(debug.NonFiniteError, match="'log'"):
            x.log_()
        assert x.tolist() == [1.0, -1.0]  # the change was refused before it was made
        with pytest.raises(debug.NonFiniteError, match="bfloat16"):
            x.to(ferro.bfloat16).log()
        with pytest.raises(debug.NonFiniteError, match="complex64"):
            ferro.tensor([complex(0, 0)]) / 0
        x.sort()


def test_off_there_is_nothing() -> None:
    x, before = leaf(2.0), len(mode.ACTIVE)
    with debug.nan_guard():
        assert len(mode.ACTIVE) == before + 1
    y = x.exp()
    assert y.grad_fn.meta is None
    assert len(mode.ACTIVE) == before


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_counts_what_is_kept_by_operation() -> None:
    x, w = ferro.rand(100, requires_grad=True), ferro.rand(100)
    report = debug.memory(((x * w).exp() * 2).sum())
    assert report.by_op == {"mul": 400, "exp": 400}
    assert (report.total, report.inputs, report.parameters, report.nodes) == (800, 400, 0, 4)
    assert "800 B in 4 nodes" in str(report)


def test_storages_saved_twice_are_counted_once_and_shown() -> None:
    x = ferro.rand(10, 10, requires_grad=True)
    y = x.exp()
    report = debug.memory((y @ y.T).sum())
    assert report.total == 400
    (shared,) = report.shared
    assert shared.bytes == 400
    assert shared.savers[0] == "exp.out"
    assert len(shared.savers) == 3
    assert "saved more than once" in str(report)


def test_parameters_and_their_views_are_counted_apart() -> None:
    layer, x = nn.Linear(20, 30, bias=False), ferro.rand(5, 20, requires_grad=True)
    report = debug.memory((x.exp() @ layer.weight.T).sum())
    assert report.parameters == 20 * 30 * 4
    assert report.total == 5 * 20 * 4


def test_memory_by_line_and_module() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Tanh(), nn.Sigmoid()))
    x = ferro.rand(2, 4)
    with debug.locations():
        hidden = model(x)
        at = line()
        loss = hidden.exp().sum()
    report = debug.memory(loss)
    assert report.by_module["Sequential.1"] == 2 * 2 * 8 * 4
    assert report.by_module["Sequential.1.0"] == 2 * 8 * 4
    assert report.by_module["Sequential"] == report.by_module["Sequential.1"] + report.by_module["Sequential.0"]
    assert next(n for name, n in report.by_line.items() if name.endswith(f"test_debug.py:{at}")) == 64
    assert "Sequential.1" in str(report)


def test_checkpointing_spares_what_the_report_says() -> None:
    from ferro.utils.checkpoint import checkpoint

    model, x = nn.Sequential(nn.Tanh(), nn.Tanh(), nn.Tanh()), ferro.rand(1000, requires_grad=True)
    with debug.locations():
        before = debug.memory(model(x).sum())
    after = debug.memory(checkpoint(model, x, use_reentrant=False).sum())
    assert before.by_module["Sequential"] == before.total == 12000
    assert after.total == 0


def test_memory_sees_custom_functions_and_hooks() -> None:
    class Cube(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

    x = ferro.rand(100, requires_grad=True)
    assert debug.memory(Cube.apply(x * 2).sum()).by_op == {"Cube": 400}
    with ferro.utils.offload.save_in_bfloat16():
        loss = x.exp().sum()
    assert debug.memory(loss).by_op == {"exp": 200}


def test_memory_after_backward_and_without_graph() -> None:
    loss = ferro.rand(100, requires_grad=True).exp().sum()
    loss.backward()
    report = debug.memory(loss)
    assert (report.total, report.freed) == (0, 1)
    assert "were freed" in str(report)
    with pytest.raises(RuntimeError, match="does not require grad"):
        debug.memory(ferro.ones(1))
    with pytest.raises(TypeError, match="got int"):
        debug.memory(3)


# -- graph -------------------------------------------------------------------------------------------------------------


def small() -> tuple[Any, dict]:
    x, w = ferro.rand(3, requires_grad=True), ferro.rand(3, requires_grad=True)
    return (x.exp() * w + x).sum(), {"x": x, "w": w}


def test_dot_has_every_node_edge_shape_and_saved_bytes() -> None:
    loss, names = small()
    dot = debug.graph(loss, names).dot()
    assert dot.startswith("digraph")
    labels = re.findall(r'label="([^"]*)"', dot)
    assert [text.split("\\n")[0] for text in labels] == ["sum", "add", "mul", "exp", "x", "w"]
    assert any(re.fullmatch(r"exp\\n\[3\] float32\\nsaves 12 B\\ntest_debug.py:\d+", text) for text in labels)
    assert dot.count(" -> ") == 6


def test_quotes_in_names_are_escaped() -> None:
    x = ferro.rand(3, requires_grad=True)
    pictures = debug.graph(x * 2, {'a"b<': x})
    assert 'a\\"b<' in pictures.dot()
    ET.fromstring(pictures.svg())


def test_svg_is_well_formed_and_boxes_do_not_overlap() -> None:
    loss, names = small()
    picture = debug.graph(loss, names)
    root = ET.fromstring(picture.svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height")) for r in root.iter(f"{space}rect")]
    assert len(boxes) == 6
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert abs(a[0] - b[0]) >= a[2] or abs(a[1] - b[1]) >= a[3]
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x >= 0 and x + w <= width and y >= 0 and y + h <= height for x, y, w, h in boxes)
    texts = [t.text for t in root.iter(f"{space}text")]
    assert "exp" in texts
    assert picture._repr_svg_() == picture.svg()


def test_layers_and_their_order() -> None:
    edges = {0: [1, 2], 1: [4], 2: [3], 3: [], 4: []}
    level = layout.levels(edges, [0, 1, 2, 3, 4])
    assert level == {0: 0, 1: 1, 2: 1, 3: 2, 4: 2}
    _, left, right = layout.ordered(edges, level)
    assert [left.index(1) < left.index(2), right.index(4) < right.index(3)] in (
        [True, True],
        [False, False],
    )  # no crossing


def test_the_tree_names_what_was_shown_and_stays_narrow() -> None:
    loss, names = small()
    text = str(debug.graph(loss, names))
    assert text.splitlines()[0] == "sum [] float32"
    assert "exp [3] float32  saves 12 B  @ test_debug.py:" in text  # the place is noted with what is saved
    assert text.count("x [3] float32") == 1
    assert "(shown above)" in text or "(shown below)" in text
    h = ferro.rand(3, requires_grad=True)
    for _ in range(50):
        h = h + h.tanh()
    assert max(len(row) for row in str(debug.graph(h)).splitlines()) < 80


def test_a_deep_graph_and_a_freed_graph() -> None:
    x = leaf(1.0)
    h = x
    for _ in range(20000):
        h = h * 1.0001
    picture = debug.graph(h)
    assert len(picture.tree().splitlines()) == 20001
    assert picture.svg().count("<rect") == 20001
    loss, names = small()
    loss.backward()
    text = str(debug.graph(loss, names))
    assert "exp [3] float32  freed" in text
    assert "saves" not in text


def test_locations_are_shown_and_files_written(tmp_path: Path) -> None:
    with debug.locations():
        at = line()
        loss, names = small()[0].exp(), {}
    picture = debug.graph(loss, names)
    assert f"@ test_debug.py:{at}" in str(picture)
    for suffix, begin in ((".dot", "digraph"), (".svg", "<svg"), (".txt", "exp")):
        picture.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text("utf-8").startswith(begin)
    with pytest.raises(ValueError, match=r"one of .dot, .svg, .txt"):
        picture.save(tmp_path / "graph.png")


def test_times_of_a_profiled_backward_are_shown_with_their_thread() -> None:
    loss, _ = small()
    with ferro.profiler.profile() as prof:
        loss.backward()
    text = str(debug.graph(loss, profile=prof))
    assert re.search(r"exp .*backward \d+\.\d us \(MainThread\)", text)
    assert "mul [3] float32  freed  backward" in text
