"""What convolution and pooling cost, forward and forward + backward, ferro beside torch, on inputs that are checked first.

python bench/conv.py                 all rows; a row whose numbers differ between the engines says so and exits 1
python bench/conv.py --only resnet   some rows
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness
from bench.harness import Row, Table
from bench.kernels import Case, Running, disagreement

# name: x, channels out, taps, and what conv1d/2d/3d is told besides
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = {
    "digits 64x1x8x8 -> 16": ((64, 1, 8, 8), 16, (3, 3), {"padding": 1}),
    "digits 64x16x8x8 -> 32": ((64, 16, 8, 8), 32, (3, 3), {"padding": 1}),
    "lenet 64x1x28x28 -> 6, 5x5": ((64, 1, 28, 28), 6, (5, 5), {"padding": 2}),
    "lenet 64x6x14x14 -> 16, 5x5": ((64, 6, 14, 14), 16, (5, 5), {}),
    "resnet 64x3x32x32 -> 16": ((64, 3, 32, 32), 16, (3, 3), {"padding": 1}),
    "resnet 64x16x32x32 -> 16": ((64, 16, 32, 32), 16, (3, 3), {"padding": 1}),
    "resnet 64x16x32x32 -> 32, stride 2": ((64, 16, 32, 32), 32, (3, 3), {"padding": 1, "stride": 2}),
    "resnet 64x32x16x16 -> 32": ((64, 32, 16, 16), 32, (3, 3), {"padding": 1}),
    "resnet 64x64x8x8 -> 64": ((64, 64, 8, 8), 64, (3, 3), {"padding": 1}),
    "resnet 64x16x32x32 -> 32, 1x1 stride 2": ((64, 16, 32, 32), 32, (1, 1), {"stride": 2}),
    "large 8x64x56x56 -> 64": ((8, 64, 56, 56), 64, (3, 3), {"padding": 1}),
    "large 64x64x56x56 -> 64": ((64, 64, 56, 56), 64, (3, 3), {"padding": 1}),
    "large 8x256x14x14 -> 256": ((8, 256, 14, 14), 256, (3, 3), {"padding": 1}),
    "large 8x512x7x7 -> 512": ((8, 512, 7, 7), 512, (3, 3), {"padding": 1}),
    "stem 4x3x224x224 -> 64, 7x7 stride 2": ((4, 3, 224, 224), 64, (7, 7), {"padding": 3, "stride": 2}),
    "1x1 8x64x56x56 -> 64": ((8, 64, 56, 56), 64, (1, 1), {}),
    "1x1 8x256x14x14 -> 1024": ((8, 256, 14, 14), 1024, (1, 1), {}),
    "depthwise 16x64x32x32": ((16, 64, 32, 32), 64, (3, 3), {"padding": 1, "groups": 64}),
    "depthwise 16x64x32x32, stride 2": ((16, 64, 32, 32), 64, (3, 3), {"padding": 1, "groups": 64, "stride": 2}),
    "grouped 16x64x32x32, 8 groups": ((16, 64, 32, 32), 64, (3, 3), {"padding": 1, "groups": 8}),
    "dilated 8x32x32x32 -> 32": ((8, 32, 32, 32), 32, (3, 3), {"padding": 2, "dilation": 2}),
    "audio 4x1x16000 -> 32, 80 taps stride 4": ((4, 1, 16000), 32, (80,), {"stride": 4}),
    "audio 16x64x1000 -> 64, 3 taps": ((16, 64, 1000), 64, (3,), {"padding": 1}),
    "3d 2x8x16x32x32 -> 16": ((2, 8, 16, 32, 32), 16, (3, 3, 3), {"padding": 1}),
}
TRANSPOSED: dict[str, tuple[tuple[int, ...], int, tuple[int, ...], dict[str, Any]]] = {
    "16x64x16x16 -> 32, 4x4 stride 2": ((16, 64, 16, 16), 32, (4, 4), {"padding": 1, "stride": 2}),
    "16x32x32x32 -> 3, 3x3": ((16, 32, 32, 32), 3, (3, 3), {"padding": 1}),
}


def convolutions() -> list[Case]:
    """Ordinary and transposed convolutions with a bias."""
    cases = []
    for prefix, table in (("conv", CONVOLUTIONS), ("conv_transpose", TRANSPOSED)):
        for name, (x, channels, taps, options) in table.items():
            groups = options.get("groups", 1)
            first, second = (channels, x[1] // groups) if prefix == "conv" else (x[1], channels // groups)

            function = f"{prefix}{len(taps)}d"

            def convolve(lib, x, w, b, function=function, options=options):
                return getattr(lib.nn.functional, function)(x, w, b, **options)

            cases.append(Case(f"{prefix} {name}", convolve, (x, (first, second, *taps), (channels,)), rtol=1e-4))
    return cases


def pools() -> list[Case]:
    """Maxima and means of windows."""
    calls: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
        "max_pool2d 64x32x8x8, 2": ((64, 32, 8, 8), lambda lib, x: lib.nn.functional.max_pool2d(x, 2)),
        "max_pool2d 64x32x28x28, 2": ((64, 32, 28, 28), lambda lib, x: lib.nn.functional.max_pool2d(x, 2)),
        "max_pool2d 8x64x56x56, 3 stride 2": (
            (8, 64, 56, 56),
            lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 2, 1),
        ),
        "max_pool1d 16x64x1000, 2": ((16, 64, 1000), lambda lib, x: lib.nn.functional.max_pool1d(x, 2)),
        "avg_pool2d 64x6x28x28, 2": ((64, 6, 28, 28), lambda lib, x: lib.nn.functional.avg_pool2d(x, 2)),
        "avg_pool2d 64x16x10x10, 2": ((64, 16, 10, 10), lambda lib, x: lib.nn.functional.avg_pool2d(x, 2)),
        "avg_pool2d 64x32x28x28, 2": ((64, 32, 28, 28), lambda lib, x: lib.nn.functional.avg_pool2d(x, 2)),
        "avg_pool2d 8x64x56x56, 3 stride 1": (
            (8, 64, 56, 56),
            lambda lib, x: lib.nn.functional.avg_pool2d(x, 3, 1, 1),
        ),
        "adaptive_avg_pool2d 64x64x8x8 -> 1": (
            (64, 64, 8, 8),
            lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 1),
        ),
    }
    return [Case(name, function, (shape,)) for name, (shape, function) in calls.items()]


def main(argv: list[str] | None = None) -> int:
    """Time the rows; 1 if numbers differ."""
    args = harness.parser(__doc__.partition("\n")[0]).parse_args(argv)
    libraries = harness.begin(args)
    tables = {}
    for title, cases in (("Convolution", convolutions()), ("Pooling", pools())):
        table = tables[title] = Table(f"{title}, time per call", width=68)
        for case in cases:
            if args.only not in case.name:
                continue
            running = {engine: Running(lib, case) for engine, lib in libraries.items()}
            note = disagreement(case, running)
            for kind, method in (("forward", "forward"), ("forward + backward", "both")):
                jobs = {engine: getattr(job, method) for engine, job in running.items()}
                table.add(Row(f"{case.name}, {kind}", harness.interleave(jobs, args.seconds / 2), note=note))
        if table.rows:
            table.close()
    harness.save(args, libraries, {title.lower(): table.records() for title, table in tables.items()})
    wrong = sorted({row.name for table in tables.values() for row in table.rows if row.note})
    print(f"\n{len(wrong)} rows differ in their numbers: {wrong}" if wrong else "\nall rows computed the same numbers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
