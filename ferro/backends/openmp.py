"""OpenMP: ferro's threads are a pool of its own, without it."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether ferro computes with OpenMP: never (``ferro.get_num_threads()`` says how many threads it has).

    Example::

        >>> import ferro
        >>> ferro.backends.openmp.is_available()
        False
    """
    return False
