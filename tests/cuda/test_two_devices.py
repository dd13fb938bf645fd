"""Tensors of two devices that meet: an error that names both with their lines, whatever the operation; nothing is moved in silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.core.samples import ENTRIES
from tests.cuda.test_samples import PATHS, there
from tests.helpers import Call, arrays_of, rng_of

pytestmark = pytest.mark.usefixtures("cuda")


def said(meet: Callable[[], Any]) -> str:
    """What the error says."""
    with pytest.raises(RuntimeError, match="found at least two devices, cuda and cpu!") as error:
        meet()
    return str(error.value)


def line(text: str) -> str:
    """A pattern for a place in this file, where that stands."""
    return rf"at \S*test_two_devices\.py:\d+ in \w+ \(`{re.escape(text)}`\)"


def test_new_tensors_have_their_lines() -> None:
    x = ferro.ones(2, 3)
    y = ferro.zeros(3, device="cuda")
    found = said(lambda: x + y)
    assert found.startswith("add: ")
    there, here = found.partition("! ")[2].split("; ")
    assert re.match(rf"`y` \(float32 \[3\]\) lies on cuda:0, where 'zeros' put it {line(LINES[1])}", there), found
    assert re.match(rf"`x` \(float32 \[2, 3\]\) lies on cpu, where 'ones' put it {line(LINES[0])}", here), found


LINES = ["x = ferro.ones(2, 3)", 'y = ferro.zeros(3, device="cuda")']


def test_results_with_a_history_have_theirs() -> None:
    x = ferro.ones(2, 2, requires_grad=True)
    far = x.to("cuda") + 1
    near = x.exp()
    found = said(lambda: ferro.matmul(near, far))
    assert re.search(rf"`far` .* lies on cuda:0, a result of 'add' {line(FAR)}", found), found
    assert re.search(rf"`near` .* lies on cpu, a result of 'exp' {line(NEAR)}", found), found


FAR, NEAR = 'far = x.to("cuda") + 1', "near = x.exp()"


def test_a_parameter_has_the_line_that_brought_it_there() -> None:
    model = nn.Sequential(nn.Linear(3, 2)).to("cuda")
    x = ferro.from_numpy(np.ones((4, 3), np.float32))
    found = said(lambda: model(x))
    assert found.startswith("linear: ")
    assert re.search(rf"a tensor \(float32 \[2, 3\]\) lies on cuda:0, where 'to' put it {line(MODEL)}", found), found
    assert re.search(rf"`x` .* lies on cpu, where 'from_numpy' put it {line(INPUT)}", found), found


MODEL = 'model = nn.Sequential(nn.Linear(3, 2)).to("cuda")'
INPUT = "x = ferro.from_numpy(np.ones((4, 3), np.float32))"


def test_a_detached_tensor_has_the_line_where_it_left_the_tape() -> None:
    w = ferro.ones(2, requires_grad=True)
    left = (w * 2).detach()
    found = said(lambda: ferro.ones(2, device="cuda") * left)
    assert re.search(rf"`left` .* lies on cpu, without history since detach\(\).* {line(LEFT)}", found), found


LEFT = "left = (w * 2).detach()"


def test_changes_in_place_and_outputs_of_several_tensors() -> None:
    x, y = ferro.ones(2), ferro.ones(2, device="cuda")
    assert "a tensor (float32 [2]) lies on cpu" in said(
        lambda: x.mul_(y)
    )  # (which is changed by another tensor of its memory)
    for meet in (lambda: y.add_(x), lambda: y.addcmul_(x, y), lambda: ferro.stack([y, x])):
        assert "`x` (float32 [2]) lies on cpu" in said(meet)
    assert y.tolist() == x.tolist() == [1, 1]


class MixedCall(Call):
    """A call whose tensors are on the device, but one."""

    def __init__(self, near: int, *args: Any) -> None:
        self.near, self.count = near, -1
        super().__init__(*args)

    def _tensor(self, array: np.ndarray) -> Any:
        self.count += 1
        return ferro.from_numpy(array) if self.count == self.near else there(array)


def mixed(path: str) -> list[tuple[Any, list, int]]:
    """Samples with several tensors of one dimension at least, their arrays, and which of them may lie on the CPU."""
    found = []
    for sample in ENTRIES[path].samples[:3] if path not in SHAPES else ():
        arrays = arrays_of(sample, rng_of(path), "float64")
        sized = [k for k, a in enumerate(arrays) if a.ndim and a.size]
        sized = [k for k in sized if path not in READ or arrays[k].dtype.kind not in "iu"]
        if len(sized) > (path not in READ):
            found += [(sample, arrays, k) for k in sized]
    return found


# What looks at shapes alone, gives views of each, or has one tensor of floats; and what reads integers on the processor.
SHAPES = {"Tensor.resize_as", "broadcast_tensors", "nn.functional.ctc_loss"}
READ = {
    "embedding_bag",
    "gru",
    "index_put",
    "lstm",
    "nn.functional.embedding_bag",
    "nn.functional.grouped_mm",
    "rnn_tanh",
}


@pytest.mark.parametrize("path", [path for path in PATHS if mixed(path)])
def test_no_operation_takes_tensors_of_two_devices(path: str) -> None:
    for sample, arrays, near in mixed(path):
        call = MixedCall(near, ENTRIES[path], sample, ferro, [a.copy() for a in arrays], False)
        found = said(call.run)
        assert found.count(" lies on ") == 2, found
