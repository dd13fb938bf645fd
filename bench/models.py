"""What a training step of whole models costs (the rows "training" of bench/run.py), and how closely curves agree.

python bench/models.py                  time steps, then compare 50 steps of the MLP and the digits CNN
python bench/models.py --curves-only    only compare the curves
"""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness, run
from bench.workloads import WORKLOADS, Workload, initial_state, loss_curve

CURVES = ("MLP 64-128-128-10, digits, SGD", "digits CNN, batch norm, Adam")


def agreement(workload: Workload, libraries: dict[str, ModuleType], steps: int) -> dict[str, list[float]]:
    """|difference| of the losses step by step, between the engines and between float32 and float64 of each engine.

    The latter is the yardstick: how far rounding alone carries an engine from the exact curve. Two correct engines
    differ from each other in float32 by about as much, and in float64 by some 5e8 times less.
    """
    state = initial_state(workload, libraries["ferro"])
    curve = {
        (engine, dtype): loss_curve(workload, lib, state, steps, dtype)
        for engine, lib in libraries.items()
        for dtype in ("float32", "float64")
    }
    pairs = {
        "ferro, torch in float32": (("ferro", "float32"), ("torch", "float32")),
        "torch float32, float64": (("torch", "float32"), ("torch", "float64")),
        "ferro float32, float64": (("ferro", "float32"), ("ferro", "float64")),
        "ferro, torch in float64": (("ferro", "float64"), ("torch", "float64")),
    }
    result = {label: np.abs(curve[a] - curve[b]).tolist() for label, (a, b) in pairs.items()}
    return {"loss (ferro, float32)": curve["ferro", "float32"].tolist(), **result}


def compare_curves(libraries: dict[str, ModuleType], steps: int) -> dict[str, dict[str, list[float]]]:
    """Print the agreement at a few steps and its maximum."""
    results = {}
    shown = [step for step in (1, 2, 5, 10, 20, 30, 40, 50) if step <= steps]
    for name in CURVES:
        results[name] = agreement(WORKLOADS[name], libraries, steps)
        print(f"\n{name}: |difference of losses| at step")
        print(f"{'':26}" + "".join(f"{step:>9}" for step in shown) + f"{'largest':>10}")
        for label, values in results[name].items():
            kind = "9.4f" if label.startswith("loss") else "9.1e"
            print(f"{label:26}" + "".join(f"{values[step - 1]:{kind}}" for step in shown) + f"{max(values):10.1e}")
    return results


def main(argv: list[str] | None = None) -> None:
    parser = harness.parser(__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=50, help="of the training curves (default 50)")
    parser.add_argument("--curves-only", action="store_true", help="compare the curves, time nothing")
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
    results: dict[str, Any] = {}
    if not args.curves_only:
        args.rows = re.escape(args.only)
        found = run.measure(libraries, args, ("training",))
        results["steps"] = [record for tables in found.values() for table in tables for record in table.records()]
    if "torch" in libraries:
        results["curves"] = compare_curves(libraries, args.steps)
    harness.save(args, libraries, results)


if __name__ == "__main__":
    main()
