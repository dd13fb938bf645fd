"""Writes what the device "cuda" has into docs/cuda.md: the functions that the processor computes for it, and counted tests.

python docs/cuda_table.py                  write the functions
python docs/cuda_table.py --check          say whether they are up to date
python docs/cuda_table.py --counts FILE    write how many of the CPU's tests pass there, as `make cpu-tests-on-cuda` counts them into FILE
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "cuda.md"
BLOCK = re.compile(r"(<!-- cuda: python docs/cuda_table\.py -->\n).*?(<!-- end -->)", re.DOTALL)


COUNTS = re.compile(r"(<!-- counts: make cpu-tests-on-cuda -->\n).*?(<!-- end -->)", re.DOTALL)


def counts_text(files: dict[str, dict[str, int]]) -> str:
    """The block of counts: by folder, then the reasons of those that are skipped."""
    folders: dict[str, Counter[str]] = {}
    for file, counts in files.items():
        folders.setdefault(file.rpartition("/")[0], Counter()).update(counts)
    rows = [
        f"| `{folder}` | {c['passed']:,} | {c['failed']:,} | {c['skipped']:,} |"
        for folder, c in sorted(folders.items())
    ]
    total = sum(folders.values(), Counter[str]())
    rows.append(f"| all | {total['passed']:,} | {total['failed']:,} | {total['skipped']:,} |")
    reasons = Counter({k.removeprefix("because "): n for k, n in total.items() if k.startswith("because ")})
    said = "".join([f"| {reason} | {n:,} |\n" for reason, n in reasons.most_common()])
    head = "| folder | passed | failed | skipped |\n|---|---|---|---|\n" + "\n".join(rows)
    return f"{head}\n\n| a test is skipped that | tests |\n|---|---|\n{said}"


def text() -> str:
    """The block."""
    from tests.cuda.travels import TRAVELS

    travels = "; ".join([f"`{name}` ({', '.join(TRAVELS[name])})" for name in sorted(TRAVELS)])
    said = (
        f"All operations run that are declared with samples. In these {len(TRAVELS)} the processor computes functions"
    )
    return f"{said} for the device, in forward or backward: {travels}.\n"


def page(old: str) -> str:
    """The page with the block as it is now."""
    found, count = BLOCK.subn(lambda m: m[1] + text() + m[2], old)
    if count != 1:
        raise ValueError("docs/cuda.md has no block for the table")
    return found


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    if "--counts" in sys.argv:
        block = counts_text(json.loads(Path(sys.argv[-1]).read_text()))
        PAGE.write_text(COUNTS.sub(lambda m: m[1] + block + m[2], before), "utf-8")
        sys.exit()
    if "--check" in sys.argv and page(before) != before:
        sys.exit("docs/cuda.md is out of date: run python docs/cuda_table.py")
    PAGE.write_text(page(before), "utf-8")
