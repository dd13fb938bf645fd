"""Builds the site in build/site: the pages of this folder, and a reference of the public names made from docstrings.

`make site` runs it. Nothing is taken from a network, and a warning is an error.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shutil
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"

# Namespace -> title; each is a page.
NAMESPACES = {
    "ferro": "Functions",
    "ferro.nn": "Layers and losses",
    "ferro.nn.functional": "Layers as functions",
    "ferro.nn.init": "Initial weights",
    "ferro.nn.utils": "Helpers of layers",
    "ferro.nn.utils.rnn": "Sequences of different lengths",
    "ferro.nn.utils.parametrize": "Parametrisations",
    "ferro.nn.utils.prune": "Pruning",
    "ferro.optim": "Optimisers",
    "ferro.optim.lr_scheduler": "Learning rates",
    "ferro.optim.swa_utils": "Averaged weights",
    "ferro.autograd": "Automatic differentiation",
    "ferro.autograd.forward_ad": "Forward mode",
    "ferro.autograd.functional": "Jacobians and Hessians of functions",
    "ferro.autograd.graph": "The graph and its hooks",
    "ferro.func": "Transforms of functions",
    "ferro.linalg": "Linear algebra",
    "ferro.fft": "Fourier transforms",
    "ferro.special": "Special functions",
    "ferro.distributions": "Probability distributions",
    "ferro.masked": "Masked reductions",
    "ferro.sparse": "Sparse tensors",
    "ferro.signal.windows": "Windows",
    "ferro.random": "Random numbers",
    "ferro.utils.data": "Data",
    "ferro.utils.checkpoint": "Checkpoints",
    "ferro.amp": "Mixed precision",
    "ferro.debug": "Debugging tools",
    "ferro.profiler": "Profiler",
    "ferro.testing": "Comparing tensors",
}


def public(module: ModuleType) -> tuple[list[str], list[str]]:
    """The classes and the functions of a namespace, in alphabetical order, with a docstring."""
    classes, functions = [], []
    for name in sorted(getattr(module, "__all__", dir(module))):
        found = getattr(module, name)
        ours = (getattr(found, "__module__", None) or "ferro").startswith("ferro")
        if name.startswith("_") or not ours or not callable(found) or not inspect.getdoc(found) or name == "Tensor":
            continue
        (classes if inspect.isclass(found) else functions).append(name)
    return classes, functions


def heading(text: str, line: str = "-") -> str:
    """A heading of reStructuredText."""
    return f"{text}\n{line * len(text)}\n"


def table(module: str, names: list[str]) -> str:
    """Names with the first line of their docstrings, each a link to the rest."""
    rows = "\n".join(f"   ~{module}.{name}" for name in names)
    return f".. autosummary::\n   :nosignatures:\n\n{rows}\n"


def namespace(dotted: str, title: str, known: set[type]) -> str:
    """The page of a namespace: tables of names first, then each name.  Classes that are known stand in another page, too."""
    module = importlib.import_module(dotted)
    classes, functions = public(module)
    parts = [heading(f"{title}: {dotted}", "="), f".. automodule:: {dotted}\n\n.. currentmodule:: None\n"]
    for kind, names in (("Classes", classes), ("Functions", functions)):
        parts += [heading(kind), table(dotted, names)] if names else []
    parts.append(heading("Details"))
    for name in classes:
        again = "   :no-index:\n" * (getattr(module, name) in known)
        parts.append(f".. autoclass:: {dotted}.{name}\n   :members:\n{again}")
        known.add(getattr(module, name))
    parts += [f".. autofunction:: {dotted}.{name}\n" for name in functions]
    return "\n".join(parts)


def tensor() -> str:
    """The page of the class Tensor."""
    cls = importlib.import_module("ferro").Tensor
    # Names of PyTorch's that ferro lacks are listed too, and raise.
    public = [name for name in sorted(dir(cls)) if not name.startswith("_") and hasattr(cls, name)]
    named = [name for name in public if inspect.getdoc(getattr(cls, name))]
    parts = [
        heading("Tensor", "="),
        heading("Methods and attributes"),
        table("ferro.Tensor", named),
        heading("Details"),
    ]
    members = f"   :members: {', '.join(named)}\n   :inherited-members:\n"
    return "\n".join([*parts, f".. autoclass:: ferro.Tensor\n{members}"])


def gather() -> None:
    """Copies the pages and writes those of the reference."""
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (PAGES / name).write_text((ROOT / name).read_text("utf-8").replace("](docs/", "]("), "utf-8")
    api = PAGES / "api"
    api.mkdir()
    pages = {"tensor": tensor()}
    known: set[type] = set()
    for dotted, title in NAMESPACES.items():
        if importlib.util.find_spec(dotted) is not None:
            pages[dotted.replace(".", "_")] = namespace(dotted, title, known)
    listed = "\n".join(f"   {name}" for name in pages)
    pages["index"] = (
        f"{heading('Reference', '=')}\nThe public names, from their docstrings.\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )
    for name, text in pages.items():
        (api / f"{name}.rst").write_text(text, "utf-8")


def main() -> int:
    """Builds; 0 if there was nothing to warn of."""
    from sphinx.cmd.build import main as sphinx

    gather()
    return sphinx(["-b", "html", "-W", "--keep-going", "-q", "-E", str(PAGES), str(SITE)])


if __name__ == "__main__":
    sys.exit(main())
