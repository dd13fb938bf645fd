"""DistributedDataParallel: the module under the name `module`, whose gradients are means over all processes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ...distributed.group import resolved
from ..modules.module import Module
from ..parameter import is_lazy
from .reducer import Reducer


class DistributedDataParallel(Module):
    """Passes its arguments to `module`, whose gradients are the mean over all processes of the group at the end of each backward.

    - `module` (Module): with parameters that require a gradient, else RuntimeError
    - `device_ids`, `output_device` (default None): ValueError unless None or empty
    - `dim` (int, default 0): kept
    - `broadcast_buffers` (bool, default None): False leaves buffers as they are; else rank 0's go to all before each forward in
      training
    - `init_sync` (bool, default True): the parameters and buffers of rank 0 go to all
    - `process_group` (default None): None takes the default group, which must have been made (ValueError)
    - `bucket_cap_mb` (float, default None): how many megabytes of gradients travel together; None: 25
    - `find_unused_parameters` (bool, default False): kept; what no rank used keeps its gradient None in any case
    - `check_reduction`, `gradient_as_bucket_view`, `static_graph` (bool, default False): kept
    - `delay_all_reduce_named_params`, `param_to_hook_all_reduce` (default None): kept
    - `mixed_precision`, `device_mesh` (default None): kept

    What is kept changes nothing here. Keys of the state_dict begin with "module.".

    Example::

        >>> import ferro
        >>> from ferro.nn.parallel import DistributedDataParallel
        >>> ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = DistributedDataParallel(ferro.nn.Linear(2, 1))
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
        >>> ferro.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.process_group: Any = resolved(process_group)
        for name, given in (
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
        ):
            if given is not None:
                raise NotImplementedError(
                    f"DistributedDataParallel: {name} is not there; for mixed precision use autocast"
                )
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"DistributedDataParallel.__init__() got an unexpected keyword argument '{min(unknown)}'")
        if broadcast_buffers is not None:
            warnings.warn(
                "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. (One process has no buffers to send.)",
                FutureWarning,
                stacklevel=2,
            )
        parameters = list(module.parameters())
        if not any(p.requires_grad for p in parameters):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if device_ids:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
                f"GPU modules or CPU modules, but got device_ids {list(device_ids)}, output_device {output_device}: ferro "
                "computes on the CPU, leave them out"
            )
        if any(is_lazy(p) for p in parameters):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward "
                "pass to correctly initialize the modules"
            )
        self.module = module
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self._begin(init_sync, bucket_cap_mb)

    def _begin(self, init_sync: bool, megabytes: float | None) -> None:
        """Where there are several processes, they have one model from now on."""
        self.require_backward_grad_sync = True
        self._reducer: Reducer | None = None
        if self.process_group.size() == 1:
            return
        parameters = list(self.module.parameters())
        if init_sync:
            self._from_first([*parameters, *self.module.buffers()])
        wanted = [p for p in parameters if p.requires_grad]
        self._reducer = Reducer(
            wanted, self.process_group, 25 if megabytes is None else megabytes, lambda: self.require_backward_grad_sync
        )

    def _from_first(self, tensors: list[Any]) -> None:
        """Sends the tensors of rank 0 to all."""
        for t in tensors:
            self.process_group.broadcast(t, 0).wait()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        if self._reducer is not None and self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            self._from_first(list(self.module.buffers()))
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backwards inside are added up in this process, and not averaged over processes until the next one."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Processes may have different numbers of batches inside: one alone has as many as it has; of several NotImplementedError."""
        if self._reducer is not None:
            raise NotImplementedError(
                "DistributedDataParallel.join is not there for several processes: give each as many batches"
            )
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """NotImplementedError: hooks that change how gradients travel are not there."""
        raise NotImplementedError(
            "DistributedDataParallel.register_comm_hook: gradients travel as they are; a hook would never be called; leave it out"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["process_group"], state["_reducer"]  # (those of the process which reads this)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        group = resolved(None)
        super().__setstate__(state)
        self.process_group = group
        self._begin(False, None)


_OPTIONS = {"skip_all_reduce_unused_params", "bucket_cap_mb_list", "batched_grad_copy", "forward_sync_buffers"}
