"""The module in which PyTorch has the functions of `distributed`; programs import some of them from here."""

from ferro import distributed as _package

from . import *  # noqa: F403 - all of them, as in PyTorch
from .group import resolved as _resolved


def _get_default_group() -> object:
    """The default group; ValueError unless it is initialised."""
    return _resolved(None)


def __getattr__(name: str) -> object:
    return getattr(_package, name)
