"""What the distributions share: broadcasting of parameters, probabilities and logits, lazily computed attributes, triangles."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

from ferro._public import ferro
from ferro.nn.functional import softmax
from ferro.tensor import Tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]  # fmt: skip

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """The values (tensors and Python numbers) as tensors of one shape.

    Numbers take the dtype of the first tensor, or the default dtype where there is none.  ValueError for anything else.

    Example::

        >>> from ferro.distributions.utils import broadcast_all
        >>> [list(t.shape) for t in broadcast_all(0.0, ferro.ones(3))]
        [[3], [3]]
    """
    for v in values:
        if not isinstance(v, (Tensor, Number)):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                f"__torch_function__. One is of type {type(v).__name__}."
            )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype, device = (ferro.get_default_dtype(), None) if like is None else (like.dtype, like.device)
    tensors = [v if isinstance(v, Tensor) else ferro.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(ferro.broadcast_tensors(*tensors))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers."""
    return ferro.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last `dims` dimensions."""
    return value if dims == 0 else value.reshape((*value.shape[:-dims], -1)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds (is_binary), or of unnormalised log probabilities along the last dimension."""
    return ferro.sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities within [eps, 1 - eps], where eps is the dtype's."""
    eps = ferro.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds of probabilities (is_binary), or log probabilities; clamped, so that all are finite."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property(property):
    """A method as an attribute that is computed at the first access and kept in the object; it can be assigned before.

    It is computed with gradients on, whatever the mode of the first access: the value stays for later ones.
    """

    def __init__(self, wrapped: Callable) -> None:
        super().__init__(wrapped)
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        kept = instance.__dict__
        name = self.wrapped.__name__
        if name not in kept:
            with ferro.enable_grad():
                kept[name] = self.wrapped(instance)
        return kept[name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.wrapped.__name__] = value


class Missing:
    """An attribute that subclasses give, as a value or a property."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        raise NotImplementedError(f"{type(instance)} does not implement {self.name}")


def _below(n: int, diag: int, device: Any) -> Tensor:
    """Where a square matrix of size n has its elements on and below a diagonal."""
    return ferro.ones(n, n, dtype=ferro.bool, device=device).tril(diag)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below diagonal `diag` of (..., D, D) matrices, row by row, as vectors.

    ValueError where there is no such diagonal.
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _below(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular (..., D, D) matrices from vectors of their elements on and below diagonal `diag`, row by row.

    ValueError where the last dimension counts no such triangle.
    """
    count = vec.shape[-1]
    # n (n + 1) / 2 + n diag elements, less those that a diagonal above the main one has outside
    n = max(-diag, 0)
    while (held := sum(min(max(row + 1 + diag, 0), n) for row in range(n))) < count:
        n += 1
    if held != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    rows, columns = ferro.tril_indices(n, n, offset=diag, device=vec.device)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., rows, columns] = vec
    return mat
