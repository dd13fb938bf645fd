"""Checkpoints of several ranks: each writes its parts, and any number of ranks reads them."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ferro import absent as _absent

from .. import refused as _refused
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .loading import load
from .metadata import CheckpointException, Metadata
from .saving import async_save, save

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "async_save",
    "load",
    "save",
]

if not _TYPE_CHECKING:
    __getattr__ = _refused.getattr_of("checkpoint", __name__)

_absent.explain(__name__)
