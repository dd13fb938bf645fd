"""The operations: one block per operation, one file per family. As torch.ops has it: ``ops.aten``, for programs that call it by that name.

>>> import ferro
>>> ferro.ops.aten.add.Tensor(ferro.ones(2), 1)
tensor([2., 2.])
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "aten":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ferro.ops.namespace import aten

    return aten
