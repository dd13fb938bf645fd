"""A plugin of pytest: the tests of other folders with all tensors on the device "cuda" (``-p tests.cuda.on_device``).

The default device is "cuda", of the stand-in or (FERRO_TEST_CUDA=1) of a GPU. Tests hand NumPy's arrays over and compare with them: `from_numpy`
copies to the device here, and `numpy()` back, which the library itself never does unasked. What not_on_device.py lists is skipped with its
reason. FERRO_CUDA_TABLE names a file that gets a line for each file of tests: how many passed, failed and were skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda import driver
from ferro.cuda.loading import load
from tests.cuda import hand, stand_in
from tests.cuda.conftest import REAL
from tests.cuda.not_on_device import reason_of

_NUMPY, _ARRAY, _FROM_NUMPY = ferro.Tensor.numpy, ferro.Tensor.__array__, ferro.from_numpy
_COUNTS: dict[str, Counter[str]] = {}


def _numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _NUMPY(self.cpu(), *args, **kwargs)


def _array(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _ARRAY(self.cpu(), *args, **kwargs)


def _from_numpy(array: np.ndarray) -> Any:
    return _FROM_NUMPY(array).to("cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Makes "cuda" the default device."""
    if not REAL:
        stand_in.install()
        hand.compiled_together()
        driver.missing.cache_clear()
    assert load() is None, driver.missing()
    ferro.set_default_device("cuda")
    ferro.Tensor.numpy, ferro.Tensor.__array__, ferro.from_numpy = _numpy, _array, _from_numpy  # type: ignore[method-assign]
    config.addinivalue_line("filterwarnings", "ignore:.* is not there on device 'cuda'. the CPU computes it")
    config.addinivalue_line(
        "filterwarnings", "ignore:This instance was constructed with capturable=True"
    )  # as PyTorch's do


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is no matter of the device, and what is known to differ."""
    for item in items:
        reason = reason_of(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts."""
    counts = _COUNTS.setdefault(report.nodeid.partition("::")[0], Counter())
    if report.failed and report.when != "teardown":
        counts["failed"] += 1
    elif report.skipped:
        counts["skipped"] += 1
        counts[
            f"because {report.longrepr[2].removeprefix('Skipped: ')}" if isinstance(report.longrepr, tuple) else ""
        ] += 1
    elif report.when == "call":
        counts["passed"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the counts, beside those of other files; of several processes the one does that hears of all tests."""
    place = os.environ.get("FERRO_CUDA_TABLE")
    if place and not hasattr(session.config, "workerinput"):
        path = Path(place)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | _COUNTS, indent=1, sort_keys=True) + "\n")
