"""What goes on above the exchanges: uneven inputs (`join`), and how gradients travel (`ddp_comm_hooks`)."""

from typing import Any as _Any

from ferro import absent as _absent

from . import ddp_comm_hooks
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "ddp_comm_hooks"]


def __getattr__(name: str) -> _Any:
    from .. import refused

    if f"algorithms.{name}" in refused.TABLE:
        return _absent.load(f"{__name__}.{name}")
    return _absent.missing(__name__, name)


_absent.explain(__name__)
