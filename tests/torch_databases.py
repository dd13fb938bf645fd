"""PyTorch's databases of operations, modules and optimisers: their values as ferro's, and their errors compared.

A test that uses them is skipped where PyTorch is absent.
"""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

import pytest

import ferro
from tests.helpers import lookup

torch: Any = pytest.importorskip("torch", reason="PyTorch is the oracle of this test and is not installed")


def database(part: str) -> Any:
    """A module of PyTorch's databases; importing it takes seconds, which the collection of tests should not."""
    pytest.importorskip("expecttest", reason="PyTorch's databases need the package expecttest")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        # (for the whole process, it would forbid to set what other tests set)
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        return importlib.import_module(f"torch.testing._internal.{part}")


def disagreement(case: Any, call: Any) -> str:
    """How a call does otherwise than the database says; nothing where it raises as it should."""
    try:
        got = f"no error, but {call()}"
    except Exception as e:  # noqa: BLE001
        if isinstance(e, case.error_type) and re.search(case.error_regex, str(e).replace("ferro.", "torch.")):
            return ""
        got = f"{type(e).__name__}: {e}"
    return f"expected {case.error_type.__name__} {case.error_regex!r}, got {got}"


class Unfit(Exception):
    """An input that nothing in ferro corresponds to."""


def as_ferro(x: Any, storages: dict) -> Any:
    """A value of PyTorch's as one of ferro's; one tensor stays one, and tensors that share memory share it here too."""
    if isinstance(x, torch.Tensor):
        if id(x) in storages:
            return storages[id(x)][0]
        given = x
        if x.device.type != "cpu":
            raise Unfit("there is one device")
        if x.ndim > 64:
            raise Unfit("NumPy's arrays have at most 64 dimensions")
        x = x.resolve_conj().resolve_neg()
        storage, wide = x.detach().untyped_storage(), x.dtype is torch.bfloat16
        flat = torch.empty(0, dtype=x.dtype).set_(storage)
        key = (storage._cdata, x.dtype)
        if key not in storages:
            values = ferro.from_numpy((flat.float() if wide else flat.clone()).numpy())
            storages[key] = values.to(ferro.bfloat16) if wide else values
        made = storages[key].as_strided(x.shape, x.stride(), x.storage_offset())
        storages[id(given)] = made.requires_grad_() if x.requires_grad else made, given
        return made
    if isinstance(x, (torch.dtype, torch.layout)):
        return lookup(ferro, str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return ferro.device(str(x))
    if isinstance(x, torch.Generator):
        return ferro.Generator()
    if isinstance(x, dict):
        return {k: as_ferro(v, storages) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return (tuple if isinstance(x, tuple) else list)(as_ferro(v, storages) for v in x)
    return x
