"""Parametrizations, the older hooks of weights, pruning and fusion: values, states and refusals of torch."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import ferro
from tests.nn.parity import assert_same, compare_gradients, compare_state, flat, to_ferro, torch

importlib.import_module("torch.nn.utils.prune")  # which torch does not import by itself


class Change(NamedTuple):
    """A change of a layer by nn.utils, and what undoes it."""

    make: Callable[[Any], Any]
    apply: Callable[[Any, Any], Any]
    undo: Callable[[Any, Any], Any]
    shape: tuple[int, ...]


def unparametrize(utils: Any, layer: Any) -> Any:
    """Take the parametrization of the weight off."""
    return utils.parametrize.remove_parametrizations(layer, "weight")


CHANGES = {
    "weight_norm": Change(
        lambda nn: nn.Linear(3, 4), lambda u, m: u.parametrizations.weight_norm(m), unparametrize, (2, 3)
    ),
    "weight_norm dim=1": Change(
        lambda nn: nn.Conv1d(3, 4, 2),
        lambda u, m: u.parametrizations.weight_norm(m, dim=1),
        unparametrize,
        (2, 3, 5),
    ),
    "weight_norm dim=None": Change(
        lambda nn: nn.Linear(3, 4), lambda u, m: u.parametrizations.weight_norm(m, dim=None), unparametrize, (2, 3)
    ),
    "spectral_norm": Change(
        lambda nn: nn.Linear(3, 4), lambda u, m: u.parametrizations.spectral_norm(m), unparametrize, (2, 3)
    ),
    "spectral_norm transposed": Change(
        lambda nn: nn.ConvTranspose1d(3, 4, 2),
        lambda u, m: u.parametrizations.spectral_norm(m, n_power_iterations=2),
        unparametrize,
        (2, 3, 5),
    ),
    "orthogonal": Change(
        lambda nn: nn.Linear(3, 3), lambda u, m: u.parametrizations.orthogonal(m), unparametrize, (2, 3)
    ),
    "orthogonal householder": Change(
        lambda nn: nn.Linear(3, 5),
        lambda u, m: u.parametrizations.orthogonal(m, use_trivialization=False),
        unparametrize,
        (2, 3),
    ),
    "orthogonal cayley": Change(
        lambda nn: nn.Linear(5, 3),
        lambda u, m: u.parametrizations.orthogonal(m, orthogonal_map="cayley"),
        unparametrize,
        (2, 5),
    ),
    "older weight_norm": Change(
        lambda nn: nn.Linear(3, 4), lambda u, m: u.weight_norm(m), lambda u, m: u.remove_weight_norm(m), (2, 3)
    ),
    "older spectral_norm": Change(
        lambda nn: nn.ConvTranspose1d(3, 4, 2),
        lambda u, m: u.spectral_norm(m),
        lambda u, m: u.remove_spectral_norm(m),
        (2, 3, 5),
    ),
    "pruned at random": Change(
        lambda nn: nn.Linear(3, 4),
        lambda u, m: u.prune.random_unstructured(m, "weight", amount=0.5),
        lambda u, m: u.prune.remove(m, "weight"),
        (2, 3),
    ),
    "pruned channels": Change(
        lambda nn: nn.Conv1d(3, 4, 2),
        lambda u, m: u.prune.ln_structured(m, "weight", amount=2, n=2, dim=0),
        lambda u, m: u.prune.remove(m, "weight"),
        (2, 3, 5),
    ),
    "pruned twice": Change(
        lambda nn: nn.Linear(6, 4),
        lambda u, m: u.prune.l1_unstructured(u.prune.ln_structured(m, "weight", 0.5, 1, -1), "weight", 3),
        lambda u, m: u.prune.remove(m, "weight"),
        (2, 6),
    ),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_weight_is_torch_s(name: str) -> None:
    change = CHANGES[name]
    theirs, ours = change.make(torch.nn).double(), change.make(ferro.nn).double()
    ours.load_state_dict(to_ferro(dict(theirs.state_dict())))
    theirs, ours = change.apply(torch.nn.utils, theirs), change.apply(ferro.nn.utils, ours)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(to_ferro(dict(theirs.state_dict())))
    assert repr(ours) == repr(theirs)
    x = torch.randn(*change.shape, dtype=torch.float64, requires_grad=True)
    mine = to_ferro(x).requires_grad_()
    for _ in range(2):  # the power iteration moves on
        our_out, their_out = ours(mine), theirs(x)
        assert_same(our_out, their_out, name, rtol=1e-9)
    compare_gradients(ours, theirs, [mine], [x], flat(our_out), flat(their_out), 1e-8)
    if "spectral" not in name:  # (its buffers agree to rounding only, and the weights were compared above)
        compare_state(ours, theirs)
    assert_same(ours.eval()(mine), theirs.eval()(x), f"{name} evaluated", rtol=1e-9)
    weight = ours.weight.detach().clone()
    ours, theirs = change.undo(ferro.nn.utils, ours), change.undo(torch.nn.utils, theirs)
    assert type(ours.weight) is ferro.nn.Parameter
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ferro.allclose(ours.weight.detach(), weight)
    assert_same(ours(mine), theirs(x), f"{name} undone", rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in CHANGES if "older" not in name])
def test_changed_layers_are_copied_and_loaded(name: str) -> None:
    change = CHANGES[name]
    layer = change.apply(ferro.nn.utils, change.make(ferro.nn)).eval()
    again = change.apply(ferro.nn.utils, change.make(ferro.nn)).eval()
    again.load_state_dict(layer.state_dict())
    x = ferro.ones(*change.shape)
    # (torch, too, refuses to copy a layer whose pruned weight is a result)
    for twin in (again,) if "pruned" in name else (again, copy.deepcopy(layer)):
        assert ferro.allclose(twin(x), layer(x), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_stay_orthogonal(shape: tuple[int, ...], kind: str, trivial: bool) -> None:
    class Holder(ferro.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = ferro.nn.Parameter(ferro.randn(*shape, dtype=ferro.float64))

    holder: Any = Holder()
    ferro.nn.utils.parametrizations.orthogonal(holder, "weight", kind, use_trivialization=trivial)
    target = ferro.linalg.qr(ferro.randn(*shape, dtype=ferro.float64).mT)[0].mT[..., : shape[-2], :]
    (holder.weight * ferro.randn(*shape, dtype=ferro.float64)).sum().backward()
    with ferro.no_grad():
        for parameter in holder.parameters():
            parameter.sub_(parameter.grad, alpha=0.1)
    q = holder.weight if shape[-2] >= shape[-1] else holder.weight.mT
    one = ferro.eye(q.shape[-1], dtype=q.dtype)
    assert ferro.allclose(q.mT @ q, one, atol=1e-10)
    if trivial and shape[-2] <= shape[-1]:
        holder.weight = target
        assert ferro.allclose(holder.weight, target, atol=1e-10)


def test_parametrizations_can_be_chained_assigned_cached_and_transferred() -> None:
    def trial(t: Any) -> list[Any]:
        class Double(t.nn.Module):  # type: ignore[name-defined, misc]
            def forward(self, x: Any) -> Any:
                return x * 2

            def right_inverse(self, x: Any) -> Any:
                return x / 2

        class Symmetric(t.nn.Module):  # type: ignore[name-defined, misc]
            def forward(self, x: Any) -> Any:
                return x.triu() + x.triu(1).mT

            def right_inverse(self, x: Any) -> Any:
                return x.triu()

        util = t.nn.utils.parametrize
        layer = t.nn.Linear(2, 2)
        with t.no_grad():
            layer.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
        util.register_parametrization(layer, "weight", Symmetric())
        util.register_parametrization(layer, "weight", Double())
        found = [layer.weight.tolist(), sorted(layer.state_dict()), repr(layer)]
        layer.weight = t.tensor([[2.0, 4.0], [4.0, 8.0]])
        found += [layer.weight.tolist(), layer.parametrizations.weight.original.tolist()]
        with util.cached():
            found.append(layer.weight is layer.weight)
        found.append(layer.weight is layer.weight)
        other = util.transfer_parametrizations_and_params(layer, t.nn.Linear(2, 2))
        found += [other.weight.tolist(), util.type_before_parametrizations(other).__name__]
        util.remove_parametrizations(layer, "weight", leave_parametrized=False)
        found += [layer.weight.tolist(), util.is_parametrized(layer), type(layer).__name__]
        return found

    assert trial(ferro) == trial(torch)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "no such name": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.Linear(2, 2), "none", t.nn.Identity()
    ),
    "other shape": lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.Linear(2, 2), "weight", t.nn.Linear(2, 3)
    ),
    "not parametrized": lambda t: t.nn.utils.parametrize.remove_parametrizations(t.nn.Linear(2, 2), "weight"),
    "several originals": lambda t: t.nn.utils.parametrize.remove_parametrizations(
        t.nn.utils.parametrizations.weight_norm(t.nn.Linear(2, 2)), "weight", leave_parametrized=False
    ),
    "not a matrix": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"),
    "not a map": lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), orthogonal_map="qr"),
    "no iterations": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), n_power_iterations=0),
    "no dimension": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), dim=2),
    "spectral_norm twice": lambda t: t.nn.utils.spectral_norm(t.nn.utils.spectral_norm(t.nn.Linear(2, 2))),
    "no spectral_norm": lambda t: t.nn.utils.remove_spectral_norm(t.nn.Linear(2, 2)),
    "no weight_norm": lambda t: t.nn.utils.remove_weight_norm(t.nn.Linear(2, 2)),
    "not pruned": lambda t: t.nn.utils.prune.remove(t.nn.Linear(2, 2), "weight"),
    "amount": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", amount=1.5),
    "amount of a string": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", amount="all"),
    "too many": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", amount=5),
    "channels of a vector": lambda t: t.nn.utils.prune.random_structured(t.nn.Linear(2, 2), "bias", 1, 0),
    "global and structured": lambda t: t.nn.utils.prune.global_unstructured(
        [(t.nn.Linear(2, 2), "weight")], t.nn.utils.prune.LnStructured, amount=1, n=1
    ),
    "fused while training": lambda t: t.nn.utils.fuse_linear_bn_eval(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2)),
    "skip_init of no module": lambda t: t.nn.utils.skip_init(int, 1),
    "skip_init without device": lambda t: t.nn.utils.skip_init(t.nn.ReLU),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_is_refused_with_its_words(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever torch raises
        REFUSED[name](torch)
    with pytest.raises(theirs.type) as ours:
        REFUSED[name](ferro)
    first = str(theirs.value).split("\n", maxsplit=1)[0].replace("torch.", "ferro.")
    assert first in str(ours.value).replace("torch.", "ferro.")


def test_a_parametrized_layer_is_not_pickled() -> None:
    layer = ferro.nn.utils.parametrizations.weight_norm(ferro.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"only supported through state_dict\(\)"):
        pickle.dumps(layer)


def test_states_of_older_forms_are_read() -> None:
    older = ferro.nn.Linear(2, 3)
    with warnings.catch_warnings(action="ignore"):
        ferro.nn.utils.weight_norm(older)
    newer = ferro.nn.utils.parametrizations.weight_norm(ferro.nn.Linear(2, 3))
    newer.load_state_dict(older.state_dict())
    assert ferro.allclose(newer.weight, older.weight)
    layer = ferro.nn.utils.spectral_norm(ferro.nn.Linear(2, 3)).double()
    layer(ferro.ones(1, 2, dtype=ferro.float64))
    layer.eval()
    before = layer(ferro.ones(1, 2, dtype=ferro.float64))
    state: Any = layer.state_dict()
    state["weight"] = (state["weight_orig"] / (state["weight_orig"] / layer.weight).mean()).detach()
    del state["weight_v"], state._metadata[""]["spectral_norm"]
    layer.load_state_dict(state)
    assert ferro.allclose(layer(ferro.ones(1, 2, dtype=ferro.float64)), before)


def test_pruning_several_parameters_as_one() -> None:
    layers = {t: [t.nn.Linear(4, 3), t.nn.Linear(3, 2)] for t in (torch, ferro)}
    for ours, theirs in zip(layers[ferro], layers[torch], strict=True):
        ours.load_state_dict(to_ferro(dict(theirs.state_dict())))
    for t, (first, second) in layers.items():
        pairs = [(first, "weight"), (second, "weight"), (second, "bias")]
        t.nn.utils.prune.global_unstructured(pairs, t.nn.utils.prune.L1Unstructured, amount=7)
    for ours, theirs in zip(layers[ferro], layers[torch], strict=True):
        compare_state(ours, theirs)
        assert ferro.nn.utils.prune.is_pruned(ours)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_fusion_keeps_what_is_computed(affine: bool, bias: bool) -> None:
    conv, bn = ferro.nn.ConvTranspose2d(2, 3, 2, bias=bias).double(), ferro.nn.BatchNorm2d(3, affine=affine).double()
    x = ferro.randn(4, 2, 3, 3, dtype=ferro.float64)
    bn(conv(x))
    conv.weight.requires_grad_(False)
    conv.eval(), bn.eval()
    fused = ferro.nn.utils.fuse_conv_bn_eval(conv, bn, transpose=True)
    assert ferro.allclose(fused(x), bn(conv(x)))
    assert not fused.weight.requires_grad
    assert fused.bias is not None
    assert fused.bias.requires_grad == bias
    linear, flat_bn = ferro.nn.Linear(2, 3, bias=bias).double(), ferro.nn.BatchNorm1d(3, affine=affine).double()
    rows = ferro.randn(5, 2, dtype=ferro.float64)
    flat_bn(linear(rows))
    linear.eval(), flat_bn.eval()
    assert ferro.allclose(ferro.nn.utils.fuse_linear_bn_eval(linear, flat_bn)(rows), flat_bn(linear(rows)))


def test_skip_init_draws_nothing() -> None:
    ferro.manual_seed(3)
    expected = ferro.rand(2).tolist()
    ferro.manual_seed(3)
    layer = ferro.nn.utils.skip_init(ferro.nn.Linear, 2, 3, dtype=ferro.float64)
    assert ferro.rand(2).tolist() == expected
    assert layer.weight.shape == (3, 2)
    assert layer.weight.dtype is ferro.float64


def test_clipping_under_its_older_name_and_of_no_gradients() -> None:
    layer = ferro.nn.Linear(2, 1)
    assert ferro.nn.utils.clip_grad_norm_(layer.parameters(), 1.0).item() == 0.0
    with pytest.warns(FutureWarning, match="clip_grad_norm` is now deprecated"):
        ferro.nn.utils.clip_grad_norm(layer.parameters(), 1.0)
    with pytest.warns(UserWarning, match="is an empty generator, no gradient clipping will occur"):
        ferro.nn.utils.clip_grad_norm_((p for p in ()), 1.0)


def test_functional_call_under_its_older_name() -> None:
    layer = ferro.nn.Linear(2, 1)
    state = {"weight": ferro.ones(1, 2), "bias": ferro.zeros(1)}
    with pytest.warns(FutureWarning, match=r"Please use `torch.func.functional_call` instead"):
        out = ferro.nn.utils.stateless.functional_call(layer, state, ferro.ones(1, 2))
    assert out.tolist() == [[2.0]]


def test_a_method_of_ones_own_prunes_by_the_helpers_of_torch() -> None:
    results = []
    for t in (ferro, torch):
        prune = t.nn.utils.prune

        class Last(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def __init__(self, amount: float, prune: Any = prune) -> None:
                prune._validate_pruning_amount_init(amount)
                self.amount, self.helpers = amount, prune

            def compute_mask(self, t: Any, default_mask: Any) -> Any:
                self.helpers._validate_pruning_amount(self.amount, t.numel())
                number = self.helpers._compute_nparams_toprune(self.amount, t.numel())
                mask = default_mask.clone()
                mask.view(-1)[t.numel() - number :] = 0
                return mask

        layer = t.nn.Linear(5, 3)
        Last.apply(layer, "weight", 0.3)
        results.append(layer.weight_mask.tolist())
        with pytest.raises(ValueError, match="amount=16 should be smaller than the number of parameters to prune=15"):
            Last.apply(t.nn.Linear(5, 3), "weight", 16)
    assert results[0] == results[1]
