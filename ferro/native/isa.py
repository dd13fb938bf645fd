"""Which instruction set: what kernels are compiled for, and which of them are chosen.

FERRO_ISA in the environment names it, "avx512", "avx2" or "baseline"; unset, it is what the processor has. Then code is
compiled for that very processor. Where it is named, code is compiled for the plain x86-64-v4 (AVX-512), x86-64-v3 (AVX2,
FMA) or x86-64 (SSE2), so that what others will compute can be tried on a processor with more, and kernels be packaged.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from ferro.native.notices import note

LEVELS = ("baseline", "avx2", "avx512")  # of x86-64; each has all that the one before has
_TARGETS = {"baseline": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}  # as LLVM calls them
_PART = "instruction set"


def _has(*names: str) -> bool:
    """Whether the processor, and the system on it, have one of these features, by NumPy's names."""
    try:
        from numpy._core._multiarray_umath import __cpu_features__ as found
    except ImportError:
        return False
    return any(found.get(name) for name in names)


def _of_processor() -> str:
    """The level of this processor; "other" for one that is not x86-64."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "other"
    if _has("AVX512F", "X86_V4"):
        return "avx512"
    return "avx2" if _has("X86_V3") or (_has("AVX2") and _has("FMA3")) else "baseline"


def _chosen(wish: str, own: str) -> str:
    """The level of this process."""
    if not wish:
        return own
    if wish not in _TARGETS:
        raise ValueError(
            f"FERRO_ISA is {wish!r}; it may be 'avx512', 'avx2' or 'baseline', or unset for all that the processor has"
        )
    if own == "other":
        note(_PART, f"FERRO_ISA={wish} means nothing on {platform.machine()}: all that the processor has is used")
        return own
    if LEVELS.index(wish) > LEVELS.index(own):
        note(_PART, f"FERRO_ISA={wish}: the processor has no {wish.upper()}, so kernels are made for {own}")
        return own
    return wish


def _numba_compiles() -> bool:
    """Whether Numba has compiled something in this process, and so has settled what for."""
    registry: Any = sys.modules.get("numba.core.registry")
    return registry is not None and "_toplevel_target_context" in vars(registry.cpu_target)


_OWN = _of_processor()
_WISH = os.environ.get("FERRO_ISA", "").strip().lower()
LEVEL = _chosen(_WISH, _OWN)  # one of LEVELS, or "other"


def has_fma() -> bool:
    """Whether a multiplication and an addition are one instruction with one rounding (on ARM they are, too)."""
    return LEVEL != "baseline"


def registers() -> tuple[int, bool]:
    """Bytes of a vector register, and whether there are 32 of them or more."""
    if LEVEL == "other":
        return 16, _has("NEON", "ASIMD")
    return {"avx512": (64, True), "avx2": (32, False), "baseline": (16, False)}[LEVEL]


def target() -> str:
    """The processor that Numba is to compile for, by LLVM's name; empty for the one it runs on."""
    return _target


def package_level() -> str:
    """The level of x86-64 that a package may carry kernels of for this process; empty if there is none."""
    if LEVEL == "avx512" and not _has("X86_V4", "AVX512_SKX"):
        return ""  # (the first processors with AVX-512 had less of it than x86-64-v4)
    return {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}.get(LEVEL, "")


def key() -> str:
    """What tells code that is compiled in this process from code for another instruction set."""
    return f"{LEVEL} {target()}"


def describe() -> str:
    """The instruction set of this process in a line."""
    if target():
        return f"{LEVEL} by FERRO_ISA (compiled for {target()}; the processor has {_OWN})"
    return f"{LEVEL} (what the processor has)" if LEVEL != "other" else f"that of {platform.machine()}"


def _restricted() -> str:
    """Have Numba, which may be imported by now or later, compile for the level of this process; `target` tells."""
    if LEVEL != _WISH:
        return ""
    if _numba_compiles():
        note(_PART, "Numba was in use before ferro was imported: kernels are compiled for all that the processor has")
        return ""
    name = _TARGETS[LEVEL]
    os.environ.update(zip(_NUMBAS, (name, ""), strict=True))
    config: Any = sys.modules.get("numba.core.config")
    if config is not None:
        config.CPU_NAME, config.CPU_FEATURES = name, ""
    return name


_NUMBAS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")  # variables that Numba reads when it is imported
_target = _restricted()
