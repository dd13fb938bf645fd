"""save and load: objects with tensors in a file, in PyTorch's format, so that each library reads what the other wrote."""

from ferro.serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    remove_safe_globals,
    safe_globals,
)
from ferro.serialization.locations import MAP_LOCATION, default_restore_location, location_tag, register_package
from ferro.serialization.options import (
    LoadEndianness,
    get_default_load_endianness,
    get_default_mmap_options,
    set_default_load_endianness,
    set_default_mmap_options,
)
from ferro.serialization.reading import get_unsafe_globals_in_checkpoint, load
from ferro.serialization.writing import save

__all__ = [
    "MAP_LOCATION",
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "remove_safe_globals",
    "safe_globals",
    "save",
    "set_default_load_endianness",
    "set_default_mmap_options",
]
