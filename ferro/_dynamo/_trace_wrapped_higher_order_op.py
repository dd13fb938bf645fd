"""The one name of PyTorch's module that libraries import from it: indexing by numbers that are tensors, under `vmap`."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext):
    """In this context PyTorch's `vmap` takes ``a[i]`` with a tensor `i` of no dimensions; ferro's always does.

    >>> import ferro
    >>> from ferro._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    >>> a = ferro.tensor([5, 6, 7])
    >>> with TransformGetItemToIndex():
    ...     ferro.vmap(lambda i: a[i])(ferro.tensor([2, 0]))
    tensor([7, 5])
    """
