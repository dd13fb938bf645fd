"""Products of sparse matrices with dense ones, forward and backward, ferro and PyTorch in turn in one process.

    python -m bench.sparse_products [--rounds N] [--threads N]

Prints, for graphs of two sizes, the shortest time of each (other load disturbs it least) and the ratio ferro / torch.
"to values" differentiates by the kept values; PyTorch's COO product makes a dense matrix of all pairs of nodes for it, which
is left out where that exceeds 2 GB.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ferro

GRAPHS = [(10_000, 100_000, 64), (100_000, 1_000_000, 16)]  # nodes, edges, features


def cases(lib: Any, nodes: int, edges: int, features: int) -> dict[str, Callable[[], Any]]:
    """What is timed, with one library."""
    rng = np.random.default_rng(0)
    place = np.unique(rng.integers(0, nodes, (edges, 2)), axis=0).T.copy()
    values = rng.standard_normal(place.shape[1]).astype(np.float32)
    dense = rng.standard_normal((nodes, features)).astype(np.float32)
    weight = lib.tensor(rng.standard_normal((nodes, features)).astype(np.float32))
    coo = lib.sparse_coo_tensor(lib.tensor(place), lib.tensor(values), (nodes, nodes)).coalesce()
    shuffled = rng.permutation(place.shape[1])
    loose = lib.sparse_coo_tensor(lib.tensor(place[:, shuffled]), lib.tensor(values[shuffled]), (nodes, nodes))
    csr = coo.to_sparse_csr()
    h = lib.tensor(dense)
    wanted = lib.tensor(dense).requires_grad_()
    v = lib.tensor(values).requires_grad_()

    def to_dense_factor(x: Any) -> None:
        wanted.grad = None
        ((x @ wanted) * weight).sum().backward()

    def to_values() -> None:
        v.grad = None
        x = lib.sparse_coo_tensor(lib.tensor(place), v, (nodes, nodes), is_coalesced=True)
        (lib.sparse.mm(x, h) * weight).sum().backward()

    found: dict[str, Callable[[], Any]] = {
        "COO @ dense": lambda: coo @ h,
        "COO, not in order": lambda: loose @ h,
        "CSR @ dense": lambda: csr @ h,
        "COO, with backward to dense": lambda: to_dense_factor(coo),
        "CSR, with backward to dense": lambda: to_dense_factor(csr),
    }
    if lib is ferro or nodes * nodes * 4 < 2e9:
        found["COO, with backward to values"] = to_values
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    ferro.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    for nodes, edges, features in GRAPHS:
        print(f"{nodes} nodes, {edges} edges, {features} features, float32, {options.threads} threads")
        pair = [cases(lib, nodes, edges, features) for lib in (ferro, torch)]
        for name in pair[0]:
            times: list[list[float]] = [[], []]
            for _ in range(options.rounds + 1):
                for mine, case in zip(times, pair, strict=True):
                    if name in case:
                        start = time.perf_counter()
                        case[name]()
                        mine.append(time.perf_counter() - start)
            ours, theirs = (min(t[1:]) * 1e3 if t else None for t in times)
            ratio = "PyTorch: left out" if theirs is None else f"torch {theirs:8.2f} ms   ratio {ours / theirs:.2f}"
            print(f"  {name:30} ferro {ours:8.2f} ms   {ratio}")


if __name__ == "__main__":
    main()
