"""What ferro was built with, and the switches of the libraries that PyTorch computes with: ``ferro.backends.cudnn`` and its like.

ferro computes on the CPU, with NumPy and kernels of its own. So most libraries are not available here, as in a build of
PyTorch without them. Their switches can be set and read as there: what they ask of a library that is absent changes
nothing, what they *permit* (less precise products, say) ferro does not use, and what cannot be had is refused.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from ferro import absent
from ferro.backends.switches import Precision, set_for_a_while

if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager

    from ferro.backends import (  # noqa: TC004 (they are read when asked for, by `__getattr__` below)
        cpu,
        cuda,
        cudnn,
        mha,
        mkl,
        mkldnn,
        mps,
        nnpack,
        openmp,
        opt_einsum,
        quantized,
    )

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "flags",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
]


def flags(fp32_precision: str = "none") -> _GeneratorContextManager[None]:
    """For a while another precision for float32 (``ferro.backends.fp32_precision``); also a decorator.

    Example::

        >>> import ferro
        >>> with ferro.backends.flags(fp32_precision="ieee"):
        ...     print(ferro.backends.cudnn.conv.fp32_precision)
        ieee
    """
    return set_for_a_while(sys.modules[__name__], fp32_precision=fp32_precision)


class _Backends(types.ModuleType):
    fp32_precision = Precision("generic", "all")

    def __getattr__(self, name: str) -> Any:
        """A library's module, read from disk when it is first asked for: `import ferro` stays light."""
        if name in __all__:
            return absent.load(f"{__name__}.{name}")
        return absent.missing(__name__, name)


sys.modules[__name__].__class__ = _Backends
