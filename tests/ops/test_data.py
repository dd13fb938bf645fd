"""Tensors made of data of the program, and what is refused of it; against PyTorch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import agree

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")

BIG = 2**63


class Sequence:
    """A sequence that is none of Python's own."""

    def __init__(self, items: list) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


class Closed(Sequence):
    def __getitem__(self, i: int) -> Any:
        raise TypeError("closed")


def own() -> list:
    z: list = [0]
    z.append(z)
    return z


MADE = [
    "[]",
    "[[]]",
    "5",
    "5.0",
    "True",
    "1j",
    "[True, 2]",
    "[1, 2.5]",
    "[1, 2j]",
    "range(3)",
    "(1, [2][0])",
    "[BIG, 1.0]",
    "[2**70, 1.0]",
    "[t.tensor([1]), t.tensor(2)]",
    "[t.tensor(1.5), 2]",
    "list(itertools.product([t.tensor([1])], t.tensor([1, 2])))",
    "[np.float64(1.0)]",
    "[np.float32(1.0), 2.5]",
    "[np.int32(1), 2.5]",
    "[np.int32(1), 2]",
    "[np.int32(1), np.int8(2)]",
    "[2, np.array(1.0)]",
    "[2.0, np.float64(1.0)]",
    "[(7, np.array(5)), (np.array(9), 5.0)]",
    "[np.bool_(True)]",
    "[np.complex64(1)]",
    "[t.tensor(2, dtype=t.int16), t.tensor(1.0, dtype=t.float16)]",
    "[np.ones(2, np.float32)]",
    "bytearray(b'abc')",
    "memoryview(b'abc')",
    "Sequence([1.0, 2.0])",
    "[Sequence([1, 2]), [3, 4]]",
]
REFUSED = [
    "['a']",
    "[[1, 2], 'ab']",
    "[['a', 1]]",
    "(b'a', 2)",
    "[1, 'a']",
    "Closed([1.0])",
    "[0, 'torch']",
    "'torch'",
    "b'abc'",
    "[None]",
    "None",
    "{1, 2}",
    "{1: 2}",
    "object()",
    "[[1, 2], [3]]",
    "[[1, 2], 3]",
    "[1, [2, 3]]",
    "[[[1], [2, 3]]]",
    "[BIG]",
    "BIG",
    "own()",
    "[[1, 2], own()]",
    "[t.tensor([1, 2])]",
    "[t.tensor([1.0, 2.0])]",
    "np.array(['a'])",
]
OF_DTYPE = [
    ("[BIG]", "uint64"),
    ("[BIG]", "bool"),
    ("[2**70]", "float32"),
    ("[1.5]", "int64"),
    ("[1e39]", "float32"),
    ("[1e6]", "float16"),
    ("[-1]", "uint8"),
    ("[300]", "uint8"),
    ("300", "uint8"),
    ("[1e30]", "int64"),
    ("[float('nan')]", "int64"),
    ("[float('inf')]", "int32"),
    ("[1j]", "float32"),
    ("1j", "float32"),
    ("[1e-323, 1e-324, 0j, -1j]", "bool"),
    ("[float('nan'), 0, -BIG - 1]", "bool"),
    ("t.tensor([1.5, 300])", "int16"),
]


@pytest.mark.parametrize("data", MADE + REFUSED)
def test_data_is_read_and_refused_as_torch_does(data: str) -> None:
    agree(lambda t: t.tensor(eval(data, {**globals(), "t": t})))


@pytest.mark.parametrize(("data", "dtype"), OF_DTYPE)
def test_data_is_cast_to_a_dtype_as_torch_does(data: str, dtype: str) -> None:
    agree(lambda t: t.tensor(eval(data, {**globals(), "t": t}), dtype=getattr(t, dtype)))


def test_copies_of_tensors_by_tensor_are_advised_against() -> None:
    x = ferro.ones(2, requires_grad=True)
    for call, named in ((ferro.tensor, "torch.tensor"), (x.new_tensor, "tensor.new_tensor")):
        with pytest.warns(UserWarning, match=rf"sourceTensor.detach\(\).clone\(\).*rather than {named}"):
            y = call(x)
        assert y.is_leaf
        assert not y.requires_grad
        assert y.tolist() == [1.0, 1.0]


BUFFERS = [
    "t.frombuffer(bytearray(b'abcdefgh'), dtype=t.int16)",
    "t.frombuffer(bytearray(b'abcdefgh'), dtype=t.int16, count=2, offset=3)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.uint8, count=-3)",
    "t.frombuffer(bytearray(b''), dtype=t.uint8)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, offset=1)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, offset=4)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, offset=-1)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, count=2)",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, count=0)",
    "t.frombuffer(bytearray(b'abcde'), dtype=t.int32)",
    "t.frombuffer(3, dtype=t.int32)",
    "t.frombuffer(bytearray(b'abcd'))",
    "t.frombuffer(bytearray(b'abcd'), dtype=t.int32, requires_grad=True)",
    "t.asarray(b'abcd')",
    "t.asarray(b'abcd', dtype=t.uint8)",
    "t.asarray(memoryview(np.ones((2, 3))), dtype=t.float64)",
    "t.asarray(bytearray(b'abcde'), dtype=t.int16)",
    "t.asarray(np.float64(0.5))",
    "t.asarray(np.float64(0.5), copy=False)",
    "t.asarray(t.ones(2), dtype=t.float64, copy=False)",
    "t.asarray(t.ones(2), dtype=t.float64)",
    "t.asarray([1.0, 2], copy=False)",
    "t.asarray(object())",
    "t.asarray('abc')",
    "t.asarray(np.arange(3), dtype=t.float32, requires_grad=True)",
    "t.asarray(t.utils.dlpack.to_dlpack(t.tensor([1, 2])))",
    "t.from_dlpack(t.utils.dlpack.to_dlpack(t.tensor([1.5, 2])))",
    "t.from_dlpack(3)",
    "t.from_dlpack(np.arange(3))",
    "t.from_numpy(np.zeros(3, dtype=[('a', 'f4'), ('b', 'i1')])['a'])",
    "t.from_numpy(np.ones(3, dtype='>f4'))",
    "t.from_numpy(np.array(['a']))",
    "t.from_numpy(np.array([object()]))",
]


@pytest.mark.parametrize("call", BUFFERS)
def test_memory_of_others_is_read_and_refused_as_torch_does(call: str) -> None:
    agree(lambda t: eval(call, {**globals(), "t": t}))


@pytest.mark.parametrize(
    "give",
    [
        ferro.from_numpy,
        ferro.asarray,
        memoryview,
        lambda a: ferro.utils.dlpack.to_dlpack(ferro.from_numpy(a)),
    ],
    ids=["tensor", "asarray", "buffer", "capsule"],
)
def test_asarray_shares_memory_and_copies_when_asked_to(give: Any) -> None:
    array = np.arange(4.0)
    shared = ferro.asarray(give(array), dtype=ferro.float64)
    copied = ferro.asarray(give(array), dtype=ferro.float64, copy=True)
    shared[1] = 9
    assert array.tolist() == [0, 9, 2, 3]
    assert copied.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("copy", [None, True])
def test_asarray_of_a_tensor_with_history(copy: Any, requires_grad: bool) -> None:
    for library in (torch, ferro):
        x = library.ones(2, requires_grad=True) * 2
        made = library.asarray(x, copy=copy, requires_grad=requires_grad)
        assert (made.requires_grad, made.grad_fn is not None) == (requires_grad, requires_grad)


def test_a_capsule_is_used_once() -> None:
    capsule = ferro.utils.dlpack.to_dlpack(ferro.ones(2))
    ferro.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="DLTensor capsules can be consumed only once"):
        ferro.from_dlpack(capsule)


def test_capsules_go_to_torch_and_back() -> None:
    x = ferro.arange(6).reshape(2, 3).t()
    there = torch.utils.dlpack.from_dlpack(ferro.utils.dlpack.to_dlpack(x))
    back = ferro.from_dlpack(torch.utils.dlpack.to_dlpack(there))
    back[2, 1] = 50
    assert (x[2, 1], there[2, 1], tuple(there.stride())) == (50, 50, back.stride())


def test_a_capsule_of_a_tensor_with_history_is_refused() -> None:
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        (ferro.ones(2, requires_grad=True) * 2).__dlpack__()


# -- devices ---------------------------------------------------------------------------------------------------------


def test_a_device_is_the_default_of_its_block() -> None:
    with ferro.device("cpu") as outer, ferro.device("cpu", 0) as inner:
        assert ferro.get_default_device() is inner
        assert ferro.asarray([1.0]).device == outer
    assert ferro.get_default_device() == ferro.device("cpu")


def test_without_the_device_meta_a_model_takes_the_loaded_tensors() -> None:
    with pytest.raises(RuntimeError, match=r"'meta' is not available.*nn\.utils\.skip_init.*assign=True"):
        ferro.nn.Linear(2, 3, device="meta")
    state = {"weight": ferro.ones(3, 2), "bias": ferro.zeros(3)}
    model = ferro.nn.utils.skip_init(ferro.nn.Linear, 2, 3)
    model.load_state_dict(state, assign=True)
    assert model.weight.data_ptr() == state["weight"].data_ptr()
    assert model(ferro.ones(1, 2)).tolist() == [[2, 2, 2]]


def test_the_default_device_is_one_that_there_is() -> None:
    ferro.set_default_device("cpu")
    assert ferro.get_default_device() == ferro.device("cpu")
    ferro.set_default_device(None)
    for name in ("cuda", "mps", "meta"):
        with pytest.raises(RuntimeError, match=f"'{name}' is not available"):
            ferro.set_default_device(name)
        with pytest.raises(RuntimeError, match=f"'{name}' is not available"), ferro.device(name):
            pass
    with pytest.raises(RuntimeError) as theirs:
        torch.device("foo")
    with pytest.raises(RuntimeError) as ours:
        ferro.device("foo")
    assert str(theirs.value) in str(ours.value)


def test_blocks_of_devices_may_be_left_in_another_order() -> None:
    first, second = ferro.device("cpu", 1), ferro.device("cpu", 2)
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert ferro.get_default_device() is second
    second.__exit__()
    assert ferro.get_default_device() == ferro.device("cpu")


# -- numbers in a row, filled and random tensors -------------------------------------------------------------------------

CALLS = [
    "t.eye(-1)",
    "t.eye(1, -1)",
    "t.range(0, 3)",
    "t.range(1, 0)",
    "t.range(0, 1, 0)",
    "t.range(0, float('inf'))",
    "t.linspace(0, 4, -1)",
    "t.linspace(t.ones(2), 4, 2)",
    "t.logspace(0, t.ones(1), 2)",
    "t.arange(0, 3, dtype=t.bool)",
    "t.arange(0, 3, dtype=t.complex64)",
    "t.arange(1.175494351e-38, 3.402823466e+38)",
    "t.arange(2**62, 2**63 - 1, 2**61)",
    "t.full((2,), 1j, dtype=t.float32)",
    "t.full((-2,), 1.5)",
    "t.full((2,), t.tensor([1.5]))",
    "t.full((2,), 'a')",
    "t.full_like(t.ones(2), 1j)",
    "t.full((2,), 1 + 0j, dtype=t.float32)",
    "t.empty([2, 4, 2**29, 2**29], dtype=t.float64)",
    "t.empty([0, 4, 2**61])",
    "t.zeros(2**62, 4)",
    "t.empty_strided([8, 8], [2**61, 1])",
    "t.empty_strided([8, 8], [2])",
    "t.empty_strided([8, 8], [-2, 1])",
    "t.empty_strided([-8, 8], [2, 1])",
    "t.zeros(2, dtype=t.int64).new_zeros(2, requires_grad=True)",
    "t.zeros(2, dtype=t.int64, requires_grad=True)",
    "t.ones(2, dtype=t.int64).new_full((2,), 1, requires_grad=True)",
    "t.complex(t.ones(2).int(), t.ones(2).int())",
    "t.complex(t.ones(2), t.ones(2).double())",
    "t.polar(t.ones(2), t.ones(2), out=t.ones(2))",
    "t.complex(t.ones(2), t.ones(2), out=t.ones(2, dtype=t.complex128))",
    "t.block_diag(t.tensor(5), t.tensor([[[6]]]))",
    "t.tril_indices(-1, 2)",
    "t.triu_indices(1, -2)",
    "t.triu_indices(3, 2, dtype=t.float32)",
    "t.randperm(257, dtype=t.uint8)",
    "t.randperm(2**11 + 2, dtype=t.half)",
    "t.randperm(-1)",
    "t.randperm(3, dtype=t.bool)",
    "t.randperm(3, dtype=t.complex64)",
    "t.randperm(3.5)",
    "t.empty(3).uniform_(3, 2)",
    "t.empty(3).uniform_(-3e38, 3e38)",
    "t.empty(3).uniform_(-1e39, 3e38)",
    "t.empty(3).uniform_(0, float('nan'))",
    "t.empty(3).int().uniform_(0, 1)",
    "t.empty(3).int().normal_()",
    "t.rand(3, dtype=t.int64)",
    "t.randn(3, dtype=t.int64)",
    "t.empty(2).long().exponential_(1)",
    "t.empty(2).long().log_normal_()",
    "t.randint(6, (3,), dtype=t.complex64)",
    "t.randint_like(t.zeros(3, dtype=t.complex64), 6)",
    "t.multinomial(t.tensor([1.0, 1.0]), 3)",
    "t.multinomial(t.tensor([1.0, 0.0]), 2)",
    "t.unravel_index(t.tensor(0.5), (2, 2))",
    "t.unravel_index(t.tensor(1), (2, 2.0))",
    "t.unravel_index(t.tensor(1), 3.5)",
    "t.rand([]).index_put([], t.tensor([1.0]), True)",
    "t.empty(10, 0)[:, [0, 1]]",
    "t.tensor(float(t.tensor(1.5 + 0j)))",
    "t.tensor(float(t.tensor(1.5j)))",
    "t.tensor(int(t.tensor(1.5j)))",
    "t.tensor(complex(t.tensor(1.5j)))",
    "t.tensor(t.zeros(2, 3).sparse_dim())",
    "t.tensor(t.zeros(2, 3).dense_dim())",
]


@pytest.mark.parametrize("call", CALLS)
def test_calls_give_or_refuse_what_torch_does(call: str) -> None:
    agree(lambda t: eval(call, {**globals(), "t": t}))


NUMPYS = [
    "np.abs(t.tensor([1, -2]))",
    "np.sqrt(t.tensor([1.0, 4.0]))",
    "np.greater_equal(t.tensor([1.0, 4.0]), 2)",
    "np.add(np.ones(2), t.tensor([1.0, 4.0]))",
    "np.add.reduce(t.tensor([1.0, 4.0]))",
    "np.matmul(np.eye(2), t.tensor([1.0, 4.0]))",
    "np.divmod(t.tensor([5.0, 4.0]), 2)[1]",
    "np.exp(t.tensor(0.0))",
    "np.cumsum(t.tensor([1.0, 4.0]))",
    "np.transpose(t.tensor([[1.0, 4.0]]))",
    "np.float64(2) * t.tensor([1.0, 4.0])",
    "np.int8(3) + t.tensor([1, 2], dtype=t.int8)",
    "t.arange(np.int64(3))",
    "t.arange(np.float32(3))",
    "t.full((2,), np.float32(2.5))",
    "t.full((2,), np.int64(2))",
    "t.zeros(2).fill_(np.float32(2))",
    "t.zeros(np.int64(3))",
    "t.linspace(np.float32(0), np.float64(1), np.int64(3))",
    "t.tensor([np.ones((3, 3)), np.ones((3, 0))])",
    "t.tensor([[np.ones(3), np.float64(2)]])",
    "t.tensor([[1, 2, 3], np.ones(2)])",
    "t.ones(2).imag",
    "t.ones(2, 2).gather(0, t.tensor([], dtype=t.int64))",
    "t.ones(3, 2).gather(0, t.tensor([[0, 0, 0]]))",
    "t.ones(3, 2).gather(1, t.zeros(4, 1, dtype=t.int64))",
    "t.ones(3).scatter_(0, t.tensor([0]), t.tensor([2.5], dtype=t.float64))",
    "t.ones(3).scatter_(0, t.tensor([0, 1, 2]), t.tensor([2.5]))",
    "t.ones(3).scatter_(0, t.tensor([[0]]), t.tensor([2.5]))",
    "t.ones(3, 2).scatter_add_(0, t.zeros(1, 3, dtype=t.int64), t.ones(1, 3))",
    "t.ones(3).scatter_reduce(0, t.tensor([0]), t.tensor([2.5]), reduce='foo')",
    "t.ones(3).cfloat().scatter_reduce(0, t.tensor([0]), t.ones(1).cfloat(), reduce='amax')",
]


@pytest.mark.parametrize("call", NUMPYS)
def test_with_numpys_functions_and_numbers_as_in_torch(call: str) -> None:
    agree(lambda t: eval(call, {**globals(), "t": t}))


def test_memory_that_numpy_was_given_is_not_resized() -> None:
    for library in (torch, ferro):
        x = library.ones(2)
        array = x.numpy()
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            x.resize_(100)
        array[0] = 5
        assert x[0] == 5
    assert x.shape == (2,)


def test_what_is_warned_of_as_in_torch() -> None:
    ferro.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=r"Creating a tensor from a list of numpy\.ndarrays is extremely slow"):
            ferro.tensor([np.array([0]), np.array([1])])
        with pytest.warns(UserWarning, match=r"The reduce argument of torch\.scatter with Tensor src is deprecated"):
            ferro.ones(2).scatter(0, ferro.tensor([0]), ferro.ones(1), reduce="add")
    finally:
        ferro.set_warn_always(False)


def test_range_warns_each_time_and_meshgrid_once() -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="range is deprecated and will be removed in a future release"):
            ferro.range(0, 1)
    ferro.set_warn_always(True)
    try:
        with pytest.warns(
            UserWarning, match="in an upcoming release, it will be required to pass the indexing argument"
        ):
            ferro.meshgrid(ferro.arange(2))
    finally:
        ferro.set_warn_always(False)
    ferro.cartesian_prod(ferro.arange(2), ferro.arange(2))


LIKE = [
    lambda t: t.randn(4, 3, 2)[:, :, ::2],
    lambda t: t.empty_strided((4, 3, 2), (10, 0, 3)),
    lambda t: t.empty_strided((4, 3, 2), (10, 1, 2)),
    lambda t: t.empty_strided((4, 2, 3), (10, 3, 3)),
    lambda t: t.empty_strided((4, 3, 2), (10, 3, 1)),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("make", LIKE)
def test_tensors_like_others_lie_as_torchs(make: Any, order: tuple) -> None:
    strides = []
    for library in (torch, ferro):
        x = make(library).permute(order)
        made = [library.zeros_like(x), library.full_like(x, 2), library.rand_like(x), library.empty_like(x)]
        strides.append([tuple(y.stride()) for y in made])
    assert strides[0] == strides[1]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, 1:1],
        lambda x: x[1:1, :, ::2],
        lambda x: x[:, :, 1][:, 1:1],
        lambda x: x.as_strided((0, 2, 0), (12, 4, 1)),
        lambda x: x[:, :0].t() if x.ndim == 2 else x[:0],
    ],
)
def test_strides_of_empty_views(view: Any) -> None:
    assert view(ferro.zeros(2, 3, 4)).stride() == view(torch.zeros(2, 3, 4)).stride()


def test_storage_is_that_of_the_default_dtype() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ferro.Storage([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert ferro.Storage is ferro.FloatStorage
    ferro.set_default_dtype(ferro.float64)
    try:
        assert ferro.Storage is ferro.DoubleStorage
    finally:
        ferro.set_default_dtype(ferro.float32)
    assert ferro.Storage is ferro.FloatStorage
