"""Tensors of which each rank has a part."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ferro import absent as _absent

from .. import refused as _refused
from .dtensor import DTensor, distribute_module, distribute_tensor
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor"]

if not _TYPE_CHECKING:
    __getattr__ = _refused.getattr_of("tensor", __name__)

_absent.explain(__name__)
