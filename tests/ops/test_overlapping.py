"""Memory that an operation reads and writes at once: refused, warned of or written as PyTorch does it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import Call, arrays_of, entries, rng_of


@pytest.fixture(autouse=True)
def _every_time() -> Iterator[None]:
    """Warnings that are given once in a process, every time."""
    ferro.set_warn_always(True)
    yield
    ferro.set_warn_always(False)


# What an index operation does to a tensor y of 6 elements, an index i of 3, a mask m of 6 and a source v of 3.
WRITES: dict[str, Callable] = {
    "index_add_source": lambda y, i, m, v: y.index_add_(0, i, y[:3]),
    "index_add_index": lambda y, i, m, v: i.index_add_(0, i, i.clone()),
    "index_add_itself": lambda y, i, m, v: i.index_add_(0, i.clone(), i),
    "index_copy_source": lambda y, i, m, v: y.index_copy_(0, i, y[:3]),
    "index_copy_index": lambda y, i, m, v: i.index_copy_(0, i, i.clone()),
    "index_fill_index": lambda y, i, m, v: i.index_fill_(0, i, 0),
    "index_fill_value": lambda y, i, m, v: y.index_fill_(0, i, y[0]),
    "index_put_source": lambda y, i, m, v: y.index_put_((i,), y[:3]),
    "index_put_index": lambda y, i, m, v: i.index_put_((i,), i.clone()),
    "index_put_number": lambda y, i, m, v: y.index_put_((i,), y[0]),
    "setitem_source": lambda y, i, m, v: y.__setitem__(i, y[:3]),
    "setitem_mask": lambda y, i, m, v: y.__setitem__(m, y[0]),
    "put_source": lambda y, i, m, v: y.put_(i, y[:3]),
    "put_index": lambda y, i, m, v: i.put_(i, i.clone()),
    "put_number": lambda y, i, m, v: y.put_(i[0], y[0]),
    "scatter_source": lambda y, i, m, v: y.scatter_(0, i, y),
    "scatter_index": lambda y, i, m, v: i.scatter_(0, i, i.clone()),
    "scatter_add_source": lambda y, i, m, v: y.scatter_add_(0, i, y),
    "scatter_reduce_source": lambda y, i, m, v: y.scatter_reduce_(0, i, y, "sum"),
    "index_reduce_source": lambda y, i, m, v: y.index_reduce_(0, i, y[:3], "amax"),
    "masked_fill_part": lambda y, i, m, v: m[1:].masked_fill_(m[:-1], False),
    "masked_fill_itself": lambda y, i, m, v: m.masked_fill_(m, False),
    "apart": lambda y, i, m, v: y[3:].index_copy_(0, i, y[:3]),
}
EXPANDED: dict[str, Callable] = {
    "index_fill": lambda x, i, m, v: x.index_fill_(0, i, 1.0),
    "index_put": lambda x, i, m, v: x.index_put_((i,), v),
    "masked_fill": lambda x, i, m, v: x.masked_fill_(m, 0.0),
    "setitem_mask": lambda x, i, m, v: x.__setitem__(m, 1.0),
    "setitem_index": lambda x, i, m, v: x.__setitem__(i, v),
    "index_add": lambda x, i, m, v: x.index_add_(0, i, v),
    "index_copy": lambda x, i, m, v: x.index_copy_(0, i, v),
    "scatter": lambda x, i, m, v: x.scatter_(0, i, v),
    "put": lambda x, i, m, v: x.put_(i, v),
    "masked_scatter": lambda x, i, m, v: x.masked_scatter_(m, v),
    "fill": lambda x, i, m, v: x.fill_(2),
    "zero": lambda x, i, m, v: x.zero_(),
    "copy": lambda x, i, m, v: x.copy_(v[0]),
    "add": lambda x, i, m, v: x.add_(1),
    "relu": lambda x, i, m, v: x.relu_(),
    "threshold": lambda x, i, m, v: sys.modules[type(x).__module__.split(".")[0]].nn.functional.threshold_(x, 1.5, 2.5),
}


def outcome(engine: Any, write: Callable, expanded: bool = False) -> tuple:
    """What a write does: the error and its sentence, or the content and the warnings' sentences."""
    y = engine.arange(6.0) if not expanded else engine.ones(1).expand(6)
    args = (
        engine.tensor([2, 1, 0]),
        engine.tensor([True, False, True, True, False, False]),
        engine.tensor([0.5, 0.5, 0.5]),
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            write(y, *args)
        except RuntimeError as e:
            return ("error", str(e)[str(e).find("unsupported operation") :][:60])
    said = sorted({str(w.message)[:70] for w in seen if "expanded" in str(w.message)})
    return (y.tolist(), [a.tolist() for a in args], said)


@pytest.mark.parametrize("name", WRITES)
def test_an_index_or_source_in_the_memory_that_is_written_is_refused_as_torch_does(torch: Any, name: str) -> None:
    assert outcome(ferro, WRITES[name]) == outcome(torch, WRITES[name])


@pytest.mark.parametrize("name", EXPANDED)
def test_expanded_tensors_are_written_warned_of_or_refused_as_torch_does(torch: Any, name: str) -> None:
    torch.set_warn_always(True)
    theirs = outcome(torch, EXPANDED[name], True)
    torch.set_warn_always(False)
    ours = outcome(ferro, EXPANDED[name], True)
    if ours[-1] != theirs[-1] and name == "setitem_mask":  # PyTorch puts, we fill: both warn
        assert all("Use of" in said for o in (ours, theirs) for said in o[-1])
        ours, theirs = ours[:2], theirs[:2]
    assert ours == theirs


def test_a_recorded_write_to_an_expanded_tensor_is_refused() -> None:
    x = (ferro.ones(1, requires_grad=True) * 2).expand(6)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.index_fill_(0, ferro.tensor([1]), 0.0)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.fill_(0.0)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        ferro.nn.functional.threshold_(x, 0.5, 0.5)


def test_a_warning_is_given_once_unless_all_are_asked_for() -> None:
    def warned() -> int:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            ferro.ones(1).expand(2).index_fill_(0, ferro.tensor([0]), 1.0)
        return len(seen)

    assert warned() == warned() == 1
    ferro.set_warn_always(False)
    assert not ferro.is_warn_always_enabled()
    assert warned() == 0
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        ferro.set_warn_always(1)  # type: ignore[arg-type]


OUT: dict[str, Callable] = {
    "exp": lambda f, x: f.exp(x[:-1], out=x[1:]),
    "exp_itself": lambda f, x: f.exp(x, out=x),
    "exp_apart": lambda f, x: f.exp(x[:3], out=x[3:6]),
    "add": lambda f, x: f.add(x[:5], x[1:6], out=x[2:7]),
    "add_itself": lambda f, x: f.add(x[:5], x[5:], out=x[:5]),
    "addcmul": lambda f, x: f.addcmul(x[:3], x[3:6], x[6:9], out=x[5:8]),
    "lerp": lambda f, x: f.lerp(x[:3], x[3:6], 0.5, out=x[4:7]),
    "maximum": lambda f, x: f.maximum(x[:3], x[3:6], out=x[4:7]),
    "clamp": lambda f, x: f.clamp(x[:3], 0, 1, out=x[1:4]),
    "atan2": lambda f, x: f.atan2(x[:3], x[3:6], out=x[4:7]),
    "pow": lambda f, x: f.pow(x[:3], 2, out=x[1:4]),
    "floor": lambda f, x: f.floor(x[:3], out=x[1:4]),
    "eq": lambda f, x: f.eq(x[:3], 1, out=x[1:4]),
    "sigmoid": lambda f, x: f.sigmoid(x[:3], out=x[1:4]),
    "transposed": lambda f, x: f.exp(x[:9].view(3, 3), out=x[:9].view(3, 3).t()),
}


@pytest.mark.parametrize("name", OUT)
def test_an_out_that_lies_partly_in_an_operand_is_refused_as_torch_does(torch: Any, name: str) -> None:
    def refused(f: Any) -> bool:
        try:
            OUT[name](f, f.arange(10.0))
        except RuntimeError as e:
            assert "unsupported operation: some elements of the input tensor and the written-to tensor" in str(e)  # noqa: PT017
            return True
        return False

    assert refused(ferro) is refused(torch)


@pytest.mark.parametrize(
    "write",
    [
        "x.__setitem__(1, x[1][2])",
        "x.__setitem__(1, x[1][2:3])",
        "x.__setitem__(slice(None), x[0])",
        "x.__setitem__((0,), x[0, 3])",
        "x.__setitem__((slice(None), 1), x[2, 0])",
    ],
)
def test_a_part_of_what_is_written_may_be_written_everywhere(write: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (ferro, torch):
        x = lib.tensor(np.arange(12.0).reshape(3, 4))
        eval(write, {"x": x})
        found.append(x.tolist())
    assert found[0] == found[1]


def test_the_gradient_of_a_part_that_is_written_everywhere() -> None:
    def run(x: Any) -> Any:
        y = x * 2
        y[1] = y[1][2]
        return y

    assert ferro.autograd.gradcheck(run, (ferro.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True),))


IN_PLACE = [
    e for e in entries() if e.reference == "torch" and "." not in e.path and hasattr(ferro.Tensor, f"{e.path}_")
]


@pytest.mark.parametrize("entry", IN_PLACE, ids=[e.path for e in IN_PLACE])
def test_in_place_operations_refuse_an_expanded_tensor(entry: Any, torch: Any) -> None:
    """Whatever PyTorch refuses to write, and what it writes in an order that nobody knows: each place would be written twice."""
    for sample in entry.samples[:3]:
        arrays = arrays_of(sample, rng_of(entry.path), "float64")
        if not arrays or arrays[0].ndim == 0 or arrays[0].shape[0] < 2 or arrays[0].size < 2:
            continue
        refused = []
        for library in (torch, ferro):
            call = Call(entry, sample, library, [a.copy() for a in arrays], False)
            first, *rest = call.args
            if not isinstance(first, library.Tensor) or not hasattr(library.Tensor, f"{entry.path}_"):
                break
            expanded = first[:1].clone().expand(first.shape)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(library.Tensor, f"{entry.path}_")(expanded, *rest, **call.kwargs)
                refused.append(False)
            except RuntimeError as e:
                refused.append(
                    "more than one element of the written-to tensor refers to a single memory location" in str(e)
                )
        if len(refused) == 2:
            assert refused[1] or not refused[0], f"{sample}: PyTorch refuses this, ferro writes it"
