"""The xp of Tensors: every function that a derivative formula may call, computing on Tensors and recording."""

from ferro.core import worlds
from ferro.ops.arithmetic import *
from ferro.ops.comparison import *
from ferro.ops.complex import *
from ferro.ops.complex import as_complex
from ferro.ops.creation import *
from ferro.ops.einsum import *
from ferro.ops.einsum import contract
from ferro.ops.exponential import *
from ferro.ops.extrema import *
from ferro.ops.extrema import tie_weights, value_gather, value_scatter
from ferro.ops.products import *
from ferro.ops.products import linear
from ferro.ops.norms import *
from ferro.ops.norms import vector_norm
from ferro.ops.reductions import *
from ferro.ops.scans import *
from ferro.ops.scans import affine_scan, cumprod_others, picked_sum, prod_others, shift
from ferro.ops.rounding import *
from ferro.ops.shape import *
from ferro.ops.shape import expand
from ferro.ops.structure import *
from ferro.ops.trigonometric import *

__all__ = [name for name in dir() if not name.startswith("_")]


def _register() -> None:
    import sys

    worlds.functional = sys.modules[__name__]


_register()
_ = (as_complex, contract, linear, expand, tie_weights, value_gather, value_scatter, vector_norm, affine_scan, cumprod_others, picked_sum, prod_others, shift)
