"""Kernels that came with the package: found by what they are made of, used where they fit, compiled where they do not."""

import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ferro import warmup
from ferro.cpu.kernels import prepare
from ferro.cpu.kernels.entries import FILES
from ferro.native import disk_cache, fingerprint, isa, loader, notices, packaged, readiness, recorder
from ferro.native.kernel import Kernel, tag_of
from ferro.native.readiness import get
from tests.configuration import with_machine_code
from tests.helpers import ROOT

x86 = pytest.mark.skipif(not loader.SUPPORTED, reason="no machine code in this process")

SOURCES = ("ferro.cpu.kernels.jit_pointwise",)
OTHERS = ("ferro.cpu.kernels.jit_pool",)


def code(*symbols):
    return loader.pack(b"\xc3" * 64, {"": 0}, list(symbols), [(8 * k, k, 0) for k in range(len(symbols))])


KERNELS = {
    ("cube", "f4-0"): (SOURCES, code("PyErr_Occurred", "ferro.layout", "type.array", "expf")),
    ("cube", "f4-1"): (SOURCES, code("PyErr_Occurred", "sched_yield")),
    ("max_pool", "f8-2"): (OTHERS, code("NRT_MemInfo_alloc_aligned")),
    ("walk", "f8-3"): (SOURCES, code("PyThreadState_Get")),  # not among those that are the same in every version
    ("entries", "f4"): (SOURCES, code("numpy.94")),
    ("all", "f4-"): (SOURCES, b""),
}


def forget():
    for function in (packaged._path, packaged._index, packaged._block):
        function.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An archive with these kernels in place of the package's."""
    folder = tmp_path / "kernels"
    monkeypatch.setattr(isa, "package_level", lambda: "x86-64-v3")
    monkeypatch.setattr(isa, "target", lambda: "x86-64-v3")
    for name in fingerprint.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(packaged, "FOLDER", folder)
    monkeypatch.setattr(notices, "_notices", {})
    monkeypatch.setenv("FERRO_CACHE_DIR", str(tmp_path))
    packaged.write(folder, KERNELS)
    forget()
    yield folder
    forget()


def said():
    return " ".join(notices.notices().get("packaged kernels", ()))


@x86
def test_what_was_packaged_is_found(folder):
    assert [path.name for path in folder.iterdir()] == ["x86-64-v3.kernels"]
    assert packaged.count() == len(KERNELS)
    for (name, tag), (sources, packed) in KERNELS.items():
        assert packaged.read(name, tag, sources) == packed
        assert disk_cache.read(name, tag, sources) == packed
        assert tag in disk_cache.tags(name, sources)
    assert packaged.read("cube", "f8-0", SOURCES) is None
    assert packaged.read("sine", "f4-0", SOURCES) is None
    assert not said()


@x86
def test_code_of_other_sources_is_not_used(folder):
    assert packaged.read("cube", "f4-0", OTHERS) is None
    assert packaged.tags("cube", OTHERS) == []


@x86
def test_code_for_another_level_is_not_used(folder, monkeypatch):
    monkeypatch.setattr(isa, "package_level", lambda: "x86-64-v4")
    forget()
    assert packaged.read("cube", "f4-0", SOURCES) is None
    monkeypatch.setattr(isa, "package_level", lambda: "")
    forget()
    assert packaged.count() == 0


@x86
def test_another_python_takes_what_calls_steady_functions_alone(folder, monkeypatch):
    monkeypatch.setattr(packaged, "_THIS_PYTHON", "cpython-399")
    assert packaged.read("cube", "f4-0", SOURCES) is not None
    assert packaged.read("walk", "f8-3", SOURCES) is None


@x86
def test_a_numba_that_describes_memory_otherwise_takes_what_allocates_nothing(folder, monkeypatch):
    monkeypatch.setattr(packaged, "_reads_as_expected", lambda: False)
    assert packaged.read("cube", "f4-0", SOURCES) is not None
    assert packaged.read("max_pool", "f8-2", OTHERS) is None


@x86
def test_the_numba_that_is_installed_describes_memory_as_expected():
    assert packaged._reads_as_expected.__wrapped__()


@x86
def test_settings_that_change_the_code_are_obeyed(folder, monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_NAME", isa.target())  # (as ferro sets it)
    forget()
    assert packaged.read("cube", "f4-0", SOURCES) is not None
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    forget()
    assert packaged.read("cube", "f4-0", SOURCES) is None


@x86
@pytest.mark.parametrize("place", [0, 25, 200, -100, None])
def test_a_damaged_archive_is_noted_and_left(folder, place):
    (path,) = folder.iterdir()
    good = path.read_bytes()
    place = len(good) // 2 if place is None else place % len(good)
    for bad in (good[:place], good[:place] + bytes([good[place] ^ 255]) + good[place + 1 :]):
        path.write_bytes(bad)
        notices._notices.clear()
        forget()
        found = [packaged.read(name, tag, sources) for (name, tag), (sources, _) in KERNELS.items()]
        assert None in found
        assert "is not used" in said()


def test_an_archive_is_made_of_plain_levels_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(isa, "package_level", lambda: "x86-64-v4")
    monkeypatch.setattr(isa, "target", lambda: "")  # code for this very processor
    with pytest.raises(ValueError, match="FERRO_ISA must be avx2 or avx512"):
        packaged.write(tmp_path, KERNELS)


def test_without_a_level_no_archive_is_begun(monkeypatch):
    monkeypatch.setattr(readiness, "MODE", "")
    monkeypatch.setattr(isa, "target", lambda: "")
    monkeypatch.setattr(sys, "argv", ["warmup", "--archive", "nowhere"])
    with pytest.raises(SystemExit, match="FERRO_ISA must be avx2 or avx512"):
        warmup.main()


def test_an_archive_has_all_kernels_or_is_not_written(folder, monkeypatch):
    monkeypatch.setattr(prepare, "all_sources", lambda: {("cube", "f4-9"): SOURCES})
    with pytest.raises(FileNotFoundError, match="no machine code on disk of cube f4-9"):
        prepare.archive(folder)


@with_machine_code
def test_a_kernel_answers_from_the_package(folder):
    signature = "f4[1] f4[1]"
    kernel = Kernel("cube", SOURCES, get("cube").compiler, readiness.wait_for)
    assert not kernel.load(tag_of(signature))
    from ferro.native import jit_export

    packed = jit_export.export(get("cube").compiler, signature)
    packaged.write(folder, {("cube", tag_of(signature)): (SOURCES, packed)})
    forget()
    assert kernel.load(tag_of(signature))
    x = np.arange(4, dtype=np.float32)
    out = np.empty_like(x)
    assert kernel.runs
    kernel(x, out)
    np.testing.assert_array_equal(out, x**3)


@with_machine_code
def test_all_that_kernels_refer_to_is_known_to_be_steady():
    """So an archive serves every Python that layout.py knows."""
    files = [disk_cache.read("entries", file.tag, file.sources) for file in (*FILES.values(), recorder.FILE)]
    if None in files:
        pytest.skip("the entries are not on disk")
    found = {symbol for file in files for symbol in loader.symbols(file) if symbol.startswith(("Py", "_Py"))}
    assert found
    assert found <= packaged.STEADY


# --- a wheel ---------------------------------------------------------------------------------------------------------

STEPS = """
import sys
import ferro as torch
from ferro import nn
from ferro.native import readiness
F = nn.functional
torch.manual_seed(0)

lenet = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
steps = torch.optim.SGD(lenet.parameters(), lr=0.01, momentum=0.9)
losses = []
for _ in range(2):
    loss = F.cross_entropy(lenet(torch.randn(64, 1, 28, 28)), torch.randint(0, 10, (64,)))
    steps.zero_grad(), loss.backward(), steps.step()
    losses.append(loss.item())

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.first(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x))

gpt = nn.Sequential(nn.Embedding(65, 128), Block(128, 4), Block(128, 4), nn.LayerNorm(128), nn.Linear(128, 65))
steps = torch.optim.AdamW(gpt.parameters(), lr=1e-3)
for _ in range(2):
    words = torch.randint(0, 65, (8, 65))
    loss = F.cross_entropy(gpt(words[:, :-1]).reshape(-1, 65), words[:, 1:].reshape(-1))
    steps.zero_grad(), loss.backward(), steps.step()
    losses.append(loss.item())
"""

REPORT = """
parts = set(torch.show_config("dicts")["machine code"].values())
print(torch.__file__, *parts, "numba" in sys.modules, readiness._compiler, readiness._requests, sep="|")
"""


def wheel_of(folder, **settings):
    """The wheel of this clone. Its build backend must be here, as nothing is fetched."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*pip, str(ROOT)], env={**os.environ, **settings}, check=True, timeout=300)
    (path,) = folder.glob("*.whl")
    return path


def environment(folder, wheel):
    """The Python of a new environment with the wheel, and behind it the libraries of this one."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True, timeout=300)
    found = [importlib.util.find_spec(name) for name in ("numpy", "scipy", "numba", "llvmlite", "ml_dtypes")]
    (packages / "libraries.pth").write_text("\n".join({str(Path(spec.origin).parents[1]) for spec in found}))
    return python


def test_a_plain_wheel_is_pure_python(tmp_path, monkeypatch):
    monkeypatch.delenv("FERRO_WHEEL_KERNELS", raising=False)
    path = wheel_of(tmp_path)
    assert path.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(path).namelist()
    assert "ferro/native/packaged.py" in names
    assert not [name for name in names if name.endswith((".kernels", ".kernel"))]


@x86
def test_a_wheel_with_kernels_is_for_linux(folder, tmp_path):
    (tmp_path / "dist").mkdir()
    path = wheel_of(tmp_path / "dist", FERRO_WHEEL_KERNELS=str(folder))
    assert path.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    assert "ferro/native/kernels/x86-64-v3.kernels" in zipfile.ZipFile(path).namelist()


@pytest.mark.slow
@with_machine_code
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_a_wheel_trains_without_compiling(level, tmp_path):
    if isa.LEVELS.index(level) > isa.LEVELS.index(isa._OWN):
        pytest.skip(f"the processor has no {level}")
    made = ROOT / "build" / "wheel" / level  # what `make wheel` has compiled is not compiled again
    if not made.is_dir():
        made = tmp_path / "made"
        made.mkdir()
    warm = [sys.executable, "-m", "ferro.warmup", "--archive", str(tmp_path / "kernels")]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("FERRO_", "NUMBA_"))}
    settings = {**plain, "FERRO_ISA": level, "PYTHONPATH": str(ROOT)}
    subprocess.run(warm, env={**settings, "FERRO_CACHE_DIR": str(made)}, check=True, timeout=3000)
    python = environment(tmp_path / "new", wheel_of(tmp_path / "dist", FERRO_WHEEL_KERNELS=str(tmp_path / "kernels")))
    empty = tmp_path / "empty"
    empty.mkdir()
    program = [str(python), "-P", "-W", "error", "-c", STEPS + REPORT]
    del settings["PYTHONPATH"]
    done = subprocess.run(
        program,
        env={**settings, "FERRO_CACHE_DIR": str(empty)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    place, *rest = done.stdout.strip().split("|")
    assert Path(place).is_relative_to(tmp_path / "new")
    assert rest == ["on", "False", "None", "{}"]  # nothing was asked of a compiler process
    assert not [*empty.rglob("*.kernel")]
