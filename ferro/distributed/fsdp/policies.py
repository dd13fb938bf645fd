"""In which dtypes parameters are gathered and gradients reduced, and where parts lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of a module that is sharded.

    - `param_dtype` (dtype, default None): parameters are gathered in it, and forward and backward compute in it; None is their own
    - `reduce_dtype` (dtype, default None): gradients are reduced in it; None is `param_dtype`
    - `output_dtype` (dtype, default None): floating results of forward are cast to it
    - `cast_forward_inputs` (bool, default True): floating inputs are cast to `param_dtype`

    The parts that the optimiser steps keep their dtype, and so do their gradients.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts lie where they are: nothing to say."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts, their gradients and what the optimiser keeps lie in the memory of the processor, which steps them; layers compute on the GPU.

    - `pin_memory` (bool, default True): no effect: copies between the two are waited for

    `full_tensor` and `clip_grad_norm_` then exchange tensors of the processor: the group needs both, "cpu:mpi,cuda:nccl".
    """

    pin_memory: bool = True
