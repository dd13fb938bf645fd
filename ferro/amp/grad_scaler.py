"""GradScaler: the loss times a factor, so that gradients of half precision do not vanish, and steps without infinities."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.core.backend import accelerator
from ferro.core.base import TensorBase
from ferro.ops.creation import full
from ferro.ops.data import tensor

_FIX = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class GradScaler:
    """Multiplies losses, divides gradients, leaves out steps whose gradients are not finite, and adapts the factor.

    - `device` (str, default 'cuda'): the type of device; for "cuda" without a GPU the scaler does nothing
    - `init_scale` (float, default 65536.0): the factor at the start
    - `growth_factor` (float, default 2.0): multiplies it after growth_interval steps in a row; above 1, else
      AssertionError
    - `backoff_factor` (float, default 0.5): multiplies it after a step that was left out; below 1, else AssertionError
    - `growth_interval` (int, default 2000): see above
    - `enabled` (bool, default True): False does nothing

    Source: Micikevicius et al., Mixed Precision Training, 2018.

    Example::

        >>> import ferro
        >>> w = ferro.nn.Parameter(ferro.ones(1))
        >>> optimizer = ferro.optim.SGD([w], lr=1.0)
        >>> scaler = ferro.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale((w * 0.5).sum()).backward()
        >>> w.grad
        tensor([2.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.detach()
        tensor([0.5000])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and accelerator() is None:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"The growth factor must be > 1.0. Got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0. Got {backoff_factor}")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._scale: Any = None  # made by the first scale()
        self._growth_tracker: Any = None
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._steps: dict[
            int, dict[str, Any]
        ] = {}  # of each optimizer since the last update(): its stage, and found_inf

    def _started(self, name: str) -> Any:
        if self._scale is None:
            raise AssertionError(f"Attempted {name} but _scale is None.  {_FIX}")
        return self._scale

    def _state(self, optimizer: Any) -> dict[str, Any]:
        return self._steps.setdefault(id(optimizer), {"stage": "ready", "found_inf": None})

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of an iterable of tensors, times the factor."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = full((), float(self._init_scale), dtype=dtypes.float32, device="cpu")
            self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device="cpu")
        if isinstance(outputs, TensorBase):
            return outputs * self._scale  # type: ignore[operator]
        if not isinstance(outputs, Iterable):
            raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}")
        scaled = [self.scale(o) for o in outputs]
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else iter(scaled)  # type: ignore[call-arg]

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> dict:
        """Multiplies gradients by `inv_scale`; {device: a tensor, 1 if one of them is not finite}."""
        finite = True
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    grad = param.grad
                    if grad is None:
                        continue
                    if grad.dtype is dtypes.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if grad.is_sparse:
                        if grad.dtype is dtypes.float16:  # values of one place may be too large together
                            param.grad = grad = grad.coalesce()
                        grad = grad._values()
                    finite = finite and bool(grad.isfinite().all())
                    grad.mul_(inv_scale.to(grad.dtype) if grad.dtype is dtypes.float64 else inv_scale)
            if not finite:
                found_inf.fill_(1.0)
            parts = [p for group in optimizer.param_groups for p in group["params"] if hasattr(p, "_spec")]
            if parts:  # of DTensors every rank leaves the step out, or none
                from ferro.distributed.tensor.norms import largest_of_ranks

                largest_of_ranks(found_inf, parts)
        return {found_inf.device: found_inf}

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the factor; at most once before its step()."""
        if not self._enabled:
            return
        scale, state = self._started("unscale_"), self._state(optimizer)
        if state["stage"] == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        inverse = tensor(1.0 / scale.item(), dtype=dtypes.float32, device="cpu")
        found = self._unscale_grads_(optimizer, inverse, full((), 0.0, dtype=dtypes.float32, device="cpu"), False)
        state["found_inf"], state["stage"] = next(iter(found.values())), "unscaled"

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """unscale_() unless it was called, then ``optimizer.step(*args, **kwargs)`` if all gradients are finite; what that returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._started("step")
        state = self._state(optimizer)
        if state["stage"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_that_knows(optimizer, state, args, kwargs)
        if state["stage"] == "ready":
            self.unscale_(optimizer)
        result = None if state["found_inf"].item() else optimizer.step(*args, **kwargs)
        state["stage"] = "stepped"
        return result

    def _step_that_knows(self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict) -> Any:
        """A step of an optimizer that divides, and leaves out, by itself: it reads `grad_scale` and `found_inf`."""
        takes_scaler = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if takes_scaler:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future "
                "GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the optimizer "
                "use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            kwargs = {**kwargs, "grad_scaler": self}
        if state["stage"] == "ready":
            self._check_inf_per_device(optimizer)
        if not takes_scaler:
            unscaled = state["stage"] == "unscaled"
            optimizer.grad_scale = None if unscaled else self._scale.clone()
            optimizer.found_inf = state["found_inf"]
        try:
            result = optimizer.step(*args, **kwargs)
        finally:
            if not takes_scaler:
                del optimizer.grad_scale, optimizer.found_inf
        state["stage"] = "stepped"
        return result

    def _check_inf_per_device(self, optimizer: Any) -> dict:
        """Looks for gradients that are not finite without dividing them."""
        one, found = (
            full((), 1.0, dtype=dtypes.float32, device="cpu"),
            full((), 0.0, dtype=dtypes.float32, device="cpu"),
        )
        result = self._unscale_grads_(optimizer, one, found, True)
        self._state(optimizer)["found_inf"] = found
        return result

    def _found_inf_per_device(self, optimizer: Any) -> dict:
        found = self._state(optimizer)["found_inf"]
        return {} if found is None else {found.device: found}

    def update(self, new_scale: Any = None) -> None:
        """Adapts the factor to what the steps since the last update() found, or sets it."""
        if not self._enabled:
            return
        scale = self._started("update")
        if new_scale is not None:
            if isinstance(new_scale, TensorBase):
                given: Any = new_scale
                if given.dtype is not dtypes.float32 or given.numel() != 1 or given.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                        "requires_grad=False."
                    )
                scale.copy_(given.reshape(()))
            else:
                scale.fill_(float(new_scale))
        else:
            found = [s["found_inf"] for s in self._steps.values() if s["found_inf"] is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(f.item() for f in found))
        self._steps = {}

    def _adapt(self, found_inf: bool) -> None:
        tracker = self._growth_tracker
        if found_inf:
            self._scale.mul_(self._backoff_factor)
            tracker.zero_()
            return
        tracker.add_(1)
        if tracker.item() == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown.isfinite():  # a factor that overflows stays
                self._scale.copy_(grown)
            tracker.zero_()

    def get_scale(self) -> float:
        """The factor; 1.0 where the scaler does nothing."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor falls by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor falls by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps in a row the factor grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The factor and what it depends on; empty where the scaler does nothing."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state_dict()."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._steps:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state
