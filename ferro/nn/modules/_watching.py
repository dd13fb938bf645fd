"""The two nodes that watch the gradients of a call of a module, for its backward hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ferro.autograd import Function
from ferro.core.mode import is_grad_enabled
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor


class _Watch:
    """One call of a module with backward hooks: an identity node on each side, and what flowed through them.

    Gradients reach the leaving node first: there the pre hooks run and `grad_output` is kept. When they reach the
    entering node, `grad_input` is known and the hooks run. If no input asks for a gradient there is no entering node,
    and the hooks run at once with None for every input.
    """

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
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
        return _through(self.gradients_out, False, args, self.input_places)

    def leave(self, out: Any) -> Any:
        alone = not isinstance(out, tuple)
        if alone and not isinstance(out, Tensor):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(out)}",
                stacklevel=4,
            )
        outputs = (out,) if alone else out
        self.n_outputs = len(outputs)
        self.output_places = _differentiable_places(outputs)
        if not self.output_places:
            return out
        outputs = _through(self.gradients_in, True, outputs, self.output_places)
        return outputs[0] if alone else outputs

    def gradients_in(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the outputs have come."""
        grad_output = _spread(grads, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            grad_output = _replaced(hook(self.module, grad_output), grad_output, "backward pre hook", "grad_output")
        self.grad_output = grad_output
        if not self.has_entry:
            nothing = (None,) * self.n_inputs
            if self.hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    f"inputs require gradients. (The module is a {type(self.module).__name__}.)",
                    stacklevel=2,
                )
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


def _through(take: Callable[..., Any], absent: bool, values: Any, places: list[int]) -> tuple[Any, ...]:
    """The values behind a node; `absent`: gradients that do not come are None for it, not zeros."""
    passed = BackwardHookFunction.apply(take, absent, *(values[i] for i in places))
    kind, values = type(values), list(values)
    for place, value in zip(places, passed, strict=True):
        values[place] = value
    return kind(*values) if hasattr(kind, "_fields") else tuple(values)


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


class BackwardHookFunction(Function):
    """The identity on one side of a watched module: hands the gradients to `take`, and passes on what that returns."""

    @staticmethod
    def forward(ctx: Any, take: Callable[..., Any], absent: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.take = take
        ctx.set_materialize_grads(not absent)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, None, *ctx.take(grads)
