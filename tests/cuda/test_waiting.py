"""set_sync_debug_mode: where the program waits for the GPU it warns, or raises, with the line; all that waits is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import ferro
from ferro.core.samples import ENTRIES
from ferro.cuda.missing import TRIPS
from tests.cuda.conftest import REAL
from tests.cuda.readers import unlisted_waits
from tests.cuda.test_samples import PATHS, UP_TO_SIGN, DeviceCall, gradients, there
from tests.cuda.travels import TRAVELS
from tests.helpers import arrays_of, cotangents, rng_of

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """No mode is left behind."""
    yield
    ferro.cuda.set_sync_debug_mode("default")


ASK: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "int": lambda x: int(x[0]),
    "float": lambda x: float(x[0]),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "repr": repr,
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "a mask": lambda x: x[x > 1],
    "poisson": lambda x: ferro.poisson(x),
    "gather": lambda x: x.gather(0, ferro.zeros(1, dtype=ferro.int64, device="cuda")),
}
NEVER: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * x + x.exp()).sum() / 3,
    "softmax": lambda x: x.softmax(0),
    "a slice": lambda x: x[:2].clone(),
    "random numbers": lambda x: ferro.rand_like(x) + ferro.nn.functional.dropout(x, 0.5),
    "layer_norm": lambda x: ferro.nn.functional.layer_norm(x, (3,)),
    "argsort": lambda x: x.argsort(stable=True),
    "sign": lambda x: x.sign(),
    "sort": lambda x: x.sort().values,
    "topk": lambda x: x.topk(2).values,
}


@pytest.mark.parametrize("name", ASK)
def test_what_waits_warns_or_raises_and_names_the_line(name: str) -> None:
    x = ferro.tensor([1.0, 2.0, 3.0], device="cuda")
    ASK[name](x)
    ferro.cuda.set_sync_debug_mode("error")
    assert ferro.cuda.get_sync_debug_mode() == 2
    with pytest.raises(RuntimeError, match=r"called a synchronizing CUDA operation: .*test_waiting\.py:\d+"):
        ASK[name](x)
    ferro.cuda.set_sync_debug_mode(1)
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        ASK[name](x)


@pytest.mark.parametrize("name", NEVER)
def test_what_does_not_wait_says_nothing(name: str) -> None:
    x = ferro.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    ferro.cuda.set_sync_debug_mode(2)
    out = NEVER[name](x)
    if out.requires_grad:
        ferro.autograd.grad(out.sum(), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x.gather(1, i),
        lambda x, i: x.scatter(1, i, 7.0),
        lambda x, i: x.scatter_add(1, i, x * 2),
        lambda x, i: x.topk(2).values + x.sort(1, descending=True).values[:, :2],
        lambda x, i: x.index_add(1, i[0], x),
        lambda x, i: x.take_along_dim(i, 1),
    ],
)
def test_what_is_named_by_an_index_is_recorded(function: Callable) -> None:
    """Indices are looked at beforehand, but not while a graph is recorded, where nothing is computed yet."""
    x, i = ferro.rand(2, 3, device="cuda"), ferro.tensor([[2, 0, 1], [0, 2, 1]], device="cuda")
    function(x, i)
    recorded = ferro.cuda.CUDAGraph()
    with ferro.cuda.graph(recorded):
        out = function(x, i)
    with ferro.no_grad():
        x.copy_(ferro.rand(2, 3, device="cuda"))
        i.copy_(i.flip(0))
    recorded.replay()
    assert ferro.equal(out, function(x, i))
    with pytest.raises((IndexError, RuntimeError)):
        function(x, i + 5) if function(x, i).shape == (2, 3) else x.gather(1, i + 5)


def test_other_modes_are_refused() -> None:
    for mode in ("loud", 3):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            ferro.cuda.set_sync_debug_mode(mode)
    assert ferro.cuda.get_sync_debug_mode() == 0


@pytest.mark.filterwarnings("ignore:.* is not there on device")
@pytest.mark.skipif(REAL, reason="the stand-in sees who looks at numbers")
@pytest.mark.parametrize("path", sorted(UP_TO_SIGN & set(PATHS)))
def test_functions_that_wait_are_listed(path: str) -> None:
    """And what the processor computes: of the operations whose results test_samples.py does not compare; it sees the others."""
    TRIPS.clear()
    with unlisted_waits() as unlisted:
        for sample in ENTRIES[path].samples:
            call = DeviceCall(ENTRIES[path], sample, ferro, arrays_of(sample, rng_of(path), "float64"), True)
            out = call.run()
            with suppress(NotImplementedError):
                gradients(call, out, cotangents(out, rng_of(path)), there)
    assert not unlisted
    assert tuple(sorted(TRIPS)) == TRAVELS.get(path, ())
