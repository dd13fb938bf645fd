"""The rows "overhead" of bench/run.py: small tensors, whose time is the cost of a call."""

from collections.abc import Callable
from typing import Any

from bench.cases import AnyCase, Case, Clip, Update, module
from bench.optimizers import adam, adamw, momentum, sgd
from bench.workloads import CYCLE, mixed

REPEAT = 20


def overhead() -> list[AnyCase]:
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
        once("x.add_(y)", lambda lib, x, y: x.add_(y), (4, 4), (4, 4), forward_only=True),
        once("x[0] = y", _assigned, (4, 4), (4,), forward_only=True),
        once("add(x, y, out=z)", lambda lib, x, y, z: lib.add(x, y, out=z), *((4, 4),) * 3, forward_only=True),
        once("detach", lambda lib, x: x.detach(), (4, 4), forward_only=True),
        once("ones_like", lambda lib, x: lib.ones_like(x), (4, 4), forward_only=True),
        once("repeat_interleave", lambda lib, x: x.repeat_interleave(3, dim=0), (4, 4)),
        Clip("clip_grad_norm_, 50 x 4x4", ((4, 4),) * 50),
        Update("SGD step, 10 x 4x4", sgd, ((4, 4),) * 10),
        Update("SGD with momentum step, 10 x 4x4", momentum, ((4, 4),) * 10),
        Update("Adam step, 10 x 4x4", adam, ((4, 4),) * 10),
        Update("AdamW step, 10 x 4x4", adamw, ((4, 4),) * 10),
        Update("zero_grad, 10 x 4x4", sgd, ((4, 4),) * 10, zero=True),
    ]


def _assigned(lib: Any, x: Any, y: Any) -> Any:
    x[0] = y
    return x
