"""Many functions, forward alone, on tensors of three sizes: ferro beside torch, results compared first, then timed in turns.

    python bench/sweep.py --threads 1 --dtype float32 --sizes 16,10000,1000000

It prints the geometric mean of the ratios for each size, and the rows above a limit: microseconds of ferro and of torch,
least times. bench/run.py has the rows by which ferro is measured; this one finds functions that no row there has.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Expressions of `lib` and `F` (its functional), square matrices a and b of numbers between 0.1 and 1, c of normal numbers, their
# side n, a mask m, places i of rows and j of every element, and integers z; o, p, q and r are places for results.
UNARY = """abs neg sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh sigmoid erf
erfc erfinv lgamma digamma floor ceil round trunc frac sign reciprocal square relu isnan isfinite logical_not deg2rad logit
nan_to_num sum mean prod amax amin argmax std var norm all any count_nonzero nansum median cumsum:1 cumprod:1 cummax:1
logcumsumexp:1 sum:1 sum:0 mean:1 amax:1 amax:0 std:1 var:0 argmax:1 sort argsort msort topk:5 kthvalue:5 aminmax diff trace diag
tril triu flip:(0,) flip:(1,) roll:1,0 rot90 t().contiguous clone double half bfloat16 long bool item0 nonzero unique trapezoid
renorm:2,0,1. bernoulli multinomial:3 histc:20 cov"""
BINARY = """add sub mul div pow atan2 maximum minimum fmax fmin hypot remainder fmod eq lt ge ne logical_and logaddexp copysign xlogy
floor_divide heaviside nextafter dist equal isclose"""
FUNCTIONAL = """gelu silu mish elu selu celu softplus hardtanh hardswish hardsigmoid leaky_relu logsigmoid softsign tanhshrink
hardshrink softshrink relu6 normalize dropout softmax:1 softmax:0 log_softmax:1 glu"""
LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity"
OTHERS = """
o.add_(a) | o.mul_(1.0) | o.add_(a, alpha=0.5) | o.abs_() | o.relu_() | o.clamp_(0.2, 0.7) | o.addcmul_(a, b, value=0.0)
o.addcdiv_(a, b, value=0.0) | o.lerp_(a, 0.5) | o.sigmoid_() | o.copy_(a) | o.fill_(0.5) | o.zero_() | o.masked_fill_(m, 0.5)
lib.add(a, b, out=o) | lib.exp(a, out=o) | lib.clamp(a, 0.2, 0.7, out=o) | lib.cat((a, b), out=p) | lib.stack((a, b), out=q)
lib.sum(a, 1, out=r) | lib.index_select(a, 0, i, out=o) | o[: n // 2].copy_(a[: n // 2])
lib.cat((a, b)) | lib.cat((a, b), 1) | lib.stack((a, b)) | a.repeat(2, 1) | a.repeat_interleave(2, 0) | lib.tile(a, (1, 2))
F.pad(a, (1, 1)) | F.pad(a[None], (1, 1, 1, 1), mode="reflect") | a.unfold(0, 3, 2).contiguous() | a.swapaxes(0, 1).reshape(-1)
a.view(n, n, 1).permute(1, 2, 0).contiguous() | a[:, 1:] - a[:, :-1] | a[::2] * 2 | a + a.t() | a.narrow(0, 1, n - 2).clone()
a.gather(1, j) | a.scatter(1, j, b) | a.scatter_add(1, j, b) | lib.take_along_dim(a, j, 1) | a[i] | a[:, i] | a[i, i] | a[m]
a.index_select(1, i) | a.index_add(0, i, b) | a.masked_fill(m, 0.0) | lib.where(m, a, b) | lib.where(m, a, 0.0) | F.one_hot(i, n)
F.embedding(i, a) | lib.searchsorted(a[0].sort()[0], b) | lib.bucketize(a, b[0].sort()[0]) | lib.bincount(i) | lib.isin(z, i[:5])
F.nll_loss(a, i) | F.cross_entropy(a, i) | F.layer_norm(a, (n,)) | F.prelu(c, b[0, :1]) | lib.clamp(a, b, b + 1) | a.clamp(0.2, 0.7)
lib.addcmul(a, a, b) | lib.lerp(a, b, 0.3) | a * 2.0 | 1 - a | 1 / a | a**2 | a**3 | a**0.5 | 2**a | lib.max(a, b)
lib.eye(n) | lib.arange(n * n) | lib.linspace(0, 1, n * n) | lib.ones(n, n) | lib.full((n, n), 2.0) | lib.rand(n, n) | lib.randn(n, n)
lib.randint(0, 10, (n * n,)) | lib.randperm(n * n) | lib.triu_indices(n, n) | lib.meshgrid(a[0], b[0], indexing="ij")[0].contiguous()
lib.outer(a[0], b[0]) | a @ b[0] | lib.dot(a.view(-1), b.view(-1)) | lib.einsum("ij,kj->ik", a[:64], b[:64]) | lib.cdist(a[:64], b[:64])
lib.addmm(a[:64, :64], a[:64, :64], b[:64, :64]) | lib.tensordot(a[:50], b[:50], dims=([1], [1])) | lib.bmm(a[None, :64, :64], b[None, :64, :64])
F.interpolate(a[None, None], scale_factor=2) | F.interpolate(a[None, None], scale_factor=2, mode="bilinear")
F.avg_pool2d(a[None, None], 2) | F.max_pool2d(a[None, None], 2) | lib.complex(a, b) * lib.complex(b, a) | lib.fft.fft(a) | lib.fft.rfft(a)
z + z | z * 3 | z // 3 | z % 5 | z.sum() | z.float() | z == 3 | (z == 3).sum() | z.cumsum(0) | z ^ z | z << 1 | m & m | ~m
a.half() + b.half() | a.bfloat16() * b.bfloat16() | a.half().float() | a[0].tolist() | lib.allclose(a, b) | lib.equal(a, a.clone())
"""
UNSURE = re.compile(r"rand|dropout|bernoulli|multinomial|argsort")  # results that may be others


def expressions() -> list[str]:
    """The rows: expressions of Python."""
    rows = []
    for word in UNARY.split():
        name, _, given = word.partition(":")
        rows.append(
            "a[0, 0].item()"
            if name == "item0"
            else f"a.{name}({given})"
            if hasattr_of(name)
            else f"lib.{name}(a{', ' * bool(given)}{given})"
        )
    rows += [f"lib.{name}(a, b)" for name in BINARY.split()]
    for word in FUNCTIONAL.split():
        name, _, given = word.partition(":")
        rows.append(f"F.{name}(c{', ' * bool(given)}{given})")
    rows += [f"F.{name}(a, b)" for name in LOSSES.split()]
    return [*rows, *[row.strip() for row in OTHERS.replace("\n", "|").split("|") if row.strip()]]


def hasattr_of(name: str) -> bool:
    """Whether a row calls a method, and not a function."""
    return name in ("t().contiguous", "double", "half", "bfloat16", "long", "bool")


def scope(lib: Any, size: int, dtype: str) -> dict[str, Any]:
    """What the expressions name, the same for both engines."""
    rng, n = np.random.default_rng(0), math.isqrt(size)
    a, b = [rng.uniform(0.1, 1, (n, n)).astype(dtype) for _ in range(2)]
    given = {"a": a, "b": b, "c": rng.normal(size=(n, n)).astype(dtype), "m": a > 0.5, "o": a.copy()}
    given |= {"i": rng.integers(0, n, n), "j": rng.integers(0, n, (n, n)), "z": rng.integers(-9, 9, (n, n))}
    given |= {"p": np.zeros((2 * n, n), dtype), "q": np.zeros((2, n, n), dtype), "r": np.zeros(n, dtype)}
    return {"lib": lib, "F": lib.nn.functional, "n": n, **{k: lib.from_numpy(v.copy()) for k, v in given.items()}}


def numbers(found: Any) -> Any:
    """A result as an array: of several the first."""
    found = found[0] if isinstance(found, tuple) else found
    return np.asarray(found.detach().cdouble() if hasattr(found, "detach") else found)


def least(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each call, in microseconds: blocks of them take turns."""
    began = time.perf_counter()
    calls[-1]()
    one = max(time.perf_counter() - began, 1e-7)
    count, found = max(1, min(50, int(3e-4 / one))), [math.inf] * len(calls)
    end, rounds = time.perf_counter() + max(seconds, 8 * one), 0
    while time.perf_counter() < end or rounds < 3:
        for k, call in enumerate(calls):
            began = time.perf_counter()
            for _ in range(count):
                call()
            found[k] = min(found[k], (time.perf_counter() - began) / count)
        rounds += 1
    return [1e6 * t for t in found]


def measured(engines: list[Any], size: int, dtype: str, rows: list[str], seconds: float) -> dict[str, list[float]]:
    """The times of both engines, by row."""
    scopes, found = [scope(lib, size, dtype) for lib in engines], {}
    for row in rows:
        if row.startswith("o"):  # it changes what it is given
            scopes = [scope(lib, size, dtype) for lib in engines]
        code = compile(row, "<row>", "eval")
        calls = [lambda s=s: eval(code, s) for s in scopes]  # noqa: B023 (called before the next one)
        try:
            results = [numbers(call()) for call in calls]
        except (RuntimeError, IndexError, ValueError) as error:  # too small for it
            print(f"  {size} {row}: {str(error).splitlines()[0][:100]}")
            continue
        if not UNSURE.search(row):
            np.testing.assert_allclose(
                *results, rtol=1e-2 if "half" in row or "float16" in row else 1e-3, atol=1e-3, err_msg=row
            )
        found[row] = least(calls, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--sizes", default="16,10000,1000000", help="elements, three numbers or more")
    parser.add_argument("--rows", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=float, default=0.03, help="spent on each row")
    parser.add_argument("--above", type=float, default=1.1, help="rows with a larger ratio are printed")
    parser.add_argument("--json", help="where to save the figures")
    args = parser.parse_args()
    import torch

    import ferro

    engines, everything = [ferro, torch], {}
    rows = [row for row in expressions() if re.search(args.rows, row)]
    for lib in engines:
        lib.set_num_threads(args.threads)
        lib.set_grad_enabled(False)
    warnings.simplefilter("ignore")
    for size in map(int, args.sizes.split(",")):
        found = everything[size] = measured(engines, size, args.dtype, rows, args.seconds)
        ratios = {row: ours / theirs for row, (ours, theirs) in found.items()}
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(
            f"{size} elements: {mean:.2f} in the mean of {len(ratios)} rows, {sum(r > 1.05 for r in ratios.values())} above 1.05"
        )
        for row, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
            if ratio > args.above:
                print(f"  {ratio:6.2f}  {found[row][0]:10.2f} {found[row][1]:10.2f}  {row}")
    if args.json:
        Path(args.json).write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
