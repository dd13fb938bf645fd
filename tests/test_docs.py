"""The documentation is executed: docs/internals/adding_an_operation.md block by block, docstring examples of the public modules."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro.backends.switches import set_for_a_while
from ferro.core import op, samples
from ferro.cpu import array_function

ROOT = Path(__file__).parent.parent


@pytest.fixture
def undeclared() -> Any:
    """Takes back what a page declares, so that no other test sees it."""
    tables: list[dict] = [samples.ENTRIES, op.OPS, array_function.DECLARED]
    known = [dict(table) for table in tables]
    yield
    for table, before in zip(tables, known, strict=True):
        table.clear()
        table.update(before)


def test_adding_an_operation_works_as_written(undeclared: None) -> None:
    text = (ROOT / "docs" / "internals" / "adding_an_operation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "adding_an_operation.md", "exec"), names)
    assert "softclip" in op.OPS


MODULES = [
    m.name
    for m in pkgutil.walk_packages(ferro.__path__, "ferro.")
    if ".examples" not in m.name and ".kernels" not in m.name
]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")  # each of them says so, as PyTorch's do
@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_are_true(name: str) -> None:
    module = importlib.import_module(name)
    with set_for_a_while(ferro.backends):  # an example may ask for a precision
        failed, tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0, f"{failed} of {tried} examples in {name} failed"


def test_the_tables_of_operations_and_subgradients_are_up_to_date() -> None:
    pytest.importorskip("torch", reason="the table of subgradients shows PyTorch's values, and it is not installed")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "tables.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_figures_of_the_design_page_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "figures.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_test_that_a_document_names_exists() -> None:
    sources = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    defined = set(re.findall(r"def (test_\w+)", sources))
    named = set(re.findall(r"\btest_\w+\b(?!\.py)", (ROOT / "docs" / "internals" / "autograd.md").read_text()))
    assert len(named) > 300
    assert named - defined == set()
