"""Models on several devices and in several processes, as far as programs for them run on one."""

from typing import TYPE_CHECKING

from ferro import absent

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel
else:

    def __getattr__(name):  # process groups are imported when they are asked for
        if name == "DistributedDataParallel":
            from .compiled import DistributedDataParallel

            return DistributedDataParallel
        return absent.missing("ferro.nn.parallel", name)
