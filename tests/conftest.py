"""What every test stands on: a seed of its own, no state left behind, and torch as the oracle where it is installed."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import random
import signal
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run and on every machine; the limit on time is that of the test.
settings.register_profile("ferro", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("ferro")

# Kernels are waited for, or off: in any other way NumPy would answer until they are made, and a first run be another than the second.
os.environ["FERRO_KERNELS"] = "off" if os.environ.get("FERRO_KERNELS", "").strip().lower() == "off" else "wait"

# What code under test may switch and must switch back (tests too).
AMBIENT = ("is_grad_enabled", "is_inference_mode_enabled", "get_default_dtype", "get_num_threads", "is_strict")


def pytest_report_header() -> str:
    """The versions that numbers depend on."""
    versions = []
    for name in ("numpy", "scipy", "numba", "ml_dtypes", "torch"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return ", ".join(versions)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-skipped",
        type=float,
        default=100,
        metavar="PERCENT",
        help="fail if more of the tests are skipped: then they say little of what they were run for",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: at the end one process would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep `--most-skipped`, where the results come together."""
    reporter, most = session.config.pluginmanager.get_plugin("terminalreporter"), session.config.option.most_skipped
    if reporter is None or hasattr(session.config, "workerinput") or most >= 100:
        return
    skipped, passed = len(reporter.stats.get("skipped", ())), len(reporter.stats.get("passed", ()))
    share = 100 * skipped / max(skipped + passed, 1)
    reporter.write_line(f"\n{share:.1f} % of the tests were skipped, of at most {most:g} %")
    if share > most or not passed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", autouse=True)
def _collected() -> None:
    """Take what there is by now out of the sight of the cycle collector: all that the tests collect is what they made."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number that belongs to this test: it does not depend on what runs before or beside it."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A fresh generator with the seed of this test."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _seeded(seed: int) -> None:
    """Seed every global generator that is loaded; torch computes on one thread, so that its sums never differ."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - library code that still reads the global generator must be repeatable too
    for name in ("ferro", "torch"):
        if hasattr(sys.modules.get(name), "manual_seed"):
            sys.modules[name].manual_seed(seed)
    if "torch" in sys.modules and sys.modules["torch"].get_num_threads() != 1:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """Fail the test after which ferro's modes, default dtype or number of threads are not what they were before it."""
    before = _ambient()
    yield
    after = _ambient()
    changed = [f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name]]
    assert not changed, f"the test left ferro changed: {', '.join(changed)}"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler of Ctrl-C: a process that a shell started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _ambient() -> dict[str, Any]:
    ferro, switches = sys.modules.get("ferro"), sys.modules.get("ferro.backends.switches")
    found = {name: getattr(ferro, name)() for name in AMBIENT if hasattr(ferro, name)}
    return found | {"fp32_precision": dict(getattr(switches, "ASKED", {}))}


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, the oracle.  A module that needs it throughout says the same with its own `pytest.importorskip`."""
    return pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)
