"""PyTorch's operator database against ferro: a thinned sweep here, every sample with `make slow` or `make opdb`.

The probe lives beside the repository (../shared/opdb); where it is absent, these tests are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROBE = ROOT.parent / "shared" / "opdb" / "opdb.py"

# (operation, check) -> the dtypes for which ferro does not do as PyTorch there, and why
ALL = ("float64", "complex128", "float32")
EXCEPTIONS = {
    ("logcumsumexp", "jvp"): (
        ("float64", "float32"),
        "PyTorch's own directional derivative is off by 3e-6 of the value",
    ),
    ("nn.functional.multi_head_attention_forward", "gradgrad"): (
        ("float32",),
        "one of 155 samples: rounding of a saturated softmax, 0.5 % of a small element (float64 agrees)",
    ),
    **{
        ("chalf", check): (ALL, "complex32 has no gradients; it raises and names cfloat()")
        for check in ("vjp", "gradgrad")
    },
}


def failures(dtype: str, out: Path, *options: str) -> dict[tuple[str, str], str]:
    """The (operation, check) pairs that do not pass, with the probe's message."""
    pytest.importorskip("torch", reason="PyTorch is the oracle of this test and is not installed")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs the package expecttest")
    if not PROBE.exists():
        pytest.skip("the operator database's probe is not beside the repository")
    command = [
        sys.executable,
        str(PROBE),
        "--engine",
        "ferro",
        "--engine-path",
        str(ROOT),
        "--dtype",
        dtype,
        "--jobs",
        "1",
        "--quiet",
        "--json",
        str(out),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(out.read_text())
    assert result["complete"]
    found = {}
    for op in result["ops"]:
        for check, outcome in op["checks"].items():
            if outcome["verdict"] not in ("pass", "skip"):
                found[op["key"], check] = str(outcome.get("message") or outcome.get("reason"))
    assert len(result["ops"]) > 300, "the sweep saw too few operations to mean anything"
    return found


@pytest.mark.first
@pytest.mark.parametrize("dtype", ALL)
def test_a_thinned_sweep_passes(dtype: str, tmp_path: Path) -> None:
    options = ["--max-samples", "1"]
    if dtype == "float32":  # (its second derivatives and forward mode are those of float64, and take most of the time)
        options += ["--checks", "forward,vjp"]
    found = failures(dtype, tmp_path / "result.json", *options)
    assert {k: v for k, v in found.items() if dtype not in EXCEPTIONS.get(k, ((), ""))[0]} == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dtype", ALL)
def test_every_sample_passes(dtype: str, tmp_path: Path) -> None:
    found = failures(dtype, tmp_path / "result.json")
    assert set(found) == {k for k, (dtypes, _) in EXCEPTIONS.items() if dtype in dtypes}, found
