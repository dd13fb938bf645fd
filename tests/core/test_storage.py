"""Storages: the memory of tensors, shared by views, written, resized, mapped from files; the old typed classes."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import ferro
from ferro.core import notices, typed_storage

ferro_storages = {
    "Double": ferro.float64,
    "Float": ferro.float32,
    "Half": ferro.float16,
    "BFloat16": ferro.bfloat16,
    "Long": ferro.int64,
    "Int": ferro.int32,
    "Short": ferro.int16,
    "Char": ferro.int8,
    "Byte": ferro.uint8,
    "Bool": ferro.bool,
    "ComplexFloat": ferro.complex64,
    "ComplexDouble": ferro.complex128,
}


@pytest.fixture(autouse=True)
def _told(monkeypatch):
    """As if the process had been told already that typed storages are deprecated."""
    monkeypatch.setattr(typed_storage, "warn_once", lambda text, stacklevel: None)


def test_views_share_one_storage_and_copies_have_their_own():
    x = ferro.arange(6.0).reshape(2, 3)
    s = x.untyped_storage()
    for view in (x[1], x.t(), x.reshape(6)[2:], x.detach(), x.data, x.as_strided((2, 2), (1, 1))):
        assert view.untyped_storage() is s
        assert view.storage()._cdata == x.storage()._cdata
        assert view.untyped_storage().data_ptr() == x.data_ptr()
    assert x.clone().untyped_storage() is not s
    assert (s.nbytes(), len(s), s.size(), s.element_size()) == (24, 24, 24, 1)


def test_a_storage_lives_as_long_as_somebody_holds_it_and_keeps_the_memory():
    x = ferro.arange(3.0)
    s = x.untyped_storage()
    watched = weakref.ref(s)
    del x
    gc.collect()
    assert ferro.empty(0).set_(s).tolist() == [0, 1, 2]
    del s
    gc.collect()
    assert watched() is None


def test_what_is_written_through_a_storage_is_seen_by_its_tensors():
    x = ferro.zeros(2, 2)
    x.storage()[3] = 5
    assert x[1, 1] == 5
    x.untyped_storage().fill_(0)
    assert x.sum() == 0
    x.storage()[1:3] = 2
    assert x.tolist() == [[0, 2], [2, 0]]
    x.storage().copy_(ferro.IntStorage([1, 2, 3, 4]))
    assert x.tolist() == [[1, 2], [3, 4]]
    x.untyped_storage()[4:8].fill_(0)
    assert x.tolist() == [[1, 0], [3, 4]]


def test_untyped_storages_from_numbers():
    s = ferro.UntypedStorage([1, 2, 300])
    assert s.tolist() == [1, 2, 44]
    assert (s[-1], s[0:2].tolist(), list(s), len(ferro.UntypedStorage(4)), len(ferro.UntypedStorage())) == (
        44,
        [1, 2],
        [1, 2, 44],
        4,
        0,
    )
    assert s.clone().tolist() == copy.copy(s).tolist() == pickle.loads(pickle.dumps(s)).tolist() == s.tolist()
    assert ferro.UntypedStorage().data_ptr() == 0
    assert s.float().tolist() == [1.0, 2.0, 44.0]


@pytest.mark.parametrize("dtype", ferro_storages.values(), ids=ferro_storages)
def test_byteswap_reverses_every_number(dtype):
    s = ferro.UntypedStorage(range(16))
    s.byteswap(dtype)
    width = dtype.to_real().itemsize
    assert s.tolist() == np.arange(16).reshape(-1, width)[:, ::-1].ravel().tolist()


REFUSED = {
    "index": (lambda s, t: s[24], IndexError, "index 24 out of range for storage of size 24"),
    "typed index": (lambda s, t: t[6], IndexError, "index 6 out of range for storage of size 6"),
    "string": (lambda s, t: s["a"], TypeError, "can't index a torch.UntypedStorage with str"),
    "step": (lambda s, t: s[::2], RuntimeError, "Trying to slice with a step of 2, but only a step of 1 is supported"),
    "slice": (lambda s, t: t[1:2], RuntimeError, "slices are only supported in UntypedStorage.__getitem__"),
    "float": (lambda s, t: s.fill_(1.5), RuntimeError, "fill_ expects int, but got float"),
    "item": (
        lambda s, t: ferro.UntypedStorage("x"),
        RuntimeError,
        "but one of the items was of type str instead of int",
    ),
    "negative": (lambda s, t: ferro.UntypedStorage(-1), RuntimeError, "negative"),
    "copy": (
        lambda s, t: s.copy_(ferro.UntypedStorage(3)),
        RuntimeError,
        "size does not match, self was 24 bytes but src was 3 bytes",
    ),
    "resize": (lambda s, t: s.resize_(-1), RuntimeError, "negative"),
    "pinned": (lambda s, t: s.pin_memory(), RuntimeError, "Cannot access accelerator device when none is available"),
    "cuda": (lambda s, t: s.cuda(), RuntimeError, "not available"),
    "two": (lambda s, t: ferro.FloatStorage(1, 2), RuntimeError, "Too many positional arguments"),
    "dtype": (
        lambda s, t: ferro.FloatStorage(dtype=ferro.float32),
        RuntimeError,
        "Keyword argument 'dtype' cannot be specified",
    ),
    "tensor": (lambda s, t: ferro.FloatStorage(ferro.ones(1)), TypeError, "Argument type not recognized"),
    "wrapped": (
        lambda s, t: ferro.FloatStorage(wrap_storage=3),
        TypeError,
        "Argument 'wrap_storage' must be UntypedStorage, but got <class 'int'>",
    ),
    "both": (
        lambda s, t: ferro.FloatStorage(0, wrap_storage=s),
        RuntimeError,
        "No positional arguments should be given when using 'wrap_storage'",
    ),
    "no dtype": (lambda s, t: ferro.TypedStorage(wrap_storage=s), RuntimeError, "Argument 'dtype' must be specified"),
    "set_": (
        lambda s, t: ferro.empty(0).set_(t.double()),
        RuntimeError,
        "of type Float or an UntypedStorage, but got type Double",
    ),
    "tensor()": (
        lambda s, t: ferro.tensor(t, dtype=ferro.int32),
        RuntimeError,
        "Expected a Storage of type Int or an UntypedStorage",
    ),
    "bounds": (lambda s, t: ferro.empty(2).set_(s, 5, (2,)), RuntimeError, "out of bounds for storage of size 24"),
    "order": (
        lambda s, t: ferro.UntypedStorage.from_buffer(b"ab", dtype=ferro.int16),
        RuntimeError,
        "missing required argument 'byte_order'",
    ),
    "order's name": (lambda s, t: ferro.ShortStorage.from_buffer(b"ab", "x"), ValueError, "invalid byte_order 'x'"),
    "bytes": (
        lambda s, t: ferro.ShortStorage.from_buffer(b"abc", "big"),
        ValueError,
        r"buffer size \(3\) must be a multiple of element size \(2\)",
    ),
    "count": (
        lambda s, t: ferro.ByteStorage.from_buffer(b"abcd", count=2, offset=3),
        ValueError,
        "specified a size of 2",
    ),
    "file": (lambda s, t: ferro.UntypedStorage.from_file("/nowhere/at/all", False, 3), FileNotFoundError, "nowhere"),
    "class of a file": (
        lambda s, t: ferro.TypedStorage.from_file("x", False, 3),
        RuntimeError,
        "from_file can only be called on derived classes",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_arguments_are_refused(what):
    call, error, message = REFUSED[what]
    x = ferro.arange(6.0)
    with pytest.raises(error, match=message):
        call(x.untyped_storage(), x.storage())
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


# -- other sizes


def test_tensors_that_are_known_move_with_their_storage():
    x = ferro.arange(4.0)
    part = x[2:]
    same = x.detach()
    s = x.untyped_storage()
    assert all(t.untyped_storage() is s for t in (part, same))
    s.resize_(40)
    assert s.nbytes() == x.untyped_storage().nbytes() == 40
    assert s.tolist()[16:] == [0] * 24
    part[0] = 7
    assert x.tolist() == same.tolist() == [0, 1, 7, 3]
    assert all(t.untyped_storage() is s for t in (x, part, same))
    assert ferro.empty(0).set_(s).shape == (10,)


def test_a_storage_does_not_leave_behind_who_looks_at_it():
    x = ferro.arange(4.0)
    s = x.untyped_storage()
    assert s.resizable()
    view = x[1:]
    assert not s.resizable()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        s.resize_(100)
    del view
    y = ferro.ones(4, requires_grad=True).exp()  # saved for backward
    with pytest.raises(RuntimeError, match="not resizable"):
        y.detach().untyped_storage().resize_(100)
    with pytest.raises(RuntimeError, match="looks beyond the first 4 bytes"):
        s.resize_(4)
    assert not ferro.from_numpy(np.frombuffer(bytearray(8), np.uint8)).untyped_storage().resizable()
    assert s.resize_(32).nbytes() == 32
    assert x.tolist() == [0, 1, 2, 3]
    x.numpy()
    assert not s.resizable()  # for good, as in PyTorch
    assert x.clone().untyped_storage().resizable()


def test_resize_of_a_tensor_takes_its_storage_along():
    x = ferro.arange(4.0)
    s = x.untyped_storage()
    part = x[1:]
    part.untyped_storage()
    x.resize_(6)
    assert x.untyped_storage() is s
    assert s.nbytes() == 24
    part[0] = 9
    assert x.tolist() == [0, 9, 2, 3, 0, 0]


def test_set_shows_a_storage_and_lets_it_grow():
    x = ferro.arange(6.0)
    t = ferro.empty(0).set_(x.untyped_storage(), 1, (2, 2), (1, 2))
    assert t.tolist() == [[1, 3], [2, 4]]
    assert (t.storage_offset(), t.stride()) == (1, (1, 2))
    assert t.storage()._cdata == x.storage()._cdata
    grown = ferro.ones(1)
    grown.set_(grown.untyped_storage(), 2, (2, 3))
    assert grown.untyped_storage().nbytes() == 32
    assert ferro.zeros(0).set_(source=x.storage()).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="derivative of set_"):
        (ferro.ones(2, requires_grad=True) * 1).set_(x.untyped_storage())


def test_a_deep_copy_shares_what_was_shared():
    x = ferro.arange(6.0)
    group: list = [x, x.untyped_storage(), x.storage(), x.view(2, 3)]
    y, s, t, v = copy.deepcopy(group)
    y += 1
    assert t.tolist() == v.flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert y.untyped_storage() is s
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


# -- typed storages


@pytest.mark.parametrize("name", ferro_storages)
def test_old_classes_make_storages_of_their_dtype(name):
    cls, dtype = getattr(ferro, f"{name}Storage"), ferro_storages[name]
    s = cls([0, 1, 1])
    assert isinstance(s, cls)
    assert isinstance(s, ferro.TypedStorage)
    assert not isinstance(s, ferro.IntStorage if name != "Int" else ferro.LongStorage)
    assert s.dtype is dtype
    assert (s.type(), s.size(), s.element_size(), s.nbytes()) == (
        f"torch.{name}Storage",
        3,
        dtype.itemsize,
        3 * dtype.itemsize,
    )
    assert s.int().tolist() == ferro.IntStorage([1, 2, 3]).type(f"torch.{name}Storage").bool().int().tolist()[:0] + [
        0,
        1,
        1,
    ]
    assert ferro.tensor(s).dtype is dtype
    assert ferro.tensor(s.untyped(), dtype=dtype).tolist() == s.tolist()
    assert cls(3).tolist() == [0, 0, 0]
    assert cls(wrap_storage=s.untyped()).data_ptr() == s.data_ptr()
    assert pickle.loads(pickle.dumps(s)).tolist() == s.tolist()


def test_typed_storages_are_deprecated_as_in_pytorch(monkeypatch):
    monkeypatch.setattr(typed_storage, "warn_once", notices.warn_once)
    monkeypatch.setattr(notices, "_given", set())
    x = ferro.ones(2)
    with pytest.warns(
        UserWarning, match="TypedStorage is deprecated. It will be removed in the future and UntypedStorage"
    ):
        x.storage()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.storage()
        x.untyped_storage()


def test_storages_from_buffers_have_the_numbers_of_the_byte_order():
    held = bytearray([1, 2, 3, 4])
    assert ferro.ShortStorage.from_buffer(held, "big").tolist() == [258, 772]
    assert ferro.IntStorage.from_buffer(held, "little")[0] == 67305985
    assert ferro.BoolStorage.from_buffer(bytes([0, 7]), "big").tolist() == [False, True]
    assert ferro.ByteStorage.from_buffer(held, count=2, offset=1).tolist() == [2, 3]


# -- files


def test_a_file_is_shared_memory(tmp_path):
    path = str(tmp_path / "shared")
    first, second = (ferro.from_file(path, True, 10) for _ in range(2))
    first.copy_(ferro.arange(10.0))
    assert second.tolist() == np.fromfile(path, np.float32).tolist() == list(range(10))
    s = ferro.FloatStorage.from_file(path, True, 10)
    assert s.data_ptr() == ferro.FloatTensor(s).data_ptr()
    assert (s.filename, s.is_shared(), first.is_shared()) == (path, True, True)
    private = ferro.from_file(path, size=3)
    private[0] = 100
    assert (first[0].item(), private.is_shared()) == (0.0, False)
    with pytest.raises(RuntimeError, match="unable to mmap 4000 bytes"):
        ferro.from_file(path, False, 1000)
    with pytest.raises(RuntimeError, match="not resizable"):
        first.untyped_storage().resize_(4000)
