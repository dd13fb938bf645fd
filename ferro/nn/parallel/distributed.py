"""DistributedDataParallel: the module under the name `module`, whose gradients are means over all processes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ferro.core.device import device
from ferro.core.mode import is_grad_enabled
from ferro.core.trees import map_tensors
from ferro.distributed.algorithms.join import Join, Joinable, JoinHook
from ferro.distributed.group import resolved

from ..modules.module import Module
from ..parameter import is_lazy
from .agreement import sent_from
from .comm_hooks import Hooked
from .communication import Communication
from .joined import Joined
from .mixed_precision import Lowered, _MixedPrecision
from .outputs import leads_to, tensors, watched
from .reducer import Options, Reducer
from .sparse_gradients import tables


class DistributedDataParallel(Module, Joinable):
    """Passes its arguments to `module`, whose gradients are the mean over all processes of the group at the end of each backward.

    - `module` (Module): with parameters that require a gradient, else RuntimeError. Those named in its attribute
      `_ddp_params_and_buffers_to_ignore` are left as they are
    - `device_ids` (list, default None): None or empty; of a module on a GPU also that GPU, ``[0]``: then inputs are brought there.
      ValueError for others
    - `output_device` (default None): kept
    - `dim` (int, default 0): kept
    - `broadcast_buffers` (bool, default None): False leaves buffers as they are; else rank 0's go to all before each forward in
      training, but for those behind one in `no_sync`. Deprecated: `forward_sync_buffers` is its new name
    - `init_sync` (bool, default True): the parameters and buffers of rank 0 go to all
    - `process_group` (default None): None takes the default group, which must have been made (ValueError)
    - `bucket_cap_mb` (float, default None): how many megabytes of gradients travel together; None: a quarter of all, at most 25
    - `find_unused_parameters` (bool, default False): looks, after each forward, which parameters its outputs lead to, so that the
      others hold nothing up. What no rank used keeps its gradient None in any case
    - `gradient_as_bucket_view` (bool, default False): gradients lie in the same memory for ever, so that nothing is copied where
      they are added up over steps; who keeps one sees it change
    - `static_graph` (bool, default False): each backward has what the first one had: parameters may be ready several times, in
      checkpoints
    - `check_reduction` (bool, default False): no effect
    - `delay_all_reduce_named_params`, `param_to_hook_all_reduce` (default None): kept, without effect
    - `mixed_precision` (_MixedPrecision, default None): the module computes with parameters and inputs cast to its `param_dtype`, gradients
      travel in its `reduce_dtype`, and are added up in the dtype of the parameters; buffers are cast to its `buffer_dtype`
    - `device_mesh` (default None): NotImplementedError unless None

    RuntimeError, on all ranks, if their models differ. Keys of the state_dict begin with "module.".

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
        Module.__init__(self)
        Joinable.__init__(self)
        self.process_group: Any = resolved(process_group)
        _refuse(
            device_mesh=device_mesh,
            delay_all_reduce_named_params=delay_all_reduce_named_params,
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
        _check(module, device_ids, output_device, mixed_precision)
        self.module = module
        self.device_ids, self.output_device, self.dim = device_ids or None, output_device, dim
        self.broadcast_buffers = broadcast_buffers is not False and options.get("forward_sync_buffers") is not False
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.bucket_cap_mb, self.mixed_precision = bucket_cap_mb, mixed_precision
        self._begin(init_sync)

    def _begin(self, init_sync: bool) -> None:
        """Where there are several processes, they have one model from now on."""
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._reducer: Reducer | None = None
        self._lowered: Lowered | None = None
        if init_sync and self.process_group.size() > 1:
            self._send_from(0)
        if self.mixed_precision is not None:
            self._lowered = Lowered(self.module, self.mixed_precision, self._ignored())
        if self.process_group.size() > 1 or self._lowered is not None:  # (one process rounds gradients, too)
            self._reducer = self._made_reducer()

    def _made_reducer(self) -> Reducer:
        named = [(name, p) for name, p in self._named(self.module.named_parameters()) if p.requires_grad]
        dtype_of = None if self._lowered is None else self._lowered.reduced_in
        options = Options(self.bucket_cap_mb, self.gradient_as_bucket_view, self.static_graph, dtype_of)
        return Reducer(named, tables(self.module), self.process_group, options, lambda: self.require_backward_grad_sync)

    def _named(self, all: Any) -> list[tuple[str, Any]]:
        """Those that are not to be ignored."""
        ignored = self._ignored()
        return [(name, t) for name, t in all if name not in ignored]

    def _ignored(self) -> set[str]:
        return set(getattr(self.module, "_ddp_params_and_buffers_to_ignore", ()))

    def _send_from(self, rank: int, parameters: bool = True) -> None:
        """Sends the buffers, and parameters if asked for, of a rank to all."""
        given = self._named(self.module.named_parameters()) if parameters else []
        sent_from(rank, self.process_group, [t for _, t in (*given, *self._named(self.module.named_buffers()))])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        if self.device_ids is not None:
            inputs, kwargs = map_tensors(lambda t: t.to("cuda"), (inputs, kwargs))
        reducer = self._reducer
        if reducer is None:
            return self._inner(*inputs, **kwargs)
        recorded = is_grad_enabled() and self.require_backward_grad_sync
        sends = self.broadcast_buffers and self.training and self.require_forward_param_sync
        root = 0
        if self._join_config.enable and (self.require_backward_grad_sync or sends):
            root = self._joined.forward_begins(recorded, sends)
        if sends:
            self._send_from(root, False)
        if self.training:
            self.require_forward_param_sync = recorded  # (buffers travel once for gradients that are added up)
        if not recorded:
            return self._inner(*inputs, **kwargs)
        reducer.forward_begins()
        result = self._inner(*inputs, **kwargs)
        unused = None
        if self.find_unused_parameters:
            unused = {id(p) for p in reducer.parameters} - leads_to(list(tensors(result)))
        reducer.forward_ends(unused)
        return watched(result, reducer.backward_begins)

    def _inner(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes, by the graphs of an `OptimizedParallel` inside of its call (with mixed precision without them)."""
        if self._lowered is not None:
            return self._lowered.call(inputs, kwargs)
        return (self.__dict__.get("_calls") or self.module)(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backwards inside are added up in this process, and not averaged over processes until the next one."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- uneven inputs -------------------------------------------------------------------------------------------------

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context in which processes may have different numbers of batches.

        A rank that leaves it takes part in the steps of the others with zeros until all have left; then all have the parameters of the
        rank that was the last.

        - `divide_by_initial_world_size` (bool, default True): gradients are divided by the number of processes; False: by the number of
          those that still have batches
        - `enable` (bool, default True): False changes nothing
        - `throw_on_early_termination` (bool, default False): RuntimeError on all ranks when one has no more batches

        Example::

            >>> import ferro
            >>> from ferro.nn.parallel import DistributedDataParallel
            >>> ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> model = DistributedDataParallel(ferro.nn.Linear(2, 1))
            >>> with model.join():
            ...     for batch in ferro.ones(3, 4, 2):
            ...         model(batch).sum().backward()
            >>> ferro.distributed.destroy_process_group()
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has left a `join`."""
        self._joined = Joined(self, kwargs.get("divide_by_initial_world_size", True))
        return self._joined

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """The group of the ranks that join."""
        return self.process_group

    # -- how gradients travel ------------------------------------------------------------------------------------------

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """From now on ``hook(state, bucket)`` makes the mean of each bucket (a `distributed.GradBucket`).

        It returns a Future of the tensor that holds the means, or of a list with it. See `distributed.algorithms.ddp_comm_hooks`.
        TypeError for a hook that cannot be called, RuntimeError for a second one.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._reducer is None:
            self._reducer = self._made_reducer()  # (of one process, which a hook may do something with)
        if self._reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        reducer = self._reducer
        reducer.hook = lambda bucket: Hooked(bucket, hook, state, bucket.index == len(reducer.buckets) - 1)

    def communication(self) -> Communication:
        """Bytes, time and overlap with backward of each bucket, over all steps since the first: print it."""
        return Communication(1) if self._reducer is None else self._reducer.communication

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("process_group", "_reducer", "_joined", "_lowered"):  # (those of the process which reads this)
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        group = resolved(None)
        super().__setstate__(state)
        self.process_group = group
        self._begin(False)


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"DistributedDataParallel: {name} is not there")


def _check(module: Module, device_ids: Any, output_device: Any, mixed_precision: Any) -> None:
    """Refuses models without parameters to be trained, or with unknown ones, devices, and mixed precision of sparse gradients."""
    parameters = list(module.parameters())
    if mixed_precision is not None and not isinstance(mixed_precision, _MixedPrecision):
        raise TypeError(
            f"DistributedDataParallel: mixed_precision must be a _MixedPrecision, got {type(mixed_precision).__name__}"
        )
    if mixed_precision is not None and tables(module):
        raise NotImplementedError(
            "DistributedDataParallel: mixed_precision of embeddings with sparse=True is not there; leave one of both out"
        )
    if not any(p.requires_grad for p in parameters):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if device_ids and not (device_ids[0] in _GPU and all(p.is_cuda for p in parameters)):
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
            f"GPU modules or CPU modules, but got device_ids {list(device_ids)}, output_device {output_device}: the module is not on "
            "the GPU cuda:0, which is the one of this process; leave them out"
        )
    if any(is_lazy(p) for p in parameters):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward "
            "pass to correctly initialize the modules"
        )


_GPU = (0, "cuda", "cuda:0", device("cuda"), device("cuda", 0))
_OPTIONS = {"skip_all_reduce_unused_params", "bucket_cap_mb_list", "batched_grad_copy", "forward_sync_buffers"}
