"""The methods of pruning: hooks that hold elements or channels of a parameter at zero by a mask."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from ferro.core.layout import contiguous_format
from ferro.ops.likes import ones_like, zeros_like
from ferro.ops.matrix_norms import norm
from ferro.ops.order import topk
from ferro.ops.random import rand
from ferro.ops.random_likes import rand_like
from ferro.ops.selection import kthvalue
from ferro.tensor import Tensor

from ..modules.module import Module


class BasePruningMethod(ABC):
    """The hook of a pruned parameter: before each call sets it to `<name>_orig` times `<name>_mask`.

    A method says by `compute_mask` what the mask becomes, and by `PRUNING_TYPE` what a second method is shown: of
    "unstructured" the elements that are left, of "structured" the channels, of "global" all.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: Any = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for the scores `t`, which keeps the zeros of `default_mask`; of the same shape."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune the parameter `name`, once more if it is pruned already; the arguments are the constructor's."""
        method = _with_earlier(cls(*args, **kwargs), module, name)
        fresh = not isinstance(method, PruningContainer)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        if fresh:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            mask = ones_like(original)
        else:
            mask = getattr(module, name + "_mask").detach().clone(memory_format=contiguous_format)
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=mask))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if fresh:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor that is no module's."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        if default_mask is None:
            default_mask = ones_like(t)
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter, its zeros like other elements."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _with_earlier(method: BasePruningMethod, module: Module, name: str) -> BasePruningMethod:
    """The method, in a container behind the one that prunes `name` already, whose hook is taken off."""
    method._tensor_name = name
    found = [
        (id, hook)
        for id, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    if not found:
        return method
    ((id, earlier),) = found
    del module._forward_pre_hooks[id]
    container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, each on what the earlier ones left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Put one more method at the end; it must prune the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)  # type: ignore[operator]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What the last method makes of the part of the mask that it is shown."""
        method: Any = self._pruning_methods[-1]
        part = _shown(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(dtype=mask.dtype)
        return mask


def _shown(method: Any, t: Tensor, mask: Tensor) -> Any:
    """The index of what the earlier methods left for this one."""
    everything: list[Any] = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        dim = method.dim + t.dim() if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
        everything[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(everything)


class Identity(BasePruningMethod):
    """Prunes nothing: gives a parameter its mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


# The three functions below have PyTorch's names: methods that programs define use them.


def _validate_pruning_amount_init(amount: Any) -> None:
    """Refuse what is neither a number of units (an int) nor a fraction of them (a float)."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole, value = isinstance(amount, numbers.Integral), float(amount)
    if value < 0 or (value > 1 and not whole):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Refuse a number of units that is larger than `tensor_size`."""
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> Any:
    """The number of units that `amount` means of `tensor_size`."""
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


class _Amount(BasePruningMethod):
    """A method that prunes a number of units (an int) or a fraction of them (a float)."""

    amount: Any

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _number_of(self, units: int) -> int:
        _validate_pruning_amount(self.amount, units)
        return int(_compute_nparams_toprune(self.amount, units))


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        number = self._number_of(t.numel())
        mask = default_mask.clone(memory_format=contiguous_format)
        if number:
            mask.view(-1)[self._chosen(t, number)] = 0
        return mask

    def _chosen(self, t: Tensor, number: int) -> Tensor:
        """The flat indices of the elements to prune."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def _chosen(self, t: Tensor, number: int) -> Tensor:
        return topk(rand_like(t).view(-1), k=number).indices


class L1Unstructured(_Unstructured):
    """Prunes the elements of the smallest absolute values."""

    def _chosen(self, t: Tensor, number: int) -> Tensor:
        return topk(t.abs().reshape(-1), k=number, largest=False).indices


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        channels = t.shape[self.dim]
        number = self._number_of(channels)
        if not number:
            return default_mask
        mask = zeros_like(t)
        index: list[Any] = [slice(None)] * t.dim()
        index[self.dim] = self._kept(t, channels, number)
        mask[tuple(index)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def _kept(self, t: Tensor, channels: int, number: int) -> Tensor:
        """The channels to keep, as an index, if `number` of them go."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes channels along `dim` at random."""

    def _kept(self, t: Tensor, channels: int, number: int) -> Tensor:
        draws = rand(channels, device=t.device)
        return draws > kthvalue(draws, k=number).values


class LnStructured(_Structured):
    """Prunes the channels along `dim` of the smallest n-norms."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Tensor, channels: int, number: int) -> Tensor:
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        return topk(norm(t, p=self.n, dim=others), k=channels - number, largest=True).indices


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask of the user's."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)
