"""Sphinx's settings; docs/build_site.py runs it on a copy of the pages."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]  # of the copy, build/pages
sys.path.insert(0, str(ROOT))

import ferro

project = "ferro"
author = "The ferro authors"
project_copyright = "The ferro authors"
version = release = ferro.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton"]
myst_heading_anchors = 3
# A copied example lacks prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
autosummary_generate = False
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # a `forward` without one of its own is not worth a row
autodoc_member_order = "alphabetical"
python_maximum_signature_line_length = 100
add_module_names = False
nitpicky = False  # PyTorch's names stand in many docstrings

html_theme = "furo"
html_title = f"ferro {version}"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

_CODE = re.compile(r"(``?)(.+?)\1", re.DOTALL)
_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
_MARKUP = re.compile(r"([\\*|_`])")


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: what stands in backquotes is code, no other sign means anything, examples stay as they are.

    Of a function from outside of ferro the first line is enough.
    """
    if not (getattr(inspect.unwrap(obj), "__module__", None) or "ferro").startswith("ferro"):
        del lines[1:]
    text: list[str] = []
    literal = False
    for line in lines:
        indented = line.startswith(" ")
        if literal and (indented or not line.strip()):
            text.append(line)
            continue
        literal = line.rstrip().endswith("::") or line.lstrip().startswith(">>> ")
        text.append(line if line.lstrip().startswith(">>> ") else escaped(line))
    lines[:] = text


def escaped(line: str) -> str:
    """A line of prose as reStructuredText that shows it as it is."""
    line = _ROLE.sub(r"`\1`", line)
    parts, end = [], 0
    for code in _CODE.finditer(line):
        parts += [_MARKUP.sub(r"\\\1", line[end : code.start()]), f"``{code[2]}``\\ "]
        end = code.end()
    return "".join([*parts, _MARKUP.sub(r"\\\1", line[end:])])


def setup(app: Any) -> None:
    """Connects what this file defines."""
    app.connect("autodoc-process-docstring", plain)
