"""Complete programs to run with `python -m ferro.examples.<name>`; here only what they share: optional imports."""

import importlib
from types import ModuleType


def optional(name: str) -> ModuleType:
    """Import a module that only the examples need; without it, end with a sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("sklearn", "scikit-learn")
        raise SystemExit(
            f"This example needs {package}, which cannot be imported ({error}). "
            f'Install what the examples need with: pip install "ferro[demo]"'
        ) from None
