"""The pages for users: their examples run and print what the pages show, their pictures are what the programs draw."""

from __future__ import annotations

import gc
import textwrap
from pathlib import Path

import pytest

import ferro
from docs import build_site, conf, pages
from ferro.backends.switches import set_for_a_while


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with set_for_a_while(ferro.backends):
        for example in pages.run(page):
            assert example.agrees(), f"{page.name} shows\n{example.shown}\nand its example prints\n{example.printed}"
    gc.collect()  # (what a page has left of a vmap changes which way the next one takes)
    for name in pages.PICTURE.findall(page.read_text("utf-8")):
        kept = pages.ROOT / "docs" / "images" / name
        assert kept.stat().st_size < 100_000
        # Another page may have drawn it.  (The points of a bitmap depend on fonts and rounding.)
        if kept.suffix == ".svg" and Path(name).exists():
            assert kept.read_text("utf-8") == Path(name).read_text("utf-8")


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = (pages.ROOT / "docs" / "index.md").read_text("utf-8").split()
    docs = pages.ROOT / "docs"
    found = {p.relative_to(docs).with_suffix("").as_posix() for p in docs.rglob("*.md")} - {"index"}
    assert found - set(listed) == set()


def test_only_the_output_of_an_example_is_compared_and_figures_where_they_are_said_to_vary() -> None:
    same = pages.Printed((0, 0), "a 1.5us 2\nb", "b  17.1ms  2%\na", figures_vary=True)
    assert same.agrees()
    assert not same._replace(printed="b 1").agrees()
    assert not same._replace(figures_vary=False).agrees()
    assert same._replace(shown="a ... c", printed="a\nb c", figures_vary=False).agrees()
    assert same._replace(shown=None, figures_vary=False).agrees()


def test_the_reference_has_the_public_names_of_a_namespace() -> None:
    page = build_site.namespace("ferro.nn", "Layers", set())
    assert ".. autoclass:: ferro.nn.Linear\n   :members:\n" in page
    assert "ferro.nn.Tensor" not in page
    assert ":no-index:" not in page
    assert ":no-index:" in build_site.namespace("ferro.nn", "Layers", {ferro.nn.Linear})
    assert "backward, " in build_site.tensor()


def test_docstrings_are_shown_as_they_are_written() -> None:
    assert conf.escaped("a *b* |c| d_ `e` :func:`f`") == r"a \*b\* \|c\| d\_ ``e``\  ``f``\ "
    lines = ["x_ is", "", "Example::", "", "    >>> x_ * 2", "", "y*"]
    conf.plain(None, "function", "f", ferro.sum, None, lines)
    assert lines == [r"x\_ is", "", "Example::", "", "    >>> x_ * 2", "", r"y\*"]
    lines = ["Of another library.", "", "*Not* ours."]
    conf.plain(None, "function", "f", textwrap.wrap, None, lines)
    assert lines == ["Of another library."]
