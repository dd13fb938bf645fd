"""Python's multiprocessing under the name that PyTorch programs import.

Tensors are pickled on their way to another process: it gets a copy, and there is no shared memory between the two.

Example::

    >>> import ferro.multiprocessing as mp
    >>> mp.get_context("spawn").get_start_method()
    'spawn'
"""

import multiprocessing as _python
from multiprocessing import *  # noqa: F403 - all of them, as in PyTorch  # pyright: ignore[reportWildcardImportFromLibrary]

__all__ = list(_python.__all__)  # pyright: ignore[reportUnsupportedDunderAll] - they are made when Python runs
