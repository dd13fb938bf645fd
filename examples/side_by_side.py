"""Runs the programs here on PyTorch and on ferro, each engine in a process of its own, and draws both curves.

python examples/side_by_side.py                  every program, the picture in side_by_side.png
python examples/side_by_side.py vae gan --steps 20
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from curves import HERE, PROGRAMS

ENGINES = ("torch", "ferro")


def start(engine: str, names: list[str], out: Path, steps: int | None = None, seed: int = 0) -> subprocess.Popen[str]:
    """A process that runs the programs on one engine, one after another, and writes their curves to `out`.

    Nothing in the programs changes: `-m ferro.as_torch` makes `import torch` mean ferro in that process.
    """
    command = [sys.executable, *(["-m", "ferro.as_torch"] if engine == "ferro" else [])]
    command += [str(HERE / "curves.py"), *names, "--out", str(out), "--seed", str(seed)]
    command += [] if steps is None else ["--steps", str(steps)]
    # The clone's own ferro, whatever is installed; one thread for each library underneath.
    found = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([str(HERE.parent), *([found] if found else [])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def curves(engine: str, names: list[str], steps: int | None = None, seed: int = 0, timeout: float = 600) -> dict:
    """What `curves.collect` gives for these programs on one engine: losses or the error, seconds, the engine's name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "curves.json"
        process = start(engine, names, out, steps, seed)
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode:
            raise RuntimeError(f"the programs on {engine} ended with {process.returncode}:\n{errors[-4000:]}")
        return json.loads(out.read_text(encoding="utf-8"))


def difference(one: list[float], other: list[float]) -> float:
    """The largest difference between two curves, relative to the first one's largest loss."""
    largest = max(abs(loss) for loss in one)
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) / largest


def picture(found: dict[str, dict], path: Path) -> None:
    """One small picture for each program, both engines' curves in it."""
    from matplotlib.figure import Figure

    names = list(found["torch"])
    columns = min(5, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3 * columns, 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for panel in panels:
        panel.axis("off")
    for name, panel in zip(names, figure.axes):
        panel.axis("on")
        panel.set_title(name.replace("_", " "), fontsize=10)
        panel.plot(found["torch"][name]["losses"], label="PyTorch", linewidth=3, color="#f4a582")
        panel.plot(found["ferro"][name]["losses"], label="ferro", linewidth=1, color="#053061")
        panel.tick_params(labelsize=7)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run, compare, draw; end with status 1 where a program failed on either engine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), metavar="program")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=Path("side_by_side.png"))
    asked = parser.parse_args()
    found = {engine: curves(engine, asked.names, asked.steps, asked.seed) for engine in ENGINES}
    print(f"{'program':<18}{'steps':>6}{'PyTorch':>10}{'ferro':>10}   last losses, and the largest difference")
    failed = False
    for name in asked.names:
        theirs, ours = found["torch"][name], found["ferro"][name]
        if errors := [
            f"{engine}: {found[engine][name]['error']}" for engine in ENGINES if "error" in found[engine][name]
        ]:
            failed = True
            print(f"{name:<18}{'; '.join(errors)}")
            for engine in ENGINES:
                del found[engine][name]
            continue
        times = f"{theirs['seconds']:>9.1f}s{ours['seconds']:>9.1f}s"
        last = f"{theirs['losses'][-1]:.5f} {ours['losses'][-1]:.5f}"
        print(
            f"{name:<18}{len(ours['losses']):>6}{times}   {last}   {difference(theirs['losses'], ours['losses']):.1e}"
        )
    if found["torch"]:
        picture(found, asked.plot)
        print(f"drawn: {asked.plot}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
