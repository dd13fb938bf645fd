"""ferro.array_api: the array-API standard, version 2024.12, over ferro's tensors (https://data-apis.org/array-api/2024.12).

Programs that are written for any array library (``xp = x.__array_namespace__()``) get tensors and gradients from it.  Names,
defaults and type promotion are those of the standard; the arrays are ferro's tensors, with PyTorch's methods and operators,
which differ from it in the points that docs/array_api.md lists.

Example::

    >>> import ferro
    >>> x = ferro.tensor([3.0, 4.0], requires_grad=True)
    >>> xp = x.__array_namespace__()
    >>> xp.sqrt(xp.sum(xp.square(x), axis=0, keepdims=True)).backward()
    >>> x.grad
    tensor([0.6000, 0.8000])
"""

from math import e, inf, nan, pi

from ferro.array_api import fft, linalg
from ferro.array_api._arrays import (
    arange,
    argsort,
    asarray,
    astype,
    broadcast_arrays,
    broadcast_to,
    can_cast,
    concat,
    empty,
    empty_like,
    expand_dims,
    eye,
    finfo,
    flip,
    from_dlpack,
    full,
    full_like,
    iinfo,
    isdtype,
    linspace,
    meshgrid,
    moveaxis,
    nonzero,
    ones,
    ones_like,
    permute_dims,
    repeat,
    reshape,
    roll,
    searchsorted,
    sort,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    tril,
    triu,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
    where,
    zeros,
    zeros_like,
)
from ferro.array_api._elementwise import FUNCTIONS as _FUNCTIONS
from ferro.array_api._info import DTYPES as _DTYPES
from ferro.array_api._info import __array_namespace_info__
from ferro.array_api._promotion import result_type
from ferro.array_api._statistics import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    matmul,
    matrix_transpose,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    tensordot,
    var,
    vecdot,
)

newaxis = None
__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

globals().update(_FUNCTIONS)
globals().update(_DTYPES)

__all__ = [name for name in dir() if not name.startswith("_") and name != "VERSIONS"]
