"""How a tensor lies on the ranks along one dimension of a mesh: in parts, whole, or as terms of a sum."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """What `Shard`, `Replicate` and `Partial` are."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part (along a dimension)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each rank has a term."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Rank i has part i along dimension `dim`: of n elements, ceil(n / ranks) each, and the last ones fewer or none.

    Example::

        >>> from ferro.distributed.tensor import Shard
        >>> Shard(0), str(Shard(1))
        (Shard(dim=0), 'S(1)')
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has all of the tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank has a term; the tensor is their sum (`reduce_op` "sum") or their mean ("avg")."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def share(length: int, count: int, index: int) -> tuple[int, int]:
    """Where part `index` of `count` of so many elements begins, and how many it has.

    >>> [share(5, 3, i) for i in range(3)], share(1, 3, 2)
    ([(0, 2), (2, 2), (4, 1)], (1, 0))
    """
    most = -(-length // count)
    start = min(index * most, length)
    return start, min(start + most, length) - start
