"""Which algorithms `scaled_dot_product_attention` may take."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ferro.ops.attention_choice import SDPBackend, only

__all__ = ["SDPBackend", "sdpa_kernel"]


def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> AbstractContextManager[None]:
    """For a while `scaled_dot_product_attention` may take these algorithms only; also a decorator.

    ferro computes the same for all of them, and refuses what PyTorch's would refuse on the CPU.  Like PyTorch's, the
    switches are those of the process.  `set_priority` (their order counts) makes no difference on the CPU.

    Raises:
        AssertionError: if `backends` is neither an SDPBackend nor a list of them.

    Example::

        >>> import ferro
        >>> from ferro.nn.attention import SDPBackend, sdpa_kernel
        >>> x = ferro.ones(1, 1, 2, 2)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     ferro.nn.functional.scaled_dot_product_attention(x, x, x).shape
        ferro.Size([1, 1, 2, 2])
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, list) or not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}: {backends!r}"
        )
    return only(set(given) - {SDPBackend.ERROR})
