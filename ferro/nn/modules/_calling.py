"""Calling a module that has hooks: its own and those of all modules, and the two nodes that watch its gradients."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ferro.nn.modules._watching import _Watch
from ferro.tensor import Tensor

from ...utils.hooks import RemovableHandle


def add_hook(table: Any, handle: RemovableHandle, hook: Any, prepend: bool = False) -> RemovableHandle:
    """The handle, with the hook in the table: as the last one, or the first."""
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# -------------------------------------------------------------------- hooks of all modules

_global_registration_hooks: dict[str, OrderedDict[int, Callable[..., Any]]] = {
    kind: OrderedDict() for kind in ("buffer", "module", "parameter")
}
_GLOBAL_KIND: dict[str, bool] = {}  # "full": which of the two kinds `_global_backward_hooks` holds, once one was added


def _table(name: str) -> Any:
    """The table `_global_<name>`, which module.py holds: as in PyTorch, a program may put another in its place there."""
    return getattr(sys.modules[f"{__package__}.module"], f"_global_{name}")


def _add_global(name: str, hook: Callable[..., Any], **marks: bool) -> RemovableHandle:
    table = _table(name)
    handle = RemovableHandle(table, extra_dict=[_table(f"{name}_{mark}") for mark in marks])
    table[handle.id] = hook
    for mark, wanted in marks.items():
        if wanted:
            _table(f"{name}_{mark}")[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before `forward` of every module, and before the module's own pre hooks.

    >>> import ferro
    >>> from ferro.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(type(module).__name__)):
    ...     _ = ferro.nn.ReLU()(ferro.ones(1))
    ReLU
    """
    return _add_global("forward_pre_hooks", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after `forward` of every module, and before the module's own hooks.

    With `with_kwargs` it is called as `hook(module, args, kwargs, output)`; with `always_call` also when `forward`
    raised.
    """
    return _add_global("forward_hooks", hook, with_kwargs=with_kwargs, always_called=always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before gradients enter any module; it may return another grad_output."""
    return _add_global("backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` for every module, before the module's own backward hooks."""
    _use_global_backward_hooks(full=True)
    return _add_global("backward_hooks", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` with the gradients of the last node of every module.

    Deprecated in PyTorch, as `Module.register_backward_hook` is.
    """
    _use_global_backward_hooks(full=False)
    return _add_global("backward_hooks", hook)


def _use_global_backward_hooks(full: bool) -> None:
    if _GLOBAL_KIND.setdefault("full", full) is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered; what it returns, unless None, takes its place."""
    return _add_registration("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a module is registered; what it returns, unless None, takes its place."""
    return _add_registration("module", hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` whenever a parameter is registered; what it returns, unless None, takes its place."""
    return _add_registration("parameter", hook)


def _add_registration(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    table = _global_registration_hooks[kind]
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the registration hooks of `kind` make of a value that `module` is about to register."""
    for hook in list(_global_registration_hooks[kind].values()):
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


# -------------------------------------------------------------------- a call


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pre hooks, `forward`, forward hooks, global ones first; around them, if there are backward hooks, the boundary nodes."""
    pending = {hook.id: hook for hook in _forward_hooks(module) if hook.always}
    out = None
    try:
        args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
        full, regular = _backward_hooks(module)
        pre_hooks = [*_table("backward_pre_hooks").values(), *module._backward_pre_hooks.values()]
        watch = None
        if full or pre_hooks:
            watch = _Watch(module, full, pre_hooks)
            args = watch.enter(args)
        out = module.forward(*args, **kwargs)
        for hook in _forward_hooks(module):
            pending.pop(hook.id, None)
            out = hook.run(module, args, kwargs, out)
        if watch is not None:
            out = watch.leave(out)
        if regular:
            _watch_last_node(module, regular, args, out)
        return out
    except Exception:
        _run_always_called(module, pending, args, kwargs, out)
        raise


class _ForwardHook(NamedTuple):
    id: int
    function: Callable[..., Any]
    with_kwargs: bool
    always: bool
    scope: str  # how warnings call it

    def run(self, module: Any, args: Any, kwargs: Any, out: Any) -> Any:
        extra = (kwargs,) if self.with_kwargs else ()
        result = self.function(module, args, *extra, out)
        return out if result is None else result


def _forward_hooks(module: Any) -> list[_ForwardHook]:
    tables = (
        ("global ", *[_table(f"forward_hooks{mark}") for mark in ("", "_with_kwargs", "_always_called")]),
        ("", module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
    )
    return [
        _ForwardHook(id, hook, id in with_kwargs, id in always, scope)
        for scope, hooks, with_kwargs, always in tables
        for id, hook in hooks.items()
    ]


def _backward_hooks(module: Any) -> tuple[list[Any], list[Any]]:
    """The full backward hooks, and the regular ones."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for table, full in (
        (_table("backward_hooks"), _GLOBAL_KIND.get("full")),
        (module._backward_hooks, module._is_full_backward_hook),
    ):
        found[0 if full else 1].extend(table.values())
    return found


def _run_forward_pre_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    for id, hook in (*_table("forward_pre_hooks").items(), *module._forward_pre_hooks.items()):
        if id in module._forward_pre_hooks_with_kwargs:
            result = hook(module, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
                )
            args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _run_always_called(module: Any, pending: dict[int, Any], args: Any, kwargs: Any, out: Any) -> None:
    """After an exception: the hooks registered with `always_call` that have not run. Theirs must not hide the first."""
    for hook in pending.values():
        try:
            out = hook.run(module, args, kwargs, out)
        except Exception as error:  # noqa: BLE001 - the error that is being raised already matters more
            warnings.warn(
                f"{hook.scope}module forward hook with ``always_call=True`` raised an exception that was silenced as "
                f"another error was raised in forward: {error}",
                stacklevel=4,
            )


def _watch_last_node(module: Any, hooks: list[Any], args: Any, out: Any) -> None:
    """Hang the regular backward hooks on the node of the first tensor of the output; warn where that misses something."""
    first = out
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(partial(hook, module))
    missed = _missed_by_the_last_node(node, args, out)
    if missed:
        warnings.warn(
            f"Using {missed} Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _missed_by_the_last_node(node: Any, args: Any, out: Any) -> str | None:
    """What a hook on the last node of a module cannot see, in PyTorch's words; None if it sees all."""
    outputs, inputs = ((v,) if isinstance(v, Tensor) else v for v in (out, args))
    for values, kind, what in (
        (outputs, "return a single Tensor", "grad_output"),
        (inputs, "take as input a single Tensor", "grad_input"),
    ):
        if not (isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values)):
            return (
                f"non-full backward hooks on a Module that does not {kind} or a tuple of Tensors is deprecated and "
                f"will be removed in future versions. This hook will be missing some of the {what}."
            )
    start = "a non-full backward hook when"
    end = "is deprecated and will be removed in future versions. This hook will be missing some"
    nodes = {v.grad_fn for v in outputs if v.grad_fn is not None}
    if len(nodes) > 1:
        return f"{start} outputs are generated by different autograd Nodes {end} grad_output."
    if node not in nodes:
        return f"{start} outputs are nested in python data structure {end} grad_output."
    if {v.grad_fn for v in inputs if v.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return f"{start} the forward contains multiple autograd Nodes {end} grad_input."
    return None
