"""The dtype that `out=` may have, of every function that takes it: what PyTorch refuses is refused, in its words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ferro
from tests.helpers import Call, Sample, arrays_of, entries, rng_of

# Reals written from complex numbers lose a part without a word in PyTorch; the others are PyTorch's lack of an overload.
LEFT_OUT = {"logsumexp", "median", "nanmedian", "nanmean", "nansum"}
WITH_OUT = [e for e in entries() if e.reference == "torch" and not e.method and e.path not in LEFT_OUT]


def _said(library: Any, entry: Any, sample: Sample, arrays: list, dtype: str) -> str:
    """What the call says when `out` has this dtype: nothing if it goes through."""
    out = library.empty(0, dtype=getattr(library, dtype))
    asked = Sample(*sample.args, **{**sample.kwargs, "out": out})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Call(entry, asked, library, [a.copy() for a in arrays], False).run()
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as e:
        return f"{type(e).__name__}: {e}"
    return ""


@pytest.mark.parametrize("entry", WITH_OUT, ids=[e.path for e in WITH_OUT])
def test_out_of_another_dtype(entry: Any, torch: Any) -> None:
    sample = entry.samples[0]
    arrays = arrays_of(sample, rng_of(entry.path), "float64")
    if _said(ferro, entry, sample, arrays, "float64").startswith(("TypeError", "IndexError")):
        return  # it has no `out`, or more than one
    for dtype in ("float32", "complex128", "int64"):
        theirs = _said(torch, entry, sample, arrays, dtype)
        if not theirs.startswith("TypeError"):  # (PyTorch has no such overload)
            ours = _said(ferro, entry, sample, arrays, dtype)
            assert bool(ours) == bool(theirs), (dtype, theirs, ours)


@pytest.mark.parametrize("name", ["neg", "mm", "isposinf", "all", "nonzero", "float_power", "quantile", "amax"])
def test_the_sentence_is_pytorchs(name: str, torch: Any) -> None:
    said = []
    for library in (torch, ferro):
        x = library.ones(2, 2)
        more = {"mm": (x,), "float_power": (2,), "quantile": (0.5,), "amax": (0,)}.get(name, ())
        with pytest.raises(RuntimeError) as error:
            getattr(library, name)(x, *more, out=library.empty(0, dtype=library.complex64))
        said.append(str(error.value).splitlines()[0])
    assert said[0] in said[1]


def test_running_sums_are_computed_in_the_dtype_of_out(torch: Any) -> None:
    for library in (torch, ferro):
        x, out = library.tensor([0.5, 0.5, 2.5]), library.empty(0, dtype=library.int64)
        assert library.cumsum(x, 0, out=out).tolist() == [0, 0, 2]
        assert library.cumprod(x, 0, out=out).tolist() == [0, 0, 0]
