"""PyTorch's operator database under vmap: samples of every operation against a loop, with `make slow`.

The database's probe lives beside the repository (../shared/opdb); where it or PyTorch is absent, this is skipped.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.func import vmap
from tests.ops.test_batched import first, leaves, second

PROBE = Path(__file__).parent.parent.parent / "shared" / "opdb"
SAMPLES = 15  # of each entry of the database
# What these say is how an operation refuses a batch; anything else, and any other number, is a failure.
REFUSALS = (
    r"data-dependent output shape|data-dependent control flow|\.item\(\)|randomness error mode|reads the numbers|"
    r"explicit positive num_classes|inplace arithmetic|has no batching rule|same for all slices"
)


def entries(dtype: Any) -> list:
    sys.path.insert(0, str(PROBE))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from opdb_probe import cases, database, engines

            engine = engines.load("ferro")
            return [
                cases.Entry(engine, key, op, dtype, SAMPLES)
                for key, op in database.entries()
                if not database.out_of_scope(key)
            ]
    finally:
        sys.path.remove(str(PROBE))


def outcomes(entry: Any, dtype: Any) -> list[str]:
    """What went otherwise than in the loop."""
    from opdb_probe import cases
    from opdb_probe.convert import engine_constant

    found = []
    for index, sample in list(entry.samples("vjp" if entry.differentiable else "forward"))[:SAMPLES]:
        try:
            frozen = cases.Case(entry, index, sample).frozen
        except Exception:  # noqa: BLE001 (a sample that means nothing outside of PyTorch)
            continue
        # the second slice is the first one, scaled: what is symmetric, positive or triangular stays so
        slices = [
            [
                ferro.from_numpy(a.copy()),
                ferro.from_numpy(np.asarray(a * 0.875, a.dtype) if a.dtype.kind in "fc" else a.copy()),
            ]
            for a in frozen.arrays
        ]
        moving = [i for i, d in enumerate(frozen.differentiable) if d]

        def f(tensors: list, frozen: Any = frozen) -> tuple:
            given = iter(tensors)
            args, kwargs, _ = frozen.thaw(lambda a, rg: next(given), lambda x: engine_constant(entry.engine, x), False)
            return tuple(leaves(entry.fn(*args, **kwargs)))

        orders: list[Any] = [f]
        if moving and entry.unsupported("vjp") is None:
            orders.append(lambda ts, f=f, moving=moving: first(f, ts, moving))
            if entry.unsupported("gradgrad") is None:
                orders.append(lambda ts, f=f, moving=moving: second(f, ts, moving))
        for order, function in enumerate(orders):
            try:
                looped = [function([s[i] for s in slices]) for i in range(2)]
                if not looped[0] or any(a.shape != b.shape for a, b in zip(*looped, strict=True)):
                    break
            except Exception:  # noqa: BLE001 (what the loop refuses is not asked of vmap)
                break
            try:
                got = (
                    vmap(lambda *xs, g=function: g(list(xs)))(*[ferro.stack(s) for s in slices])
                    if slices
                    else looped[0]
                )
                for a, *rows in zip(got, *looped, strict=True) if slices else ():
                    want = np.stack([r.detach().numpy() for r in rows])
                    size = np.abs(want[np.isfinite(want)]).max(initial=1) if want.dtype.kind in "fc" else 1
                    np.testing.assert_allclose(a.detach().numpy(), want, rtol=1e-7, atol=1e-9 * size)
            except Exception as e:  # noqa: BLE001
                if not (isinstance(e, RuntimeError) and re.search(REFUSALS, str(e))):
                    found.append(f"{entry.key} sample {index} order {order}: {type(e).__name__}: {str(e)[:300]}")
                break
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore")
def test_the_operator_database_under_vmap() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch's operator database is not installed")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs the package expecttest")
    if not (PROBE / "opdb.py").exists():
        pytest.skip("the operator database's probe is not beside the repository")
    wrong = []
    for entry in entries(torch.float64):
        if entry.missing is None and entry.dtype is not None:
            wrong += outcomes(entry, torch.float64)
    assert not wrong, "\n".join(wrong)
