"""Embedding and EmbeddingBag: a table of vectors, looked up by number one by one or in bags."""

from __future__ import annotations

from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class Embedding(Module):
    """A table of vectors, read by index: the rows of `weight` at the given positions.

    - `num_embeddings`, `embedding_dim` (int): the number of rows, and the size of each; `weight` has this shape
    - `padding_idx` (int, default None): a row that starts as zeros and gets no gradient; AssertionError if there is
      none
    - `max_norm` (float, default None): rows of a larger norm are scaled down to it when they are read
    - `norm_type` (float, default 2.0): the exponent of that norm
    - `scale_grad_by_freq` (bool, default False): True divides the gradient of a row by how often the batch contains it
    - `sparse` (bool, default False): True gives `weight` a sparse gradient of the rows that were read
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input has integers of any shape (*); the result is (*, embedding_dim). The weight starts normal (0, 1).
    IndexError if an index is not below num_embeddings.

    Example::

        >>> import ferro
        >>> words = ferro.nn.Embedding(10, 3, padding_idx=0)
        >>> words(ferro.tensor([[1, 2, 4, 0], [4, 3, 2, 9]])).shape
        ferro.Size([2, 4, 3])
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _checked_padding(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self.weight = _table(num_embeddings, embedding_dim, _weight, not _freeze, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight afresh."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        if self.sparse is not False:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding whose weight is the given matrix (shared, not copied); with `freeze` it is not learned."""
        if embeddings.dim() != 2:
            raise AssertionError(
                f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.dim()} dimensions"
            )
        rows, columns = embeddings.shape
        options = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return cls(rows, columns, *options, _weight=embeddings, _freeze=freeze)


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of `weight` in each bag of indices.

    - `num_embeddings`, `embedding_dim` (int): the number of rows, and the size of each; `weight` has this shape
    - `max_norm` (float, default None): rows of a larger norm are scaled down to it when they are read
    - `norm_type` (float, default 2.0): the exponent of that norm
    - `scale_grad_by_freq` (bool, default False): True divides the gradient of a row by how often the batch contains it
    - `mode` (str, default 'mean'): 'sum', 'mean' or 'max'
    - `sparse` (bool, default False): True gives `weight` a sparse gradient of the rows that were read
    - `include_last_offset` (bool, default False): the last offset is the end of the last bag
    - `padding_idx` (int, default None): indices of this number are left out, and its row starts as zeros
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `bag(input, offsets=None, per_sample_weights=None)`. Shapes: the input is (N, L), N bags, or (L) with
    offsets (N), the beginning of each bag; the result is (N, embedding_dim). The weight starts normal (0, 1).
    ValueError if offsets are missing or not wanted; NotImplementedError for per_sample_weights without 'sum'.

    Example::

        >>> import ferro
        >>> bag = ferro.nn.EmbeddingBag(10, 3, mode="sum")
        >>> bag(ferro.tensor([1, 2, 4, 5, 4]), ferro.tensor([0, 2])).shape
        ferro.Size([2, 3])
    """

    num_embeddings: int
    embedding_dim: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    mode: str
    sparse: bool
    include_last_offset: bool
    padding_idx: int | None
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = _checked_padding(padding_idx, num_embeddings, "padding_idx")
        self.weight = _table(num_embeddings, embedding_dim, _weight, True, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight afresh."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """One vector per bag."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A bag whose weight is the given matrix (shared, not copied); with `freeze` it is not learned.

        >>> import ferro
        >>> bag = EmbeddingBag.from_pretrained(ferro.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> bag(ferro.tensor([[0, 1]])), bag.weight.requires_grad
        (tensor([[2., 3.]]), False)
        """
        if embeddings.dim() != 2:
            raise AssertionError(
                f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.dim()} dimensions"
            )
        rows, columns = embeddings.shape
        options = max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset, padding_idx
        bag = cls(rows, columns, *options)
        bag.weight.requires_grad_(not freeze)
        return bag


def _checked_padding(padding_idx: int | None, num_embeddings: int, what: str = "Padding_idx") -> int | None:
    """The number of the row that pads, counted from the start."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(
            f"{what} must be within num_embeddings, got {padding_idx} for num_embeddings={num_embeddings}"
        )
    return padding_idx % num_embeddings


def _table(rows: int, columns: int, given: Tensor | None, requires_grad: bool, device: Any, dtype: Any) -> Parameter:
    """The weight: the given matrix, which must fit, or one still to be filled."""
    if given is None:
        given = empty(rows, columns, device=device, dtype=dtype)
    elif tuple(given.shape) != (rows, columns):
        raise ValueError(
            f"Shape of weight {tuple(given.shape)} does not match num_embeddings and embedding_dim ({rows}, {columns})"
        )
    return Parameter(given, requires_grad=requires_grad)
