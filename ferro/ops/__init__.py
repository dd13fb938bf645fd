"""The operations: one block per operation, one file per family. As torch.ops has it: ``ops.aten``, and what `library` defines.

>>> import ferro
>>> ferro.ops.aten.add.Tensor(ferro.ones(2), 1)
tensor([2., 2.])
"""

from typing import Any


def __getattr__(name: str) -> Any:
    from ferro.ops.namespace import NAMESPACES

    if name not in NAMESPACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return NAMESPACES[name]
