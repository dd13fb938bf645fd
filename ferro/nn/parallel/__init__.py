"""Models on several devices, as far as programs for them run on one."""

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
