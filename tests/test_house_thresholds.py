"""The rule of the house for sizes: what a size is compared with is an entry of one table, with its unit, meaning and bench."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import thresholds

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ferro"
TABLES = ("cpu/thresholds.py", "native/thresholds.py")
FILES = [
    path
    for part in ("core", "cpu", "native")
    for path in sorted((PACKAGE / part).rglob("*.py"))
    if path.relative_to(PACKAGE).as_posix() not in TABLES
]

# Numbers above 256 that are compared with something all the same; this list may only shrink.
EXCEPTIONS = {
    # no sizes: flags, versions, numbers of a random generator, limits of formats, degrees, depths
    "core/operands.py": {"4096"},
    "core/nested.py": {"DEEPEST"},
    "core/twister.py": {"1 << 14", "1 << 28", "_WORDS"},
    "cpu/fusion.py": {"_READABLE"},
    "cpu/pointwise.py": {"512"},
    "cpu/reductions.py": {"-500"},
    "cpu/special.py": {"FAR"},
    "cpu/trace.py": {"_LONG"},
    "native/handlers.py": {"_BINARY_INTERFACE"},
    "native/jit_export.py": {"_COMMON"},
    "native/layout.py": {"_NUMPY_ABI"},
    "native/packaged.py": {"_LONGEST"},
    # how the loops of one kernel are blocked
    "cpu/kernels/jit_conv_weight.py": {"_PLACES"},
    "cpu/kernels/jit_gemm.py": {"NEAR", "_DEEP", "_PANELS"},
    "cpu/kernels/jit_random.py": {"_CHUNK"},
    "cpu/kernels/jit_rows.py": {"SHORT"},
}


def number(node: ast.expr) -> int | None:
    """The value of a literal integer, or of an expression of some; None for what is none, or beyond 32 bits."""
    known = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(part, known) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "limit", "eval"), {})
    return value if type(value) is int and abs(value) < 1 << 31 else None


def own_constants(tree: ast.Module) -> dict[str, int]:
    """The integers above 256 that a file gives names to, alone or side by side."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for name, given in pairs:
                size = number(given)
                if isinstance(name, ast.Name) and size is not None and abs(size) > 256:
                    found[name.id] = size
    return found


def limits(tree: ast.Module) -> Iterator[str]:
    """What is written where a number above 256 is compared with something, divides it, or bounds it."""
    own = own_constants(tree)
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            sides = [node.left, node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            sides = node.args
        for side in sides:
            size = number(side)
            if (isinstance(side, ast.Name) and side.id in own) or (size is not None and abs(size) > 256):
                yield ast.unparse(side)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("LARGE = 1 << 15\ndef f(x):\n    return x.size < LARGE", ["LARGE"]),
        ("def f(x):\n    return x.size > 4096", ["4096"]),
        ("A, B = 512, 3\ndef f(x):\n    return min(x.size // A, B)", ["A"]),
        ("def f(x):\n    return max(1 << 20, len(x))", ["1 << 20"]),
        ("from ferro.cpu.thresholds import SUM_LEAST\ndef f(x):\n    return x.size < SUM_LEAST", []),
        ("def f(x):\n    return x.size < 16 or x < 1 << 31 or x.itemsize == 4", []),
    ],
)
def test_a_limit_is_found(source: str, found: list[str]) -> None:
    assert list(limits(ast.parse(source))) == found


def test_sizes_are_compared_with_entries_of_the_table() -> None:
    wrong, gone = [], []
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        found, allowed = set(limits(ast.parse(path.read_text("utf-8")))), EXCEPTIONS.get(name, set())
        wrong += [f"{name}: {limit} belongs into ferro/cpu/thresholds.py" for limit in sorted(found - allowed)]
        gone += [f"{name}: {limit} is no exception any more: take it off the list" for limit in sorted(allowed - found)]
    assert not wrong + gone, "\n".join(wrong + gone)
    assert EXCEPTIONS.keys() <= {path.relative_to(PACKAGE).as_posix() for path in FILES}


def test_every_entry_says_its_unit_its_meaning_and_what_shows_it() -> None:
    assigned = [
        line.partition(" = ")[0]
        for table in TABLES
        for line in (PACKAGE / table).read_text("utf-8").splitlines()
        if re.match(r"[A-Z_]+ =", line)
    ]
    assert sorted(thresholds.entries()) == sorted(assigned)  # each once, and in the form that the page is made from
    timed = thresholds.WAYS.keys() | thresholds.PARTS.keys()
    for entry in thresholds.entries().values():
        program = entry.shown_by.split()[0]
        assert (entry.shown_by == "bench/thresholds.py") == (entry.name in timed), entry.name
        assert program == "OpenBLAS" or (ROOT / program).is_file(), entry.name
    assert timed <= set(assigned)


def test_every_entry_is_used() -> None:
    text = "\n".join(path.read_text("utf-8") for path in FILES)
    assert [name for name in thresholds.entries() if not re.search(rf"\b{name}\b", text)] == []


def test_the_page_lists_all_entries() -> None:
    page = thresholds.PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE)
    values = {e.name: e.value for e in thresholds.entries().values()}
    assert dict(rows) == {
        name: str(value) if isinstance(value, int) else ", ".join(map(str, value)) for name, value in values.items()
    }


@pytest.mark.parametrize("name", ["SUM_LEAST", "INDEX_LIST", "ORDER_LEAST"])
def test_both_sides_of_a_threshold_give_the_same(name: str) -> None:
    import numpy as np

    run = thresholds.WAYS[name](2 * thresholds.entries()[name].value)
    results = []
    for value in (thresholds.NEVER, 0):
        with thresholds.moved(name, value):
            results.append(run())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
