"""vmap and ferro.func on the device: every operation with a rule, batched, beside the CPU without vmap; and what they are used for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import func, nn
from ferro.core.samples import ENTRIES
from tests.cuda.test_samples import PATHS, UP_TO_SIGN, there
from tests.helpers import TOLERANCE, Call, arrays_of, flatten, lookup, rng_of, to_array

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.* is not there on device 'cuda'. the CPU computes it"),
]
SLICES = 3


def cases(path: str) -> Any:
    """Samples with floating inputs, and these for each slice."""
    for sample in ENTRIES[path].samples:
        rng = rng_of(path)
        sets = [arrays_of(sample, rng, "float64") for _ in range(SLICES)]
        call = Call(ENTRIES[path], sample, ferro, [a.copy() for a in sets[0]], False)
        if call.inputs:
            yield sample, sets


class Filled(Call):
    """A call whose floating inputs are given one by one; all other tensors are those of the first slice, on the device."""

    given: Any = None

    def _tensor(self, array: np.ndarray) -> Any:
        return there(array)


def run(path: str, sample: Any, arrays: list, inputs: list | None) -> list:
    """The results of a sample; its floating inputs replaced, if others are given."""
    call = Filled(ENTRIES[path], sample, ferro, arrays, False)
    if inputs is not None:
        put = {id(old): new for old, new in zip(call.inputs, inputs, strict=True)}

        def replaced(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return type(x)([replaced(y) for y in x])
            return put.get(id(x), x)

        call.args = [replaced(a) for a in call.args]
        call.kwargs = {k: replaced(v) for k, v in call.kwargs.items()}
    return flatten(lookup(ferro, path)(*call.args, **call.kwargs))


def inputs_of(path: str, sample: Any, arrays: list) -> list[np.ndarray]:
    """The floating inputs among the arrays of a slice."""
    return [
        np.array(t.detach().numpy())
        for t in Call(ENTRIES[path], sample, ferro, [a.copy() for a in arrays], False).inputs
    ]


def want(path: str, sample: Any, sets: list, i: int) -> list:
    """Slice i without vmap, on the CPU: its inputs, beside the other tensors of slice 0."""
    rest = Call(ENTRIES[path], sample, ferro, [a.copy() for a in sets[0]], False)
    own = Call(ENTRIES[path], sample, ferro, [a.copy() for a in sets[i]], False)
    for old, new in zip(rest.inputs, own.inputs, strict=True):
        old.copy_(new)
    return rest.run()


def check(path: str) -> int:
    """Compares all samples that the CPU takes under vmap; how many that were."""
    compared = 0
    for sample, sets in cases(path):
        stacked = [np.stack(parts) for parts in zip(*[inputs_of(path, sample, a) for a in sets], strict=True)]

        def batched(tensors: list, sample: Any = sample, sets: list = sets) -> Any:
            return tuple(
                [r for r in run(path, sample, [a.copy() for a in sets[0]], tensors) if isinstance(r, ferro.Tensor)]
            )

        try:
            reference = [want(path, sample, sets, i) for i in range(SLICES)]
            got = func.vmap(batched, randomness="different")([there(s) for s in stacked])
        except RuntimeError as error:
            if "vmap" in str(error) or "batch" in str(error):  # (refused on the CPU as well: another test says what)
                continue
            raise
        for k, result in enumerate(got):
            assert result.device.type == "cuda", f"{sample}: result {k} lies on the CPU"
            each = [[r for r in row if isinstance(r, ferro.Tensor)][k] for row in reference]
            rtol, atol = TOLERANCE["float64"]
            np.testing.assert_allclose(
                to_array(result.cpu()),
                np.stack([to_array(e.detach()) for e in each]),
                rtol=rtol,
                atol=atol,
                err_msg=f"{sample}",
            )
        compared += 1
    return compared


@pytest.mark.parametrize("path", [p for p in PATHS if p not in UP_TO_SIGN and not p.endswith("_")])
def test_operations_under_vmap_agree_with_a_loop_on_the_cpu(path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(path)


# -- transforms of functions -------------------------------------------------------------------------------------------


def on_device(*shape: int, seed: int = 0) -> Any:
    return there(np.random.default_rng(seed).standard_normal(shape))


def torch_of(t: Any, torch: Any) -> Any:
    return torch.from_numpy(t.detach().cpu().numpy().copy())


def agrees(got: Any, want: Any) -> None:
    assert got.device.type == "cuda"
    np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-12)


def layered(m: Any) -> Any:
    """A function of a vector and a matrix in a library."""
    return lambda x, w: (m.tanh(w @ x) * m.exp(-x.sum()) + m.cumsum(x, 0)[:2]).sin()


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "hessian"])
def test_jacobians_are_pytorchs(transform: str, torch: Any) -> None:
    x, w = on_device(4), on_device(2, 4, seed=1)
    name = transform

    def made(m: Any) -> Any:
        f = layered(m)
        return getattr(m.func, name)((lambda x, w: f(x, w).sum()) if name == "hessian" else f, argnums=(0, 1))

    got, want = made(ferro)(x, w), made(torch)(torch_of(x, torch), torch_of(w, torch))
    flat_got, flat_want = ferro.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    assert len(flat_got) == len(flat_want)
    for g, t in zip(flat_got, flat_want, strict=True):
        agrees(g, t)


def test_vjp_jvp_and_linearize_are_pytorchs(torch: Any) -> None:
    x, w, v, u = on_device(4), on_device(2, 4, seed=1), on_device(4, seed=2), on_device(2, seed=3)
    tx, tw, tv, tu = [torch_of(a, torch) for a in (x, w, v, u)]
    value, pull = func.vjp(lambda x: layered(ferro)(x, w), x)
    want, theirs = torch.func.vjp(lambda x: layered(torch)(x, tw), tx)
    agrees(value, want)
    agrees(pull(u)[0], theirs(tu)[0])
    got, want = func.jvp(layered(ferro), (x, w), (v, w)), torch.func.jvp(layered(torch), (tx, tw), (tv, tw))
    for g, t in zip(got, want, strict=True):
        agrees(g, t)
    value, move = func.linearize(lambda x: layered(ferro)(x, w), x)
    agrees(move(v), torch.func.jvp(lambda x: layered(torch)(x, tw), (tx,), (tv,))[1])


def test_gradients_of_each_sample(torch: Any) -> None:
    found = []
    for m, place in ((ferro, lambda t: t), (torch, lambda t: torch_of(t, torch))):
        weights = {"0.weight": on_device(5, 3), "0.bias": on_device(5, seed=1), "2.weight": on_device(2, 5, seed=2)}
        weights = {k: place(v) for k, v in weights.items()}
        model = m.nn.Sequential(m.nn.Linear(3, 5), m.nn.Tanh(), m.nn.Linear(5, 2, bias=False)).double()
        x, y = place(on_device(6, 3, seed=3)), place(there(np.array([0, 1, 1, 0, 1, 0])))

        def loss(weights: Any, x: Any, y: Any, m: Any = m, model: Any = model) -> Any:
            out = m.func.functional_call(model, weights, (x.unsqueeze(0),))
            return m.nn.functional.cross_entropy(out, y.unsqueeze(0))

        found.append(m.func.vmap(m.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y))
    for name, want in found[1].items():
        agrees(found[0][name], want)


def test_vmaps_in_vmaps_dimensions_and_chunks(torch: Any) -> None:
    x, y = on_device(3, 4, 5), on_device(5, 2, seed=1)

    def made(m: Any, x: Any, y: Any) -> list:
        inner = m.func.vmap(lambda a, b: m.where(a > b, a * b, a.exp()), in_dims=(0, None))
        outer = m.func.vmap(inner, in_dims=(1, 1), out_dims=2)
        nested = m.func.vmap(m.func.vmap(lambda a: a.softmax(0) @ m.ones_like(a).cumsum(0)))
        return [
            outer(x, x[0, :, :1].T.expand(1, 4)),
            nested(x),
            m.func.vmap(lambda r: r.sort().values, chunk_size=2)(x),
            m.func.vmap(lambda r, i: r[:, i], in_dims=(0, None))(x, m.func.vmap(lambda s: s.argmax())(y.T)),
        ]

    for g, t in zip(made(ferro, x, y), made(torch, torch_of(x, torch), torch_of(y, torch)), strict=True):
        agrees(g, t)


def test_random_numbers_of_slices() -> None:
    x = on_device(4, 6)
    ferro.manual_seed(0)
    same = func.vmap(lambda r: r * 0 + ferro.rand(6, device="cuda", dtype=ferro.float64), randomness="same")(x)
    different = func.vmap(lambda r: nn.functional.dropout(r * 0 + 1, 0.5), randomness="different")(x)
    assert same.device.type == different.device.type == "cuda"
    assert ferro.equal(same[0], same[3])
    assert not all(ferro.equal(different[0], different[i]) for i in (1, 2, 3))
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        func.vmap(lambda r: ferro.rand_like(r))(x)


def test_slices_and_tensors_of_two_devices_raise() -> None:
    x, y = on_device(4, 6), ferro.ones(6, dtype=ferro.float64)
    for f in (lambda r: r + y, lambda r: y * r, lambda r: ferro.cat([r, y])):
        with pytest.raises(RuntimeError, match="at least two devices"):
            func.vmap(f)(x)
    assert func.vmap(lambda r: r * ferro.tensor(2.0))(x).device.type == "cuda"


def test_an_ensemble_of_modules() -> None:
    models = [nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)).double().to("cuda") for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    x = on_device(7, 3)
    out = func.vmap(lambda p, b: func.functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    want = np.stack([model.cpu()(x.cpu()).detach().numpy() for model in models])
    np.testing.assert_allclose(out.detach().cpu().numpy(), want, rtol=1e-10)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_elementwise_results_lie_in_memory_as_on_the_cpu(dim: int) -> None:
    """Whatever the order of the slices and of their dimensions: through functions of NumPy's, of ferro's own and kernels."""
    made = np.random.default_rng(4).uniform(0.1, 0.9, (2, 3, 4, 5))
    steps = [
        lambda x: (x * 2 - x).exp(),
        lambda x: nn.functional.gelu(x) + ferro.where(x > 0.5, x, 0),
        lambda x: ferro.lerp(x, x.sqrt(), 0.25).clamp(0.2, 0.8),
        lambda x: x.erf().float(),
        lambda x: x.atan2(x + 1).isfinite(),
    ]
    for turn in ((0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2), (3, 2, 1, 0)):
        a = np.ascontiguousarray(made.transpose(turn)).transpose(np.argsort(turn))
        for k, step in enumerate(steps):
            there_, here = (func.vmap(step, in_dims=dim)(ferro.from_numpy(a).to(device)) for device in ("cuda", "cpu"))
            assert there_.stride() == here.stride(), (turn, k)
            np.testing.assert_allclose(there_.cpu().numpy(), here.numpy(), rtol=1e-12 if k != 3 else 1e-6)
    assert func.vmap(lambda x: x.contiguous())(there(made.transpose(3, 0, 1, 2))).is_contiguous()
