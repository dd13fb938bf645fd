"""The name by which ferro's dtypes, sizes and layouts call it: `torch`, while `ferro.as_torch` is installed.

Programs read these names: ``str(x.dtype).removeprefix("torch.")``.
"""

from __future__ import annotations

ROOT = ["ferro"]


def called(name: str) -> str:
    """A name below ferro, as the program knows it."""
    return f"{ROOT[0]}.{name}"
