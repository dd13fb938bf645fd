"""The emulation of a GPU's threads: blocks, shared memory, barriers, shuffles, and what it finds wrong in kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda import emulated, stand_in

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="g++ is absent, which compiles the kernels")
SEEDS = range(6)

PLACES = """typedef long long place;
extern "C" __global__ void places(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}
"""
# Sums of blocks in shared memory, one of fixed and one of asked-for size.
TREE = """typedef long long place;
extern "C" __global__ void tree(place n, const float* x, float* out) {
  __shared__ float fixed[64];
  extern __shared__ float asked[];
  const place i = blockIdx.x * 64 + threadIdx.x;
  fixed[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (threadIdx.x < step) fixed[threadIdx.x] += fixed[threadIdx.x + step];
    __syncthreads();
  }
  asked[threadIdx.x] = threadIdx.x * fixed[0];
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = asked[1];
}
"""
WARP = """typedef long long place;
extern "C" __global__ void warp(const float* x, float* out, int* bits) {
  const unsigned t = threadIdx.x, all = 0xffffffffu;
  out[t] = __shfl_xor_sync(all, x[t], 5);
  out[t + 64] = __shfl_down_sync(all, x[t], 3, 8);
  out[t + 128] = __shfl_up_sync(all, x[t], 2);
  out[t + 192] = __shfl_sync(all, x[t], 9, 16);
  bits[t] = __ballot_sync(all, x[t] > 0.0f);
  bits[t + 64] = __any_sync(all, x[t] > 0.9f) + 2 * __all_sync(all, x[t] > -2.0f);
  const double wide = __shfl_xor_sync(all, (double)x[t] * 1e-9, 1);
  out[t + 256] = wide * 1e9;
}
"""
COUNT = """typedef long long place;
extern "C" __global__ void count(int* total, int* largest, const int* x) {
  atomicAdd(total, 1);
  atomicMax(largest, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
"""


def floats(n: int, seed: int = 0) -> np.ndarray:
    """Numbers around 0."""
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def ints(n: int) -> Any:
    """An array of the stand-in for results."""
    return stand_in.there(np.zeros(n, np.int32))


def tree(text: str, n: int, seed: int) -> np.ndarray:
    """The sums of blocks of 64 by a version of TREE."""
    x, out = stand_in.there(floats(n)), stand_in.there(np.zeros(-(-n // 64), np.float32))
    with emulated.in_order(seed):
        emulated.Kernel(text, "tree")((out.size,), (64,), (np.int64(n), x, out), shared_mem=256)
    return out.near


def test_blocks_and_threads_have_three_coordinates() -> None:
    for seed in SEEDS:
        out = ints(2 * 3 * 2 * 4 * 2 * 3)
        with emulated.in_order(seed):
            emulated.Kernel(PLACES, "places")((2, 3, 2), (4, 2, 3), (out,))
        assert out.near.tolist() == [1000 * block + thread for block in range(12) for thread in range(24)]


def test_shared_memory_and_barriers_give_the_same_bits_in_every_order() -> None:
    for n in (1, 63, 64, 200, 1000):
        x = np.zeros(-(-n // 64) * 64, np.float32)
        x[:n] = floats(n)
        want = x.reshape(-1, 64)
        while want.shape[1] > 1:
            half = want.shape[1] // 2
            want = want[:, :half] + want[:, half:]
        for seed in SEEDS:
            assert tree(TREE, n, seed).tobytes() == want[:, 0].tobytes()


def test_lanes_of_a_warp_exchange_values() -> None:
    x, lane = floats(64), np.arange(64)
    for seed in SEEDS:
        out, bits = stand_in.there(np.zeros(320, np.float32)), ints(128)
        with emulated.in_order(seed):
            emulated.Kernel(WARP, "warp")((1,), (64,), (stand_in.there(x), out, bits))
        got = out.near.reshape(5, 64)
        assert np.array_equal(got[0], x[lane ^ 5])
        assert np.array_equal(got[1], x[np.where(lane % 8 + 3 < 8, lane + 3, lane)])
        assert np.array_equal(got[2], x[np.where(lane % 32 >= 2, lane - 2, lane)])
        assert np.array_equal(got[3], x[lane // 16 * 16 + 9])
        np.testing.assert_allclose(got[4], x[lane ^ 1], rtol=1e-6)
        for warp in (0, 1):
            part = x[32 * warp : 32 * warp + 32]
            word = sum(1 << k for k in range(32) if part[k] > 0)
            assert set(bits.near[32 * warp : 32 * warp + 32].astype(np.uint32)) == {word}
            assert set(bits.near[64 + 32 * warp : 96 + 32 * warp]) == {int((part > 0.9).any()) + 2 * (part > -2).all()}


def test_atomics() -> None:
    total, largest = ints(1), ints(1)
    x = np.arange(90, dtype=np.int32)
    emulated.Kernel(COUNT, "count")((3,), (30,), (total, largest, stand_in.there(x)))
    assert (total.near[0], largest.near[0]) == (90, 89)


# -- what is found wrong -----------------------------------------------------------------------------------------------


def test_a_missing_barrier_gives_other_bits_in_another_order() -> None:
    wrong = TREE.replace(": 0.0f;\n  __syncthreads();", ": 0.0f;")
    assert wrong != TREE
    results = {tree(wrong, 200, seed).tobytes() for seed in SEEDS}
    assert results != {tree(TREE, 200, 0).tobytes()}


def test_a_barrier_missing_in_a_loop_is_found() -> None:
    wrong = TREE.replace("[threadIdx.x + step];\n    __syncthreads();", "[threadIdx.x + step];")
    assert wrong != TREE
    assert len({tree(wrong, 200, seed).tobytes() for seed in SEEDS}) > 1


def test_shared_memory_that_was_not_written_is_nan() -> None:
    wrong = TREE.replace("fixed[threadIdx.x] = i < n ? x[i] : 0.0f;", "if (i < n) fixed[threadIdx.x] = x[i];")
    assert wrong != TREE
    found = tree(wrong, 200, 0)
    assert np.isfinite(found[:3]).all()
    assert np.isnan(found[3])
    wrong = TREE.replace("asked[threadIdx.x] =", "if (threadIdx.x != 1) asked[threadIdx.x] =")
    assert np.isnan(tree(wrong, 64, 0)).all()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("  __syncthreads();\n  for", "  if (threadIdx.x < 63) __syncthreads();\n  for", "different barriers"),
        ("  __syncthreads();\n  if", "  if (threadIdx.x == 7) return;\n  __syncthreads();\n  if", "not all threads"),
    ],
)
def test_barriers_that_not_all_threads_reach_are_named(before: str, after: str, said: str) -> None:
    wrong = TREE.replace(before, after)
    assert wrong != TREE
    with pytest.raises(emulated.Undefined, match=said):
        tree(wrong, 200, 0)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("  out[t] =", "  if (t != 3) out[t] =", "different shuffles"),
        ("  out[t] =", "  if (t == 3) return;\n  out[t] =", "has ended"),
        ("all = 0xffffffffu", "all = 0xfffffffeu", "not in the mask"),
    ],
)
def test_shuffles_that_not_all_lanes_reach_are_named(before: str, after: str, said: str) -> None:
    wrong = WARP.replace(before, after)
    assert wrong != WARP
    with pytest.raises(emulated.Undefined, match=said):
        emulated.Kernel(wrong, "warp")(
            (1,), (64,), (stand_in.there(floats(64)), stand_in.there(np.zeros(320, np.float32)), ints(128))
        )


def test_a_mask_of_lanes_that_a_block_has_not_is_named() -> None:
    with pytest.raises(emulated.Undefined, match="block has not"):
        emulated.Kernel(WARP, "warp")(
            (1,), (40,), (stand_in.there(floats(64)), stand_in.there(np.zeros(320, np.float32)), ints(128))
        )


def test_after_a_failure_kernels_run_as_before() -> None:
    want = tree(TREE, 200, 0)
    wrong = TREE.replace("  __syncthreads();\n  if", "  if (threadIdx.x == 7) return;\n  __syncthreads();\n  if")
    with pytest.raises(emulated.Undefined):
        tree(wrong, 200, 0)
    assert tree(TREE, 200, 0).tobytes() == want.tobytes()


SANITISED = """
import numpy as np
from tests.cuda import emulated, stand_in
from tests.cuda.test_emulation import TREE, tree
text = {text}
assert emulated.MORE_FLAGS
print(tree(text, 200, 3)[:2])
"""


def sanitised(*given: str) -> subprocess.CompletedProcess[str]:
    """Python run with these arguments where kernels are compiled with the sanitisers of addresses and of undefined behaviour.

    Without machine code for the processor: that probes memory behind arrays, which the sanitiser does not allow.
    """
    assert emulated.COMPILER is not None
    asked = [emulated.COMPILER, "-print-file-name=libasan.so"]
    library = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("g++ has no address sanitiser here")
    flags = "-g -fsanitize=address,undefined -fno-sanitize-recover=all -fsanitize-sections=shared_memory"
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "FERRO_EMULATION_FLAGS": flags,
        "FERRO_KERNELS": "off",
        "FERRO_MACHINE_CODE": "off",
    }
    return subprocess.run([sys.executable, *given], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_sanitisers_find_nothing_in_a_right_kernel() -> None:
    done = sanitised("-c", SANITISED.format(text="TREE"))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i < n ?", "i <= n + 40 ?"),  # behind an array
        ("fixed[threadIdx.x + step];", "fixed[threadIdx.x + step + 32];"),  # behind shared memory
        ("asked[threadIdx.x] =", "asked[threadIdx.x + 1] ="),  # behind shared memory that was asked for
        ("asked[threadIdx.x] =", "asked[(int)threadIdx.x - 2] ="),  # in front of it
    ],
)
def test_the_sanitisers_find_a_wrong_index(before: str, after: str) -> None:
    assert before in TREE
    done = sanitised("-c", SANITISED.format(text=f"TREE.replace({before!r}, {after!r})"))
    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr or "runtime error" in done.stderr, done.stderr[-3000:]


# Of a file whose tests take longer than one test may, those of each dtype and the rest by themselves.
_BY_DTYPE = (
    "float32",
    "float64",
    "bfloat16",
    "float16 and not bfloat16",
    "not float32 and not float64 and not float16 and not bfloat16",
)
PARTS = [
    (file.name, part)
    for file in sorted(Path(__file__).parent.glob("test_hand_*.py"))
    for part in (_BY_DTYPE if file.name == "test_hand_attention.py" else ("",))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), PARTS)
def test_the_sanitisers_find_nothing_in_the_kernels_by_hand(name: str, part: str) -> None:
    """All tests of a file, or a part of them, but those of planted faults."""
    file = str(Path(__file__).with_name(name))
    chosen = f"not fault and {part}" if part else "not fault"
    done = sanitised("-m", "pytest", "-q", "-s", "-x", "-p", "no:cacheprovider", "-k", chosen, file)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
