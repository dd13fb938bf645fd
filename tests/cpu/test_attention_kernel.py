"""Attention by the kernels of kernels/attention.py, against its formula in float64: shapes, layouts, causal or not."""

from __future__ import annotations

import numpy as np
import pytest

import ferro
from ferro.cpu.kernels import attention
from ferro.native.readiness import get
from tests.configuration import with_tiles

pytestmark = with_tiles

DTYPES = (np.float32, np.float64)
SHAPES = (  # in front, rows, columns, width, depth
    ((), 1, 1, 1, 1),
    ((), 7, 9, 3, 5),
    ((3,), 64, 64, 24, 24),
    ((2, 3), 61, 61, 16, 20),
    ((2,), 100, 40, 8, 33),
    ((2,), 40, 100, 33, 8),
    ((1, 2, 3), 13, 12, 4, 4),
    ((1,), 130, 700, 5, 70),
    ((1,), 250, 250, 64, 64),
)


def formula(q, k, v, g, scale, causal):
    """The result, the softmax, and the gradients by q, k and v."""
    q, k, v, g = [x.astype(np.float64) for x in (q, k, v, g)]
    scores = scale * (q @ k.swapaxes(-1, -2))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return p @ v, p, ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def arrays(shape, dtype, seed=0):
    batch, rows, columns, width, depth = shape
    rng = np.random.default_rng(seed)
    sizes = (rows, width), (columns, width), (columns, depth), (rows, depth)
    return [rng.uniform(-1, 1, (*batch, *size)).astype(dtype) for size in sizes]


def kernels(q, k, v, g, scale, causal):
    out, p = attention.attend(q, k, v, scale, causal)
    return out, p, *attention.attend_vjp(g, q, k, v, p, scale, causal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_formula(shape, causal, dtype):
    q, k, v, g = arrays(shape, dtype)
    for found, expected in zip(kernels(q, k, v, g, -0.7, causal), formula(q, k, v, g, -0.7, causal), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e3 * np.finfo(dtype).eps)


def test_views_are_read_where_they_lie():
    """Heads side by side in the rows of one matrix, as layers of attention have them; rows backwards; a repeated head."""
    rng = np.random.default_rng(1)
    joint = rng.uniform(-1, 1, (2, 50, 3 * 4 * 8)).astype(np.float32)
    q, k, v = [x.reshape(2, 50, 4, 8).swapaxes(1, 2) for x in np.split(joint, 3, -1)]
    g = rng.uniform(-1, 1, (2, 50, 4, 8)).astype(np.float32).swapaxes(1, 2)
    once = np.broadcast_to(k[:, :1], k.shape)
    across = np.ascontiguousarray(v.swapaxes(-1, -2)).swapaxes(-1, -2)
    cases = (q, k, v, g), (q[..., ::-1, :], k, v[..., ::-1, :], g), (q, once, across, g[..., ::-1])
    for x, y, z, d in cases:
        plain = [np.ascontiguousarray(one) for one in (x, y, z, d)]
        wanted = kernels(plain[0], plain[1], plain[2], plain[3], 0.3, True)
        for found, expected in zip(kernels(x, y, z, d, 0.3, True), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_how_the_work_is_cut_does_not_matter():
    q, k, v, g = arrays(((5,), 150, 90, 16, 16), np.float32)
    for causal in (False, True):
        whole = kernels(q, k, v, g, 0.25, causal)
        begins, plan = attention._plan((q, k, v), q, k, causal)
        p, out = np.full_like(whole[1], np.nan), np.full_like(whole[0], np.nan)
        blocks = 5 * -(-150 // plan[0])
        for block in reversed(range(blocks)):
            get("attend")(block, block + 1, *begins, p, out, 0.25, causal, plan)
        np.testing.assert_array_equal(out, whole[0])
        np.testing.assert_array_equal(p, whole[1])


def test_nan_stays_in_its_row():
    q, k, v, _ = arrays(((2,), 70, 70, 16, 16), np.float32)
    q[0, 3, 2], v[1, 60, 4] = np.nan, np.inf
    out, p = attention.attend(q, k, v, 0.25, True)
    assert np.isnan(out[0, 3]).all()
    assert np.isnan(p[0, 3, :4]).all()
    assert (p[0, 3, 4:] == 0).all()
    rest = np.ones(out.shape, bool)
    rest[0, 3], rest[1, 60:, 4] = False, False
    assert np.isfinite(out[rest]).all()
    assert not np.isfinite(out[1, 60:, 4]).any()


def test_through_the_function():
    """With gradients, 16-bit numbers, and fewer heads than backward gives to the kernel."""
    for batch, dtype in (((2, 4), ferro.float32), ((1,), ferro.float32), ((2, 4), ferro.float16)):
        q, k, v, g = arrays((batch, 80, 80, 16, 16), np.float32)
        a, b, c, d = [ferro.tensor(x, dtype=dtype) for x in (q, k, v, g)]
        inputs = [t.requires_grad_() for t in (a, b, c)]
        out = ferro.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=True, scale=0.25)
        out.backward(d)
        rounded = [t.detach().float().numpy() for t in (a, b, c, d)]
        expected = formula(rounded[0], rounded[1], rounded[2], rounded[3], 0.25, True)
        atol = 1e-5 if dtype is ferro.float32 else 4e-3
        for found, right in zip((out.detach(), *[t.grad for t in inputs]), (expected[0], *expected[2:]), strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found.float().numpy(), right, rtol=0, atol=atol)
