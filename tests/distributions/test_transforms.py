"""Transforms, constraints and the registries between them, against PyTorch and Jacobians."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributions as D
from ferro.distributions import utils
from tests.distributions.table import like_ferro


def number(lib: Any, value: Any) -> Any:
    return lib.tensor(value, dtype=lib.float64)


# A transform of a library, and the shape of what it takes.
TRANSFORMS: dict[str, tuple[Callable, tuple]] = {
    "Abs": (lambda T, n: T.AbsTransform(), (3,)),
    "Affine": (lambda T, n: T.AffineTransform(n([1.0, -2.0, 0.5]), n([2.0, -0.5, 1.0])), (2, 3)),
    "Affine-numbers": (lambda T, n: T.AffineTransform(1.0, -3.0), (3,)),
    "Affine-event": (lambda T, n: T.AffineTransform(0.5, n([1.0, 2.0, 3.0]), event_dim=1), (2, 3)),
    "Cat": (
        lambda T, n: T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2]),
        (2, 3),
    ),
    "Compose": (
        lambda T, n: T.ComposeTransform([T.ExpTransform(), T.AffineTransform(0.1, 0.2), T.TanhTransform()]),
        (3,),
    ),
    "Compose-event": (
        lambda T, n: T.ComposeTransform([T.AffineTransform(0.0, 2.0), T.StickBreakingTransform()]),
        (2, 3),
    ),
    "Compose-none": (lambda T, n: T.identity_transform, (2,)),
    "CorrCholesky": (lambda T, n: T.CorrCholeskyTransform(), (2, 6)),
    "Cdf": (
        lambda T, n: T.CumulativeDistributionTransform(
            (D if T is D.transforms else __import__("torch").distributions).Normal(n(0.5), n(2.0))
        ),
        (3,),
    ),
    "Exp": (lambda T, n: T.ExpTransform(), (2, 3)),
    "Independent": (lambda T, n: T.IndependentTransform(T.ExpTransform(), 1), (2, 3)),
    "Inverse": (lambda T, n: T.SigmoidTransform().inv.inv, (3,)),
    "LowerCholesky": (lambda T, n: T.LowerCholeskyTransform(), (2, 3, 3)),
    "PositiveDefinite": (lambda T, n: T.PositiveDefiniteTransform(), (3, 3)),
    "Power": (lambda T, n: T.ComposeTransform([T.ExpTransform(), T.PowerTransform(n([2.0, -0.5, 1.0]))]), (2, 3)),
    "Reshape": (lambda T, n: T.ReshapeTransform((2, 3), (6,)), (4, 2, 3)),
    "Sigmoid": (lambda T, n: T.SigmoidTransform(), (2, 3)),
    "Softmax": (lambda T, n: T.SoftmaxTransform(), (2, 3)),
    "Softplus": (lambda T, n: T.SoftplusTransform(), (3,)),
    "Stack": (lambda T, n: T.StackTransform([T.ExpTransform(), T.TanhTransform()], dim=0), (2, 3)),
    "StickBreaking": (lambda T, n: T.StickBreakingTransform(), (2, 3)),
    "Tanh": (lambda T, n: T.TanhTransform(), (3,)),
}
ALL = pytest.mark.parametrize("name", TRANSFORMS)
MANY_TO_ONE = ("Abs", "Softmax", "LowerCholesky", "PositiveDefinite")


def both(name: str, torch: Any, rng: np.random.Generator) -> tuple:
    """The transform of ferro, that of PyTorch, and an array to transform."""
    make, shape = TRANSFORMS[name]
    x = rng.normal(size=shape)
    return (
        make(D.transforms, lambda v: number(ferro, v)),
        make(torch.distributions.transforms, lambda v: number(torch, v)),
        x,
    )


@ALL
def test_values_are_those_of_torch(name: str, torch: Any, rng: np.random.Generator) -> None:
    ours, theirs, x = both(name, torch, rng)
    a, b = ferro.from_numpy(x.copy()), torch.from_numpy(x.copy())
    y, z = ours(a), theirs(b)
    np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.inv(y).numpy(), theirs.inv(z).numpy(), rtol=1e-7, atol=1e-9)
    if name not in MANY_TO_ONE:
        np.testing.assert_allclose(ours.inv(y).numpy(), x, rtol=1e-7, atol=1e-9)
        got = ours.log_abs_det_jacobian(a, y)
        np.testing.assert_allclose(got.numpy(), theirs.log_abs_det_jacobian(b, z).numpy(), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(ours.inv.log_abs_det_jacobian(y, a).numpy(), -got.numpy())
    assert tuple(ours.forward_shape(a.shape)) == tuple(theirs.forward_shape(b.shape)) == tuple(y.shape)
    assert tuple(ours.inverse_shape(y.shape)) == tuple(theirs.inverse_shape(z.shape))
    assert ours.bijective == theirs.bijective
    for end in ("domain", "codomain"):
        assert repr(getattr(ours, end)) == like_ferro(repr(getattr(theirs, end)))
    assert repr(ours) == repr(theirs)
    assert repr(ours.inv) == repr(theirs.inv)


def as_vectors(name: str, x: Any) -> Any:
    """What the Jacobian is taken of: the free elements of a result."""
    if name == "CorrCholesky":
        return utils.tril_matrix_to_vec(x, -1)
    return x[..., :-1] if "StickBreaking" in name or name == "Compose-event" else x


@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n not in (*MANY_TO_ONE, "Compose-none")])
def test_the_jacobian_is_that_of_autograd(name: str, torch: Any, rng: np.random.Generator) -> None:
    ours, _, x = both(name, torch, rng)
    a = ferro.from_numpy(x)
    jacobian = ferro.autograd.functional.jacobian(lambda v: as_vectors(name, ours(v)), a)
    n = a.numel()
    want = ferro.linalg.slogdet(jacobian.reshape(n, n)).logabsdet
    np.testing.assert_allclose(ours.log_abs_det_jacobian(a, ours(a)).sum().numpy(), want.numpy(), rtol=1e-7)


@ALL
def test_equal_cached_and_pickled(name: str, torch: Any, rng: np.random.Generator) -> None:
    ours, theirs, x = both(name, torch, rng)
    again = TRANSFORMS[name][0](D.transforms, lambda v: number(ferro, v))
    other = TRANSFORMS[name][0](torch.distributions.transforms, lambda v: number(torch, v))
    assert (ours == again) == (theirs == other)
    assert ours == ours  # noqa: PLR0124
    a = ferro.from_numpy(x)
    copy = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(copy(a).numpy(), ours(a).numpy())
    cached = ours.with_cache()
    assert cached.with_cache() is cached
    y = cached(a)
    if name != "Compose-none":
        assert cached(a) is y or "Compose" in name or name == "Power"
        assert cached.inv(y) is a


def test_wrong_transforms_are_refused() -> None:
    T = D.transforms
    for make, error, words in (
        (lambda: T.ExpTransform(cache_size=2), ValueError, "cache_size must be 0 or 1"),
        (lambda: T.ReshapeTransform((2,), (3,)), ValueError, "in_shape, out_shape have different numbers of elements"),
        (lambda: T.ReshapeTransform((2,), (2, 1)).forward_shape((3,)), ValueError, "Shape mismatch: expected"),
        (
            lambda: T.CorrCholeskyTransform().forward_shape((4,)),
            ValueError,
            "Input is not a flattened lower-diagonal number",
        ),
        (lambda: T.CorrCholeskyTransform().inverse_shape((3, 4)), ValueError, "Input is not square"),
        (lambda: T.SoftmaxTransform().forward_shape(()), ValueError, "Too few dimensions on input"),
        (lambda: T.IndependentTransform(T.ExpTransform(), 2)(ferro.ones(3)), ValueError, "Too few dimensions on input"),
        (
            lambda: T.StickBreakingTransform().event_dim and T.ReshapeTransform((2, 1), (2,)).event_dim,
            ValueError,
            "Please use either .domain.event_dim or .codomain.event_dim",
        ),
        (
            lambda: T.CatTransform([T.ExpTransform()], lengths=[1, 2]),
            AssertionError,
            "lengths (2) must match transforms (1)",
        ),
        (lambda: T.StackTransform([T.ExpTransform()])(ferro.ones(2)), AssertionError, "must equal length 1"),
        (lambda: T.SoftmaxTransform().sign, NotImplementedError, "sign"),
        (
            lambda: utils.vec_to_tril_matrix(ferro.ones(4)),
            ValueError,
            "The size of last dimension is 4 which cannot be expressed as",
        ),
        (lambda: utils.tril_matrix_to_vec(ferro.ones(2, 2), 2), ValueError, "diag (2) provided is outside [-2, 1]."),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), "exp"),
            ValueError,
            "transforms must be a Transform or list, but was exp",
        ),
    ):
        with pytest.raises(error) as caught:
            make()
        assert words in str(caught.value)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_and_vectors_are_inverse(diag: int, torch: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 4, 4))
    ours, theirs = (lib.distributions.utils.tril_matrix_to_vec(lib.from_numpy(x), diag) for lib in (ferro, torch))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    back = utils.vec_to_tril_matrix(ours, diag)
    np.testing.assert_array_equal(back.numpy(), np.tril(x, diag)[:, : back.shape[-2], : back.shape[-1]])


# -- constraints -------------------------------------------------------------------------------------------------------

NUMBERS = [-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, float("nan"), float("inf")]
MATRICES = [
    [[1.0, 0.0], [0.3, 2.0]],
    [[1.0, 0.5], [0.5, 2.0]],
    [[1.0, 2.0], [2.0, 1.0]],
    [[1.0, 0.0], [0.6, 0.8]],
    [[-1.0, 0.0], [0.0, 1.0]],
    [[1.0, 0.2], [0.0, 1.0]],
]
VECTORS = [[0.2, 0.8], [1.0, 0.0], [0.5, 0.6], [-1.0, 2.0], [0.0, 1.0], [2.0, 1.0]]
CONSTRAINTS: dict[str, tuple[Callable, Any]] = {
    **{
        name: (lambda c, name=name: getattr(c, name), NUMBERS)
        for name in (
            "boolean",
            "nonnegative",
            "nonnegative_integer",
            "positive",
            "positive_integer",
            "real",
            "unit_interval",
        )
    },
    "greater_than": (lambda c: c.greater_than(0.5), NUMBERS),
    "greater_than_eq": (lambda c: c.greater_than_eq(0.5), NUMBERS),
    "less_than": (lambda c: c.less_than(0.5), NUMBERS),
    "interval": (lambda c: c.interval(-1.0, 1.0), NUMBERS),
    "half_open_interval": (lambda c: c.half_open_interval(-1.0, 1.0), NUMBERS),
    "integer_interval": (lambda c: c.integer_interval(-1, 1), NUMBERS),
    **{name: (lambda c, name=name: getattr(c, name), VECTORS) for name in ("simplex", "one_hot", "real_vector")},
    "multinomial": (lambda c: c.multinomial(1), VECTORS),
    "independent": (lambda c: c.independent(c.positive, 1), VECTORS),
    "cat": (lambda c: c.cat([c.positive, c.real], -1, [1, 1]), VECTORS),
    "stack": (lambda c: c.stack([c.positive, c.unit_interval], -1), VECTORS),
    "mixture": (lambda c: c.MixtureSameFamilyConstraint(c.simplex), VECTORS),
    **{
        name: (lambda c, name=name: getattr(c, name), MATRICES)
        for name in (
            "corr_cholesky",
            "lower_cholesky",
            "lower_triangular",
            "positive_definite",
            "positive_semidefinite",
            "square",
            "symmetric",
        )
    },
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_check_as_in_torch(name: str, torch: Any) -> None:
    make, values = CONSTRAINTS[name]
    ours, theirs = make(D.constraints), make(torch.distributions.constraints)
    got, want = ours.check(number(ferro, values)), theirs.check(number(torch, values))
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert (ours.event_dim, ours.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    assert repr(ours) == like_ferro(repr(theirs))
    for one, value in ((v.numpy(), x) for v, x in zip(got, number(ferro, values), strict=True)):
        if name in ("symmetric", "positive_definite", "positive_semidefinite"):
            break  # (a batch with one that is not symmetric is checked no further, as in PyTorch)
        if name not in ("cat", "stack"):
            np.testing.assert_array_equal(ours.check(value).numpy(), one)


@pytest.mark.parametrize(
    "name",
    [
        "real",
        "positive",
        "greater_than",
        "greater_than_eq",
        "less_than",
        "interval",
        "unit_interval",
        "half_open_interval",
        "simplex",
        "real_vector",
        "independent",
        "cat",
        "stack",
        "corr_cholesky",
        "lower_cholesky",
        "positive_definite",
        "positive_semidefinite",
    ],
)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries_make_the_transforms_of_torch(
    registry: str, name: str, torch: Any, rng: np.random.Generator
) -> None:
    found = []
    x = rng.normal(
        size={"corr_cholesky": (2, 3), "lower_cholesky": (2, 3, 3)}.get(name, (3, 3) if "definite" in name else (3, 2))
    )
    for lib in (ferro, torch):
        constraint = CONSTRAINTS[name][0](lib.distributions.constraints)
        try:
            transform = getattr(lib.distributions, registry)(constraint)
        except NotImplementedError as e:
            found.append(str(e)[:40])
            continue
        y = transform(lib.from_numpy(x))
        assert constraint.check(y).all()
        found.append((type(transform).__name__, transform.bijective, y.numpy()))
    if isinstance(found[1], str):
        assert found[0] == found[1]
        return
    assert found[0][:2] == found[1][:2]
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-10, atol=1e-12)


def test_a_registry_of_ones_own() -> None:
    class Even(D.constraints.Constraint):
        pass

    registry = D.constraint_registry.ConstraintRegistry()
    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        registry(Even())
    registry.register(Even(), lambda c: D.transforms.ExpTransform())
    assert isinstance(registry(Even()), D.transforms.ExpTransform)
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        registry.register(int, lambda c: c)
    assert D.constraints.is_dependent(D.Uniform.support)
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        D.constraints.dependent.check(1)
    with pytest.raises(NotImplementedError, match=r"\.event_dim cannot be determined statically"):
        _ = D.constraints.dependent.event_dim
    assert D.constraints.dependent(is_discrete=True, event_dim=1).event_dim == 1
    with pytest.raises(AssertionError, match="base_constraint must be a Constraint"):
        D.constraints.independent(1, 1)  # type: ignore[arg-type]
