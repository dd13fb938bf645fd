"""DistributedDataParallel with mixed precision, on ranks over MPI and beside PyTorch's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributed as dist
from ferro.nn.parallel.distributed import DistributedDataParallel, _MixedPrecision
from tests.distributed.starting import needs_mpi, started

HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(300)


def reference(torch: Any, ranks: int) -> list[np.ndarray]:
    """PyTorch's numbers: a copy in bfloat16 computes each rank's gradients, which are added in float32 and rounded once.

    Its own DistributedDataParallel wants streams of a device for mixed precision.
    """
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    for p in net.parameters():
        p.data = torch.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32) / 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    for step in range(5):
        sums = [torch.zeros_like(p) for p in net.parameters()]
        for rank in range(ranks):
            low = [p.detach().to(torch.bfloat16).requires_grad_() for p in net.parameters()]
            x = torch.tensor(np.random.default_rng([rank, step]).standard_normal((4, 6)).astype(np.float32))
            names = [name for name, _ in net.named_parameters()]
            out = torch.func.functional_call(net, dict(zip(names, low, strict=True)), x.to(torch.bfloat16))
            out.float().square().mean().backward()
            for total, p in zip(sums, low, strict=True):
                total += p.grad.float()
        for p, total in zip(net.parameters(), sums, strict=True):
            p.grad = (total / ranks).to(torch.bfloat16).float()
        optimizer.step()
    return [p.detach().numpy() for p in net.parameters()]


@needs_mpi
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 2, 4])
def test_mixed_precision_on_ranks(count: int, torch: Any, tmp_path: Path) -> None:
    """Each function of the script states a behaviour; what it trains is near PyTorch's, and the same on all ranks."""
    script, file = HERE / "ddp_mixed_on_ranks.py", tmp_path / "trained"
    status, out, error = started(script, str(file), options=("--nproc-per-node", str(count)))
    assert status == 0, error[-3000:]
    assert f"[0] {count} ranks agree on mixed precision" in out.splitlines()
    found = [list(np.load(f"{file}-{rank}.npz").values()) for rank in range(count)]
    for a, b in zip(found[0], reference(torch, count), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0.01, atol=2e-3)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_no_mixed_precision_is_refused() -> None:
    for given in ({"param_dtype": "bf16"}, {"reduce_dtype": ferro.int32}, {"buffer_dtype": ferro.complex64}):
        with pytest.raises(TypeError, match=f"{next(iter(given))} must be a floating-point dtype or None"):
            _MixedPrecision(**given)
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(TypeError, match="mixed_precision must be a _MixedPrecision, got str"):
            DistributedDataParallel(ferro.nn.Linear(2, 1), mixed_precision="bf16")
        with pytest.raises(NotImplementedError, match="embeddings with sparse=True"):
            DistributedDataParallel(
                ferro.nn.Embedding(2, 1, sparse=True), mixed_precision=_MixedPrecision(ferro.bfloat16)
            )
    finally:
        dist.destroy_process_group()
