"""What lies on several ranks in parts: meshes, tensors, the state of optimisers; each script checks itself on 1 to 4 ranks."""

from __future__ import annotations

import copy
import importlib
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ferro
import ferro.distributed as dist
from ferro.distributed.fsdp import fully_shard
from ferro.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from ferro.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from tests.distributed.test_mpi import HERE, on_ranks, pytestmark, ranks

__all__ = ["pytestmark"]
MPI, NCCL = (1, 2, 3, 4), (1, 2, 3, 4, 8)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@on_ranks(MPI, NCCL)
def test_parts_are_those_that_numpy_cuts_and_divided_optimisers_step_as_whole_ones(count: int, device: str) -> None:
    done = ranks(count, HERE / "sharding_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks share" in done.stdout.splitlines()


def facts(m: Any) -> list:
    k = m.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    where = [k.get_coordinate(), k.get_local_rank("tp"), k.get_rank(), len(k.get_all_groups())]
    parts = [k["dp"].shape, k["tp", "dp"].mesh_dim_names, k["dp", "tp"] == k, k.mesh_dim_names, k.device_type]
    return [k.mesh.tolist(), str(k.mesh.dtype).rpartition(".")[2], k.shape, k.size(), k.size(1), k.ndim, *where, *parts]


MESHES = {
    "repr": lambda d: (
        repr(d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))["dp"]).partition(", stride")[0].rstrip(")")
    ),
    "facts": facts,
    "no name": lambda d: d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))["x"],
    "which": lambda d: d.init_device_mesh("cpu", (1, 1)).get_group(),
    "group of no name": lambda d: d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b")).get_group("x"),
    "group of no dim": lambda d: d.init_device_mesh("cpu", (1, 1)).get_group(5),
    "too large": lambda d: d.init_device_mesh("cpu", (2,)),
    "one name twice": lambda d: d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a")),
    "few names": lambda d: d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a",)),
    "device": lambda d: d.init_device_mesh("cpu:0", (1,)),
    "nameless": lambda d: d.DeviceMesh("cpu", [[0]])["a"],
}


def outcome(run: Any, *args: Any) -> Any:
    try:
        return run(*args)
    except Exception as error:  # noqa: BLE001 - its type is compared
        return type(error)


@pytest.mark.parametrize("case", MESHES)
def test_a_mesh_of_one_process_is_pytorchs(torch: Any, alone: Any, case: str) -> None:
    d = torch.distributed
    importlib.import_module("torch.distributed.device_mesh")
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        expected = outcome(MESHES[case], d.device_mesh)
    finally:
        d.destroy_process_group()
    assert outcome(MESHES[case], dist.device_mesh) == expected


def test_a_tensor_in_parts_refuses_what_does_not_fit(alone: Any) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))
    with pytest.raises(ValueError, match=r"must have the same length as `device_mesh.ndim`"):
        distribute_tensor(ferro.ones(2), mesh, [Shard(0), Shard(0)])
    with pytest.raises(AssertionError, match="Sharding dim 5 greater than tensor ndim 1"):
        distribute_tensor(ferro.ones(2), mesh, [Shard(5)])
    with pytest.raises(TypeError, match="one of Shard, Replicate and Partial"):
        distribute_tensor(ferro.ones(2), mesh, [0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"this rank has \(4,\) of \(4,\), got \(2,\)"):
        DTensor.from_local(ferro.ones(2), mesh, [Replicate()], shape=(4,))
    with pytest.raises(NotImplementedError, match=r"distributed.checkpoint.save"):
        ferro.save(distribute_tensor(ferro.ones(2), mesh, [Shard(0)]), io.BytesIO())


def test_a_parameter_in_parts_is_a_parameter_and_takes_part_in_autograd(alone: Any) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))
    layer: Any = ferro.nn.Linear(2, 2, bias=False)
    layer.weight = distribute_tensor(layer.weight, mesh, [Shard(0)])
    assert isinstance(layer.weight, ferro.nn.Parameter)
    layer(ferro.ones(1, 2)).sum().backward()
    (layer.weight.to_local() * 2).sum().backward()
    assert layer.weight.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert isinstance(layer.state_dict()["weight"], DTensor)
    layer.load_state_dict({"weight": ferro.full((2, 2), 7.0)})
    assert layer.weight.full_tensor().tolist() == [[7.0, 7.0], [7.0, 7.0]]


@on_ranks(MPI, NCCL, quick=("2-cpu", "4-cpu"))
def test_a_module_in_parts_trains_as_one_process_does(count: int, device: str) -> None:
    """Bit for bit where a division by the number of ranks is exact, with every optimiser; memory comes and goes."""
    done = ranks(count, HERE / "fsdp_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks shard alike" in done.stdout.splitlines()


def fully_sharded(m: Any, policy: dict[str, str]) -> Any:
    """Losses, parameters and gradients of a model that torch's or ferro's fully_shard has divided over one process."""
    shard = importlib.import_module(f"{m.__name__}.distributed.fsdp")
    blocks = [m.nn.Linear(4, 6), m.nn.Linear(6, 2)]
    with m.no_grad():
        for block in blocks:
            for p in block.parameters():
                p.copy_(m.arange(p.numel()).reshape(p.shape).float().sin())
    dtypes = {k: getattr(m, v) for k, v in policy.items()}
    within = {k: v for k, v in dtypes.items() if k != "output_dtype"}
    model = m.nn.Sequential(blocks[0], m.nn.ReLU(), blocks[1])
    shard.fully_shard(blocks[0], mp_policy=shard.MixedPrecisionPolicy(**within))
    shard.fully_shard(model, mp_policy=shard.MixedPrecisionPolicy(**dtypes))
    optimizer = m.optim.AdamW(model.parameters(), lr=0.1)
    found = [type(model).__name__, [n for n, _ in model.named_parameters()]]
    for step in range(3):
        optimizer.zero_grad()
        y = model(m.arange(8.0).reshape(2, 4).cos() + step)
        loss = (y - 1).square().sum()
        loss.backward()
        norm = m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        optimizer.step()
        grads = [p.grad.full_tensor().flatten().tolist() for p in model.parameters()]
        found += [str(y.dtype).rpartition(".")[2], loss.item(), norm.item(), grads]
    return [*found, [p.full_tensor().flatten().tolist() for p in model.parameters()]]


POLICIES = [
    {},
    {"param_dtype": "bfloat16"},
    {"param_dtype": "bfloat16", "reduce_dtype": "float32", "output_dtype": "float32"},
]


@pytest.mark.parametrize("policy", POLICIES, ids=len)
def test_a_module_in_parts_is_pytorchs(torch: Any, alone: Any, policy: dict[str, str]) -> None:
    d = torch.distributed
    with warnings.catch_warnings(action="ignore"):  # (PyTorch's own)
        importlib.import_module("torch.distributed.fsdp")
        d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
        try:
            expected = fully_sharded(torch, policy)
        finally:
            d.destroy_process_group()
    found = fully_sharded(ferro, policy)
    near = 2e-2 if policy else 1e-5
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(ours, list) and isinstance(ours[0], list):
            for a, b in zip(ours, theirs, strict=True):
                assert a == pytest.approx(b, rel=near, abs=near)
        else:
            assert ours == (pytest.approx(theirs, rel=near, abs=near) if isinstance(ours, float) else theirs)


def test_what_cannot_be_sharded_is_refused(alone: Any) -> None:
    layer = fully_shard(ferro.nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        fully_shard(layer)
    with pytest.raises(ValueError, match="does not support containers that do not implement forward"):
        fully_shard(ferro.nn.ModuleList([ferro.nn.Linear(2, 2)]))
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        fully_shard(ferro.nn.ParameterList([ferro.tensor(1.0)]))
    with pytest.raises(NotImplementedError, match="divided by rows"):
        fully_shard(ferro.nn.Linear(2, 2), shard_placement_fn=lambda p: Shard(1))
    with pytest.raises(NotImplementedError, match="copy it before fully_shard"):
        copy.deepcopy(layer)
    with pytest.raises(NotImplementedError, match="LBFGS"):
        ferro.optim.LBFGS(layer.parameters())


@on_ranks(MPI, NCCL, quick=("2-cpu", "4-cpu"))
def test_layers_in_parts_compute_and_learn_as_whole_ones(count: int, device: str) -> None:
    """Attention, embeddings and norms, by columns, by rows and along the sequence; with 4 ranks two by two with copies and with parts."""
    done = ranks(count, HERE / "tensor_parallel_on_ranks.py", device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks divide layers" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "says"), [("fsdp_on_ranks.py", "shard alike"), ("tensor_parallel_on_ranks.py", "divide layers")]
)
def test_modules_and_layers_in_parts_over_nccl_in_short(script: str, says: str) -> None:
    """Fewer optimisers, plans and steps than above."""
    done = ranks(2, HERE / script, "short", device="cuda")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] 2 ranks {says}" in done.stdout.splitlines()


@pytest.mark.slow
def test_char_gpt_learns_the_same_in_four_ways(tmp_path: Path) -> None:
    """One rank that takes four parts of a batch, four with copies and four with parts: bit for bit; two by two: but for rounding."""
    losses = {}
    for how, count in (("alone", 1), ("copies", 4), ("parts", 4), ("two by two", 4)):
        done = ranks(count, HERE / "chargpt_on_ranks.py", how, str(tmp_path / "losses"), "60")
        assert done.returncode == 0, done.stderr[-3000:]
        losses[how] = json.loads((tmp_path / "losses").read_text())
    assert losses["copies"] == losses["alone"]
    assert losses["parts"] == losses["alone"]
    assert losses["two by two"] == pytest.approx(losses["alone"], rel=2e-3)
    assert losses["alone"][-1] < losses["alone"][0] - 1


def test_layers_that_cannot_be_divided_are_refused(alone: Any) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))
    with pytest.raises(NotImplementedError, match=r"ColwiseParallel currently only support nn.Linear and nn.Embedding"):
        parallelize_module(ferro.nn.ReLU(), mesh, ColwiseParallel())
    with pytest.raises(ValueError, match="a mesh of one dimension is needed"):
        parallelize_module(ferro.nn.Linear(2, 2), dist.init_device_mesh("cpu", (1, 1)), ColwiseParallel())
    with pytest.raises(TypeError, match="for parallelize_plan"):
        parallelize_module(ferro.nn.Linear(2, 2), mesh, 3)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="could not be resolved"):
        parallelize_module(ferro.nn.Sequential(), mesh, {"0": ColwiseParallel()})
    with pytest.warns(UserWarning, match="will do nothing"):
        parallelize_module(ferro.nn.Linear(2, 2), mesh)
    layer = parallelize_module(ferro.nn.Linear(2, 2), mesh, ColwiseParallel())
    loss = layer(ferro.ones(1, 2, requires_grad=True)).sum()
    before = ferro.get_num_threads()
    ferro.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError, match="tensor parallel: with several threads"):
            loss.backward(num_threads=2)
    finally:
        ferro.set_num_threads(before)
