"""Layers that are divided over the ranks: by columns, by rows and along the sequence."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ferro import absent as _absent

from ... import refused as _refused
from .api import parallelize_module
from .styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "parallelize_module",
]

if not _TYPE_CHECKING:
    __getattr__ = _refused.getattr_of("tensor.parallel", __name__)

_absent.explain(__name__)
