"""Ready parametrizations of a weight: orthogonal, direction times length, and of spectral norm one."""

from __future__ import annotations

from typing import Any, TypeVar

from ferro.autograd.grad_mode import no_grad
from ferro.core.dtypes import finfo
from ferro.core.layout import contiguous_format
from ferro.ops.comparison import allclose
from ferro.ops.creation import eye
from ferro.ops.joining import cat
from ferro.ops.likes import zeros_like
from ferro.ops.matrix_functions import matrix_exp
from ferro.ops.norms import norm_except_dim
from ferro.ops.orthogonal import geqrf, householder_product
from ferro.ops.products import mv, vdot
from ferro.ops.random import randn
from ferro.ops.solving import solve
from ferro.tensor import Tensor

from .. import functional as F
from ..modules.module import Module
from . import parametrize
from .spectral_norm import output_dim, positive_iterations
from .weight_norm import scaled

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

# -------------------------------------------------------------------- orthogonal

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    return bool(allclose(q.mH @ q, eye(k, dtype=q.dtype, device=q.device), atol=10.0 * n * finfo(q.dtype).eps))


def _make_orthogonal(a: Tensor) -> Tensor:
    """The Q of a QR decomposition, unique because the diagonal of R is positive."""
    x, tau = geqrf(a)
    return householder_product(x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows, if it is wide) from the lower triangle of any matrix.

    With a `base`, the trivialization, the map is multiplied onto it: it begins at the identity.
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        q = self._householder(x) if self.orthogonal_map == "householder" else self._exponential(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _householder(self, x: Tensor) -> Tensor:
        """The product of reflections by the columns below the diagonal; the signs on the diagonal are kept."""
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        return householder_product(a, tau) * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _exponential(self, x: Tensor) -> Tensor:
        """exp(A) of the skew matrix with this lower triangle, or its Cayley transform (1 - A/2)⁻¹ (1 + A/2)."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = matrix_exp(a)
        else:
            one = eye(n, dtype=a.dtype, device=a.device)
            q = solve(one - 0.5 * a, one + 0.5 * a)
        return q[..., :k] if n != k else q

    @no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        """What gives `q`; with a base, `q` (made orthogonal if it is not) becomes the base."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        given, wide = q, q.shape[-2] < q.shape[-1]
        q = q.mT if wide else q
        n, k = q.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            a, tau = geqrf(q)
            a.diagonal(dim1=-2, dim2=-1).sign_()
            a.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1  # LAPACK made no reflection of this column
            return a.mT if wide else a
        if n == k:
            self.base = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            rest = randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            self.base = _make_orthogonal(cat([q, rest], dim=-1))
        start = zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(
            -1.0
        )  # where Householder's map is the identity; the others do not see it
        return start


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """Keeps a weight, or each matrix of a batch, orthogonal (complex: unitary); a rectangular one has orthonormal rows
    or columns.

    - `module` (Module): changed in place, and returned
    - `name` (str, default 'weight'): the weight's name; ValueError if there is none
    - `orthogonal_map` (str, default None): "matrix_exp" (of a skew-symmetric matrix), "cayley" or "householder"; None
      takes the first for square and complex ones, else the last
    - `use_trivialization` (bool, default True): turns a fixed orthogonal matrix instead of the identity, so that the
      weight can be assigned; not for "householder"

    Source: Lezcano-Casado, Trivializations for Gradient-Based Optimization on Manifolds, 2019.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.parametrizations import orthogonal
        >>> layer = orthogonal(ferro.nn.Linear(3, 2))
        >>> ferro.allclose(layer.weight @ layer.weight.T, ferro.eye(2), atol=1e-5)
        True
    """
    weight = _weight_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


def _weight_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -------------------------------------------------------------------- weight_norm


class _WeightNorm(Module):
    """v g / |v|, from a length and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The length and the direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Learn the length (original0) and the direction (original1) of a weight, each slice along `dim` for itself.

    States of the older `nn.utils.weight_norm` can be loaded.

    >>> import ferro
    >>> list(weight_norm(ferro.nn.Linear(2, 3)).state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_older(state_dict: dict[str, Any], prefix: str, *report: Any) -> None:
        keys = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in keys):
            for i, key in enumerate(keys):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_older)
    return module


# -------------------------------------------------------------------- spectral_norm


class _SpectralNorm(Module):
    """A weight divided by its largest singular value; vectors by their length."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        positive_iterations(n_power_iterations)
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            u, v = (matrix.new_empty(size).normal_(0, 1) for size in matrix.shape)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)  # the first steps matter most

    def _as_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        """In place: copies of a model, one for each process say, then keep sharing the vectors."""
        for _ in range(n_power_iterations):
            self._u = F.normalize(mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
            self._v = F.normalize(mv(matrix.mH, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies, because the next step writes to the buffers before this one's backward
        u = self._u.clone(memory_format=contiguous_format)
        v = self._v.clone(memory_format=contiguous_format)
        return weight / vdot(u, mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: it may have any norm."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divides a weight by its largest singular value, which a power iteration follows while training.

    - `module` (Module): changed in place, and returned
    - `name` (str, default 'weight'): the weight's name; ValueError if there is none
    - `n_power_iterations` (int, default 1): steps at each use in training; ValueError below 1
    - `eps` (float, default 1e-12): the least norm that is divided by
    - `dim` (int, default None): the dimension of outputs; None is 1 for transposed convolutions, else 0

    Source: Miyato, Kataoka, Koyama and Yoshida, Spectral Normalization for Generative Adversarial Networks, 2018.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.parametrizations import spectral_norm
        >>> layer = spectral_norm(ferro.nn.Linear(4, 3), n_power_iterations=20)
        >>> abs(ferro.linalg.matrix_norm(layer.weight, 2).item() - 1) < 1e-2
        True
    """
    weight = _weight_of(module, name)
    parametrization = _SpectralNorm(weight, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, parametrization)
