"""PerParameterOptimizer: what all optimisers share that change one parameter after the other; their mathematics is in their files.

Three things are said of an optimiser beside its `_update`: which options must not be negative (`_not_negative`), how the
state of a parameter begins (`_begun`), and how PyTorch's functional form calls the lists of that state (`_lists`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ferro.autograd.grad_mode import enable_grad, no_grad
from ferro.core.backend import DEVICES
from ferro.core.device import DEVICE_BACKENDS
from ferro.ops.complex import view_as_complex, view_as_real
from ferro.ops.creation import full, zeros
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .fused import finish
from .optimizer import Optimizer, Params, run_closure
from .options import check_betas, check_not_negative, check_switches


class PerParameterOptimizer(Optimizer):
    """An optimiser that changes one parameter after the other; a subclass says how in `_update`.

    With the option `differentiable` a step is recorded: gradients flow from the new values of the parameters to the old
    ones, to the gradients and to the state. The parameters must not be leaves then.
    """

    _closure_first = True
    _not_negative: ClassVar[tuple[str, ...]] = ("lr", "eps", "weight_decay")
    _takes_complex: ClassVar[bool] = True
    _begun: Any = None  # (parameter, options) -> its state before the first step; None where there is none
    _lists: ClassVar[dict[str, str]] = {}  # arguments of the functional form that are lists -> their names in the state

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        for name in self._not_negative:
            check_not_negative(name, defaults[name])
        check_betas(defaults.get("betas", ()))
        check_switches(defaults)
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; returns what `closure` returned, if one is given."""
        _check_capture(self)
        loss = run_closure(closure)
        differentiable = self.defaults.get("differentiable")
        recording = enable_grad() if differentiable else no_grad()
        with recording, np.errstate(all="ignore"):  # once, for it costs as much as the update of a small parameter
            try:
                for group in self.param_groups:
                    maximize = group.get("maximize")
                    for param in group["params"]:
                        grad = param.grad
                        if grad is not None:
                            state = self.state.get(param, {})
                            if differentiable:  # what an earlier step saved of the state stays as it is
                                state.update({k: v.clone() for k, v in state.items() if isinstance(v, Tensor)})
                            self._change(param, -grad if maximize else grad, state, group)
                            if state:  # plain SGD has none
                                self.state[param] = state
            finally:
                finish()
        return loss

    @classmethod
    def _change(cls, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The update of one parameter; a complex one moves as a real one of twice the size, its state is complex."""
        if grad.is_sparse:
            cls._update_sparse(param, grad, state, group)
            return
        if param._data.dtype.kind != "c":
            if not state and cls._begun is not None:
                state.update(cls._begun(param, group))
            cls._update(param, grad, state, group)
            return
        if not cls._takes_complex:
            raise RuntimeError(f"{cls.__name__} does not support complex parameters")
        pairs = view_as_real(param)
        real = {k: view_as_real(v) if isinstance(v, Tensor) and v.is_complex() else v for k, v in state.items()}
        if not real and cls._begun is not None:
            real = cls._begun(pairs, group)
        cls._update(pairs, view_as_real(grad), real, group)
        for key, value in real.items():
            state[key] = view_as_complex(value) if isinstance(value, Tensor) and value.shape == pairs.shape else value

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter in place, given its gradient (of what is to be minimised), its state and the options."""
        raise NotImplementedError("an optimiser has to define _update()")

    @classmethod
    def _update_sparse(cls, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change the rows of a parameter that a sparse gradient names."""
        name = next(c.__name__ for c in cls.__mro__ if "_update" in vars(c))  # (of AdamW, Adam)
        hint = ", please consider SparseAdam instead" if name == "Adam" else ""
        raise RuntimeError(f"{name} does not support sparse gradients{hint}")

    @classmethod
    def _step_lists(cls, given: dict[str, Any]) -> None:
        """One step of each parameter: the functional form, given all its arguments by name.

        The first two are the parameters and their gradients. A list of state may be empty, or hold None, where there is
        nothing; what begins with this step is put in its place. Options that come in pairs are given one by one.
        """
        if given.get("grad_scale") is not None or given.get("found_inf") is not None:
            raise AssertionError("Expected grad_scale and found_inf to be None: gradients are unscaled before the step")
        if not all(isinstance(t, Tensor) for t in given.get("state_steps", ())):
            raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
        group = {"differentiable": False, **given}
        check_switches(group)
        for pair, parts in _PAIRS.items():
            if parts[0] in given:
                group[pair] = tuple([given[part] for part in parts])
        lists = {name: given[argument] for argument, name in cls._lists.items() if given[argument]}
        params, grads = list(given.values())[:2]
        try:
            for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
                state = {name: values[i] for name, values in lists.items() if values[i] is not None}
                cls._change(param, -grad if group.get("maximize") else grad, state, group)
                for name, values in lists.items():
                    if values[i] is None and name in state:
                        values[i] = state[name]
        finally:
            finish()


# Options that are pairs, as the functional forms give them.
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


# -- state -------------------------------------------------------------------------------------------------------------


def new_step() -> Tensor:
    """The count of steps of one parameter: a tensor, as PyTorch stores it."""
    return zeros((), device="cpu")


def new_count(param: Tensor, group: dict[str, Any], value: float = 0.0) -> Tensor:
    """A number that steps change: on the CPU, or with `capturable` where the parameter lies, so that a CUDA graph changes it."""
    return full((), value, device=param.device if group["capturable"] else "cpu")


def begin_with_zeros(param: Tensor, group: dict[str, Any], *names: str) -> dict[str, Any]:
    """A state: the count of steps, and zeros of the parameter's shape under each name."""
    step = new_count(param, group) if group.get("capturable") else new_step()
    return {"step": step, **{name: zeros_like(param) for name in names}}


def is_there(count: Tensor) -> bool:
    """Whether a count lies on a device, whose formulas take it as a tensor."""
    return type(count._data) in DEVICES


def counted(state: dict[str, Any], group: dict[str, Any]) -> Any:
    """The number of this step; with `capturable` a tensor where it lies on a device, computed with in its own dtype."""
    state["step"] += 1
    return state["step"] if group.get("capturable") and is_there(state["step"]) else state["step"].item()


def _check_capture(optimizer: Optimizer) -> None:
    """RuntimeError while a CUDA graph is recorded without `capturable`, as its replays would not count; one warning for the opposite."""
    if not DEVICE_BACKENDS or "capturable" not in optimizer.defaults:
        return
    capturable = all(group.get("capturable") for group in optimizer.param_groups)
    recording = any(getattr(module, "is_recording", bool)() for module in DEVICE_BACKENDS.values())
    if recording and not capturable:
        raise RuntimeError(
            f"Attempting CUDA graph capture of step() for an instance of {type(optimizer).__name__} but param_groups' capturable is "
            "False. Each replay would do the step with this number again: say capturable=True"
        )
    warned = getattr(optimizer, "_warned_capturable_if_run_uncaptured", False)
    if (
        capturable
        and not recording
        and not warned
        and any(is_there(p) for group in optimizer.param_groups for p in group["params"])
    ):
        warnings.warn(
            "This instance was constructed with capturable=True or some of all the param_groups came with capturable=True, but step() "
            "is running without CUDA graph capture. If you never intend to graph-capture this instance, capturable=True can impair "
            "performance, and you should set capturable=False.",
            stacklevel=4,
        )
        optimizer._warned_capturable_if_run_uncaptured = True  # type: ignore[attr-defined]


# -- moves -------------------------------------------------------------------------------------------------------------


def decayed(param: Tensor, grad: Tensor, group: dict[str, Any], lr: Any = None) -> Tensor:
    """The gradient of the loss with weight_decay / 2 |param|² added to it.

    With `decoupled_weight_decay` the parameter shrinks by lr weight_decay instead, and the gradient stays.
    """
    weight_decay = group["weight_decay"]
    if isinstance(weight_decay, Tensor) and weight_decay.requires_grad and not group.get("decoupled_weight_decay"):
        return grad.addcmul(param.clone(), weight_decay)  # the parameter is changed before backward
    if weight_decay == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - lr * weight_decay)
        return grad
    return grad.add(param, alpha=weight_decay)


def number(option: Any, group: dict[str, Any]) -> Any:
    """An option as a number; in a recorded step a tensor stays one, so that there is a derivative by it, and so does one that a CUDA
    graph is to read anew."""
    if isinstance(option, Tensor) and (group["differentiable"] or (group.get("capturable") and is_there(option))):
        return option.reshape(())
    return float(option)


def move(target: Tensor, direction: Tensor, size: Any) -> None:
    """target ← target + size direction, in place; the size a number or a tensor of one."""
    if isinstance(size, Tensor):
        target.addcmul_(direction, size)
    else:
        target.add_(direction, alpha=size)


def move_by_quotient(target: Tensor, above: Tensor, below: Tensor, size: Any) -> None:
    """target ← target + size above / below, in place; the size a number or a tensor of one."""
    if isinstance(size, Tensor):
        target.addcdiv_(above * size, below)
    else:
        target.addcdiv_(above, below, value=size)


def plus(root: Tensor, eps: float, group: dict[str, Any]) -> Tensor:
    """A fresh root + eps: in its own memory, unless the step is recorded (the derivative of a root needs the root)."""
    return root.add(eps) if group["differentiable"] else root.add_(eps)
