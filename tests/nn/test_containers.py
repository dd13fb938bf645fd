"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict, side by side with torch's."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import ferro
from ferro import nn
from tests.nn.parity import torch

BOTH = pytest.mark.parametrize("lib", [ferro, torch], ids=["ferro", "torch"])


def names(module: Any) -> list[str]:
    """The names of the children."""
    return [name for name, _ in module.named_children()]


@BOTH
def test_sequential_is_a_list_of_steps(lib: Any) -> None:
    nn = lib.nn
    a, b, c = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    model = nn.Sequential(a, b, c)
    assert model(lib.ones(4, 2)).shape == (4, 1)
    assert len(model) == 3
    assert model[0] is a
    assert model[-1] is c
    assert list(model[:2]) == [a, b]
    assert isinstance(model[1:], nn.Sequential)
    assert model.append(nn.Tanh()) is model
    model.insert(1, nn.Sigmoid())
    assert names(model) == ["0", "1", "2", "3", "4"]
    assert isinstance(model[1], nn.Sigmoid)
    model.extend([nn.ReLU()])
    del model[1]
    assert names(model) == ["0", "1", "2", "3", "4"]
    assert isinstance(model.pop(-1), nn.ReLU)
    model[1] = nn.GELU()
    assert isinstance(model[1], nn.GELU)
    assert len(model + model) == 8
    assert len(model * 2) == 8
    model += nn.Sequential(nn.ReLU())
    assert len(model) == 5
    for misuse in (lambda: model[9], lambda: model.insert(99, nn.ReLU())):
        with pytest.raises(IndexError):
            misuse()
    with pytest.raises(ValueError, match="only objects of Sequential"):
        model + [nn.ReLU()]


@BOTH
def test_sequential_with_names(lib: Any) -> None:
    nn = lib.nn
    model = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU(), last=nn.Linear(3, 1)))
    assert names(model) == ["first", "act", "last"]
    assert names(model[1:]) == ["act", "last"]
    assert model.first is model[0]


@BOTH
def test_module_list(lib: Any) -> None:
    nn = lib.nn
    layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 2)])
    layers.append(nn.Linear(1, 3)).extend([nn.Linear(1, 4)])
    layers.insert(0, nn.Linear(1, 7))
    assert [layer.out_features for layer in layers] == [7, 1, 2, 3, 4]
    assert names(layers) == ["0", "1", "2", "3", "4"]
    del layers[1:3]
    assert [layer.out_features for layer in layers] == [7, 3, 4]
    assert names(layers) == ["0", "1", "2"]
    assert layers[-1].out_features == 4
    assert isinstance(layers[:2], nn.ModuleList)
    layers[0] = nn.Linear(1, 9)
    assert layers[0].out_features == 9
    assert layers.pop(0).out_features == 9
    layers += [nn.Linear(1, 5)]
    assert [layer.out_features for layer in layers + nn.ModuleList([nn.Linear(1, 6)])] == [3, 4, 5, 6]
    assert len(list(layers.parameters())) == 6
    with pytest.raises(IndexError, match="out of range"):
        layers[10]
    with pytest.raises(TypeError):
        layers.extend(3)
    with pytest.raises(TypeError):
        layers.append(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.ModuleList(),
        lambda nn: nn.ModuleList([nn.Linear(1, 1), nn.ReLU()]),
        lambda nn: nn.ModuleList(
            [nn.ReLU(), *[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3)], nn.Tanh()]
        ),
        lambda nn: nn.Sequential(),
        lambda nn: nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(1, 1)))),
        lambda nn: nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ModuleList([nn.ReLU(), nn.ReLU()])}),
    ],
)
def test_repr_is_that_of_torch(make: Any) -> None:
    assert repr(make(nn)) == repr(make(torch.nn))


@BOTH
def test_module_dict(lib: Any) -> None:
    nn = lib.nn
    layers = nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.ReLU()})
    layers["c"] = nn.Tanh()
    layers.update([("d", nn.GELU()), ["a", nn.Sigmoid()]])
    assert list(layers) == list(layers.keys()) == ["b", "a", "c", "d"]
    assert isinstance(layers["a"], nn.Sigmoid)
    assert "c" in layers
    assert isinstance(layers.pop("c"), nn.Tanh)
    del layers["d"]
    assert len(layers) == len(layers.values()) == len(layers.items()) == 2
    with pytest.raises(KeyError):
        layers["zzz"]
    with pytest.raises(ValueError, match="2 is required"):
        layers.update([("x", nn.ReLU(), 3)])
    with pytest.raises(TypeError):
        layers.update(3)
    layers.clear()
    assert len(layers) == 0


@BOTH
def test_parameter_list(lib: Any) -> None:
    nn = lib.nn
    params = nn.ParameterList([lib.ones(1), nn.Parameter(lib.zeros(2))])
    params.append(lib.ones(3))
    params += [lib.ones(4)]
    assert [len(param) for param in params] == [1, 2, 3, 4]
    assert all(isinstance(param, nn.Parameter) for param in params)
    assert len(list(params.parameters())) == 4
    assert len(params[-1]) == 4
    assert len(params[1:3]) == 2
    params[0] = lib.zeros(7)
    assert len(params[0]) == 7
    assert list(params.state_dict()) == ["0", "1", "2", "3"]
    mixed = nn.ParameterList([lib.ones(1), "text"])
    assert mixed[1] == "text"
    with pytest.raises(IndexError):
        params[9]
    with pytest.raises(TypeError):
        params.extend(3)
    with pytest.raises(RuntimeError, match="should not be called"):
        params(1)


@BOTH
def test_parameter_dict(lib: Any) -> None:
    nn = lib.nn
    params = nn.ParameterDict({"b": lib.ones(1), "a": nn.Parameter(lib.zeros(2))})
    params["c"] = lib.ones(3)
    params.update({"d": lib.ones(4)})
    assert list(params) == ["a", "b", "c", "d"]  # a plain dictionary is sorted, as in torch
    assert isinstance(params["c"], nn.Parameter)
    assert len(params.pop("c")) == 3
    assert params.popitem()[0] == "d"
    assert params.get("zzz", 5) == 5
    assert len(params.setdefault("e", lib.ones(5))) == 5
    assert list((params | nn.ParameterDict({"f": lib.ones(1)})).keys()) == ["a", "b", "e", "f"]
    assert len(list(params.parameters())) == len(params) == 3
    assert list(params.copy().state_dict()) == list(params.state_dict())
    del params["b"]
    assert "b" not in params
    assert [key for key, _ in params.items()] == ["a", "e"]
    with pytest.raises(AttributeError):
        params["b"]
    with pytest.raises(KeyError):
        del params["b"]
    with pytest.raises(RuntimeError, match="should not be called"):
        params(1)
    params.clear()
    assert len(params) == 0


def test_parameter_containers_print_like_torch() -> None:
    for make in (
        lambda lib: lib.nn.ParameterList([lib.ones(2, 3), lib.zeros(())]),
        lambda lib: lib.nn.ParameterDict({"x": lib.ones(2, 3), "y": "text"}),
    ):
        assert repr(make(ferro)).replace("ferro.", "torch.") == repr(make(torch)).replace("FloatTensor", "float32")
