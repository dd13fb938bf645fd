"""Steps of SGD and Adam over whole lists of parameters: one launch for all of one dtype.

A block has 4,096 elements of one parameter; a table on the GPU says which, and where its arrays lie. The table is kept as long as
the arrays lie where they lay. Bytes of Adam: four arrays read, three written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.steps import adam_numbers
from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import FLOATS, text_of
from ferro.cuda.driver import cupy
from ferro.cuda.pinned import from_pinned, pinned

__all__ = ["adam_steps", "sgd_steps", "table_of", "takes_steps"]

ARRAYS = 5  # of a parameter, in the table: itself, gradient, and three of state, 0 where there is none
EACH = 16  # elements of a thread

TEXT = """
// table: of each block the number of its parameter and of its first element; behind these, from `parameters` on, of each parameter
// the addresses of five arrays and its size.
struct Part {
  S *p, *m, *v, *top;
  const S* g;
  place begin, end;
  __device__ Part(const place* table, place parameters) {
    const place* row = table + parameters + table[2 * blockIdx.x] * 6;
    p = (S*)row[0], g = (const S*)row[1], m = (S*)row[2], v = (S*)row[3], top = (S*)row[4];
    begin = table[2 * blockIdx.x + 1];
    end = begin + 4096 < row[5] ? begin + 4096 : row[5];
    begin += threadIdx.x;
  }
};
KERNEL adam_steps(place parameters, double size, double beta1, double beta2, double eps, double decay, double shrink,
                  const place* table) {
  const Part part(table, parameters);
  for (place i = part.begin; i < part.end; i += blockDim.x) {
    T p = load(part.p[i]) * T(shrink), m = load(part.m[i]), v = load(part.v[i]);
    const T g = load(part.g[i]) + T(decay) * p;
    m += (g - m) * T(1 - beta1);
    v = v * T(beta2) + g * g * T(1 - beta2);
    store(part.m + i, m);
    store(part.v + i, v);
    if (part.top) {
      v = larger(load(part.top[i]), v);
      store(part.top + i, v);
    }
    store(part.p + i, p - m / (sqrt(v) + T(eps)) * T(size));
  }
}
KERNEL sgd_steps(place parameters, double lr, double momentum, double dampening, double decay, place nesterov, place first,
                 const place* table) {
  const Part part(table, parameters);
  for (place i = part.begin; i < part.end; i += blockDim.x) {
    const T p = load(part.p[i]);
    T d = load(part.g[i]) + T(decay) * p;
    if (part.m) {
      const T b = first ? d : load(part.m[i]) * T(momentum) + d * T(1 - dampening);
      store(part.m + i, b);
      d = nesterov ? d + b * T(momentum) : b;
    }
    store(part.p + i, p - d * T(lr));
  }
}
"""


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def takes_steps(*arrays: Any) -> bool:
    """Whether kernels change arrays of one shape and dtype (None where there is none) in place."""
    x = arrays[0]
    if x.dtype.name not in FLOATS:
        return False
    return all(
        a is None or (type(a) is type(x) and a.shape == x.shape and a.dtype == x.dtype and a.flags.c_contiguous)
        for a in arrays
    )


@lru_cache(maxsize=64)
def _table(rows: tuple, stream: int) -> tuple[int, Any]:
    """The number of blocks, and the table, which a stream has copied."""
    blocks, table = _numbers(rows)
    return blocks, cupy().asarray(table)


def _numbers(rows: tuple) -> tuple[int, np.ndarray]:
    where = [(k, begin) for k, row in enumerate(rows) for begin in range(0, row[-1], THREADS * EACH)]
    return len(where), np.array([*sum(where, ()), *sum(rows, ())], np.int64)


def table_of(rows: tuple) -> tuple[int, Any]:
    """The number of blocks, and the table: of each block its row and first element, then the rows, whose last number is a size.

    While a CUDA graph is recorded it is copied from pinned memory, which is kept for the replays.
    """
    current = cupy().cuda.get_current_stream()
    if not current.is_capturing():
        return _table(rows, current.ptr)
    blocks, table = _numbers(rows)
    _RECORDED.append(pinned(table))
    return blocks, from_pinned(_RECORDED[-1])


_RECORDED: list[np.ndarray] = []


def _start(name: str, lists: Sequence[tuple], *numbers: Any) -> None:
    of: dict[str, list] = {}
    for arrays in lists:
        if arrays[0].size:
            of.setdefault(arrays[0].dtype.name, []).append(arrays)
    for dtype, some in of.items():
        rows = tuple(
            [
                (*[0 if a is None else a.data.ptr for a in arrays], *[0] * (ARRAYS - len(arrays)), arrays[0].size)
                for arrays in some
            ]
        )
        blocks, table = table_of(rows)
        launch(text_of(TEXT, dtype), name, (blocks,), (THREADS,), 2 * blocks, *numbers, table)


def adam_steps(lists: Sequence[tuple], *numbers: Any) -> None:
    """`ferro.cpu.adam_step` of each (param, grad, mean, square, largest or None)."""
    _start("adam_steps", lists, *adam_numbers(*numbers))


def sgd_steps(
    lists: Sequence[tuple],
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    first: bool,
) -> None:
    """`ferro.cpu.sgd_step` of each (param, grad, buffer or None)."""
    numbers = [float(v) for v in (lr, momentum, dampening, weight_decay)]
    _start("sgd_steps", lists, *numbers, int(nesterov), int(first))
