"""What `make wheel` adds to a wheel: kernels in machine code, and the tag of the systems that they run on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Machine code refers to functions of glibc that are older, and is no library that a linker would look at.
TAG = "py3-none-manylinux_2_17_x86_64"


class Kernels(BuildHookInterface):
    """Takes archives of kernels from the folder that FERRO_WHEEL_KERNELS names; without it a wheel is pure Python."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the archives."""
        folder = os.environ.get("FERRO_WHEEL_KERNELS")
        if not folder or version == "editable":
            return
        archives = sorted(Path(folder).glob("*.kernels"))
        if not archives:
            raise FileNotFoundError(f"FERRO_WHEEL_KERNELS: there is no archive of kernels in {folder}")
        build_data["force_include"] |= {str(path.resolve()): f"ferro/native/kernels/{path.name}" for path in archives}
        build_data["pure_python"], build_data["tag"] = False, TAG
