"""ferro.mps, xpu and mtia answer as a build of PyTorch without such devices does; strategies of sharing are kept."""

from __future__ import annotations

from typing import Any

import pytest

import ferro

NAMES = {name: list(getattr(ferro, name).__all__) for name in ("mps", "xpu", "mtia")}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in NAMES.items() for n in names])
def test_answers_and_refusals_are_pytorch_s(torch: Any, module: str, name: str) -> None:
    theirs = getattr(torch, module)
    if theirs.is_available():
        pytest.skip("this machine has such a device")
    try:
        answer = getattr(theirs, name)()
    except Exception as e:  # noqa: BLE001 - its type is what is asked for
        with pytest.raises(type(e), match=f"{module}.{name}.*{module}.is_available"):
            getattr(getattr(ferro, module), name)()
    else:
        assert getattr(getattr(ferro, module), name)() == answer


def test_strategies_of_sharing_are_kept_and_unknown_ones_refused(torch: Any) -> None:
    import ferro.multiprocessing as ours

    assert ours.get_all_sharing_strategies() >= torch.multiprocessing.get_all_sharing_strategies()
    before = ours.get_sharing_strategy()
    ours.set_sharing_strategy("file_system")
    assert ours.get_sharing_strategy() == "file_system"
    ours.set_sharing_strategy(before)
    for module in (ours, torch.multiprocessing):
        with pytest.raises(AssertionError):
            module.set_sharing_strategy("telepathy")
