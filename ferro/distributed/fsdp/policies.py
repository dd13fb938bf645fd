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
    """Parts lie in the memory of the host, where ferro has them in any case.

    - `pin_memory` (bool, default True): no effect
    """

    pin_memory: bool = True
