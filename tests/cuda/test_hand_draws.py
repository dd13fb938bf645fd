"""Random numbers by counter, run thread by thread beside Philox in NumPy: words, distributions, dropout, whatever the launch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda import philox as streams
from ferro.cuda.by_hand import draws
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 64, 100, 255, 256, 511, 1000, 1023, 1024, 1025, 2048, 4099)
# Of Random123's file of known answers, for ten rounds: counter, key, words.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
M0, M1, W0, W1, LOW = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, np.uint64(0xFFFFFFFF)


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """The words of counters (n, 4), in uint64, after ten rounds."""
    a, b, c, d = counters.astype(np.uint64).T
    for r in range(10):
        k0, k1 = np.uint64((key[0] + r * W0) & 0xFFFFFFFF), np.uint64((key[1] + r * W1) & 0xFFFFFFFF)
        p, q = a * np.uint64(M0), c * np.uint64(M1)
        a, b, c, d = q >> np.uint64(32) ^ b ^ k0, q & LOW, p >> np.uint64(32) ^ d ^ k1, p & LOW
    return np.stack([a, b, c, d], -1)


def words(n: int, seed: int, block: int = 0) -> np.ndarray:
    """n words of a seed from a block on."""
    numbers = np.arange(-(-n // 4), dtype=object) + block
    counters = np.array([[b & 0xFFFFFFFF, b >> 32, 0, 0] for b in numbers.tolist()], np.uint64)
    return philox(counters, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:n]


def pairs(n: int, seed: int, block: int = 0) -> np.ndarray:
    """n numbers of 64 bits, the first word of each the higher one."""
    w = words(2 * n, seed, block)
    return w[0::2] << np.uint64(32) | w[1::2]


def units(n: int, dtype: str, seed: int, block: int = 0) -> np.ndarray:
    """n numbers of [0, 1)."""
    if dtype == "float64":
        return (pairs(n, seed, block) & np.uint64((1 << 53) - 1)) * 2.0**-53
    return (words(n, seed, block) & np.uint64(0xFFFFFF)) * 2.0**-24


def within(u: np.ndarray, dtype: str, low: float, high: float) -> np.ndarray:
    """Numbers of [low, high) rounded to a dtype, `low` where that gives the upper bound."""
    v = (u * (high - low) + low).astype(hand.DTYPES[dtype]).astype(np.float64)
    return np.where(v >= high, low, v)


def inner(n: int, seed: int) -> np.ndarray:
    """Two numbers of (0, 1) for each of n blocks."""
    return (((pairs(2 * n, seed) & np.uint64((1 << 52) - 1)) + 0.5) * 2.0**-52).reshape(n, 2)


def normals(n: int, dtype: str, seed: int, block: int = 0) -> np.ndarray:
    """n normal numbers."""
    if dtype == "float64":
        v = pairs(2 * (-(-n // 2)), seed, block)
        r = np.sqrt(-2 * np.log(((v[0::2] & np.uint64((1 << 52) - 1)) + 0.5) * 2.0**-52))
        angle = 2 * np.pi * (v[1::2] & np.uint64((1 << 53) - 1)) * 2.0**-53
    else:
        v = words(4 * (-(-n // 4)), seed, block)
        r, angle = np.sqrt(-2 * np.log((v[0::2] + 0.5) * 2.0**-32)), 2 * np.pi * v[1::2] * 2.0**-32
    return np.stack([r * np.cos(angle), r * np.sin(angle)], -1).reshape(-1)[:n]


def test_words_are_those_of_the_known_answers() -> None:
    text = draws.texts("float32")[0] + (
        "\nKERNEL known(const unsigned* g, unsigned* out) {\n"
        "  const Words w = philox((big)g[5] << 32 | g[4], g[0], g[1], g[2], g[3]);\n"
        "  for (int k = 0; k < 4; ++k) out[k] = w.v[k];\n}\n"
    ).replace("KERNEL", 'extern "C" __global__ void')
    for counter, key, want in KNOWN:
        assert tuple(philox(np.array([counter]), key)[0].tolist()) == want
        out = stand_in.there(np.zeros(4, np.uint32))
        emulated.Kernel(text, "known")((1,), (1,), (stand_in.there(np.array([*counter, *key], np.uint32)), out))
        assert tuple(out.near.tolist()) == want


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_uniform_and_normal_numbers_are_made_of_the_words(dtype: str) -> None:
    d = np.dtype(hand.DTYPES[dtype])
    for n in SIZES:
        for make, name, want in (
            (lambda s, n=n: s.uniform((n,), d), "draw_uniform", within(units(n, dtype, 7, 3), dtype, 0, 1)),
            (lambda s, n=n: s.uniform((n,), d, -3.0, 5.0), "draw_uniform", within(units(n, dtype, 7, 3), dtype, -3, 5)),
            (lambda s, n=n: s.normal((n,), d), "draw_normal", normals(n, dtype, 7, 3)),
            (lambda s, n=n: s.normal((n,), d, 2.0, 0.5), "draw_normal", 2 + normals(n, dtype, 7, 3) / 2),
        ):
            used = []

            def run(make: Any = make, used: list = used) -> Any:
                stream = streams.Philox(7)
                stream.offset = 12
                found = make(stream)
                used.append(stream.offset)
                return found

            got = hand.in_all_orders(run, name)
            hand.close(got, want, dtype, f"{name} {n}", 6.0)
            assert set(used) == {12 + 4 * -(-n // draws.each(d))}


def test_uniform_numbers_are_never_the_upper_bound() -> None:
    for dtype in hand.DTYPES:
        u = hand.wide(streams.Philox(1).uniform((4000,), np.dtype(hand.DTYPES[dtype]), 1.0, 1.01))
        top = float(np.asarray(1.01).astype(hand.DTYPES[dtype]))
        assert u.min() >= 1
        assert u.max() < top, dtype


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_transformed_numbers_are_made_of_a_block_each(dtype: str) -> None:
    d = np.dtype(hand.DTYPES[dtype])
    for n in SIZES:
        u, t = inner(n, 5).T
        z = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * t)
        for method, parameters, want in (
            ("exponential", (2.0,), -np.log(u) / 2),
            ("cauchy", (1.0, 0.5), 1 + np.tan(np.pi * (u - 0.5)) / 2),
            ("geometric", (0.3,), np.ceil(np.log(u) / math.log(0.7))),
            ("log_normal", (0.5, 0.25), np.exp(0.5 + z / 4)),
        ):
            got = hand.in_all_orders(
                lambda m=method, p=parameters, n=n: getattr(streams.Philox(5), m)((n,), d, *p), "draw_made"
            )
            np.testing.assert_allclose(
                hand.wide(got), want.astype(d).astype(np.float64), rtol=2 * hand.TOLERANCE[dtype]
            )


def test_integers_and_truths_are_made_of_the_words() -> None:
    for n in SIZES:
        v = [int(x) for x in pairs(n, 9)]
        for low, high in ((0, 10), (-5, 1 << 40), (-(1 << 63), 1 << 63), (3, 4)):
            want = [low + (x * (high - low) >> 64) for x in v]
            got = hand.in_all_orders(
                lambda n=n, b=(low, high): streams.Philox(9).integers((n,), np.dtype(np.int64), *b), "draw_whole"
            )
            assert got.get().tolist() == want
        got = hand.in_all_orders(lambda n=n: streams.Philox(9).coins((n,), 0.3), "draw_coins")
        np.testing.assert_array_equal(got.get(), words(n, 9) < 0.3 * 2**32)
        assert sorted(streams.Philox(9).permutation(n).get().tolist()) == list(range(n))
        assert not streams.Philox(9).coins((n,), 0.0).get().any()
        assert streams.Philox(9).coins((n,), 1.0).get().all()
        for dtype in hand.DTYPES:
            p = hand.floats(np.random.default_rng(n), (n,), dtype, 0, 1)
            got = hand.in_all_orders(lambda n=n, p=p: streams.Philox(9).coins((n,), hand.there(p)), "draw_coins_of")
            np.testing.assert_array_equal(got.get(), units(n, dtype, 9) < p.astype(np.float64))


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_dropout_keeps_what_its_words_say_forward_and_backward(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for n in SIZES:
        a = hand.floats(rng, (n + 1,), dtype)
        kept = words(n, 11) < 0.75 * 2**32
        for start in (0, 1):  # (of a view the elements need not lie where four can be read at once)
            x = hand.there(a)[start : start + n]

            def run(x: Any = x) -> Any:
                mask = streams.Philox(11).mask(x, 0.75)
                return mask(x), mask(x)

            first, second = hand.in_all_orders(run, "drop", "drop")
            want = np.where(kept, a[start : start + n].astype(np.float64) / 0.75, 0)
            hand.close(first, want, dtype, f"dropout {n} {start}")
            assert first.get().tobytes() == second.get().tobytes()


def launches(text: str, name: str, per: int, n: int, out: Any, *rest: Any) -> list[bytes]:
    """The bits of a draw by blocks of several sizes."""
    found = []
    for threads in (32, 64, 256, 1024):
        grid = -(-n // (per * threads))
        fresh = stand_in.there(np.zeros_like(out))
        key = (np.int64(n), np.int64(77), np.int64(5), stand_in.there(np.zeros(0, np.int64)))
        emulated.Kernel(text, name)((grid,), (threads,), (*key, *rest, fresh))
        found.append(fresh.near.tobytes())
    return found


def test_numbers_do_not_depend_on_the_launch() -> None:
    text = draws.texts("float32")[0]
    two = np.float64(0), np.float64(1)
    for name, per in (("draw_uniform", 4), ("draw_normal", 4)):
        assert len(set(launches(text, name, per, 3001, np.zeros(3001, np.float32), *two))) == 1
    # nor on how many are drawn at once
    whole = streams.Philox(4).normal((64,), np.dtype(np.float32)).get()
    stream = streams.Philox(4)
    parts = [stream.normal((16,), np.dtype(np.float32)).get() for _ in range(4)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


FAULTS = [
    ("round < 10", "round < 9"),
    ("b = low_c;", "b = low_a;"),
    ("k += 0x9E3779B9u;", ""),
    ("w.v[k] < bound ?", "w.v[0] < bound ?"),
    ("(big)(start + number", "(big)(number"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text, *_) = draws.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    n, rng = 1021, np.random.default_rng(0)
    a = rng.uniform(-1, 1, n).astype(np.float32)
    want = np.where(words(n, 6, 2) < 0.5 * 2**32, 2 * a, 0)
    agrees = []
    for each in (text, wrong):
        x, out = stand_in.there(a), stand_in.there(np.zeros(n + 3, np.float32))
        source = np.int64(n), np.int64(6), np.int64(2), stand_in.there(np.zeros(0, np.int64))
        emulated.Kernel(each, "drop")((1,), (256,), (*source, np.float64(2**31), np.float64(2), x, out))
        agrees.append(bool(np.array_equal(out.near[:n], want) and not out.near[n:].any()))
    assert agrees == [True, False]


def test_moments_are_those_of_the_distributions() -> None:
    ferro.manual_seed(1)
    n = 40_000
    z = ferro.randn(n, device="cuda", dtype=ferro.float64).cpu().numpy()
    u = ferro.rand(n, device="cuda", dtype=ferro.float64).cpu().numpy()
    assert abs(z.mean()) < 4 / math.sqrt(n)
    assert abs((z**2).mean() - 1) < 4 * math.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 4 * math.sqrt(96 / n)
    assert abs(u.mean() - 0.5) < 4 * math.sqrt(1 / 12 / n)
    counts = np.bincount((u * 16).astype(int), minlength=16)
    assert ((counts - n / 16) ** 2 / (n / 16)).sum() < 45  # chi-square with 15 degrees: 1e-4
