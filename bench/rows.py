"""Every row of bench/run.py, one declaration each, in groups."""

import math
import re
from collections.abc import Callable
from typing import Any

from bench.cases import AnyCase, Case, Child, Clip, Training, Update, module
from bench.optimizers import adam, momentum
from bench.overhead_rows import overhead
from bench.workloads import WORKLOADS


def _pointwise() -> list[AnyCase]:
    """Pointwise operations from cache-sized to memory-bound."""
    unary: dict[str, Callable[..., Any]] = {
        "exp": lambda lib, x: lib.exp(x),
        "tanh": lambda lib, x: lib.tanh(x),
        "sigmoid": lambda lib, x: lib.sigmoid(x),
        "relu": lambda lib, x: lib.relu(x),
        "sin": lambda lib, x: lib.sin(x),
        "erf": lambda lib, x: lib.erf(x),
        "gelu": lambda lib, x: lib.nn.functional.gelu(x),
        "silu": lambda lib, x: lib.nn.functional.silu(x),
        "x * 2 + 1": lambda lib, x: x * 2 + 1,
    }
    binary: dict[str, Callable[..., Any]] = {
        "add": lambda lib, x, y: x + y,
        "mul": lambda lib, x, y: x * y,
        "div": lambda lib, x, y: x / y,
        "pow": lambda lib, x, y: x**y,
        "where": lambda lib, x, y: lib.where(x > y, x, y),
        "chain tanh(x * y) + x": lambda lib, x, y: lib.tanh(x * y) + x,
    }
    cases: list[AnyCase] = []
    for size in (10_000, 1_000_000, 10_000_000):
        label = f"1e{round(math.log10(size))}"
        cases += [Case(f"{name} {label}", f, ((size,),)) for name, f in unary.items()]
        cases += [Case(f"{name} {label}", f, ((size,),) * 2, low=0.5) for name, f in binary.items()]
    large: dict[str, Any] = {"shapes": ((10_000_000,),) * 2, "forward_only": True}
    cases.append(Case("x.add_(y) 1e7", lambda lib, x, y: x.add_(y), **large))
    cases.append(
        Case("add(x, y, out=z) 1e7", lambda lib, x, y, z: lib.add(x, y, out=z), ((10_000_000,),) * 3, forward_only=True)
    )
    cases.append(Case("ones_like 1e7", lambda lib, x: lib.ones_like(x), ((10_000_000,),), forward_only=True))
    cases.append(Case("x + y.T 1024", lambda lib, x, y: x + y.T, ((1024, 1024),) * 2))
    cases.append(Case("expand, multiply 1024", lambda lib, x, y: x.expand(1024, 1024) * y, ((1024, 1), (1024, 1024))))
    cases.append(Case("add row 1000x1000 + 1000", lambda lib, x, y: x + y, ((1000, 1000), (1000,))))
    cases.append(Case("add column 1000x1000 + 1000x1", lambda lib, x, y: x + y, ((1000, 1000), (1000, 1))))
    return cases


def _reductions() -> list[AnyCase]:
    """Reductions over everything, the last and the first dimension, scans and softmax."""
    table: dict[str, Callable[..., Any]] = {
        "sum": lambda lib, x: x.sum(),
        "sum dim=-1": lambda lib, x: x.sum(dim=-1),
        "sum dim=0": lambda lib, x: x.sum(dim=0),
        "mean dim=-1": lambda lib, x: x.mean(dim=-1),
        "prod dim=-1": lambda lib, x: (x * 0.01 + 1).prod(dim=-1),
        "amax dim=-1": lambda lib, x: x.amax(dim=-1),
        "max dim=0": lambda lib, x: x.max(dim=0).values,
        "var": lambda lib, x: x.var(),
        "var dim=-1": lambda lib, x: x.var(dim=-1),
        "norm": lambda lib, x: lib.linalg.vector_norm(x),
        "logsumexp dim=-1": lambda lib, x: lib.logsumexp(x, dim=-1),
        "softmax dim=-1": lambda lib, x: lib.softmax(x, dim=-1),
        "softmax dim=0": lambda lib, x: lib.softmax(x, dim=0),
        "log_softmax dim=-1": lambda lib, x: lib.log_softmax(x, dim=-1),
        "cumsum dim=-1": lambda lib, x: lib.cumsum(x, dim=-1),
        "cumsum dim=0": lambda lib, x: lib.cumsum(x, dim=0),
    }
    cases: list[AnyCase] = [Case(f"{name} 1000x1000", f, ((1000, 1000),), rtol=1e-4) for name, f in table.items()]
    cases += [Case(f"{name} 64x10", table[f"{name} dim=-1"], ((64, 10),)) for name in ("softmax", "log_softmax")]
    cases.append(Case("softmax 64x100000", table["softmax dim=-1"], ((64, 100_000),)))
    cases.append(Case("argmax dim=-1 1000x1000", lambda lib, x: x.argmax(dim=-1), ((1000, 1000),), forward_only=True))
    return cases


def _conv(**options: Any) -> Callable[..., Any]:
    return lambda lib, x, w: lib.nn.functional.conv2d(x, w, **options)


def _batch_norm(lib, x, w, b):
    return lib.nn.functional.batch_norm(x, None, None, w, b, training=True)


def _group_norm(lib, x, w, b):
    return lib.nn.functional.group_norm(x, 8, w, b)


def _layer_norm(lib, x, w, b):
    return lib.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


def _cross_entropy(lib, x, target):
    return lib.nn.functional.cross_entropy(x, target)


def _attention(lib, q, k, v):
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v


def _causal_attention(lib, q, k, v):
    return lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _linear(lib, x, w, b):
    return lib.nn.functional.linear(x, w, b)


def _bce(lib, x, y):
    return lib.nn.functional.binary_cross_entropy_with_logits(x, y.sigmoid().detach())


def _hessian_product(lib, x, w, v, u):
    """What is differentiated gives, by w, the product of the loss's Hessian by w with u."""
    with lib.enable_grad():
        loss = (lib.tanh(x @ w) @ v).square().mean()
        (gradient,) = lib.autograd.grad(loss, w, create_graph=True)
        return (gradient * u).sum()


def _nn() -> list[AnyCase]:
    """Convolutions, pooling, normalisations, losses, optimisers: what models are made of."""
    images = ((64, 32, 28, 28),)
    sizes = [(64, 784, 256), *[(n, 784, 512) for n in (1, 8, 128)], (4096, 512, 512)]
    return [
        *[Case(f"linear {n}x{k} -> {m}", _linear, ((n, k), (m, k), (m,)), rtol=1e-4) for n, k, m in sizes],
        Case("attention 16x4x64x24", _attention, ((16, 4, 64, 24),) * 3, rtol=1e-4),
        Case(
            "scaled_dot_product_attention 4x8x256x64",
            lambda lib, q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v),
            ((4, 8, 256, 64),) * 3,
            rtol=1e-4,
        ),
        Case("causal attention 4x8x256x64", _causal_attention, ((4, 8, 256, 64),) * 3, rtol=1e-4),
        Case("conv2d 64x1x8x8 -> 16", _conv(padding=1), ((64, 1, 8, 8), (16, 1, 3, 3)), rtol=1e-4),
        Case("conv2d 64x16x8x8 -> 32", _conv(padding=1), ((64, 16, 8, 8), (32, 16, 3, 3)), rtol=1e-4),
        Case("conv2d 32x3x32x32 -> 32", _conv(padding=1), ((32, 3, 32, 32), (32, 3, 3, 3)), rtol=1e-4),
        Case("conv2d 8x64x56x56 -> 64", _conv(padding=1), ((8, 64, 56, 56), (64, 64, 3, 3)), rtol=1e-4),
        Case("conv2d 8x64x28x28 -> 128, 1x1", _conv(), ((8, 64, 28, 28), (128, 64, 1, 1)), rtol=1e-4),
        Case(
            "conv2d 8x64x56x56 -> 64, stride 2",
            _conv(padding=1, stride=2),
            ((8, 64, 56, 56), (64, 64, 3, 3)),
            rtol=1e-4,
        ),
        Case(
            "conv2d 16x3x112x112 -> 64, 7x7, stride 2",
            _conv(padding=3, stride=2),
            ((16, 3, 112, 112), (64, 3, 7, 7)),
            rtol=1e-4,
        ),
        Case(
            "conv_transpose2d 16x64x16x16 -> 32, 4x4, stride 2",
            lambda lib, x, w: lib.nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
            ((16, 64, 16, 16), (64, 32, 4, 4)),
            rtol=1e-4,
        ),
        Case("max_pool2d 64x32x28x28, 3x3, stride 2", lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 2), images),
        Case("depthwise 16x64x32x32", _conv(padding=1, groups=64), ((16, 64, 32, 32), (64, 1, 3, 3)), rtol=1e-4),
        Case(
            "conv1d 16x64x512 -> 64, 5",
            lambda lib, x, w: lib.nn.functional.conv1d(x, w, padding=2),
            ((16, 64, 512), (64, 64, 5)),
            rtol=1e-4,
        ),
        Case("max_pool2d 64x32x28x28", lambda lib, x: lib.nn.functional.max_pool2d(x, 2), images),
        Case("avg_pool2d 64x32x28x28", lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), images),
        Case("layer_norm 1024x96", _layer_norm, ((1024, 96), (96,), (96,)), rtol=1e-4),
        Case("layer_norm 1024x1024", _layer_norm, ((1024, 1024), (1024,), (1024,)), rtol=1e-4),
        Case("group_norm 32x64x32x32", _group_norm, ((32, 64, 32, 32), (64,), (64,)), rtol=1e-3),
        Case("batch_norm 64x32x28x28", _batch_norm, (*images, (32,), (32,)), rtol=1e-3),
        Case(
            "dropout 1e6, probability 0",
            lambda lib, x: lib.nn.functional.dropout(x, 0.0, training=True),
            ((1_000_000,),),
        ),
        Case("cross_entropy 64x10", _cross_entropy, ((64, 10), (64,)), classes=10),
        Case("cross_entropy 1024x103", _cross_entropy, ((1024, 103), (1024,)), classes=103),
        Case("cross_entropy 4096x10000", _cross_entropy, ((4096, 10_000), (4096,)), classes=10_000, rtol=1e-4),
        Case("mse_loss 1000x1000", lambda lib, x, y: lib.nn.functional.mse_loss(x, y), ((1000, 1000),) * 2, rtol=1e-4),
        Case("bce with logits 1e6", _bce, ((1_000_000,),) * 2, rtol=1e-4),
        Case(
            "nn.LSTM 16x32x64 -> 64",
            lambda lib, m, x: m(x)[0],
            ((16, 32, 64),),
            state=module(lambda nn: nn.LSTM(64, 64)),
            rtol=1e-4,
        ),
        Case(
            "nn.GRU 16x32x64 -> 64",
            lambda lib, m, x: m(x)[0],
            ((16, 32, 64),),
            state=module(lambda nn: nn.GRU(64, 64)),
            rtol=1e-4,
        ),
        Case(
            "nn.LSTM 64x32x128 -> 256",
            lambda lib, m, x: m(x)[0],
            ((64, 32, 128),),
            state=module(lambda nn: nn.LSTM(128, 256)),
            rtol=1e-3,
        ),
        Case(
            "nn.TransformerEncoderLayer 8x64x128",
            lambda lib, m, x: m(x),
            ((8, 64, 128),),
            state=module(lambda nn: nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)),
            rtol=1e-3,
        ),
        Case(
            "Hessian times vector, MLP 64x32 -> 64 -> 1",
            _hessian_product,
            ((64, 32), (32, 64), (64, 1), (32, 64)),
            rtol=1e-3,
        ),
        Clip("clip_grad_norm_, 50 x 64x64", ((64, 64),) * 50),
        Update("SGD step, 1e6 parameters", momentum, ((1000, 1000),)),
        Update("Adam step, 1e6 parameters", adam, ((1000, 1000),)),
        Update("Adam step, 40 x 64x64", adam, ((64, 64),) * 40),
    ]


def _spd(lib, x):
    """A symmetric positive definite matrix."""
    return x @ x.mT / x.shape[-1] + lib.eye(x.shape[-1])


def _linalg() -> list[AnyCase]:
    """Products and factorisations; what takes a definite matrix makes it first from its input."""

    def matmul(lib, x, y):
        return x @ y

    table: dict[str, Callable[..., Any]] = {
        "inv": lambda lib, x: lib.linalg.inv(_spd(lib, x)),
        "solve": lambda lib, x: lib.linalg.solve(_spd(lib, x), x),
        "cholesky": lambda lib, x: lib.linalg.cholesky(_spd(lib, x)),
        "slogdet": lambda lib, x: lib.linalg.slogdet(_spd(lib, x)).logabsdet,
        "qr": lambda lib, x: lib.linalg.qr(_spd(lib, x))[1].abs(),
        "eigvalsh": lambda lib, x: lib.linalg.eigvalsh(_spd(lib, x)),
        "svdvals": lambda lib, x: lib.linalg.svdvals(x),
    }
    cases: list[AnyCase] = [
        Case(f"matmul {n}x{n}", matmul, ((n, n),) * 2, rtol=1e-4) for n in (64, 128, 256, 512, 1024)
    ]
    cases += [
        Case("matrix times vector 1024", matmul, ((1024, 1024), (1024,)), rtol=1e-4),
        Case("bmm 64 x 64x64", matmul, ((64, 64, 64),) * 2, rtol=1e-4),
        Case("einsum bij,bjk->bik", lambda lib, x, y: lib.einsum("bij,bjk->bik", x, y), ((16, 64, 64),) * 2, rtol=1e-4),
    ]
    for n in (8, 64, 128):
        cases += [Case(f"{name} {n}x{n}", f, ((n, n),), rtol=2e-3) for name, f in table.items()]
    cases += [
        Case(f"{name} 128 x 16x16", table[name], ((128, 16, 16),), rtol=2e-3) for name in ("inv", "cholesky", "solve")
    ]
    factorisations: dict[str, Callable[..., Any]] = {
        "cholesky": table["cholesky"],
        "qr": table["qr"],
        "eigh": lambda lib, x: lib.linalg.eigh(_spd(lib, x))[0],
        "svd": lambda lib, x: lib.linalg.svd(x)[1],
    }
    cases += [
        Case(f"{name} 512x512", f, ((512, 512),), rtol=2e-3, forward_only=True) for name, f in factorisations.items()
    ]
    return cases


def _assigned(lib, x, y):
    x[10:500] = y
    return x


def _indexing() -> list[AnyCase]:
    """Rows by index, masks, joins, transposes, sorting."""
    rows = ((10_000, 96), (1024,))
    square = ((1000, 1000),)
    wide: dict[str, Any] = {"classes": 10_000}
    return [
        Case("embedding 1024 of 10000x96", lambda lib, w, i: lib.nn.functional.embedding(i, w), rows, **wide),
        Case("rows 1024 of 10000x96", lambda lib, x, i: x[i], rows, **wide),
        Case("index_select 1024 of 10000x96", lambda lib, x, i: x.index_select(0, i), rows, **wide),
        Case("gather dim=1 1000x1000", lambda lib, x, i: x.gather(1, i), square * 2, classes=1000),
        Case("scatter_add dim=1 1000x1000", lambda lib, x, y, i: x.scatter_add(1, i, y), square * 3, classes=1000),
        Case("mask 1000x1000", lambda lib, x: x[x.detach() > 0], square),
        Case("masked_fill 1000x1000", lambda lib, x: x.masked_fill(x.detach() > 0, 0.0), square),
        Case("slice 1000x1000", lambda lib, x: x[10:-10, ::2].contiguous(), square),
        Case("cat 2 x 1000x1000", lambda lib, x, y: lib.cat((x, y), dim=1), square * 2),
        Case("stack 4 x 500x500", lambda lib, a, b, c, d: lib.stack((a, b, c, d), dim=1), ((500, 500),) * 4),
        Case("transpose + contiguous 1000x1000", lambda lib, x: x.t().contiguous(), square),
        Case(
            "permute + contiguous 32x64x56x56", lambda lib, x: x.permute(0, 2, 3, 1).contiguous(), ((32, 64, 56, 56),)
        ),
        Case("repeat_interleave 1000x1000", lambda lib, x: x.repeat_interleave(2, dim=0), square),
        Case("split, multiply 1000x1000", lambda lib, x: lib.cat([2 * part for part in x.split(250)]), square),
        Case("x[10:500] = y 1000x1000", _assigned, ((1000, 1000), (490, 1000)), forward_only=True),
        Case("flip 1000x1000", lambda lib, x: x.flip(1), square),
        Case("roll 1000x1000", lambda lib, x: x.roll(3, 1), square),
        Case("tril 1000x1000", lambda lib, x: x.tril(), square),
        Case("pad 1000x1000", lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1)), square),
        # (stable, for the gradients of equal numbers depend on their order)
        Case("sort dim=-1 1000x1000", lambda lib, x: x.sort(dim=-1, stable=True).values, square),
        Case("topk 10 1000x1000", lambda lib, x: x.topk(10, dim=-1).values, square),
    ]


def _branches(body: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the means of independent branches, each from the shared first input and inputs of its own."""

    def function(lib: Any, x: Any, *others: Any) -> Any:
        total = 0.0
        for w in others:
            total = total + body(lib, x, w).mean()
        return total

    return function


def _experts(lib: Any, x: Any, gate: Any, *weights: Any) -> Any:
    """A mixture of experts of two layers: every row of x goes to the two that the gate gives most, times what it gives them."""
    shares, chosen = lib.softmax(x @ gate, -1).topk(2, dim=-1)
    total = lib.zeros_like(x)
    for expert, (w, v) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
        rows, place = (chosen == expert).nonzero(as_tuple=True)
        found = lib.relu(x[rows] @ w) @ v
        total = total.index_add(0, rows, found * shares[rows, place].unsqueeze(1))
    return total


def _parallel() -> list[AnyCase]:
    """Backward alone of wide graphs, and of a deep narrow one."""

    def product(lib, x, w):
        return lib.sin(lib.tanh(x @ w) @ w)

    def pointwise(lib, x, w):
        return lib.tanh(lib.sigmoid(x * w) * w)

    def wide(name: str, body: Callable[..., Any], branches: int, shape: tuple[int, ...]) -> Case:
        return Case(name, _branches(body), (shape,) * (branches + 1), low=-0.1, high=0.1, rtol=1e-3, backward_only=True)

    return [
        wide("64 branches of matmuls 256x256", product, 64, (256, 256)),
        wide("64 branches of matmuls 64x64", product, 64, (64, 64)),
        wide("64 branches of matmuls 8x8", product, 64, (8, 8)),
        wide("16 branches of pointwise 1e6", pointwise, 16, (1_000_000,)),
        wide("64 branches of pointwise 1e5", pointwise, 64, (100_000,)),
        wide("64 branches of pointwise 1e4", pointwise, 64, (10_000,)),
        Case(
            "mixture of 8 experts 256x512x256, 1024 rows, 2 each",
            _experts,
            ((1024, 256), (256, 8), *[(256, 512), (512, 256)] * 8),
            low=-0.1,
            high=0.1,
            rtol=1e-3,
            backward_only=True,
        ),
        Case(
            "chain of 1000 tanh 4x4", lambda lib, x: lib.tanh(x), ((4, 4),), repeat=1000, backward_only=True, rtol=1e-4
        ),
    ]


def _training() -> list[AnyCase]:
    """Whole training steps."""
    return [Training(name, workload) for name, workload in WORKLOADS.items()]


def _memory() -> list[AnyCase]:
    """What training adds to a process at its peak."""
    return [Child(name, "memory", name) for name in WORKLOADS if not re.search("digits|batch [18],", name)]


def _startup() -> list[AnyCase]:
    """From the start of Python."""
    rows: list[AnyCase] = [Child("import", "importing", "", unit="s")]
    for model in ("LeNet", "digits CNN"):
        name = next(name for name in WORKLOADS if name.startswith(model))
        rows += [
            Child(f"first training step of {model}", "startup", name, unit="s"),
            Child(f"first training step of {model}, empty kernel cache", "startup", name, unit="s", cold=True),
        ]
    return rows


def _some_in_float64(rows: Callable[[], list[AnyCase]]) -> Callable[[], list[AnyCase]]:
    """The rows, and every second one in float64, too: a third of the whole."""

    def more() -> list[AnyCase]:
        found = rows()
        cases = [case for case in found if isinstance(case, (Case, Training))]
        return [*found, *[case.in_float64() for case in cases[::2]]]

    return more


GROUPS: dict[str, Callable[[], list[AnyCase]]] = {
    "overhead": _some_in_float64(overhead),
    "pointwise": _some_in_float64(_pointwise),
    "reductions": _some_in_float64(_reductions),
    "nn": _some_in_float64(_nn),
    "linalg": _some_in_float64(_linalg),
    "indexing": _some_in_float64(_indexing),
    "training": _some_in_float64(_training),
    "parallel": _some_in_float64(_parallel),
    "memory": _memory,
    "start-up": _startup,
}
