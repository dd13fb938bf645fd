"""Which kernels round otherwise than the NumPy formulas that answer where they are not on disk: `python bench/rounding.py`.

Every function is called in two processes, with FERRO_KERNELS=wait and =off, on the same numbers. Printed are the share of
the results that differ, and the largest difference, relative to the largest result.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def calls() -> dict[str, Callable[[Any, Any, Any], Any]]:
    """Functions of a matrix, of images and of positive numbers."""
    import ferro
    from ferro.nn import functional

    def pointwise(f: Any) -> Any:
        return lambda x, _, __: f(x)

    def positive(f: Any) -> Any:
        return lambda _, __, y: f(y)

    def along(f: Any, dim: int) -> Any:
        return lambda x, _, y: f(y if f in reductions else x, dim)

    one = "sigmoid silu mish softplus gelu elu logsigmoid hardswish hardsigmoid hardtanh relu leaky_relu hardshrink softshrink"
    found: dict[str, Any] = {name: pointwise(getattr(functional, name)) for name in one.split()}
    found |= {name: positive(getattr(ferro, name)) for name in ("erf", "exp", "sin", "cos", "tanh", "rsqrt")}
    reductions = [ferro.sum, ferro.mean, ferro.var, ferro.prod, ferro.amax]
    rows = [ferro.softmax, ferro.log_softmax, ferro.logsumexp, ferro.cumsum, ferro.cumprod, ferro.logcumsumexp]
    found |= {f"{f.__name__} ({dim})": along(f, dim) for f in (*rows, *reductions) for dim in (0, 1)}
    found |= {f.__name__: positive(f) for f in reductions[:4]}
    found |= {
        "norm": lambda x, _, __: ferro.linalg.vector_norm(x),
        "remainder": lambda x, _, y: ferro.remainder(x, y),
        "fmod": lambda x, _, y: ferro.fmod(x, y),
        "hypot": lambda x, _, y: ferro.hypot(x, y),
        "lerp": lambda x, _, y: ferro.lerp(x, y, 0.3),
        "addcmul": lambda x, _, y: ferro.addcmul(x, x, y, value=0.3),
        "layer_norm": lambda x, _, __: functional.layer_norm(x, x.shape[1:]),
        "batch_norm": lambda _, z, __: functional.batch_norm(z, None, None, training=True),
        "group_norm": lambda _, z, __: functional.group_norm(z, 4),
        "conv2d": lambda _, z, __: functional.conv2d(z, z[:, :, :3, :3], padding=1),
        "conv2d (stride 2)": lambda _, z, __: functional.conv2d(z, z[:, :, :3, :3], stride=2),
        "max_pool2d": lambda _, z, __: functional.max_pool2d(z, 2),
        "avg_pool2d": lambda _, z, __: functional.avg_pool2d(z, 2),
        "interpolate": lambda _, z, __: functional.interpolate(z, scale_factor=1.5, mode="bilinear"),
        "cross_entropy": lambda x, _, __: functional.cross_entropy(x, ferro.arange(len(x)) % x.shape[1]),
        "mse_loss": lambda x, _, y: functional.mse_loss(x, y),
        "huber_loss": lambda x, _, y: functional.huber_loss(x, y),
        "bce_with_logits": lambda x, _, y: functional.binary_cross_entropy_with_logits(x, y.clamp(max=1)),
        "attention": lambda x, _, y: functional.scaled_dot_product_attention(*[x.reshape(8, -1, 64)] * 3),
        "matmul": lambda x, _, y: x @ y.T,
        "matrix times vector": lambda x, _, y: x @ y[0],
        "solve": lambda x, _, y: ferro.linalg.solve(x[:, :200], y[:, :3]),
        "solve_triangular": lambda x, _, y: ferro.linalg.solve_triangular(
            x[:, :200].tril() + 20 * ferro.eye(200, dtype=x.dtype), y[:, :3], upper=False
        ),
        "sort": lambda x, _, __: ferro.sort(x, 1)[0],
        "gather": lambda x, _, __: ferro.gather(x, 1, (x.detach().abs() * 100).long()),
        "index_add": lambda x, _, __: ferro.index_add(x, 0, ferro.arange(200) % 7, x),
        "add row": lambda x, _, y: x + y[0],
    }
    return found


def compute(path: str) -> None:
    """Write the results and gradients of all calls."""
    import ferro

    rng = np.random.default_rng(0)
    results: dict[tuple[str, str], np.ndarray] = {}
    for dtype in ("float32", "float64"):
        arrays = [rng.standard_normal((200, 1024)), rng.standard_normal((8, 8, 32, 32)), rng.random((200, 1024)) + 0.1]
        for name, call in calls().items():
            x, z, y = [ferro.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
            out = call(x, z, y)
            results[name, dtype] = out.detach().numpy()
            out.backward(ferro.tensor(np.random.default_rng(1).standard_normal(out.shape).astype(dtype)))
            for leaf in (x, z, y):
                if leaf.grad is not None:
                    results[f"{name}, backward", dtype] = leaf.grad.numpy()
    with open(path, "wb") as stream:  # noqa: PTH123
        pickle.dump(results, stream)


def main() -> None:
    """Compare."""
    import tempfile

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("wait", "off"):
            path = f"{folder}/{mode}"
            subprocess.run([sys.executable, __file__, path], env={**os.environ, "FERRO_KERNELS": mode}, check=True)
            with open(path, "rb") as stream:  # noqa: PTH123
                found.append(pickle.load(stream))
    same = []
    for key in found[0]:
        one, two = [results[key].astype(np.float64) for results in found]
        differ = one != two
        if differ.any():
            largest = np.abs(one - two).max() / np.abs(two).max()
            print(f"{key[0]:28} {key[1]}  {100 * differ.mean():6.2f} %  {largest:.1e}")
        else:
            same.append(" ".join(key))
    print("the same bits:", ", ".join(same))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compute(sys.argv[1])
    else:
        main()
