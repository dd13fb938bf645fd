"""Convolution: the family of its derivatives, padding by name, dtypes, errors, unfold and fold as adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F
from ferro import cpu
from ferro.native.threads import get_num_threads, set_num_threads

CASES = [  # x, w, stride, padding, dilation, groups
    ((2, 4, 9), (6, 2, 3), 2, 1, 2, 2),
    ((2, 3, 6, 7), (4, 3, 3, 2), (2, 1), (1, 0), (1, 2), 1),
    ((1, 4, 5, 5), (4, 1, 3, 3), 1, 2, 1, 4),
    ((1, 2, 4, 3, 5), (2, 2, 2, 2, 3), (1, 2, 1), (0, 1, 1), 1, 1),
    ((3, 2, 5, 5), (3, 2, 1, 1), 1, 0, 1, 1),
    ((1, 1, 3, 3), (1, 1, 2, 2), 4, 3, 1, 1),
]


def loops(x: Any, w: Any, stride: Any, pad: Any, dilation: Any, groups: int) -> Any:
    """A convolution by its definition, one output element after the other."""
    n = x.ndim - 2
    stride, pad, dilation = [(v,) * n if isinstance(v, int) else v for v in (stride, pad, dilation)]
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    kernel = w.shape[2:]
    size = [(s - d * (k - 1) - 1) // t + 1 for s, k, t, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    y = np.zeros((len(x), len(w), *size), x.dtype)
    for place in np.ndindex(*y.shape):
        image, channel, *at = place
        first = channel // (len(w) // groups) * w.shape[1]
        window = [
            slice(a * t, a * t + d * (k - 1) + 1, d) for a, t, d, k in zip(at, stride, dilation, kernel, strict=True)
        ]
        y[place] = (x[(image, slice(first, first + w.shape[1]), *window)] * w[channel]).sum()
    return y


def convolve(x: Any, w: Any, *rest: Any) -> Any:
    return {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim](x, w, None, *rest)


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_its_definition(case: tuple, dtype: str, rng: np.random.Generator) -> None:
    x, w = [(rng.standard_normal(s) * 5 + (1j if dtype == "complex128" else 0)).astype(dtype) for s in case[:2]]
    got = convolve(ferro.tensor(x), ferro.tensor(w), *case[2:]).numpy()
    np.testing.assert_allclose(got, loops(x, w, *case[2:]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_three_members_of_the_family_are_adjoint_to_each_other(case: tuple, rng: np.random.Generator) -> None:
    shape, wshape, *rest, groups = case
    n = len(shape) - 2
    stride, pad, dilation = [(v,) * n if isinstance(v, int) else v for v in rest]
    x, w = rng.standard_normal(shape), rng.standard_normal(wshape)
    y = rng.standard_normal(loops(x, w, stride, pad, dilation, groups).shape)
    form = (y * cpu.conv(x, w, None, y.shape[2:], stride, pad, dilation, groups)).sum()
    by_x = (x * cpu.conv_input(y, w, None, shape[2:], stride, pad, dilation, groups)).sum()
    by_w = (w * cpu.conv_weight(x, y, wshape[2:], stride, pad, dilation, groups)).sum()
    np.testing.assert_allclose([by_x, by_w], form, rtol=1e-10)


@pytest.mark.parametrize("dtype", [ferro.float32, ferro.float64])
@pytest.mark.parametrize("groups", [1, 8])
def test_large_arrays_give_the_numbers_of_small_ones(dtype: Any, groups: int, rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((8, 8, 40, 40))).to(dtype).requires_grad_()
    w = ferro.tensor(rng.standard_normal((16, 8 // groups, 3, 3))).to(dtype).requires_grad_()
    b = ferro.tensor(rng.standard_normal(16)).to(dtype).requires_grad_()
    y = F.conv2d(x, w, b, 2, 1, 1, groups)
    tolerance = 1e-4 if dtype is ferro.float32 else 1e-11
    want = (
        loops(*[t.detach().double().numpy() for t in (x, w)], 2, 1, 1, groups)
        + b.detach().double().numpy()[:, None, None]
    )
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=tolerance, atol=tolerance)
    g = ferro.tensor(rng.standard_normal(y.shape)).to(dtype)
    y.backward(g)
    inner = (g.double() * (y - b[:, None, None]).detach().double()).sum().item()
    for t in (x, w):
        assert (t.detach().double() * t.grad.double()).sum().item() == pytest.approx(inner, rel=tolerance * 10)
    np.testing.assert_allclose(b.grad.numpy(), g.numpy().sum((0, 2, 3)), rtol=tolerance, atol=tolerance * 10)


def test_convolutions_are_bitwise_equal_for_any_number_of_threads(rng: np.random.Generator) -> None:
    before = get_num_threads()
    results = []
    try:
        for n in (1, 2, 4):
            set_num_threads(n)
            x = ferro.tensor(
                np.random.default_rng(0).standard_normal((8, 16, 24, 24)).astype("float32"), requires_grad=True
            )
            w = ferro.tensor(
                np.random.default_rng(1).standard_normal((32, 16, 3, 3)).astype("float32"), requires_grad=True
            )
            y = F.conv2d(x, w, padding=1)
            y.backward(ferro.ones_like(y))
            results.append([y.detach().numpy(), x.grad.numpy(), w.grad.numpy()])
    finally:
        set_num_threads(before)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


# -- padding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_same_padding_keeps_the_size_with_the_odd_zero_at_the_end(kernel: int, dilation: int) -> None:
    x = ferro.arange(1.0, 9.0).reshape(1, 1, 8)
    w = ferro.arange(1.0, kernel + 1).reshape(1, 1, kernel)
    total = dilation * (kernel - 1)
    padded = np.pad(x.numpy(), [(0, 0), (0, 0), (total // 2, total - total // 2)])
    got = F.conv1d(x, w, padding="same", dilation=dilation)
    assert got.shape == x.shape
    np.testing.assert_array_equal(got.numpy(), loops(padded, w.numpy(), 1, 0, dilation, 1))


def test_padding_by_name_is_checked() -> None:
    x, w = ferro.ones(1, 1, 5), ferro.ones(1, 1, 2)
    assert F.conv1d(x, w, padding="valid").shape == (1, 1, 4)
    with pytest.raises(RuntimeError, match="strided"):
        F.conv1d(x, w, padding="same", stride=2)
    with pytest.raises(RuntimeError, match=r"'full'.*'same', 'valid'"):
        F.conv1d(x, w, padding="full")


# -- shapes and errors -------------------------------------------------------------------------------------------------


def test_an_image_alone_and_an_empty_batch_are_convolved() -> None:
    w = ferro.ones(3, 2, 2, 2, requires_grad=True)
    assert F.conv2d(ferro.ones(2, 5, 5), w).shape == (3, 4, 4)
    assert F.conv_transpose2d(ferro.ones(3, 5, 5), w).shape == (2, 6, 6)
    y = F.conv2d(ferro.ones(0, 2, 5, 5), w)
    assert y.shape == (0, 3, 4, 4)
    y.sum().backward()
    assert not w.grad.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": (1, 3, 5, 5)}, r"groups=1, weight of size \[3, 2, 3, 3\].* to have 2 channels, but got 3 channels"),
        ({"x": (5, 5)}, r"3D \(unbatched\) or 4D \(batched\) input to conv2d"),
        (
            {"x": (1, 2, 2, 2)},
            r"padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\). Kernel size can't be",
        ),
        ({"w": (3, 2, 3)}, r"3-dimensional weight\[3, 2, 3\].*weight of 4 dimensions"),
        ({"b": (4,)}, "1-dimensional with 3 elements"),
        ({"groups": 2}, "divisible by 2"),
        ({"groups": 0}, "non-positive groups is not supported"),
        ({"stride": 0}, "non-positive stride is not supported.* conv2d"),
        ({"dilation": 0}, r"dilation should be greater than zero, but got \[0, 0\]"),
        ({"padding": -1}, "negative padding is not supported"),
        ({"stride": (1, 2, 3)}, r"a list of 2 values to match the convolution dimensions, but got stride=\[1, 2, 3\]"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict, message: str) -> None:
    shapes: dict = {"x": (1, 2, 5, 5), "w": (3, 2, 3, 3), "b": (3,)}
    rest = {k: v for k, v in changes.items() if k not in shapes}
    shapes |= {k: v for k, v in changes.items() if k in shapes}
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*[ferro.ones(*s) for s in shapes.values()], **rest)


def test_dtypes_must_agree_and_are_named() -> None:
    with pytest.raises(RuntimeError, match=r"scalar type Float but found Double"):
        F.conv1d(ferro.ones(1, 1, 3), ferro.ones(1, 1, 2, dtype=ferro.float64))
    with pytest.raises(RuntimeError, match=r"Input type \(float\) and bias type \(c10::Half\) should be the same"):
        F.conv1d(ferro.ones(1, 1, 3), ferro.ones(1, 1, 2), ferro.ones(1, dtype=ferro.float16))


@pytest.mark.parametrize("dtype", [ferro.float16, ferro.bfloat16])
def test_16_bit_floats_are_summed_in_float32(dtype: Any) -> None:
    y = F.conv1d(ferro.ones(1, 1, 4096, dtype=dtype), ferro.ones(1, 1, 4096, dtype=dtype))
    assert y.dtype is dtype
    assert y.item() == 4096


def test_output_padding_must_be_below_stride_or_dilation() -> None:
    x, w = ferro.ones(1, 1, 4), ferro.ones(1, 1, 3)
    assert F.conv_transpose1d(x, w, stride=2, output_padding=1).shape == (1, 1, 10)
    assert F.conv_transpose1d(x, w, dilation=3, output_padding=2).shape == (1, 1, 12)
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        F.conv_transpose1d(x, w, output_padding=1)
    with pytest.raises(RuntimeError, match="too small"):
        F.conv_transpose1d(x, w, padding=4)


def test_a_transposed_convolution_is_the_gradient_of_a_convolution(rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((1, 2, 7)), requires_grad=True)
    w = ferro.tensor(rng.standard_normal((3, 2, 3)))
    y = F.conv1d(x, w, stride=2, padding=1)
    g = ferro.tensor(rng.standard_normal(y.shape))
    y.backward(g)
    np.testing.assert_allclose(F.conv_transpose1d(g, w, stride=2, padding=1).numpy(), x.grad.numpy())


# -- windows -----------------------------------------------------------------------------------------------------------


def test_fold_is_the_adjoint_of_unfold_and_counts_overlaps(rng: np.random.Generator) -> None:
    options = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    x = ferro.tensor(rng.standard_normal((2, 2, 5, 5)))
    columns = F.unfold(x, **options)
    c = ferro.tensor(rng.standard_normal(columns.shape))
    assert (columns * c).sum().item() == pytest.approx((x * F.fold(c, (5, 5), **options)).sum().item())
    assert F.fold(F.unfold(ferro.ones(1, 1, 3, 3), 2), 3, 2).tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


@pytest.mark.parametrize(
    ("shape", "output", "message"),
    [
        ((1, 8, 15), 5, r"4 \* 4 = 16, but got input.size\(2\)=15"),
        ((1, 7, 16), 5, "divisible"),
        ((1, 8, 16, 1), 5, "2D or 3D"),
    ],
)
def test_fold_checks_the_shape_of_its_columns(shape: tuple, output: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        F.fold(ferro.ones(*shape), output, 2)


# -- odd geometry ------------------------------------------------------------------------------------------------------

_ALL_IN_PADDING = [  # images, weight, whether transposed, the rest: large enough for kernels, and small
    ((64, 16, 1, 9), (32, 16, 1, 1), False, {"padding": (3, 0), "stride": (5, 1)}),
    ((64, 16, 2), (32, 16, 1), False, {"padding": 3, "stride": 8}),
    ((64, 16, 2), (32, 16, 2), False, {"padding": 3, "stride": 8, "dilation": 3}),
    ((1, 2, 1), (2, 2, 1), False, {"padding": 3, "stride": 5}),
    ((64, 32, 2, 9), (32, 16, 1, 1), True, {"padding": (2, 0), "stride": (5, 1)}),
    ((64, 32, 2, 9), (32, 16, 2, 1), True, {"padding": (4, 0), "stride": (3, 1), "dilation": (6, 1)}),
    ((1, 2, 2), (2, 2, 1), True, {"padding": 2, "stride": 5}),
]


@pytest.mark.parametrize(("x_shape", "w_shape", "transposed", "rest"), _ALL_IN_PADDING)
def test_windows_that_all_lie_in_the_padding(
    torch: Any, rng: np.random.Generator, x_shape: tuple, w_shape: tuple, transposed: bool, rest: dict
) -> None:
    name = f"conv{'_transpose' if transposed else ''}{len(x_shape) - 2}d"
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (x_shape, w_shape)]
    found = []
    for library in (ferro, torch):
        x, w = [library.from_numpy(a).requires_grad_() for a in arrays]
        y = getattr(library.nn.functional, name)(x, w, **rest)
        found.append([v.detach().numpy() for v in (y, *library.autograd.grad(y.sum(), (x, w)))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("images", [(1, 2, 2, 3), (0, 2, 2, 3), (64, 16, 2, 30)])
def test_a_transposed_convolution_may_have_an_empty_result(images: tuple) -> None:
    channels = images[1]
    x, w, b = ferro.ones(images), ferro.ones(channels, 3, 1, 1), ferro.ones(3)
    for t in (x, w, b):
        t.requires_grad_()
    y = ferro.nn.functional.conv_transpose2d(x, w, b, padding=1)
    assert y.shape == (images[0], 3, 0, images[3] - 2)
    for g, t in zip(ferro.autograd.grad(y.sum(), (x, w, b)), (x, w, b), strict=True):
        assert g.shape == t.shape
        assert not g.any()
    with pytest.raises(RuntimeError, match="Output size is too small"):
        ferro.nn.functional.conv_transpose2d(x, w, b, padding=2)


def test_no_images_may_have_empty_ones(torch: Any) -> None:
    for shape, padding in [((0, 2, 4, 0), 1), ((0, 2, 0, 0), 2)]:
        for name in ("conv2d", "conv_transpose2d"):
            sizes = []
            for library in (ferro, torch):
                x, w = library.ones(shape), library.ones(2, 2, 3, 3)
                x.requires_grad_()
                try:
                    y = getattr(library.nn.functional, name)(x, w, padding=padding)
                    sizes.append((tuple(y.shape), tuple(library.autograd.grad(y.sum(), x)[0].shape)))
                except RuntimeError:
                    sizes.append(None)
            assert sizes[0] == sizes[1], (name, shape)
