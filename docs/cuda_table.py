"""Writes what the device "cuda" has into docs/cuda.md: the functions that the processor computes for it.

python docs/cuda_table.py           write it
python docs/cuda_table.py --check   say whether it is up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "cuda.md"
BLOCK = re.compile(r"(<!-- cuda: python docs/cuda_table\.py -->\n).*?(<!-- end -->)", re.DOTALL)


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
    if "--check" in sys.argv and page(before) != before:
        sys.exit("docs/cuda.md is out of date: run python docs/cuda_table.py")
    PAGE.write_text(page(before), "utf-8")
