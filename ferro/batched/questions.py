"""What NumPy is asked about batched arrays (shapes, dtypes, memory), and functions whose result has a shape that the data decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.batched.array import DYNAMIC, Batched, NotPlain, by, plain
from ferro.batched.protocol import FUNCTIONS, rule_of


@rule_of(np.may_share_memory, np.shares_memory)
def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    return by(np.may_share_memory, plain(a), plain(b))


@rule_of(np.result_type)
def _result_type(*args: Any) -> Any:
    return np.result_type(*[a.dtype if isinstance(a, Batched) else a for a in args])


@rule_of(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(*[a.dtype if isinstance(a, Batched) else a for a in (from_, to)], casting=casting)


@rule_of(np.shape)
def _shape(a: Any) -> tuple:
    return a.shape


@rule_of(np.ndim)
def _ndim(a: Any) -> int:
    return a.ndim


@rule_of(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else a.shape[axis]


@rule_of(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"


@rule_of(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return x.dtype.kind != "c"


def _dynamic(f: Any) -> None:
    def rule(*args: Any, **kwargs: Any) -> Any:
        raise NotPlain(DYNAMIC.format(f.__name__))

    FUNCTIONS[f] = rule


for _f in (np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.extract, np.trim_zeros):
    _dynamic(_f)
