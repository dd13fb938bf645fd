"""ferro.storage: the classes of storages under PyTorch's module name."""

from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
