"""Attributes that a program gives to tensors."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import ferro


class Mark:
    """Something that can be watched."""


MAKERS = {
    "creation": lambda: ferro.ones(3),
    "operation": lambda: ferro.ones(3) + 1,
    "recorded": lambda: ferro.ones(3, requires_grad=True) * 2,
    "view": lambda: ferro.ones(3)[1:],
    "detach": lambda: ferro.ones(3).detach(),
    "reduction": lambda: ferro.ones(3).sum(),
    "parts": lambda: ferro.ones(4).split(2)[1],
    "parameter": lambda: ferro.nn.Parameter(ferro.ones(3)),
    "buffer": lambda: ferro.nn.Buffer(ferro.ones(3)),
}


@pytest.mark.parametrize("how", MAKERS)
def test_every_tensor_takes_attributes_and_gives_them_back(how):
    t = MAKERS[how]()
    assert not hasattr(t, "tag")
    t.tag = 1
    t.note = "two"
    assert (t.tag, t.note) == (1, "two")
    del t.tag
    with pytest.raises(AttributeError, match="no attribute 'tag'"):
        _ = t.tag


def test_attributes_do_not_follow_results():
    x = ferro.ones(3)
    x.tag = 1
    assert not any(hasattr(y, "tag") for y in (x + 1, x.detach(), x[0], x.clone(), x.data))


def test_attributes_are_copied_deeply_and_pickled():
    x = ferro.ones(3)
    x.items = [1, 2]
    deep = copy.deepcopy(x)
    assert deep.items == [1, 2]
    assert deep.items is not x.items
    assert pickle.loads(pickle.dumps(x)).items == [1, 2]
    assert copy.copy(x).items is x.items


def test_a_tensor_that_only_the_tape_or_a_gradient_keeps_has_its_attributes():
    x = ferro.ones(3, requires_grad=True)
    y = ferro.ones(3)
    y.grad = ferro.ones(3)
    x.tag, y.grad.tag = 1, 2
    out = x * 2
    del x
    gc.collect()
    assert out.grad_fn.next_functions[0][0].variable.tag == 1
    assert y.grad.tag == 2


def test_a_cycle_through_attributes_is_collected():
    x, y, z = ferro.ones(2), ferro.ones(2) + 1, ferro.ones(2)
    x.mark, y.mark = Mark(), Mark()
    marks = [weakref.ref(x.mark), weakref.ref(y.mark)]
    x.other, y.other = y, x
    z.grad = x
    del x, y
    gc.collect()
    assert all(m() is not None for m in marks)
    del z
    gc.collect()
    assert all(m() is None for m in marks)


def test_an_attribute_dies_with_its_tensor():
    x = ferro.ones(2)
    x.mark = Mark()
    mark = weakref.ref(x.mark)
    del x
    assert mark() is None


def test_a_tensor_without_attributes_has_none():
    assert vars(ferro.ones(2) + 1) == {}
