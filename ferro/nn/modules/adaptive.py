"""AdaptiveLogSoftmaxWithLoss: a classifier whose rare classes share narrower matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ferro.ops.joining import cat
from ferro.tensor import Tensor

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class _ASMoutput(NamedTuple):
    """What AdaptiveLogSoftmaxWithLoss returns."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax for many classes sorted by frequency: the frequent ones and the clusters of rare ones stand in one
    head, and each cluster has a smaller projection of its own.

    - `in_features` (int): the size of the input
    - `n_classes` (int): how many classes there are
    - `cutoffs` (integers): the first class of each cluster, rising; below the first are the frequent ones
    - `div_value` (float, default 4.0): cluster i is projected to in_features / div_value^i numbers
    - `head_bias` (bool, default False): True adds a bias in the head
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `output, loss = layer(input, target)`. Shapes: the input is (N, in_features) or (in_features), the target
    (N) or (), of integers; output has the log probabilities of the targets, (N) or (), and loss is minus their mean.
    ValueError for cutoffs that do not rise or are out of range; RuntimeError for shapes that do not fit and classes out
    of range. Source: Grave, Joulin, Cissé, Grangier and Jégou, Efficient softmax approximation for GPUs, 2017.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.AdaptiveLogSoftmaxWithLoss(16, n_classes=1000, cutoffs=[10, 100])
        >>> layer(ferro.zeros(4, 16), ferro.tensor([0, 5, 50, 500])).output.shape
        ferro.Size([4])
        >>> layer.log_prob(ferro.zeros(4, 16)).shape
        ferro.Size([4, 1000])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] >= n_classes
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1, got {cutoffs} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, device, dtype), Linear(hidden, high - low, False, device, dtype)
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights afresh."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log probabilities of the targets, and minus their mean."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != target_.dim() + 1:
            raise RuntimeError(
                f"{target_.dim()}D target tensor expects {target_.dim() + 1}D input tensors, but found inputs with size "
                f"{list(input_.shape)}"
            )
        if target_.dim() == 1 and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(target.min())}, "
                f"{int(target.max())}] were found."
            )
        head = F.log_softmax(self.head(input), dim=1)
        places = target.clone()
        rows = [(target < self.shortlist_size).nonzero().squeeze(1)]
        parts = [input.new_zeros(rows[0].shape)]
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            own = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not own.numel():
                continue
            places[own] = self.shortlist_size + i
            found = F.log_softmax(self.tail[i](input[own]), dim=1)
            parts.append(found.gather(1, (target[own] - low).unsqueeze(1)).squeeze(1))
            rows.append(own)
        output = cat(parts)[cat(rows).argsort()] + head.gather(1, places.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if target_.dim() else output.squeeze(0), (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        clusters = head[:, self.shortlist_size :].split(1, dim=1)
        rare = [F.log_softmax(tail(input), dim=1) + own for tail, own in zip(self.tail, clusters, strict=True)]
        return cat([head[:, : self.shortlist_size], *rare], dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The class with the highest probability: of the frequent ones where no cluster has a higher one."""
        best = self.head(input).argmax(dim=1)
        rare = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            best[rare] = self.log_prob(input[rare]).argmax(dim=1)
        return best
