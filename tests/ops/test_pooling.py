"""Pooling: ties, nan, padding and divisors, indices and their inverse, adaptive and fractional windows, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F

NAN, INF = float("nan"), float("inf")


def signal(*values: float) -> Any:
    return ferro.tensor([[[*values]]], dtype=ferro.float64, requires_grad=True)


# -- max pooling -------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_tie_goes_to_the_first_maximum() -> None:
    x = signal(1, 1, 0, 2, 2, 2)
    y, index = F.max_pool1d(x, 3, return_indices=True)
    assert index.tolist() == [[[0, 3]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[1, 0, 0, 1, 0, 0]]]


def test_overlapping_windows_add_up_at_their_common_maximum() -> None:
    x = signal(0, 5, 1, 0)
    F.max_pool1d(x, 3, 1).sum().backward()
    assert x.grad.tolist() == [[[0, 2, 0, 0]]]


@pytest.mark.parametrize("kernel", [3, 4])  # fewer windows than elements, and more
def test_nan_wins_and_the_last_one_takes_the_gradient(kernel: int) -> None:
    x = signal(NAN, NAN, 9, 0, 0, 1, 2, 0)
    y, index = F.max_pool1d(x, kernel, return_indices=True)
    assert np.isnan(y.detach().numpy()).tolist() == [[[True, False]]]
    assert index[0, 0, 0].item() == 1


@pytest.mark.parametrize("dtype", [ferro.float64, ferro.float16, ferro.bfloat16, ferro.int64])
def test_padding_never_wins(dtype: Any) -> None:
    lowest = -INF if dtype.is_floating_point else np.iinfo("int64").min
    x = ferro.full((1, 1, 4), lowest, dtype=dtype)
    y, index = F.max_pool1d(x, 3, 2, 1, return_indices=True)
    assert index.tolist() == [[[0, 1]]]
    assert y.dtype is dtype
    assert y.tolist() == [[[lowest, lowest]]]


@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (3, 7, 6), (2, 1, 9, 9)])
@pytest.mark.parametrize(
    "options",
    [
        (2,),
        (3, 2, 1),
        ((2, 3), (1, 2), (1, 0)),
        (3, 1, 1, 2),
        (3, 3, 1, 1, True),
        (2, 3, 0, 1, True),
        (5, 4, 2, 1, True),
    ],
    ids=str,
)
def test_values_and_indices_equal_torchs(shape: tuple, options: tuple, rng: np.random.Generator, torch: Any) -> None:
    x = rng.integers(0, 4, shape).astype("float64")  # many ties
    x[rng.random(shape) < 0.05] = NAN
    got = F.max_pool2d(ferro.tensor(x), *options, return_indices=True)
    want = torch.nn.functional.max_pool2d(torch.tensor(x), *options, return_indices=True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.numpy())


@pytest.mark.parametrize("size", [(3, 2), (2, None), (4, 4), 1])
def test_adaptive_maxima_equal_torchs(size: Any, rng: np.random.Generator, torch: Any) -> None:
    x = rng.integers(0, 4, (2, 2, 9, 7)).astype("float64")
    x[rng.random(x.shape) < 0.05] = NAN
    got = F.adaptive_max_pool2d(ferro.tensor(x), size, return_indices=True)
    want = torch.nn.functional.adaptive_max_pool2d(torch.tensor(x), size, return_indices=True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.numpy())


@pytest.mark.parametrize("with_nan", [False, True])
def test_many_adaptive_maxima_equal_torchs(with_nan: bool, rng: np.random.Generator, torch: Any) -> None:
    a = rng.integers(0, 4, (2, 3, 5, 4, 6)).astype("f4")  # with ties
    if with_nan:
        a[a == 3] = np.nan
    size = (7, 30, 9)
    got = F.adaptive_max_pool3d(ferro.from_numpy(a), size, True)
    want = torch.nn.functional.adaptive_max_pool3d(torch.from_numpy(a), size, return_indices=True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.numpy())


def test_no_images_give_no_parts_however_many() -> None:
    assert F.adaptive_avg_pool1d(ferro.ones(0, 2, 4), 2**31).shape == (0, 2, 2**31)
    assert F.adaptive_max_pool1d(ferro.ones(0, 2, 4), 2**31).shape == (0, 2, 2**31)


def test_large_arrays_give_the_numbers_of_small_ones(rng: np.random.Generator, torch: Any) -> None:
    x = rng.integers(0, 50, (4, 8, 32, 32)).astype("float32")
    for options in ((2,), (3, 2, 1), (3, 1, 1)):
        ours, theirs = ferro.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        for pool in ("max_pool2d", "avg_pool2d"):
            got, want = getattr(F, pool)(ours, *options), getattr(torch.nn.functional, pool)(theirs, *options)
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6)
            g = rng.standard_normal(got.shape).astype("float32")
            (a,) = ferro.autograd.grad(got, [ours], [ferro.tensor(g)])
            (b,) = torch.autograd.grad(want, [theirs], [torch.tensor(g)])
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_the_top_level_adaptive_max_pool1d_returns_indices() -> None:
    values, index = ferro.adaptive_max_pool1d(signal(1, 3, 2, 0), 2)
    assert (values.tolist(), index.tolist()) == ([[[3, 2]]], [[[1, 2]]])
    values, index = ferro.max_pool1d_with_indices(signal(1, 3, 2, 0), 2)
    assert (values.tolist(), index.tolist()) == ([[[3, 2]]], [[[1, 2]]])


# -- means -------------------------------------------------------------------------------------------------------------


def test_padding_counts_unless_told_otherwise() -> None:
    x = signal(2, 4, 6, 8)
    assert F.avg_pool1d(x, 2, 2, 1).tolist() == [[[1, 5, 4]]]
    assert F.avg_pool1d(x, 2, 2, 1, count_include_pad=False).tolist() == [[[2, 5, 8]]]


def test_a_window_cut_off_by_ceil_mode_counts_only_what_is_there() -> None:
    assert F.avg_pool1d(signal(3, 3, 3, 3, 3), 2, ceil_mode=True).tolist() == [[[3, 3, 3]]]
    assert F.avg_pool1d(signal(1, 2, 3), 2).tolist() == [[[1.5]]]


def test_the_divisor_can_be_given() -> None:
    x = ferro.ones(1, 4, 4)
    assert F.avg_pool2d(x, 2, divisor_override=8).tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    with pytest.raises(RuntimeError, match="zero"):
        F.avg_pool2d(x, 2, divisor_override=0)


def test_integer_means_are_truncated_toward_zero() -> None:
    assert F.avg_pool1d(ferro.tensor([[-3, -2, 3, 2]]), 2).tolist() == [[-2, 2]]


@pytest.mark.parametrize("dtype", [ferro.float16, ferro.bfloat16])
def test_16_bit_means_are_summed_in_float32(dtype: Any) -> None:
    x = ferro.ones(1, 64, 64, dtype=dtype)
    for y in (F.avg_pool2d(x, 64), F.adaptive_avg_pool2d(x, 1)):
        assert y.dtype is dtype
        assert y.item() == 1


def test_nan_stays_in_its_windows() -> None:
    x = signal(NAN, 1, 1, 1, INF, 1)
    assert np.isnan(F.avg_pool1d(x, 2).detach().numpy()).tolist() == [[[True, False, False]]]
    assert np.isnan(F.adaptive_avg_pool1d(x, 4).detach().numpy()).tolist() == [[[True, False, False, False]]]


def test_parts_overlap_where_the_division_leaves_a_remainder() -> None:
    x = signal(1, 2, 3, 4, 5)
    y = F.adaptive_avg_pool1d(x, 3)
    assert y.tolist() == [[[1.5, 3.0, 4.5]]]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[[1 / 2, 1 / 2 + 1 / 3, 1 / 3, 1 / 3 + 1 / 2, 1 / 2]]])
    assert F.adaptive_avg_pool1d(x, 0).shape == (1, 1, 0)


# -- norms, inverses, random windows -----------------------------------------------------------------------------------


def test_the_gradient_of_a_norm_of_zeros_is_zero() -> None:
    x = signal(0, 0, 3, 4)
    y = F.lp_pool1d(x, 2, 2)
    assert y.tolist() == [[[0, 5]]]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[[0, 0, 0.6, 0.8]]])
    assert F.lp_pool1d(signal(-3, 1, 2, 0), INF, 2).tolist() == [[[3, 2]]]


def test_unpooling_puts_maxima_back_in_place(rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((2, 3, 5, 6)) + 9)
    y, index = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(y, index, 2, output_size=(5, 6))
    assert back.shape == x.shape
    kept = back != 0
    assert kept.sum().item() == y.numel()
    np.testing.assert_array_equal(back[kept].numpy(), x[kept].numpy())


@pytest.mark.parametrize(
    ("index", "options", "error", "message"),
    [
        ([[[0, 99]]], {}, RuntimeError, "invalid max index: 99"),
        ([[[0, -1]]], {}, RuntimeError, "invalid max index: -1"),
        ([[[0]]], {}, RuntimeError, "same as that of the input"),
        ([[[0, 2]]], {"output_size": (9,)}, ValueError, "between 2 and 6"),
        ([[[0, 2]]], {"output_size": (4, 4)}, ValueError, "length of 2"),
    ],
)
def test_unpooling_checks_indices_and_sizes(index: list, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        F.max_unpool1d(signal(1, 2), ferro.tensor(index), 2, **options)
    with pytest.raises(RuntimeError, match="int64"):
        F.max_unpool1d(signal(1, 2), ferro.tensor([[[0, 1]]], dtype=ferro.int32), 2)


def test_fractional_windows_follow_the_seed(rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((2, 3, 12, 12)))
    ferro.manual_seed(3)
    first, index = F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.6), return_indices=True)
    ferro.manual_seed(3)
    assert first.shape == (2, 3, 6, 7)
    np.testing.assert_array_equal(first.numpy(), F.fractional_max_pool2d(x, 2, (6, 7)).numpy())
    np.testing.assert_array_equal(
        x.reshape(2, 3, -1).gather(2, index.reshape(2, 3, -1)).reshape(first.shape).numpy(), first.numpy()
    )
    with pytest.raises(ValueError, match="output_size or an output_ratio"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="too large relative to input"):
        F.fractional_max_pool2d(x, 7, (7, 7))


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_wrong_arguments_are_refused(pool: Any) -> None:
    x = ferro.ones(1, 2, 5, 5)
    for args, message in [
        ((7,), "too small"),
        ((2, 1, 2), "at most half"),
        ((0,), "stride should not be zero"),
        ((2, 0), "stride should not be zero"),
        ((2, 1, -1), "pad must be non-negative"),
        (((2, 2, 2),), "must either be a single int, or a tuple of two ints"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            pool(x, *args)
    with pytest.raises(RuntimeError, match="3D or 4D"):
        pool(ferro.ones(5, 5), 2)
    with pytest.raises(RuntimeError, match="complex64"):
        pool(x.to(ferro.complex64), 2)
    with pytest.raises(TypeError, match="int"):
        pool(x, 2.5)


def test_adaptive_sizes_are_checked() -> None:
    x = ferro.ones(1, 2, 5, 5)
    with pytest.raises(RuntimeError, match="greater than or equal to 0"):
        F.adaptive_avg_pool2d(x, -1)
    with pytest.raises(RuntimeError, match="output_size must be 2"):
        F.adaptive_avg_pool2d(x, (1, 2, 3))
    with pytest.raises(RuntimeError, match="non-zero"):
        F.adaptive_avg_pool2d(ferro.ones(1, 2, 0, 5), 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_dilation_does_not_widen_the_padding_that_max_pool_takes(torch: Any, n: int) -> None:
    for kernel, padding, dilation in [(2, 2, 3), (3, 2, 2), (3, 3, 3), (1, 1, 2), (2, 1, 3), (4, 2, 2)]:
        accepted = []
        for library in (ferro, torch):
            pool = getattr(library.nn.functional, f"max_pool{n}d")
            try:
                pool(library.ones((1, 1) + (9,) * n), kernel, 1, padding, dilation)
            except RuntimeError:
                accepted.append(False)
            else:
                accepted.append(True)
        assert accepted[0] == accepted[1], (kernel, padding, dilation)


@pytest.mark.parametrize("name", ["adaptive_max_pool1d", "adaptive_avg_pool1d"])
def test_results_that_no_memory_holds_are_refused_at_once(name):
    pool = getattr(ferro.nn.functional, name)
    with pytest.raises(
        RuntimeError, match=rf"{name}: Storage size calculation overflowed with sizes=\[1, 2, {1 << 62}\]"
    ):
        pool(ferro.ones(1, 2, 4), 1 << 62)
    with pytest.raises(MemoryError):
        pool(ferro.ones(1, 2, 4), 1 << 50)


# -- windows of nothing, empty batches, indices that are written ----------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 2), (2, 1, 5)], ids=str)
def test_windows_of_nothing_but_padding_are_minus_infinity_without_gradient(torch: Any, shape: tuple) -> None:
    def run(f: Any) -> tuple:
        x = f.arange(float(np.prod(shape))).reshape(shape)
        wide = f.nn.functional.max_pool2d(x[None], (1, 2), 1, (0, 1), (1, shape[-1] + 1))
        return f.nn.functional.max_pool1d(x, 2, 1, 1, shape[-1] + 1).tolist(), wide.tolist()

    assert run(ferro) == run(torch)
    x = ferro.ones(shape, requires_grad=True)  # (PyTorch's backward writes outside of the gradient)
    values, indices = F.max_pool1d(x, 2, 1, 1, shape[-1] + 1, return_indices=True)
    values[values > 0].sum().backward()
    assert x.grad.sum() == (values > 0).sum()
    values, _ = F.max_pool1d(x, 2, 1, 1, shape[-1] + 1, return_indices=True)
    (g,) = ferro.autograd.grad(values, x, ferro.ones_like(values))
    assert g.sum() == (values > 0).sum()
    assert ((indices >= 0) & (indices < shape[-1])).all()


POOLED: dict[str, Any] = {
    "avg2": lambda f, s: f.nn.functional.avg_pool2d(f.ones(*s, 4), 2),
    "max2": lambda f, s: f.nn.functional.max_pool2d(f.ones(*s, 4), 2),
    "adaptive_avg1": lambda f, s: f.nn.functional.adaptive_avg_pool1d(f.ones(s), 2),
    "adaptive_avg2": lambda f, s: f.nn.functional.adaptive_avg_pool2d(f.ones(*s, 4), 2),
    "adaptive_avg3": lambda f, s: f.nn.functional.adaptive_avg_pool3d(f.ones(*s, 4, 4), 2),
    "adaptive_max1": lambda f, s: f.nn.functional.adaptive_max_pool1d(f.ones(s), 2),
    "adaptive_max2": lambda f, s: f.nn.functional.adaptive_max_pool2d(f.ones(*s, 4), 2),
}


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (0, 0, 4), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("name", POOLED)
def test_empty_images_are_pooled_or_refused_as_torch_does(torch: Any, name: str, shape: tuple) -> None:
    def outcome(f: Any) -> Any:
        try:
            return tuple(POOLED[name](f, shape).shape)
        except RuntimeError as e:
            return str(e)

    ours, theirs = outcome(ferro), outcome(torch)
    if isinstance(theirs, str) and "1" not in name:  # (PyTorch says pool2d of pool1d)
        assert theirs.split("(): ")[-1].split(": [")[0] in ours
    else:
        assert isinstance(ours, str) is isinstance(theirs, str)
        assert isinstance(ours, str) or ours == theirs


PICKING: dict[str, Any] = {
    "max_pool": lambda f, x: f.nn.functional.max_pool1d(x, 2, return_indices=True),
    "adaptive": lambda f, x: f.nn.functional.adaptive_max_pool1d(x, 3, True),
    "max": lambda f, x: f.max(x, 1),
    "sort": lambda f, x: f.sort(x, 1),
    "topk": lambda f, x: f.topk(x, 2, 1),
    "kthvalue": lambda f, x: f.kthvalue(x, 2, 1),
    "median": lambda f, x: f.median(x, 1),
    "mode": lambda f, x: f.mode(x, 1),
    "cummax": lambda f, x: f.cummax(x, 1),
}


@pytest.mark.parametrize("name", PICKING)
def test_indices_that_are_written_before_backward_are_noticed(torch: Any, name: str) -> None:
    for f in (ferro, torch):
        x = f.arange(8.0).reshape(1, 8).requires_grad_()
        values, indices = PICKING[name](f, x)
        indices.add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            values.sum().backward()
    values, indices = PICKING[name](ferro, ferro.arange(8.0).reshape(1, 8).requires_grad_())
    values.sum().backward()
    indices.add_(1)


def test_bags_of_nothing_have_a_gradient_of_zeros(torch: Any) -> None:
    for mode in ("max", "sum", "mean"):
        for f in (ferro, torch):
            w = f.ones(5, 2).requires_grad_()
            y = f.nn.functional.embedding_bag(f.tensor([], dtype=f.int64), w, f.tensor([0, 0]), mode=mode)
            y.sum().backward()
            assert y.tolist() == [[0, 0]] * 2
            assert w.grad.tolist() == [[0, 0]] * 5


@pytest.mark.parametrize(
    "call",
    [
        *[
            f"{kind}_pool{n}d(T.ones((1, 2) + (6,) * {n}), {rest})"
            for kind in ("max", "avg")
            for n in (1, 2, 3)
            for rest in ("2, stride=0", "0", "2, padding=-1", "2, padding=2", "()", f"2, stride=(1,) * {n + 1}")
        ],
        *[f"max_pool{n}d(T.ones((1, 2) + (6,) * {n}), {rest})" for n in (1, 2, 3) for rest in ("8", "2, dilation=0")],
        *[
            f"{kind}_pool{n}d(T.ones((1, 2) + (6,) * {n}), {rest}, stride=1)"
            for kind in ("max", "avg")
            for n in (2, 3)
            for rest in ("0", "-1")
        ],
        *[f"adaptive_{kind}_pool{n}d(T.ones((2, 0) + (6,) * {n - 1}), 2)" for kind in ("max", "avg") for n in (2, 3)],
        *[f"adaptive_{kind}_pool{n}d(T.ones((2,) * {n + 3}), 2)" for kind in ("max", "avg") for n in (1, 2, 3)],
        *[
            f"adaptive_{kind}_pool{n}d(T.ones((1, 2) + (6,) * {n}), (2,) * {n + 1})"
            for kind in ("max", "avg")
            for n in (1, 2, 3)
        ],
        *[
            f"fractional_max_pool{n}d(T.ones((1, 2) + (6,) * {n}), {rest})"
            for n in (2, 3)
            for rest in (
                "(), output_size=2",
                "2, output_size=(2,)",
                "2, output_size=7",
                "7, output_size=1",
                f"2, 2, _random_samples=T.ones(1, 3, {n})",
                f"2, 2, _random_samples=T.ones(0, 2, {n})",
                "2, 2, _random_samples=T.ones(1, 2, 5)",
                "2, 2, _random_samples=T.ones(2, 2)",
            )
        ],
        "adaptive_avg_pool2d(T.ones(1, 3, 4, 4, requires_grad=True), 0).sum().backward()",
        "adaptive_max_pool1d(T.ones(1, 4, requires_grad=True), 0).sum().backward()",
    ],
)
def test_pytorchs_sentences_are_in_those_of_pooling(torch: Any, call: str) -> None:
    said = []
    for T in (torch, ferro):
        with pytest.raises(RuntimeError) as caught:
            eval(f"T.nn.functional.{call}", {"T": T})
        said.append(str(caught.value))
    theirs = said[0].split(", but ")[0]
    assert theirs in said[1]


def test_max_pool1d_says_both_sentences_that_pytorch_has() -> None:  # without a gradient, and with one or with indices
    with pytest.raises(
        RuntimeError,
        match=r"max_pool1d\(\) Invalid computed output size: 0: Given input size: .*Output size is too small",
    ):
        F.max_pool1d(ferro.ones(1, 1, 4), 3, 2, dilation=2)
    with pytest.raises(
        RuntimeError, match=r"max_pool1d\(\) padding must be non-negative, but got -1: pad must be non-negative"
    ):
        F.max_pool1d(ferro.ones(1, 1, 4), 2, padding=-1)


def test_empty_batches_and_empty_sizes_are_pytorchs(torch: Any) -> None:
    for name, shape, args in [
        ("adaptive_avg_pool3d", (0, 5, 5, 5), (2,)),
        ("adaptive_max_pool1d", (0, 6), (2,)),
        ("adaptive_max_pool2d", (0, 4, 4), (2,)),
        ("fractional_max_pool2d", (2, 3, 6, 6), (2, (0, 1))),
        ("fractional_max_pool3d", (3, 6, 6, 6), ((3, 2, 2), (0, 1, 1))),
        ("fractional_max_pool3d", (0, 3, 6, 6, 6), (2, 2)),
        ("fractional_max_pool2d", (0, 3, 6, 6), (2, 2)),
    ]:
        ours, theirs = (getattr(T.nn.functional, name)(T.zeros(shape), *args) for T in (ferro, torch))
        assert tuple(ours.shape) == tuple(theirs.shape), name


def test_channels_last_is_kept_by_volumes_without_a_batch_and_by_unpooling(torch: Any) -> None:
    for T in (torch, ferro):
        x = T.arange(2 * 4**3).reshape(1, 2, 4, 4, 4).float().contiguous(memory_format=T.channels_last_3d)[0]
        values, indices = T.nn.functional.max_pool3d(x, 2, return_indices=True)
        for t in (values, indices):
            assert t.unsqueeze(0).is_contiguous(memory_format=T.channels_last_3d)
        assert values.flatten().tolist() == [21, 23, 29, 31, 53, 55, 61, 63, 85, 87, 93, 95, 117, 119, 125, 127]
        y = T.arange(32.0).reshape(1, 2, 4, 4).contiguous(memory_format=T.channels_last)
        up = T.nn.functional.max_unpool2d(*T.nn.functional.max_pool2d(y, 2, return_indices=True), 2)
        assert up.is_contiguous(memory_format=T.channels_last)
        assert up[0, 1].tolist() == [[0, 0, 0, 0], [0, 21, 0, 23], [0, 0, 0, 0], [0, 29, 0, 31]]


def test_many_short_parts_are_those_of_pytorch(torch: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 37, 53)).round(1)  # with ties
    x[0, 3, 5] = x[1, 20, 20:22] = np.nan
    for size in [(22, 31), (37, 40), (30, 53)]:
        ours, theirs = (
            T.nn.functional.adaptive_max_pool2d(T.from_numpy(x), size, return_indices=True) for T in (ferro, torch)
        )
        np.testing.assert_array_equal(ours[0].numpy(), theirs[0].numpy())
        np.testing.assert_array_equal(ours[1].numpy(), theirs[1].numpy())
        ours, theirs = (T.nn.functional.adaptive_avg_pool2d(T.from_numpy(x), size) for T in (ferro, torch))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("pool", ["avg_pool2d", "max_pool2d"])
@pytest.mark.parametrize("args", [(2,), (3, 2, 1)], ids=["beside each other", "overlapping"])
def test_many_images_with_channels_last(torch: Any, rng: np.random.Generator, pool: str, args: tuple) -> None:
    x = rng.normal(size=(2, 64, 48, 48)).astype(np.float32)  # enough to be shared out
    found = []
    for T in (ferro, torch):
        images = T.from_numpy(x).contiguous(memory_format=T.channels_last).requires_grad_()
        result = getattr(T.nn.functional, pool)(images, *args)
        assert result.is_contiguous(memory_format=T.channels_last)
        (result * result).sum().backward()
        found.append((result.detach().numpy(), images.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
