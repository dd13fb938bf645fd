"""ferro: eager, tape-based automatic differentiation for Python with PyTorch's API, on NumPy, Numba and CuPy."""

from ferro.tensor import Tensor  # isort: skip (the submodule's name must be taken before the function `tensor` is)
from ferro._version import __version__
from ferro import autograd, func, linalg
from ferro.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from ferro.core.dtypes import bool_ as bool
from ferro.core.dtypes import (bfloat16, complex64, complex128, dtype, finfo, float16, float32, float64,
                               get_default_dtype, iinfo, int8, int16, int32, int64, promote_types, set_default_dtype, uint8)  # fmt: skip
from ferro.ops.arithmetic import *
from ferro.core.device import device
from ferro.core.mode import is_grad_enabled, is_inference_mode_enabled
from ferro.core.random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from ferro.core import forward as _forward
from ferro.core import parallel as _parallel
from ferro.core import return_types
from ferro.core.size import Size
from ferro.cpu.threads import get_num_threads, set_num_threads
from ferro.ops.comparison import *
from ferro.ops.complex import *
from ferro.ops.creation import *
from ferro.ops.einsum import *
from ferro.ops.exponential import *
from ferro.ops.extrema import *
from ferro.ops.products import *
from ferro.ops.norms import *
from ferro.ops.random import *
from ferro.ops.reductions import *
from ferro.ops.scans import *
from ferro.ops.rounding import *
from ferro.ops.shape import *
from ferro.ops.trigonometric import *
from ferro.ops.creation import range_ as range
from ferro.printing import get_printoptions, set_printoptions
from ferro import functional as _functional

# PyTorch's other names of the dtypes
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128
