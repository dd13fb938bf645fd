"""Strict mode: likely mistakes that PyTorch lets pass are errors. The switch; what looks for mistakes asks it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NoReturn

_STRICT: ContextVar[bool] = ContextVar("ferro_strict", default=False)


def is_strict() -> bool:
    """Whether likely mistakes are errors in this context."""
    return _STRICT.get()


class set_strict:
    """Makes likely mistakes errors, from the call on or for a block, in this context (a thread, an asyncio task).

    RuntimeError says what was found, and the remedy:

    1. a loss whose input and target have different shapes, which would broadcast (`mse_loss`, `l1_loss`, `smooth_l1_loss`,
       `huber_loss`, `poisson_nll_loss`, `gaussian_nll_loss`, `kl_div`, `soft_margin_loss`, `margin_ranking_loss`,
       `hinge_embedding_loss`);
    2. `cross_entropy` of probabilities, where it wants logits: rows that are not negative and sum to 1;
    3. `nll_loss` or `kl_div` of numbers above 0, where they want log-probabilities;
    4. `binary_cross_entropy` and `binary_cross_entropy_with_logits` with targets below 0 or above 1;
    5. `optimizer.step()` while no parameter has a gradient;
    6. `optimizer.step()` with gradients that the step before has used already, since `zero_grad()` was not called (zeros
       written by hand, `p.grad.zero_()`, count as that).

    A closure given to `step` is not looked at. Values of slices inside `vmap` are not looked at.

    Example::

        >>> import ferro
        >>> with ferro.set_strict(True):
        ...     ferro.nn.functional.mse_loss(ferro.zeros(3, 1), ferro.zeros(3))
        Traceback (most recent call last):
          ...
        RuntimeError: mse_loss: Using a target size ([3]) that is different to the input size ([3, 1]). ...
    """

    __slots__ = ("before",)

    def __init__(self, mode: bool = True) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_strict(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.before = _STRICT.get()
        _STRICT.set(mode)

    def __enter__(self) -> set_strict:
        return self

    def __exit__(self, *exc: object) -> None:
        _STRICT.set(self.before)


def refuse(text: str) -> NoReturn:
    """Raises the error of strict mode."""
    raise RuntimeError(f"{text} (An error in strict mode: see set_strict)")
