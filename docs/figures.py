"""Writes the figures of the design page: mechanisms between a call and its machine code, lines of each part, fused derivatives.

python docs/figures.py           write them into docs/internals/design.md
python docs/figures.py --check   say which are more than 5 % off
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "internals" / "design.md"
TOLERANCE = 0.05  # the part of a number by which it may be off in the page
LINES, NAMES = 20, 2  # what it may be off in any case
TARGET = 10  # mechanisms


class Row(NamedTuple):
    """A line of a table: its name, the files that it counts (patterns below the clone), what they are for, and what is without."""

    name: str
    files: tuple[str, ...]
    text: str
    without: str = ""

    def paths(self) -> list[Path]:
        """The files; ValueError for a pattern without any."""
        found: set[Path] = set()
        for pattern in self.files:
            some = {path for path in ROOT.glob(pattern) if path.suffix == ".py"}
            if not some:
                raise ValueError(f"{self.name}: no file is named {pattern}")
            found |= some
        return sorted(found)

    def lines(self) -> int:
        """Of all files together, comments, docstrings and empty lines included."""
        return sum(len(path.read_text("utf-8").splitlines()) for path in self.paths())


# What a reader meets between `x.exp()` and the loop that computes it, and on the way back.
MECHANISMS = (
    Row(
        "declaration",
        ("ferro/core/op.py", "ferro/core/plan.py", "ferro/core/samples.py", "ferro/elementwise.py"),
        "`Op` and `Plan`: formulas, what they save, the samples of the tests",
        "no operation: formulas, tests, forward mode and vmap follow from it",
    ),
    Row(
        "tape",
        (
            "ferro/core/apply.py",
            "ferro/core/views.py",
            "ferro/core/inplace.py",
            "ferro/core/node.py",
            "ferro/core/shown.py",
            "ferro/core/base.py",
            "ferro/core/saved*.py",
            "ferro/core/recording.py",
            "ferro/core/operands.py",
            "ferro/core/packing.py",
            "ferro/core/history.py",
        ),
        "in Python: results, nodes, saved values, versions, views, writes in place",
        "no backward",
    ),
    Row(
        "recorder",
        (
            "ferro/native/jit_recorder*.py",
            "ferro/native/jit_objects.py",
            "ferro/native/jit_nodes.py",
            "ferro/native/recorder.py",
            "ferro/native/slots.py",
            "ferro/core/tape.py",
        ),
        "the tape's most frequent case in machine code, and the table of slots; `FERRO_TAPE=python` leaves it out",
        "`x + y` of 4x4, recorded, 1.04 us instead of 0.34; `relu` 1.30 instead of 0.44",
    ),
    Row(
        "modes",
        ("ferro/core/mode.py",),
        "what a context records",
        "no `no_grad`, autocast or profiler; or an argument more for every call",
    ),
    Row(
        "provenance",
        ("ferro/core/provenance.py", "ferro/core/errors.py"),
        "where the program was, and why a history ended",
        "errors name neither line nor text of the forward; some tens of ns a node less",
    ),
    Row(
        "engine",
        (
            "ferro/core/engine.py",
            "ferro/core/step.py",
            "ferro/core/graph_task.py",
            "ferro/core/parallel.py",
            "ferro/core/owners.py",
            "ferro/core/accumulate*.py",
        ),
        "the order of nodes, sums of gradients (in place where a reference count allows it), branches on threads",
        "no backward. Without its threads 64 branches run one by one; without ownership each sum is a new array",
    ),
    Row(
        "expressions",
        (
            "ferro/expressions.py",
            "ferro/cpu/trace.py",
            "ferro/cpu/bound.py",
            "ferro/core/codegen.py",
            "ferro/cpu/kernels/loops.py",
            "ferro/loop_text.py",
            "ferro/cpu/fusion.py",
            "ferro/cpu/lowering.py",
            "ferro/cpu/kernels/jit_program.py",
            "ferro/cpu/kernels/jit_stream.py",
        ),
        "a formula, called once with symbols; then written out for small arrays, printed as a loop, or run as a program over blocks",
        "for small arrays `overhead` rows 0.91 of PyTorch instead of 0.80 (with entries); 17 kernels by hand; "
        "`g * (1 - y * y)` of 1e6 884 us instead of 510",
    ),
    Row(
        "dispatch",
        (
            "ferro/cpu/elementwise.py",
            "ferro/cpu/array_function.py",
            "ferro/cpu/kernel_routes.py",
            "ferro/cpu/kernels/common.py",
            "ferro/cpu/thresholds.py",
            "ferro/cpu/layouts.py",
        ),
        "NumPy or a kernel: size, dtype, strides, 16-bit widening",
        "NumPy's speed everywhere",
    ),
    Row(
        "entries",
        (
            "ferro/native/jit_entries.py",
            "ferro/native/jit_layouts.py",
            "ferro/native/jit_arrays.py",
            "ferro/native/jit_interpreter.py",
            "ferro/native/jit_fields.py",
            "ferro/native/layout.py",
            "ferro/native/entries.py",
            "ferro/cpu/kernels/entries.py",
        ),
        "calls of kernels without Python: machine code reads the arguments",
        "`add` of small arrays 0.25 us instead of 0.085, `sum` 0.62 instead of 0.09, `softmax` 0.5 instead of 0.11",
    ),
    Row(
        "compiler",
        (
            "ferro/native/jit.py",
            "ferro/native/jit_export.py",
            "ferro/native/kernel.py",
            "ferro/native/compiler_process.py",
            "ferro/native/readiness.py",
            "ferro/native/registry.py",
        ),
        "which kernels there are, and how they are compiled in the background",
        "NumPy's speed everywhere; without its process a first step waits 10 s instead of 0.2",
    ),
    Row(
        "cache",
        ("ferro/native/disk_cache.py", "ferro/native/loader.py"),
        "machine code kept on disk and loaded without Numba",
        "Numba and LLVM in each process, 0.4 s and 125 MB, and all kernels compiled anew",
    ),
    Row(
        "worker pool",
        ("ferro/native/workers.py", "ferro/native/work_queue.py", "ferro/native/jit_work_queue.py"),
        "chunks of a kernel on all cores within a microsecond",
        "threads of Python: a hand-over 50 to 100 us instead of 0.5, training on two threads 1.37 of PyTorch instead of 1.02",
    ),
    Row(
        "allocator",
        ("ferro/cpu/memory.py", "ferro/native/handlers.py", "ferro/native/pages.py"),
        "large arrays reuse memory and begin with a cache line",
        "`np.add` of 1e4 2.34 us instead of 1.44",
    ),
)

# Of native and cpu, what a subject takes by itself.
SUBJECTS = (
    Row(
        "linear algebra",
        (
            "ferro/cpu/linalg*.py",
            "ferro/cpu/determinants.py",
            "ferro/cpu/lapack.py",
            "ferro/cpu/kernels/factor.py",
            "ferro/cpu/kernels/jit_factor.py",
            "ferro/cpu/kernels/jit_linalg.py",
            "ferro/cpu/kernels/triangle.py",
        ),
        "",
    ),
    Row(
        "convolution and pooling",
        (
            "ferro/cpu/*convolution*.py",
            "ferro/cpu/*pooling*.py",
            "ferro/cpu/kernels/*conv*.py",
            "ferro/cpu/kernels/*winograd*.py",
            "ferro/cpu/kernels/jit_pool.py",
        ),
        "",
    ),
    Row(
        "recurrent layers and CTC",
        (
            "ferro/cpu/*recurrent*.py",
            "ferro/cpu/*ctc*.py",
            "ferro/cpu/kernels/*recurrent*.py",
            "ferro/cpu/kernels/*ctc*.py",
            "ferro/cpu/kernels/jit_lstm.py",
        ),
        "",
    ),
    Row(
        "random numbers",
        (
            "ferro/cpu/box_muller.py",
            "ferro/cpu/kernels/*random*.py",
            "ferro/cpu/kernels/jit_normal.py",
            "ferro/cpu/kernels/rejection.py",
            "ferro/cpu/kernels/jit_circles.py",
        ),
        "",
    ),
    Row("arenas of memory plans", ("ferro/native/arena.py", "ferro/native/handlers.py"), ""),
)
ROOM = 18_500  # lines that native and cpu were meant to have

PARTS = (
    Row("native", ("ferro/native/*.py",), "machine code: compile, export, load, cache, entries, recorder, workers"),
    Row("cpu, functions", ("ferro/cpu/*.py",), "functions of NumPy arrays"),
    Row("cpu, loops", ("ferro/cpu/kernels/jit_*.py",), "bodies of kernels"),
    Row(
        "cpu, around the loops",
        ("ferro/cpu/kernels/[!j]*.py", "ferro/cpu/kernels/__init__.py"),
        "which kernel, for which arrays",
    ),
    Row(
        "cuda",
        ("ferro/cuda/*.py",),
        "arrays of a GPU: twins of the CPU's formulas, printed kernels, PyTorch's questions",
    ),
    Row("core", ("ferro/core/**/*.py",), "the tape and the engine"),
    Row("ops", ("ferro/ops/**/*.py",), "operations: formulas and samples"),
    Row("batched", ("ferro/batched/**/*.py",), "arrays for vmap"),
    Row("sparse", ("ferro/sparse/**/*.py",), "sparse tensors"),
    Row("autograd, func", ("ferro/autograd/**/*.py", "ferro/func/**/*.py"), "backward, forward mode, transforms"),
    Row("nn", ("ferro/nn/**/*.py",), "layers"),
    Row("optim", ("ferro/optim/**/*.py",), "optimisers"),
    Row("distributions", ("ferro/distributions/**/*.py",), "random variables"),
)


class Measured(NamedTuple):
    """A row with its number of lines."""

    name: str
    lines: int
    text: str
    without: str = ""


def lines_of(pattern: str) -> int:
    """The lines of all files of a pattern."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in ROOT.glob(pattern))


def mechanisms() -> list[Measured]:
    """The rows of the table of mechanisms."""
    return [Measured(row.name, row.lines(), row.text, row.without) for row in MECHANISMS]


def parts() -> list[Measured]:
    """The rows of the table of parts, and below them the rest and the sums."""
    found = [Measured(row.name, row.lines(), row.text) for row in PARTS]
    everything = lines_of("ferro/**/*.py")
    rest = everything - sum(row.lines for row in found)
    return [
        *found,
        Measured(
            "all others", rest, "Tensor, utils, serialization, debug, profiler, stand-ins for namespaces of PyTorch"
        ),
        Measured("ferro", everything, "all of the above"),
        Measured("tests", lines_of("tests/**/*.py"), "beside the package"),
    ]


def count_operations() -> int:
    """How many operations are declared in ferro/ops."""
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Op"
        for path in ROOT.glob("ferro/ops/*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def fused_derivatives() -> list[str]:
    """The functions of arrays that formulas of ferro/ops call for a whole derivative: a second form beside that for Tensors."""
    texts = [path.read_text("utf-8") for path in sorted(ROOT.glob("ferro/ops/*.py"))]
    return sorted({name for text in texts for name in re.findall(r"\bxp\.(\w+_vjp)\b", text)})


def table(rows: list[Measured], head: str) -> str:
    """Rows as a table."""
    more = any(row.without for row in rows)
    body = "".join(f"| {row.name} | {row.lines:,} | {row.text} |{f' {row.without} |' * more}\n" for row in rows)
    return f"| {head} | lines | what it is |{' without it |' * more}\n|---|---|---|{'---|' * more}\n{body}"


def room() -> list[Measured]:
    """The lines of native and cpu, and of subjects in them."""
    whole = Measured("native and cpu", lines_of("ferro/native/**/*.py") + lines_of("ferro/cpu/**/*.py"), "")
    return [whole, *[Measured(row.name, row.lines(), "") for row in SUBJECTS]]


def room_text() -> str:
    """The same as a sentence."""
    whole, *subjects = room()
    listed = ", ".join(f"{row.name} {row.lines:,}" for row in subjects)
    return f"`native` and `cpu` have {whole.lines:,} lines; {ROOM:,} were wanted. Subjects in them: {listed}.\n"


def blocks() -> dict[str, str]:
    """What stands between the marks of the page, by the name of the mark."""
    fused = fused_derivatives()
    return {
        "mechanisms": f"{len(MECHANISMS)} mechanisms; the target is {TARGET}.\n\n{table(mechanisms(), 'mechanism')}",
        "parts": f"{count_operations()} operations are declared.\n\n{table(parts(), 'part')}",
        "room": room_text(),
        "fused": f"{len(fused)} derivatives have both: {', '.join(f'`{name}`' for name in fused)}.\n",
    }


def between(page: str, name: str) -> tuple[int, int]:
    """From where to where the text between the marks of that name goes; ValueError if the page has none."""
    found = re.search(rf"<!-- {name}: python docs/figures.py -->\n(.*?)<!-- end -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE.name} has no marks for {name!r}")
    return found.span(1)


def written(page: str, name: str) -> str:
    """What stands between the marks of that name."""
    start, end = between(page, name)
    return page[start:end]


def off(said: int, true: int, slack: int) -> bool:
    """Whether a number of a page is too far from the true one."""
    return abs(said - true) > max(slack, TOLERANCE * true)


def stale(page: str) -> list[str]:
    """What of a page is missing or more than 5 % off."""
    wrong = []
    for name, rows in (("mechanisms", mechanisms()), ("parts", parts())):
        shown = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \|", written(page, name), re.MULTILINE))
        for row in rows:
            said = int(shown.pop(row.name, "0").replace(",", ""))
            if off(said, row.lines, LINES):
                wrong.append(f"{name}, {row.name}: {said:,} lines, it has {row.lines:,}")
        wrong += [f"{name}, {row}: there is no such row" for row in shown]
    said = [int(number.replace(",", "")) for number in re.findall(r"\b[\d,]+\d\b", written(page, "room"))]
    true = [room()[0].lines, ROOM, *[row.lines for row in room()[1:]]]
    if len(said) != len(true) or any(map(off, said, true, [LINES] * len(true))):
        wrong.append(f"room: {said} are named, there are {true}")
    for name, true in (("parts", count_operations()), ("fused", len(fused_derivatives()))):
        said = re.match(r"(\d+) ", written(page, name))
        if said is None or off(int(said[1]), true, NAMES):
            wrong.append(f"{name}: {said and said[1]} are named, there are {true}")
    return wrong


def main() -> int:
    """Writes or checks the figures; 1 if a check fails."""
    page = PAGE.read_text("utf-8")
    if "--check" in sys.argv:
        wrong = stale(page)
        print("\n".join([*wrong, "run python docs/figures.py"] if wrong else ["up to date"]))
        return int(bool(wrong))
    for name, text in blocks().items():
        start, end = between(page, name)
        page = page[:start] + text + page[end:]
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
