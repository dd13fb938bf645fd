"""Pruning: functions that hold elements or channels of a parameter at zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ferro.ops.likes import ones_like
from ferro.tensor import Tensor

from ..modules.module import Module
from .convert_parameters import parameters_to_vector
from .prune_methods import (  # noqa: F401 (private names that PyTorch has here)
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
)

# Errors, pickles and help() name them where PyTorch has them.
for _method in (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
):
    _method.__module__ = __name__

M = TypeVar("M", bound=Module)


def identity(module: M, name: str) -> M:
    """Give a parameter the mask of a pruned one, without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Any) -> M:
    """Prune a number (int) or fraction (float) of the elements of a parameter at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: Any, importance_scores: Tensor | None = None) -> M:
    """Prunes the elements of a parameter with the smallest absolute values, or scores.

    - `module` (Module): changed in place, and returned
    - `name` (str): the parameter's name
    - `amount` (int or float): how many, or which share; ValueError if that is too many
    - `importance_scores` (Tensor, default None): in place of the absolute values, in the shape of the parameter

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.prune import l1_unstructured
        >>> layer = l1_unstructured(ferro.nn.Linear(4, 1), "weight", amount=3)
        >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
        (3, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Any, dim: int) -> M:
    """Prunes channels at random.

    - `module` (Module): changed in place, and returned
    - `name` (str): the parameter's name
    - `amount` (int or float): how many channels, or which share; ValueError if that is too many
    - `dim` (int): the dimension of the channels

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.prune import random_structured
        >>> layer = random_structured(ferro.nn.Linear(4, 3), "weight", amount=2, dim=0)
        >>> int((layer.weight == 0).all(dim=1).sum())
        2
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None) -> M:
    """Prunes the channels with the smallest n-norms.

    - `module` (Module): changed in place, and returned
    - `name` (str): the parameter's name
    - `amount` (int or float): how many channels, or which share; ValueError if that is too many
    - `n` (int, float, or 'fro', 'nuc'): the exponent of the norm
    - `dim` (int): the dimension of the channels
    - `importance_scores` (Tensor, default None): in place of the elements, in the shape of the parameter

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.prune import ln_structured
        >>> layer = ln_structured(ferro.nn.Linear(4, 3), "weight", amount=2, n=2, dim=0)
        >>> int((layer.weight == 0).all(dim=1).sum())
        2
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune the elements of a parameter where `mask` is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs (module, name), as if they were one.

    `pruning_method` must be unstructured, `importance_scores` is a dictionary with the pairs as keys.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    tensors = [getattr(module, name) for module, name in pairs]
    joined = parameters_to_vector([scores.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)])
    masks = [
        getattr(module, name + "_mask", ones_like(tensor))
        for (module, name), tensor in zip(pairs, tensors, strict=True)
    ]
    container = PruningContainer(method)
    mask = container.compute_mask(joined, parameters_to_vector(masks))
    sizes = [tensor.numel() for tensor in tensors]
    for (module, name), tensor, part in zip(pairs, tensors, mask.split(sizes), strict=True):
        custom_from_mask(module, name, mask=part.view_as(tensor))


def remove(module: M, name: str) -> M:
    """Make pruning permanent: the parameter keeps its zeros and loses its mask; ValueError if it is not pruned."""
    for id, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[id]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
