"""Lazy layers: they become what the eager layer of their first input's size is, state and draws included."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import ferro
from tests.nn.parity import assert_same, compare_state, to_ferro, torch

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "LazyLinear": (lambda nn: nn.LazyLinear(4), (5, 3)),
    "LazyLinear no bias": (lambda nn: nn.LazyLinear(4, bias=False, dtype=None), (2, 5, 3)),
    "LazyConv1d": (lambda nn: nn.LazyConv1d(4, 2, padding=1, groups=2), (2, 6, 5)),
    "LazyConv2d": (lambda nn: nn.LazyConv2d(4, (2, 3), stride=2), (2, 3, 5, 6)),
    "LazyConv3d unbatched": (lambda nn: nn.LazyConv3d(2, 2, bias=False), (3, 3, 4, 5)),
    "LazyConvTranspose1d": (lambda nn: nn.LazyConvTranspose1d(4, 2, groups=2), (2, 6, 5)),
    "LazyConvTranspose2d": (lambda nn: nn.LazyConvTranspose2d(4, 2, stride=2), (2, 3, 5, 4)),
    "LazyConvTranspose3d": (lambda nn: nn.LazyConvTranspose3d(2, 2), (1, 3, 2, 2, 2)),
    "LazyBatchNorm1d": (lambda nn: nn.LazyBatchNorm1d(), (4, 3)),
    "LazyBatchNorm2d no affine": (lambda nn: nn.LazyBatchNorm2d(affine=False), (4, 3, 2, 2)),
    "LazyBatchNorm3d no stats": (lambda nn: nn.LazyBatchNorm3d(track_running_stats=False), (2, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": (lambda nn: nn.LazyInstanceNorm1d(bias=False), (4, 3, 5)),
    "LazyInstanceNorm2d": (lambda nn: nn.LazyInstanceNorm2d(), (4, 3, 5, 2)),
    "LazyInstanceNorm3d": (lambda nn: nn.LazyInstanceNorm3d(momentum=0.3), (4, 3, 2, 3, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_lazy_layer_becomes_the_one_that_torch_s_becomes(name: str) -> None:
    make, shape = LAYERS[name]
    ours, theirs = make(ferro.nn).double(), make(torch.nn).double()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.randn(*shape, dtype=torch.float64)
    theirs(x)
    ours(to_ferro(x))
    assert type(ours).__name__ == type(theirs).__name__
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(to_ferro(dict(theirs.state_dict())))
    assert_same(ours(to_ferro(x)), theirs(x), name)
    compare_state(ours, theirs)


@pytest.mark.parametrize("name", LAYERS)
def test_the_draws_of_a_lazy_layer_are_those_of_the_eager_one(name: str) -> None:
    make, shape = LAYERS[name]
    ferro.manual_seed(0)
    lazy = make(ferro.nn)
    lazy(ferro.ones(*shape))
    ferro.manual_seed(0)
    again = copy.deepcopy(lazy)
    again.reset_parameters()
    for a, b in zip(lazy.parameters(), again.parameters(), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("name", LAYERS)
def test_a_state_of_either_form_loads_into_either_form(name: str) -> None:
    make, shape = LAYERS[name]
    known, fresh, also = make(ferro.nn), make(ferro.nn), make(ferro.nn)
    known(ferro.ones(*shape))
    also.load_state_dict(fresh.state_dict())
    assert also.has_uninitialized_params() == fresh.has_uninitialized_params()
    fresh.load_state_dict(known.state_dict())
    assert not fresh.has_uninitialized_params()
    fresh(ferro.ones(*shape))
    assert repr(fresh) == repr(known)
    if also.has_uninitialized_params():
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
            known.load_state_dict(also.state_dict())


@pytest.mark.parametrize("name", LAYERS)
def test_lazy_layers_are_pickled_copied_and_converted_in_both_forms(name: str) -> None:
    make, shape = LAYERS[name]
    for layer in (pickle.loads(pickle.dumps(make(ferro.nn))), copy.deepcopy(make(ferro.nn)).double()):
        dtype = next(iter([p.dtype for p in layer.parameters()]), ferro.float32)
        out = layer(ferro.ones(*shape, dtype=dtype))
        again = pickle.loads(pickle.dumps(layer))
        assert type(again) is type(layer)
        assert out.dtype is dtype
        assert [p.dtype for p in again.parameters()] == [p.dtype for p in layer.parameters()]


def test_a_parameter_without_a_shape_refuses_operations() -> None:
    for tensor in (ferro.nn.UninitializedParameter(), ferro.nn.UninitializedBuffer(dtype=ferro.float64)):
        for operation in (lambda t: t + 1, ferro.relu, lambda t: t.sum(), lambda t: ferro.zeros(2) + t, lambda t: t[0]):
            with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
                operation(tensor)
        with pytest.raises(ValueError, match="has no elements"):
            tensor.copy_(ferro.ones(2))
        assert repr(tensor) == f"<{type(tensor).__name__}>"
    parameter = ferro.nn.UninitializedParameter(dtype=ferro.float64)
    assert parameter.requires_grad
    parameter.materialize((2, 3))
    assert type(parameter) is ferro.nn.Parameter
    assert (parameter.shape, parameter.dtype, parameter.requires_grad) == ((2, 3), ferro.float64, True)
    buffer = ferro.nn.UninitializedBuffer()
    buffer.materialize((2,), dtype=ferro.int64)
    assert type(buffer) is ferro.Tensor
    assert buffer.dtype is ferro.int64


def test_a_lazy_layer_refuses_an_input_of_wrong_dimensions() -> None:
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        ferro.nn.LazyConv2d(4, 3)(ferro.ones(2, 3))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        ferro.nn.LazyConv1d(4, 1, groups=2)(ferro.ones(1, 3, 4))
    with pytest.raises(ValueError, match="out_channels must be divisible by groups"):
        ferro.nn.LazyConv1d(3, 1, groups=2)


@pytest.mark.parametrize("name", sorted({text.split()[0] for text in LAYERS}))
def test_the_constructor_of_a_lazy_layer_takes_what_torch_s_takes(name: str) -> None:
    ours, theirs = [inspect.signature(getattr(nn, name)).parameters.values() for nn in (ferro.nn, torch.nn)]
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
    with pytest.raises(TypeError):
        getattr(ferro.nn, name)(inputs=3)
