"""A script for several ranks: what DistributedDataParallel does beyond means of gradients. Prints one line when all agree."""

from __future__ import annotations

from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.autograd import Function
from ferro.nn.parallel import DistributedDataParallel
from ferro.utils.checkpoint import checkpoint
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
MEAN = sum(r + 1.0 for r in range(SIZE)) / SIZE  # of what each rank has: its number and 1


def layer(value: float = 1.0, inputs: int = 1, outputs: int = 1) -> Any:
    made = nn.Linear(inputs, outputs, bias=False).to(DEVICE)
    with ferro.no_grad():
        made.weight.fill_(value)
    return made


def close(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(got.detach().cpu().numpy(), want, rtol=1e-6, err_msg=f"{what}, rank {RANK}")


def mine(*shape: int) -> Any:
    return ferro.full(shape, RANK + 1.0, device=DEVICE)


class Of(nn.Module):
    """A model of layers and a function of these and the input."""

    def __init__(self, layers: list[Any], function: Any) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, x: Any) -> Any:
        return self.function(self.layers, x)


def gradients_lie_in_buckets() -> None:
    for is_view in (False, True):
        model = DistributedDataParallel(
            Of([layer(), layer()], lambda m, x: m[1](m[0](x))), gradient_as_bucket_view=is_view
        )
        first, second = model.module.layers
        model(mine(1, 1)).sum().backward()
        model.zero_grad()
        model(mine(1, 1)).sum().backward()
        close(first.weight.grad, [[MEAN]], "a gradient")
        addresses = sorted(p.grad.data_ptr() for p in model.parameters())
        assert addresses[1] - addresses[0] == 4, "one behind the other"
        # added up over steps where it lies: the mean of the means and what comes
        model(mine(1, 1)).sum().backward()
        close(first.weight.grad, [[2 * MEAN]], "a sum")
        assert first.weight.grad.data_ptr() in addresses
        # nobody holds the gradient: the same memory; who holds one keeps it, unless the memory is fixed
        held = second.weight.grad
        model.zero_grad()
        model(3 * mine(1, 1)).sum().backward()
        close(second.weight.grad, [[3 * MEAN]], "the next gradient")
        close(held, [[(3 if is_view else 2) * MEAN]], "the gradient before")
        assert (held.data_ptr() == second.weight.grad.data_ptr()) == is_view
        # one that was there before stays the object it is
        first.weight.grad = before = ferro.zeros(1, 1, device=DEVICE)
        model(mine(1, 1)).sum().backward()
        close(first.weight.grad, [[MEAN]], "into one that was there")
        assert is_view or first.weight.grad is before


def the_order_is_learned() -> None:
    layers = [layer(), layer(), layer()]
    order = [1, 2, 0] if RANK == 0 else [0, 1, 2]  # (rank 0's counts)
    model = DistributedDataParallel(
        Of(layers, lambda m, x: m[order[2]](m[order[1]](m[order[0]](x)))), bucket_cap_mb=1e-6
    )
    names = [[model._reducer.names[id(p)] for p in b.parameters] for b in model._reducer.buckets]
    assert names == [["layers.2.weight"], ["layers.1.weight"], ["layers.0.weight"]], names
    for _ in range(3):
        model.zero_grad()
        model(mine(1, 1)).sum().backward()
        for one in layers:
            close(one.weight.grad, [[MEAN]], "in another order")
    names = [[model._reducer.names[id(p)] for p in b.parameters] for b in model._reducer.buckets]
    assert names == [["layers.0.weight"], ["layers.2.weight"], ["layers.1.weight"]], names


def a_rank_that_uses_no_parameter_takes_part() -> None:
    for leaves in (True, False):
        model = DistributedDataParallel(
            Of([layer()], lambda m, x: x * 1.0 if RANK == 0 else m[0](x)), find_unused_parameters=leaves
        )
        for _ in range(2):
            model.zero_grad()
            (2 * model(mine(1, 1))).sum().backward()
            close(model.module.layers[0].weight.grad, [[2 * (MEAN - 1 / SIZE)]], "without rank 0")


class Fails(Function):
    """Raises in the backward of the last rank, if it is told to."""

    told = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if Fails.told and RANK == SIZE - 1:
            raise ValueError("of this rank")
        return g


def a_backward_that_raises_is_told_to_all() -> None:
    for cap in (None, 1e-6):
        layers = [layer(), layer(), layer()]
        model = DistributedDataParallel(Of(layers, lambda m, x: m[2](m[1](Fails.apply(m[0](x))))), bucket_cap_mb=cap)
        for step in range(4):
            Fails.told = step % 2 == 1
            model.zero_grad()
            said = ""
            try:
                model(mine(1, 1)).sum().backward()
            except (ValueError, RuntimeError) as error:
                said = str(error)
            if Fails.told:
                if RANK == SIZE - 1:
                    assert said == "of this rank", said
                else:
                    assert "backward has raised on other ranks" in said, said
                    assert f"rank {SIZE - 1}: ValueError: of this rank" in said, said
                continue
            assert not said, said
            for one in layers:
                close(one.weight.grad, [[MEAN]], "after a step that failed")


def checkpoints() -> None:
    def again(m: Any, x: Any) -> Any:  # (the first layer has a part in two of them)
        y = checkpoint(m[0], x, use_reentrant=reentrant)
        y = checkpoint(lambda t: m[1](m[0](t)), y, use_reentrant=reentrant)
        return m[2](y)

    for reentrant in (True, False):
        for static in (False, True):
            layers = [layer(2.0), layer(3.0), layer(5.0)]
            model = DistributedDataParallel(Of(layers, again), static_graph=static, bucket_cap_mb=1e-6)
            for _ in range(3):
                model.zero_grad()
                model(mine(1, 1).requires_grad_()).sum().backward()
                for one, want in zip(layers, (60.0, 20.0, 12.0), strict=True):
                    close(one.weight.grad, [[want * MEAN]], f"checkpoint, reentrant {reentrant}, static {static}")

    def both(m: Any, x: Any) -> Any:
        return m[0](checkpoint(m[0], x, use_reentrant=True)) * m[0](x)

    model = DistributedDataParallel(Of([layer(2.0)], both), static_graph=True)
    square = sum((r + 1.0) ** 2 for r in range(SIZE)) / SIZE
    for _ in range(3):
        model.zero_grad()
        model(mine(1, 1).requires_grad_()).sum().backward()
        close(model.module.layers[0].weight.grad, [[12 * square]], "in a checkpoint and outside")


def what_is_not_used_holds_nothing_up() -> None:
    for looks in (False, True):
        layers = [layer(), layer(), layer()]
        model = DistributedDataParallel(
            Of(layers, lambda m, x: m[1](m[0](x))), find_unused_parameters=looks, bucket_cap_mb=1e-6
        )
        begun: list[Any] = []
        layers[0].weight.register_post_accumulate_grad_hook(lambda p, b=begun, m=model: b.append(m._reducer._next))
        model(mine(1, 1)).sum().backward()
        assert begun == [3 if looks else 0], begun  # (the buckets that had begun at the last gradient)
        close(layers[0].weight.grad, [[MEAN]], "beside a layer that is not used")
        assert layers[2].weight.grad is None


def models_that_differ_are_refused() -> None:
    said = ""
    try:
        DistributedDataParallel(layer(1.0, 1, 2 if RANK == SIZE - 1 else 1), init_sync=False)
    except RuntimeError as error:
        said = str(error)
    assert f"parameter weight of rank 0 is torch.float32 of shape [1, 1], that of rank {SIZE - 1}" in said.replace(
        "ferro", "torch"
    ), said
    try:
        DistributedDataParallel(nn.Linear(1, 1, bias=RANK == 0).to(DEVICE), init_sync=False)
    except RuntimeError as error:
        said = str(error)
    assert "rank 0 has 2 parameters that require a gradient, rank 1 has 1" in said, said


def layouts_and_dtypes() -> None:
    turned = nn.Parameter(ferro.ones(3, 2, device=DEVICE).t().clone(memory_format=ferro.preserve_format))
    assert turned.stride() == (1, 2)
    wide = nn.Parameter(ferro.ones(2, dtype=ferro.float64, device=DEVICE))
    half = nn.Parameter(ferro.ones(2, dtype=ferro.bfloat16, device=DEVICE))
    model = DistributedDataParallel(
        Of(
            [nn.ParameterList([turned, wide, half])],
            lambda m, x: sum((p * w).sum() for p, w in zip(m[0], x, strict=True)),
        )
    )
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(2):
        model.zero_grad()
        given = [ferro.tensor(numbers * (RANK + 1), device=DEVICE), mine(2).double(), mine(2).bfloat16()]
        model(given).backward()
        close(turned.grad, numbers * MEAN, "elements in another order in memory")
        assert turned.grad.stride() == turned.stride()
        close(wide.grad, [MEAN, MEAN], "float64")
        assert half.grad.dtype is ferro.bfloat16
        close(half.grad.float(), [MEAN, MEAN], "bfloat16")


def autocast_and_functions() -> None:
    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * g  # (which no formula of ferro's would give)

    model = DistributedDataParallel(Of([layer(), layer()], lambda m, x: Doubled.apply(m[1](m[0](x)))))
    with ferro.autocast(DEVICE, ferro.bfloat16):
        out = model(mine(1, 1))
    assert out.dtype is ferro.bfloat16
    out.float().sum().backward(num_threads=2)
    for one in model.module.layers:
        assert one.weight.grad.dtype is ferro.float32
        close(one.weight.grad, [[3 * MEAN]], "autocast")


def compiled() -> None:
    for wrap_first in (False, True):
        inner = Of([layer(2.0), layer(3.0)], lambda m, x: m[1](m[0](x).relu()))
        if wrap_first:
            model: Any = ferro.compile(DistributedDataParallel(inner))
        else:
            model = DistributedDataParallel(ferro.compile(inner))
        for _ in range(4):
            inner.zero_grad()
            model(mine(1, 1)).sum().backward()
            close(inner.layers[0].weight.grad, [[3 * MEAN]], f"compiled, {wrap_first}")
            close(inner.layers[1].weight.grad, [[2 * MEAN]], f"compiled, {wrap_first}")
        if DEVICE == "cuda":  # (where no graph is captured)
            continue
        found = model.explain() if wrap_first else model.module.explain()
        assert (len(found.graphs), found.replays) == (1, 2), str(found)


def ignored_parameters_stay() -> None:
    net = Of([layer(), layer(float(RANK))], lambda m, x: m[0](x) + m[1](x))
    net._ddp_params_and_buffers_to_ignore = ["layers.1.weight"]
    model = DistributedDataParallel(net)
    assert net.layers[1].weight.item() == RANK
    model(mine(1, 1)).sum().backward()
    close(net.layers[0].weight.grad, [[MEAN]], "beside one that is ignored")
    close(net.layers[1].weight.grad, [[RANK + 1.0]], "one that is ignored")


def ranks_of_one_machine_add_in_their_order() -> None:
    """From the second backward on, through memory that all see: NumPy's sum in the order of the ranks, bit for bit."""
    draws = [np.random.default_rng(r).standard_normal((3, 70000)).astype(np.float32) for r in range(SIZE)]
    model = DistributedDataParallel(
        nn.ParameterList([nn.Parameter(ferro.ones(70000, device=DEVICE)), nn.Parameter(ferro.ones(3, device=DEVICE))])
    )
    big, small = model.module.parameters()
    for step in range(3):
        model.zero_grad()
        (big * ferro.tensor(draws[RANK][step], device=DEVICE) + small.sum()).sum().backward()
        want = draws[0][step].copy()
        for other in draws[1:]:
            want += other[step]
        if step:
            assert (model._reducer._shared is not None) == (SIZE <= 4 and DEVICE == "cpu")
            assert model._reducer._shared is None or np.array_equal(big.grad.cpu().numpy(), want / np.float32(SIZE))
        np.testing.assert_allclose(big.grad.cpu().numpy(), want / SIZE, rtol=1e-5, atol=1e-6)
        assert small.grad.tolist() == [70000.0] * 3
    half = DistributedDataParallel(layer().bfloat16())
    for _ in range(2):
        half(mine(1, 1).bfloat16()).sum().backward()
    assert half._reducer._shared is None


for case in (
    gradients_lie_in_buckets,
    the_order_is_learned,
    a_rank_that_uses_no_parameter_takes_part,
    a_backward_that_raises_is_told_to_all,
    checkpoints,
    what_is_not_used_holds_nothing_up,
    models_that_differ_are_refused,
    layouts_and_dtypes,
    autocast_and_functions,
    compiled,
    ranks_of_one_machine_add_in_their_order,
    ignored_parameters_stay,
):
    case()
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks agree on options")
