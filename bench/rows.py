"""Every row of bench/run.py, one declaration each, in groups."""

import math
from collections.abc import Callable
from typing import Any

from bench.cases import AnyCase, Case, Child, Training, Update, module
from bench.workloads import CYCLE, WORKLOADS, mixed

REPEAT = 20


def _overhead() -> list[AnyCase]:
    """Small tensors: what is measured is the cost of a call. First operations applied 20 times over to 4x4 numbers."""

    def chain(name: str, function: Callable[..., Any], per: int = 1, state: Any = None) -> Case:
        return Case(name, function, ((4, 4), (4, 4)), 1.0, 2.0, repeat=REPEAT, per=per, state=state, rtol=1e-4)

    def once(name: str, function: Callable[..., Any], *shapes: tuple[int, ...], **more: Any) -> Case:
        return Case(name, function, shapes, rtol=1e-4, **more)

    def lstm_cell(lib, cell, h, x):
        return cell(x, (h, h))[0]

    def long(cycles: int, **more: Any) -> Case:
        name = f"mixed chain of {CYCLE * cycles} operations"
        shapes = ((4, 4),) * 3
        return Case(
            name,
            lambda lib, x, w, b: mixed(lib, x, w, b, cycles),
            shapes,
            -0.5,
            0.5,
            per=CYCLE * cycles,
            rtol=1e-2,
            **more,
        )

    return [
        long(5),
        long(50),
        long(50, backward_only=True),
        chain("x + y", lambda lib, x, y: x + y),
        chain("x - y", lambda lib, x, y: x - y),
        chain("x * y", lambda lib, x, y: x * y * 0.5, per=2),
        chain("x / y", lambda lib, x, y: x / y),
        chain("x * 1.01", lambda lib, x, y: x * 1.01),
        chain("-x", lambda lib, x, y: -x),
        chain("1.5 - x ** 2 (bounded)", lambda lib, x, y: 1.5 - (0.1 * x) ** 2, per=3),
        chain("exp(-x)", lambda lib, x, y: lib.exp(-x), per=2),
        chain("log(y + x * x)", lambda lib, x, y: lib.log(y + x * x), per=3),
        chain("sqrt(y + x * x)", lambda lib, x, y: lib.sqrt(y + x * x), per=3),
        chain("tanh", lambda lib, x, y: lib.tanh(x)),
        chain("sigmoid", lambda lib, x, y: lib.sigmoid(x)),
        chain("sin", lambda lib, x, y: lib.sin(x)),
        chain("relu", lambda lib, x, y: lib.relu(x)),
        chain("gelu", lambda lib, x, y: lib.nn.functional.gelu(x)),
        chain("softmax", lambda lib, x, y: lib.softmax(x, dim=-1)),
        chain("log_softmax", lambda lib, x, y: lib.log_softmax(x, dim=-1)),
        chain("maximum", lambda lib, x, y: lib.maximum(x, y)),
        chain("clamp", lambda lib, x, y: x.clamp(1.2, 1.8)),
        chain("where(x > 1.5, x, y)", lambda lib, x, y: lib.where(x > 1.5, x, y), per=2),
        chain("x + row (broadcast)", lambda lib, x, y: x + y[0], per=2),
        chain("x - 0.1 sum", lambda lib, x, y: x - 0.1 * x.sum(), per=3),
        chain("x - mean(dim, keepdim)", lambda lib, x, y: x - x.mean(dim=-1, keepdim=True), per=2),
        chain("x - max(dim).values", lambda lib, x, y: x - x.max(dim=-1, keepdim=True).values, per=2),
        chain("x @ y * 0.1", lambda lib, x, y: x @ y * 0.1, per=2),
        chain("linear", lambda lib, x, y: lib.nn.functional.linear(x, y) * 0.1, per=2),
        chain("transpose", lambda lib, x, y: x.transpose(0, 1)),
        chain("permute", lambda lib, x, y: x.permute(1, 0)),
        chain("reshape", lambda lib, x, y: x.reshape(2, 8).reshape(4, 4), per=2),
        chain("view", lambda lib, x, y: x.view(2, 8).view(4, 4), per=2),
        chain("unsqueeze, squeeze", lambda lib, x, y: x.unsqueeze(1).squeeze(1), per=2),
        chain("expand", lambda lib, x, y: x[:, :1].expand(4, 4), per=2),
        chain("flatten", lambda lib, x, y: x.flatten().view(4, 4), per=2),
        chain("cat of halves", lambda lib, x, y: lib.cat((x[2:], x[:2])), per=3),
        chain("stack of 2 rows", lambda lib, x, y: lib.stack((x[0], y[0], x[1], y[1])), per=5),
        chain("chunk 4", lambda lib, x, y: lib.cat(x.chunk(4, dim=1), dim=1), per=2),
        chain("split 2", lambda lib, x, y: lib.cat(x.split(2)), per=2),
        chain("unbind", lambda lib, x, y: lib.stack(x.unbind(0)), per=2),
        chain("nn.Linear", lambda lib, layer, x, y: layer(x), state=module(lambda nn: nn.Linear(4, 4))),
        chain("nn.ReLU", lambda lib, layer, x, y: layer(x), state=module(lambda nn: nn.ReLU())),
        chain("nn.LayerNorm", lambda lib, layer, x, y: layer(x), state=module(lambda nn: nn.LayerNorm(4))),
        chain(
            "nn.Sequential of 4 Identity",
            lambda lib, layer, x, y: layer(x) * y,
            state=module(lambda nn: nn.Sequential(*[nn.Identity() for _ in range(4)])),
        ),
        chain("nn.LSTMCell", lstm_cell, state=module(lambda nn: nn.LSTMCell(4, 4))),
        chain("nn.GRUCell", lambda lib, cell, h, x: cell(x, h), state=module(lambda nn: nn.GRUCell(4, 4))),
        once("layer_norm 4x4", lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (4,), w, b), (4, 4), (4,), (4,)),
        once(
            "batch_norm 4x4",
            lambda lib, x, w, b: lib.nn.functional.batch_norm(x, None, None, w, b, training=True),
            *((4, 4), (4,), (4,)),
        ),
        once("linear 4x4", lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), (4, 4), (4, 4), (4,)),
        once("mse_loss 4x4", lambda lib, x, y: lib.nn.functional.mse_loss(x, y), (4, 4), (4, 4)),
        once(
            "cross_entropy 4x4",
            lambda lib, x, target: lib.nn.functional.cross_entropy(x, target),
            *((4, 4), (4,)),
            classes=4,
        ),
        once(
            "embedding 4 of 4x4",
            lambda lib, w, index: lib.nn.functional.embedding(index, w),
            *((4, 4), (4,)),
            classes=4,
        ),
        once("x[i] (int)", lambda lib, x: x[1], (4, 4)),
        once("x[i, j] (ints)", lambda lib, x: x[1, 2], (4, 4)),
        once("x[a:b]", lambda lib, x: x[1:3], (4, 4)),
        once("x[:, a:b]", lambda lib, x: x[:, 1:3], (4, 4)),
        once("x[..., None]", lambda lib, x: x[..., None], (4, 4)),
        once("x[index]", lambda lib, x, index: x[index], (4, 4), (4,), classes=4),
        once("sum", lambda lib, x: x.sum(), (4, 4)),
        once("sum dim", lambda lib, x: x.sum(dim=1), (4, 4)),
        once("mean", lambda lib, x: x.mean(), (4, 4)),
        once("var dim", lambda lib, x: x.var(dim=1), (4, 4)),
        once("norm", lambda lib, x: lib.linalg.vector_norm(x), (4, 4)),
        once("conv2d 1x1x4x4", lambda lib, x, w: lib.nn.functional.conv2d(x, w), (1, 1, 4, 4), (1, 1, 3, 3)),
        once("item", lambda lib, x: lib.zeros(()) + float(x[0, 0].item()), (4, 4), forward_only=True),
        once("zeros, ones, arange", lambda lib, x: lib.zeros(4) + lib.ones(4) + lib.arange(4), (1,), forward_only=True),
        Update("SGD step, 10 x 4x4", _sgd, ((4, 4),) * 10),
        Update("SGD with momentum step, 10 x 4x4", _momentum, ((4, 4),) * 10),
        Update("Adam step, 10 x 4x4", _adam, ((4, 4),) * 10),
        Update("AdamW step, 10 x 4x4", _adamw, ((4, 4),) * 10),
        Update("zero_grad, 10 x 4x4", _sgd, ((4, 4),) * 10, zero=True),
    ]


def _sgd(lib: Any, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.01)


def _momentum(lib: Any, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _adam(lib: Any, parameters: Any) -> Any:
    return lib.optim.Adam(parameters)


def _adamw(lib: Any, parameters: Any) -> Any:
    return lib.optim.AdamW(parameters)


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


def _layer_norm(lib, x, w, b):
    return lib.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


def _cross_entropy(lib, x, target):
    return lib.nn.functional.cross_entropy(x, target)


def _attention(lib, q, k, v):
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v


def _causal_attention(lib, q, k, v):
    return lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _bce(lib, x, y):
    return lib.nn.functional.binary_cross_entropy_with_logits(x, y.sigmoid().detach())


def _nn() -> list[AnyCase]:
    """Convolutions, pooling, normalisations, losses, optimisers: what models are made of."""
    images = ((64, 32, 28, 28),)
    return [
        Case(
            "linear 64x784 -> 256",
            lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
            ((64, 784), (256, 784), (256,)),
            rtol=1e-4,
        ),
        Case("attention 16x4x64x24", _attention, ((16, 4, 64, 24),) * 3, rtol=1e-4),
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
        Update("SGD step, 1e6 parameters", _momentum, ((1000, 1000),)),
        Update("Adam step, 1e6 parameters", _adam, ((1000, 1000),)),
        Update("Adam step, 40 x 64x64", _adam, ((64, 64),) * 40),
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
    cases: list[AnyCase] = [Case(f"matmul {n}x{n}", matmul, ((n, n),) * 2, rtol=1e-4) for n in (64, 256, 1024)]
    cases += [
        Case("matrix times vector 1024", matmul, ((1024, 1024), (1024,)), rtol=1e-4),
        Case("bmm 64 x 64x64", matmul, ((64, 64, 64),) * 2, rtol=1e-4),
        Case("einsum bij,bjk->bik", lambda lib, x, y: lib.einsum("bij,bjk->bik", x, y), ((16, 64, 64),) * 2, rtol=1e-4),
    ]
    for n in (8, 128):
        cases += [Case(f"{name} {n}x{n}", f, ((n, n),), rtol=2e-3) for name, f in table.items()]
    return cases


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
            "chain of 1000 tanh 4x4", lambda lib, x: lib.tanh(x), ((4, 4),), repeat=1000, backward_only=True, rtol=1e-4
        ),
    ]


def _training() -> list[AnyCase]:
    """Whole training steps."""
    return [Training(name, workload) for name, workload in WORKLOADS.items()]


def _memory() -> list[AnyCase]:
    """What training adds to a process at its peak."""
    return [Child(name, "memory", name) for name in WORKLOADS if "digits" not in name]


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


GROUPS: dict[str, Callable[[], list[AnyCase]]] = {
    "overhead": _overhead,
    "pointwise": _pointwise,
    "reductions": _reductions,
    "nn": _nn,
    "linalg": _linalg,
    "indexing": _indexing,
    "training": _training,
    "parallel": _parallel,
    "memory": _memory,
    "start-up": _startup,
}
