"""What machine code has to know of the tape: it fills the table of cpu/kernels/tape_table.py, which jit_tape.py reads."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

from ferro import cpu
from ferro.core import dtypes, node
from ferro.core.base import LEAF, Lost, TensorBase, Version, View, version_of
from ferro.core.mode import ACTIVE, MODE, Mode
from ferro.core.node import MultiNode, Node, Pick
from ferro.core.op import Op, Plan
from ferro.core.provenance import OUTSIDE, outermost
from ferro.cpu.kernels.machine import SUPPORTED
from ferro.cpu.kernels.tape_table import FIELDS, TABLE

_CLASSES: dict[str, Any] = {c.__name__: c for c in (TensorBase, Version, View, Mode, Op, Plan, Node, MultiNode, Pick)}
_OBJECTS: dict[str, Any] = {
    "Op": Op,
    "Node": Node,
    "MultiNode": MultiNode,
    "Pick": Pick,
    "cpu": cpu,
    "plan_of": Op.plan,
    "asarray": np.asarray,
    "INEXACT": dtypes.INEXACT,
    "LEAF": LEAF,
    "ACTIVE": ACTIVE,
    "MODE": MODE,
    "Lost": Lost,
    "View": View,
    "version_of": version_of,
    "'no_grad'": sys.intern("no_grad"),
    "'multi'": sys.intern("multi"),
    "sequence": node.sequence,
    "OUTSIDE": OUTSIDE,
    "outermost": outermost,
    "_getframe": sys._getframe,
    "0": 0,
    "1": 1,
    "'co_filename'": sys.intern("co_filename"),
    "'shape'": sys.intern("shape"),
    "'view'": sys.intern("view"),
}


def fill(**objects: Any) -> None:
    """Enter these objects, and all that is known here."""
    if SUPPORTED:
        _OBJECTS.update(objects)
        for k, field in enumerate(FIELDS):
            owner, dot, slot = field.partition(".")
            if dot:
                TABLE[k] = _offset(_CLASSES[owner], slot)
            elif field in _OBJECTS:
                TABLE[k] = id(_OBJECTS[field])


@cache
def _offset(owner: Any, slot: str) -> int:
    """Where the objects of a class keep what stands in a slot: PyMemberDescrObject and PyMemberDef, in Python's headers."""
    member = ctypes.c_void_p.from_address(id(owner.__dict__[slot]) + 40).value
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value
