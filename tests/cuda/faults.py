"""Faults of three kinds for the kernels of each family: a missing barrier, a wrong index, a sum in too narrow a type.

A fault is planted in the texts of its family, wherever one is launched, and a test of the family, called as it stands, must fail. What a
family cannot have is said with the reason; test_planted_faults.py looks whether the texts bear that out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from ferro.cuda import kernels
from ferro.cuda.by_hand import launching
from ferro.cuda.by_hand.texts import TEAMS
from ferro.cuda.printer import HEAD
from tests.cuda import emulated, hand
from tests.cuda import test_hand_attention as attention
from tests.cuda import test_hand_convolution as convolution
from tests.cuda import test_hand_draws as draws
from tests.cuda import test_hand_extremes as extremes
from tests.cuda import test_hand_gates as gates
from tests.cuda import test_hand_gathers as gathers
from tests.cuda import test_hand_long_sums as long_sums
from tests.cuda import test_hand_losses as losses
from tests.cuda import test_hand_norms as norms
from tests.cuda import test_hand_optimisers as optimisers
from tests.cuda import test_hand_pooling as pooling
from tests.cuda import test_hand_reductions as reductions
from tests.cuda import test_hand_refused as refused
from tests.cuda import test_hand_rejection as rejection
from tests.cuda import test_hand_resampling as resampling
from tests.cuda import test_hand_scatter as scatter
from tests.cuda import test_hand_softmax as softmax
from tests.cuda import test_printed as printed

KINDS = ("barrier", "index", "sum")
BARRIER = "__syncthreads();"
ALONE = "no thread reads what another one has written in the same launch"
NO_SUMS = "each result is made of a few numbers, and none is added to"


@dataclass(frozen=True)
class Fault:
    """`before` becomes `after` in the texts of a dtype, and `check` must fail."""

    kind: str
    dtype: str
    before: str
    after: str
    check: Callable[[], Any]


def no_barrier(dtype: str, near: str, check: Callable[[], Any]) -> Fault:
    """The barrier is left out that stands in `near`, as @."""
    return Fault("barrier", dtype, near.replace("@", BARRIER), near.replace("@", ""), check)


def narrow(dtype: str, before: str, check: Callable[[], Any]) -> Fault:
    """`name += value;` rounds the sum: to float of doubles, to 16 bits of floats."""
    name, _, value = before.partition(" += ")
    rounded = "float({})" if dtype == "float64" else "load(__float2half({}))"
    return Fault("sum", dtype, before, f"{name} = {rounded.format(f'{name} + {value[:-1]}')};", check)


def mma(before: str, entries: str, check: Callable[[], Any]) -> Fault:
    """The sums of tensor cores are rounded to 16 bits."""
    after = f"{{ {before} for (int e = 0; e < 4; ++e) {entries}[e] = load(__float2half({entries}[e])); }}"
    return Fault("sum", "float16", before, after, check)


ACROSS = "shared[threadIdx.x / 32] = v;\n  @"
DOWN = "shared[threadIdx.y * blockDim.x + threadIdx.x] = v;\n  @"


def _attention(dtype: str) -> Any:
    return attention.test_forward_and_backward(causal=True, dtype=dtype)


FAULTS: dict[str, list[Fault]] = {
    "attention": [
        no_barrier("float32", "    @\n    Shared::fill(tile, v", lambda: _attention("float32")),
        no_barrier("float32", "\n      @\n      T s[4], d[4];".replace("T", "float"), lambda: _attention("float32")),
        no_barrier("float32", "\n    @\n    T s[4], d[4];".replace("T", "float"), lambda: _attention("float32")),
        no_barrier("float16", "\n      @\n      float s[4][4], d[4][4];", lambda: _attention("float16")),
        no_barrier("float16", "\n    @\n    float s[4][4], d[4][4];", lambda: _attention("float16")),
        Fault("index", "float32", "logs[head * queries + row]", "logs[row]", lambda: _attention("float32")),
        Fault("index", "float16", "column * TURNED + row", "row * TURNED + column", lambda: _attention("float16")),
        mma("mma(sums[n], a, b);", "sums[n]", long_sums.test_attention),
        Fault("sum", "float16", "= total[half] * keep + over_four(sum, Sum());",
              "= load(__float2half(total[half] * keep + over_four(sum, Sum())));", long_sums.test_attention),
        narrow("float16", "part[half] += p * d[n / 4][n % 4];", long_sums.test_attention),
    ],
    "batch_norms": [
        Fault("index", "float32", "sums[(parts + p) * channels + c]", "sums[(parts + p) * channels]",
              lambda: norms.test_batches(training=True, dtype="float32")),
        narrow("float16", "second += sums[(parts + p) * channels + c];", long_sums.test_norms),
    ],
    "channels": [
        no_barrier("float32", DOWN, lambda: norms.test_layers(centred=True, dtype="float32")),
        no_barrier("float32", "[y * blockDim.x + threadIdx.x]);\n  @", lambda: norms.test_layers(centred=True, dtype="float32")),
        no_barrier("float32", ACROSS, lambda: norms.test_batches(training=True, dtype="float32")),
        Fault("index", "float32", "at += wrap;", "", lambda: norms.test_batches(training=True, dtype="float32")),
        narrow("float16", "second += d * d;", long_sums.test_norms),
        narrow("float16", "second += v;", long_sums.test_norms),
    ],
    "convolution": [
        no_barrier("float32", "    @\n#pragma unroll\n    for (int k = 0; k < 16; ++k)",
                   lambda: convolution.test_convolutions_and_both_gradients("float32")),
        no_barrier("float16", "of_columns);\n      }\n    }\n    @", lambda: convolution.test_convolutions_and_both_gradients("float16")),
        Fault("index", "float32", "* per_group + t[0];", "* per_group;",
              lambda: convolution.test_convolutions_and_both_gradients("float32")),
        mma("mma(sums[j], of_rows, of_columns);", "sums[j]", long_sums.test_convolutions),
        narrow("float16", "sum += load(of_a<kind>(s, group, row, k)) * load(of_b<kind>(s, group, k, column, spot));",
               long_sums.test_convolutions),
    ],
    "draws": [
        Fault("index", "float32", "out[first + k] = made.v[k]", "out[first + k] = made.v[0]",
              lambda: draws.test_uniform_and_normal_numbers_are_made_of_the_words("float32")),
    ],
    "extremes": [
        no_barrier("float32", "places[at] = mine.i;\n  @", lambda: extremes.test_places_are_the_first_ones_of_numpy("float32")),
        Fault("index", "float32", "known ? known[at] : i", "i", lambda: extremes.test_places_are_the_first_ones_of_numpy("float32")),
    ],
    "gates": [
        Fault("index", "float32", "id / n * (gates) * n", "id / n * n", lambda: gates.test_gates_are_those_of_float64("float32")),
    ],
    "gathers": [
        Fault("index", "float32", "[(o * n + i)", "[i", lambda: gathers.test_slices_are_those_of_numpy("float32")),
    ],
    "losses": [
        no_barrier("float32", ACROSS, lambda: losses.test_losses_and_gradients(0.25, "float32")),
        no_barrier("float32", "v = f(v, shared[warp]);\n  @", lambda: losses.test_losses_and_gradients(0.25, "float32")),
        Fault("index", "float32", "load(from[t * inner])", "load(from[t])", lambda: losses.test_losses_and_gradients(0.0, "float32")),
        narrow("float16", "total += exp(v - top);", long_sums.test_losses),
        narrow("float16", "others += (log_total - (load(from[i * inner]) - best)) * (weighted ? load(weight[i]) : float(1));",
               long_sums.test_losses),
    ],
    "norms": [
        no_barrier("float32", ACROSS, lambda: norms.test_layers(centred=True, dtype="float32")),
        no_barrier("float32", "v = f(v, shared[warp]);\n  @", lambda: norms.test_layers(centred=True, dtype="float32")),
        Fault("index", "float32", "const place from = team.row % groups * each;", "const place from = 0;",
              lambda: norms.test_groups("float32")),
        narrow("float16", "sum += load(x[i]);", long_sums.test_norms),
        narrow("float16", "squares += d * d;", long_sums.test_norms),
        narrow("float16", "along += h * ((load(x[i]) - mean) * scale);", long_sums.test_norms),
    ],
    "optimisers": [
        Fault("index", "float32", "begin = table[2 * blockIdx.x + 1];", "begin = 0;",
              lambda: optimisers.test_adam(decoupled=False, largest=False, dtype="float32")),
        narrow("float64", "m += (g - m) * double(1 - beta1);",
               lambda: optimisers.test_adam(decoupled=False, largest=False, dtype="float64")),
    ],
    "pooling": [
        Fault("index", "float32", "x + plane * (depth", "x + 0 * (depth", lambda: pooling.test_maxima_and_where_they_are("float32")),
        Fault("index", "float32", "const int at = (a * high + b) * wide + c;", "const int at = (a * high + c) * wide + b;",
              lambda: pooling.test_means_and_their_backward(inside=True, dtype="float32")),
        narrow("float16", "sum += load(image[(z * height + y) * width + w]);", long_sums.test_means),
        narrow("float16", "sum += float(load(slopes[at])) / divisors[each ? at : 0];", long_sums.test_means),
    ],
    "reductions": [
        no_barrier("float32", ACROSS, lambda: reductions.test_reductions_are_those_of_float64("sum", "float32")),
        no_barrier("float32", DOWN, lambda: reductions.test_reductions_are_those_of_float64("sum", "float32")),
        Fault("index", "float32", "      if (b >= inner) {", "      if (false) {",
              lambda: reductions.test_reductions_are_those_of_float64("sum", "float32")),
        Fault("sum", "float16", "total = Sum()(total, float(v));", "total = load(__float2half(Sum()(total, float(v))));",
              long_sums.test_sums),
        Fault("sum", "float32", "total = Sum()(total, double(v));", "total = float(Sum()(total, double(v)));",
              reductions.test_float32_is_added_in_double_and_16_bits_in_float),
    ],
    "refused": [
        no_barrier("float32", "float(1 / d);\n    }\n    @",
                   lambda: refused.test_the_first_minor_that_is_not_positive_is_lapacks("float32")),
        no_barrier("float32", "*down = kept;\n      }\n    @", lambda: refused.test_systems_are_solved_as_by_lapack("float32")),
        Fault("index", "float32", "- factor * x[k * m + j - left]", "- factor * x[k * m]",
              lambda: refused.test_systems_are_solved_as_by_lapack("float32")),
        Fault("sum", "float64", "= x[i * m + j - left] - factor * x[k * m + j - left]",
              "= float(x[i * m + j - left] - factor * x[k * m + j - left])",
              lambda: refused.test_systems_are_solved_as_by_lapack("float64")),
    ],
    "rejection": [
        Fault("index", "float32", "block(start + number + ", "block(start + ", lambda: rejection.test_numbers_are_those_of_the_words("float32")),
        Fault("sum", "float64", "total += ceil(log(inner(w, 0)) / log_miss);",
              "total = load(__float2half(total + ceil(log(inner(w, 0)) / log_miss)));", long_sums.test_waiting_times),
    ],
    "resampling": [
        Fault("index", "float32", "r = id / inner % rows", "r = id % rows", lambda: resampling.test_a_map_is_the_product_with_its_matrix("float32")),
        narrow("float16", "sum += float(weights[k]) * float(load(from[columns[k] * inner]));",
               resampling.test_16_bit_images_are_added_in_float32),
    ],
    "scatter": [
        Fault("index", "float32", "order[j] * width + column", "j * width + column", lambda: scatter.test_rows_are_added_as_by_numpy("float32")),
        Fault("index", "float32", "sum += inside[next]", "sum += inside[id]", lambda: scatter.test_rows_are_added_as_by_numpy("float32")),
        narrow("float16", "sum += load(rows[order[j] * width + column]);", long_sums.test_rows_of_one_place),
        narrow("float16", "sum += inside[next];", long_sums.test_rows_of_one_place),
    ],
    "softmax": [
        no_barrier("float32", ACROSS, lambda: softmax.test_forward_and_backward_are_those_of_float64("softmax", "float32")),
        no_barrier("float32", DOWN, lambda: softmax.test_forward_and_backward_are_those_of_float64("softmax", "float32")),
        Fault("index", "float32", "team.row / inner * n * inner", "team.row / inner * n",
              lambda: softmax.test_forward_and_backward_are_those_of_float64("softmax", "float32")),
        narrow("float16", "total += exp(v - top);", long_sums.test_softmax),
        narrow("float16", "total += logarithm ? load(g[at]) : load(g[at]) * load(out[at]);", long_sums.test_softmax),
    ],
    "stepping": [
        Fault("index", "float32", "begin = table[2 * blockIdx.x + 1]", "begin = 0", lambda: _steps("float32")),
        Fault("sum", "float64", "store(a2 + i, double(", "store(a2 + i, float(", lambda: _steps("float64")),
    ],
    "printed": [
        Fault("index", "float32", "load(y1.v[j])", "load(y1.v[0])",
              lambda: printed.test_kernels_compute_what_the_formulas_compute("lerp_number", "float32")),
    ],
}  # fmt: skip

# What a family has not, and why.
IMPOSSIBLE = {
    ("batch_norms", "barrier"): ALONE,
    ("draws", "barrier"): ALONE,
    ("gates", "barrier"): ALONE,
    ("gathers", "barrier"): ALONE,
    ("optimisers", "barrier"): ALONE,
    ("pooling", "barrier"): ALONE,
    ("rejection", "barrier"): ALONE,
    ("resampling", "barrier"): ALONE,
    ("scatter", "barrier"): ALONE,
    ("stepping", "barrier"): ALONE,
    ("printed", "barrier"): ALONE,
    ("draws", "sum"): "only words of 32 bits are added to, the keys of Philox",
    ("extremes", "sum"): "numbers are compared, not added",
    ("gates", "sum"): NO_SUMS,
    ("gathers", "sum"): "bytes are copied",
    ("printed", "sum"): NO_SUMS,
}


def _steps(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from tests.cuda import test_hand_stepping

    test_hand_stepping.test_steps_are_those_of_pytorch("adagrad", dtype, torch)


def texts_of(family: str, dtype: str) -> list[str]:
    """The texts of a family for a dtype; of elementwise functions all that are printed."""
    return hand.printed_texts(dtype) if family == "printed" else hand.families()[family](dtype)


def own(text: str) -> str:
    """A text without what stands in front of all."""
    return text.replace(HEAD, "").replace(TEAMS, "")


_TOGETHER = re.compile(r"__sync\w+\(|_sync\(|team\.all\(")
_ADDED = re.compile(
    r"\b(?P<name>[A-Za-z_]\w*)(?P<at>(?:\[[^;=]*?\])*) (?:[+-]= |= (?P=name)(?P=at) [+-] )"
    r"|COMBINE|\bmma\(|team\.all\(\w+, (?:Sum|Product)"
)
_PLACES = re.compile(
    r"^\s*(?:const )?(?:place|int|unsigned|big) [^;{}]*;|\b(?:place|int|unsigned|big) \w+|\w+\* \w+", re.MULTILINE
)


def has(kind: str, text: str) -> bool:
    """Whether a text has something that threads do together, or sums of what are no places."""
    text = own(text)
    if kind == "barrier":
        return _TOGETHER.search(text) is not None
    places = {name for found in _PLACES.findall(text) for name in re.findall(r"\w+", found)}
    return any(found["name"] not in places for found in _ADDED.finditer(text))


@contextmanager
def planted(family: str, fault: Fault) -> Iterator[list[str]]:
    """The fault stands in the texts of the family that are launched meanwhile, which the list collects."""
    mine = set(texts_of(family, fault.dtype))
    others = [each for each in FAULTS[family] if each.dtype == fault.dtype]
    plain, found = emulated.Kernel.__init__, []

    def kernel(self: emulated.Kernel, text: str, name: str) -> None:
        if text in mine and fault.before in text:
            wrong = [text.replace(each.before, each.after) for each in others if each.before in text]
            emulated.TOGETHER.update(dict.fromkeys(wrong, wrong))
            text = text.replace(fault.before, fault.after)
            found.append(text)
        plain(self, text, name)

    with (
        mock.patch.object(emulated.Kernel, "__init__", kernel),
        mock.patch.dict(launching._COMPILED, clear=True),
        mock.patch.dict(kernels._COMPILED, clear=True),
    ):
        yield found
