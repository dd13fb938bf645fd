"""Elementwise kernels against their formulas where numbers are special: nan, infinities, zeros, the least and the largest."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.op import ELEMENTWISE
from ferro.core.samples import ENTRIES, Arg
from ferro.ops import activations, clipped_activations, rectifiers

ROOT = Path(__file__).parents[2]
DTYPES = ["float32", "float64"]
SMALL, LARGE = 50, 5000  # an entry answers for the first, a kernel for the second
# losses of differences, whose kernels take all reductions
LOSSES = [
    "nn.functional.l1_loss",
    "nn.functional.mse_loss",
    "nn.functional.huber_loss",
    "nn.functional.smooth_l1_loss",
    "nn.functional.binary_cross_entropy_with_logits",
]


def specials(dtype: str) -> np.ndarray:
    """The numbers at which kernels and formulas are compared."""
    about = np.finfo(dtype)
    size = [0, about.smallest_subnormal, 1000 * about.smallest_subnormal, about.tiny, 1, 30, 1e10, about.max, np.inf]
    return np.array([*size, *[-v for v in size], np.nan], dtype)


def names() -> list[str]:
    """The declared functions of one tensor that are elementwise, and of two: derived from the operations."""
    found = [*LOSSES]
    for path, entry in ENTRIES.items():
        first = entry.samples[0]
        if not entry.differentiable or path == "msort" or path.startswith(("Tensor.", "special.", "linalg.")):
            continue
        if all(type(a) is Arg and a.dtype is None and not a.shape for a in first.args) and not first.kwargs:
            found.append(path)
    return sorted(found)


def tabulated(dtype: str, size: int) -> dict[str, np.ndarray]:
    """By name the values and the slopes of every function at the special numbers, in arrays of at least that size."""
    table = {}
    points = specials(dtype)
    for name in names():
        count = 2 if name in LOSSES else len(ENTRIES[name].samples[0].args)
        grids = [g.ravel() for g in np.meshgrid(*[points] * count)]
        n = grids[0].size
        arrays = [np.resize(g, max(n, size)) for g in grids]
        if size == SMALL and arrays[0].size > 4000:
            continue
        inputs = [ferro.tensor(a, requires_grad=True) for a in arrays]
        function: Any = ferro
        for part in name.split("."):
            function = getattr(function, part)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                y = function(*inputs, **({"reduction": "none"} if name in LOSSES else {}))
            except (RuntimeError, TypeError, ValueError):  # it is no function of such arguments
                continue
            if not isinstance(y, ferro.Tensor) or y.shape != inputs[0].shape or not y.requires_grad:
                continue
            slopes = ferro.autograd.grad(y, inputs, ferro.ones_like(y), allow_unused=True)
        for k, values in enumerate([y, *slopes]):
            if values is not None and values.dtype == inputs[0].dtype:
                table[f"{name} {k}"] = values.detach().numpy()[:n]
    return table


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """The tables of a process without kernels."""
    folder = tmp_path_factory.mktemp("formulas")
    code = f"""
import numpy as np
from tests.cpu.test_special_values import *
for dtype in DTYPES:
    np.savez({str(folder)!r} + "/" + dtype + ".npz", **tabulated(dtype, SMALL))
"""
    environment = {**os.environ, "FERRO_KERNELS": "off", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=120)
    return {dtype: dict(np.load(folder / f"{dtype}.npz")) for dtype in DTYPES}


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_agree_with_formulas_at_special_numbers(formulas: Any, dtype: str, size: int) -> None:
    table, about = tabulated(dtype, size), np.finfo(dtype)
    assert set(table) == set(formulas[dtype])
    assert len(table) > 150
    different = {}
    for name, expected in formulas[dtype].items():
        found = table[name]
        if name.split()[0] in LOSSES:  # a product may overflow on its way to a sum, or be rounded with it
            found, expected = np.clip(found, about.min, about.max), np.clip(expected, about.min, about.max)
        with np.errstate(all="ignore"):
            close = np.isclose(found, expected, rtol=1e3 * about.eps, atol=2 * about.tiny, equal_nan=True)
        if not close.all():
            different[name] = [(found[i], expected[i]) for i in np.flatnonzero(~close)[:4]]
    assert not different


def test_every_activation_with_a_kernel_is_compared() -> None:
    declared = {
        f"nn.functional.{name}"
        for name in (*activations.__all__, *clipped_activations.__all__, *rectifiers.__all__)
        if not name.endswith("_")
    }
    with_parameters = {"prelu", "rrelu", "threshold", "glu"}  # of other arguments than one tensor
    missing = declared - set(names()) - {f"nn.functional.{name}" for name in with_parameters}
    assert not missing
    assert activations.SILU.kind is ELEMENTWISE
