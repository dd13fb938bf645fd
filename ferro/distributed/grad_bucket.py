"""GradBucket: what a communication hook is given, gradients that lie one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class GradBucket:
    """A bucket of gradients, for the hook of `DistributedDataParallel.register_comm_hook`.

    - `index` (int): its number; those with smaller ones were handed over before it
    - `buffer` (Tensor): of one dimension: the gradients, one behind the other
    - `views` (sequence of Tensors): of it, one for each parameter
    - `parameters` (sequence of Tensors): whose gradients they are
    - `is_last` (bool): whether it is the last of this backward

    Example::

        >>> import ferro
        >>> weight = ferro.nn.Parameter(ferro.ones(2))
        >>> flat = ferro.tensor([3.0, 4.0])
        >>> bucket = ferro.distributed.GradBucket(0, flat, [flat.view(2)], [weight], True)
        >>> bucket.buffer(), bucket.is_last()
        (tensor([3., 4.]), True)
    """

    def __init__(self, index: int, buffer: Tensor, views: Sequence[Tensor], parameters: Sequence[Any], is_last: bool):
        self._index, self._buffer, self._views, self._parameters = index, buffer, list(views), list(parameters)
        self._is_last = is_last

    def index(self) -> int:
        """The number of the bucket."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients, one behind the other."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replaces what `buffer` gives. RuntimeError unless it has as many elements."""
        if buffer.numel() != self._buffer.numel():
            raise RuntimeError(
                f"GradBucket.set_buffer: a tensor of {self._buffer.numel()} elements is needed, got {buffer.numel()}"
            )
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter, as a view of the memory of the bucket."""
        return list(self._views)

    def parameters(self) -> list[Any]:
        """The parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether it is the last bucket of this backward."""
        return self._is_last
