"""Kernels compile for three generations of GPUs, without spills; docs/internals/cuda_kernels.md says what each takes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import ferro
from ferro.cuda import printed_complex
from tests.cuda import compiling, hand

ROOT = Path(ferro.__file__).parent.parent
MISSING = compiling.missing()
needs_compiler = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def check(texts: list[str], *architectures: str) -> None:
    """All kernels of the texts compile, and none spills."""
    found = compiling.compiled(texts, *architectures)
    names = [(k, name) for k, text in enumerate(texts) for _, name, _ in compiling._SIGNATURE.findall(text)]
    assert sorted(names * len(architectures)) == sorted((one.text, one.name) for one in found)
    assert not [one for one in found if one.spills], "kernels keep numbers in memory that have no register"
    assert max(one.shared for one in found) <= 48 << 10
    threads = page_script().threads_of
    assert max(one.registers * threads(one.name) for one in found) <= 1 << 15  # (two blocks fit into a multiprocessor)


@needs_compiler
def test_the_longest_text_of_each_family_compiles_for_sm_90_without_spills() -> None:
    """In float16: with tensor cores where there are any, and numbers that are widened."""
    check([max(texts, key=len) for make in hand.families().values() if (texts := make("float16"))], "sm_90")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("architecture", compiling.ARCHITECTURES)
def test_all_kernels_compile_for_every_generation_without_spills(architecture: str) -> None:
    check([text for dtype in hand.DTYPES for text in hand.all_texts(dtype)], architecture)
    for dtype in (*hand.DTYPES, *printed_complex.COMPLEX_STORED):
        check(hand.printed_texts(dtype), architecture)


def test_what_ptxas_says_is_understood() -> None:
    said = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'softmax_rows__12' for 'sm_90'
ptxas info    : Function properties for softmax_rows__12
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 38 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compile time = 32.712 ms
ptxas info    : Compiling entry function 'flat__0' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 384 bytes cmem[0]
"""
    first, second = compiling.parsed(said)
    assert first == compiling.Compiled(12, "softmax_rows", "sm_90", 38, 2048, 8, 40)
    assert second == compiling.Compiled(0, "flat", "sm_90", 12, 0, 0, 0)


def page_script() -> ModuleType:
    """docs/cuda_kernels.py."""
    spec = importlib.util.spec_from_file_location("cuda_kernels", ROOT / "docs" / "cuda_kernels.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_page_has_all_kernels_and_what_follows_from_their_registers() -> None:
    script = page_script()
    text = script.PAGE.read_text("utf-8")
    assert script.page(text, script.said_by(text)) == text, "run python docs/cuda_kernels.py"


def test_occupancy_is_that_of_the_programming_guide() -> None:
    """Warps of a multiprocessor that has 65,536 registers, 228 KiB of shared memory and 64 warps."""
    occupancy = page_script().occupancy
    assert occupancy(32, 0, 256) == 1
    assert occupancy(33, 0, 256) == 0.75  # 40 registers are allocated: 6 blocks of 8 warps
    assert occupancy(64, 0, 256) == 0.5
    assert occupancy(128, 0, 256) == 0.25
    assert occupancy(16, 48 << 10, 256) == 0.5  # 4 blocks of 49 KiB
