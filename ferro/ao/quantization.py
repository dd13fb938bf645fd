"""The classes by which libraries ask whether a module is quantised: none is."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro import absent as _absent
from ferro.nn.modules.module import Module

__all__ = ["FakeQuantizeBase", "ObserverBase"]


class _Absent(Module):
    """A module of quantisation, for `isinstance`: NotImplementedError when one is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.ao.quantization.{type(self).__name__}: quantised tensors are not there; compute in float32, or in bfloat16 "
            "under `amp.autocast` (docs/names.md)"
        )


class FakeQuantizeBase(_Absent):
    """A module that rounds as quantisation would."""


class ObserverBase(_Absent):
    """A module that looks at the range of values."""


_absent.explain(__name__)
