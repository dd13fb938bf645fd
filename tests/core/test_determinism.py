"""Deterministic mode: its switches, and what memory without set values then holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ferro


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    ferro.use_deterministic_algorithms(False)
    ferro.utils.deterministic.fill_uninitialized_memory = True


MAKERS: dict[str, Callable] = {
    "empty": lambda f, d: f.empty(3, 2, dtype=d),
    "empty_out": lambda f, d: f.empty(4, out=f.zeros(0, dtype=d)),
    "empty_like": lambda f, d: f.empty_like(f.zeros(3, dtype=d)),
    "empty_strided": lambda f, d: f.empty_strided((3, 2), (1, 3), dtype=d),
    "empty_permuted": lambda f, d: f.empty_permuted((2, 3), (1, 0), dtype=d),
    "new_empty": lambda f, d: f.zeros(1, dtype=d).new_empty(3),
    "resize": lambda f, d: f.ones(2, dtype=d).resize_(5),
    "resize_part": lambda f, d: f.ones(6, dtype=d)[1:3].resize_(8),
}


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int16", "uint8", "bool"])
@pytest.mark.parametrize("name", MAKERS)
def test_memory_without_values_is_filled_as_in_torch(torch: Any, name: str, dtype: str) -> None:
    torch.use_deterministic_algorithms(True)
    theirs = MAKERS[name](torch, getattr(torch, dtype))
    torch.use_deterministic_algorithms(False)
    ferro.use_deterministic_algorithms(True)
    ours = MAKERS[name](ferro, getattr(ferro, dtype))
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, equal_nan=True, rtol=0, atol=0)
    ferro.utils.deterministic.fill_uninitialized_memory = False
    assert not ferro.empty(3).isnan().any()


def test_the_switches() -> None:
    assert not ferro.are_deterministic_algorithms_enabled()
    ferro.use_deterministic_algorithms(True, warn_only=True)
    assert ferro.are_deterministic_algorithms_enabled()
    assert ferro.is_deterministic_algorithms_warn_only_enabled()
    assert ferro.get_deterministic_debug_mode() == 1
    ferro.set_deterministic_debug_mode("error")
    assert ferro.get_deterministic_debug_mode() == 2
    assert not ferro.is_deterministic_algorithms_warn_only_enabled()
    ferro.set_deterministic_debug_mode(0)
    assert not ferro.are_deterministic_algorithms_enabled()


def test_wrong_switches_are_refused(torch: Any) -> None:
    for wrong, kind in (("loud", RuntimeError), (3, RuntimeError), (1.5, TypeError)):
        with pytest.raises(kind) as theirs:
            torch.set_deterministic_debug_mode(wrong)
        with pytest.raises(kind) as ours:
            ferro.set_deterministic_debug_mode(wrong)  # type: ignore[arg-type]
        assert str(theirs.value) in str(ours.value)
    with pytest.raises(TypeError, match=r"argument 'mode'.* must be bool"):
        ferro.use_deterministic_algorithms(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a bool"):
        ferro.utils.deterministic.fill_uninitialized_memory = 1  # type: ignore[assignment]
