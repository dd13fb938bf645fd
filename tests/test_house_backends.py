"""The rules of the house for backends: operations work on any type of arrays, and the core knows NumPy's in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ferro

PACKAGE = Path(ferro.__file__).parent
OPS = {path.stem: path for path in sorted((PACKAGE / "ops").glob("*.py"))}
CORE = {path.stem: path for path in sorted((PACKAGE / "core").glob("*.py"))}

# Calls of NumPy's functions that may stay until somebody takes one out: these numbers only become smaller.
IN_FORMULAS: dict[str, int] = {}
ON_DATA: dict[str, int] = {
    "new_tensors": 1,
    "ctc": 1,
    "repeating": 1,
    "mistakes": 1,
    "storage": 1,
}
# (what asks is about memory: where it lies, or that a batch has several slices)
ASKING: dict[str, int] = {
    "searching": 1,
    "keys": 1,
    "random_filling": 1,
    "sampling": 2,
}

ABOUT = {"dtype", "itemsize", "ndim", "shape", "size", "strides"}  # what is known of an array without reading it


def calls_of_numpy(tree: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of np.<...>, and whether they stand in a function of `xp`."""

    def walk(node: ast.AST, formula: bool) -> Iterator[tuple[ast.Call, bool]]:
        for child in ast.iter_child_nodes(node):
            inside = formula
            if isinstance(child, (ast.Lambda, ast.FunctionDef)):
                inside = inside or "xp" in [a.arg for a in (*child.args.posonlyargs, *child.args.args)]
            if isinstance(child, ast.Call):
                root: ast.AST = child.func
                while isinstance(root, ast.Attribute):
                    root = root.value
                if isinstance(root, ast.Name) and root.id == "np" and root is not child.func:
                    yield child, inside
            yield from walk(child, inside)

    return walk(tree, False)


def reads(node: ast.AST) -> bool:
    """Whether an expression reads the elements of the array of a tensor, `<tensor>._data`."""
    if isinstance(node, ast.Attribute):
        if node.attr == "_data":
            return True
        if node.attr in ABOUT:
            return False
    return any(reads(child) for child in ast.iter_child_nodes(node))


def asks(tree: ast.AST) -> int:
    """How often a file asks which backend it is on: compares `xp` with something, or the type of an array with NumPy's."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            others = [s for s in sides if s not in ("xp", "None")]
            found += ("xp" in sides and bool(others)) or any(s in ("np.ndarray", "HOST", "cpu") for s in sides)
    return found


def shrinks(found: dict[str, int], allowed: dict[str, int], what: str) -> None:
    """Asserts that no file has more than is allowed, and that what is allowed is needed."""
    found = {name: n for name, n in found.items() if n}
    more = {name: n for name, n in found.items() if n > allowed.get(name, 0)}
    assert not more, f"{what}: more than before in {more}; allowed are {allowed}"
    fewer = {name: found.get(name, 0) for name, n in allowed.items() if found.get(name, 0) < n}
    assert not fewer, f"{what}: fewer than before, well done; lower the numbers in this file to {fewer}"


@pytest.mark.parametrize("path", OPS.values(), ids=OPS)
def test_operations_import_nothing_of_the_arrays_of_numpy(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        for name in names:
            full = f"{module}.{name}".lstrip(".")
            assert not f"{full}.".startswith("ferro.cpu."), (
                f"{path.name} imports {full}: go through xp, or core/layout.py"
            )


def test_formulas_call_functions_of_xp_and_not_of_numpy() -> None:
    found = {stem: sum(inside for _, inside in calls_of_numpy(ast.parse(p.read_text()))) for stem, p in OPS.items()}
    shrinks(found, IN_FORMULAS, "calls of NumPy's functions in functions of xp")


def test_operations_hand_no_array_of_a_tensor_to_numpy() -> None:
    found = {
        stem: sum(any(map(reads, [*c.args, *c.keywords])) for c, _ in calls_of_numpy(ast.parse(p.read_text())))
        for stem, p in OPS.items()
    }
    shrinks(found, ON_DATA, "NumPy's functions of the arrays of tensors")


def test_operations_do_not_ask_which_backend_they_are_on() -> None:
    shrinks({stem: asks(ast.parse(p.read_text())) for stem, p in OPS.items()}, ASKING, "questions which backend it is")


def test_the_core_knows_the_arrays_of_numpy_in_one_file() -> None:
    for stem, path in CORE.items():
        for node in ast.walk(ast.parse(path.read_text())):
            sides = (
                [node.left, *node.comparators]
                if isinstance(node, ast.Compare)
                else node.args[1:]
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
                else []
            )
            named = [
                n
                for side in sides
                for n in ast.walk(side)
                if isinstance(n, ast.expr) and ast.unparse(n).endswith("ndarray")
            ]
            assert not named, f"core/{stem}.py:{named[0].lineno} names ndarray: use HOST of core/backend.py"
    assert "np.ndarray" in CORE["backend"].read_text()


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("xp is cpu", 1),
        ("xp is not backend.functional", 1),
        ("type(a) is np.ndarray", 1),
        ("xp is None", 0),
        ("a is b", 0),
    ],
)
def test_a_question_is_found(source: str, count: int) -> None:
    assert asks(ast.parse(source)) == count


@pytest.mark.parametrize(
    ("source", "formula", "data"),
    [
        ("lambda xp, g: np.exp(g)", 1, 0),
        ("def f(xp, g):\n    return [np.linalg.norm(g)]", 1, 0),
        ("np.exp(x._data)", 0, 1),
        ("np.zeros(x._data.shape, x._data.dtype)", 0, 0),
        ("np.where(x._data < 0, 1, 2)", 0, 1),
        ("np.float64", 0, 0),
    ],
)
def test_a_call_of_numpy_is_found(source: str, formula: int, data: int) -> None:
    calls = list(calls_of_numpy(ast.parse(source)))
    assert sum(inside for _, inside in calls) == formula
    assert sum(any(map(reads, c.args)) for c, _ in calls) == data
