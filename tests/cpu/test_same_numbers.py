"""A seeded program computes the same bits whenever it runs in a process, and NumPy's where kernels cannot be had."""

import os
import subprocess
import sys

import pytest

from ferro.cpu.kernels import prepare
from ferro.native import disk_cache, loader, notices, readiness

native = pytest.mark.skipif(not loader.SUPPORTED, reason="on this system Numba itself runs the kernels")
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux does")

# A convolution, norms, attention, a loss and an optimiser, on arrays that are large enough for kernels, and small ones.
TRAINING = """
import hashlib, os, sys
import numpy as np
import ferro
from ferro import nn
from ferro.native import notices
from ferro.native import readiness, disk_cache
from ferro.native.readiness import get

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.attention, self.layer = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)
        self.out = nn.Linear(8 * 64, 10)

    def forward(self, x):
        x = nn.functional.silu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2).flatten(2).transpose(1, 2)
        x = self.layer(x + self.attention(x, x, x)[0])
        return nn.functional.softmax(self.out(nn.functional.gelu(x.flatten(1))).exp().cumsum(1), 1)

def train():
    ferro.manual_seed(1)
    rng = np.random.default_rng(1)
    net = Net()
    step = ferro.optim.Adam(net.parameters(), lr=0.01)
    found = hashlib.sha256()
    for _ in range(3):
        x = ferro.tensor(rng.standard_normal((32, 3, 16, 16)), dtype=ferro.float32)
        loss = nn.functional.cross_entropy(net(x), ferro.tensor(rng.integers(0, 10, 32)))
        step.zero_grad()
        loss.backward()
        step.step()
        found.update(loss.detach().numpy().tobytes())
    for p in net.parameters():
        found.update(p.detach().numpy().tobytes())
    return found.hexdigest()
"""


def trained(before="", after="print(train())", **environment):
    """What the program prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", before + TRAINING + after],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def by_kernels():
    """The digest where kernels are waited for. Without all of them on disk NumPy answers in place of some."""
    if not all(map(readiness.all_were_made, prepare.KINDS)):
        pytest.skip("not all kernels were on disk when the tests began (python -m ferro.warmup)")
    return trained(FERRO_KERNELS="wait")


@pytest.fixture(scope="module")
def by_numpy():
    return trained(FERRO_KERNELS="off")


@native
def test_kernels_on_disk_compute_what_kernels_that_are_waited_for_do(by_kernels):
    assert trained(after="print(train(), train())", FERRO_KERNELS="") == 2 * by_kernels


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_kernels_that_come_in_the_middle_are_not_used_before_the_next_process(tmp_path, by_kernels, by_numpy):
    """What the compiler process would make comes all at once: a copy of the kernels that the tests use."""
    later = """
readiness._start = lambda: None  # (nobody compiles)
first = train()
folder, = disk_cache.folders()
folder.mkdir(mode=0o700, exist_ok=True)
for source in sys.argv[1:] or os.environ["SOURCES"].split(os.pathsep):
    import shutil
    shutil.copytree(source, folder, dirs_exist_ok=True)
    folder.chmod(0o700)
print(first, train(), len(readiness._chosen) > 0, any(readiness._chosen.values()), flush=True)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    print(train(), ferro.tensor([2.0]).sum().item(), flush=True)
    os._exit(0)
"""
    sources = os.pathsep.join(str(folder) for folder in disk_cache.folders() if folder.is_dir())
    settings = {"FERRO_CACHE_DIR": str(tmp_path), "FERRO_KERNELS": "", "SOURCES": sources, "FERRO_NUM_THREADS": "1"}
    first, second, chose, any_, forked, _ = trained(after=later, **settings)
    assert [first] == [second] == [forked] == by_numpy
    assert (chose, any_) == ("True", "False")
    assert trained(FERRO_CACHE_DIR=str(tmp_path), FERRO_KERNELS="") == by_kernels


# --- what a system may refuse ----------------------------------------------------------------------------------------

NO_MACHINE_CODE = """
import ctypes
refuse_exec_gain = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE, as systemd's MemoryDenyWriteExecute does
"""


@linux
@pytest.mark.parametrize("mode", ["", "wait"])
def test_numpy_answers_where_memory_cannot_be_made_executable(mode, by_numpy):
    after = """
print(refuse_exec_gain)
if refuse_exec_gain == 0:
    print(train(), readiness.MODE, "numba" in sys.modules)
    x = ferro.linspace(0, 1, 100_000)
    found = [x.sum(), x.sort()[0], x.reshape(100, -1).T.contiguous(), x.cumsum(0), x[x > 0.5], ferro.where(x > 0.5, x, 0)]
    print(*notices.notices()["machine code"])
"""
    refused, *found = trained(NO_MACHINE_CODE, after, FERRO_KERNELS=mode)
    if refused != "0":
        pytest.skip("this system's kernel has no PR_SET_MDWE")
    assert found[:3] == [*by_numpy, "off", "False"]
    assert "refuses" in found


LIMITS = {
    "address space": "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))",
    "no more threads": """
import _thread, threading
def refused(*_args, **_keywords):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = _thread.start_new_thread = _thread.start_joinable_thread = refused
threading._start_joinable_thread = refused
""",
    "no processes": """
import subprocess
def refused(*_args, **_keywords):
    raise BlockingIOError(11, "no more processes")
subprocess.Popen.__init__ = refused
subprocess.Popen.__del__ = lambda self: None
""",
    "one core": "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])",
    "no home": "import os, pwd; os.environ.pop('HOME'); pwd.getpwuid = lambda uid: {}[uid]",
    "no temporary folder": """
import tempfile
def refused(*_args, **_keywords):
    raise FileNotFoundError(2, "no usable temporary directory")
tempfile.mkdtemp = tempfile.gettempdir = refused
""",
}


@linux
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_cost_time_only(limit, tmp_path, by_numpy):
    """With an empty cache that cannot be written to either."""
    (tmp_path / "ferro").write_bytes(b"no folder")
    settings = {"FERRO_CACHE_DIR": str(tmp_path), "FERRO_KERNELS": "", "FERRO_NUM_THREADS": "2"}
    after = (
        "readiness._start = lambda: None\nprint(train())"
        if limit in ("address space", "one core")
        else "print(train())"
    )
    if limit == "no home":
        del settings["FERRO_CACHE_DIR"]
        after = "print(len([*disk_cache.folders()]))"
        assert trained(LIMITS[limit], after, **settings, NUMBA_CACHE_DIR="", FERRO_CACHE_DIR="", XDG_CACHE_HOME="") == [
            "1"
        ]
        return
    assert trained(LIMITS[limit], after, **settings) == by_numpy


@native
def test_machine_code_that_cannot_be_loaded_leaves_the_formula(monkeypatch):
    """As where the memory ends in the middle."""
    monkeypatch.setattr(notices, "_notices", {})
    monkeypatch.setattr(readiness, "MODE", "")
    monkeypatch.setattr(readiness, "_chosen", {})
    monkeypatch.setattr(readiness, "_request", lambda name, wanted: None)

    def refused(name, packed):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(loader, "Code", refused)
    import numpy as np

    from ferro.native.readiness import get

    kernel = get("cube")
    monkeypatch.setattr(kernel, "tags", set())
    assert not readiness.ready(("cube",), np.dtype(np.float32))
    assert kernel.tags == set()


def test_a_compiler_process_whose_thread_cannot_start_is_none(monkeypatch, tmp_path):
    from ferro.native import compiler_process

    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("FERRO_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler_process.threading.Thread, "start", refused)
    before = len(compiler_process._open)
    assert compiler_process.start(lambda *_: None, lambda _: None) is None
    assert len(compiler_process._open) == before
