"""Tests of other folders that are skipped with tensors on the device "cuda", and why: by file, then by a pattern for the test's name,
with or without its parameters.

What is marked OPEN differs from the CPU, or from PyTorch on a GPU, and is not mended.
"""

from __future__ import annotations

import re

MEMORY = "is about memory of the processor: shared with NumPy, addresses, storages"
SEEDED = "compares with numbers of PyTorch's generator of the CPU"
LAYOUT = "results of elementwise functions lie in C order on the device (docs/cuda.md)"
ELSEWHERE = "makes some of its tensors on the CPU itself"
CPU_ONLY = "calls what PyTorch has for tensors of the CPU alone"
WORDS = "compares texts that name the device or the processor's functions"
CHOICE = "looks at which way the CPU's code takes"
OPEN = "differs on the device, not mended"

NOT: dict[str, dict[str, str]] = {
    "ops/test_derived.py": {"test_gradient_agrees_with_central_differences": MEMORY},  # (moves inputs by `numpy()`)
    "autograd/test_views.py": {
        "test_element_by_element": CPU_ONLY,
        "test_element_by_element_counts_as_a_change": CPU_ONLY,
    },
}


def reason_of(nodeid: str) -> str | None:
    """Why a test is skipped; None if it runs."""
    file, _, name = nodeid.partition("::")
    known = NOT.get(file.removeprefix("tests/"), {})
    return next((why for pattern, why in known.items() if re.fullmatch(rf"{pattern}(\[.*\])?", name)), None)
