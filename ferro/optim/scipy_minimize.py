"""minimize: SciPy's optimisers of smooth functions, with exact gradients and Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.autograd.backward import grad
from ferro.autograd.grad_mode import enable_grad, no_grad
from ferro.ops.exchange import from_numpy
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

# What SciPy's methods ask for.
WITHOUT_GRADIENT = frozenset(("nelder-mead", "powell", "cobyla", "cobyqa"))
WITH_CURVATURE = frozenset(("newton-cg", "trust-ncg", "trust-krylov", "trust-constr"))  # products with the Hessian
WITH_HESSIAN = frozenset(("dogleg", "trust-exact"))  # the matrix itself
WITH_SLOPE = frozenset(("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp"))
METHODS = WITHOUT_GRADIENT | WITH_SLOPE | WITH_CURVATURE | WITH_HESSIAN


def minimize(
    fn: Callable[..., Tensor], params: Any, method: str = "BFGS", *, curvature: bool = True, **options: Any
) -> Any:
    """Finds a local minimum of fn(*params) with a method of scipy.optimize.minimize.

    - `fn` (function): takes as many tensors as `params` has and returns a tensor with one element
    - `params` (Tensor or several): where to begin, of any shapes, real and of floating dtype; they are not changed
    - `method` (str, default 'BFGS'): its name in SciPy
    - `curvature` (bool, default True): methods that know curvature get products with the Hessian, or the Hessian, by
      differentiating twice; False: not
    - `options`: more go to SciPy: tol, bounds (of all numbers, in order), constraints, callback, options

    The gradient is that of the tape. SciPy computes in double precision, on the CPU, wherever the parameters lie.

    Returns SciPy's OptimizeResult, whose ``x`` is a tensor or a tuple of tensors like `params`, and whose ``jac`` (if it is
    there) has the same form.

    Raises ValueError for a method that is not known, TypeError for what is no tensor, RuntimeError if `fn` does not return one
    number.

    >>> import ferro
    >>> from ferro.optim import minimize
    >>> found = minimize(lambda x, y: ((x - 3) ** 2).sum() + (x * y).sum() ** 2, [ferro.zeros(2), ferro.ones(2)])
    >>> found.success, [round(v, 3) for v in found.x[0].tolist()]
    (True, [3.0, 3.0])
    """
    name = str(method).lower()
    if name not in METHODS:
        raise ValueError(f"minimize: unknown method {method!r}; choose one of {', '.join(sorted(METHODS))}")
    problem = _Problem(fn, params)
    if name not in WITHOUT_GRADIENT:
        options["jac"] = True
    if name in WITH_HESSIAN:
        options["hess"] = problem.hessian
    elif name in WITH_CURVATURE and curvature:
        options["hessp"] = problem.curvature
    from scipy.optimize import minimize as scipy_minimize

    with np.errstate(all="ignore"):
        value = problem.value if name in WITHOUT_GRADIENT else problem.value_and_slope
        found = scipy_minimize(value, problem.start, method=method, **options)
    found.x = problem.given_back(found.x)
    if isinstance(found.get("jac"), np.ndarray):
        found.jac = problem.given_back(found.jac)
    return found


class _Problem:
    """A function of tensors as one of a vector of float64."""

    def __init__(self, fn: Callable[..., Tensor], params: Any) -> None:
        self.fn = fn
        self.single = isinstance(params, Tensor)
        self.like: Sequence[Tensor] = [params] if self.single else list(params)
        for i, p in enumerate(self.like):
            if not isinstance(p, Tensor):
                raise TypeError(f"minimize: params must be tensors, but number {i} is {type(p).__name__}")
            if not p.is_floating_point():
                raise TypeError(f"minimize: params must be real and of floating dtype, but number {i} is {p.dtype}")
        if not self.like:
            raise ValueError("minimize: params is empty")
        self.start = np.concatenate([p.detach().cpu().numpy().astype(np.float64).reshape(-1) for p in self.like])

    def tensors(self, x: Any) -> list[Tensor]:
        """The parts of a vector in the shapes and dtypes of the parameters."""
        parts, begin = [], 0
        for p in self.like:
            end = begin + p.numel()
            parts.append(from_numpy(x[begin:end].reshape(p.shape).copy()).to(p.device, p.dtype))
            begin = end
        return parts

    def given_back(self, x: Any) -> Any:
        """The parts in the form in which the parameters came."""
        parts = self.tensors(x)
        return parts[0] if self.single else tuple(parts)

    def at(self, x: Any) -> tuple[list[Tensor], Tensor]:
        """Leaves with the content of a vector, and the recorded value of the function there."""
        with enable_grad():
            leaves = [p.requires_grad_() for p in self.tensors(x)]
            value = self.fn(*leaves)
        if not isinstance(value, Tensor) or value.numel() != 1:
            got = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise RuntimeError(f"minimize: the function must return a tensor with one element, got {got}")
        return leaves, value

    def value(self, x: Any) -> float:
        """The value alone."""
        with no_grad():
            return float(self.at(x)[1].item())

    def value_and_slope(self, x: Any) -> tuple[float, Any]:
        """The value and the gradient."""
        leaves, value = self.at(x)
        return float(value.item()), self.flat(self.slopes(value, leaves))

    def curvature(self, x: Any, v: Any) -> Any:
        """The product of the Hessian with a vector."""
        leaves, value = self.at(x)
        with enable_grad():
            slopes = self.slopes(value, leaves, create_graph=True)
            along = sum((g * d).sum() for g, d in zip(slopes, self.tensors(np.asarray(v)), strict=True))
        return self.flat(self.slopes(along, leaves))

    def hessian(self, x: Any) -> Any:
        """The Hessian, column by column."""
        return np.stack([self.curvature(x, unit) for unit in np.eye(x.size)])

    def slopes(self, value: Any, leaves: list[Tensor], create_graph: bool = False) -> list[Tensor]:
        """The gradients, zero where the value does not depend on a parameter."""
        if not value.requires_grad:
            return [zeros_like(p) for p in leaves]
        found = grad(value, leaves, create_graph=create_graph, allow_unused=True)
        return [zeros_like(p) if g is None else g for g, p in zip(found, leaves, strict=True)]

    def flat(self, parts: list[Tensor]) -> Any:
        """Tensors as one vector of float64."""
        return np.concatenate([p.detach().cpu().numpy().astype(np.float64).reshape(-1) for p in parts])
