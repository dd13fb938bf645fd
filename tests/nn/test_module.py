"""Module: registration, lookup, walking, state, conversion, hooks, copying and printing."""

from __future__ import annotations

import copy
import gc
import pickle
import typing
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import ferro
from ferro import nn
from tests.nn.parity import assert_same, to_ferro, torch


def tree(nn: Any, lib: Any) -> Any:
    """A small tree with all kinds of members: nested, shared, absent, not persistent."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
            self.again = self.first[0]
            self.scale = nn.Parameter(lib.ones(3))
            self.register_parameter("absent", None)
            self.register_buffer("count", lib.zeros(1))
            self.register_buffer("cache", lib.zeros(2), persistent=False)
            self.own = nn.Buffer(lib.ones(2))
            self.nothing = None
            self.register_module("empty", None)

        def forward(self, x: Any) -> Any:
            return self.first(x) * self.scale

    return Net()


class Scale(nn.Module):
    """y = a x + b, with keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(ferro.tensor([2.0]))

    def forward(self, x: Any, b: Any = 0.0) -> Any:
        return self.a * x + b


@pytest.fixture
def net() -> Any:
    """The tree, of ferro."""
    return tree(nn, ferro)


@pytest.fixture
def their_net() -> Any:
    """The tree, of torch."""
    return tree(torch.nn, torch)


# -- members


def test_names_come_in_the_order_of_torch(net: Any, their_net: Any) -> None:
    for method in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [name for name, _ in getattr(net, method)()] == [name for name, _ in getattr(their_net, method)()]
    for options in ({"remove_duplicate": False}, {"prefix": "p"}, {"recurse": False}):
        ours = [name for name, _ in net.named_parameters(**options)]
        assert ours == [name for name, _ in their_net.named_parameters(**options)]
    ours = [name for name, _ in net.named_modules(prefix="p", remove_duplicate=False)]
    assert ours == [name for name, _ in their_net.named_modules(prefix="p", remove_duplicate=False)]
    assert list(net.state_dict()) == list(their_net.state_dict())
    assert len(list(net.parameters())) == len(list(their_net.parameters()))
    assert len(list(net.modules())) == len(list(their_net.modules()))


def test_assignment_moves_a_name_between_kinds() -> None:
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(ferro.ones(1))
    assert "x" in module._parameters
    assert "x" not in module.__dict__
    module.x = None
    assert module.x is None
    assert "x" in module._parameters
    del module.x
    module.x = nn.Linear(1, 1)
    assert "x" in module._modules
    module.x = nn.Parameter(ferro.ones(1))
    assert "x" not in module._modules
    module.register_buffer("b", ferro.ones(1), persistent=False)
    module.b = ferro.zeros(2)
    assert module.b.tolist() == [0.0, 0.0]
    assert "b" not in module.state_dict()
    del module.b
    module.b = "text"
    assert module.b == "text"
    with pytest.raises(AttributeError, match="has no attribute 'c'"):
        module.c


@pytest.mark.parametrize(
    ("misuse", "error", "message"),
    [
        (lambda m: setattr(m, "weight", 1.0), TypeError, "cannot assign 'float' as parameter 'weight'"),
        (lambda m: setattr(m, "weight", ferro.ones(1)), TypeError, "as parameter 'weight'"),
        (lambda m: setattr(m, "child", 1), TypeError, "cannot assign 'int' as child module 'child'"),
        (lambda m: setattr(m, "buffer", 1), TypeError, "cannot assign 'int' as buffer 'buffer'"),
        (lambda m: m.register_parameter("forward", None), KeyError, "attribute 'forward' already exists"),
        (lambda m: m.register_parameter("a.b", None), KeyError, "contain"),
        (lambda m: m.register_parameter("", None), KeyError, "be empty string"),
        (lambda m: m.register_parameter(1, None), TypeError, "should be a string"),
        (lambda m: m.register_parameter("p", ferro.ones(1)), TypeError, "Parameter or None required"),
        (lambda m: m.register_buffer("b", 1), TypeError, "Tensor or None required"),
        (lambda m: m.add_module("m", 1), TypeError, "not a Module subclass"),
        (lambda m: m.add_module("m", ferro.relu), TypeError, "not a Module subclass: relu is called in forward"),
        (lambda m: m.train("yes"), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(ferro.int64), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: m(1), NotImplementedError, 'missing the required "forward"'),
    ],
)
def test_misuse_says_what_is_wrong(misuse: Any, error: type[Exception], message: str) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(ferro.ones(1))
    module.child = nn.Linear(1, 1)
    module.register_buffer("buffer", ferro.ones(1))
    with pytest.raises(error, match=message):
        misuse(module)


def test_members_before_init_are_an_error() -> None:
    class Early(nn.Module):
        def __init__(self, member: Any) -> None:
            self.member = member
            super().__init__()

    for member, kind in ((nn.Parameter(ferro.ones(1)), "parameters"), (nn.Linear(1, 1), "module")):
        with pytest.raises(AttributeError, match=f"cannot assign {kind} before Module"):
            Early(member)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        nn.Module(size=3)


def test_lookup_by_path(net: Any) -> None:
    assert net.get_submodule("first.1") is net.first[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("first.0.weight") is net.first[0].weight
    assert net.get_buffer("first.1.running_mean") is net.first[1].running_mean
    net.set_submodule("first.1", nn.Identity())
    assert isinstance(net.first[1], nn.Identity)
    for call, message in (
        (lambda: net.get_submodule("first.7"), "has no attribute `7`"),
        (lambda: net.get_submodule("scale"), "is not an nn.Module"),
        (lambda: net.get_parameter("count"), "is not an nn.Parameter"),
        (lambda: net.get_buffer("scale"), "is not a buffer"),
    ):
        with pytest.raises(AttributeError, match=message):
            call()


def test_train_eval_apply_and_requires_grad(net: Any) -> None:
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    order: list[Any] = []
    net.apply(order.append)
    assert order[-1] is net
    assert order[0] is net.first[0]
    net.requires_grad_(False)
    assert not any(param.requires_grad for param in net.parameters())


def test_zero_grad() -> None:
    layer = nn.Linear(2, 1)
    layer(ferro.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None


# -- parameters and buffers


def test_a_parameter_shares_the_data_and_is_a_leaf() -> None:
    data = ferro.ones(2)
    param = nn.Parameter(data)
    data[0] = 5.0
    assert param.tolist() == [5.0, 1.0]
    assert param.is_leaf
    assert param.requires_grad
    assert isinstance(param, ferro.Tensor)
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert repr(param).startswith("Parameter containing:\ntensor([5., 1.]")
    assert type(param * 2) is ferro.Tensor
    assert type(param.detach()) is ferro.Tensor
    param.note = "mine"
    assert param.note == "mine"
    with pytest.raises(TypeError, match="got list"):
        nn.Parameter([1.0])


def test_parameters_are_copied_and_pickled() -> None:
    param = nn.Parameter(ferro.ones(2), requires_grad=False)
    param.note = "mine"
    assert pickle.loads(pickle.dumps(param)).note == "mine"
    for twin in (copy.deepcopy(param), pickle.loads(pickle.dumps(param))):
        assert type(twin) is nn.Parameter
        assert not twin.requires_grad
        assert twin.tolist() == [1.0, 1.0]
    buffer = copy.deepcopy(nn.Buffer(ferro.ones(1), persistent=False))
    assert not pickle.loads(pickle.dumps(buffer)).persistent


@pytest.mark.parametrize("through", ["module", "state", "arrays"])
def test_what_comes_out_of_a_pickle_trains_like_the_original(through: str) -> None:
    def made() -> Any:
        ferro.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3)
        )

    def trained(model: Any, data: Any, target: Any) -> list:
        optimizer = ferro.optim.Adam(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()
        return [p.tolist() for p in model.parameters()]

    data, target = ferro.linspace(-1, 1, 32).reshape(2, 1, 4, 4), ferro.tensor([0, 2])
    want = trained(made(), data, target)
    model = made()
    if through == "module":
        model = pickle.loads(pickle.dumps(model))
    elif through == "state":
        model.load_state_dict(pickle.loads(pickle.dumps(model.state_dict())), assign=True)
    else:
        data, target = [ferro.from_numpy(pickle.loads(pickle.dumps(t.numpy()))) for t in (data, target)]
    assert trained(model, data, target) == want


# -- conversion


def test_conversion_keeps_the_parameters_and_their_gradients(net: Any) -> None:
    params = list(net.parameters())
    net(ferro.ones(2, 2)).sum().backward()
    net.double()
    assert all(a is b for a, b in zip(params, net.parameters(), strict=True))
    assert {param.dtype for param in params} == {ferro.float64}
    assert net.scale.grad.dtype == ferro.float64
    assert net.first[1].num_batches_tracked.dtype == ferro.int64
    assert net.first[1].running_mean.dtype == ferro.float64
    for convert, dtype in (("float", ferro.float32), ("half", ferro.float16), ("bfloat16", ferro.bfloat16)):
        assert getattr(net, convert)() is net
        assert net.scale.dtype == dtype
    assert net.to(ferro.float64).scale.dtype == ferro.float64
    assert net.to("cpu", ferro.float32).scale.dtype == ferro.float32
    assert net.to(ferro.ones(1, dtype=ferro.float64)).scale.dtype == ferro.float64
    assert net.to(dtype=ferro.float32).cpu().scale.dtype == ferro.float32
    net.type(ferro.float64)
    assert net.scale.dtype == ferro.float64
    assert net.scale.requires_grad
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        net.to(colour=3)


# -- state


def test_state_goes_from_torch_to_ferro_and_back(net: Any, their_net: Any) -> None:
    with torch.no_grad():
        for tensor in their_net.state_dict().values():
            tensor.add_(torch.rand(tensor.shape) * 5 if tensor.is_floating_point() else 3)
    report = net.load_state_dict(to_ferro(dict(their_net.state_dict())))
    assert repr(report) == "<All keys matched successfully>"
    for key, value in net.state_dict().items():
        assert_same(value, their_net.state_dict()[key], key)
    back = {key: torch.from_numpy(value.numpy()) for key, value in net.state_dict().items()}
    assert repr(their_net.load_state_dict(back)) == "<All keys matched successfully>"


def test_state_is_detached_but_shared(net: Any) -> None:
    state = net.state_dict()
    assert isinstance(state, OrderedDict)
    assert not state["scale"].requires_grad
    state["scale"][0] = 7.0
    assert net.scale[0].item() == 7.0
    assert net.state_dict(keep_vars=True)["scale"] is net.scale
    assert all(key.startswith("model.") for key in net.state_dict(prefix="model."))


def test_every_problem_of_loading_is_listed(net: Any) -> None:
    state = net.state_dict()
    del state["scale"]
    state["extra"] = ferro.ones(1)
    state["first.9.weight"] = ferro.ones(1)
    state["count"] = ferro.ones(7)
    state["first.0.bias"] = [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for Net") as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "scale"' in text
    assert 'Unexpected key(s) in state_dict: "extra", "first.9.weight"' in text
    assert "size mismatch for count: copying a param with shape" in text
    assert "[7]" in text
    assert 'named "first.0.bias", expected torch.Tensor' in text
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_loading_without_strict_reports(net: Any) -> None:
    report = net.load_state_dict({"scale": ferro.full((3,), 9.0), "other": ferro.ones(1)}, strict=False)
    assert net.scale.tolist() == [9.0, 9.0, 9.0]
    assert report.unexpected_keys == ["other"]
    assert "count" in report.missing_keys
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({"scale": ferro.ones(2)}, strict=False)


def test_loading_reports_the_same_keys_as_torch(net: Any, their_net: Any) -> None:
    given = {"scale": torch.full((3,), 9.0), "other": torch.ones(1), "first.0.bias": torch.ones(3)}
    theirs = their_net.load_state_dict(given, strict=False)
    ours = net.load_state_dict(to_ferro(given), strict=False)
    assert ours == tuple(theirs)
    assert repr(ours) == repr(theirs)


def test_assign_adopts_the_tensors() -> None:
    layer = nn.Linear(2, 1)
    given = {"weight": ferro.ones(1, 2, dtype=ferro.float64), "bias": ferro.zeros(1, dtype=ferro.float64)}
    layer.load_state_dict(given, assign=True)
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype == ferro.float64
    assert layer.weight.requires_grad
    given["weight"][0, 0] = 5.0
    assert layer.weight.tolist() == [[5.0, 1.0]]


def test_extra_state_and_hooks_of_state() -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"seen": 3}

        def set_extra_state(self, state: Any) -> None:
            self.seen = state["seen"]

    layer = nn.Sequential(Extra(1, 1))
    calls: list[str] = []
    layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: calls.append("save pre"))
    layer.register_state_dict_post_hook(lambda module, state, prefix, meta: state.update(note=ferro.ones(1)))
    state = layer.state_dict()
    assert state["0._extra_state"] == {"seen": 3}
    assert "note" in state
    layer.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("note") and None)
    layer.register_load_state_dict_post_hook(lambda module, keys: calls.append("load post"))
    layer.load_state_dict(state)
    assert layer[0].seen == 3
    assert calls == ["save pre", "load post"]
    with pytest.raises(RuntimeError, match="_extra_state"):
        layer.load_state_dict({key: value for key, value in state.items() if "extra" not in key})


def test_a_public_hook_of_state_dict_is_no_private_one() -> None:
    class Watch:
        def method(self, module: Any, state: Any, prefix: str, meta: Any) -> None:
            state["seen"] = ferro.ones(1)

    def hook(module: Any, state: Any, prefix: str, meta: Any) -> Any:
        return {}

    layer = nn.Linear(1, 1)
    layer.register_state_dict_post_hook(Watch().method)
    assert "seen" in layer.state_dict()
    layer._register_state_dict_hook(hook)
    assert layer.state_dict() == {}
    handle = layer.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()
    handle.remove()
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post_hook"):
        layer._register_state_dict_hook(hook)


def test_batch_norm_reads_states_without_a_count() -> None:
    state = dict(nn.BatchNorm1d(2).state_dict())
    del state["num_batches_tracked"]
    layer = nn.BatchNorm1d(2)
    layer.load_state_dict(state)
    assert layer.num_batches_tracked.item() == 0


# -- copies


def test_copies_are_independent_and_keep_sharing(net: Any) -> None:
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))):
        assert all(param.requires_grad for param in twin.parameters())
    twin = copy.deepcopy(net)
    assert twin.again is twin.first[0]
    assert twin.first[0].weight is not net.first[0].weight
    with ferro.no_grad():
        twin.scale.zero_()
    assert net.scale.tolist() == [1.0, 1.0, 1.0]


def test_a_module_is_freed_by_reference_counting() -> None:
    gc.disable()
    try:
        module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        module.register_forward_hook(lambda *args: None)
        module.register_load_state_dict_pre_hook(lambda *args: None)
        module(ferro.ones(1, 2)).sum().backward()
        gone = weakref.ref(module)
        del module
        assert gone() is None
    finally:
        gc.enable()


# -- hooks around forward


def test_forward_hooks_see_and_replace() -> None:
    module = Scale()
    pre = module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    post = module.register_forward_hook(lambda m, args, out: out * 10)
    assert module(ferro.ones(1)).item() == 40.0
    pre.remove()
    assert module(ferro.ones(1)).item() == 20.0
    post.remove()
    post.remove()
    assert module(ferro.ones(1)).item() == 2.0
    with module.register_forward_hook(lambda m, args, out: out * 10):
        assert module(ferro.ones(1)).item() == 20.0
    assert module(ferro.ones(1)).item() == 2.0


def test_forward_hooks_with_kwargs_and_order() -> None:
    module = Scale()
    module.register_forward_pre_hook(lambda m, args, kw: (args, {"b": kw["b"] * 2}), with_kwargs=True)
    seen: list[Any] = []
    module.register_forward_hook(lambda m, args, kw, out: seen.append(("last", kw)), with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    assert module(ferro.ones(1), b=3.0).item() == 8.0
    assert seen == ["first", ("last", {"b": 6.0})]
    module.register_forward_pre_hook(lambda m, args, kw: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"\(new_args, new_kwargs\)"):
        module(ferro.ones(1), b=1.0)


def test_hooks_that_are_always_called() -> None:
    module = nn.Linear(2, 2)
    seen: list[Any] = []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        module(ferro.ones(1, 3))
    assert seen == [None]

    def fail(*args: Any) -> None:
        raise ValueError("in the hook")

    module.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(RuntimeError):
        module(ferro.ones(1, 3))


# -- hooks around backward


def hooked(lib: Any, change: bool = False) -> list[Any]:
    """What backward hooks of a two-input module see, in ferro or torch."""

    class Mix(lib.nn.Module):
        def forward(self, x: Any, factor: float, y: Any) -> Any:
            return x * y * factor, (x + y).sum()

    module, seen = Mix(), []

    def pre_hook(module: Any, grad_output: Any) -> Any:
        seen.append(("pre", [None if g is None else g.tolist() for g in grad_output]))
        return tuple(g if g is None else g * 2 for g in grad_output) if change else None

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append(("in", [None if g is None else g.tolist() for g in grad_input]))
        seen.append(("out", [None if g is None else g.tolist() for g in grad_output]))
        return tuple(g if g is None else g + 1 for g in grad_input) if change else None

    module.register_full_backward_pre_hook(pre_hook)
    module.register_full_backward_hook(hook)
    x, y = lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor([3.0, 4.0])
    first, second = module(x, 10.0, y)
    (first * lib.tensor([1.0, -1.0])).sum().backward(retain_graph=True)
    (first.sum() + second).backward()
    return [*seen, x.grad.tolist()]


@pytest.mark.parametrize("change", [False, True])
def test_backward_hooks_see_what_they_see_in_torch(change: bool) -> None:
    ours, theirs = hooked(ferro, change), hooked(torch, change)
    assert ours == theirs


def test_backward_hooks_without_differentiable_input() -> None:
    layer = nn.Linear(2, 1)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="since no inputs require gradients"):
        layer(ferro.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]
    layer.register_full_backward_hook(lambda m, gi, go: (ferro.ones(1, 2),))
    out = layer(ferro.ones(1, 2)).sum()
    with (
        pytest.warns(UserWarning, match="since no inputs require gradients"),
        pytest.raises(RuntimeError, match="no input requires gradient"),
    ):
        out.backward()


def test_backward_hooks_keep_higher_derivatives() -> None:
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: None)
    x = ferro.tensor([0.3], dtype=ferro.float64, requires_grad=True)
    (g,) = ferro.autograd.grad(layer(x).sum(), x, create_graph=True)
    (gg,) = ferro.autograd.grad(g.sum(), x)
    t = x.tanh()
    assert gg.item() == pytest.approx((-2 * t * (1 - t * t)).item())


def test_backward_hooks_returning_too_much_say_so() -> None:
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    out = layer(ferro.ones(1, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        out.backward()


def test_modules_with_backward_hooks_run_without_grad() -> None:
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, gi, go: None)
    with ferro.no_grad():
        assert not layer(ferro.ones(1, 2)).requires_grad


# -- printing


def test_repr_is_that_of_torch(net: Any, their_net: Any) -> None:
    assert repr(net) == repr(their_net)
    assert repr(nn.Module()) == "Module()"

    class Wordy(nn.Module):
        def extra_repr(self) -> str:
            return "one\ntwo"

    assert repr(Wordy()) == "Wordy(\n  one\n  two\n)"


def test_dir_lists_members(net: Any) -> None:
    assert {"scale", "count", "first", "forward"} <= set(dir(net))


def test_nothing_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = nn.Linear(2, 2)
        layer.load_state_dict(copy.deepcopy(layer).state_dict())


def test_annotations_of_modules_can_be_read() -> None:
    """Libraries read those of their modules, which include those of Module."""

    class Annotated(ferro.nn.Linear):
        scale: float

    assert typing.get_type_hints(Annotated)["scale"] is float
