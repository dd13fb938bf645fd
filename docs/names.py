"""Writes docs/names.md: every public name of PyTorch's namespaces, and whether ferro has it (needs PyTorch).

python docs/names.py             write it
python docs/names.py --check     say whether it is up to date, and name what ferro/absent.py does not explain
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import ferro
from ferro import absent
from ferro.distributed.refused import is_refused

HEAD = """# Names of PyTorch

Every public name of PyTorch {version}, namespace by namespace, made by `python docs/names.py`: the names that ferro has,
and for those that it lacks the nearest substitute, which the error says, too. Most of the names that are there are
compared with PyTorch's in the tests; [differences.md](differences.md) says where they differ.

"""

# PyTorch's own inside: its compilers, tests and generated code, which programs do not name.
INNER = tuple(
    f"torch.{name}"
    for name in [
        "ao.",
        "backends.xeon",
        "bin",
        "contrib",
        "distributed.",
        "export.",
        "fx.",
        "headeronly",
        "include",
        "jit.",
        "lib",
        "masked.maskedtensor.",
        "nativert",
        "nn.backends",
        "nn.intrinsic",
        "nn.qat",
        "nn.quantizable",
        "nn.quantized",
        "multiprocessing.spawn",  # (a function of the package hides the module)
        "onnx.",
        "package.",
        "quantization.",
        "share",
        "testing.",
        "utils.benchmark.",
        "utils.collect_env",
        "utils.data.datapipes",
        "utils.hipify",
        "utils.jit",
        "utils.tensorboard.",
        "utils.viz",
    ]
)


def modules(package: str = "torch") -> Iterator[types.ModuleType]:
    """PyTorch's public modules, a package before what is in it; those that need another package are left out."""
    try:
        module = importlib.import_module(package)
    except ImportError:
        return
    yield module
    for found in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda found: found.name):
        name = f"{package}.{found.name}"
        if not found.name.startswith("_") and not name.startswith(INNER):
            yield from modules(name)


def public(module: types.ModuleType) -> list[str]:
    """The public names of a module of PyTorch: its ``__all__``, or the functions, classes and objects of its own."""
    listed = getattr(module, "__all__", None)
    if listed is None or module.__name__ == "torch":
        listed = {*(listed or ()), *(name for name, value in vars(module).items() if is_own(value))}
    settings = (
        "m" if module.__name__.startswith("torch.backends") else ""
    )  # (an object that stands in a module's place)
    return sorted({name for name in listed if not name.startswith("_") and name != settings})


def is_own(value: Any) -> bool:
    """Whether a value is PyTorch's: no module, no constant, nothing of Python's."""
    if isinstance(value, (types.ModuleType, typing.TypeVar)):
        return (
            isinstance(value, types.ModuleType) and value.__name__.startswith("torch.") and "._" not in value.__name__
        )
    if isinstance(value, type(list[int] | None)):  # an alias of types
        return False
    home = getattr(value, "__module__", None) or type(value).__module__ or ""
    return home.partition(".")[0] == "torch"


def namespaces() -> dict[str, list[str]]:
    """The public names by namespace; a module that has only names of the packages around it is none."""
    found: dict[str, list[str]] = {}
    values: dict[str, set[int]] = {}
    for module in modules():
        names = public(module)
        own = {id(getattr(module, name, None)) for name in names}
        around = [
            values.get(module.__name__.rsplit(".", up)[0], set()) for up in range(1, module.__name__.count(".") + 1)
        ]
        values[module.__name__] = own
        if own and not own <= set().union(*around):
            found[module.__name__] = names
    return found


def row(name: str, home: types.ModuleType | None) -> tuple[bool, str]:
    """Whether ferro has a name, and if not what to use instead ("" where nothing says it)."""
    short = name.removeprefix("torch.")
    if home is ferro.distributed and is_refused(getattr(home, name.rpartition(".")[2], None)):
        return False, "importable, and raises when it is used: one process has nobody to exchange with"
    if home is not None and (hasattr(home, name.rpartition(".")[2]) or counterpart(name) is not None):
        return True, ""
    return False, absent.substitute(short) or ""


def counterpart(name: str) -> types.ModuleType | None:
    """The module of ferro that has the names of PyTorch's; None if there is none."""
    try:
        return importlib.import_module(f"ferro{name.removeprefix('torch')}")
    except ImportError:
        found: Any = ferro
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        return found


def page() -> tuple[str, list[str]]:
    """The document, and the names that nothing explains."""
    import torch

    lines, unexplained = [HEAD.format(version=torch.version.__version__.partition("+")[0])], []
    for space, names in namespaces().items():
        home = counterpart(space)
        rows = {name: row(f"{space}.{name}", home) for name in names}
        there = [name for name, (has, _) in rows.items() if has]
        lines.append(f"## {space}\n\n")
        if home is None:
            text = absent.substitute(space.removeprefix("torch.")) or ""
            unexplained += [space] * (not text)
            lines.append(f"Not in ferro ({len(names)} names): {text}\n\n")
            continue
        lines.append(f"{len(there)} of {len(names)} names: {', '.join(f'`{name}`' for name in there) or 'none'}\n\n")
        groups: dict[str, list[str]] = {}
        for name, (has, text) in rows.items():
            if not has:
                groups.setdefault(text, []).append(name)
                unexplained += [f"{space}.{name}"] * (not text)
        if groups:
            lines.append("| absent | instead |\n|---|---|\n")
            lines += [f"| {', '.join(f'`{n}`' for n in group)} | {text} |\n" for text, group in groups.items()]
            lines.append("\n")
    return "".join(lines).rstrip() + "\n", unexplained


def main() -> None:
    """Writes the document, or checks it."""
    warnings.simplefilter("ignore")
    text, unexplained = page()
    file = ROOT / "docs" / "names.md"
    if unexplained:
        print("ferro/absent.py explains no", *unexplained, sep="\n  ")
    if "--check" not in sys.argv[1:]:
        file.write_text(text, "utf-8")
    elif unexplained or not file.exists() or file.read_text("utf-8") != text:
        raise SystemExit("docs/names.md is not up to date: run python docs/names.py")


if __name__ == "__main__":
    main()
