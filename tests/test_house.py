"""The rules of the house: direction of imports, a light import, one version, documented files, documents that hold."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.budgets import LONG_FILES, LONG_FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ferro"

# From the top down: a module imports from its own layer and from those below it.  `examples` stands above the public
# names because a program of the library's users begins with `import ferro`.
LAYERS = (
    ("examples", "array_api", "as_torch", "distributions"),
    ("__init__",),
    (
        "accelerator",
        "streams",
        "amp",
        "backends",
        "compiler",
        "control_flow",
        "distributed",
        "mps",
        "mtia",
        "xpu",
        "fx",
        "graph",
        "hub",
        "onnx",
        "futures",
        "_C",
        "_dynamo",
        "_inductor",
        "_jit_internal",
        "_subclasses",
        "ao",
        "cuda",
        "optim",
        "jit",
        "library",
        "nn",
        "utils",
        "debug",
        "profiler",
        "warmup",
        "env",
        "__config__",
        "serialization",
        "multiprocessing",
        "testing",
    ),
    ("func",),
    ("autograd",),
    (
        "functional",
        "tensor",
        "_compiling",
        "complex_half",
        "conditions",
        "_tensor_autograd",
        "_tensor_conversions",
        "_tensor_str",
        "overrides",
        "_overridable",
        "_overriding",
        "types",
        "numpy_functions",
        "printing",
        "fft",
        "linalg",
        "masked",
        "signal",
        "special",
        "storage",
        "random",
        "quasirandom",
        "sparse",
    ),
    ("ops",),
    ("core",),
    ("batched",),
    ("cpu",),
    ("native",),
    ("xp", "linalg_errors"),
    ("loop_text",),
    ("expressions",),
    ("elementwise",),
    ("_version", "_importing", "_public", "__future__", "absent", "symbols", "torch_version", "version"),
)
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}

# What `import ferro` must not load, directly or through another package.
HEAVY = ("numba", "llvmlite", "scipy", "torch", "cupy", "matplotlib", "sklearn", "tqdm", "hypothesis", "pytest")


def python_files(*folders: str) -> list[Path]:
    """The Python files of some folders of the clone, in order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_files() -> list[Path]:
    """Every file that people read: code, documents, configuration."""
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".cfg"}
    inner = [p for folder in ("ferro", "tests", "bench", "docs", "examples") for p in (ROOT / folder).rglob("*")]
    outer = [*ROOT.iterdir(), *(ROOT / ".ci").iterdir()]
    known = {"Makefile", "LICENSE", "run", ".gitignore"}
    return sorted(p for p in (*inner, *outer) if p.is_file() and (p.suffix in suffixes or p.name in known))


def short(path: Path) -> str:
    """The path as people write it."""
    return path.relative_to(ROOT).as_posix()


# The direction of imports.


def module_name(path: Path) -> str:
    """The dotted name of a file of the package; of a package, its `__init__` included, so that `.` means the same."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def layer_of(dotted: str) -> str | None:
    """The part of ferro that a dotted name lies in: "core" for ferro.core.tape; None outside of ferro."""
    parts = dotted.split(".")
    if parts[0] != "ferro":
        return None
    # `from ferro import x` takes a submodule if there is one, else a name that the package makes public.
    return parts[1] if len(parts) > 1 and parts[1] in DEPTH else "__init__"


def is_type_checking(test: ast.expr) -> bool:
    """Whether the condition of an `if` is TYPE_CHECKING (`_TYPE_CHECKING` where names are public)."""
    return (isinstance(test, ast.Name) and test.id.lstrip("_") == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports(node: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what the code of `module` imports, functions included, TYPE_CHECKING blocks excepted."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = module.split(".")[: -node.level] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if called in ("import_module", "__import__") and isinstance(first, ast.Constant):
            yield node.lineno, str(first.value)
    skipped = node.body if isinstance(node, ast.If) and is_type_checking(node.test) else ()
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from imports(child, module)


def upward(source: str, module: str) -> list[str]:
    """The imports in `source`, the text of `module`, that point up: "line: what is wrong"."""
    own = module.split(".")[1]
    wrong = []
    for line, name in imports(ast.parse(source), module):
        layer = layer_of(name)
        if layer is not None and DEPTH[layer] < DEPTH[own]:
            wrong.append(f"{line}: {own} imports {name}, which lies above it")
    return wrong


def test_every_module_has_a_layer() -> None:
    tops = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert tops <= DEPTH.keys(), f"say in LAYERS where they stand: {sorted(tops - DEPTH.keys())}"


def test_imports_point_down() -> None:
    wrong = [
        f"{short(path)}:{message}"
        for path in python_files("ferro")
        for message in upward(path.read_text("utf-8"), module_name(path))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ferro.core.engine", "from ferro.ops import pointwise"),
        ("ferro.core.engine", "import ferro"),
        ("ferro.core.engine", "import numpy, ferro.ops.pointwise"),
        ("ferro.core.engine", "from ferro import __all__"),
        ("ferro.core.engine", "from .. import ops"),
        ("ferro.core.engine", "from ..ops.pointwise import add"),
        ("ferro.core.__init__", "from ..ops import pointwise"),
        ("ferro.core.engine", "def f():\n    from ferro.ops import pointwise"),
        ("ferro.core.engine", "ops = importlib.import_module('ferro.ops')"),
        ("ferro.core.engine", "if TYPE_CHECKING:\n    pass\nelse:\n    from ferro.ops import pointwise"),
        ("ferro.ops.pointwise", "from ferro import nn"),
        ("ferro.nn.modules.module", "import ferro as torch"),
        ("ferro.cpu.pointwise", "from ferro.core import mode"),
    ],
)
def test_an_import_that_points_up_is_found(module: str, source: str) -> None:
    assert len(upward(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ferro.core.engine", "from ferro.core import mode\nfrom . import node\nfrom .node import Node"),
        ("ferro.core.engine", "import numpy as np\nimport ferro.cpu.pointwise"),
        ("ferro.core.__init__", "from .mode import current"),
        ("ferro.core.engine", "if TYPE_CHECKING:\n    from ferro.tensor import Tensor"),
        ("ferro.core.engine", "if typing.TYPE_CHECKING:\n    from ferro.tensor import Tensor"),
        ("ferro.ops.pointwise", "from ferro.core import apply"),
        ("ferro.optim.sgd", "from ferro.nn import Parameter"),
        ("ferro.examples.digits", "import ferro as torch"),
    ],
)
def test_an_import_that_points_down_or_is_only_typed_is_free(module: str, source: str) -> None:
    assert upward(source, module) == []


# Circles of imports.


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that import each other round and round (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        path.append(module)
        for other in sorted(edges.get(module, ())):
            if other not in order:
                visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            group = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(group)

    for module in sorted(edges):
        if module not in order:
            visit(module)
    return found


def test_circles_of_imports_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set()}) == [{"b", "c"}]


def test_no_imports_go_round() -> None:
    """Imports in functions and for types count too, except that of Tensor's type alone."""
    paths = {module_name(path).removesuffix(".__init__"): path for path in python_files("ferro")}
    edges: dict[str, set[str]] = {}
    for module, path in paths.items():
        tree = ast.parse(path.read_text("utf-8"))
        for condition in [node for node in ast.walk(tree) if isinstance(node, ast.If) and is_type_checking(node.test)]:
            condition.test = ast.Constant(value=True)  # so that `imports` counts what is imported for types
        for _, name in imports(tree, module_name(path)):
            target = name if name in paths else name.rpartition(".")[0]
            if target in paths and target != module and not name.endswith(".Tensor"):
                edges.setdefault(module, set()).add(target)
    found = [sorted(circle) for circle in circles(edges)]
    assert not found, f"imports go round: {found}"


def test_the_package_file_defines_nothing() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    defined = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    assert set(defined) <= {"__getattr__", "__dir__"}, "ferro/__init__.py only gives names that are defined elsewhere"


# What `import ferro` costs and gives.


def test_import_loads_no_heavy_package_and_warns_of_nothing() -> None:
    code = "import sys, ferro; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not set(HEAVY) & set(done.stdout.split())


MODULES = [module_name(path).removesuffix(".__init__") for path in python_files("ferro")]


@pytest.mark.parametrize("name", MODULES)
def test_the_names_that_a_module_makes_public_exist(name: str) -> None:
    module = importlib.import_module(name)
    public = list(getattr(module, "__all__", ()))
    assert len(public) == len(set(public)), "a name stands twice in __all__"
    assert [n for n in public if not hasattr(module, n)] == []


def test_the_public_names_are_listed() -> None:
    import ferro

    # The tests lean on the second line, in conftest.py.
    needed = {"Tensor", "tensor", "no_grad", "autograd", "nn", "optim", "__version__"}
    needed |= {"manual_seed", "is_grad_enabled", "is_inference_mode_enabled", "get_default_dtype", "get_num_threads"}
    assert needed <= set(ferro.__all__)


# One version.


def test_the_version_is_read_from_one_place() -> None:
    import ferro
    from ferro._version import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert ferro.__version__ == __version__
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "ferro/_version.py"
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__, "CHANGELOG.md begins with another version"


def test_the_installed_version_is_the_one_of_the_source() -> None:
    from ferro._version import __version__

    try:
        installed = importlib.metadata.version("ferro")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ferro is not installed, it runs from the clone")
    assert installed == __version__


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


# Every file.


def test_every_file_begins_by_saying_what_it_owns() -> None:
    files = python_files("ferro", "tests", "bench", "docs", "examples")
    assert [short(path) for path in files if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_no_file_names_a_path_of_a_machine() -> None:
    absolute = re.compile(r"(?<![\w.)}>/~-])/(?:home|root|Users|work|srv|mnt|media|scratch)/\w|\b[A-Z]:\\+Users")
    named = [
        f"{short(path)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if absolute.search(line)
    ]
    assert not named, "\n".join(named)


def test_the_rules_that_find_bugs_are_never_silenced() -> None:
    silenced = re.compile(r"noqa:.*\bF8(?:11|21|41)\b")
    files = python_files("ferro", "tests", "bench", "docs", "examples")
    assert [short(path) for path in files if silenced.search(path.read_text("utf-8"))] == []
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    ignored = [*lint["ignore"], *(rule for rules in lint["per-file-ignores"].values() for rule in rules)]
    assert not [rule for bug in ("F811", "F821", "F841") for rule in ignored if bug.startswith(rule)]


# Budgets of length.

FILE_LINES, FUNCTION_LINES, UNFORMATTED = 400, 40, 60


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from its `def` to its end; its docstring does not count, help should be long."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def functions(node: ast.AST, around: str = "") -> Iterator[tuple[str, int]]:
    """(qualified name, lines of code) of every function below a node of the syntax tree."""
    for child in ast.iter_child_nodes(node):
        name = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{around}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield name[:-1], code_lines(child)
        yield from functions(child, name)


def over_budget(found: dict[str, int], limit: int, exceptions: dict[str, int]) -> list[str]:
    """What is longer than its limit (of an exception: its number), and exceptions that are not needed any more."""
    longer = [
        f"{name} has {lines} lines, the limit is {exceptions.get(name, limit)}: split it by what its parts do"
        for name, lines in found.items()
        if lines > exceptions.get(name, limit)
    ]
    needless = [
        f"{name} is no longer above {limit} lines: take it out of tests/budgets.py"
        for name in exceptions
        if found.get(name, 0) <= limit
    ]
    return longer + needless


def test_budgets_see_what_grows_what_is_new_and_what_is_needless() -> None:
    assert over_budget({"a": 40, "b": 50}, 40, {"b": 50}) == []
    assert len(over_budget({"a": 41, "b": 51}, 40, {"b": 50})) == 2
    assert len(over_budget({"b": 40}, 40, {"b": 50, "gone": 60})) == 2
    source = 'class A:\n    def f(self):\n        """Long\n        help."""\n        def g():\n            pass\n'
    assert dict(functions(ast.parse(source))) == {"A.f": 3, "A.f.g": 2}


def test_no_file_is_long() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in python_files("ferro")
    }
    wrong = over_budget(found, FILE_LINES, LONG_FILES)
    assert not wrong, "\n".join(wrong)


def test_no_function_is_long() -> None:
    found: dict[str, int] = {}
    for path in python_files("ferro"):
        for name, lines in functions(ast.parse(path.read_text("utf-8"))):
            key = f"{path.relative_to(PACKAGE).as_posix()}:{name}"
            found[key] = max(lines, found.get(key, 0))  # (overloads have the name of what they describe)
    wrong = over_budget(found, FUNCTION_LINES, LONG_FUNCTIONS)
    assert not wrong, "\n".join(wrong)


def test_the_formatter_lays_out_nearly_everything() -> None:
    mark = "# fmt: " + "skip"
    files = python_files("ferro", "tests", "bench", "docs", "examples")
    assert sum(path.read_text("utf-8").count(mark) for path in files) <= UNFORMATTED


# The documents.


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{short(path)}: {link}"
        for path in text_files()
        if path.suffix == ".md"
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
        if "://" not in link and not (path.parent / link).exists()
    ]
    assert broken == []
