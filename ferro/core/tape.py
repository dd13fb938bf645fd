"""What machine code has to know of the tape: it fills the table of native/slots.py, which native/jit_recorder.py reads."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from types import MemberDescriptorType
from typing import Any

import numpy as np

from ferro import cpu
from ferro.core import dtypes, node
from ferro.core.base import LEAF, DetachedMark, TensorBase, Version, View, bump, version_of, watch_result
from ferro.core.mode import ACTIVE, MODE, Mode
from ferro.core.node import MultiNode, Node, OutputRef
from ferro.core.op import Op
from ferro.core.plan import Plan
from ferro.core.provenance import OUTSIDE, outermost
from ferro.native.layout import LayoutError, only_place
from ferro.native.loader import SUPPORTED
from ferro.native.notices import note
from ferro.native.slots import FIELDS, TABLE

_CLASSES: dict[str, Any] = {
    c.__name__: c for c in (TensorBase, Version, View, DetachedMark, Mode, Op, Plan, Node, MultiNode, OutputRef)
}
_OBJECTS: dict[str, Any] = {
    "Op": Op,
    "Node": Node,
    "MultiNode": MultiNode,
    "OutputRef": OutputRef,
    "cpu": cpu,
    "Plan": Plan,
    "plan_of": Op.plan,
    "watch_result": watch_result,
    "asarray": np.asarray,
    "INEXACT": dtypes.INEXACT,
    "LEAF": LEAF,
    "ACTIVE": ACTIVE,
    "MODE": MODE,
    "DetachedMark": DetachedMark,
    "View": View,
    "Version": Version,
    "version_of": version_of,
    "bump": bump,
    "'__setitem__'": sys.intern("__setitem__"),
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
    "str": str,
    "list": list,
    "slice": slice,
    "DTypeMeta": type(type(np.dtype(np.float32))),
    "'view'": sys.intern("view"),
}


def fill(**objects: Any) -> None:
    """Enter these objects, and all that is known here.

    Where a slot cannot be found, all entries stay 0: machine code meets no object that it takes for one of the tape's.
    """
    if not SUPPORTED:
        return
    _OBJECTS.update(objects)
    found = np.zeros_like(TABLE)
    try:
        for k, field in enumerate(FIELDS):
            owner, dot, slot = field.partition(".")
            if dot:
                found[k] = offset(_CLASSES[owner], slot)
                if found[k] not in _places(_CLASSES[owner], 1)[slot]:
                    raise LayoutError(f"{field} lies elsewhere than was measured")
            elif field in _OBJECTS:
                found[k] = id(_OBJECTS[field])
    except (LayoutError, AttributeError, TypeError) as e:
        note("machine code of the tape", str(e))
        found[:] = 0
    # Machine code knows them by address for as long as the process lives, also if a module is loaded again.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tuple(_OBJECTS.values())))
    TABLE[:] = found


def offset(owner: Any, slot: str) -> int:
    """Where the objects of a class keep what stands in a slot."""
    return only_place(f"{owner.__name__}.{slot}", _places(owner, 0)[slot])


@cache
def _places(owner: Any, turn: int) -> dict[str, list[int]]:
    """The places where the objects of a class may keep what stands in each slot: those of one are filled with known objects.

    turn: 0 to measure, 1 to look once more.
    """
    some = object.__new__(owner)
    slots = {name: value for name, value in owner.__dict__.items() if type(value) is MemberDescriptorType}
    known = {name: object() for name in slots}
    for name, slot in slots.items():
        slot.__set__(some, known[name])
    held = memoryview(ctypes.string_at(id(some), owner.__basicsize__)).cast("P").tolist()
    return {name: [8 * k for k, word in enumerate(held) if word == id(value)] for name, value in known.items()}
