"""PyTorch's database of modules: every module in every setting, in training and evaluation, beside PyTorch's.

Names, shapes and dtypes of the state are equal both ways; so are outputs, gradients of inputs and parameters, running
statistics, reprs, and what comes out of copies and pickles. What the database lacks is in `tests/nn/module_settings.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import ferro
from tests.helpers import lookup
from tests.torch_databases import as_ferro, database, disagreement, torch

from .module_settings import BY_HAND, ELSEWHERE

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = sorted(set(torch.nn.modules.__all__) - set(ELSEWHERE))
# Modules whose results lie otherwise in memory than PyTorch's where the input is channels last; the numbers are the same.
LAID_OTHERWISE = {
    **dict.fromkeys(
        ("AdaptiveAvgPool3d", "AdaptiveMaxPool3d", "AvgPool3d", "LPPool3d"), "channels last kept without a batch, too"
    ),
    **dict.fromkeys(
        (
            "CircularPad3d",
            "CrossMapLRN2d",
            "InstanceNorm2d",
            "InstanceNorm3d",
            "LazyInstanceNorm2d",
            "LazyInstanceNorm3d",
            "MaxUnpool3d",
        ),
        "channels last kept",
    ),
    **dict.fromkeys(("ChannelShuffle", "RMSNorm"), "contiguous; PyTorch keeps channels last"),
    "Unfold": "a view of the order in which windows are gathered",
}
# PyTorch's gradients refuse what is not contiguous.
CONTIGUOUS_ONLY = {"NLLLoss", "NLLLoss2d"}
# PyTorch's gradient of Hardsigmoid multiplies by 1/6 as float32 has it.
COARSE = {"Hardsigmoid": 1e-7}
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 3e-4, "complex64": 3e-4}


class Setting(NamedTuple):
    """How a module is made and called: positional and named arguments of each, in PyTorch's types."""

    made: tuple
    options: dict
    called: tuple
    named: dict
    text: str


@functools.cache
def information() -> dict:
    """The database's entries by the name of the module."""
    return {info.module_cls.__name__: info for info in database("common_modules").module_db}


def settings(name: str, dtype: Any, training: bool) -> Iterator[Setting]:
    """Every setting of a module; the numbers are the same in every run."""
    torch.manual_seed(0)
    if name in BY_HAND:
        for i, (made, options, called, named) in enumerate(BY_HAND[name](dtype)):
            yield Setting(made, options, as_leaves(called), as_leaves(named), f"setting {i}")
        return
    info = information()[name]
    for i, given in enumerate(info.module_inputs_func(info, "cpu", dtype, True, training)):
        c, f = given.constructor_input, given.forward_input
        yield Setting(c.args, c.kwargs, as_leaves(f.args), as_leaves(f.kwargs), f"{i} {given.desc}")


def own(x: Any) -> Any:
    """Arguments with which a module is made, for ferro: functions by their name, an encoder's layer made again."""
    if isinstance(x, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
        made = getattr(ferro.nn, type(x).__name__)(
            x.self_attn.embed_dim,
            x.self_attn.num_heads,
            x.linear1.out_features,
            x.dropout.p,
            activation=own(x.activation),
            layer_norm_eps=x.norm1.eps,
            batch_first=x.self_attn.batch_first,
            norm_first=x.norm_first,
            bias=x.linear1.bias is not None,
        )
        return made
    if isinstance(x, torch.nn.Module):
        return ferro.nn.LayerNorm(x.normalized_shape, x.eps)
    if isinstance(x, (tuple, list)):
        return type(x)(own(v) for v in x)
    if isinstance(x, torch.nn.LinearCrossEntropyOptions):
        return ferro.nn.LinearCrossEntropyOptions(**dataclasses.asdict(x))
    if callable(x) and hasattr(x, "__name__") and not isinstance(x, type):
        return lookup(ferro.nn.functional, x.__name__) if hasattr(ferro.nn.functional, x.__name__) else x
    return as_ferro(x, {})


def pair(name: str, setting: Setting, dtype: Any, training: bool) -> tuple[Any, Any]:
    """ferro's module and PyTorch's, with PyTorch's state, which fits both ways."""
    theirs = getattr(torch.nn, name)(*copy.deepcopy(setting.made), **copy.deepcopy(setting.options)).to(dtype)
    made = tuple(own(a) for a in setting.made), {k: own(v) for k, v in setting.options.items()}
    ours = getattr(ferro.nn, name)(*made[0], **made[1]).to(as_ferro(dtype, {}))
    if "Lazy" in name:
        shown(ours, theirs)
        theirs(*as_leaves(setting.called), **setting.named)
        ours(*as_ferro(as_leaves(setting.called), {}), **as_ferro(setting.named, {}))
    given, own_state = theirs.state_dict(), ours.state_dict()
    assert [(k, tuple(v.shape), str(v.dtype)[6:]) for k, v in given.items()] == [
        (k, tuple(v.shape), str(v.dtype)[6:]) for k, v in own_state.items()
    ]
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    copied = {k: torch.from_numpy(v.detach().numpy().copy()) for k, v in own_state.items()}
    copy.deepcopy(theirs).load_state_dict(copied, strict=True)
    ours.load_state_dict({k: as_ferro(v.detach().clone(), {}) for k, v in given.items()}, strict=True)
    ours.train(training)
    theirs.train(training)
    if "FractionalMaxPool" in name:
        x = setting.called[0]
        n = int(name[-2])
        samples = torch.rand(1 if x.ndim == n + 1 else len(x), x.shape[-n - 1], n, dtype=dtype)
        theirs._random_samples, ours._random_samples = samples, as_ferro(samples, {})
    return ours, theirs


def as_leaves(x: Any, seen: dict | None = None) -> Any:
    """The same values without history; one tensor stays one."""
    seen = {} if seen is None else seen
    if isinstance(x, torch.Tensor):
        return seen.setdefault(id(x), x.detach().clone().requires_grad_(x.requires_grad))
    if isinstance(x, dict):
        return {k: as_leaves(v, seen) for k, v in x.items()}
    return type(x)(as_leaves(v, seen) for v in x) if isinstance(x, (tuple, list)) else x


def leaves(x: Any) -> list:
    """All tensors in arguments or results."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (tuple, list)):
        return [leaf for v in x for leaf in leaves(v)]
    return [x] if isinstance(x, (torch.Tensor, ferro.Tensor)) else []


def shown(ours: Any, theirs: Any) -> None:
    assert repr(ours).replace("ferro.", "torch.") == repr(theirs)


def same(ours: Any, theirs: Any, what: str, least: float = 0.0) -> None:
    """Equal shape, dtype and numbers, to the precision of the dtype or `least`."""
    if theirs is None or ours is None:
        assert theirs is ours, f"{what}: {ours}, expected {theirs}"
        return
    assert tuple(ours.shape) == tuple(theirs.shape), f"{what}: {ours.shape}, expected {theirs.shape}"
    assert str(ours.dtype)[6:] == str(theirs.dtype)[6:], f"{what}: {ours.dtype}, expected {theirs.dtype}"
    a, b = ours.detach().numpy(), theirs.detach().numpy(force=True)
    rtol = max(TOLERANCE.get(str(theirs.dtype)[6:], 0.0), least)
    size = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind in "fc" else 0
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(size, 1e-3), err_msg=what)


def compare(ours: Any, theirs: Any, setting: Setting, training: bool, strides: bool = False) -> None:
    """One call and one backward of both; then the state."""
    storages: dict = {}
    called, named = as_ferro(setting.called, storages), as_ferro(setting.named, storages)
    outputs = leaves(ours(*called, **named)), leaves(theirs(*setting.called, **setting.named))
    assert len(outputs[0]) == len(outputs[1]), "number of results"
    roots: list = []
    for i, (a, b) in enumerate(zip(*outputs, strict=True)):
        same(a, b, f"result {i}")
        assert a.requires_grad == b.requires_grad, f"result {i} requires grad: {a.requires_grad}"
        if strides:
            assert a.stride() == b.stride(), f"result {i}: strides {a.stride()}, expected {b.stride()}"
        if b.requires_grad:
            roots.append((a, b, torch.randn(b.shape, dtype=b.dtype)))
    if roots:
        ferro.autograd.backward([a for a, _, _ in roots], [as_ferro(w, {}) for _, _, w in roots])
        torch.autograd.backward([b for _, b, _ in roots], [w for _, _, w in roots])
    for i, (a, b) in enumerate(zip(leaves((called, named)), leaves((setting.called, setting.named)), strict=True)):
        if b.requires_grad:
            same(a.grad, b.grad, f"gradient of input {i}", COARSE.get(type(theirs).__name__, 0.0))
    for (k, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        same(a.grad, b.grad, f"gradient of {k}")
    for (k, a), (_, b) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        same(a, b, f"state {k} afterwards")


def each(name: str, dtype: Any, check: Callable, most: int = 2) -> None:
    """Runs a check on settings of a module, at most so many in training and in evaluation, and says which failed."""
    wrong = []
    for training in (True, False):
        listed = list(settings(name, dtype, training))
        for setting in listed[:: -(-len(listed) // most)]:  # evenly spread
            try:
                check(*pair(name, setting, dtype, training), setting, training)
            except AssertionError as e:
                wrong.append(f"{setting.text}, {'training' if training else 'evaluation'}: {str(e).strip()[:600]}")
    assert not wrong, f"{len(wrong)} settings of {name}:\n" + "\n".join(wrong)


def whole(ours: Any, theirs: Any, setting: Setting, training: bool) -> None:
    """The repr, and everything that one step shows."""
    shown(ours, theirs)
    compare(ours, theirs, setting, training)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_pytorchs(name: str) -> None:
    """In eight settings, in float64."""
    each(name, torch.float64, whole, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_pytorchs_in_every_setting(name: str) -> None:
    for dtype in (torch.float64, torch.float32):
        each(name, dtype, whole, 1000)


@pytest.mark.parametrize("name", NAMES)
def test_copies_and_pickles_compute_the_same(name: str) -> None:
    def check(ours: Any, theirs: Any, setting: Setting, training: bool) -> None:
        for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            assert type(again) is type(ours)
            assert repr(again) == repr(ours)
            found = []
            for module in (copy.deepcopy(ours), again):
                ferro.manual_seed(0)
                out = module(*as_ferro(setting.called, {}), **as_ferro(setting.named, {}))
                found.append([*leaves(out), *module.state_dict().values()])
            for a, b in zip(*found, strict=True):
                np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())

    each(name, torch.float64, check)


@pytest.mark.parametrize("name", sorted(set(NAMES) - CONTIGUOUS_ONLY))
def test_channels_last_and_strided_inputs(name: str) -> None:
    """The first settings of inputs that lie otherwise in memory: the same numbers, and results that lie as PyTorch's."""

    def check(ours: Any, theirs: Any, setting: Setting, training: bool) -> None:
        for lay in (channels_last, stepped):
            laid = setting._replace(called=relaid(setting.called, lay))
            if laid.called is not setting.called:
                mine, its = copy.deepcopy(ours), copy.deepcopy(theirs)
                compare(mine, its, laid, training, strides=lay is channels_last and name not in LAID_OTHERWISE)

    each(name, torch.float64, check)


def relaid(called: tuple, lay: Callable) -> tuple:
    """The floating arguments laid out otherwise; the same tuple where that changes nothing."""
    made = tuple(lay(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in called)
    return called if all(a is b for a, b in zip(made, called, strict=True)) else made


def channels_last(x: Any) -> Any:
    if x.ndim not in (4, 5):
        return x
    form = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    return x.detach().contiguous(memory_format=form).requires_grad_(x.requires_grad)


def stepped(x: Any) -> Any:
    """Every second element of the last dimension of a larger tensor."""
    if x.ndim == 0 or x.numel() < 2:
        return x
    wide = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
    wide[..., ::2] = x.detach()
    return wide[..., ::2].requires_grad_(x.requires_grad)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_modules_in_other_dtypes(dtype: str) -> None:
    """The first settings of all modules of the database that take the dtype."""
    wrong = []
    for name, info in information().items():
        if getattr(torch, dtype) in info.supported_dtypes("cpu"):
            try:
                each(name, getattr(torch, dtype), compare)
            except AssertionError as e:
                wrong.append(str(e))
    assert not wrong, "\n".join(wrong)


def test_modules_refuse_what_pytorch_refuses() -> None:
    """Errors of making and of calling: PyTorch's type, and words that match its pattern."""
    wrong, tried = {}, 0
    common = database("common_modules")
    for name, info in information().items():
        if info.module_error_inputs_func is None:
            continue
        for training in (True, False):
            for i, case in enumerate(info.module_error_inputs_func(info, "cpu", torch.float64, False, training)):
                c, f = case.module_error_input.constructor_input, case.module_error_input.forward_input

                def use(name: str = name, c: Any = c, f: Any = f, case: Any = case) -> None:
                    made = getattr(ferro.nn, name)(
                        *(own(a) for a in c.args), **{k: own(v) for k, v in c.kwargs.items()}
                    )
                    if case.error_on is common.ModuleErrorEnum.FORWARD_ERROR:
                        made(*as_ferro(as_leaves(f.args), {}), **as_ferro(f.kwargs, {}))

                tried += 1
                if said := disagreement(case, use):
                    wrong[name, i] = said
    assert tried > 50, "the database said too little to mean anything"
    assert wrong == {}
