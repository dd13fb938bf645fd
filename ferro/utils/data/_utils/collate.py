"""Collating under the name that programs for PyTorch import, with the functions for classes of one's own."""

from ferro.utils.data.collate import collate, default_collate, default_collate_fn_map, default_convert

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]
