"""``import torch`` gives ferro: for programs and libraries that name PyTorch themselves.

``install()`` does it for this process; ``python -m ferro.as_torch script.py`` (or ``-m module``, ``-c code``) runs a program
so.  The modules are the same objects (``torch.nn is ferro.nn``); only the package `torch` itself is another one, because
some of ferro's packages bear the names of PyTorch's and are something else (``ferro.cpu``, the functions of arrays).
"""

from ferro.as_torch.finder import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]
