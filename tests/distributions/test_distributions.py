"""Every distribution of the table against PyTorch and SciPy: values, gradients, samples, shapes, words."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributions
from tests.distributions.table import CASES, IDS, IMPLICIT, Case, build, like_ferro, parameters

ALL = pytest.mark.parametrize("case", CASES, ids=IDS)


def array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def drawn(case: Case, torch: Any, shape: tuple = (4,)) -> np.ndarray:
    """Values in the support, from PyTorch."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's Wishart takes regular samples for singular ones
        return build(case, torch).sample(shape).numpy()


def question(d: Any, name: str, value: Any) -> Any:
    """The answer of a distribution, or NotImplementedError."""
    try:
        found = getattr(d, name)
        if name in ("log_prob", "cdf"):
            found = found(value)
        elif name == "icdf":
            found = found(d.cdf(value))
        elif callable(found):
            found = found()
    except NotImplementedError:
        return NotImplementedError
    except RuntimeError as e:
        if "Double did not match Float" in str(e):  # PyTorch's GeneralizedPareto takes float32 only
            return None
        raise
    return found


QUESTIONS = (
    "log_prob",
    "cdf",
    "icdf",
    "entropy",
    "perplexity",
    "mean",
    "mode",
    "variance",
    "stddev",
    "enumerate_support",
)


def close(got: Any, want: Any, name: str, case: Case, rtol: float = 1e-9) -> None:
    if case.name in ("VonMises", "Multinomial"):
        rtol = 2e-7  # (PyTorch's Bessel functions are polynomials of that accuracy, and ln n! is computed in float32)
    np.testing.assert_allclose(array(got), array(want), rtol=rtol, atol=1e-10, err_msg=f"{case.name}.{name}")


@ALL
def test_answers_are_those_of_torch(case: Case, torch: Any) -> None:
    value = drawn(case, torch)
    ours, theirs = build(case, ferro), build(case, torch)
    for name in QUESTIONS:
        got, want = (question(d, name, lib.from_numpy(value.copy())) for d, lib in ((ours, ferro), (theirs, torch)))
        if want is None:
            continue
        if want is NotImplementedError:
            assert got is NotImplementedError, f"{case.name}.{name} is not implemented in PyTorch"
            continue
        assert tuple(got.shape) == tuple(want.shape), name
        assert str(got.dtype) == like_ferro(str(want.dtype)), name
        close(got, want, name, case)
    for name in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert repr(ours) == like_ferro(repr(theirs))
    assert type(ours.support).__name__ == type(theirs.support).__name__
    assert set(ours.arg_constraints) == set(theirs.arg_constraints)


# PyTorch's Wishart takes regular samples for singular ones and draws again; its LKJCholesky draws from another
# distribution than its log_prob's (see docs/differences.md, and the moments below)
OTHER_SAMPLES = ("LKJCholesky", "Wishart")
SAMPLED = [(c, i) for c, i in zip(CASES, IDS, strict=True) if c.name not in OTHER_SAMPLES]


@pytest.mark.parametrize("case", [c for c, _ in SAMPLED], ids=[i for _, i in SAMPLED])
def test_seeded_samples_are_those_of_torch(case: Case, torch: Any) -> None:
    for dtype, rtol in (("float32", 2e-5), ("float64", 1e-9)):
        found = []
        for lib in (ferro, torch):
            lib.manual_seed(7)
            d = build(case, lib, dtype=dtype)
            found.append([d.sample(), d.sample((3,)), d.sample((2, 1))])
        for got, want in zip(*found, strict=True):
            assert str(got.dtype) == like_ferro(str(want.dtype)), dtype
            np.testing.assert_allclose(array(got), array(want), rtol=rtol, atol=rtol, err_msg=dtype)


def gradients(lib: Any, case: Case, answer: Any) -> list:
    """Gradients of a sum, weighted by cosines, by the parameters of a distribution."""
    given = parameters(case, lib, requires_grad=True)
    result = answer(getattr(lib.distributions, case.name)(**given))
    weights = lib.cos(lib.arange(result.numel(), dtype=lib.float64)).reshape(result.shape)
    leaves = [t for t in given.values() if getattr(t, "requires_grad", False)]
    if not result.requires_grad:
        return []
    found = lib.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
    return [np.zeros(tuple(t.shape)) if g is None else array(g) for t, g in zip(leaves, found, strict=True)]


@ALL
def test_gradients_are_those_of_torch(case: Case, torch: Any) -> None:
    value = drawn(case, torch)
    for name in ("log_prob", "entropy", "mean", "variance"):

        def answer(d: Any, lib: Any, name: str = name) -> Any:
            found = question(d, name, lib.from_numpy(value.copy()))
            return lib.zeros(()) if found is None or found is NotImplementedError else found

        want = gradients(torch, case, lambda d: answer(d, torch))
        if case.name == "GeneralizedPareto" and not want:
            continue  # (see `question`)
        got = gradients(ferro, case, lambda d: answer(d, ferro))
        assert len(got) == len(want), name
        for g, w in zip(got, want, strict=True):
            if "scale_tril" in case.params and g.shape[-2:] == (2, 2):
                g, w = (
                    np.tril(g),
                    np.tril(w),
                )  # (of the zeros above the diagonal there is none, though PyTorch's solve has one)
            np.testing.assert_allclose(g, w, rtol=1e-6 if case.name == "VonMises" else 1e-8, atol=1e-9, err_msg=name)


REPARAMETRISED = [
    (c, i)
    for c, i in zip(CASES, IDS, strict=True)
    if getattr(ferro.distributions, c.name).has_rsample is not False and c.name not in OTHER_SAMPLES
]


@pytest.mark.parametrize("case", [c for c, _ in REPARAMETRISED], ids=[i for _, i in REPARAMETRISED])
def test_gradients_of_samples_are_those_of_torch(case: Case, torch: Any) -> None:
    found = []
    for lib in (ferro, torch):
        lib.manual_seed(3)
        found.append(gradients(lib, case, lambda d: d.rsample((3,))))
    for g, w in zip(*found, strict=True):
        if case.name in IMPLICIT:
            np.testing.assert_allclose(g, w, rtol=5e-3, atol=5e-3 * np.abs(w).max())
        else:
            np.testing.assert_allclose(g, w, rtol=1e-7, atol=1e-9)


@ALL
def test_expanded_pickled_and_copied(case: Case, torch: Any) -> None:
    value = ferro.from_numpy(drawn(case, torch))
    d = build(case, ferro)
    want = array(d.log_prob(value))
    for other in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d)):
        np.testing.assert_array_equal(array(other.log_prob(value)), want)
        assert repr(other) == repr(d)
    batch = (4, *d.batch_shape)
    wide = d.expand(batch)
    assert type(wide) is type(d)
    assert tuple(wide.batch_shape) == batch
    np.testing.assert_allclose(array(wide.log_prob(value)), want, rtol=1e-10)
    assert tuple(wide.sample((2,)).shape) == (2, *batch, *d.event_shape)
    for name in ("mean", "variance"):
        got, narrow = question(wide, name, None), question(d, name, None)
        if narrow is not NotImplementedError:
            np.testing.assert_allclose(array(got), array(narrow.expand(got.shape)), rtol=1e-10)
    assert wide.expand((2, *batch)).batch_shape == (2, *batch)


def test_moments_of_the_samples_that_torch_draws_otherwise() -> None:
    """E[r²] = 1 / (2 a + 1), a = η + (d - 2) / 2, of every correlation; E[W] = df V and its gradient by V, df."""
    ferro.manual_seed(0)
    for eta in (1.0, 3.0):
        factor = ferro.distributions.LKJCholesky(4, ferro.tensor(eta, dtype=ferro.float64)).sample((4000,))
        correlation = (factor @ factor.mT).numpy()
        off = correlation[:, *np.tril_indices(4, -1)]
        np.testing.assert_allclose((off**2).mean(0), 1 / (2 * (eta + 1) + 1), atol=0.015)
    covariance = ferro.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=ferro.float64, requires_grad=True)
    wishart = ferro.distributions.Wishart(ferro.tensor(5.0, dtype=ferro.float64), covariance)
    sample = wishart.rsample((4000,))
    np.testing.assert_allclose(array(sample.mean(0)), 5 * array(covariance), atol=0.25)
    np.testing.assert_allclose(array(sample.var(0)), array(wishart.variance), rtol=0.15)
    (g,) = ferro.autograd.grad(sample.mean(0)[0, 0], covariance)
    np.testing.assert_allclose(array(g), [[5.0, 0.0], [0.0, 0.0]], atol=0.2)


WITH_SCIPY = [(c, i) for c, i in zip(CASES, IDS, strict=True) if c.scipy is not None]


@pytest.mark.parametrize("case", [c for c, _ in WITH_SCIPY], ids=[i for _, i in WITH_SCIPY])
def test_answers_are_those_of_scipy(case: Case) -> None:
    stats = pytest.importorskip("scipy.stats")
    given = {name: np.asarray(value) for name, value in case.params.items()}
    assert case.scipy is not None
    frozen = case.scipy(stats, given)
    ferro.manual_seed(5)
    d = build(case, ferro)
    value = d.sample((6,))
    x = value.numpy()
    discrete = d.support.is_discrete
    log_prob = frozen.logpmf(x) if discrete else frozen.logpdf(x)
    np.testing.assert_allclose(array(d.log_prob(value)), log_prob, rtol=1e-6, atol=1e-7)
    for name, want in (
        ("cdf", lambda: frozen.cdf(x)),
        ("mean", frozen.mean),
        ("variance", frozen.var),
        ("entropy", frozen.entropy),
    ):
        got = question(d, name, value)
        if got is NotImplementedError or (case.name, name) in CONVENTIONS:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = np.broadcast_to(want(), got.shape)
        finite = np.isfinite(array(got))
        np.testing.assert_allclose(array(got)[finite], wanted[finite], rtol=1e-5, atol=1e-6, err_msg=name)


CONVENTIONS = {
    ("VonMises", "mean"),  # SciPy's mean of the line, PyTorch's of the circle
    ("VonMises", "variance"),
    ("FisherSnedecor", "variance"),  # nan and inf
}


def test_a_mixture_is_that_of_torch(torch: Any) -> None:
    found = []
    for lib in (ferro, torch):
        lib.manual_seed(2)
        D = lib.distributions
        weights = D.Categorical(lib.tensor(CHOICES, dtype=lib.float64))
        spread = lib.tensor([0.5, 1.0, 2.0], dtype=lib.float64).unsqueeze(-1)
        normal = D.Normal(lib.arange(12, dtype=lib.float64).reshape(2, 3, 2), spread)
        plain = D.MixtureSameFamily(weights, D.Normal(lib.arange(3, dtype=lib.float64).expand(2, 3), 1.0))
        vectors = D.MixtureSameFamily(weights, D.Independent(normal, 1))
        x = plain.sample((4,))
        y = vectors.sample((4,))
        found.append(
            [
                x,
                plain.log_prob(x),
                plain.cdf(x),
                plain.mean,
                plain.variance,
                y,
                vectors.log_prob(y),
                vectors.mean,
                vectors.variance,
                vectors.expand((3, 2)).log_prob(y[:3]),
            ]
        )
        text = repr(plain)
        found[-1].append(like_ferro(text))
    *ours, our_text = found[0]
    *theirs, their_text = found[1]
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array(got), array(want), rtol=1e-9)
    assert our_text == their_text


CHOICES = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]


@pytest.mark.parametrize(
    "package",
    [
        "",
        ".constraints",
        ".transforms",
        ".kl",
        ".utils",
        ".constraint_registry",
        ".relaxed_bernoulli",
        ".relaxed_categorical",
    ],
)
def test_names_are_those_of_torch(package: str, torch: Any) -> None:
    import importlib

    ours, theirs = (importlib.import_module(f"{lib}.distributions{package}") for lib in ("ferro", "torch"))
    assert set(ours.__all__) == set(theirs.__all__)
    for name in theirs.__all__:
        assert hasattr(ours, name)


def test_every_submodule_of_torch_is_there(torch: Any) -> None:
    import importlib
    import pkgutil

    for found in pkgutil.iter_modules(torch.distributions.__path__):
        assert importlib.import_module(f"ferro.distributions.{found.name}").__doc__


def test_the_default_of_validation() -> None:
    Normal = ferro.distributions.Normal
    try:
        ferro.distributions.Distribution.set_default_validate_args(False)
        assert Normal(0.0, -1.0).scale.item() == -1
    finally:
        ferro.distributions.Distribution.set_default_validate_args(__debug__)
    with pytest.raises(ValueError, match="True or False"):
        ferro.distributions.Distribution.set_default_validate_args("yes")  # type: ignore[arg-type]
    with pytest.warns(FutureWarning, match="sample_n"):
        assert Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_a_subclass_with_a_constructor_of_its_own_must_expand_itself() -> None:
    class Standard(ferro.distributions.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(
        NotImplementedError, match="Subclass Standard of Normal that defines a custom __init__ method must also"
    ):
        Standard().expand((2,))

    class Same(ferro.distributions.Normal):
        pass

    assert type(Same(0.0, 1.0).expand((2,))) is Same
