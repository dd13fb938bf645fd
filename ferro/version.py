"""The version of PyTorch that ferro follows, and what it was built with; ferro's own is ``ferro.__version__``."""

from __future__ import annotations

from ferro import absent as _absent
from ferro.torch_version import TorchVersion

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = TorchVersion("2.13.0+ferro")
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"

_absent.explain(__name__)
