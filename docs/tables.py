"""Writes docs/internals/operations.md, docs/subgradients.md and docs/vmap.md from the declarations of the operations.

python docs/tables.py            write them (subgradients.md shows PyTorch's values: it needs PyTorch)
python docs/tables.py --check    say whether they are up to date
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import ferro
from ferro.core.op import Op
from ferro.core.samples import ENTRIES, SINGULAR, Arg, Singular

OPERATIONS = """# Operations

Every public operation with declared samples, made from the declarations by `python docs/tables.py`. *Formula* is the
gradient by each input for a cotangent `g`, as it is written in the source (`xp` left out); "composed" means that the
function is written with other operations and takes its derivatives from them. *Order*: "any" is derivatives of any
order, tested to the second against PyTorch and by differences; 1 is the first only, with the reason. *Forward*: how
forward mode follows (see `kind` in `ferro/core/op.py`). All of them run on the CPU. *CUDA*: "yes" if a device "cuda" computes
all of it, forward and backward, as `tests/cuda` sees it in all samples; else the functions that the CPU computes for it.

| operation | formula | order | forward | complex | CUDA | source |
|---|---|---|---|---|---|---|
"""

SUBGRADIENTS = """# Where the derivative is a convention

Some functions have no derivative at some points: `abs` at 0, `max` where two elements are equal, `sqrt` at 0. A program must
still get a number there, so each library picks one: a subgradient, a limit, 0, or nan. Nearly always ferro's number is
PyTorch's.

Each row is one function at one such point. The columns show the gradient of the sum of the results (first), and the
gradient of the sum of these gradients (second), in ferro and in PyTorch; the last one says why. Made from the declarations
(`singular(...)` in `ferro/ops/`) by `python docs/tables.py`.

| operation | at | ferro, first | PyTorch, first | ferro, second | PyTorch, second | why |
|---|---|---|---|---|---|---|
"""

VMAP = """# vmap: what runs as a loop

`ferro.func.vmap` computes all slices of a batch at once: a function of arrays is called once, on arrays that have the
dimension of the batch in front (`ferro/batched/`, see the design). What has no rule for that is called once for every
slice, and a warning says so once. The results are the same; only the time is that of the loop. `tests/ops/test_batched.py`
runs every declared operation under vmap against a loop, with first and second derivatives. Made by `python docs/tables.py`.

A rule may also leave odd arguments to the loop: tensors of one operation with different numbers of dimensions where they
are matrices, weights of classes that differ from slice to slice, label smoothing, padding indices, NumPy's order "F".

## Functions of arrays without a rule

| function | operations that call it, or whose derivatives do |
|---|---|
"""

VMAP_WHOLE = """
## Operations called once for every slice

These compute outside of what can be batched:
"""

VMAP_REFUSED = """
## What raises

The shape of a result must not depend on the data: `nonzero`, `argwhere`, `masked_select` with another mask for each
slice (so `safe_where`, and reading `x[mask]`), `unique`, `unique_consecutive`, `repeat_interleave` with other repeats for
each slice, `one_hot` without `num_classes`. Nor can a program decide by numbers that differ from slice to slice: `if x > 0`,
`x.item()`, `x.tolist()`, `x.numpy()`. A tensor without a batch cannot be changed in place by one that has one, and a view
that has no rule is refused instead of copied. `backward()`, `requires_grad_()` and `retain_grad()` are not for the inside
of a transform.
"""


# The arguments of a declaration that are no formula of a gradient.
OP_OPTIONS = frozenset(inspect.signature(Op.__init__).parameters) - {"vjp"}


class Declared:
    """The declaration of one Op as its source has it: formulas as text, the file, and the options."""

    def __init__(self, call: ast.Call, file: str, returned: dict[str, ast.expr]) -> None:
        self.file = file
        self.formulas: dict[str, str] = {}
        self.options: dict[str, str] = {}
        for keyword in call.keywords:
            if keyword.arg is not None:
                kept = self.options if keyword.arg in OP_OPTIONS else self.formulas
                kept[keyword.arg] = _formula(keyword.value, returned)


def _formula(value: ast.expr, returned: dict[str, ast.expr]) -> str:
    """A formula as text: what a lambda or a function of one line returns (`returned`), or the name of a function."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "elementwise":
        value = value.args[0]
    if isinstance(value, ast.Name):
        value = returned.get(value.id, value)
    text = ast.unparse(value.body if isinstance(value, ast.Lambda) else value).replace("xp.", "")
    return text if len(text) <= 90 else text[:87] + "..."


def _returned(tree: ast.Module) -> dict[str, ast.expr]:
    """What the functions of a file return that do nothing else, by their names."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    lines = {
        node.name: [n for n in node.body if not isinstance(getattr(n, "value", None), ast.Constant)]
        for node in functions
    }
    return {
        name: body[0].value
        for name, body in lines.items()
        if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None
    }


def declarations() -> dict[str, Declared]:
    """Name or path of an operation -> its declaration."""
    found: dict[str, Declared] = {}
    for file in sorted((ROOT / "ferro" / "ops").glob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Op" and node.args
            ):
                continue
            if isinstance(node.args[0], ast.Constant):
                declared = Declared(node, f"ops/{file.name}", _returned(tree))
                paths = [k.value.value for k in node.keywords if k.arg == "path" and isinstance(k.value, ast.Constant)]
                for name in (node.args[0].value, *paths):
                    found[str(name)] = declared
    return found


def operations() -> str:
    """docs/internals/operations.md."""
    from tests.cuda.travels import TRAVELS

    ops = declarations()
    rows = []
    for path in sorted(ENTRIES):
        entry = ENTRIES[path]
        declared = ops.get(path)
        source = declared.file if declared is not None else _source(path)
        if not entry.differentiable:
            formula, order, forward = "not differentiable", "", ""
        elif declared is None:
            formula, order, forward = "composed", _order(entry), "composed"
        else:
            formula = "; ".join(f"{name}: `{text}`" for name, text in declared.formulas.items()) or "none"
            order = _order(entry)
            forward = "own jvp" if "jvp" in declared.options else declared.options.get("kind", "general").lower()
        cuda = f"CPU: {', '.join([f'`{name}`' for name in TRAVELS[path]])}" if path in TRAVELS else "yes"
        cells = (f"`{path}`", formula, order, forward, "yes" if entry.complex else "", cuda, source)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return OPERATIONS + "\n".join(rows) + "\n"


def vmap() -> str:
    """docs/vmap.md."""
    from ferro import cpu
    from ferro.batched.backend import functions as batched
    from ferro.batched.rules import RULES
    from ferro.core.looped import BY_SLICES
    from ferro.core.op import OPS
    from ferro.xp import FORMS

    known = {
        *RULES,
        *vars(type(batched)),
        *[form.__name__ for form in FORMS],
    }  # (a general form is made of what is in RULES)
    callers: dict[str, set[str]] = {}
    for op in OPS.values():
        functions = [op.forward, op.joint, op.jvp, *op.formulas.values()]
        for name in set().union(*[_names(f, 3) for f in functions if f is not None]):
            if (
                callable(getattr(cpu, name, None))
                and name in cpu.__dict__
                and name not in known
                and _is_public(cpu, name)
            ):
                callers.setdefault(name, set()).add(op.name)
    rows = [f"| `{name}` | {', '.join(f'`{c}`' for c in sorted(found))} |" for name, found in sorted(callers.items())]
    whole = "\n".join(f"- `{name}`" for name in sorted(set(BY_SLICES)))
    return VMAP + "\n".join(rows) + "\n" + VMAP_WHOLE + "\n" + whole + "\n" + VMAP_REFUSED


def _names(function: Any, depth: int) -> set[str]:
    """The names that a function's code, and that of the private functions of its module which it calls, takes from `xp`."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return set()
    steps = list(dis.get_instructions(code))
    found = {b.argval for a, b in pairwise(steps) if a.argval == "xp" and b.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    for name in code.co_names if depth else ():
        inner = function.__globals__.get(name)
        if isinstance(inner, FunctionType) and inner.__module__ == function.__module__:
            found |= _names(inner, depth - 1)
    return found


def _is_public(cpu: ModuleType, name: str) -> bool:
    module = getattr(getattr(cpu, name), "__module__", "") or ""
    return module.startswith("ferro.cpu") or isinstance(getattr(cpu, name), np.ufunc)


def _order(entry: Any) -> str:
    return "any" if entry.order == 2 else f"{entry.order} ({entry.why})"


def _source(path: str) -> str:
    function = _lookup(ferro, path)
    module = getattr(function, "__module__", None) or ""
    return module.removeprefix("ferro.").replace(".", "/") + ".py" if module.startswith("ferro.") else ""


def _lookup(library: ModuleType, path: str) -> Any:
    found: Any = library
    for part in path.split("."):
        found = getattr(found, part)
    return found


def subgradients(torch: ModuleType) -> str:
    """docs/subgradients.md."""
    rows = []
    for point in SINGULAR:
        ours, theirs = _gradients(ferro, point), _gradients(torch, point)
        cells = (f"`{point.path}`", point.where, ours[0], theirs[0], ours[1], theirs[1], point.why)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return SUBGRADIENTS + "\n".join(rows) + "\n"


def _gradients(library: Any, point: Singular) -> tuple[str, str]:
    """First and second gradient at a singular point, as text."""
    inputs: list = []

    def convert(x: Any) -> Any:
        if not isinstance(x, Arg):
            return x
        t = library.from_numpy(x.array(np.random.default_rng(0), "float64"))
        if x.grad:
            inputs.append(t.requires_grad_())
        return t

    args = [convert(a) for a in point.sample.args]
    kwargs = {k: convert(v) for k, v in point.sample.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = _lookup(library, point.path)(*args, **kwargs)
            results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if r.requires_grad]
            total = sum(r.abs().sum() if r.is_complex() else r.sum() for r in results)
            first = library.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        except RuntimeError as e:
            return f"raises {type(e).__name__}", ""
        try:
            again = sum(g.sum() for g in first if g is not None and g.requires_grad)
            second = (
                library.autograd.grad(again, inputs, allow_unused=True)
                if hasattr(again, "backward")
                else [None] * len(inputs)
            )
        except RuntimeError as e:
            return _shown(first), f"raises {type(e).__name__}"
    return _shown(first), _shown(second)


def _shown(gradients: Any) -> str:
    return ", ".join("0" if g is None else str(_rounded(g.numpy(force=True).tolist())) for g in gradients)


def _rounded(x: Any) -> Any:
    if isinstance(x, list):
        return [_rounded(y) for y in x]
    return float(f"{x:.4g}") + 0.0 if isinstance(x, float) else x


def main() -> int:
    """Writes or checks the files; 1 if a check fails."""
    import torch

    stale = []
    for name, text in (
        ("internals/operations.md", operations()),
        ("subgradients.md", subgradients(torch)),
        ("vmap.md", vmap()),
    ):
        file = ROOT / "docs" / name
        if "--check" in sys.argv:
            stale += [] if file.exists() and file.read_text() == text else [name]
        else:
            file.write_text(text)
    if stale:
        print(f"out of date: {', '.join(stale)}; run python docs/tables.py")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
