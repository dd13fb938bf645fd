"""Where tensors lie in the memory of the device: the order of dimensions, offsets, and storages that views share."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.base import wrap
from ferro.cuda import kernels, layouts
from ferro.cuda.driver import cupy


def _images(device: str, dtype: Any = ferro.float32) -> Any:
    return ferro.arange(2 * 3 * 4 * 5, dtype=dtype).reshape(2, 3, 4, 5).to(device, memory_format=ferro.channels_last)


@pytest.mark.parametrize("dtype", [ferro.float32, ferro.float64, ferro.bfloat16, ferro.int64])
def test_images_keep_their_channels_last_through_elementwise_steps(cuda: str, dtype: Any) -> None:
    x = _images(cuda, dtype)
    bias = ferro.ones(3, 1, 1, dtype=dtype, device=cuda)
    for y in (x + x, x * bias, bias - x, -x, x > 2, x.to(ferro.float16), x.clone(), ferro.where(x > 2, x, 0), x.abs()):
        assert y.is_contiguous(memory_format=ferro.channels_last)
    want = x.cpu().float().numpy() * 1
    np.testing.assert_array_equal((x * bias).cpu().float().numpy(), want)


def test_arrays_of_one_order_are_one_run_of_memory_to_a_kernel(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    plain = kernels._kernel

    def noted(*args: Any) -> Any:
        kinds.append(args[-1])
        return plain(*args)

    monkeypatch.setattr(kernels, "_kernel", noted)
    x = _images(cuda)
    for given in (x, x.permute(3, 1, 0, 2), x[0].T):
        kinds.clear()
        y = ferro.nn.functional.silu(given)
        assert kinds[-1] == "flat"
        assert y.stride() == given.stride()
        z = given.cpu().double().numpy()
        np.testing.assert_allclose(y.cpu().numpy(), z / (1 + np.exp(-z)), rtol=1e-6)
    ferro.nn.functional.silu(x[:, :2])
    assert kinds[-1] == "strided"


def test_copies_to_the_device_and_back_keep_the_order(cuda: str) -> None:
    x = ferro.arange(120.0).reshape(2, 3, 4, 5)
    for y in (x.contiguous(memory_format=ferro.channels_last), x.permute(2, 0, 3, 1), x[:, :, ::2], x.mT):
        there = y.to(cuda)
        assert there.stride() == y.clone().stride()
        held = y.pin_memory()
        assert held.stride() == held.to(cuda, non_blocking=True).stride() == there.stride()
        assert ferro.equal(held.to(cuda, non_blocking=True).cpu(), y)
        back = there.cpu()
        assert back.stride() == y.clone().stride()
        assert ferro.equal(back, y)


def test_views_say_where_they_begin_and_share_one_storage(cuda: str) -> None:
    x = ferro.arange(24.0, device=cuda).reshape(4, 6)
    views = [
        x[1:],
        x[:, 2],
        x.T,
        x.diagonal(1),
        x.unfold(1, 2, 2),
        x.as_strided((2, 2), (6, 1), 7),
        x.view(ferro.int32),
    ]
    assert [v.storage_offset() for v in views] == [6, 2, 0, 1, 0, 7, 0]
    again = views[5].as_strided((3,), (2,), 1)
    assert again.storage_offset() == 1
    assert again.tolist() == [1.0, 3.0, 5.0]
    storage = x.untyped_storage()
    assert storage.nbytes() == len(storage) == 96
    assert (storage.device.type, storage.is_cuda, storage.get_device()) == ("cuda", True, 0)
    assert storage.data_ptr() == x.data_ptr()
    for v in (*views, again):
        assert v.untyped_storage() is storage
        assert v.data_ptr() == storage.data_ptr() + v.storage_offset() * v.element_size()


def test_what_is_noted_of_views_goes_with_them(cuda: str) -> None:
    x = ferro.arange(6.0, device=cuda)
    before = len(layouts._VIEWED)
    view = x.as_strided((2,), (1,), 2)
    assert len(layouts._VIEWED) == before + 1
    del view
    assert len(layouts._VIEWED) == before


def test_a_storage_is_read_written_copied_and_moved(cuda: str) -> None:
    x = ferro.tensor([1.0, 2.0], device=cuda)
    storage = x.untyped_storage()
    assert storage.tolist() == list(np.array([1, 2], np.float32).tobytes())
    storage[3] = 64
    assert x[0].item() == np.frombuffer(bytes([0, 0, 128, 64]), np.float32)[0]
    twice, deep, sent = storage.clone(), copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))
    for other in (twice, deep, sent, storage.cpu(), storage.cpu().to(device=cuda)):
        assert other.tolist() == storage.tolist()
        assert other is not storage
    assert [s.device.type for s in (twice, deep, sent, storage.cpu())] == [cuda, cuda, cuda, "cpu"]
    storage.fill_(0)
    assert x.tolist() == [0.0, 0.0]
    storage.copy_(twice.cpu())
    assert x.tolist()[1] == 2.0
    assert storage.is_shared()
    assert ferro.UntypedStorage(4, device=cuda).tolist() == [0] * 4
    typed = x._typed_storage()
    typed[0] = 5.0
    assert (typed.tolist(), typed.is_cuda, x.tolist()) == ([5.0, 2.0], True, [5.0, 2.0])


def test_a_tensor_takes_the_whole_memory_of_another(cuda: str) -> None:
    x = ferro.arange(6.0, device=cuda)
    y = ferro.empty(0, device=cuda).set_(x.untyped_storage(), 1, (2, 2), (3, 1))
    assert (y.tolist(), y.storage_offset(), y.untyped_storage() is x.untyped_storage()) == (
        [[1.0, 2.0], [4.0, 5.0]],
        1,
        True,
    )
    y.fill_(9)
    assert x.tolist() == [0.0, 9.0, 9.0, 3.0, 9.0, 9.0]
    z = x[4:].resize_(2, 1)
    assert (z.shape, z.storage_offset(), z.untyped_storage() is x.untyped_storage()) == ((2, 1), 4, True)
    short = x[:2]
    short.resize_(5)  # the storage has room
    assert short.tolist() == [0.0, 9.0, 9.0, 3.0, 9.0]
    x.set_(ferro.ones(2, device=cuda))
    assert x.tolist() == [1.0, 1.0]


def test_gradients_lie_as_their_leaves(cuda: str) -> None:
    x = _images(cuda).requires_grad_()
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.stride() == x.stride()
    np.testing.assert_array_equal(x.grad.cpu().numpy(), 2 * x.detach().cpu().numpy())
    (y,) = ferro.autograd.grad((x * x * x).sum(), x, create_graph=True)
    y.sum().backward()
    assert x.grad.stride() == x.stride()


def test_an_elementwise_result_owns_its_memory(cuda: str) -> None:
    y = _images(cuda) + 1
    assert y._data.base is None
    assert layouts.memory_of(y._data) is y._data
    assert y.storage_offset() == 0
    assert wrap(cupy().asarray(y._data)).stride() == y.stride()


def test_a_capsule_of_memory_there_is_taken_once(cuda: str) -> None:
    x = ferro.arange(6.0, device=cuda).reshape(2, 3).T
    for take in (ferro.from_dlpack, ferro.utils.dlpack.from_dlpack, ferro.asarray):
        capsule = ferro.utils.dlpack.to_dlpack(x)
        y = take(capsule)
        assert (y.device.type, y.stride(), y.data_ptr()) == ("cuda", (1, 3), x.data_ptr())
        y[0, 1] += 1
        assert x[0, 1] == y[0, 1]
        with pytest.raises(RuntimeError, match="can be consumed only once"):
            take(capsule)
    copied = ferro.from_dlpack(ferro.utils.dlpack.to_dlpack(x), copy=True)
    assert (copied.stride(), copied.tolist()) == (x.stride(), x.tolist())
    assert copied.data_ptr() != x.data_ptr()


def test_strides_that_are_asked_for_are_those_there(cuda: str) -> None:
    for size, stride in (((4, 3, 2), (10, 0, 3)), ((2, 3), (1, 2)), ((2, 0), (5, 5))):
        x = ferro.empty_strided(size, stride, device=cuda)
        assert (x.stride(), x.device.type) == (stride, "cuda")


def test_dropout_drops_the_same_elements_backward_whatever_their_order(cuda: str) -> None:
    x = (_images(cuda) + 1).requires_grad_()
    for make in (lambda y: ferro.ones_like(y), lambda y: ferro.ones(y.shape, device=cuda)):
        x.grad = None
        y = ferro.nn.functional.dropout(x, 0.5)
        assert y.is_contiguous(memory_format=ferro.channels_last)
        y.backward(make(y))
        assert x.grad is not None
        assert ferro.equal(x.grad != 0, y != 0)


def test_memory_of_another_device_is_refused(cuda: str) -> None:
    for source in (ferro.ones(2), ferro.ones(2).untyped_storage()):
        with pytest.raises(RuntimeError, match='on device "cuda:0" to a storage on different device "cpu"'):
            ferro.ones(2, device=cuda).set_(source)
    with pytest.raises(RuntimeError, match='on device "cpu" to a storage on different device "cuda:0"'):
        ferro.ones(2).set_(ferro.ones(2, device=cuda))


@pytest.mark.parametrize("zipped", [True, False])
def test_saved_views_share_their_storage_again(cuda: str, tmp_path: Any, zipped: bool) -> None:
    x = _images(cuda)
    file = tmp_path / "x.pt"
    ferro.save({"x": x, "part": x[1:]}, file, _use_new_zipfile_serialization=zipped)
    for place in (None, "cpu", cuda):
        found = ferro.load(file, weights_only=True, map_location=place)
        assert (found["x"].device.type, found["x"].stride()) == (place or cuda, x.stride())
        assert found["part"].storage_offset() == 60
        if zipped:
            assert found["part"].untyped_storage() is found["x"].untyped_storage()
        assert ferro.equal(found["x"].cpu(), x.cpu())
    import torch

    theirs = torch.load(file, weights_only=True, map_location="cpu")
    np.testing.assert_array_equal(theirs["part"].numpy(), x[1:].cpu().numpy())
