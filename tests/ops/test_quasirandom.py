"""Sobol points, those that PyTorch draws."""

from __future__ import annotations

import numpy as np
import pytest

import ferro

pytest.importorskip("scipy")


def _engines(torch, *args, **kwargs):
    return ferro.quasirandom.SobolEngine(*args, **kwargs), torch.quasirandom.SobolEngine(*args, **kwargs)


@pytest.mark.parametrize("scramble", [False, True], ids=["plain", "scrambled"])
@pytest.mark.parametrize("dimension", [1, 2, 40])
def test_points_are_pytorchs(dimension, scramble, torch):
    engine, other = _engines(torch, dimension, scramble=scramble, seed=1234)
    for n in (1, 5, 26):
        assert (engine.draw(n).numpy() == other.draw(n).numpy()).all()
    engine.fast_forward(7)
    other.fast_forward(7)
    wide = engine.draw(3, dtype=ferro.float64)
    assert wide.dtype is ferro.float64
    assert (wide.numpy() == other.draw(3, dtype=torch.float64).numpy()).all()
    assert engine.num_generated == other.num_generated == 42
    engine.reset()
    other.reset()
    out = ferro.empty(0)
    assert engine.draw_base2(3, out=out) is out
    assert (out.numpy() == other.draw_base2(3).numpy()).all()
    assert repr(engine) == repr(other)


def test_without_a_seed_the_default_generator_scrambles():
    def drawn():
        return ferro.quasirandom.SobolEngine(3, scramble=True).draw(16).numpy()

    ferro.manual_seed(3)
    first, second = drawn(), drawn()
    ferro.manual_seed(3)
    assert (drawn() == first).all()
    assert not (first == second).all()
    assert np.unique(np.floor(first * 16), axis=0).shape == (16, 3)  # one point in each sixteenth, in every dimension
    assert all(len(set(column)) == 16 for column in np.floor(first * 16).T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e(0), r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"),
        (lambda e: e(21202), "Supported range of dimensionality"),
        (lambda e: e(2).draw(-1), "must not be negative"),
        (
            lambda e: e(2).fast_forward(3).draw_base2(2),
            "The balance properties of Sobol' points require n to be a power of 2. 3 points",
        ),
    ],
    ids=["none", "many", "negative", "no power"],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(ferro.quasirandom.SobolEngine)
