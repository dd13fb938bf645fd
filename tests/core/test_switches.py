"""Seeds, sizes, numbers given as tensors, switches of determinism and warnings: accepted and refused as by PyTorch."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import ferro
from ferro import ops
from ferro.core import dtypes, notices


@pytest.fixture(autouse=True)
def _as_before():
    mode, state = ferro.get_deterministic_debug_mode(), ferro.get_rng_state()
    yield
    ferro.set_deterministic_debug_mode(mode)
    ferro.set_rng_state(state)


@pytest.mark.parametrize("number", [0, 5, -1, -(2**63), 2**63, 2**64 - 1], ids=str)
def test_seeds_are_numbers_of_64_bits(number, torch):
    assert ferro.manual_seed(number).initial_seed() == torch.Generator().manual_seed(number).initial_seed()
    assert ferro.initial_seed() == number % 2**64
    first = ferro.rand(3).tolist()
    assert ferro.rand(3, generator=ferro.Generator().manual_seed(number)).tolist() == first


# calls that raise, in both, with PyTorch's words
REFUSED = {
    "large seed": lambda m: m.manual_seed(2**64),
    "small seed": lambda m: m.manual_seed(-(2**63) - 1),
    "no seed": lambda m: m.Generator().manual_seed("a"),
    "state": lambda m: m.set_rng_state(m.zeros(3)),
    "threads": lambda m: m.set_num_threads(-1),
    "many threads": lambda m: m.set_num_threads(2**65),
    "interop": lambda m: m.set_num_interop_threads(-1),
    "many interop": lambda m: m.set_num_interop_threads(2**65),
    "mode": lambda m: m.use_deterministic_algorithms(1),
    "warn_only": lambda m: m.use_deterministic_algorithms(True, warn_only=1),
    "debug mode": lambda m: m.set_deterministic_debug_mode(3),
    "named debug mode": lambda m: m.set_deterministic_debug_mode("x"),
    "float debug mode": lambda m: m.set_deterministic_debug_mode(1.5),
    "contains": lambda m: "foo" in m.ones(2),
    "size of floats": lambda m: m.Size([1.5]),
    "size of a tensor": lambda m: m.Size(m.ones(3)),
    "size and list": lambda m: m.Size([1]) + [3],
    "sizes": lambda m: m.ones((m.tensor(3.0), m.tensor(4))),
    "sizes of arrays": lambda m: m.ones((np.array(3.0), m.tensor(4))),
    "rtol": lambda m: m.isclose(m.ones(2), m.ones(2), m.tensor(1.0, requires_grad=True)),
    "string rtol": lambda m: m.isclose(m.ones(2), m.ones(2), "a"),
    "negative rtol": lambda m: m.isclose(m.ones(2), m.ones(2), -1.0),
    "broadcast": lambda m: m.ones(2, 3) + m.ones(2),
    "broadcast three": lambda m: m.addcmul(m.ones(2, 1, 1), m.ones(3, 1), m.ones(4, 1)),
    "normal": lambda m: m.normal(m.ones(120), m.ones(2, 3, 4, 5)),
    "normal, tensor": lambda m: m.normal(m.ones(2), -m.ones(2)),
    "normal, number": lambda m: m.normal(m.ones(2), -1.0),
    "convolution": lambda m: m.nn.functional.conv2d(
        m.ones(1, 1, 1, 6, dtype=m.int64), m.ones(1, 1, 1, 3, dtype=m.float64)
    ),
    "index_add": lambda m: m.ones(()).index_add(0, m.tensor([0]), m.ones(1, 1, 1)),
    "index_add rows": lambda m: m.ones(3, 2).index_add(0, m.tensor([0]), m.ones(1, 3)),
    "warn always": lambda m: m.set_warn_always(1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_pytorchs_words(what, torch):
    with pytest.raises(Exception) as said:  # noqa: PT011 (compared below)
        REFUSED[what](torch)
    words = str(said.value).split(" (position")[0].split("(): argument")[-1]
    if what.startswith("sizes"):  # (PyTorch lists its signatures)
        words = "must be tuple of ints"
    with pytest.raises(said.type, match=re.escape(words)):
        REFUSED[what](ferro)


def test_sizes_are_tuples_of_numbers():
    s = ferro.Size([1, ferro.tensor(2), np.int64(3)])
    assert [type(n) for n in s] == [int] * 3
    for found in (s + (4,), () + s, (4,) + s, s * 2, 0 * s, s[:2], s + s, copy.copy(s), pickle.loads(pickle.dumps(s))):
        assert type(found) is ferro.Size
    assert (4,) + s == (4, 1, 2, 3)
    assert s * 2 == (1, 2, 3, 1, 2, 3)
    assert ferro.Size() == ()

    class Wild:
        def __radd__(self, other):
            return 42

    assert s + Wild() == 42


def test_numbers_may_be_tensors():
    x = ferro.ones(2, 3)
    assert ferro.isclose(x, x, ferro.tensor(1), ferro.tensor(1.5)).all()
    assert ferro.ones((ferro.tensor(3), np.array(4))).shape == ferro.ones(ferro.tensor(3), np.int64(4)).shape == (3, 4)


def test_switches_of_determinism(torch):
    for m in (ferro, torch):
        for mode, number in (("warn", 1), ("error", 2), ("default", 0)):
            m.set_deterministic_debug_mode(mode)
            assert m.get_deterministic_debug_mode() == number
            assert m.are_deterministic_algorithms_enabled() is (number > 0)
            assert m.is_deterministic_algorithms_warn_only_enabled() is (number == 1)
    ferro.set_num_interop_threads(3)
    assert ferro.get_num_interop_threads() == 3


def test_a_process_hears_once_that_a_number_leaves_the_graph(monkeypatch):
    monkeypatch.setattr(notices, "_given", set())
    x = ferro.tensor(2.0, requires_grad=True)
    with pytest.warns(
        UserWarning, match="Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior"
    ):
        assert float(x) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (int(x), complex(x), x.item(), float(x.detach())) == (2, 2, 2, 2)
    ferro.set_warn_always(True)
    with pytest.warns(UserWarning, match="Converting"):
        float(x)
    ferro.set_warn_always(False)
    assert not ferro.is_warn_always_enabled()


def test_forked_numbers_leave_no_trace():
    before = ferro.get_rng_state()
    with ferro.random.fork_rng():
        inside = ferro.rand(2)
    assert ferro.equal(ferro.get_rng_state(), before)
    with ferro.random.fork_rng(enabled=False):
        assert ferro.equal(ferro.rand(2), inside)
    assert not ferro.equal(ferro.get_rng_state(), before)


@pytest.mark.parametrize("name", [d.name for d in dtypes.ABSENT if d is not dtypes.complex32])
def test_dtypes_that_ferro_has_not_are_names(name, torch):
    d, other = getattr(ferro, name), getattr(torch, name)
    assert isinstance(d, ferro.dtype)
    assert (str(d)[6:], d.itemsize, d.is_complex, d.is_floating_point) == (
        str(other)[6:],
        other.itemsize,
        other.is_complex,
        other.is_floating_point,
    )
    assert pickle.loads(pickle.dumps(d)) is d
    assert d not in (ferro.float32, ferro.complex64)
    for call in (
        lambda: ferro.ones(1, dtype=d),
        lambda: ferro.ones(1).to(d),
        lambda: ferro.promote_types(d, ferro.float32),
    ):
        with pytest.raises(NotImplementedError, match=f"ferro.{name} is not supported"):
            call()
    if name.startswith("q"):
        for t in (d, other):
            with pytest.raises(RuntimeError, match="isSignedType not supported for quantized types"):
                _ = t.is_signed
    else:
        assert d.is_signed == other.is_signed
    assert ferro.chalf is ferro.complex32


def test_operations_by_atens_names():
    x = ferro.tensor([1.0, -2.0])
    aten = ops.aten
    assert aten.relu(x).tolist() == aten.relu.default(x).tolist() == [1, 0]
    assert aten.add.Tensor(x, 1).tolist() == aten.add_.Scalar(x.clone(), 1).tolist() == [2, -1]
    assert aten.slice_copy(ferro.ones(4, 2), 0, 0, 3).shape == (3, 2)
    assert repr(aten.add.Tensor) == "aten.add.Tensor"
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nothing'"):
        _ = aten.nothing
    with pytest.raises(AttributeError, match="has no attribute 'mine'"):
        _ = ops.mine
    with pytest.raises(TypeError, match='missing 1 required positional arguments: "data"'):
        ferro.tensor()
