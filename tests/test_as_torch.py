"""Programs and libraries that say `import torch`, run on ferro: `ferro.as_torch` and `python -m ferro.as_torch`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import ferro
from ferro.torch_version import TorchVersion
from ferro.version import __version__ as followed

ROOT = Path(__file__).resolve().parent.parent


def start(*arguments: str, cwd: Path = ROOT, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Python with the arguments, in a folder; ferro is found wherever that is."""
    path = "import sys; sys.path.insert(1, sys.argv.pop(1)); sys.argv.pop(0); import runpy; "
    command = [sys.executable, "-W", "error", "-c", path + "runpy.run_module('ferro.as_torch', run_name='__main__')"]
    return subprocess.run(
        [*command, str(ROOT), "", *arguments],
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def python(code: str) -> str:
    """What a program prints that may call `ferro.as_torch.install()`; it must end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- install -----------------------------------------------------------------------------------------------------------


def test_the_modules_of_torch_are_those_of_ferro() -> None:
    python("""
        import sys, ferro
        ferro.as_torch.install()
        ferro.as_torch.install()
        import torch
        import torch._inductor.config as inductor
        import torch.nn.functional as F
        import torch.optim.lr_scheduler
        import torch.utils.data.dataloader
        from torch import Tensor, nn
        from torch.cuda.amp import GradScaler
        from torch.nn.modules.batchnorm import _BatchNorm
        from torch.nn.modules.utils import _ntuple
        from torch.utils.data import DataLoader

        assert torch.nn is nn is ferro.nn and F is ferro.nn.functional and sys.modules["torch.nn"] is ferro.nn
        assert Tensor is ferro.Tensor and DataLoader is ferro.utils.data.DataLoader and torch.exp is ferro.exp
        assert torch.testing is ferro.testing and GradScaler is ferro.cuda.amp.GradScaler
        assert torch._inductor.config is inductor is ferro._inductor.config
        assert _ntuple(2)(4) == (4, 4) and _ntuple(2)([1, 2, 3]) == (1, 2, 3)
        assert ferro.nn.__name__ == ferro.nn.__spec__.name == "ferro.nn" and ferro.__name__ == "ferro"
        own = {"as_torch", "batched", "core", "cpu", "functional", "ops", "__version__"}
        assert [name for name in {*ferro.__all__} - own if getattr(torch, name) is not getattr(ferro, name)] == []
        assert torch.Storage is torch.FloatStorage
        ferro.set_default_dtype(ferro.float64)
        assert torch.get_default_dtype() is torch.float64 and torch.ones(1).dtype is ferro.float64

        # Subclasses and modes ask through torch as they do through ferro.
        class Marked(torch.Tensor):
            pass

        assert type(torch.exp(Marked([1.0]))) is Marked

        class Log(torch.overrides.TorchFunctionMode):
            seen = []
            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Log():
            torch.exp(torch.ones(2))
        assert Log.seen == ["ones", "exp"]
    """)


def test_packages_of_ferro_that_are_something_else_are_not_reached() -> None:
    python("""
        import importlib.util, ferro, ferro.ops
        ferro.as_torch.install()
        import torch
        import torch.cpu, torch.functional
        assert torch.cpu is not ferro.cpu and not hasattr(torch.cpu, "exp") and torch.cpu.amp is ferro.cpu.amp
        import torch.cpu.amp
        assert torch.functional is not ferro.functional and not hasattr(torch.functional, "exp")
        assert torch.functional.einsum is ferro.einsum
        assert torch.ops is not ferro.ops and not hasattr(torch.ops, "arithmetic")
        for name in ("core", "batched", "as_torch"):
            assert not hasattr(torch, name)
        for name in ("torch.core", "torch.core.apply", "torch.ops.arithmetic", "torch.cpu.shape", "torch.parrot"):
            assert importlib.util.find_spec(name.rpartition(".")[0]) is None or importlib.util.find_spec(name) is None
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                pass
            else:
                raise AssertionError(name)
        assert ferro.cpu.exp and ferro.ops.arithmetic and ferro.core  # they are still there
        assert not {"core", "batched", "parrot"} & set(dir(torch)) and {"cpu", "nn", "functional"} <= set(dir(torch))
    """)


def test_uninstall_leaves_nothing() -> None:
    python("""
        import sys, ferro
        from multiprocessing import spawn
        from ferro import as_torch, overrides
        before = list(sys.meta_path), spawn.get_preparation_data, list(overrides.namespaces), ferro.cpu, ferro.functional
        as_torch.uninstall()
        as_torch.install()
        import torch.nn.functional, torch.cpu
        assert as_torch.is_installed()
        as_torch.uninstall()
        assert not as_torch.is_installed() and not [name for name in sys.modules if name.startswith("torch")]
        assert before == (
            sys.meta_path, spawn.get_preparation_data, overrides.namespaces, ferro.cpu, ferro.functional)
    """)


def test_it_refuses_where_pytorch_is_imported_already(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ImportError, match=r"PyTorch is imported already.*python -m ferro.as_torch"):
        ferro.as_torch.install()
    assert sys.modules["torch"] is torch
    assert not ferro.as_torch.is_installed()


# -- the version -------------------------------------------------------------------------------------------------------


def test_the_version_is_read_as_libraries_read_it() -> None:
    said = python("""
        import importlib.metadata, importlib.util, ferro
        ferro.as_torch.install()
        import torch
        assert torch.__version__ >= (2, 0) and torch.__version__ >= "2.10" and not torch.__version__ < "2.9.1"
        assert tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 0)
        assert torch.version.__version__ is torch.__version__ and torch.version.cuda is None and torch.version.hip is None
        assert importlib.metadata.version("torch") == str(torch.__version__)
        assert "torch" in {found.name for found in importlib.metadata.distributions(name="torch")}
        assert importlib.util.find_spec("torch") is not None
        print(torch.__version__)
    """)
    assert said.strip() == followed == "2.13.0+ferro"
    packaging = pytest.importorskip("packaging.version", reason="packaging is not installed")
    assert packaging.Version("2.13") < packaging.parse(followed) < packaging.Version("2.14")


@pytest.mark.parametrize(
    "other", ["2.13", "2.13.0", "2.13.0+cpu", "2.14.0a0+git1", "2.9.1", "2.14.0.dev2025", "3", "parrot"]
)
@pytest.mark.parametrize("mine", ["2.13.0", "2.13.0+cpu", "2.14.0", "2.13.1rc1"])
def test_versions_compare_as_pytorchs_do(torch, mine: str, other: str) -> None:
    theirs, ours = type(torch.__version__)(mine), TorchVersion(mine)
    for sign in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        assert getattr(ours, sign)(other) == getattr(theirs, sign)(other), sign
    assert (ours < (2, 13, 1)) == (theirs < (2, 13, 1))
    assert ours != 5
    with pytest.raises(TypeError):
        assert ours < 5  # type: ignore[operator]


# -- python -m ferro.as_torch ------------------------------------------------------------------------------------------

PROGRAM = """
import sys, torch
print(__name__, sys.argv, sys.path[0], __file__, __spec__, torch.ones(2).sum().item(), torch.__version__)

def fail():
    raise ValueError("as it is written")

if sys.argv[1:] == ["fail"]:
    fail()
if sys.argv[1:] == ["exit"]:
    sys.exit(7)
"""


def test_a_script_runs_as_python_runs_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = start("program.py", "-x", "--m", "3", cwd=tmp_path)
    assert done.stderr == ""
    arguments = ["program.py", "-x", "--m", "3"]
    assert done.stdout == f"__main__ {arguments} {tmp_path.resolve()} {script} None 2.0 {followed}\n"
    assert start(str(script), "exit").returncode == 7

    plain = tmp_path / "plain.py"
    plain.write_text("def fail():\n    raise ValueError('here')\n\nfail()\n")
    mine = start(str(plain))
    pythons = subprocess.run([sys.executable, str(plain)], capture_output=True, text=True, timeout=60, check=False)
    assert (mine.returncode, mine.stderr) == (pythons.returncode, pythons.stderr)
    plain.write_text("x = (\n")
    mine = start(str(plain))
    pythons = subprocess.run([sys.executable, str(plain)], capture_output=True, text=True, timeout=60, check=False)
    assert (mine.returncode, mine.stderr) == (pythons.returncode, pythons.stderr)


def test_modules_packages_and_code_run_too(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import torch\n")
    (tmp_path / "package" / "other.py").write_text("x = 3\n")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, torch\nfrom .other import x\nprint(__name__, __package__, __spec__.name, sys.argv[1:], x)\n"
    )
    done = start("-m", "package", "a", "-m", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("__main__ package package.__main__ ['a', '-m'] 3\n", "")
    assert start("package", cwd=tmp_path).returncode == 1  # a folder: no package, so no relative import, as in Python
    code = "import sys, torch; print(sys.argv, repr(sys.path[0]), torch.arange(2)); sys.exit(sys.argv[1])"
    done = start("-c", code, "no")
    assert (done.returncode, done.stdout, done.stderr) == (1, "['-c', 'no'] '' tensor([0, 1])\n", "no\n")
    assert start("-", text="import torch; print(torch.zeros(1))").stdout == "tensor([0.])\n"


def test_what_cannot_be_run_is_said() -> None:
    python("""
        import contextlib, io, sys
        from ferro.as_torch.run import main
        own = sys.modules["__main__"]
        for arguments, code, said in [
            ([], 2, "usage: python -m ferro.as_torch"),
            (["-m"], 2, "Argument expected for the -m option"),
            (["--parrot"], 2, "unknown option --parrot"),
            (["no_such_file.py"], 2, "can't open file"),
            (["tests"], 1, "can't find '__main__' module in"),
            (["-m", "no_such_module"], 1, "No module named no_such_module"),
            (["-m", "no_such_module.inside"], 1, "Error while finding module specification"),
        ]:
            with contextlib.redirect_stderr(io.StringIO()) as printed:
                try:
                    main(arguments)
                except SystemExit as end:
                    assert end.code == code, arguments
            assert said in printed.getvalue(), (arguments, printed.getvalue())
    """)


def test_processes_that_it_starts_take_torch_for_ferro_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import multiprocessing, torch

        def child(results):
            results.put((torch.__version__, torch.ones(3).sum().item()))

        if __name__ == "__main__":
            spawn = multiprocessing.get_context("spawn")
            results = spawn.Queue()
            process = spawn.Process(target=child, args=(results,))
            process.start()
            print(results.get(timeout=60))
            process.join()
        """)
    )
    done = start("program.py", cwd=tmp_path)
    assert done.stdout == f"('{followed}', 3.0)\n", done.stderr


@pytest.mark.slow
def test_spawn_runs_a_function_in_processes_and_says_what_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import os, sys
        import torch
        import torch.multiprocessing as mp

        def work(i, x, results):
            results.put((i, (x * i).tolist()))

        def fail(i):
            raise ValueError("in the child")

        def leave(i):
            os._exit(3)

        if __name__ == "__main__":
            results = mp.get_context("spawn").SimpleQueue()
            context = mp.spawn(work, (torch.ones(2), results), nprocs=2, join=False)
            assert len(context.pids()) == 2
            while not context.join():
                pass
            assert sorted([results.get(), results.get()]) == [(0, [0.0, 0.0]), (1, [1.0, 1.0])]
            try:
                mp.spawn(fail)
            except mp.ProcessRaisedException as error:
                assert "-- Process 0 terminated with the following error:" in str(error), error
                assert "ValueError: in the child" in str(error) and error.error_index == 0
            try:
                mp.spawn(leave)
            except mp.ProcessExitedException as error:
                print(error, error.exit_code)
        """)
    )
    done = start("program.py", cwd=tmp_path)
    assert done.stdout == "process 0 terminated with exit code 3 3\n", done.stderr


# -- libraries ---------------------------------------------------------------------------------------------------------


def needs(*names: str) -> pytest.MarkDecorator:
    """A mark that skips a test where a library is absent."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"{' and '.join(absent)} not installed")


@needs("einops")
def test_einops_runs_on_ferro() -> None:
    python("""
        import ferro, numpy as np
        ferro.as_torch.install()
        import torch, einops
        from einops.layers.torch import Rearrange

        values = np.arange(24.0).reshape(2, 3, 4)
        x = torch.tensor(values, requires_grad=True)
        y = einops.rearrange(x, "a b c -> b (c a)")
        assert np.array_equal(y.detach().numpy(), einops.rearrange(values, "a b c -> b (c a)"))
        z = einops.reduce(x, "a (b two) c -> a c b", "mean", two=3)
        assert np.allclose(z.detach().numpy(), einops.reduce(values, "a (b two) c -> a c b", "mean", two=3))
        assert np.allclose(
            einops.einsum(x, x, "a b c, a b d -> c d").detach().numpy(), np.einsum("abc,abd->cd", values, values))
        packed, shapes = einops.pack([x, x[:, 0]], "a * c")
        assert [tuple(part.shape) for part in einops.unpack(packed, shapes, "a * c")] == [(2, 3, 4), (2, 4)]
        net = torch.nn.Sequential(Rearrange("a b c -> a (b c)"), torch.nn.Linear(12, 1, dtype=torch.float64))
        net(x).sum().backward()
        assert np.allclose(x.grad.numpy()[0], net[1].weight.detach().numpy().reshape(3, 4))
    """)


@needs("safetensors")
def test_safetensors_runs_on_ferro(tmp_path: Path) -> None:
    python(f"""
        import ferro
        ferro.as_torch.install()
        import torch
        from safetensors import safe_open
        from safetensors.torch import load, load_file, load_model, save, save_file, save_model

        file = {str(tmp_path / "weights.safetensors")!r}
        given = {{"w": torch.arange(12.0).reshape(3, 4), "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
                 "i": torch.tensor([[1], [2]]), "b": torch.tensor([True, False])}}
        save_file(given, file)
        for read in (load_file(file), load(save(given))):
            assert read.keys() == given.keys()
            assert all(torch.equal(read[k], v) and read[k].dtype is v.dtype for k, v in given.items())
        with safe_open(file, framework="pt") as opened:
            assert torch.equal(opened.get_slice("w")[1:], given["w"][1:])
        net = torch.nn.Linear(3, 2)
        save_model(net, file)
        other = torch.nn.Linear(3, 2)
        assert load_model(other, file) == (set(), []) and torch.equal(other.weight, net.weight)
    """)


@needs("torchmetrics")
def test_torchmetrics_runs_on_ferro() -> None:
    python("""
        import ferro
        ferro.as_torch.install()
        import torch
        from torchmetrics import Accuracy, MetricCollection
        from torchmetrics.image import PeakSignalNoiseRatio

        found = MetricCollection({"top": Accuracy("multiclass", num_classes=3), "two": Accuracy("multiclass", num_classes=3, top_k=2)})
        found.update(torch.tensor([[0.9, 0.1, 0], [0.1, 0.2, 0.7]]), torch.tensor([0, 1]))
        found.update(torch.tensor([[0.1, 0.9, 0]]), torch.tensor([1]))
        assert found.compute()["two"] == 1
        assert abs(PeakSignalNoiseRatio(data_range=1.0)(torch.zeros(4), torch.full((4,), 0.1)).item() - 20) < 1e-4
    """)


@pytest.mark.slow
@needs("tqdm")
def test_a_training_loop_with_a_bar_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data import DataLoader, TensorDataset
        from tqdm import tqdm

        torch.manual_seed(0)
        x = torch.randn(64, 3)
        y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
        net = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        schedule = StepLR(optimizer, 10, 0.5)
        for epoch in tqdm(range(20), disable=None):
            for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
                loss = F.mse_loss(net(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            schedule.step()
        print(loss.item() < 1e-2)
        """)
    )
    assert start("train.py", cwd=tmp_path).stdout == "True\n"


PRINTED = """
import pickle, torch
x = torch.ones(2, 3)
print(x.shape, f"{x.shape}", [x.size()], x.dtype, repr(torch.int64), x.to(torch.int16), x.layout, torch.channels_last, torch.Size([]))
print(str(x.dtype).removeprefix("torch."), getattr(torch, str(x.dtype).split(".")[1]) is torch.float32, torch.FloatTensor, x.type())
print(pickle.loads(pickle.dumps((x.shape, x.dtype, x.layout, x))))
print(repr(torch.zeros(1).untyped_storage()).splitlines()[-1])
"""


def test_dtypes_sizes_and_layouts_print_as_pytorchs(torch: ModuleType) -> None:
    def printed(*how: str) -> str:
        command = [sys.executable, *how, "-c", PRINTED]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout

    ours = printed("-m", "ferro.as_torch")
    assert ours == printed()
    assert "torch.Size([2, 3])" in ours
    assert repr(ferro.ones(2).shape) == "ferro.Size([2])"  # (this process is another)
