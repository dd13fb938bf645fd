"""The tests of this folder run on the stand-in for CuPy, or on a GPU: ``FERRO_TEST_CUDA=1`` (`make test-cuda`) takes the real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ferro.core import backend
from ferro.core.device import DEVICE_BACKENDS
from ferro.core.graph_task import STANDING
from ferro.cpu import shape
from ferro.cuda import driver
from ferro.cuda.loading import load
from tests.cuda import emulated, hand, stand_in, stand_in_device

REAL = os.environ.get("FERRO_TEST_CUDA") == "1"


@pytest.fixture(scope="module")
def cuda() -> Iterator[str]:
    """The name of the device, on which tensors are possible as long as the module's tests run."""
    if REAL:
        if driver.missing() is not None:
            pytest.fail(f"FERRO_TEST_CUDA=1, but {driver.missing()}")
        load()
        yield "cuda"
        return
    if emulated.COMPILER is None:
        pytest.skip("g++ is absent, which compiles the kernels that the stand-in runs")
    remove = stand_in.install()
    hand.compiled_together()
    driver.missing.cache_clear()
    assert load() is None
    yield "cuda"
    remove()
    STANDING.clear()
    driver.missing.cache_clear()
    DEVICE_BACKENDS.pop("cuda")
    backend.DEVICES.remove(stand_in.Array)
    backend._MODULES.pop(stand_in.Array)
    shape.GEOMETRIES.pop(stand_in.Array)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """A list of the graphs that are launched, one entry for each launch; accesses to memory are looked at."""
    if REAL:
        pytest.skip("the launches of the stand-in's graphs are counted")
    found: list = []
    plain = stand_in_device.Graph.launch

    def launch(self: Any, stream: Any = None) -> None:
        found.append(self)
        plain(self, stream)

    monkeypatch.setattr(stand_in_device.Graph, "launch", launch)
    with stand_in_device.watched() as device:
        yield found
        assert not device.wrong
