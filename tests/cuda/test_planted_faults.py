"""Every family of kernels has faults of three kinds planted, and the tests of the family find each; see faults.py."""

from __future__ import annotations

import pytest

from tests.cuda import emulated, faults, hand
from tests.cuda.faults import FAULTS, IMPOSSIBLE, KINDS

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:(overflow|invalid value|divide by zero) encountered"),  # (of wrong numbers)
]
FAMILIES = [*hand.families(), "printed"]
CASES = [
    pytest.param(family, fault, id=f"{family}-{fault.kind}{k}")
    for family, some in FAULTS.items()
    for k, fault in enumerate(some)
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_planted_or_impossible(kind: str, family: str) -> None:
    said = (family, kind) in IMPOSSIBLE
    assert any(fault.kind == kind for fault in FAULTS[family]) != said, f"{family} has no fault of kind {kind!r}"
    if said:
        for dtype in ("float32", "float16"):
            for text in faults.texts_of(family, dtype):
                assert not faults.has(kind, text), f"the text of {family} has it:\n{faults.own(text)[:3000]}"


def test_what_has_barriers_and_sums_is_seen_to_have_them() -> None:
    """The search that stands behind "impossible" finds what families are known to have."""
    for family, some in FAULTS.items():
        for fault in some:
            if fault.kind != "index" and family != "stepping":  # (whose sums are terms of printed formulas)
                found = [text for text in faults.texts_of(family, fault.dtype) if fault.before in text]
                assert found, f"{family}: {fault.before!r} stands in no text"
                assert all(faults.has(fault.kind, text) for text in found), f"{family}, {fault.kind}"


@pytest.mark.parametrize(("family", "fault"), CASES)
def test_a_planted_fault_is_found(family: str, fault: faults.Fault) -> None:
    with faults.planted(family, fault) as wrong, pytest.raises((AssertionError, emulated.Undefined)):
        fault.check()
    assert wrong, f"no launched text of {family} has {fault.before!r}"
