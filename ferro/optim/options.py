"""What the options of optimisers may be: the checks of their constructors."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

_LABELS = {"lr": "learning rate", "eps": "epsilon value"}


def check(holds: Any, label: str, value: Any) -> None:
    """Raise unless an option is within its limits."""
    if not holds:
        raise ValueError(f"Invalid {label}: {value}")


def should(holds: Any, sentence: str, value: Any) -> None:
    """Raise unless an option is as the sentence says: the words of the newer optimisers."""
    if not holds:
        raise ValueError(f"{sentence} but is: {value}")


def check_one_number(name: str, value: Any) -> None:
    """An option that is a tensor has one element."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element, got the shape {list(value.shape)}")


def check_not_negative(name: str, value: Any) -> None:
    """An option is one number that is not negative."""
    check_one_number(name, value)
    check(value >= 0.0, _LABELS.get(name, f"{name} value"), value)


def check_betas(betas: tuple[Any, ...]) -> None:
    """The decay rates of the Adam family are in [0, 1)."""
    for i, beta in enumerate(betas):
        check(0.0 <= beta < 1.0, f"beta parameter at index {i}", beta)


def check_switches(options: dict[str, Any]) -> None:
    """PyTorch's switches between implementations fit together: they are kept, most have no effect."""
    if options.get("fused"):
        if options.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        if options.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
