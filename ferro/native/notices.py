"""What was switched off in this process, and why: notes that `ferro.show_config()` prints."""

from __future__ import annotations

_notices: dict[str, list[str]] = {}


def note(part: str, why: str) -> None:
    """Say why a part of ferro ("machine code", "kernel cache", "allocator", ...) does not run as it usually does."""
    said = _notices.setdefault(part, [])
    if why not in said:
        said.append(why)


def notices() -> dict[str, tuple[str, ...]]:
    """All that was noted so far, by part."""
    return {part: tuple(said) for part, said in _notices.items()}
