"""ZeroRedundancyOptimizer: each rank keeps the state of its share of the parameters, and steps it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.core.base import TensorBase
from ferro.ops.joining import cat
from ferro.optim.optimizer import Optimizer

from ..group import resolved
from ..objects import gather_object


class ZeroRedundancyOptimizer(Optimizer):
    """Steps an optimiser of the class `optimizer_class`, `optim`, over the parameters that fall to this rank, and sends them to the others.

    - `params` (tensors or dictionaries): all parameters, in groups if wished; their gradients must be the same in all ranks, as
      `DistributedDataParallel` leaves them
    - `optimizer_class` (class): of the optimiser
    - `process_group` (default None): None takes the default group, which must have been made (ValueError)
    - `parameters_as_bucket_view` (bool, default False): kept
    - `overlap_with_ddp` (bool, default False): NotImplementedError for True
    - `defaults`: the options of that class

    Each rank has the state of its share alone. Shares are made as PyTorch makes them: of each group the parameters by size, the largest first,
    go to the rank that has least. The numbers are those of the optimiser alone, bit for bit, if its step takes each parameter by itself.

    `state_dict` gives what `consolidate_state_dict` has collected in this rank, and raises a RuntimeError before. TypeError and ValueError
    for parameters that are none, are sparse or are of several dtypes.

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
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not there: parameters are sent when all have been stepped"
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
        self._sizes = [0] * self.world_size  # how many elements each rank has
        self._shares: list[list[list[Any]]] = []  # the parameters of each group that fall to each rank
        self._divide()
        self.optim = optimizer_class(self._groups_of(self.rank), **defaults)
        _carry(self.optim.param_groups, self.param_groups)
        self._collected: dict[str, Any] | None = None
        self.initialized = True

    def _divide(self) -> None:
        """Gives the parameters of groups that have come to ranks."""
        for group in self.param_groups[len(self._shares) :]:
            shares: list[list[Any]] = [[] for _ in range(self.world_size)]
            for p in sorted(group["params"], key=lambda p: -p.numel()):
                least = self._sizes.index(min(self._sizes))
                shares[least].append(p)
                self._sizes[least] += p.numel()
            self._shares.append(shares)

    def _groups_of(self, rank: int, start: int = 0) -> list[dict[str, Any]]:
        """The groups with the parameters of a rank alone."""
        groups = zip(self.param_groups[start:], self._shares[start:], strict=True)
        plain = [{k: v for k, v in group.items() if k != "param_names"} for group, _ in groups]
        return [{**g, "params": shares[rank]} for g, shares in zip(plain, self._shares[start:], strict=True)]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters with options of its own."""
        super().add_param_group(param_group)
        if self.initialized:
            self._divide()
            self.optim.add_param_group(self._groups_of(self.rank, len(self.param_groups) - 1)[0])
            _carry(self.optim.param_groups, self.param_groups)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Steps the share of this rank, with the options that the groups have now, and takes those of the others; the loss of `closure`, or
        None."""
        _carry(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        _carry(self.optim.param_groups, self.param_groups)
        if self.world_size > 1:
            with no_grad():
                self._exchange()
        return loss

    def _exchange(self) -> None:
        """Sends the parameters of this rank to all and writes those of the others."""
        of_ranks = [[p for shares in self._shares for p in shares[r]] for r in range(self.world_size)]
        flats = [cat([p.detach().reshape(-1) for p in held]) if held else None for held in of_ranks]
        begun = [None if flat is None else self.process_group.broadcast(flat, r) for r, flat in enumerate(flats)]
        for r, (flat, pending) in enumerate(zip(flats, begun, strict=True)):
            if pending is not None:
                pending.wait()
            if flat is None or r == self.rank:
                continue
            start = 0
            for p in of_ranks[r]:
                p.copy_(flat[start : start + p._data.size].reshape(p.shape))
                start += p._data.size

    def _numbers(self, rank: int) -> list[int]:
        """The number, among all, of each parameter of a rank, in the order in which its optimiser counts them."""
        all_of = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        return [all_of[id(p)] for shares in self._shares for p in shares[rank]]

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all ranks in rank `to`, for `state_dict`; all ranks must ask for it."""
        _carry(self.param_groups, self.optim.param_groups)
        state = self.optim.state_dict()["state"]
        mine = {self._numbers(self.rank)[i]: dict(held) for i, held in state.items()}
        found: list[Any] = [None] * self.world_size
        gather_object(mine, found if self.rank == to else None, group=self.process_group, group_dst=to)
        self._collected = {i: h for part in found for i, h in part.items()} if self.rank == to else None

    def state_dict(self) -> dict[str, Any]:
        """The state as it was collected last, and the groups; RuntimeError if it has not been collected here."""
        if self._collected is None:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={self.rank})` "
                "on all ranks beforehand if you meant to save the global state."
            )
        found = super().state_dict()
        found["state"] = {**found["state"], **dict(sorted(self._collected.items()))}
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes state and options of an optimiser over as many parameters: of the state, what falls to this rank."""
        given = state_dict["state"]
        super().load_state_dict({**state_dict, "state": {k: v for k, v in given.items() if not isinstance(k, int)}})
        numbers = self._numbers(self.rank)
        mine = {i: given[n] for i, n in enumerate(numbers) if n in given}
        groups = self.optim.state_dict()["param_groups"]
        self.optim.load_state_dict({"state": mine, "param_groups": groups})
        _carry(self.param_groups, self.optim.param_groups)


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
