"""Runs the examples of the pages, pastes what they print and keeps what they draw: `python docs/pages.py docs/quickstart.md`.

A block of Python runs after those before it, in one namespace for each page.  A block of text right behind it shows what it
prints: spaces and line breaks count as one, and `...` stands for anything; in a block of "text figures-vary", any number
stands for any other.  A comment in the first line of code names the file that errors speak of.  A picture that a page shows
as images/NAME is drawn by an example that writes NAME.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text(?P<vary> figures-vary)?\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
PICTURE = re.compile(r"\]\(images/([\w.]+)\)")
SAME = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Printed(NamedTuple):
    """One example: where its output stands in the page, what is shown there, what it prints."""

    span: tuple[int, int]
    shown: str | None
    printed: str
    figures_vary: bool

    def agrees(self) -> bool:
        """Whether the page shows what is printed; a page that shows nothing says nothing about it."""
        if self.figures_vary:
            return words(self.shown or "") == words(self.printed)
        return self.shown is None or doctest.OutputChecker().check_output(self.shown, self.printed, SAME)


def words(text: str) -> list[str]:
    """The words of a text in alphabetical order, without its figures, units and lines (the rows of a table may change places)."""
    return sorted(w for w in text.split() if re.fullmatch(r"-+|[\d.]+(?:us|ms|s|%)?", w) is None)


def pages() -> list[Path]:
    """The pages with examples that run as they stand."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in found if EXAMPLE.search(page.read_text("utf-8"))]


def run(page: Path) -> Iterator[Printed]:
    """Runs the examples of a page, in the current folder."""
    names: dict[str, Any] = {"__name__": page.stem}
    for example in EXAMPLE.finditer(page.read_text("utf-8")):
        code = example["code"]
        named = re.match(r"# (\w+\.py)\n", code)
        file = named[1] if named else f"{page.stem}.py"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # errors show the lines
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, file, "exec"), names)
        finally:
            linecache.cache.pop(file, None)
        yield Printed(example.span("shown"), example["shown"], printed.getvalue(), bool(example["vary"]))


def wrapped(printed: str) -> str:
    """Output whose long lines are broken between words."""
    lines = [
        textwrap.wrap(line, 80, break_long_words=False, break_on_hyphens=False) if len(line) > 92 else [line]
        for line in printed.splitlines()
    ]
    return "\n".join(line for some in lines for line in some).rstrip() + "\n"


def main() -> None:
    """Brings the pages that are named up to date."""
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for example in reversed(list(run(page))):
                if not example.agrees():
                    start, end = example.span
                    text = text[:start] + wrapped(example.printed) + text[end:]
            for name in PICTURE.findall(text):
                if Path(name).exists():
                    shutil.copy(name, ROOT / "docs" / "images" / name)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
