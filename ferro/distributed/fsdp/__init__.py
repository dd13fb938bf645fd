"""Modules whose parameters, gradients and optimiser states lie in parts on the ranks."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ferro import absent as _absent

from .. import refused as _refused
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .sharding import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
]

if not _TYPE_CHECKING:
    __getattr__ = _refused.getattr_of("fsdp", __name__)

_absent.explain(__name__)
