"""The xp of Tensors: every function that a derivative formula may call, computing on Tensors and recording."""

from ferro.core import worlds
from ferro.ops.arithmetic import *
from ferro.ops.complex import *
from ferro.ops.creation import *
from ferro.ops.extrema import *
from ferro.ops.extrema import tie_weights, value_gather, value_scatter
from ferro.ops.reductions import *
from ferro.ops.shape import *
from ferro.ops.shape import expand
from ferro.ops.structure import *

__all__ = [name for name in dir() if not name.startswith("_")]


def _register() -> None:
    import sys

    worlds.functional = sys.modules[__name__]


_register()
_ = (expand, tie_weights, value_gather, value_scatter)
