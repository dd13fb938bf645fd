"""Makes the device "cuda" possible when it is first named."""

from __future__ import annotations

from importlib import import_module

from ferro.cuda import driver


def load() -> str | None:
    """Registers the backend of CuPy's arrays; what is missing, where there can be none."""
    said = driver.missing()
    if said is None:
        import_module("ferro.cuda.functions").register()
    return said
