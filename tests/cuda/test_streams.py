"""Streams, events, memory and graphs of the device: the order of accesses, what is held, and work that is repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.core import mode
from ferro.cuda import driver, following, pool
from tests.cuda import stand_in_device
from tests.cuda.conftest import REAL

pytestmark = pytest.mark.usefixtures("cuda")
stand_in_only = pytest.mark.skipif(REAL, reason="the stand-in alone sees the order of accesses")


@pytest.fixture
def watch() -> Iterator[Any]:
    """Looks at the order of accesses, and at the end whether memory was given back too early."""
    if REAL:
        yield None
        return
    with stand_in_device.watched() as device:
        yield device
        assert device.wrong == []


def data(seed: int = 0) -> Any:
    return ferro.tensor(np.random.default_rng(seed).standard_normal((6, 6))).to("cuda")


def beside(stream: Any, work: Any) -> Any:
    """What work gives in a stream that waits for the current one before, and which waits for it afterwards."""
    stream.wait_stream(ferro.cuda.current_stream())
    with ferro.cuda.stream(stream):
        found = work()
    ferro.cuda.current_stream().wait_stream(stream)
    return found


def test_streams_are_chosen_and_asked() -> None:
    cuda = ferro.cuda
    default, side = cuda.default_stream(), cuda.Stream(priority=-1)
    assert (default.cuda_stream, default == cuda.current_stream(), side == default) == (0, True, False)
    assert (side.priority, side.device) == (-1, ferro.device("cuda", 0))
    assert repr(side) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={side.cuda_stream:#x}>"
    with cuda.stream(side):
        assert cuda.current_stream() == side
        with cuda.stream(default), cuda.stream(None):
            assert cuda.current_stream() == default
        assert cuda.current_stream() == side
    assert cuda.current_stream() == default
    with side as entered:
        assert entered is side is not None
        assert cuda.current_stream() == side
    found = []
    cuda.set_stream(side)
    thread = threading.Thread(target=lambda: found.append(cuda.current_stream()))
    thread.start()
    thread.join(60)
    assert (cuda.current_stream(), found) == (side, [default])  # each thread has its own
    cuda.set_stream(default)
    assert cuda.current_stream() == default
    assert mode.MODE.get() is None  # (nothing is in force any longer)
    assert cuda.ExternalStream(side.cuda_stream) == side
    assert len({side, cuda.ExternalStream(side.cuda_stream), default}) == 2
    side.synchronize()
    assert side.query()


def test_events_are_marks_and_measure() -> None:
    cuda = ferro.cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert start.query()
    with pytest.raises(ValueError, match="Both events must be recorded"):
        start.elapsed_time(end)
    start.record()
    assert (data() @ data()).shape == (6, 6)
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(cuda.Event())
    with pytest.raises(NotImplementedError, match="interprocess"):
        cuda.Event(interprocess=True)
    assert repr(start) == f"<torch.cuda.Event {start.cuda_event:#x}>"


@stand_in_only
def test_an_access_without_an_order_is_found(watch: Any) -> None:
    side, x = ferro.cuda.Stream(), data()
    with (
        ferro.cuda.stream(side),
        pytest.raises(stand_in_device.Race, match=r"reads memory that stream 0x0 has written"),
    ):
        assert x + 1 is None
    y = beside(side, lambda: x + 1)
    assert y.tolist() == (x + 1).tolist()
    with ferro.cuda.stream(side):
        z = y * 2
    with pytest.raises(stand_in_device.Race, match="writes memory that stream"):
        y.mul_(3)
    ferro.cuda.current_stream().wait_event(side.record_event())
    y.mul_(3)
    assert z.shape == y.shape
    y.record_stream(ferro.cuda.current_stream())  # (it was made in the other one)
    ferro.cuda.synchronize()


@pytest.mark.parametrize("place", ["outside", "in the stream", "in another stream"])
def test_backward_runs_in_the_streams_of_the_forward(watch: Any, place: str) -> None:
    """The same bits as in one stream, wherever backward is called; nothing is read before it is there."""
    a, b, other = (ferro.cuda.Stream() for _ in range(3))
    assert _trained(beside, a, b, {"in the stream": a, "in another stream": other}.get(place)) == _trained(
        lambda stream, work: work(), a, b, None
    )


def _trained(within: Any, a: Any, b: Any, of_backward: Any) -> tuple:
    """The loss and the gradients of two branches in two streams, the second time added to the first."""
    x, w = data(1).requires_grad_(), data(2).requires_grad_()

    def loss() -> Any:
        left = within(a, lambda: (x @ w).tanh())
        right = within(b, lambda: (x * w).sigmoid() @ x)
        return (left * right + x).square().sum()

    for _ in range(2):
        found = loss()
        if of_backward is None:
            found.backward()
        else:
            beside(of_backward, found.backward)
    assert x.grad is not None
    assert w.grad is not None
    return found.item(), x.grad.tolist(), w.grad.tolist()


@stand_in_only
def test_formulas_run_where_the_forward_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    side, seen = ferro.cuda.Stream(), []

    class Noted(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ferro.cuda.current_stream().cuda_stream)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ferro.cuda.current_stream().cuda_stream)
            return g * 2

    x = data().requires_grad_()
    y = beside(side, lambda: Noted.apply(x))
    y.sum().backward()
    assert seen == [side.cuda_stream, side.cuda_stream]
    assert ferro.cuda.current_stream() == ferro.cuda.default_stream()


def _noting(seen: dict, name: str) -> Any:
    """A function that notes the clock of the stream in which its backward runs, and how far that stream itself is."""

    class Noted(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            found = g * 2
            stream = stand_in_device.current()
            seen[name] = stream.ptr, dict(stream.clock)
            return found

    return Noted.apply


@stand_in_only
@pytest.mark.parametrize("place", ["the default stream", "another stream"])
def test_branches_in_two_streams_overlap_in_backward(watch: Any, place: str) -> None:
    """Neither branch waits for what the other does in backward; without streams the bits are the same."""
    a, b, other = (ferro.cuda.Stream() for _ in range(3))
    seen: dict[str, tuple] = {}
    left, right = _noting(seen, "left"), _noting(seen, "right")

    def loss(x: Any, within: Any) -> Any:
        y = within(a, lambda: left(left_long(x)))
        z = within(b, lambda: right(left_long(x * 3)))
        return (y + z).sum()

    def left_long(x: Any) -> Any:
        return (x.tanh() * 2).exp()

    x = data(3).requires_grad_()
    found = loss(x, beside)
    before = a._stream.clock.get(a._stream.ptr, 0), b._stream.clock.get(b._stream.ptr, 0)
    backward = found.backward if place == "the default stream" else lambda: beside(other, found.backward)
    backward()
    (first, clock_a), (second, clock_b) = seen["left"], seen["right"]
    assert (first, second) == (a._stream.ptr, b._stream.ptr)
    assert clock_a.get(second, 0) <= before[1]
    assert clock_b.get(first, 0) <= before[0]
    assert clock_a[first] > before[0]
    plain = data(3).requires_grad_()
    loss(plain, lambda stream, work: work()).backward()
    assert x.grad is not None
    assert plain.grad is not None
    assert x.grad.tolist() == plain.grad.tolist()


@stand_in_only
def test_hooks_of_a_branch_are_waited_for(watch: Any) -> None:
    """A hook may change its gradient in the caller's stream: the branch behind it waits for that."""
    a, b = ferro.cuda.Stream(), ferro.cuda.Stream()
    x = data(4).requires_grad_()
    y = beside(a, lambda: x.tanh())
    y.register_hook(lambda g: g.mul_(3))
    z = beside(b, lambda: (x * 2).sigmoid())
    (y * 1.5 + z).sum().backward()
    want = data(4).requires_grad_()
    (want.tanh() * 4.5 + (want * 2).sigmoid()).sum().backward()
    assert x.grad is not None
    assert want.grad is not None
    np.testing.assert_allclose(x.grad.tolist(), want.grad.tolist(), rtol=1e-12)


@stand_in_only
def test_an_error_of_the_device_is_raised_where_backward_was_called(watch: Any) -> None:
    """In the thread that called backward, with the operation and its line; the streams are those of before."""
    side, cupy = ferro.cuda.Stream(), driver.cupy()
    x = data(6).requires_grad_()
    loss = beside(side, lambda: x.tanh()).sum()

    def fails(size: int) -> Any:
        if cupy.cuda.get_current_stream().ptr == side._stream.ptr:
            raise cupy.cuda.memory.OutOfMemoryError("no more memory in this stream")
        return pool.allocate(None, size)

    caught: list[Any] = []

    def work() -> None:
        with cupy.cuda.using_allocator(fails):
            try:
                loss.backward()
            except MemoryError as error:
                caught.append((threading.get_ident(), error))
        assert ferro.cuda.current_stream() == ferro.cuda.default_stream()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    ((where, error),) = caught
    assert where == thread.ident
    assert any("'tanh'" in note and "test_streams.py" in note for note in error.__notes__), error.__notes__


@stand_in_only
def test_gradients_given_out_live_until_the_caller_has_read_them(watch: Any) -> None:
    """What a branch made goes back to its stream only when the caller has read it, though its tensors are gone."""
    a = ferro.cuda.Stream()
    x = data(5).requires_grad_()
    for _ in range(4):
        y = beside(a, lambda: (x.exp() * x).sin())
        (g,) = ferro.autograd.grad(y.sum(), x)
        kept = g * 2
        del g, y
        assert beside(a, lambda: (x.detach() * 5).sum()).item() == (x.detach() * 5).sum().item()
        assert kept.isfinite().all()


@stand_in_only
def test_a_backward_that_waits_for_nothing_is_found(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of accesses is looked at in backward: without its events the test above fails."""
    side, x = ferro.cuda.Stream(), data().requires_grad_()
    loss = beside(side, lambda: (x @ x).tanh()).sum()
    monkeypatch.setattr(stand_in_device.Stream, "wait_event", lambda self, event: None)
    with pytest.raises(stand_in_device.Race, match="does not wait for it"):
        loss.backward()
    watch.wrong.clear()


@stand_in_only
def test_second_derivatives_keep_the_order(watch: Any) -> None:
    side, x = ferro.cuda.Stream(), data().requires_grad_()
    y = beside(side, lambda: (x @ x).tanh()).sum()
    (g,) = ferro.autograd.grad(y, x, create_graph=True)
    (h,) = ferro.autograd.grad(g.square().sum(), x)
    z = x.detach().clone().requires_grad_()
    (k,) = ferro.autograd.grad((z @ z).tanh().sum(), z, create_graph=True)
    (want,) = ferro.autograd.grad(k.square().sum(), z)
    assert h.tolist() == want.tolist()


# --- memory ------------------------------------------------------------------------------------------------------------


@stand_in_only
def test_memory_that_another_stream_reads_is_kept_until_it_has() -> None:
    side = ferro.cuda.Stream()
    for recorded in (False, True):
        pool._LATER.clear()
        with stand_in_device.watched() as device:
            x = data()
            side.wait_stream(ferro.cuda.current_stream())
            with ferro.cuda.stream(side):
                y = x @ x
            if recorded:
                x.record_stream(side)
                x.record_stream(side)
                assert x.tolist() == data().tolist()
            del x
            data()  # (takes memory)
            assert len(device.wrong) == (0 if recorded else 1)
            assert recorded or "was given back while stream" in device.wrong[0]
            assert len(pool._LATER) == (2 if recorded else 0)
            side.synchronize()
            data()
            assert len(pool._LATER) == 0
            assert len(device.wrong) == (0 if recorded else 1)
            assert y.shape == (6, 6)


def test_peaks_are_kept_and_reset(watch: Any) -> None:
    cuda = ferro.cuda
    kept = ferro.zeros(1000, device="cuda", dtype=ferro.float64)
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    assert cuda.max_memory_allocated() == before >= 8000
    more = kept + 1
    assert cuda.memory_allocated() >= before + 8000
    del more
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() >= before + 8000
    assert cuda.max_memory_reserved() >= cuda.max_memory_allocated()
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before
    del kept


@stand_in_only
def test_too_little_memory_says_where_it_is(watch: Any) -> None:
    x = ferro.ones(1000, device="cuda", dtype=ferro.float64, requires_grad=True)
    held = x.exp()
    cuda = ferro.cuda
    used = cuda.memory_allocated()
    stand_in_device.POOL.limit = used + 100
    try:
        with pytest.raises(cuda.OutOfMemoryError) as error:
            assert held * held is None
    finally:
        stand_in_device.POOL.limit = None
    text = str(error.value)
    assert f"CUDA out of memory. Tried to allocate 8,000 bytes: {used:,} are in use" in text
    assert "8,000 bytes: ExpBackward0, " in text
    assert "held = x.exp()" in text
    assert "ExpBackward0" in cuda.memory_summary()
    assert "ExpBackward0" not in cuda.memory_summary(abbreviated=True)
    with pytest.raises(ValueError, match="Invalid fraction value: 2"):
        cuda.set_per_process_memory_fraction(2)


# --- copies ------------------------------------------------------------------------------------------------------------


def test_pinned_tensors_are_copied_while_the_program_goes_on(watch: Any) -> None:
    x = ferro.arange(6.0).reshape(2, 3).requires_grad_()
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert pinned.detach().pin_memory()._data is pinned._data
    held = len(pool._LATER)
    y = pinned.to("cuda", non_blocking=True)
    z = pinned.cuda(non_blocking=True)
    assert len(pool._LATER) == held + 2
    assert (y.tolist(), z.tolist(), y.is_pinned()) == (x.tolist(), x.tolist(), False)
    (y * y).sum().backward()
    assert x.grad is not None
    assert (x.grad.device.type, x.grad.tolist()) == ("cpu", (2 * x).tolist())
    for plain in (x.detach(), pinned.detach().T):  # (one that is not pinned, and one that is not contiguous)
        assert plain.to("cuda", non_blocking=True).tolist() == plain.tolist()
    assert len(pool._LATER) <= held + 2
    assert ferro.zeros(0).pin_memory().to("cuda", non_blocking=True).shape == (0,)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        y.pin_memory()


def test_a_loader_gives_pinned_batches() -> None:
    samples = [{"x": ferro.ones(3) * i, "name": f"n{i}", "pair": (i, float(i))} for i in range(4)]
    loader = ferro.utils.data.DataLoader(samples, batch_size=2, pin_memory=True)
    batches = list(loader)
    assert [b["x"].is_pinned() and b["pair"][0].is_pinned() for b in batches] == [True, True]
    assert [b["name"] for b in batches] == [["n0", "n1"], ["n2", "n3"]]
    assert batches[1]["x"].to("cuda", non_blocking=True).tolist() == [[2.0] * 3, [3.0] * 3]


@stand_in_only
def test_batches_of_a_loader_are_copied_in_a_stream_of_their_own(watch: Any) -> None:
    """The copy waits for nothing that the current stream was given; what reads the batch waits for the copy."""
    samples = [ferro.full((3,), float(i)) for i in range(6)]
    w = ferro.ones(3, device="cuda")
    current = stand_in_device.current()
    streams, found = set(), []
    for batch in ferro.utils.data.DataLoader(samples, batch_size=2, pin_memory=True):
        before = dict(current.clock)
        x = batch.to("cuda", non_blocking=True)
        written = stand_in_device.DEVICE.memory[x._data.near.__array_interface__["data"][0]].written
        assert written is not None
        stream = stand_in_device.stream_at(written[0])
        streams.add(stream.ptr)
        assert stream.clock.get(current.ptr, 0) < before[current.ptr]
        w = w * x.sum()
        found.append(x)
    assert len(streams) == 1
    assert 0 not in streams
    side = ferro.cuda.Stream()
    with ferro.cuda.stream(side):  # (the copy is ordered with the stream that asks for it, and with no other)
        y = samples[1].pin_memory().to("cuda", non_blocking=True) * 2
    with pytest.raises(stand_in_device.Race, match="and does not wait for it"):
        y.add_(1)
    ferro.cuda.synchronize()
    assert [x.tolist() for x in found] == [[[2.0 * i] * 3, [2.0 * i + 1] * 3] for i in range(3)]
    assert (w.tolist(), y.tolist()) == ([3 * 15 * 27.0] * 3, [2.0] * 3)


class Foreign:
    """An array of another library, in the memory of the device."""

    def __init__(self, tensor: Any, names: tuple) -> None:
        for name in names:
            setattr(self, name, getattr(tensor, name))


class WithCapsule(Foreign):
    """One with DLPack."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._tensor.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def test_memory_is_shared_with_other_libraries() -> None:
    x = data()
    assert tuple(map(int, x.__dlpack_device__())) == (2, 0)
    for y in (
        ferro.from_dlpack(WithCapsule(x)),
        ferro.as_tensor(Foreign(x, ("__cuda_array_interface__",))),
        ferro.as_tensor(Foreign(x.T, ("__cuda_array_interface__",)), device="cuda").T,
    ):
        assert y.device.type == "cuda"
        y[0, 0] = 5.0
        assert x[0, 0].item() == 5.0
        x[0, 0] = 1.0
        assert y.tolist() == x.tolist()
    assert ferro.from_dlpack(WithCapsule(x), copy=True).add_(1).tolist() != x.tolist()
    assert ferro.as_tensor(Foreign(x, ("__cuda_array_interface__",)), dtype=ferro.float32).dtype is ferro.float32
    for attribute in (lambda t: t.__dlpack__(), lambda t: t.__cuda_array_interface__):
        with pytest.raises((BufferError, RuntimeError), match="require"):
            attribute(x.clone().requires_grad_())
    with pytest.raises(AttributeError, match="on non-CUDA tensor type"):
        ferro.ones(1).__cuda_array_interface__
    assert not hasattr(ferro.ones(1), "__cuda_array_interface__")


def test_arrays_of_the_processor_and_of_the_device_are_not_taken_for_each_other() -> None:
    torch = pytest.importorskip("torch")
    for theirs in (np.arange(3.0), torch.arange(3.0, dtype=torch.float64)):
        here, far = ferro.from_dlpack(theirs), ferro.from_dlpack(theirs, device="cuda")
        assert (here.device.type, far.device.type) == ("cpu", "cuda")
        theirs[0] = 7.0
        assert (here.tolist(), far.tolist()) == ([7, 1, 2], [0, 1, 2])
        with pytest.raises(BufferError, match="what lies on cpu comes to cuda by a copy, but copy=False"):
            ferro.from_dlpack(theirs, device="cuda", copy=False)
    x = data()
    near = ferro.from_dlpack(WithCapsule(x), device="cpu")
    assert (near.device.type, near.tolist()) == ("cpu", x.tolist())
    for take in (np.from_dlpack, *(() if torch.cuda.is_available() else (torch.from_dlpack,))):
        with pytest.raises((BufferError, RuntimeError, AssertionError), match=r"(?i)device|cuda"):
            take(x)
    for take in (np.asarray, np.array, torch.as_tensor):
        with pytest.raises((TypeError, RuntimeError), match="cuda"):
            take(x)


# --- graphs ------------------------------------------------------------------------------------------------------------


def test_recorded_work_is_repeated_on_new_numbers() -> None:
    cuda = ferro.cuda
    x, w = data(1), data(2)
    (x @ w).tanh()  # (what is made once is made)
    recorded = cuda.CUDAGraph()
    with cuda.graph(recorded):
        assert cuda.is_current_stream_capturing()
        y = (x @ w).tanh()
        y.add_(1)
    assert not cuda.is_current_stream_capturing()
    for seed in (3, 4):
        x.copy_(data(seed))
        recorded.replay()
        assert y.tolist() == ((data(seed) @ w).tanh() + 1).tolist()
    other = cuda.CUDAGraph()
    with cuda.graph(other, pool=recorded.pool()):
        z = y * 2
    other.replay()
    assert z.tolist() == (y * 2).tolist()
    recorded.reset()
    for call in (recorded.replay, recorded.pool):
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            call()
    with pytest.raises(RuntimeError, match="non-default stream"):
        recorded.capture_begin()
    with pytest.raises(RuntimeError, match=r"capture_end\(\) called before capture_begin\(\)"):
        recorded.capture_end()
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.graph(other):
        pass
    assert cuda.current_stream() == cuda.default_stream()


def test_a_module_by_graphs_trains_as_without(watch: Any) -> None:
    losses = []
    for graphed in (False, True):
        ferro.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double().to("cuda")
        optimizer = ferro.optim.SGD(model.parameters(), lr=0.1)
        if graphed:
            made = ferro.cuda.make_graphed_callables(model, (data(9),))
            assert made is model
        found = []
        for step in range(3):
            optimizer.zero_grad()
            loss = model(data(step)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
        model.eval()
        assert model(data(1)).shape == (6, 1)
    assert losses[0] == losses[1]


def test_a_function_by_graphs_has_its_gradients() -> None:
    plain = lambda x, y: ((x @ y).tanh(), x * 2)  # noqa: E731
    x, y = data(1).requires_grad_(), data(2)
    made = ferro.cuda.make_graphed_callables(plain, (x, y))
    for seed in (3, 4):
        a, b = data(seed).requires_grad_(), data(seed + 1)
        c = a.detach().clone().requires_grad_()
        got, want = made(a, b), plain(c, b)
        assert [t.tolist() for t in got] == [t.tolist() for t in want]
        for found, leaf in ((got, a), (want, c)):
            (found[0] * 3 + found[1]).sum().backward()
            assert leaf.grad is not None
        assert a.grad.tolist() == c.grad.tolist()  # type: ignore[union-attr]


@stand_in_only
def test_outside_of_streams_nothing_is_noted() -> None:
    x = data().requires_grad_()
    assert (x * 2)._node not in following._STREAMS
    y = beside(ferro.cuda.Stream(), lambda: x * 2)
    assert y._node in following._STREAMS
