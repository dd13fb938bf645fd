"""The package `torch` as `importlib.metadata` describes it: libraries read its version there."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from ferro._public import ferro
from ferro.version import __version__ as followed


class Torch(Distribution):
    """A package that has only a name and a version."""

    def read_text(self, filename: str) -> str | None:
        """The metadata; None for other files."""
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {followed}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Where a file of the package would lie."""
        return Path(ferro.__file__).parent / path
