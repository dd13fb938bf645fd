"""Writes docs/internals/cuda_kernels.md: what the kernels by hand take of a GPU, and the bytes and operations of their functions.

python docs/cuda_kernels.py           compile them (nvcc or NVRTC; no GPU is needed) and write the page
python docs/cuda_kernels.py draws     compile those of some families, and leave what the page says of others
python docs/cuda_kernels.py --tables  leave what the page says of kernels, and write the rest
python docs/cuda_kernels.py --check   say whether all that follows from the registers on the page is up to date
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "internals" / "cuda_kernels.md"
MEASURED = PAGE.with_name("cuda_measured.json")  # written by `make bench-cuda` on a machine with a GPU
BLOCK = re.compile(r"(<!-- (\w+): python docs/cuda_kernels\.py -->\n).*?(<!-- end -->)", re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (\d+) / (\d+) / (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)
THREADS = 256
BANDWIDTH = 3.35e12  # bytes a second of an H100 SXM
ELEMENTS = 8192 * 1024
# Of functions of an array of n elements: arrays read and written (of n elements), operations an element, launches.
COSTS: dict[str, tuple[float, float, float, str]] = {
    "sum, mean, prod, amax, amin": (1, 0, 1, "1; 2 where few results take many elements"),
    "max and min along a dimension, argmax, argmin": (1, 0, 3, "1; 2 where few results take many elements"),
    "vector_norm": (1, 0, 2, "1; 2 where few results take many elements"),
    "softmax, log_softmax": (2, 1, 8, "1"),
    "softmax, log_softmax, backward": (4, 1, 5, "1"),
    "layer_norm, group_norm": (3, 1, 8, "1"),
    "rms_norm": (2, 1, 6, "1"),
    "layer_norm, group_norm, backward": (6, 1, 18, "1, and 2 for weight and bias"),
    "rms_norm, backward": (6, 1, 14, "1, and 2 for the weight"),
    "batch_norm": (2, 1, 7, "3"),
    "batch_norm, backward": (4, 1, 13, "3"),
    "cross_entropy": (1, 0, 4, "1; 1 or 2 and a division for the mean"),
    "cross_entropy, backward": (1, 1, 5, "1"),
    "max_pool2d, avg_pool2d, windows of 2 x 2 side by side": (1, 0.75, 1, "1"),
    "avg_pool2d, backward": (0.25, 1, 1, "1"),
    "SGD with momentum, Adam, a step": (4, 3, 12, "1 for all parameters of a group and dtype"),
    "index_add, embedding's backward, of n rows of 1": (1, 0, 1, "1 or 2, and those of the sort"),
    "embedding, index_select": (1, 1, 0, "1"),
    "rand, randn": (0, 1, 30, "1"),
    "dropout, forward or backward": (1, 1, 25, "1"),
}
RATE = 67e12  # operations a second of an H100 in float32, without tensor cores
HEADS, LENGTH, WIDTH = 64, 2048, 64  # of attention: queries and keys of each head, columns
# Arrays read and written, products of two numbers for each query, key and column.
ATTENTION = {"attention": (3, 1, 2), "attention, backward": (8, 3, 9)}
Said = dict[tuple[str, str], tuple[list[int], int, int]]  # by kernel and dtype: registers, shared memory, spills


def occupancy(registers: int, shared: int, threads: int) -> float:
    """The share of the 64 warps of a multiprocessor of an H100 that blocks of this kind fill."""
    warps = threads // 32
    of_registers = 65536 // (-(-registers // 8) * 8 * 32 * warps)
    of_shared = (228 << 10) // (shared + 1024)
    return min(of_registers, of_shared, 64 // warps, 32) * warps / 64


def threads_of(name: str) -> int:
    """The threads of a block of a kernel."""
    return 128 if name.startswith("attention") and name.endswith("_tensor") else THREADS


def said_by(text: str) -> Said:
    """What the page says of registers, shared memory and spills."""
    found: Said = {}
    for name, dtype, a, b, c, shared, spills in ROW.findall(text):
        found[name, dtype] = [int(a), int(b), int(c)], int(shared), int(spills)
    return found


def compiled(*wanted: str) -> Said:
    """The same from the compiler, of some families or all."""
    from tests.cuda import compiling, hand

    found: Said = {}
    families = hand.families()
    if missing := set(wanted) - set(families):
        raise SystemExit(f"there are no kernels of {sorted(missing)}, but of {sorted(families)}")
    for make, dtype in [(families[name], dtype) for name in wanted or families for dtype in hand.DTYPES]:
        for one in compiling.compiled(make(dtype), *compiling.ARCHITECTURES):
            registers, shared, spills = found.get((one.name, dtype), ([0, 0, 0], 0, 0))
            k = compiling.ARCHITECTURES.index(one.architecture)
            registers[k] = max(registers[k], one.registers)
            found[one.name, dtype] = registers, max(shared, one.shared), max(spills, one.spills)
    return found


def names() -> list[tuple[str, str]]:
    """All kernels by hand, each with its dtypes."""
    from tests.cuda import hand
    from tests.cuda.compiling import _SIGNATURE

    found = []
    for make in hand.families().values():
        kernels: dict[str, list[str]] = {}
        for dtype in hand.DTYPES:
            for name in dict.fromkeys([name for text in make(dtype) for _, name, _ in _SIGNATURE.findall(text)]):
                kernels.setdefault(name, []).append(dtype)
        found += [(name, dtype) for name, some in kernels.items() for dtype in some]
    return found


def kernels(said: Said) -> str:
    """The table of kernels."""
    lines = [
        "| kernel | dtype | registers sm_80 / sm_90 / sm_100 | shared bytes | spilled bytes | occupancy, sm_90 |",
        "|---|---|---|---|---|---|",
    ]
    for name, dtype in names():
        if (name, dtype) not in said:
            raise SystemExit(f"{PAGE.name} does not say what {name} of {dtype} takes: run python docs/cuda_kernels.py")
        (a, b, c), shared, spills = said[name, dtype]
        filled = round(100 * occupancy(b, shared, threads_of(name)))
        lines.append(f"| `{name}` | {dtype} | {a} / {b} / {c} | {shared} | {spills} | {filled} % |")
    return "\n".join(lines) + "\n"


def roofline() -> str:
    """The table of bytes and operations."""
    taken = json.loads(MEASURED.read_text())["microseconds"] if MEASURED.exists() else {}
    lines = [
        "| function | arrays read + written | bytes | operations | least time | launches | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (reads, writes, operations, launches) in COSTS.items():
        count = round((reads + writes) * ELEMENTS * 4)
        time = count / BANDWIDTH * 1e6
        lines.append(
            f"| {name} | {reads:g} + {writes:g} | {count / 1e6:.1f} MB | {operations * ELEMENTS / 1e6:.0f} million | {time:.0f} us | "
            f"{launches} | {_time(taken, name)} |"
        )
    for name, (reads, writes, products) in ATTENTION.items():
        count = (reads + writes) * HEADS * LENGTH * WIDTH * 4
        operations = 2 * products * HEADS * LENGTH**2 * WIDTH
        time = max(count / BANDWIDTH, operations / RATE) * 1e6
        shape = f"{HEADS} heads, {LENGTH} x {LENGTH} x {WIDTH}"
        launches = 1 if name == "attention" else 2
        lines.append(
            f"| {name}, {shape} | {reads} + {writes} | {count / 1e6:.1f} MB | {operations / 1e6:.0f} million | {time:.0f} us | "
            f"{launches} | {_time(taken, name)} |"
        )
    return "\n".join(lines) + "\n"


def _time(taken: dict[str, float], name: str) -> str:
    return f"{taken[name]:.0f} us" if name in taken else ""


def page(old: str, said: Said) -> str:
    """The page with its tables as they are now."""
    tables = {"kernels": kernels(said), "roofline": roofline()}
    new, count = BLOCK.subn(lambda m: m[1] + tables[m[2]] + m[3], old)
    if count != len(tables):
        raise ValueError(f"{PAGE.name} has not the places for its tables")
    return new


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    if "--check" in sys.argv:
        if page(before, said_by(before)) != before:
            sys.exit(f"{PAGE.name} is out of date: run python docs/cuda_kernels.py")
    else:
        wanted = sys.argv[1:]
        said = said_by(before) if wanted else {}
        if "--tables" not in wanted:
            said |= compiled(*wanted)
        PAGE.write_text(page(before, said), "utf-8")
