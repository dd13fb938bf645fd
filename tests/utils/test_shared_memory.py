"""share_memory_: what one process writes another sees, forked or sent; who looked at the memory before moves along."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.multiprocessing as mp

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="this system has no file descriptors"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]
WAYS = multiprocessing.get_all_start_methods()


def write(tensor: Any, model: Any, there: Any, back: Any) -> None:
    """A child: writes to a tensor, takes a step with a model, sends tensors, and ends when they have been read."""
    tensor[0] = 7
    optimizer = ferro.optim.SGD(model.parameters(), 0.5)
    model(ferro.ones(1, 2)).sum().backward()
    optimizer.step()
    there.put((tensor[1:], ferro.ones(2).share_memory_(), ferro.ones(2)))
    back.get()


@pytest.mark.parametrize("way", WAYS)
def test_a_child_writes_and_the_parent_sees_it(way: str) -> None:
    context: Any = multiprocessing.get_context(way)
    there, back = context.Queue(), context.Queue()
    tensor, model = ferro.zeros(4).share_memory_(), ferro.nn.Linear(2, 1).share_memory()
    before = model.weight.detach().clone()
    process = context.Process(target=write, args=(tensor, model, there, back), daemon=True)
    process.start()
    view, fresh, copied = there.get(timeout=60)
    view[0] = 9
    assert view.untyped_storage() is tensor.untyped_storage()
    assert (fresh.tolist(), fresh.is_shared(), copied.tolist(), copied.is_shared()) == ([1, 1], True, [1, 1], False)
    back.put("read")
    process.join(60)
    assert process.exitcode == 0
    assert tensor.tolist() == [7, 9, 0, 0]
    assert (model.weight - before).tolist() == [[-0.5, -0.5]]
    assert (model.weight.grad, model.weight.requires_grad) == (None, True)


def hogwild(rank: int, model: Any, counts: Any) -> None:
    """A process of Hogwild training: steps on the shared parameters without locks."""
    ferro.manual_seed(rank)
    optimizer = ferro.optim.SGD(model.parameters(), 0.05)
    for _ in range(60):
        x = ferro.randn(8, 2)
        optimizer.zero_grad()
        ((model(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
        optimizer.step()
    counts[rank] += 1


def test_hogwild_training_reaches_the_parents_model() -> None:
    model = ferro.nn.Linear(2, 1)
    ferro.nn.init.zeros_(model.weight)
    model.share_memory()
    counts = ferro.zeros(2).share_memory_()
    mp.spawn(hogwild, (model, counts), nprocs=2)
    assert counts.tolist() == [1, 1]
    assert model.weight.flatten().tolist() == pytest.approx([1, 1], abs=0.1)


def test_views_and_bases_move_along_and_arrays_stay() -> None:
    base = ferro.arange(6.0).reshape(2, 3)
    view, other, array = base.t()[1:], base[1], base.numpy()
    assert not base.is_shared()
    assert view.share_memory_() is view
    assert base.is_shared()
    assert other.is_shared()
    assert (view.shape, view.stride(), view.storage_offset()) == ((2, 2), (1, 3), 1)
    view[0, 0] = 50
    other[2] = 60
    assert base.tolist() == [[0, 50, 2], [3, 4, 60]]
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    pointer = base.data_ptr()
    assert base.share_memory_().data_ptr() == pointer


def test_an_array_that_a_tensor_was_made_from_stays_as_in_pytorch(torch: Any) -> None:
    found = []
    for t in (torch, ferro):
        array = np.zeros(3, np.float32)
        x = t.from_numpy(array).share_memory_()
        x[0] = 1
        found.append((array.tolist(), x.tolist(), x.is_shared()))
    assert found[0] == found[1]


def test_autograd_goes_on_over_the_move() -> None:
    x = ferro.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x[1:] * x[:2]).sum()
    x.share_memory_()
    y.backward()
    assert x.grad.tolist() == [2, 4, 2]
    z = (x * x).sum()
    with ferro.no_grad():
        x[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.zeros(0),
        lambda t: t.tensor(1.5),
        lambda t: t.ones(2, 3).t(),
        lambda t: t.zeros(2, 1).expand(2, 3),
        lambda t: t.tensor([True, False]),
        lambda t: t.ones(2, dtype=t.bfloat16),
        lambda t: t.tensor([1 + 2j]),
    ],
    ids=["empty", "number", "transposed", "expanded", "bool", "bfloat16", "complex"],
)
def test_shared_tensors_have_pytorchs_geometry_and_numbers(torch: Any, make: Any) -> None:
    theirs, ours = (make(t).share_memory_() for t in (torch, ferro))
    assert (theirs.is_shared(), ours.is_shared()) == (True, True)
    assert (tuple(theirs.shape), theirs.stride(), theirs.tolist()) == (tuple(ours.shape), ours.stride(), ours.tolist())
    assert str(theirs.dtype) == str(ours.dtype).replace("ferro", "torch")


def test_modules_share_buffers_gradients_and_tied_parameters() -> None:
    model = ferro.nn.Sequential(ferro.nn.Linear(2, 2), ferro.nn.BatchNorm1d(2), ferro.nn.Linear(2, 2))
    model[2].weight = model[0].weight
    model(ferro.randn(4, 2)).sum().backward()
    parameters = list(model.parameters())
    assert model.share_memory() is model
    assert all(p.is_shared() and p.is_leaf for p in model.parameters())
    assert all(b.is_shared() for b in model.buffers())
    assert all(p.grad.is_shared() for p in model.parameters())
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert model[0].weight is model[2].weight


def test_copies_and_files_of_shared_tensors_are_not_shared() -> None:
    x = ferro.arange(3.0).share_memory_()
    for other in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x + 0):
        assert (other.tolist(), other.is_shared()) == ([0, 1, 2], False)


def test_storages_are_shared() -> None:
    x = ferro.arange(3.0)
    assert x.untyped_storage().share_memory_() is x.untyped_storage()
    assert x.is_shared()
    y = ferro.arange(4.0)
    assert y._typed_storage().share_memory_().is_shared()
    assert y.is_shared()
    with pytest.raises(RuntimeError, match="not resizable"):
        y.untyped_storage().resize_(100)
    with pytest.raises(RuntimeError, match="a slice of a storage"):
        ferro.zeros(3).untyped_storage()[2:4].share_memory_()


def test_a_tensor_with_a_history_is_not_sent(torch: Any) -> None:
    errors = []
    for t in (torch, ferro):
        context = t.multiprocessing.get_context("spawn")
        with pytest.raises(RuntimeError) as error:
            context.SimpleQueue().put(t.ones(2, requires_grad=True) * 2)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list descriptors")  # noqa: PTH112
def test_shared_memory_is_given_back() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(20):
        ferro.ones(1000).share_memory_()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
