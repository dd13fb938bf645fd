"""ZeroRedundancyOptimizer of one process: its share of the state is all of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ferro.core.base import TensorBase
from ferro.optim.optimizer import Optimizer

from ..group import resolved


class ZeroRedundancyOptimizer(Optimizer):
    """Steps an optimiser of the class `optimizer_class`, `optim`, over the parameters that fall to this rank: all of them.

    A process group must have been made (ValueError).  `defaults` are the options of that class.  `state_dict` gives what
    `consolidate_state_dict` has collected, and raises a RuntimeError before.  TypeError and ValueError for parameters that
    are none, are sparse or are of several dtypes; NotImplementedError for `overlap_with_ddp`.

    Example::

        >>> import ferro
        >>> ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> w = ferro.ones(1, requires_grad=True)
        >>> optimizer = ZeroRedundancyOptimizer([w], optimizer_class=ferro.optim.SGD, lr=0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.5000], requires_grad=True)
        >>> ferro.distributed.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        groups = _checked(params)
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not there: one process has nothing to overlap"
            )
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(
                f"ZeroRedundancyOptimizer: optimizer_class must be a class of optimisers, got {optimizer_class!r}"
            )
        found = resolved(process_group)
        self.initialized = False
        super().__init__(groups, defaults)
        self.process_group: Any = found
        self.world_size, self.rank = found.size(), found.rank()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.optim = optimizer_class([dict(group) for group in self.param_groups], **defaults)
        _carry(self.optim.param_groups, self.param_groups)
        self._collected: dict[str, Any] | None = None
        self.initialized = True

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters with options of its own."""
        super().add_param_group(param_group)
        if self.initialized:
            self.optim.add_param_group(dict(self.param_groups[-1]))
            _carry(self.optim.param_groups, self.param_groups)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Steps the optimiser with the options that the groups have now; the loss of `closure`, or None."""
        _carry(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        _carry(self.optim.param_groups, self.param_groups)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all ranks in rank `to`, for `state_dict`."""
        _carry(self.param_groups, self.optim.param_groups)
        if to == self.rank:
            self._collected = {i: dict(held) for i, held in self.optim.state_dict()["state"].items()}

    def state_dict(self) -> dict[str, Any]:
        """The state as it was collected last, and the groups; RuntimeError if it has not been collected here."""
        if self._collected is None:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={self.rank})` "
                "on all ranks beforehand if you meant to save the global state."
            )
        found = super().state_dict()
        found["state"] = {**found["state"], **self._collected}
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes state and options of an optimiser over as many parameters."""
        super().load_state_dict(state_dict)
        self.optim.load_state_dict(state_dict)


def _checked(params: Any) -> list[Any]:
    """The parameters or groups as a list, checked as PyTorch does it."""
    if isinstance(params, TensorBase):
        raise TypeError(f"`params` argument should be an iterable of Tensors, but got {params.type()}")  # type: ignore[attr-defined]
    try:
        given = list(params)
    except TypeError:
        raise TypeError(
            f"`params` argument should be an iterable of Tensors or dicts, but got {type(params).__name__}"
        ) from None
    if not given:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if all(isinstance(entry, dict) for entry in given):
        if any("params" not in group for group in given):
            raise ValueError(
                "Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the group"
            )
        held = list(
            chain.from_iterable([g["params"]] if isinstance(g["params"], TensorBase) else g["params"] for g in given)
        )
    elif all(isinstance(entry, TensorBase) for entry in given):
        held = given
    else:
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    kinds = list(dict.fromkeys(parameter.type() for parameter in held))
    if any(parameter.is_sparse for parameter in held) or len(kinds) > 1:
        raise ValueError(
            "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got "
            f"{'both ' if len(kinds) > 1 else ''}{' and '.join(kinds[:2])}"
        )
    return given


def _carry(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    """Writes the options of groups into those of others over the same parameters."""
    for given, group in zip(source, target, strict=True):
        group.update({name: value for name, value in given.items() if name not in ("params", "param_names")})
