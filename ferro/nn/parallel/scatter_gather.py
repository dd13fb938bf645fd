"""scatter and gather: tensors to and from several GPUs, of which there are none; other arguments, once for each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """The arguments for each of several devices: a list of tuples, lists and dicts as `inputs`, with its own objects inside.

    Tensors would be cut along `dim`; that needs GPUs: ValueError, as in PyTorch for the CPU.

    >>> from ferro.nn.parallel.scatter_gather import scatter
    >>> scatter({"scale": 2}, ["cpu", "cpu"])
    [{'scale': 2}, {'scale': 2}]
    """
    if isinstance(inputs, Tensor):
        raise ValueError(
            f"Expected a non cpu device, but got: {inputs.device}: scatter divides a tensor among GPUs, and ferro computes on "
            "the CPU; call the module itself"
        )
    if isinstance(inputs, (tuple, list)) and inputs:
        columns = zip(*(scatter(x, target_gpus, dim) for x in inputs), strict=True)
        return [type(inputs)(*c) if hasattr(inputs, "_fields") else type(inputs)(c) for c in columns]  # type: ignore[arg-type]
    if isinstance(inputs, dict) and inputs:
        keys, parts = list(inputs), [scatter(x, target_gpus, dim) for x in inputs.values()]
        return [type(inputs)(zip(keys, column, strict=True)) for column in zip(*parts, strict=True)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: tuple, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Positional and named arguments for each of several devices: two tuples of the same length."""
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    positional += [()] * (len(named) - len(positional))
    named += [{}] * (len(positional) - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Joins what several GPUs computed; AssertionError, as in PyTorch for tensors on the CPU."""
    raise AssertionError("Gather function not implemented for CPU tensors: use cat(outputs, dim)")
