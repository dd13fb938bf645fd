"""The words of the house: names that were replaced by the field's own do not come back, in identifiers and names of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(path for folder in ("ferro", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))

# Words of identifiers (between underscores or capitals) and of names of files, and what stands for them now.
WORDS = {
    "blame": "errors",
    "board": "work queue",
    "front": "entry",
    "fronts": "entries",
    "rehearsal": "dry run",
    "rehearse": "dry run",
    "straight": "codegen",
    "team": "worker pool",
    "workshop": "compiler process",
    "worlds": "backends",
}
# Whole identifiers.
NAMES = {
    "Lost": "DetachedMark",
    "Pick": "OutputRef",
    "rows_of": "parallel_version",
    "short_way": "recorder",
}
# Names of files in core, cpu and native.
STEMS = {
    "adding": "accumulate",
    "along": "gather_scatter",
    "leaves": "accumulate_grad",
    "lines": "elementwise",
    "moves": "strided_copy",
    "run": "graph_task",
    "tape_table": "slots",
}
# Identifiers of one part.
OF_PART = {
    "core": {"place": "location", "lost": "detached"},
    "autograd": {"place": "location", "lost": "detached"},
    "native": {"behind": "fallback", "half": "load32", "place_here": "location_here"},
}
# PyTorch's own, and English: what is in front of something.
ALLOWED = ("StraightThrough", "in_front")


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of what a module defines, reads, takes as an argument or imports."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name.rpartition(".")[2]


def parts_of(name: str) -> list[str]:
    """The words of a name: ["small", "fronts"] of smallFronts and small_fronts."""
    for allowed in ALLOWED:
        name = name.replace(allowed, "")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


@cache
def better(name: str, part: str = "") -> str | None:
    """The word to use in the place of one in a name; None if the name is fine."""
    whole = {**NAMES, **OF_PART.get(part, {})}
    if name in whole:
        return whole[name]
    joined = "_".join(parts_of(name))
    if "short_way" in joined:
        return NAMES["short_way"]
    return next((WORDS[word] for word in parts_of(name) if word in WORDS), None)


def part_of(path: Path) -> str:
    """The part of ferro that a file lies in ("core"); empty outside of ferro."""
    folder, *parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if folder == "ferro" else ""


def suspects(path: Path) -> Iterator[tuple[int, str]]:
    """`identifiers` of a file; none, without parsing it, where no old word stands at all."""
    part = part_of(path)
    text, words = path.read_text("utf-8"), {*WORDS, *NAMES, *OF_PART.get(part, {})}
    if re.search("|".join(words), text, re.IGNORECASE):
        yield from identifiers(ast.parse(text))


def test_no_identifier_has_an_old_word() -> None:
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name}: say {word}"
        for path in FILES
        for line, name in sorted(set(suspects(path)))
        if (word := better(name, part_of(path))) is not None
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_is_named_by_an_old_word() -> None:
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}: say {word}"
        for path in FILES
        if (word := better(path.stem) or (STEMS.get(path.stem) if part_of(path) in ("core", "cpu", "native") else None))
        is not None
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name", ["small_fronts", "SmallFront", "_short_way", "Pick", "rows_of", "run_team", "workshop"]
)
def test_an_old_word_is_found(name: str) -> None:
    assert better(name) is not None


@pytest.mark.parametrize("name", ["confront", "in_front", "OneHotCategoricalStraightThrough", "pick", "tensorboard"])
def test_other_words_are_free(name: str) -> None:
    assert better(name) is None


def test_a_word_may_be_old_in_one_part_only() -> None:
    assert better("place", "core") == "location"
    assert better("place", "sparse") is None
    assert [name for _, name in identifiers(ast.parse("import a.b as c\ndef f(x): return x.y(z=1)"))] == [
        *("f", "b", "c", "x", "y", "z", "x"),
    ]
