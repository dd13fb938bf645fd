"""Operations on matrices of 1e4, 1e6 and 1e7 numbers, along the last, the first and all dimensions, ferro beside torch.

python bench/large.py                            all rows, the slowest (as a ratio) once more at the end
python bench/large.py --sizes 1e6 --only cumsum  some rows
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.harness import Row, Table
from bench.kernels import Case, Running, disagreement

SHAPES = {"1e4": (100, 100), "1e6": (1000, 1000), "1e7": (2500, 4000)}
Function = Callable[..., Any]


def scans() -> dict[str, Function]:
    """Cumulative operations."""
    table: dict[str, Function] = {}
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        for dim in (-1, 0):
            table[f"{name} dim={dim}"] = lambda lib, x, n=name, d=dim: getattr(lib, n)(x, d)
    for dim in (-1, 0):
        table[f"cummax dim={dim}"] = lambda lib, x, d=dim: lib.cummax(x, d)[0]
    return table


def reductions() -> dict[str, Function]:
    """Reductions over everything and along either dimension."""
    table: dict[str, Function] = {}
    for name in ("sum", "mean", "prod", "var", "std", "amax"):
        table[name] = lambda lib, x, n=name: getattr(x, n)()
    table["max"] = lambda lib, x: x.max()
    table["norm"] = lambda lib, x: lib.linalg.vector_norm(x)
    table["logsumexp"] = lambda lib, x: lib.logsumexp(x, (0, 1))
    for dim in (-1, 0):
        for name in ("sum", "mean", "prod", "var", "std", "amax", "logsumexp"):
            table[f"{name} dim={dim}"] = lambda lib, x, n=name, d=dim: getattr(lib, n)(x, dim=d)
        table[f"max dim={dim}"] = lambda lib, x, d=dim: lib.max(x, d)[0]
        table[f"norm dim={dim}"] = lambda lib, x, d=dim: lib.linalg.vector_norm(x, dim=d)
        table[f"norm1 dim={dim}"] = lambda lib, x, d=dim: lib.linalg.vector_norm(x, 1, dim=d)
        table[f"argmax dim={dim}"] = lambda lib, x, d=dim: lib.argmax(x, d)
        table[f"softmax dim={dim}"] = lambda lib, x, d=dim: lib.softmax(x, d)
        table[f"log_softmax dim={dim}"] = lambda lib, x, d=dim: lib.log_softmax(x, d)
    return table


def pointwise() -> tuple[dict[str, Function], dict[str, Function]]:
    """Elementwise operations of one and of two arguments."""
    one: dict[str, Function] = {}
    for name in (
        "exp",
        "log1p",
        "tanh",
        "sigmoid",
        "sin",
        "sqrt",
        "abs",
        "square",
        "erf",
        "rsqrt",
        "reciprocal",
        "floor",
    ):
        one[name] = lambda lib, x, n=name: getattr(lib, n)(x.abs() if n in ("log1p", "sqrt", "rsqrt") else x)
    for name in (
        "relu",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "elu",
        "selu",
        "hardswish",
        "hardsigmoid",
        "hardtanh",
        "leaky_relu",
        "logsigmoid",
        "softsign",
        "hardshrink",
        "softshrink",
        "tanhshrink",
    ):
        one[name] = lambda lib, x, n=name: getattr(lib.nn.functional, n)(x)
    one["clamp"] = lambda lib, x: x.clamp(-1, 1)
    one["pow 3"] = lambda lib, x: x**3
    one["pow 2.5"] = lambda lib, x: x.abs() ** 2.5
    one["masked_fill"] = lambda lib, x: x.masked_fill(x.detach() > 0, 0.5)
    one["where"] = lambda lib, x: lib.where(x.detach() > 0, x, 0.5)
    one["triu"] = lambda lib, x: lib.triu(x)
    two: dict[str, Function] = {"add": lambda lib, x, y: x + y, "div": lambda lib, x, y: x / y}
    for name in ("remainder", "fmod", "maximum", "atan2", "hypot", "pow", "logaddexp", "xlogy"):
        two[name] = lambda lib, x, y, n=name: getattr(lib, n)(x.abs() if n == "pow" else x, y)
    for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits", "kl_div"):
        two[name] = lambda lib, x, y, n=name: getattr(lib.nn.functional, n)(x, y.detach())
    two["floor_divide"] = lambda lib, x, y: lib.floor_divide(x.detach(), y.detach()) + x
    two["bce"] = lambda lib, x, y: lib.nn.functional.binary_cross_entropy(
        x.clamp(0.1, 0.9), (y.detach() / 2).clamp(0, 1)
    )
    two["lerp"] = lambda lib, x, y: lib.lerp(x, y, 0.3)
    two["addcmul"] = lambda lib, x, y: lib.addcmul(x, x, y)
    return one, two


def movers() -> tuple[dict[str, Function], ...]:
    """What copies, sorts and selects: with one argument, with two, and with the numbers of rows or columns."""
    one: dict[str, Function] = {
        "transpose + contiguous": lambda lib, x: x.t().contiguous(),
        "transposed + 1": lambda lib, x: x.t() + 1,
        "flip": lambda lib, x: x.flip(0),
        "roll": lambda lib, x: x.roll(3, 1),
        "repeat": lambda lib, x: x.repeat(2, 1),
        "sort dim=-1": lambda lib, x: lib.sort(x, dim=-1, stable=True)[0],
        "sort dim=0": lambda lib, x: lib.sort(x, dim=0, stable=True)[0],
        "topk": lambda lib, x: lib.topk(x, 5, -1)[0],
        "masked_select": lambda lib, x: lib.masked_select(x, x.detach() > 0),
        "x[mask]": lambda lib, x: x[x.detach() > 0],
        "median dim=-1": lambda lib, x: lib.median(x, -1)[0],
        "histc": lambda lib, x: lib.histc(x.detach(), 50, -1.0, 1.0),
        "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1)),
        "x[:, ::2]": lambda lib, x: x[:, ::2].contiguous(),
        "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.3),
        "bincount": lambda lib, x: lib.bincount((x.detach() * 100 + 200).long().reshape(-1)),
        "x * mask": lambda lib, x: x * (x.detach() > 0),
    }
    two: dict[str, Function] = {
        "cat dim=0": lambda lib, x, y: lib.cat((x, y), 0),
        "cat dim=1": lambda lib, x, y: lib.cat((x, y), 1),
        "stack": lambda lib, x, y: lib.stack((x, y)),
        "stack dim=2": lambda lib, x, y: lib.stack((x, y), 2),
    }

    def full(lib, x, i):
        return i.unsqueeze(1).expand(i.shape[0], x.shape[1])

    index: dict[str, Function] = {
        "x[i]": lambda lib, x, i: x[i],
        "x[:, i]": lambda lib, x, i: x[:, i[: x.shape[1]]],
        "x[i, i]": lambda lib, x, i: x[i, i],
        "index_select dim=0": lambda lib, x, i: x.index_select(0, i),
        "index_select dim=1": lambda lib, x, i: x.index_select(1, i),
        "gather dim=0 expanded": lambda lib, x, i: x.gather(0, full(lib, x, i)),
        "scatter_add dim=0 expanded": lambda lib, x, i: lib.zeros_like(x).scatter_add(0, full(lib, x, i), x),
        "scatter dim=0 expanded": lambda lib, x, i: lib.zeros_like(x).scatter(0, full(lib, x, i), x.detach()) + x,
        "index_add dim=0": lambda lib, x, i: lib.zeros_like(x).index_add(0, i, x),
        "embedding": lambda lib, x, i: lib.nn.functional.embedding(i, x),
        "cross_entropy": lambda lib, x, i: lib.nn.functional.cross_entropy(x, i),
        "nll_loss": lambda lib, x, i: lib.nn.functional.nll_loss(x, i),
    }
    placed: dict[str, Function] = {}
    for dim in (0, 1):
        placed[f"gather dim={dim}"] = lambda lib, x, i, d=dim: x.gather(d, i)
        placed[f"scatter_add dim={dim}"] = lambda lib, x, i, d=dim: lib.zeros_like(x).scatter_add(d, i, x)
    return one, two, index, placed


def cases(label: str) -> list[Case]:
    """All rows of one size."""
    shape = SHAPES[label]
    n = shape[0] * shape[1]
    one, two = pointwise()
    moved, joined, indexed, placed = movers()
    found = [Case(f"{k} {label}", f, (shape,), rtol=1e-3) for k, f in {**one, **moved}.items()]
    found += [Case(f"{k} {label}", f, (shape,), low=0.99, high=1.01, rtol=1e-3) for k, f in scans().items()]
    found += [Case(f"{k} {label}", f, (shape,), low=0.999, high=1.001, rtol=1e-3) for k, f in reductions().items()]
    found += [Case(f"{k} {label}", f, (shape,) * 2, low=0.5, rtol=1e-3) for k, f in {**two, **joined}.items()]
    found += [Case(f"{k} {label}", f, (shape, (shape[0],)), classes=min(shape), rtol=1e-3) for k, f in indexed.items()]
    found += [Case(f"{k} {label}", f, (shape,) * 2, classes=min(shape), rtol=1e-3) for k, f in placed.items()]
    F: Any = lambda lib: lib.nn.functional  # noqa: E731 (as short as what it stands for)
    images = (max(n // 65536, 1), 16, 64, 64) if n > 65536 else (1, 10, 32, 32)
    last = (shape[1],)
    places = (images[0], images[2], images[3], 2)

    def causal(lib, q, k, v):
        return F(lib).scaled_dot_product_attention(q, k, v, is_causal=True)

    heads = (max(n // 65536, 1), 4, 256, 64) if n > 65536 else (2, 4, 20, 64)
    found += [
        Case(
            f"layer_norm {label}", lambda lib, x, w, b: F(lib).layer_norm(x, last, w, b), (shape, last, last), rtol=1e-3
        ),
        Case(f"rms_norm {label}", lambda lib, x, w: F(lib).rms_norm(x, last, w), (shape, last), rtol=1e-3),
        Case(
            f"group_norm {label}",
            lambda lib, x, w, b: F(lib).group_norm(x, 2, w, b),
            (images, images[1:2], images[1:2]),
            rtol=1e-2,
        ),
        Case(f"instance_norm {label}", lambda lib, x: F(lib).instance_norm(x), (images,), rtol=1e-2),
        Case(
            f"batch_norm {label}",
            lambda lib, x, w, b: F(lib).batch_norm(x, None, None, w, b, True),
            (images, images[1:2], images[1:2]),
            rtol=1e-2,
        ),
        Case(
            f"batch_norm eval {label}",
            lambda lib, x, m, v: F(lib).batch_norm(x, m.detach(), v.detach(), m, v),
            (images, images[1:2], images[1:2]),
            low=0.5,
            rtol=1e-2,
        ),
        Case(
            f"batch_norm 2-d {label}",
            lambda lib, x, w, b: F(lib).batch_norm(x, None, None, w, b, True),
            (shape, last, last),
            rtol=1e-2,
        ),
        Case(
            f"grid_sample {label}",
            lambda lib, x, g: F(lib).grid_sample(x, g, align_corners=False),
            (images, places),
            low=-1,
            high=1,
            rtol=1e-2,
        ),
        *[
            Case(
                f"interpolate {mode} {label}",
                lambda lib, x, m=mode: F(lib).interpolate(x, scale_factor=2, mode=m),
                ((images[0], images[1], images[2] // 2, images[3] // 2),),
                rtol=1e-2,
            )
            for mode in ("nearest", "bilinear", "bicubic")
        ],
        Case(f"attention causal {label}", causal, (heads,) * 3, rtol=1e-2),
    ]
    return found


def main(argv: list[str] | None = None) -> int:
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="1e4,1e6,1e7", help="which of 1e4, 1e6 and 1e7 (all, separated by commas)")
    parser.add_argument("--worst", type=int, default=60, help="how many of the slowest rows to repeat at the end")
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
    wanted = args.only.split(",")
    table = Table("Large arrays, time per call")
    for case in [case for label in args.sizes.split(",") for case in cases(label)]:
        if not any(part in case.name for part in wanted):
            continue
        try:
            running = {engine: Running(lib, case) for engine, lib in libraries.items()}
            random = case.name.startswith(("dropout", "topk"))  # (topk may choose among equal numbers)
            fixed = case.name.startswith(("argmax", "histc", "bincount"))  # without derivative
            note = "" if random or fixed else disagreement(case, running)
        except Exception as error:  # noqa: BLE001 (one row must not cost the others)
            print(f"{case.name}: {type(error).__name__}: {error}"[:200])
            continue
        for kind, method in (("fwd", "forward"), ("fwd+bwd", "both")):
            if kind == "fwd+bwd" and fixed:
                continue
            jobs = {engine: getattr(job, method) for engine, job in running.items()}
            table.add(Row(f"{case.name}, {kind}", harness.interleave(jobs, args.seconds), note=note))
    if table.rows:
        table.close()
        worst = Table(f"The {args.worst} slowest")
        for row in sorted(table.rows, key=lambda row: -(row.ratio() or 0))[: args.worst]:
            worst.add(row)
    harness.save(args, libraries, {"large": table.records()})
    wrong = [row.name for row in table.rows if row.note]
    print(f"\n{len(wrong)} rows differ in their numbers: {wrong}" if wrong else "\nall rows computed the same numbers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
