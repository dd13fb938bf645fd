"""Fourier transforms: bins that stand for two, scales, lengths, any layout; spectrograms; windows against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferro
from ferro import fft

HALVES, WHOLES, COMPLEX = ("rfft", "ihfft"), ("irfft", "hfft"), ("fft", "ifft")
NORMS = (None, "backward", "ortho", "forward")
TAU = 2j * np.pi


def leaf(values: Any) -> Any:
    return ferro.from_numpy(np.array(values)).requires_grad_()


def numbers(rng: np.random.Generator, shape: tuple, complex_: bool) -> Any:
    a = rng.standard_normal(shape)
    return a + 1j * rng.standard_normal(shape) if complex_ else a


def inner(a: Any, b: Any) -> float:
    return float(np.sum(np.conj(a) * b).real)


# -- values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 8, 97])
@pytest.mark.parametrize("norm", NORMS)
def test_transforms_are_the_sums_they_are_defined_by(n: int, norm: Any, rng: np.random.Generator) -> None:
    a = numbers(rng, (n,), True)
    j = np.arange(n)
    scale = {None: 1.0, "backward": 1.0, "ortho": n**-0.5, "forward": 1 / n}[norm]
    matrix: Any = np.exp(-TAU * np.outer(j, j) / n)
    np.testing.assert_allclose(fft.fft(ferro.from_numpy(a), norm=norm).numpy(), scale * matrix @ a, atol=1e-12 * n)
    np.testing.assert_allclose(
        fft.ifft(ferro.from_numpy(a), norm=norm).numpy(), matrix.conj() @ a / (scale * n), atol=1e-12 * n
    )
    half = n // 2 + 1
    x = ferro.from_numpy(a.real.copy())
    np.testing.assert_allclose(fft.rfft(x, norm=norm).numpy(), (scale * matrix @ a.real)[:half], atol=1e-12 * n)
    np.testing.assert_allclose(
        fft.ihfft(x, norm=norm).numpy(), (matrix.conj() @ a.real / (scale * n))[:half], atol=1e-12 * n
    )
    bins: Any = np.concatenate([a[:half], a[1 : (n + 1) // 2][::-1].conj()])  # what the bins 0 to n // 2 stand for
    bins[0] = bins[0].real
    if n % 2 == 0:
        bins[n // 2] = bins[n // 2].real
    z = ferro.from_numpy(a[:half].copy())
    np.testing.assert_allclose(fft.hfft(z, n, norm=norm).numpy(), (scale * matrix @ bins).real, atol=1e-12 * n)
    np.testing.assert_allclose(
        fft.irfft(z, n, norm=norm).numpy(), (matrix.conj() @ bins).real / (scale * n), atol=1e-12 * n
    )


@pytest.mark.parametrize("n", [97, 128, 1009])
def test_error_stays_at_rounding_for_prime_lengths_and_a_wide_range(n: int, rng: np.random.Generator) -> None:
    a = rng.standard_normal(n) * 10.0 ** rng.uniform(-8, 8, n)
    k = n // 3
    with mpmath.workdps(40):
        exact = complex(mpmath.fsum(mpmath.mpf(v) * mpmath.expjpi(mpmath.mpf(-2 * j * k) / n) for j, v in enumerate(a)))
    for y in (fft.fft(ferro.from_numpy(a)), fft.rfft(ferro.from_numpy(a))):
        assert abs(y[k].item() - exact) < 1e-14 * np.linalg.norm(a)


def test_a_negative_mean_has_the_angle_pi() -> None:
    for transform in (fft.fft, fft.ifft, fft.fftn, fft.ifftn):
        x = -ferro.ones(4, 6)
        assert transform(x).angle()[:, 0][0].item() == pytest.approx(np.pi)
    assert not np.signbit(fft.fft(-ferro.ones(5)).imag[0].item())


def test_dtypes_are_kept_and_integers_become_the_default() -> None:
    for dtype, result in (
        (ferro.float32, ferro.complex64),
        (ferro.float64, ferro.complex128),
        (ferro.int16, ferro.complex64),
        (ferro.bool, ferro.complex64),
        (ferro.complex64, ferro.complex64),
    ):
        x = ferro.ones(4, dtype=dtype)
        assert fft.fft(x).dtype is fft.ifftn(x).dtype is result
        assert fft.irfft(x).dtype is fft.hfftn(x).dtype is result.to_real()
        if not dtype.is_complex:
            assert fft.rfft(x).dtype is result
    x = ferro.ones(4, requires_grad=True)
    fft.fft(x).abs().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is ferro.float32
    for dtype in (ferro.float16, ferro.bfloat16):
        for name in (*HALVES, *WHOLES, *COMPLEX):
            with pytest.raises(RuntimeError, match="Unsupported dtype"):
                getattr(fft, name)(ferro.ones(4, dtype=dtype))


def test_empty_batches_give_empty_transforms() -> None:
    assert fft.fft(ferro.ones(0, 4)).shape == (0, 4)
    assert fft.rfft(ferro.ones(0, 4)).shape == (0, 3)
    assert fft.irfft(ferro.ones(0, 4)).shape == (0, 6)
    x = ferro.ones(2, 0, 4, requires_grad=True)
    fft.fftn(x, dim=(0, 2)).abs().sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (2, 0, 4)


# -- derivatives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("name", [*HALVES, *WHOLES, *COMPLEX])
@pytest.mark.parametrize("norm", ["ortho", "forward"])
def test_gradients_count_each_bin_as_often_as_the_transform_does(name: str, n: int, norm: str) -> None:
    bins = n // 2 + 1
    x = leaf(np.zeros(bins if name in WHOLES else n, complex if name not in HALVES else float))
    f = getattr(fft, name)
    out = f(x, n, norm=norm)
    # the transform is linear: column j of its matrix is the transform of a unit, for the real and the imaginary parts
    for k in range(out.shape[0]):
        for unit in (1.0, 1j) if out.is_complex() else (1.0,):
            v = np.zeros(tuple(out.shape), out.numpy().dtype if not out.requires_grad else out.detach().numpy().dtype)
            v[k] = unit
            (g,) = ferro.autograd.grad(f(x, n, norm=norm), x, ferro.from_numpy(v))
            for j in range(x.shape[0]):
                for part in (1.0, 1j) if x.is_complex() else (1.0,):
                    e = np.zeros(x.shape[0], g.numpy().dtype)
                    e[j] = part
                    direct = inner(v, f(ferro.from_numpy(e), n, norm=norm).numpy())
                    assert inner(g.numpy(), e) == pytest.approx(direct, abs=1e-14)


def test_the_ignored_imaginary_parts_have_no_gradient() -> None:
    for f in (fft.irfft, fft.hfft):
        z = leaf(np.array([1 + 2j, 3 + 4j, 5 + 6j]))
        (g,) = ferro.autograd.grad((f(z) ** 3).sum(), z)
        assert g.imag[0].item() == g.imag[2].item() == 0
        assert g.imag[1].item() != 0


@given(st.data())
def test_transposes_are_exact_for_any_dimensions_lengths_and_strides(data: Any) -> None:
    name = data.draw(st.sampled_from([*HALVES, *WHOLES, *COMPLEX]))
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dims = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    s = tuple(data.draw(st.integers(1, 6)) for _ in dims)
    norm = data.draw(st.sampled_from(NORMS))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a = numbers(rng, tuple(2 * n for n in shape), name not in HALVES)
    part = tuple(slice(None, None, 2 * data.draw(st.sampled_from([1, -1]))) for _ in shape)

    def f(t: Any) -> Any:
        return getattr(fft, name + "n")(t, s, dims, norm)

    x = ferro.from_numpy(a[part]).requires_grad_()
    u = numbers(rng, shape, name not in HALVES)
    y = f(x)
    v = numbers(rng, tuple(y.shape), name not in WHOLES)
    (g,) = ferro.autograd.grad(y, x, ferro.from_numpy(v))
    forward = f(ferro.from_numpy(u)).numpy()
    assert inner(g.numpy(), u) == pytest.approx(inner(v, forward), rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(y.detach().numpy(), f(ferro.from_numpy(a[part].copy())).numpy(), atol=1e-12)
    _, tangent = ferro.func.jvp(f, (x.detach(),), (ferro.from_numpy(u),))
    np.testing.assert_allclose(tangent.numpy(), forward, atol=1e-12)


def test_third_derivatives_of_a_power_spectrum() -> None:
    x = leaf([0.3, -1.2, 0.5, 0.9, 0.1])

    def energy(x: Any) -> Any:
        z = fft.rfft(x)
        return (z.real**2 + z.imag**2).pow(1.5).sum()

    assert ferro.autograd.gradgradcheck(lambda x: ferro.autograd.grad(energy(x), x, create_graph=True)[0], (x,))


# -- arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*HALVES, *WHOLES, *COMPLEX])
def test_bad_arguments_are_refused(name: str) -> None:
    x = ferro.ones(3, 4)
    one, many, two = getattr(fft, name), getattr(fft, name + "n"), getattr(fft, name + "2")
    for call, error, text in (
        (lambda: one(ferro.tensor(1.0)), IndexError, "no dimensions"),
        (lambda: one(x, dim=2), IndexError, "out of range"),
        (lambda: one(x, 0), RuntimeError, "data points"),
        (lambda: one(ferro.ones(3, 0)), RuntimeError, "data points"),
        (lambda: one(x, norm="none"), RuntimeError, "normalization"),
        (lambda: many(x, norm=3), RuntimeError, "normalization"),
        (lambda: many(x, dim=(0, -2)), RuntimeError, "unique"),
        (lambda: many(x, s=(1, 2, 3)), RuntimeError, "3 values"),
        (lambda: many(x, s=(1, 2), dim=(0,)), RuntimeError, "same length"),
        (lambda: many(x, s=(1, -2)), RuntimeError, "data points"),
        (lambda: two(x, dim=None), TypeError, "dim"),
        (lambda: two(ferro.ones(4)), IndexError, "out of range"),
        (lambda: one(x, out=ferro.ones(3, 4, dtype=ferro.int32)), RuntimeError, "output tensor"),
        (lambda: one([1.0, 2.0]), TypeError, "must be Tensor"),
    ):
        with pytest.raises(error, match=text):
            call()
    if name in HALVES:
        with pytest.raises(RuntimeError, match="real input"):
            one(ferro.ones(3, dtype=ferro.complex64))
    if name not in COMPLEX:
        with pytest.raises(RuntimeError, match="at least one axis"):
            many(x, dim=())


def test_out_takes_the_result_and_refuses_gradients() -> None:
    x = ferro.tensor([1.0, 0.0, 0.0, 2.0])
    out = ferro.zeros(3, dtype=ferro.complex64)
    assert fft.rfft(x, out=out) is out
    assert out.tolist() == [3, 1 + 2j, -1]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fft.rfft(x.clone().requires_grad_(), out=out)


def test_no_dimensions_leave_the_numbers_as_complex_ones() -> None:
    x = leaf([1.0, 2.0])
    y = fft.fftn(x, dim=())
    assert y.tolist() == [1, 2]
    assert y.dtype is ferro.complex128
    assert ferro.autograd.grad((y * (1 + 1j)).real.sum(), x)[0].tolist() == [1, 1]
    z = ferro.ones(2, dtype=ferro.complex64)
    assert fft.ifftn(z, dim=()) is not z


def test_frequencies() -> None:
    assert fft.fftfreq(5, 0.5).tolist() == pytest.approx([0, 0.4, 0.8, -0.8, -0.4])
    assert fft.fftfreq(4).tolist() == [0, 0.25, -0.5, -0.25]
    assert fft.rfftfreq(4, 2.0).tolist() == [0, 0.125, 0.25]
    assert fft.fftfreq(0).shape == (0,)
    assert fft.fftfreq(3, dtype=ferro.float64, requires_grad=True).is_leaf
    for f in (fft.fftfreq, fft.rfftfreq):
        with pytest.raises(RuntimeError, match="floating point"):
            f(4, dtype=ferro.int64)
        with pytest.raises(RuntimeError):
            f(-1)


def test_shifts_are_inverse_to_each_other() -> None:
    x = ferro.arange(15.0).reshape(3, 5)
    assert fft.ifftshift(fft.fftshift(x)).equal(x)
    assert fft.fftshift(fft.fftfreq(5)).tolist() == sorted(fft.fftfreq(5).tolist())
    assert fft.fftshift(ferro.tensor(1.0)).item() == 1


# -- spectrograms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_istft_inverts_stft(onesided: bool, normalized: bool, rng: np.random.Generator) -> None:
    x = ferro.from_numpy(rng.standard_normal((2, 50)))
    w = ferro.hann_window(8, dtype=ferro.float64)
    z = ferro.stft(x, 8, 3, window=w, normalized=normalized, onesided=onesided, return_complex=True)
    y = z.istft(8, 3, window=w, normalized=normalized, onesided=onesided, length=50)
    np.testing.assert_allclose(y.numpy(), x.numpy(), atol=1e-12)


def test_complex_signals_and_windows(rng: np.random.Generator) -> None:
    x = ferro.from_numpy(numbers(rng, (30,), True))
    w = ferro.from_numpy(numbers(rng, (5,), True))
    z = x.stft(5, 2, window=w, return_complex=True)
    assert z.shape == (5, 15)
    frame = np.pad(x.numpy(), 2, "reflect")[4:9]
    np.testing.assert_allclose(z[:, 2].numpy(), np.fft.fft(frame * w.numpy()), atol=1e-12)
    v = ferro.ones(5, dtype=ferro.float64)
    back = ferro.istft(x.stft(5, 2, window=v, return_complex=True), 5, 2, window=v, return_complex=True, length=30)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_istft_and_its_first_and_second_gradients_equal_those_of_torch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    for bins, wide, options in (
        (4, 4, {}),
        (4, 4, {"length": 9, "normalized": True}),
        (6, 6, {"onesided": False, "center": False}),
        (6, 4, {"return_complex": True, "onesided": False}),
    ):
        a, b = numbers(rng, (2, bins, 5), True), rng.uniform(0.5, 1, wide)
        v, u = rng.standard_normal((2, 14)), numbers(rng, a.shape, True)
        found = []
        for library in (torch, ferro):
            z = library.from_numpy(a.copy()).requires_grad_()
            w = library.from_numpy(b.copy()).requires_grad_()
            y = library.istft(z, 6, 2, wide, w, **options)
            squares = library.view_as_real(y).pow(2).sum(-1) if y.is_complex() else y**2
            weights = library.from_numpy(v[:, : y.shape[1]].copy())
            first = library.autograd.grad((weights * squares).sum(), [z, w], create_graph=True)
            product = (library.view_as_real(first[0]) * library.view_as_real(library.from_numpy(u.copy()))).sum()
            second = library.autograd.grad(product + first[1].sum(), [z, w])
            found.append([t.detach().resolve_conj().numpy() for t in (y, *first, *second)])
        for got, want in zip(found[1], found[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_istft_is_right_by_finite_differences(rng: np.random.Generator) -> None:
    z, w = leaf(numbers(rng, (3, 5), True)), leaf(rng.uniform(0.5, 1, 4))
    for f in (lambda z, w: ferro.istft(z, 4, 1, 4, w), lambda z, w: ferro.istft(z, 4, 2, 4, w, center=False)):
        assert ferro.autograd.gradcheck(f, (z, w), check_forward_ad=True)
        assert ferro.autograd.gradgradcheck(f, (z, w))


def test_aligned_windows_begin_with_the_signal() -> None:
    x = ferro.arange(10.0)
    w = ferro.tensor([1.0, 2.0, 3.0])
    for n in (3, 5, 6):  # the difference to the window's length may be odd
        z = ferro.stft(x, n, 2, 3, w, center=False, align_to_window=True, return_complex=True)
        assert z[0].real.tolist() == [sum((j + 1) * (2 * t + j) for j in range(3)) for t in range(4)]


def test_frames_that_do_not_fit_are_refused() -> None:
    x: Any = ferro.ones(10)
    z: Any = ferro.ones(3, 4, dtype=ferro.complex64)
    w = ferro.hann_window(4)
    for call, error, text in (
        (lambda: x.stft(4), RuntimeError, "return_complex parameter"),
        (lambda: x.stft(20, return_complex=True), RuntimeError, "too short"),
        (lambda: x.stft(20, center=False, return_complex=True), RuntimeError, "n_fft"),
        (lambda: x.stft(4, 0, return_complex=True), RuntimeError, "hop_length > 0"),
        (lambda: x.stft(3, return_complex=True), RuntimeError, "hop_length > 0"),
        (lambda: x.stft(4, 1, 5, return_complex=True), RuntimeError, "win_length"),
        (lambda: x.stft(4, 1, 3, w, return_complex=True), RuntimeError, "1D window"),
        (lambda: x.long().stft(4, return_complex=True), RuntimeError, "floating point or complex"),
        (lambda: x.half().stft(4, return_complex=True), RuntimeError, "Unsupported dtype"),
        (lambda: x.reshape(1, 1, 10).stft(4, return_complex=True), RuntimeError, "1D or 2D"),
        (lambda: x.stft(4, onesided=True, window=w + 0j), RuntimeError, "onesided"),
        (lambda: x.stft(4, align_to_window=True, return_complex=True), RuntimeError, "center"),
        (lambda: x.stft(4.0, return_complex=True), TypeError, "n_fft"),
        (lambda: x.istft(4), RuntimeError, "complex-valued"),
        (lambda: z.istft(6), RuntimeError, "frequency dimension"),
        (lambda: z.istft(4, 5), RuntimeError, "hop_length <= win_length"),
        (lambda: z.istft(4, 1, window=w[:3]), RuntimeError, "1D window"),
        (lambda: z.istft(4, 4, window=w), RuntimeError, "overlap add"),
        (lambda: z.istft(4, 1, window=w, center=False), RuntimeError, "overlap add"),
        (lambda: z.istft(4, return_complex=True), RuntimeError, "onesided"),
        (lambda: z.istft(4, window=w + 0j), RuntimeError, "Complex windows"),
        (lambda: z[:, :0].istft(4), RuntimeError, "empty"),
        (lambda: z[:, :1].istft(4), RuntimeError, "nothing is left"),
        (lambda: z.istft(4, length=-1), RuntimeError, "negative"),
        (lambda: z[0].istft(4), RuntimeError, "dimensions"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_a_length_beyond_the_frames_warns_and_gives_zeros() -> None:
    z = ferro.ones(6).stft(4, return_complex=True)
    with pytest.warns(UserWarning, match="padded with zeros"):
        y = z.istft(4, length=12)
    assert y.tolist() == pytest.approx([1.0] * 6 + [1, 1] + [0] * 4, abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "size", "step"), [((2, 70), 16, 8), ((2, 70), 20, 11), ((1, 60, 3), 17, 9), ((2, 100), 16, 50)]
)
def test_long_frames_add_up_where_they_overlap(shape: tuple, size: int, step: int, rng: np.random.Generator) -> None:
    x = leaf(np.zeros(shape))
    frames = x.unfold(1, size, step)
    v = rng.standard_normal(tuple(frames.shape))
    (g,) = ferro.autograd.grad(frames, x, ferro.from_numpy(v.copy()))
    want = np.zeros(shape)
    for t in range(v.shape[1]):
        want[:, t * step : t * step + size] += np.moveaxis(v[:, t], -1, 1)
    np.testing.assert_allclose(g.numpy(), want, atol=1e-14)


# -- windows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 12.0, 800.0, 1e5])
def test_kaiser_windows_against_mpmath(beta: float) -> None:
    w = ferro.signal.windows.kaiser(9, beta=beta, dtype=ferro.float64).tolist()
    periodic = ferro.kaiser_window(8, beta=beta, dtype=ferro.float64).tolist()
    with mpmath.workdps(30):
        for k, value in enumerate(w):
            z = mpmath.mpf(beta) * mpmath.sqrt(1 - (mpmath.mpf(2 * k) / 8 - 1) ** 2)
            exact = mpmath.besseli(0, z) / mpmath.besseli(0, beta)
            # exp(z - beta) is as sensitive as beta is large
            assert value == pytest.approx(float(exact), rel=1e-14 * (1 + beta))
            assert k == 8 or periodic[k] == pytest.approx(value, rel=1e-14 * (1 + beta))


def test_windows_of_signals_refuse_what_torch_refuses() -> None:
    windows: Any = ferro.signal.windows
    for call, error in (
        (lambda: windows.hann(-1), ValueError),
        (lambda: windows.hann(2.5), TypeError),
        (lambda: windows.hann(3, dtype=ferro.float16), ValueError),
        (lambda: windows.hann(3, layout="sparse"), ValueError),
        (lambda: windows.exponential(3, tau=0), ValueError),
        (lambda: windows.exponential(3, center=1), ValueError),
        (lambda: windows.gaussian(3, std=-1), ValueError),
        (lambda: windows.kaiser(3, beta=-1), ValueError),
        (lambda: windows.general_cosine(3, a=[]), ValueError),
        (lambda: windows.general_cosine(3, a=None), TypeError),
        (lambda: ferro.hann_window(-1), RuntimeError),
        (lambda: ferro.hann_window(3, dtype=ferro.int64), RuntimeError),
    ):
        with pytest.raises(error):
            call()


def test_windows_have_the_dtype_asked_for_and_may_require_gradients() -> None:
    assert ferro.signal.windows.hann(3).dtype is ferro.float32
    assert ferro.hamming_window(3, dtype=ferro.bfloat16).dtype is ferro.bfloat16
    assert ferro.blackman_window(3, requires_grad=True).is_leaf
    assert ferro.signal.windows.nuttall(3, requires_grad=True).requires_grad
