"""Modules as functions of their parameters: functional_call, stack_module_state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ferro.core.history import history
from ferro.ops.joining import stack


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with the given tensors in the place of its parameters and buffers.

    - `module` (Module): stays as it is
    - `parameter_and_buffer_dicts` (dict, or several with distinct names): tensors by name; what is not named keeps its
      own
    - `args` (tuple, default None): the arguments; anything but a tuple is the only one
    - `kwargs` (dict, default None): the keyword arguments
    - `tie_weights` (bool, default True): a tensor given for one of several names of the same parameter is taken for all
      of them; two different ones are a ValueError
    - `strict` (bool, default False): True raises RuntimeError for missing and unknown names

    The forward's result comes back; what forward assigns to a parameter or buffer shows in the dictionary.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.Linear(2, 1)
        >>> new = {"weight": ferro.tensor([[1.0, 2.0]]), "bias": ferro.zeros(1)}
        >>> ferro.func.functional_call(layer, new, ferro.tensor([3.0, 4.0])).detach()
        tensor([11.])
    """
    given = _merged(parameter_and_buffer_dicts)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with exchanged(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Any) -> dict:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"functional_call: expected parameter_and_buffer_dicts to be a dictionary or a sequence of them, got "
            f"{type(dicts).__name__}"
        )
    merged: dict = {}
    for d in dicts:
        if not isinstance(d, dict):
            raise ValueError(
                f"functional_call: expected all elements of parameter_and_buffer_dicts to be dictionaries, got "
                f"{type(d).__name__}"
            )
        repeated = sorted(merged.keys() & d.keys())
        if repeated:
            raise ValueError(
                f"functional_call: {repeated} appear in several of the dictionaries; which one counts is unclear"
            )
        merged.update(d)
    return merged


def _tied(module: Any, given: dict) -> dict:
    """`given`, with each tensor also under the other names of the parameter or buffer it stands for."""
    names: dict[int, list[str]] = {}
    for name, tensor in _named(module):
        names.setdefault(id(tensor), []).append(name)
    full = dict(given)
    for group in names.values():
        present = [n for n in group if n in given]
        if len({id(given[n]) for n in present}) > 1:
            raise ValueError(
                f"functional_call: got different tensors for {sorted(present)}, which are one parameter of the "
                "module; give the same, or tie_weights=False"
            )
        if present:
            full.update(dict.fromkeys(group, given[present[0]]))
    return full


def _named(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


@contextmanager
def exchanged(module: Any, given: dict, tie_weights: bool, strict: bool) -> Iterator[None]:
    """The tensors in their places inside, the module's own again afterwards."""
    new = _tied(module, given) if tie_weights else given
    if strict:
        known = {name for name, _ in _named(module)}
        unknown, missing = sorted(new.keys() - known), sorted(known - new.keys())
        if unknown or missing:
            raise RuntimeError(
                f"functional_call: the tensors do not fit {type(module).__name__}: unexpected {unknown}, missing "
                f"{missing}"
            )
    before: list = []
    try:
        for name, tensor in new.items():
            place = _place(module, name)
            if place is not None:
                table, key = place
                before.append((name, table, key, table[key]))
                table[key] = tensor
        yield
    finally:
        for name, table, key, own in reversed(before):
            if name in given:
                given[name] = table[key]
            table[key] = own


def _place(module: Any, name: str) -> tuple[dict, str] | None:
    """The table of a module, and the key in it, where the parameter or buffer of that name is."""
    *path, key = name.split(".")
    owner = module
    for part in path:
        owner = owner._modules.get(part)
        if owner is None:
            return None
    for table in (owner._parameters, owner._buffers):
        if key in table:
            return table, key
    return None


def stack_module_state(models: Any) -> tuple[dict, dict]:
    """The parameters and the buffers of modules of one class, stacked along a new first dimension: two dictionaries.

    The stacked parameters are new leaves that require grad if the modules' own do.  RuntimeError if the modules differ
    in class or in training mode, or if there are none.

    Example::

        >>> import ferro
        >>> params, buffers = ferro.func.stack_module_state([ferro.nn.Linear(2, 3) for _ in range(4)])
        >>> params["weight"].shape, buffers
        (ferro.Size([4, 3, 2]), {})
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(m.training) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError(
            f"stack_module_state: Expected all models to be of the same class, got {sorted({type(m).__name__ for m in models})}"
        )
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return _stacked(parameters), _stacked(buffers)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Makes all batch norms of a module forget their running statistics, in place; returns the module.

    They then normalise by the statistics of the batch, and have no buffers to be changed in place, as vmap and
    functional_call want it.

    Example::

        >>> import ferro
        >>> net = ferro.nn.Sequential(ferro.nn.Linear(2, 3), ferro.nn.BatchNorm1d(3))
        >>> dict(ferro.func.replace_all_batch_norm_modules_(net).named_buffers())
        {}
    """
    for module in root.modules():
        # (by name: this package lies below ferro.nn)
        if any(c.__name__ == "_BatchNorm" for c in type(module).__mro__) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def _stacked(states: list[dict]) -> dict:
    return {name: _leaf(name, [s[name] for s in states]) for name in states[0]}


def _leaf(name: str, tensors: list) -> Any:
    """The tensors stacked, as a leaf."""
    need = {history(t) is not None for t in tensors}
    if len(need) > 1:
        raise RuntimeError(f"stack_module_state: Expected {name} from each model to have the same .requires_grad")
    stacked = stack(tensors).detach()
    return stacked.requires_grad_() if need.pop() else stacked
