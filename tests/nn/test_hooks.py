"""Hooks of all modules at once, regular backward hooks, and the switches of conversion: what torch's do, in its order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

import ferro
from tests.nn.parity import assert_same, to_ferro, torch


@contextmanager
def module_hooks(t: Any, log: list[Any]) -> Iterator[None]:
    """Every kind of global hook, each writing what it is given."""
    module = t.nn.modules.module

    def note(kind: str) -> Any:
        return lambda m, *rest: log.append((kind, type(m).__name__, [described(r) for r in rest]))

    with ExitStack() as stack:
        for register in ("forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook"):
            stack.enter_context(getattr(module, f"register_module_{register}")(note(register)))
        extra = module.register_module_forward_hook(note("with kwargs"), with_kwargs=True)
        stack.enter_context(extra)
        yield


def described(value: Any) -> Any:
    """Shapes instead of tensors."""
    if isinstance(value, (tuple, list)):
        return [described(v) for v in value]
    if isinstance(value, dict):
        return {k: described(v) for k, v in value.items()}
    return list(value.shape) if hasattr(value, "shape") else value if value is None else type(value).__name__


def run(t: Any) -> list[Any]:
    """What the hooks of a small model tell, global and own ones, forward and backward."""
    log: list[Any] = []
    net = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.Tanh())
    net[1].register_forward_hook(lambda m, i, o: log.append("own forward"))
    net[1].register_full_backward_hook(lambda m, i, o: log.append("own backward"))
    with module_hooks(t, log):
        net(t.ones(4, 3, requires_grad=True)).sum().backward()
    net(t.ones(4, 3))
    return log


def test_global_hooks_run_in_torch_s_order() -> None:
    ours = run(ferro)
    assert ours == run(torch)
    assert len(ours) > 15


def test_registration_hooks_see_and_replace() -> None:
    def trial(t: Any) -> list[Any]:
        log: list[Any] = []
        module = t.nn.modules.module

        def note(kind: str) -> Any:
            return lambda m, name, value: log.append((kind, type(m).__name__, name, described(value)))

        with (
            module.register_module_parameter_registration_hook(note("parameter")),
            module.register_module_buffer_registration_hook(note("buffer")),
            module.register_module_module_registration_hook(note("module")),
        ):
            net = t.nn.Sequential(t.nn.BatchNorm1d(2), t.nn.Linear(2, 1, bias=False))
            net.extra = t.nn.ReLU()
            net.extra = None
        with module.register_module_module_registration_hook(lambda m, name, value: t.nn.Tanh()):
            net.act = t.nn.ReLU()
        log.append(type(net.act).__name__)
        return log

    assert trial(ferro) == trial(torch)


@pytest.mark.parametrize("depth", [1, 2], ids=["one node", "several nodes"])
def test_regular_backward_hooks_see_the_last_node_and_warn_like_torch(depth: int) -> None:
    def trial(t: Any) -> tuple[Any, Any]:
        class Net(t.nn.Module):  # type: ignore[name-defined, misc]
            def forward(self, x: Any) -> Any:
                for _ in range(depth):
                    x = x.exp()
                return x

        log: list[Any] = []
        net = Net()
        net.register_backward_hook(lambda m, i, o: log.append((described(i), described(o))))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = t.ones(3, requires_grad=True)
            net(x.clone()).sum().backward()
        return log, [str(w.message) for w in caught if issubclass(w.category, FutureWarning)]

    (ours, our_warnings), (theirs, their_warnings) = trial(ferro), trial(torch)
    assert [o for _, o in ours] == [o for _, o in theirs]
    assert len(our_warnings) == len(their_warnings) == depth - 1
    assert all(b.split(" Please")[0] in a for a, b in zip(our_warnings, their_warnings, strict=True))


def test_the_two_kinds_of_backward_hooks_do_not_mix() -> None:
    layer = ferro.nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, i, o: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        layer.register_backward_hook(lambda m, i, o: None)


@pytest.fixture
def switches() -> Iterator[Any]:
    """ferro.__future__, put back afterwards."""
    yield ferro.__future__
    ferro.__future__.set_swap_module_params_on_conversion(False)
    ferro.__future__.set_overwrite_module_params_on_conversion(False)


@pytest.mark.parametrize("mode", ["data", "overwrite", "swap"])
def test_what_a_conversion_does_to_the_parameters(mode: str, switches: Any) -> None:
    if mode != "data":
        getattr(switches, f"set_{mode}_module_params_on_conversion")(True)
    layer = ferro.nn.Linear(2, 1)
    layer(ferro.ones(1, 2)).sum().backward()
    weight, grad = layer.weight, layer.weight.grad
    assert grad is not None
    assert layer.double() is layer
    assert (layer.weight is weight) == (mode != "overwrite")
    assert layer.weight.dtype is ferro.float64
    assert layer.weight.requires_grad
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    assert (layer.weight.grad is grad) == (mode == "data")
    assert (weight.dtype is ferro.float32) == (mode == "overwrite")


@pytest.mark.parametrize("assign", [False, True])
def test_loading_by_swapping(assign: bool, switches: Any) -> None:
    switches.set_swap_module_params_on_conversion(True)
    theirs = torch.nn.Linear(2, 3)
    ours = ferro.nn.Linear(2, 3)
    weight = ours.weight
    ours.load_state_dict(to_ferro(dict(theirs.state_dict())), assign=assign)
    assert ours.weight is weight
    assert isinstance(weight, ferro.nn.Parameter)
    assert_same(weight, theirs.weight, "weight")


def test_an_operation_on_the_parameters_in_place_counts_as_a_change() -> None:
    layer = ferro.nn.Linear(2, 1)
    loss = (layer.weight * layer.weight).sum()
    layer._apply(lambda t: t.add_(1))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_data_parallel_is_the_module_itself_and_its_prefix_comes_off() -> None:
    layer = ferro.nn.Linear(2, 1)
    net = ferro.nn.DataParallel(layer)
    assert net(ferro.ones(3, 2)).tolist() == layer(ferro.ones(3, 2)).tolist()
    state: Any = net.state_dict()
    ferro.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    expected: Any = torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict()
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(expected, "module.")
    assert list(state._metadata) == list(expected._metadata)
    ferro.nn.Linear(2, 1).load_state_dict(state)
    assert (
        ferro.nn.DataParallel(layer, device_ids=[0]).device_ids
        == torch.nn.DataParallel(torch.nn.Linear(2, 1), [0]).device_ids
    )


class Pair(NamedTuple):
    """What a module may return."""

    first: Any
    second: Any


def test_backward_hooks_keep_the_class_of_a_named_tuple() -> None:
    class Net(ferro.nn.Module):
        def forward(self, x: Any) -> Pair:
            return Pair(x * 2, 3)

    net, seen = Net(), []
    net.register_full_backward_hook(lambda m, i, o: seen.append(o))
    out = net(ferro.ones(2, requires_grad=True))
    out.first.sum().backward()
    assert type(out) is Pair
    assert seen[0][1] is None


def test_missing_keys_are_told_before_unexpected_ones() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*bias.*Unexpected key.*extra"):
        ferro.nn.Linear(1, 1).load_state_dict({"weight": ferro.ones(1, 1), "extra": ferro.ones(1)})
