"""Calling a module that has hooks: the order in which they run, and the two nodes that watch its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.autograd import Function
from ferro.core.mode import is_grad_enabled
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pre hooks, `forward`, forward hooks; around them, if there are backward hooks, the boundary nodes."""
    pending = {id: hook for id, hook in module._forward_hooks.items() if id in module._forward_hooks_always_called}
    try:
        args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
        watch = None
        if module._backward_hooks or module._backward_pre_hooks:
            watch = _Watch(module)
            args = watch.enter(args)
        out = module.forward(*args, **kwargs)
        for id, hook in list(module._forward_hooks.items()):
            pending.pop(id, None)
            out = _run_forward_hook(module, id, hook, args, kwargs, out)
        return out if watch is None else watch.leave(out)
    except Exception:
        _run_always_called(module, pending, args, kwargs)
        raise


def _run_forward_pre_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    for id, hook in list(module._forward_pre_hooks.items()):
        if id in module._forward_pre_hooks_with_kwargs:
            result = hook(module, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), got {result}"
                )
            args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _run_forward_hook(
    module: Module, id: int, hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> Any:
    with_kwargs = id in module._forward_hooks_with_kwargs
    result = hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)
    return out if result is None else result


def _run_always_called(module: Module, pending: dict[int, Any], args: Any, kwargs: Any) -> None:
    """After an exception: the hooks registered with `always_call` that have not run. Theirs must not hide the first."""
    for id, hook in pending.items():
        try:
            _run_forward_hook(module, id, hook, args, kwargs, None)
        except Exception as error:  # noqa: BLE001 - the error that is being raised already matters more
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was silenced as another error "
                f"was raised in forward: {error}",
                stacklevel=4,
            )


class _Watch:
    """One call of a module with backward hooks: an identity node on each side, and what flowed through them.

    Gradients reach the leaving node first: there the pre hooks run and `grad_output` is kept. When they reach the
    entering node, `grad_input` is known and the hooks run. If no input asks for a gradient there is no entering node,
    and the hooks run at once with None for every input.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.hooks = list(module._backward_hooks.values())
        self.pre_hooks = list(module._backward_pre_hooks.values())
        self.grad_output: tuple[Any, ...] | None = None
        self.has_entry = False
        self.n_inputs = 0
        self.input_places: list[int] = []
        self.other_inputs: dict[int, Tensor] = {}  # tensors that ask for no gradient: the hooks see zeros for them
        self.n_outputs = 0
        self.output_places: list[int] = []

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_inputs = len(args)
        self.input_places = _differentiable_places(args)
        if not self.input_places:
            return args
        self.has_entry = True
        rest = set(range(len(args))) - set(self.input_places)
        self.other_inputs = {i: args[i] for i in sorted(rest) if isinstance(args[i], Tensor)}
        return _through(_Enter, self, args, self.input_places)

    def leave(self, out: Any) -> Any:
        alone = not isinstance(out, tuple)
        outputs = (out,) if alone else out
        self.n_outputs = len(outputs)
        self.output_places = _differentiable_places(outputs)
        if not self.output_places:
            return out
        outputs = _through(_Leave, self, outputs, self.output_places)
        return outputs[0] if alone else outputs

    def gradients_in(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the outputs have come."""
        grad_output = _spread(grads, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            grad_output = _replaced(hook(self.module, grad_output), grad_output, "backward pre hook", "grad_output")
        self.grad_output = grad_output
        if not self.has_entry:
            nothing = (None,) * self.n_inputs
            for hook in self.hooks:
                result = hook(self.module, nothing, grad_output)
                if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
            self.grad_output = None
        return tuple(grad_output[i] for i in self.output_places)

    def gradients_out(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the inputs have come."""
        if self.grad_output is None:  # a second derivative, which enters the module behind its output
            return grads
        grad_input = _spread(grads, self.input_places, self.n_inputs)
        for place, tensor in self.other_inputs.items():
            grad_input = (*grad_input[:place], zeros_like(tensor), *grad_input[place + 1 :])
        for hook in self.hooks:
            result = hook(self.module, grad_input, self.grad_output)
            grad_input = _replaced(result, grad_input, "backward hook", "grad_input")
        self.grad_output = None
        return tuple(grad_input[i] for i in self.input_places)


def _differentiable_places(values: Any) -> list[int]:
    if not is_grad_enabled():
        return []
    return [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]


def _through(node: type[Function], watch: _Watch, values: Any, places: list[int]) -> tuple[Any, ...]:
    passed = node.apply(watch, *(values[i] for i in places))
    values = list(values)
    for place, value in zip(places, passed, strict=True):
        values[place] = value
    return tuple(values)


def _spread(grads: tuple[Any, ...], places: list[int], length: int) -> tuple[Any, ...]:
    """The gradients at their places among all inputs or outputs, None elsewhere."""
    spread = [None] * length
    for place, grad in zip(places, grads, strict=True):
        spread[place] = grad
    return tuple(spread)


def _replaced(result: Any, current: tuple[Any, ...], kind: str, what: str) -> tuple[Any, ...]:
    if result is None:
        return current
    if not isinstance(result, tuple):
        result = (result,)
    if len(result) != len(current):
        raise RuntimeError(
            f"{kind} returned an invalid number of {what}, got {len(result)}, but expected {len(current)}"
        )
    return result


class _Leave(Function):
    """The identity on the outputs of a watched module."""

    @staticmethod
    def forward(ctx: Any, watch: _Watch, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, *ctx.watch.gradients_in(grads)


class _Enter(Function):
    """The identity on the differentiable inputs of a watched module."""

    @staticmethod
    def forward(ctx: Any, watch: _Watch, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.watch = watch
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, *ctx.watch.gradients_out(grads)
