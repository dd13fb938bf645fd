"""Hostile cases, each in a new process: a machine that refuses something, and a process that ends or forks while busy."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.child import Options

ROOT = Path(__file__).resolve().parents[2]
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


def computes() -> None:
    """Import ferro and compute: forward, backward, kernels of every kind, on several threads; the numbers are right."""
    import ferro

    x = ferro.from_numpy(np.linspace(-2, 2, 300 * 300, dtype="f4").reshape(300, 300)).requires_grad_()
    for _ in range(2):
        y = ferro.nn.functional.layer_norm(ferro.nn.functional.relu(x @ x), (300,))
        loss = ferro.nn.functional.cross_entropy(y, ferro.zeros(300, dtype=ferro.int64)) + (x.sin() * x).sum()
        x.grad = None
        ferro.autograd.backward(loss, num_threads=4)
    a = x.detach().numpy()
    z = ferro.from_numpy(a).requires_grad_()
    (z.sin() * z).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), np.sin(a) + a * np.cos(a), rtol=1e-4, atol=1e-5)
    small = ferro.tensor([1.0, 2.0], requires_grad=True)
    (small * small).sum().backward()
    assert small.grad.tolist() == [2.0, 4.0]


def without_home() -> None:
    """No home, no cache of the user's, and nothing that can be written."""
    for name in ("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME"):
        os.environ.pop(name, None)
    os.environ["HOME"] = "/nonexistent"
    computes()


def without_temporary() -> None:
    """No folder for temporary files."""
    os.environ["TMPDIR"] = "/nonexistent"
    tempfile.tempdir = "/nonexistent"
    computes()


def with_cache(prepare: Callable[[Path], None]) -> Callable[[], None]:
    def case() -> None:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder))
            os.environ["FERRO_CACHE_DIR"] = folder
            os.environ["FERRO_KERNELS"] = ""  # the first process of a user: NumPy answers
            computes()
            Path(folder).chmod(0o700)

    return case


def one_core() -> None:
    """One core only."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    computes()


def no_threads() -> None:
    """Threads cannot be started."""
    import _thread

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("can't start new thread")

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        if hasattr(_thread, name):
            setattr(_thread, name, refuse)
            setattr(threading, f"_{name}", refuse)
    computes()


def few_addresses() -> None:
    """Too large arrays are refused where addresses are limited; what is small goes on, before and after."""
    computes()
    import ferro

    x = ferro.ones(1024, 1024).requires_grad_()  # 4 MB

    def step() -> ferro.Tensor:
        y = x.exp() * x
        (y.sin() + y).sum().backward()
        return y

    step()  # where kernels are waited for, the compiler needs addresses, too
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    refused = 0
    kept = []
    for _ in range(40):
        try:
            kept.append(step())
        except MemoryError:
            refused += 1
    assert refused > 10
    kept.clear()
    x.grad = None
    small = ferro.tensor([1.0, 2.0], requires_grad=True)
    (small * small).sum().backward()
    assert small.grad.tolist() == [2.0, 4.0]


def no_code() -> None:
    """Memory for machine code is refused, as SELinux and systemd's MemoryDenyWriteExecute do."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
        print("the kernel of this machine has no PR_SET_MDWE: mprotect is refused by seccomp instead")
        refuse_exec(libc)
    os.environ["FERRO_KERNELS"] = ""
    computes()


def refuse_exec(libc: Any) -> None:
    """A filter of system calls: mprotect with PROT_EXEC is answered by EACCES."""

    class Step(ctypes.Structure):
        _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step)))

    load, equal, has, give = 0x20, 0x15, 0x45, 0x06
    steps = (Step * 6)(
        Step(load, 0, 0, 0),  # the number of the call
        Step(equal, 0, 3, 10),  # mprotect
        Step(load, 0, 0, 32),  # its third argument
        Step(has, 0, 1, 4),  # PROT_EXEC
        Step(give, 0, 0, 0x00050000 | 13),  # EACCES
        Step(give, 0, 0, 0x7FFF0000),  # allowed
    )
    program = Program(6, steps)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP


# -- ends, forks, signals -----------------------------------------------------------------------------------------------


def busy() -> Callable[[], None]:
    """What keeps a thread busy with backward for ever."""
    import ferro

    def work() -> None:
        x = ferro.ones(200, 200).requires_grad_()
        while True:
            ferro.autograd.backward((x.exp() @ x).softmax(1).sum(), num_threads=2)

    return work


def started(n: int) -> None:
    """Start busy threads that the end of the process does not wait for, and let them come to work."""
    work = busy()
    for _ in range(n):
        threading.Thread(target=work, daemon=True).start()
    computes()


def ends_busy() -> None:
    """The interpreter ends while threads run backward."""
    started(3)


def ends_in_hook() -> None:
    """The interpreter ends inside a hook of backward."""
    import ferro

    x = ferro.ones(3).requires_grad_()
    x.register_hook(lambda g: sys.exit(0))
    (x * 2).sum().backward()


def ends_with_finalisers() -> None:
    """Objects that compute when they are taken away, at the end of the interpreter too."""
    import ferro

    class Last:
        def __init__(self) -> None:
            self.x = ferro.ones(3).requires_grad_()
            self.me = self

        def __del__(self) -> None:
            (self.x.sin() * 2).sum().backward()
            Last.again = self.x.grad  # type: ignore[attr-defined]

    globals()["kept"] = [Last() for _ in range(20)]
    Last()
    gc.collect()


def resurrected() -> None:
    """Tensors come back to life in finalisers, in the middle of backward."""
    import ferro

    back: list = []
    gc.collect()
    gc.freeze()  # 200 collections follow

    class Phoenix(ferro.Tensor):
        __slots__ = ()

        def __del__(self) -> None:
            back.append(self)

    for _ in range(200):
        x = ferro.ones(3).requires_grad_()
        x.__class__ = Phoenix
        y = (x.sin() * x).sum()
        y.__class__ = Phoenix
        del x
        y.backward()
        del y
        gc.collect()
    assert back
    for t in back[:]:  # (what is computed from them comes back, too)
        assert np.isfinite((t.detach() * 2).sum().item())
    back.clear()


def forks() -> None:
    """Children of a busy process compute and end."""
    started(2)
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(30)
                computes()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for child in children:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"a forked child ended with {status}"


def loads() -> None:
    """Workers of a DataLoader, forked from a busy process, compute."""
    import ferro
    from ferro.utils.data import DataLoader, Dataset

    class Computed(Dataset):
        def __len__(self) -> int:
            return 12

        def __getitem__(self, k: int) -> Any:
            x = ferro.ones(4).requires_grad_()
            (x * k).sum().backward()
            return x.grad

    started(2)
    found = [batch.sum().item() for batch in DataLoader(Computed(), batch_size=3, num_workers=2)]
    assert sum(found) == 4 * sum(range(12))


def signalled() -> None:
    """A handler that runs backward comes again and again while the program runs backward."""
    import ferro

    x, times = ferro.ones(50).requires_grad_(), []

    def handler(number: int, frame: Any) -> None:
        y = ferro.ones(50).requires_grad_()
        (y.sin() * x).sum().backward()
        times.append(y.grad[0].item())

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    want = np.cos(1.0) - np.sin(1.0)
    try:
        while len(times) < 100:
            z = ferro.ones(50).requires_grad_()
            (z.sin() + z.cos()).sum().backward()
            np.testing.assert_allclose(z.grad.numpy(), want, rtol=1e-5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    np.testing.assert_allclose(times, np.cos(1.0), rtol=1e-5)


def reloaded() -> None:
    """Every module of ferro.cpu is loaded again, alone and after all others; ferro computes as before."""
    computes()
    names = sorted(name for name in sys.modules if name == "ferro.cpu" or name.startswith("ferro.cpu."))
    assert len(names) > 30, names
    for some in (*[[name] for name in names], names):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                for name in some:
                    importlib.reload(sys.modules[name])
                gc.collect()
                computes()
                code = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"after importlib.reload of {', '.join(some)}: ended with {status}"


def interrupted() -> None:
    """A handler that raises comes again and again; afterwards everything works."""
    import ferro

    def handler(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, handler)
    x, times = ferro.ones(50).requires_grad_(), 0
    while times < 200:
        try:
            signal.setitimer(
                signal.ITIMER_REAL, 0.0005 + times * 1e-6, 0.5
            )  # (again, where one is lost in a finaliser)
            while True:
                ((x.sin() * x).view(5, 10).t().softmax(1) + 1).sum().backward()
        except KeyboardInterrupt:
            times += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    computes()


def unwritable(folder: Path) -> None:
    (folder / "ferro").mkdir()
    (folder / "ferro").chmod(0o500)


def a_file(folder: Path) -> None:
    (folder / "ferro").write_text("not a folder", encoding="utf-8")


def missing(folder: Path) -> None:
    folder.rmdir()
    folder.mkdir()


def kernels() -> list[Path]:
    """The kernels that are kept beside ferro's sources."""
    return [*(ROOT / "ferro" / "native" / "__pycache__").glob("*.kernel")]


def damaged(folder: Path) -> None:
    """Every kernel of the cache is there, and broken."""
    (folder / "ferro").mkdir(mode=0o700)
    for path in kernels():
        (folder / "ferro" / path.name).write_bytes(path.read_bytes()[:-7] + b"damaged")


OTHER = 12345  # another user


def ignored(folder: Path, why: str) -> None:
    """No code of the folder is mapped, and `show_config` says why."""
    os.environ["FERRO_CACHE_DIR"] = str(folder)
    os.environ["FERRO_KERNELS"] = ""
    computes()
    import ferro
    from ferro.native import disk_cache

    assert not disk_cache.listed(), disk_cache.listed()
    config = ferro.show_config("dicts")
    assert config is not None
    said = str(config["switched off"])
    assert why in said, said
    assert str(folder / "ferro") in said, said


def others_may_write() -> None:
    """A cache folder that everybody may write to, full of what would be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        damaged(Path(folder))
        (Path(folder) / "ferro").chmod(0o777)
        ignored(Path(folder), "others may write")


def of_another_user() -> None:
    """A cache folder of another user's, full of what would be loaded."""
    if os.geteuid() != 0:
        print("not tried: only the administrator can give files away")
        return
    with tempfile.TemporaryDirectory() as folder:
        damaged(Path(folder))
        for path in (Path(folder) / "ferro", *(Path(folder) / "ferro").iterdir()):
            os.chown(path, OTHER, OTHER)
        ignored(Path(folder), f"user {OTHER}")


CASES: dict[str, Callable[[], None]] = {
    "no home": without_home,
    "no temporary folder": without_temporary,
    "a cache that cannot be written": with_cache(unwritable),
    "a file for a cache": with_cache(a_file),
    "a cache that others may write": others_may_write,
    "a cache of another user's": of_another_user,
    "modules loaded again": reloaded,
    "an empty cache": with_cache(missing),
    "a damaged cache": with_cache(damaged),
    "one core": one_core,
    "no threads": no_threads,
    "few addresses": few_addresses,
    "no machine code allowed": no_code,
    "the end while busy": ends_busy,
    "the end in a hook": ends_in_hook,
    "finalisers that compute": ends_with_finalisers,
    "tensors come back to life": resurrected,
    "forks while busy": forks,
    "workers of a DataLoader": loads,
    "a handler that runs backward": signalled,
    "a handler that raises": interrupted,
}


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases: each is for a process of its own."""
    yield from CASES.items()
