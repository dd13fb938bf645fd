"""ferro as an engine of the operator database (make opdb-cuda), with all tensors on the device: the stand-in's, or a GPU's."""

from __future__ import annotations

import warnings
from typing import Any

import ferro
from ferro.cuda import driver
from ferro.cuda.loading import load
from tests.cuda import stand_in
from tests.cuda.conftest import REAL

if not REAL:
    stand_in.install()
    driver.missing.cache_clear()
assert load() is None, driver.missing()
warnings.filterwarnings("ignore", message=".* is not there on device 'cuda': the CPU computes it")
_numpy, _plain_to = ferro.Tensor.numpy, ferro.Tensor.to


def tensor(array: Any, requires_grad: bool = False) -> Any:
    """A leaf on the device."""
    found = ferro.tensor(array, device="cuda")
    return found.requires_grad_() if requires_grad else found


def _brought(self: Any, **kwargs: Any) -> Any:
    return _numpy(self.cpu(), **kwargs)


def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The database names the CPU in samples of `to`, but its cotangents lie on the device: that stands for it."""
    return _plain_to(self, *["cuda" if a == "cpu" else a for a in args], **kwargs)


ferro.Tensor.to = _to  # type: ignore[method-assign]
ferro.Tensor.numpy = _brought  # type: ignore[method-assign]  # (the database compares arrays of NumPy)


def __getattr__(name: str) -> Any:
    return getattr(ferro, name)
