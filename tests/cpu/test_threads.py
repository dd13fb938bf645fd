"""The worker pool, the thread budget and the products computed on it."""

import _thread
import contextvars
import gc
import os
import re
import signal
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from ferro.cpu import blas_products, products
from ferro.cpu.blas_products import gemm
from ferro.native import blas, thread_pool, threads
from tests.helpers import run_python


@pytest.fixture(autouse=True)
def _budget_restored():
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


# --- the pool --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_every_worker_runs_at_the_same_time_and_the_caller_is_number_zero(n):
    meeting = threading.Barrier(n)
    seen = {}

    def work(index):
        meeting.wait(timeout=20)
        seen[index] = threading.get_ident()

    thread_pool.run_workers(work, n)
    assert sorted(seen) == list(range(n))
    assert len(set(seen.values())) == n
    assert seen[0] == threading.get_ident()


def test_workers_are_kept_and_sleep_without_processor_time():
    thread_pool.run_workers(lambda index: None, 4)
    created = thread_pool._pool.created
    for _ in range(50):
        thread_pool.run_workers(lambda index: None, 4)
    assert thread_pool._pool.created == created
    # (Their own clocks: BLAS's threads watch for more work for a while after a product of another test.)
    clocks = [time.pthread_getcpuclockid(worker.thread.ident) for worker in thread_pool._pool.idle]
    assert len(clocks) >= 3
    before = sum(map(time.clock_gettime, clocks))
    time.sleep(0.1)
    assert sum(map(time.clock_gettime, clocks)) - before < 0.05


def test_an_idle_worker_keeps_nothing_alive():
    big = np.zeros(10)
    gone = weakref.ref(big)

    def work(index, big=big):
        return big.sum() + index

    thread_pool.run_workers(work, 3)
    del work, big
    gc.collect()
    assert gone() is None


def test_the_first_error_is_raised_after_everyone_has_returned():
    finished = []
    stopped = threading.Event()

    def work(index):
        if index == 1:
            raise ValueError("from worker 1")
        stopped.wait(timeout=20)
        finished.append(index)

    with pytest.raises(ValueError, match="from worker 1"):
        thread_pool.run_workers(work, 3, stopped.set)
    assert sorted(finished) == [0, 2]
    thread_pool.run_workers(lambda index: finished.append(index), 3)  # the pool still serves
    assert len(finished) == 5


def test_no_chunk_begins_after_an_error():
    threads.set_num_threads(2)
    begun = []

    def work(chunk):
        begun.append(chunk)
        if chunk == 3:
            raise RuntimeError("chunk 3")
        time.sleep(0.001)

    with pytest.raises(RuntimeError, match="chunk 3"):
        thread_pool.parallel_for(work, 1000)
    assert len(begun) < 20


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_inside_the_callers_part_waits_for_the_others():
    finished = []

    def work(index):
        if index == 0:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.05)
        finished.append(index)

    with pytest.raises(KeyboardInterrupt):
        thread_pool.run_workers(work, 3)
    assert sorted(finished) == [1, 2]


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_of_the_waiting_caller_waits_for_the_others():
    finished = []

    def work(index):
        if index == 1:
            time.sleep(0.02)
            _thread.interrupt_main()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # wakes it
            time.sleep(0.05)
            finished.append(index)

    with pytest.raises(KeyboardInterrupt):
        thread_pool.run_workers(work, 2)
    assert finished == [1]
    assert not thread_pool.in_worker()
    assert not thread_pool._pool.runs


def test_a_loop_inside_a_worker_runs_on_that_worker():
    threads.set_num_threads(2)
    idents = {}

    def work(chunk):
        inner = []
        assert thread_pool.in_worker()
        thread_pool.parallel_for(lambda _: inner.append(threading.get_ident()), 5)
        idents[chunk] = (threading.get_ident(), inner)

    thread_pool.parallel_for(work, 4)
    assert all(inner == [outer] * 5 for outer, inner in idents.values())
    assert not thread_pool.in_worker()


def test_runs_inside_runs_get_their_own_workers():
    meeting, met = threading.Barrier(4), []

    def inner(_index):
        meeting.wait(timeout=20)
        met.append(threading.get_ident())

    thread_pool.run_workers(lambda _: thread_pool.run_workers(inner, 2), 2)
    assert len(set(met)) == 4


def test_a_second_caller_is_served_while_the_pool_is_busy():
    threads.set_num_threads(2)
    release, entered = threading.Event(), threading.Event()

    def slow(_chunk):
        entered.set()
        release.wait(timeout=20)

    first = threading.Thread(target=thread_pool.parallel_for, args=(slow, 2))
    first.start()
    assert entered.wait(timeout=20)
    idents = []
    thread_pool.parallel_for(lambda _: idents.append(threading.get_ident()), 6)
    release.set()
    first.join(timeout=20)
    assert idents == [threading.get_ident()] * 6


def test_many_callers_at_once_each_get_all_their_chunks():
    threads.set_num_threads(4)
    results = [[] for _ in range(6)]

    def caller(mine):
        for _ in range(30):
            done = []
            thread_pool.parallel_for(done.append, 7)
            mine.append(sorted(done))

    callers = [threading.Thread(target=caller, args=(mine,)) for mine in results]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=60)
    assert all(mine == [list(range(7))] * 30 for mine in results)


def test_chunks_do_not_depend_on_the_budget():
    for n in (1, 2, 5):
        threads.set_num_threads(n)
        done = []
        thread_pool.parallel_for(done.append, 9)
        assert sorted(done) == list(range(9))


def test_workers_see_the_callers_context():
    mode = contextvars.ContextVar("mode", default="outer")
    seen = []

    def work(_index):
        seen.append((mode.get(), np.geterr()["divide"]))
        mode.set("changed inside")

    token = mode.set("set by the caller")
    with np.errstate(divide="raise"):
        contextvars.copy_context().run(thread_pool.run_workers, work, 3)
    assert seen == [("set by the caller", "raise")] * 3
    mode.reset(token)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_a_pool_of_its_own():
    code = """
import os, warnings
import numpy as np
from ferro.cpu.blas_products import gemm
from ferro.native import thread_pool, threads
warnings.simplefilter("ignore")
threads.set_num_threads(2)
a = np.arange(400.0 * 400).reshape(400, 400) / 1e5
expected = gemm(a, a)
child = os.fork()
if child == 0:
    same = np.array_equal(gemm(a, a), expected) and thread_pool._pool.created == 1
    os._exit(0 if same else 1)
print(os.waitpid(child, 0)[1], np.array_equal(gemm(a, a), expected))
"""
    assert run_python(code) == "0 True"


def test_kernels_are_shared_by_the_workers_alone():
    """Threads of Python serve backward, and what NumPy, SciPy and BLAS compute: the list may only shrink."""
    package = Path(threads.__file__).parents[1]
    pattern = re.compile(r"\b(parallel_for|run_workers)\b|\bcommon import [^\n]*\bsplit\b")
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if pattern.search(path.read_text("utf-8"))
    }
    allowed = {
        "core/parallel.py",
        "graph/planning/threads.py",
        "native/thread_pool.py",
        "cpu/kernels/common.py",
        "cpu/blas_products.py",
        "cpu/convolution.py",
        "cpu/blocks.py",
        "cpu/special.py",
        "cuda/twins.py",  # names it, to put a loop in its place
    }
    assert users <= allowed


def test_where_no_thread_can_be_started_the_caller_does_everything(monkeypatch):
    def refuse(_number):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool, "_Worker", refuse)
    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool())
    done = []
    thread_pool.run_workers(done.append, 4)
    assert done == [0, 1, 2, 3]


# --- the budget ------------------------------------------------------------------------------------------------------


def test_the_default_budget_is_the_usable_cores():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    code = "from ferro.native import threads; print(threads.get_num_threads())"
    assert int(run_python(code, FERRO_NUM_THREADS="")) == cores


def test_the_environment_sets_the_budget_and_the_limit_of_blas():
    code = """
from ferro.native import blas, threads
functions = blas._blas._functions
print(threads.get_num_threads(), functions[0]() if functions else 1)
"""
    assert run_python(code, FERRO_NUM_THREADS="1") == "1 1"


def test_a_bad_environment_is_told():
    code = """
try:
    import ferro.native.threads
except ValueError as error:
    print(error)
"""
    assert run_python(code, FERRO_NUM_THREADS="many") == "FERRO_NUM_THREADS must be a positive integer, got 'many'"


@pytest.mark.parametrize(("n", "error"), [(0, RuntimeError), (-2, RuntimeError), (2.0, TypeError), (True, TypeError)])
def test_a_bad_budget_is_told(n, error):
    with pytest.raises(error, match="set_num_threads expects"):
        threads.set_num_threads(n)


# --- the guard over BLAS ---------------------------------------------------------------------------------------------

needs_openblas = pytest.mark.skipif(blas._blas._functions is None, reason="NumPy here has another BLAS")


@needs_openblas
def test_the_guard_nests_and_restores():
    get = blas._blas._functions[0]
    threads.set_num_threads(2)
    before = get()  # 1 where there is only one core
    with blas.blas_single():
        with blas.blas_single():
            assert get() == 1
        assert get() == 1
        threads.set_num_threads(1)
        threads.set_num_threads(2)
        assert get() == 1
    assert get() == before


@needs_openblas
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(80, 80, 80), (32, 128, 128), (8, 256, 256), (256, 8, 256), (2, 512, 512)])
def test_small_products_have_the_same_bits_for_any_number_of_threads_of_blas(m, k, n, dtype):
    """Those that `mm` gives to BLAS without the guard; the first matrix may lie either way."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(k, n)).astype(dtype)
    get, put, _ = blas._blas._functions
    before, found = get(), []
    try:
        for count in (1, 2, 5):
            put(count)
            rng = np.random.default_rng(1)
            found.append(
                [
                    products.mm(x, y)
                    for x in (rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, m)).astype(dtype).T)
                ]
            )
    finally:
        put(before)
    for some in found[1:]:
        assert [a.tobytes() for a in some] == [a.tobytes() for a in found[0]]


@pytest.mark.skipif(not blas._blas.has_small_products(), reason="BLAS here has no kernels for small products")
def test_small_products_are_those_of_blas_where_it_has_kernels_for_them(monkeypatch):
    def refuse(*args):
        raise AssertionError("a kernel of ferro")

    monkeypatch.setattr(products, "gemm", refuse)
    x = np.arange(80.0 * 80).reshape(80, 80)
    np.testing.assert_array_equal(products.mm(x, x.T.copy()), np.einsum("ij,kj->ik", x, x))
    for a, b in ((x, x.T), (np.ones((81, 81)), np.ones((81, 81)))):  # transposed, or too large
        with pytest.raises(AssertionError, match="a kernel of ferro"):
            products.mm(a, b)


@pytest.mark.parametrize(("core", "has"), [("SkylakeX", True), ("Cooperlake", True), ("Haswell", False), ("", False)])
def test_which_processors_have_kernels_for_small_products(core, has, monkeypatch):
    guard = blas._Blas(np, None)
    monkeypatch.setattr(guard, "_functions", (lambda: 1, lambda n: None, core))
    assert guard.has_small_products() is has
    monkeypatch.setattr(guard, "_functions", None)
    assert guard.has_small_products() is False


@needs_openblas
def test_the_guard_is_shared_by_all_threads():
    get = blas._blas._functions[0]
    threads.set_num_threads(2)
    before = get()  # 1 where there is only one core
    wrong = []

    def user():
        for _ in range(500):
            with blas.blas_single():
                if get() != 1:
                    wrong.append(get())

    users = [threading.Thread(target=user) for _ in range(4)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join(timeout=60)
    assert not wrong
    assert get() == before


@needs_openblas
def test_the_guard_restores_after_an_error():
    get = blas._blas._functions[0]
    threads.set_num_threads(2)
    before = get()  # 1 where there is only one core
    with pytest.raises(ZeroDivisionError), blas.blas_single():
        raise ZeroDivisionError
    assert get() == before


# --- products --------------------------------------------------------------------------------------------------------


def _numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


SHAPES = [
    ((3, 4), (4, 5)),
    ((64, 64), (64, 64)),
    ((90, 80), (80, 70)),
    ((300, 301), (301, 299)),
    ((515, 400), (400, 390)),
    ((1, 3000), (3000, 2000)),
    ((2500, 2100), (2100, 1)),
    ((17, 40000), (40000, 19)),
    ((3000,), (3000, 2001)),
    ((2001, 3000), (3000,)),
    ((20000,), (20000,)),
    ((7, 33, 64), (64, 500)),
    ((40, 60, 50), (40, 50, 70)),
    ((6, 1, 80, 70), (9, 70, 90)),
    ((2, 300, 200), (2, 200, 310)),
    ((3, 5, 100, 64), (64, 100)),
    ((100, 64), (5, 64, 900)),
    ((0, 5), (5, 6)),
    ((4, 0), (0, 6)),
    ((0, 3, 4), (4, 5)),
    ((2, 0, 4), (4, 5)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES, ids=str)
def test_gemm_is_matmul_for_any_number_of_threads(a_shape, b_shape, dtype):
    a, b = _numbers(a_shape, dtype), _numbers(b_shape, dtype, 1)
    results = []
    for n in (1, 2, 4, 8):
        threads.set_num_threads(n)
        results.append(gemm(a, b))
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    with blas.blas_single():
        expected = np.matmul(a.astype(wide), b.astype(wide))
    assert results[0].dtype == dtype
    assert results[0].shape == expected.shape
    assert all(np.array_equal(results[0], other) for other in results[1:])
    tolerance = 20 * np.finfo(dtype).eps * a_shape[-1] ** 0.5 * 3
    np.testing.assert_allclose(results[0], expected, rtol=tolerance, atol=tolerance * 10)


def _layouts(x):
    """The same numbers lying differently in memory."""
    yield np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    padded = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    padded[..., :-3] = x
    yield padded[..., :-3]
    yield x[..., ::-1].copy()[..., ::-1]
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    spread[..., ::2] = x
    yield spread[..., ::2]


@pytest.mark.parametrize("shapes", [((300, 250), (250, 330)), ((20, 90, 80), (20, 80, 70))], ids=str)
def test_gemm_takes_any_layout(shapes):
    a, b = _numbers(shapes[0], np.float32), _numbers(shapes[1], np.float32, 1)
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    for other_a in _layouts(a):
        np.testing.assert_allclose(gemm(other_a, b), expected, rtol=1e-4, atol=1e-4)
    for other_b in _layouts(b):
        np.testing.assert_allclose(gemm(a, other_b), expected, rtol=1e-4, atol=1e-4)


def test_transposed_operands_are_not_copied():
    a = np.zeros((5, 30, 40), np.float32)
    for view in (a, a.swapaxes(1, 2), a[:, 1:, 2:], a[0].T[3:], np.broadcast_to(a[0], (7, 30, 40)), a[:, :, :1]):
        assert blas_products._operand(view, view.dtype) is view
    assert blas_products._operand(a[..., ::2], a.dtype) is not a


def test_gemm_of_a_matrix_with_its_transpose_is_exact_for_any_number_of_threads():
    a = _numbers((400, 90), np.float64)  # NumPy recognises this product and calls syrk
    results = []
    for n in (1, 2, 4):
        threads.set_num_threads(n)
        results += [gemm(a, a.T), gemm(a.T, a)]
    assert all(np.array_equal(results[i], results[i % 2]) for i in range(6))
    np.testing.assert_allclose(results[0], np.einsum("ik,jk->ij", a, a), rtol=1e-12, atol=1e-12)


def test_gemm_of_other_dtypes_and_mixed_dtypes_is_matmul():
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(gemm(a, b), a @ b)
    wide = np.tile(a, (200, 200)) % 7
    np.testing.assert_array_equal(gemm(wide, wide.T), wide @ wide.T)
    mixed = gemm(_numbers((300, 200), np.float32), _numbers((200, 300), np.float64, 1))
    assert mixed.dtype == np.float64
    np.testing.assert_allclose(mixed, _numbers((300, 200), np.float32) @ _numbers((200, 300), np.float64, 1))


@pytest.mark.parametrize("shapes", [((2, 3), (4, 5)), ((300, 200), (300, 200)), ((4, 30, 30), (3, 30, 30))], ids=str)
def test_gemm_of_clashing_shapes_raises(shapes):
    with pytest.raises(ValueError, match=r"shapes|mismatch|broadcast"):
        gemm(np.zeros(shapes[0]), np.zeros(shapes[1]))


def test_gemm_passes_on_infinities_and_nans():
    a, b = _numbers((300, 300), np.float64), np.eye(300)
    a[5, 7], a[8, 9] = np.inf, np.nan
    with np.errstate(invalid="ignore"):  # reaches the workers with the caller's context
        result = gemm(a, b)
    assert np.isnan(result[8]).all()
    assert np.isnan(result[5]).sum() == 299
    assert result[5, 7] == np.inf


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_on_entering_the_guard_leaves_nobody_inside(monkeypatch):
    limit = [2]
    interrupts = [KeyboardInterrupt]

    def put(n):
        if interrupts:
            raise interrupts.pop()
        limit[0] = n

    guard = blas._Blas(np, None)
    monkeypatch.setattr(guard, "_functions", (lambda: limit[0], put, ""), raising=False)
    with pytest.raises(KeyboardInterrupt), guard:
        pass
    assert guard._users == 0
    with guard:
        assert limit == [1]
    assert limit == [2]
