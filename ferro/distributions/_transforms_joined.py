"""CatTransform and StackTransform: a transform for each slice along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro._public import ferro

from . import constraints
from ._transform import Transform
from .utils import _sum_rightmost, lazy_property

__all__ = ["CatTransform", "StackTransform"]


class _Joined(Transform):
    """What both share: slices of x are transformed, and joined again."""

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _need(self, x: Any, size: int) -> None:
        """AssertionError unless `x` has the dimension, of the size."""
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.size(self.dim) != size:
            raise AssertionError(f"x.size({self.dim}) = {x.size(self.dim)} must equal length {size}")


class CatTransform(_Joined):
    """Slices along a dimension, each with its own transform, concatenated.

    - `tseq` (list of transforms): one for each slice
    - `dim` (int, default 0): the dimension
    - `lengths` (integers, default None): of the slices; None is 1 for each
    - `cache_size` (int, default 0): 1 keeps the last x and y

    Example::

        >>> import ferro
        >>> from ferro.distributions.transforms import CatTransform, ExpTransform, identity_transform
        >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(ferro.zeros(3)).tolist()
        [1.0, 0.0, 0.0]
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Any) -> Any:
        self._need(x, self.length)
        return ferro.split(x, self.lengths, dim=self.dim)

    def _call(self, x: Any) -> Any:
        return ferro.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        return ferro.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            terms.append(_sum_rightmost(t.log_abs_det_jacobian(before, after), self.event_dim - t.event_dim))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return ferro.cat(terms, dim=dim) if dim < 0 else sum(terms)  # (joined within the event: one Jacobian)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """The slices along `dim`, each with its transform, stacked."""

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Any) -> Any:
        self._need(x, len(self.transforms))
        return x.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        return ferro.stack([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], dim=self.dim)

    def _inverse(self, y: Any) -> Any:
        return ferro.stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return ferro.stack([t.log_abs_det_jacobian(before, after) for t, before, after in parts], dim=self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
