"""ferro.accelerator answers as PyTorch does on a machine without one."""

from __future__ import annotations

from typing import Any

import pytest

import ferro

REFUSALS = {"set_device_index": (0,)}
ANSWERS = ["is_available", "device_count", "current_accelerator"]


@pytest.mark.parametrize("name", ferro.accelerator.__all__)
def test_answers_are_those_of_a_machine_without_an_accelerator(torch: Any, name: str) -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator that PyTorch uses")
    if name in ANSWERS:
        assert getattr(ferro.accelerator, name)() == getattr(torch.accelerator, name)()
        return
    with pytest.raises(RuntimeError) as theirs:
        getattr(torch.accelerator, name)(*REFUSALS.get(name, ()))
    with pytest.raises(RuntimeError) as ours:
        getattr(ferro.accelerator, name)(*REFUSALS.get(name, ()))
    assert str(theirs.value).partition("\n")[0] in str(ours.value)
    assert f"accelerator.{name}" in str(ours.value)
