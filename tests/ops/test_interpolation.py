"""Interpolation and sampling on a grid: the maps by their definitions, what they preserve, kinks, non-finite pixels, errors."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferro
import ferro.nn.functional as F
from ferro import cpu
from ferro.ops.linear_entropy import LinearCrossEntropyOptions

MODES = {
    1: ["nearest", "nearest-exact", "linear", "area"],
    2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
    3: ["nearest", "nearest-exact", "trilinear", "area"],
}
SMOOTH = ("linear", "bilinear", "trilinear", "bicubic")
ANTIALIASED = ("bilinear", "bicubic", "lanczos")


# -- interpolation -----------------------------------------------------------------------------------------------------


def keys(x: float, a: float) -> float:
    """Keys's cubic convolution kernel."""
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def place(o: int, old: int, new: int, align: bool) -> float:
    """Where the new pixel o is among the old ones."""
    if align:
        return o * (old - 1) / (new - 1) if new > 1 else 0.0
    return (o + 0.5) * old / new - 0.5


def matrix(mode: str, old: int, new: int, align: bool) -> np.ndarray:
    """The map of one dimension by its definition, one weight after the other."""
    m = np.zeros((new, old))
    for o in range(new):
        at = place(o, old, new, align)
        if mode == "linear":
            at = max(at, 0.0)
        for i in range(-3, old + 3):
            weight = max(1 - abs(at - i), 0.0) if mode == "linear" else keys(at - i, -0.75)
            m[o, min(max(i, 0), old - 1)] += weight
    return m


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("sizes", [(5, 8), (8, 5), (1, 4), (4, 1), (7, 7), (3, 29)])
def test_linear_and_cubic_interpolation_are_their_definitions(
    sizes: tuple, align: bool, rng: np.random.Generator
) -> None:
    old, new = sizes
    x = rng.standard_normal((2, 3, old, 6))
    for mode, kind in (("bilinear", "linear"), ("bicubic", "cubic")):
        want = np.einsum("oi,pj,ncij->ncop", matrix(kind, old, new, align), matrix(kind, 6, 4, align), x)
        got = F.interpolate(ferro.tensor(x), size=(new, 4), mode=mode, align_corners=align).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_antialiased_shrinking_by_an_integer_is_a_convolution_with_the_stretched_filter(
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal((1, 1, 24, 24))
    got = F.interpolate(ferro.tensor(x), size=(24, 8), mode="bicubic", antialias=True).numpy()[0, 0]
    weights = np.array([keys((k + 0.5) / 3, -0.5) for k in range(-6, 6)])
    centre = 4 * 3 + 1.5  # of the new pixel 4, in old pixels' edges
    columns = [int(centre + k) for k in range(-6, 6)]
    shifted = np.array([keys((c + 0.5 - centre) / 3, -0.5) for c in columns])
    np.testing.assert_allclose(got[:, 4], x[0, 0][:, columns] @ (shifted / shifted.sum()), rtol=1e-12)
    assert len(weights) == len(columns)


@given(st.integers(1, 3), st.data())
def test_the_backward_is_the_adjoint_and_constants_stay_constant(n: int, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES[n]))
    old = tuple(data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)))
    new = tuple(data.draw(st.lists(st.integers(1, 12), min_size=n, max_size=n)))
    options: dict[str, Any] = {"align_corners": data.draw(st.booleans())} if mode in SMOOTH else {}
    rng = np.random.default_rng(0)
    x = ferro.tensor(rng.standard_normal((2, 2, *old)), requires_grad=True)
    g = ferro.tensor(rng.standard_normal((2, 2, *new)))
    y = F.interpolate(x, size=new, mode=mode, **options)
    (back,) = ferro.autograd.grad(y, x, g)
    np.testing.assert_allclose((y * g).sum().item(), (back * x).sum().item(), rtol=1e-9, atol=1e-9)
    ones = F.interpolate(ferro.ones(1, 1, *old, dtype=ferro.float64), size=new, mode=mode, **options)
    np.testing.assert_allclose(ones.numpy(), 1, rtol=1e-12)


@pytest.mark.parametrize("mode", ANTIALIASED)
@pytest.mark.parametrize("size", [(3, 4), (20, 5), (1, 1), (13, 9)])
def test_antialiased_constants_stay_constant(mode: str, size: tuple) -> None:
    y = F.interpolate(ferro.full((1, 1, 13, 9), 2.5), size=size, mode=mode, antialias=True)
    np.testing.assert_allclose(y.numpy(), 2.5, rtol=1e-6)


def test_aligned_corners_keep_their_values(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 4, 6))
    for mode in ("bilinear", "bicubic"):
        y = F.interpolate(ferro.tensor(x), size=(9, 5), mode=mode, align_corners=True).numpy()
        np.testing.assert_allclose(y[0, 0][::8, ::4], x[0, 0][::3, ::5], rtol=1e-12)


def test_a_pixel_that_is_no_number_spoils_only_its_neighbours() -> None:
    x = np.zeros((1, 1, 40, 40))
    x[0, 0, 20, 20] = np.nan
    for large in (1, 4):  # by NumPy, and by the compiled kernel
        y = F.interpolate(ferro.tensor(np.repeat(x, large, 1)), scale_factor=2, mode="bilinear").numpy()
        assert 0 < np.isnan(y[0, 0]).sum() <= 36
        g = F.interpolate(ferro.tensor(np.repeat(x, large, 1)), size=(20, 20), mode="nearest").numpy()
        assert np.isnan(g[0, 0]).sum() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_large_images_give_the_numbers_of_small_ones(mode: str, dtype: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((8, 16, 12, 14)).astype(dtype)
    g = rng.standard_normal((8, 16, 17, 9)).astype(dtype)
    large = ferro.tensor(x, requires_grad=True)
    y = F.interpolate(large, size=(17, 9), mode=mode)
    (back,) = ferro.autograd.grad(y, large, ferro.tensor(g))
    for n in range(3):
        small = ferro.tensor(x[n : n + 1, :1], requires_grad=True)
        z = F.interpolate(small, size=(17, 9), mode=mode)
        (want,) = ferro.autograd.grad(z, small, ferro.tensor(g[n : n + 1, :1]))
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(y.detach().numpy()[n, 0], z.detach().numpy()[0, 0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(back.numpy()[n, 0], want.numpy()[0, 0], rtol=tolerance, atol=tolerance)


def test_nearest_takes_the_pixels_that_torch_takes() -> None:
    torch = pytest.importorskip("torch")
    sizes = [(old, new, None) for old in (1, 2, 3, 5, 7, 10, 29) for new in (1, 2, 3, 4, 6, 7, 11, 20, 58)]
    sizes += [(old, None, scale) for old in (3, 5, 10, 29) for scale in (0.4, 1.1, 1.15, 2.3, 3.7)]
    for (old, new, scale), mode, dtype, n in itertools.product(sizes, MODES[1][:2], ("float32", "float64"), (1, 2, 3)):
        x = np.broadcast_to(np.arange(old, dtype=dtype), (1, 1, *[2] * (n - 1), old)).copy()
        options: dict[str, Any] = (
            {"size": (2,) * (n - 1) + (new,)} if new else {"scale_factor": (1.0,) * (n - 1) + (scale,)}
        )
        got = F.interpolate(ferro.from_numpy(x), mode=mode, **options).numpy()
        want = torch.nn.functional.interpolate(torch.from_numpy(x), mode=mode, **options).numpy()
        np.testing.assert_array_equal(got, want, err_msg=f"{old} {new} {scale} {mode} {dtype} {n}")


def test_halves_are_rounded_once_and_bytes_are_clamped() -> None:
    x = ferro.tensor([[[1.0, 1.0009765625, 3.0]]])
    want = F.interpolate(x.half().float(), size=7, mode="linear").half()
    assert F.interpolate(x.half(), size=7, mode="linear").equal(want)
    assert F.interpolate(x.bfloat16(), size=7, mode="linear").dtype is ferro.bfloat16
    edge = ferro.tensor([[[[0, 255, 255, 0]]]], dtype=ferro.uint8)
    y = F.interpolate(edge, size=(1, 12), mode="bicubic")
    assert y.dtype is ferro.uint8
    assert y.flatten()[5].item() == 255  # it overshoots
    assert F.interpolate(edge, scale_factor=2).dtype is ferro.uint8


def test_the_given_scale_is_used_unless_it_is_to_be_recomputed() -> None:
    x = ferro.arange(10.0).reshape(1, 1, 10)
    given = F.interpolate(x, scale_factor=0.55, mode="linear")
    again = F.interpolate(x, scale_factor=0.55, mode="linear", recompute_scale_factor=True)
    assert given.shape == again.shape == (1, 1, 5)
    np.testing.assert_allclose(given[0, 0, 1].item(), 1.5 / 0.55 - 0.5, rtol=1e-6)
    np.testing.assert_allclose(again[0, 0, 1].item(), 1.5 * 2 - 0.5, rtol=1e-6)


def test_interpolate_refuses_what_it_cannot_do() -> None:
    x = ferro.zeros(1, 1, 3, 3)
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(x, 2, 2.0)
    with pytest.raises(ValueError, match="either size or scale_factor"):
        F.interpolate(x)
    with pytest.raises(ValueError, match="same number of spatial dimensions"):
        F.interpolate(x, (2, 2, 2))
    with pytest.raises(TypeError, match="expected size"):
        F.interpolate(x, 2.5)
    with pytest.raises(ValueError, match="align_corners option"):
        F.interpolate(x, 2, align_corners=True)
    with pytest.raises(ValueError, match="not meaningful"):
        F.interpolate(x, 2, recompute_scale_factor=True)
    with pytest.raises(ValueError, match="Anti-alias"):
        F.interpolate(x, 2, antialias=True)
    with pytest.raises(ValueError, match="requires antialias"):
        F.interpolate(x, 2, mode="lanczos")
    with pytest.raises(NotImplementedError, match="needs 3D input"):
        F.interpolate(x, 2, mode="linear")
    with pytest.raises(NotImplementedError, match="Only 3D, 4D and 5D"):
        F.interpolate(x, 2, mode="cubic")
    with pytest.raises(RuntimeError, match="greater than 0"):
        F.interpolate(x, 0)
    with pytest.raises(RuntimeError, match="non-empty"):
        F.interpolate(ferro.zeros(1, 1, 0, 3), 2)
    with pytest.raises(NotImplementedError, match="floating-point"):
        F.interpolate(x.long(), 2)


def test_the_old_names_warn() -> None:
    x = ferro.arange(4.0).reshape(1, 1, 2, 2)
    for call in (F.upsample, F.upsample_nearest, F.upsample_bilinear):
        with pytest.warns(UserWarning, match="deprecated"):
            call(x, scale_factor=2)


# -- sampling on a grid ------------------------------------------------------------------------------------------------


def sample(x: Any, grid: Any, *args: Any, **kwargs: Any) -> Any:
    return F.grid_sample(x, grid, *args, **{"align_corners": False, **kwargs})


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 3, 4, 2)])
def test_the_grid_of_the_identity_gives_the_image_back(shape: tuple, align: bool, rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal(shape))
    n = len(shape) - 2
    theta = ferro.eye(n, n + 1, dtype=ferro.float64).expand(shape[0], n, n + 1)
    grid = F.affine_grid(theta, shape, align_corners=align)
    for mode in ("bilinear", "nearest", "bicubic")[: 3 if n == 2 else 2]:
        np.testing.assert_allclose(sample(x, grid, mode, align_corners=align).numpy(), x.numpy(), atol=1e-12)


def test_a_linear_image_is_sampled_exactly_and_its_slope_is_the_derivative() -> None:
    y, x = np.mgrid[0:6.0, 0:7.0]
    grid = ferro.tensor(np.array([[[[0.2, -0.1], [-0.3, 0.35]]]]), requires_grad=True)
    out = sample(ferro.tensor((2 * x - 3 * y)[None, None]), grid, align_corners=True)
    places = (grid.detach().numpy()[0, 0] + 1) / 2 * [6, 5]
    np.testing.assert_allclose(out.detach().numpy()[0, 0, 0], places @ [2, -3], rtol=1e-12)
    (g,) = ferro.autograd.grad(out.sum(), grid)
    np.testing.assert_allclose(g.numpy(), np.broadcast_to([2 * 3, -3 * 2.5], g.shape), rtol=1e-10)


def test_bicubic_samples_are_sums_with_the_kernel_of_keys(rng: np.random.Generator) -> None:
    x, places = rng.standard_normal((8, 9)), rng.uniform(2, 5, (4, 2))
    grid = ferro.tensor((places / [8, 7] * 2 - 1)[None, None])
    got = sample(ferro.tensor(x[None, None]), grid, "bicubic", align_corners=True).numpy()[0, 0, 0]
    for (px, py), value in zip(places, got, strict=True):
        rows, columns = [keys(py - i, -0.75) for i in range(8)], [keys(px - j, -0.75) for j in range(9)]
        np.testing.assert_allclose(value, np.array(rows) @ x @ np.array(columns), rtol=1e-11)


def slope(v: float, padding: str, align: bool) -> float:
    """The derivative of a sample of the row 0, 1, 4, 9 by its place."""
    row = ferro.tensor([[[[0.0, 1.0, 4.0, 9.0]]]], dtype=ferro.float64)
    grid = ferro.tensor([[[[v, 0.0]]]], dtype=ferro.float64, requires_grad=True)
    (g,) = ferro.autograd.grad(sample(row, grid, padding_mode=padding, align_corners=align).sum(), grid)
    return g[0, 0, 0, 0].item()


def test_at_a_pixel_the_derivative_is_that_to_the_right_and_none_on_the_border() -> None:
    assert slope(-1 / 3, "border", True) == pytest.approx(1.5 * 3)  # between pixel 1 and pixel 2
    for padding in ("border", "reflection"):
        assert slope(-1.0, padding, True) == slope(1.0, padding, True) == 0
    assert slope(1.5, "border", True) == slope(1.5, "border", False) == 0
    assert slope(1.2, "reflection", True) == pytest.approx(-5 * 1.5)
    assert slope(1.2, "zeros", True) == pytest.approx(-9 * 1.5)
    assert slope(3.0, "zeros", False) == 0


def test_places_that_are_no_numbers_lie_outside_or_on_the_first_pixel() -> None:
    x = ferro.arange(1.0, 13.0).reshape(1, 1, 3, 4)
    for bad in (np.nan, np.inf, -np.inf, 1e30):
        grid = ferro.tensor([[[[bad, 0.0]]]])
        for mode in ("bilinear", "nearest", "bicubic"):
            assert sample(x, grid, mode, "zeros").item() == 0
        at_border = 8.0 if bad > 0 else 5.0  # the row in the middle
        assert sample(x, grid, "bilinear", "border").item() == at_border


def test_nearest_gives_the_grid_a_gradient_of_zero() -> None:
    x, grid = ferro.ones(1, 1, 3, 3, requires_grad=True), ferro.zeros(1, 2, 2, 2, requires_grad=True)
    gx, gg = ferro.autograd.grad(sample(x, grid, "nearest").sum(), (x, grid))
    assert gx.sum().item() == 4
    assert not gg.any()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_samples_have_derivatives_of_third_order_and_forward_mode(mode: str, rng: np.random.Generator) -> None:
    x = ferro.tensor(rng.standard_normal((1, 2, 5, 6)), requires_grad=True)
    grid = ferro.tensor(rng.uniform(-0.9, 0.9, (1, 1, 3, 2)), requires_grad=True)
    w = ferro.tensor(rng.standard_normal((1, 1, 3, 2)))

    def f(x: Any, grid: Any) -> Any:
        return sample(x, grid, mode)

    def second(x: Any, grid: Any) -> Any:
        (g,) = ferro.autograd.grad((f(x, grid) ** 2).sum(), grid, create_graph=True)
        return ferro.autograd.grad((g * w).sum(), (x, grid), create_graph=True)

    assert ferro.autograd.gradcheck(f, (x, grid), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(f, (x, grid))
    assert ferro.autograd.gradcheck(second, (x, grid))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_large_samples_give_the_numbers_of_small_ones(padding: str, rng: np.random.Generator) -> None:
    for shape, places in (((4, 20, 12, 11), (9, 10)), ((3, 20, 5, 6, 7), (3, 4, 5))):
        n = len(places)
        x, g = rng.standard_normal(shape), rng.uniform(-1.3, 1.3, (shape[0], *places, n))
        v = rng.standard_normal((*shape[:2], *places))
        large = [ferro.tensor(a, requires_grad=True) for a in (x, g)]
        out = sample(*large, padding_mode=padding)
        back = ferro.autograd.grad(out, large, ferro.tensor(v))
        by_grid: Any = 0
        for c in range(0, 20, 2):
            small = [ferro.tensor(x[1:2, c : c + 2], requires_grad=True), ferro.tensor(g[1:2], requires_grad=True)]
            part = sample(*small, padding_mode=padding)
            want = ferro.autograd.grad(part, small, ferro.tensor(v[1:2, c : c + 2]))
            np.testing.assert_allclose(
                out.detach().numpy()[1, c : c + 2], part.detach().numpy()[0], rtol=1e-10, atol=1e-12
            )
            np.testing.assert_allclose(back[0].numpy()[1, c : c + 2], want[0].numpy()[0], rtol=1e-10, atol=1e-12)
            by_grid = by_grid + want[1].numpy()[0]
        np.testing.assert_allclose(back[1].numpy()[1], by_grid, rtol=1e-9, atol=1e-10)


def test_the_three_sums_over_taps_are_adjoint_to_each_other(rng: np.random.Generator) -> None:
    x, g, w = rng.standard_normal((2, 3, 7)), rng.standard_normal((2, 3, 5)), rng.standard_normal((2, 4, 5))
    index = rng.integers(0, 7, (2, 4, 5))
    form = (g * cpu.sample_taps(x, w, index)).sum()
    by_x, by_w = (x * cpu.spread_taps(g, w, index, 7)).sum(), (w * cpu.weigh_taps(g, x, index)).sum()
    np.testing.assert_allclose([by_x, by_w], form, rtol=1e-12)


def test_grid_sample_refuses_what_does_not_fit() -> None:
    x, grid = ferro.zeros(1, 2, 3, 3), ferro.zeros(1, 4, 4, 2)
    for bad in (ferro.zeros(2, 4, 4, 2), ferro.zeros(1, 4, 4, 3), ferro.zeros(1, 4, 2), grid.double()):
        with pytest.raises(RuntimeError, match="grid_sample"):
            sample(x, bad)
    with pytest.raises(ValueError, match="expected mode"):
        sample(x, grid, "cubic")
    with pytest.raises(ValueError, match="expected padding_mode"):
        sample(x, grid, padding_mode="wrap")
    with pytest.raises(RuntimeError, match="only supports 4D"):
        sample(ferro.zeros(1, 1, 2, 2, 2), ferro.zeros(1, 1, 1, 1, 3), "bicubic")
    with pytest.raises(RuntimeError, match="non-empty spatial"):
        sample(ferro.zeros(1, 1, 0, 2), grid)
    with pytest.raises(NotImplementedError, match="floating-point"):
        sample(x.long(), grid.long())
    with pytest.raises(RuntimeError, match="expected 4D"):
        ferro.grid_sampler_2d(ferro.zeros(1, 1, 2, 2, 2), ferro.zeros(1, 1, 1, 1, 3), 0, 0, False)
    with pytest.raises(RuntimeError, match="interpolation_mode"):
        ferro.grid_sampler(x, grid, 3, 0, False)
    with pytest.warns(UserWarning, match="align_corners=False since"):
        F.grid_sample(x, grid)


def test_affine_grid_refuses_what_does_not_fit() -> None:
    theta = ferro.zeros(1, 2, 3)
    with pytest.raises(ValueError, match="Nx3x4"):
        F.affine_grid(theta, (1, 1, 2, 2, 2), False)
    with pytest.raises(ValueError, match="non-zero"):
        F.affine_grid(theta, (1, 1, 0, 2), False)
    with pytest.raises(NotImplementedError, match="4D and 5D"):
        F.affine_grid(theta, (1, 1, 2), False)
    with pytest.raises(ValueError, match="floating point type"):
        F.affine_grid(theta.long(), (1, 1, 2, 2), False)
    with pytest.raises(RuntimeError, match="affine_grid_generator"):
        F.affine_grid(theta, (2, 1, 2, 2), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not F.affine_grid(ferro.ones(1, 2, 3) * ferro.tensor([1.0, 1.0, 0.0]), (1, 1, 1, 1), True).any()


# -- what stands beside them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [LinearCrossEntropyOptions(), LinearCrossEntropyOptions(batch_chunk_size=4)])
def test_the_cross_entropy_in_parts_is_that_in_one_piece(
    reduction: str, options: LinearCrossEntropyOptions, rng: np.random.Generator
) -> None:
    x, w, b = [ferro.tensor(rng.standard_normal(s), requires_grad=True) for s in ((9, 3), (7, 3), (7,))]
    target, weight = ferro.tensor([0, 1, 2, -100, 6, 5, 4, -100, 3]), ferro.tensor(rng.uniform(0.5, 1, 7))

    def loss(x: Any, w: Any, b: Any, options: Any = options) -> Any:
        return F.linear_cross_entropy(x, w, target, linear_bias=b, weight=weight, reduction=reduction, options=options)

    found = [[y, *ferro.autograd.grad(y.sum(), (x, w, b))] for y in (loss(x, w, b), loss(x, w, b, None))]
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-10)
    assert ferro.autograd.gradcheck(loss, (x, w, b), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(loss, (x, w, b))


def test_the_sizes_of_the_parts_of_a_cross_entropy() -> None:
    assert LinearCrossEntropyOptions().rows(4096, 64, 1024) == 128
    assert LinearCrossEntropyOptions(chunking_method="aspect_ratio").rows(4096, 64, 1024) == 256
    assert LinearCrossEntropyOptions(chunking_method=None).rows(10, 3, 5) == 10
    assert LinearCrossEntropyOptions(batch_chunk_size=64).rows(10, 3, 5) == 10
    wrong: Any
    for wrong in ({"batch_chunk_size": 0}, {"chunking_method": "aspect_ratio:0"}, {"acc_policy": "best"}):
        with pytest.raises(ValueError, match=r"invalid|must be"):
            LinearCrossEntropyOptions(**wrong)
    with pytest.raises(ValueError, match="pass only one"):
        LinearCrossEntropyOptions(batch_chunk_size=3, chunking_method="aspect_ratio").rows(10, 3, 5)
    with pytest.warns(UserWarning, match="options are ignored"):
        F.linear_cross_entropy(
            ferro.ones(2, 3),
            ferro.ones(4, 3),
            ferro.tensor([0, 1]),
            label_smoothing=0.1,
            options=LinearCrossEntropyOptions(),
        )


def test_grouped_products_refuse_what_does_not_fit() -> None:
    a, b, offs = ferro.ones(5, 3), ferro.ones(2, 3, 4), ferro.tensor([2, 5], dtype=ferro.int32)
    for wrong in (
        (a, b),
        (a, b, ferro.tensor([2, 6])),
        (a, b, ferro.tensor([3, 2])),
        (a, b, ferro.tensor([5])),
        (ferro.ones(2, 4, 3), b, offs),
        (a.double(), b, offs),
        (a[:, :2], b, offs),
    ):
        with pytest.raises(RuntimeError, match="grouped_mm"):
            F.grouped_mm(*wrong[:2], offs=wrong[2] if len(wrong) > 2 else None)


def test_packed_sequences_run_like_their_padded_ones(rng: np.random.Generator) -> None:
    lengths, width, hidden = [4, 2, 1], 3, 2
    rows = [ferro.tensor(rng.standard_normal((n, width))) for n in lengths]
    weights = [ferro.tensor(rng.standard_normal(s)) for s in [(8, width), (8, hidden), (8,), (8,)] * 2]
    h, c = [ferro.tensor(rng.standard_normal((2, 3, hidden))) for _ in range(2)]
    sizes = [sum(n > t for n in lengths) for t in range(4)]
    packed = ferro.cat([ferro.stack([rows[i][t] for i in range(size)]) for t, size in enumerate(sizes)])
    out, hn, cn = ferro.lstm(packed, ferro.tensor(sizes), (h, c), weights, True, 1, 0.0, False, True)
    starts = np.cumsum([0, *sizes])
    for i, n in enumerate(lengths):
        one = rows[i].unsqueeze(1)
        alone = ferro.lstm(one, (h[:, i : i + 1], c[:, i : i + 1]), weights, True, 1, 0.0, False, True, False)
        own = ferro.stack([out[int(starts[t]) + i] for t in range(n)])
        for got, want in ((own, alone[0][:, 0]), (hn[:, i], alone[1][:, 0]), (cn[:, i], alone[2][:, 0])):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
