"""Names that ferro has not: the errors say what to use instead, and `docs/names.md` lists them all."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro import absent

ROOT = Path(__file__).resolve().parent.parent

ABSENT = {  # an expression: a word of the substitute
    "ferro.export": "state_dict",
    "ferro.lobpcg": "linalg.eigh",
    "ferro.quantize_per_tensor": "bfloat16",
    "ferro.nested": "pad_sequence",
    "ferro._prims": "public functions",
    "ferro.nn.quantized": "bfloat16",
    "ferro.nn.functional.scaled_mm": "CPU",
    "ferro.cuda.jiterator": "CPU",
    "ferro.backends.cusparselt": "CPU",
    "ferro.utils.cpp_extension": "autograd.Function",
    "ferro.jit.CompilationUnit": "jit.script",
    "ferro.autograd.profiler.KinetoStepTracker": "profiler.profile",
}

MISTYPED = {
    "ferro.zeroes": "zeros",
    "ferro.nn.Lineer": "Linear",
    "ferro.nn.functional.rleu": "relu",
    "ferro.optim.Adamm": "Adam",
    "ferro.utils.data.DataLaoder": "DataLoader",
    "ferro.nn.init.xavier_unifrom_": "xavier_uniform_",
}

UNKNOWN = [
    "ferro.parrot",
    "ferro.nn.parrot",
    "ferro.backends.parrot",
    "ferro.backends.cudnn.parrot",
    "ferro.nn.init.__parrot__",
]


def get(expression: str) -> object:
    """The value of a dotted name; the last part may not be there."""
    module, _, name = expression.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("expression", [*ABSENT, *MISTYPED, *UNKNOWN])
def test_an_absent_name_is_an_attribute_error(expression: str) -> None:
    module, _, name = expression.rpartition(".")
    assert not hasattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match=re.escape(f"module {module!r} has no attribute {name!r}")) as caught:
        get(expression)
    assert caught.value.name == name
    said = str(caught.value).split(repr(name), 1)[1]
    if expression in ABSENT:
        assert said.startswith(f": torch.{expression.removeprefix('ferro.')} is not in ferro. Instead: ")
        assert ABSENT[expression] in said
        assert said.endswith("(docs/names.md)")
    elif expression in MISTYPED:
        assert said == f". Did you mean: {MISTYPED[expression]!r}?"
    else:
        assert said == ""


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("import ferro.export", "torch.export is not in ferro. Instead: "),
        ("import ferro.export.experimental", "torch.export is not in ferro. Instead: "),
        ("from ferro import export", "torch.export is not in ferro. Instead: "),
        ("from ferro import zeroes", "Did you mean: 'zeros'?"),
        ("from ferro.nn import quantized", "torch.nn.quantized is not in ferro. Instead: "),
        ("from ferro.nn.quantized import Linear", "torch.nn.quantized is not in ferro. Instead: "),
        ("from ferro.nn.functional import rleu", "Did you mean: 'relu'?"),
        ("from ferro.utils import cpp_extension", "autograd.Function"),
        ("from ferro.cuda import jiterator", "the CPU"),
        ("import ferro.parrot", "No module named 'ferro.parrot'"),
        ("from ferro import parrot", "cannot import name 'parrot' from 'ferro'"),
        ("from ferro.nn.functional import parrot", "cannot import name 'parrot' from 'ferro.nn.functional'"),
        ("import torch_parrot.nn", "No module named 'torch_parrot'"),
    ],
)
def test_an_absent_module_is_an_import_error(statement: str, said: str) -> None:
    with pytest.raises(ImportError, match=re.escape(said)) as caught:
        exec(statement)
    kind, name = statement.split(maxsplit=1)[0], statement.split()[1 if statement.startswith("import") else 3]
    if kind == "from" and "quantized import" not in statement:
        assert f"cannot import name {name!r} from " in str(caught.value)
    else:
        assert "No module named " in str(caught.value)
        assert isinstance(caught.value, ModuleNotFoundError)


def test_programs_can_ask_whether_a_module_is_there() -> None:
    assert importlib.util.find_spec("ferro.export") is None
    assert importlib.util.find_spec("ferro.nn") is not None


def test_errors_speak_of_torch_where_ferro_stands_for_it() -> None:
    code = """if True:
        import ferro
        ferro.as_torch.install()
        import torch
        for program in ("torch.export", "import torch.export", "from torch import export", "torch.zeroes", "torch.cpu.parrot", "torch.core"):
            try:
                exec(program)
            except (AttributeError, ImportError) as error:
                print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    said = done.stdout.splitlines()
    assert [line.split(": ")[0] for line in said] == [
        "module 'torch' has no attribute 'export'",
        "No module named 'torch.export'; cannot import name 'export' from 'torch'",
        "No module named 'torch.export'; cannot import name 'export' from 'torch'",
        "module 'torch' has no attribute 'zeroes'. Did you mean",
        "module 'torch.cpu' has no attribute 'parrot'",
        "module 'torch' has no attribute 'core'",
    ]
    assert all("torch.export is not in ferro. Instead: programs are not exported" in line for line in said[:3])


def test_every_namespace_of_ferro_explains() -> None:
    code = """if True:
        import sys, ferro
        from ferro import absent
        for name in ferro._LATER:
            getattr(ferro, name)
        for name in ferro.backends.__all__:
            getattr(ferro.backends, name)
        for name, module in sys.modules.items():
            if name.count(".") == 1 and name.split(".")[0] == "ferro" and name.split(".")[1] not in absent.INNER:
                if not name.split(".")[1].startswith("_") and not callable(getattr(module, "__getattr__", None)):
                    print(name)
        for name in ("nn", "nn.functional", "nn.init", "nn.utils.rnn", "optim.lr_scheduler", "utils.data", "backends.cudnn", "testing"):
            assert callable(sys.modules["ferro." + name].__getattr__), name
        assert not hasattr(ferro.core, "__getattr__") and not hasattr(ferro.cpu, "__getattr__")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert set(done.stdout.split()) <= {
        "ferro.torch_version",
        "ferro.version",
    }  # (imported by others before they are asked for)


def test_no_name_of_the_table_stands_in_it_twice() -> None:
    names = [name for names in absent.TABLE.values() for name in names.split()]
    assert sorted(names) == sorted(set(names))


def test_no_substitute_is_a_name_that_ferro_has_not() -> None:
    """The dotted names of namespaces in the texts, such as `linalg.eigh`, are there."""
    spaces = (
        "amp",
        "autograd",
        "debug",
        "func",
        "jit",
        "linalg",
        "masked",
        "nn",
        "optim",
        "overrides",
        "profiler",
        "signal",
        "utils",
    )
    named = {
        found
        for text in absent.TABLE
        for found in re.findall(r"[a-z_]+(?:\.\w+)+", text)
        if found.split(".")[0] in spaces
    }
    assert len(named) > 15
    for name in named:
        value: object = ferro
        for part in name.split("."):
            value = getattr(value, part)


@pytest.mark.slow
@pytest.mark.usefixtures("torch")
def test_the_list_of_names_is_up_to_date() -> None:
    command = [sys.executable, "-W", "ignore", str(ROOT / "docs" / "names.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


METHODS = sorted(
    name.removeprefix("Tensor.")
    for names in absent.TABLE.values()
    for name in names.split()
    if name.startswith("Tensor.") and not hasattr(ferro.Tensor, name.removeprefix("Tensor."))
)


def test_every_method_of_pytorchs_tensors_is_there_or_explained(torch: Any) -> None:
    public = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    missing = {name for name in public if not hasattr(ferro.Tensor, name)}
    assert missing == set(METHODS)
    assert {"q_scale", "to_mkldnn", "lstsq"} <= missing


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_not_there_says_what_to_use(name: str) -> None:
    leaf = ferro.nn.Parameter(ferro.ones(2))
    for value in (ferro.ones(2), leaf, ferro.ones(2).to_sparse()):
        assert not hasattr(value, name)
        assert getattr(value, name, "nothing") == "nothing"
        with pytest.raises(
            AttributeError, match=rf"has no attribute '{name}': torch\.Tensor\.{name} is not in ferro\. Instead: "
        ) as error:
            getattr(value, name)
        assert error.value.name == name


def test_dir_names_what_a_tensor_has_and_nothing_else() -> None:
    class Mine(ferro.Tensor):
        volatile = False

    for value in (ferro.ones(2, 2), ferro.nn.Parameter(ferro.ones(2, 2)), ferro.ones(2, 2).to_sparse()):
        names = set(dir(value))
        assert {"shape", "grad", "exp", "__add__"} <= names
        assert not names & {*METHODS, "__cuda_array_interface__"}
        assert value.is_sparse or all(hasattr(value, name) for name in names - {"imag"})
    assert "volatile" in dir(ferro.ones(2).as_subclass(Mine))


def test_a_method_that_nobody_has_is_missed_as_ever() -> None:
    with pytest.raises(AttributeError, match=r"^'Tensor' object has no attribute 'parrot'$"):
        _ = ferro.ones(2).parrot  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"type object 'Tensor' has no attribute 'q_scale': torch\.Tensor\.q_scale"
    ):
        _ = ferro.Tensor.q_scale  # type: ignore[attr-defined]


def test_tensors_with_missing_methods_are_copied_and_pickled() -> None:
    x = ferro.arange(3.0)
    x.index = "set by the program"  # type: ignore[attr-defined]
    for other in (x, copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (other.tolist(), other.index) == ([0, 1, 2], "set by the program")  # type: ignore[attr-defined]
    assert "__getattr__" not in vars(ferro.Tensor)  # (which would slow down what is there)
