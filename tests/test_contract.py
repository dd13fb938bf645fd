"""The contract of xp: every `xp.` name that a formula uses exists in ferro.cpu and among the functions of Tensors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ferro
from ferro import cpu, functional

OPS = sorted((Path(ferro.__file__).parent / "ops").glob("*.py"))


def uses(path: Path) -> list[tuple[str, int, bool]]:
    """(name, line, whether in a formula) for every `xp.name` in a function whose first argument is xp."""
    found = []

    def walk(node: ast.AST, formula: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = formula
            if isinstance(child, (ast.Lambda, ast.FunctionDef)):
                arguments = [a.arg for a in (*child.args.posonlyargs, *child.args.args)]
                if arguments[:1] == ["xp"]:
                    inside = len(arguments) > 1 and arguments[1] == "g"
            if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name) and child.value.id == "xp":
                found.append((child.attr, child.lineno, inside))
            walk(child, inside)

    walk(ast.parse(path.read_text()), False)
    return found


@pytest.mark.parametrize("path", OPS, ids=[p.stem for p in OPS])
def test_formulas_use_only_names_that_arrays_and_tensors_have(path: Path) -> None:
    for name, line, formula in uses(path):
        assert hasattr(cpu, name), f"{path.name}:{line}: ferro.cpu has no {name}"
        if formula:
            assert hasattr(functional, name), (
                f"{path.name}:{line}: a formula uses xp.{name}, which ferro.functional has not"
            )
