"""The frame of every program here: a command line for one of them, and the curves of many in one process."""

import argparse
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = (
    "image_classifier",
    "resnet",
    "unet",
    "vae",
    "gan",
    "word_lstm",
    "seq2seq",
    "transformer_lm",
    "diffusion",
    "reinforcement",
    "graph_network",
    "maml",
    "pinn",
    "neural_ode",
    "flow",
)


def command_line(main: Callable[..., list[float]]) -> None:
    """Run `main(steps, seed)` as the command line asks; print its curve, and write or draw it where asked.

    `--out file.json` writes the list of losses, `--plot file.png` draws them (this needs matplotlib).
    """
    parser = argparse.ArgumentParser(description=(main.__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, help="how many steps to train (default: enough to see it learn)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the losses to this file as JSON")
    parser.add_argument("--plot", type=Path, help="draw the losses into this picture")
    asked = parser.parse_args()
    began = time.perf_counter()
    losses = main(seed=asked.seed) if asked.steps is None else main(steps=asked.steps, seed=asked.seed)
    for step in range(0, len(losses), max(1, len(losses) // 10)):
        print(f"step {step:4d}   loss {losses[step]:.5f}")
    print(f"step {len(losses) - 1:4d}   loss {losses[-1]:.5f}   ({time.perf_counter() - began:.1f} s)")
    if asked.out:
        asked.out.write_text(json.dumps(losses))
    if asked.plot:
        draw({"loss": losses}, asked.plot)


def draw(curves: dict[str, list[float]], path: Path) -> None:
    """Draw labelled curves of losses into one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for label, losses in curves.items():
        axes.plot(losses, label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()
    figure.savefig(path)


def collect(names: list[str], steps: int | None = None, seed: int = 0) -> dict[str, dict]:
    """Run programs one after another: for each its losses, or the error that ended it, and the engine's name."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # sums over several threads depend on their number
    results = {}
    for name in names:
        began = time.perf_counter()
        main = importlib.import_module(name).main
        try:
            losses = main(seed=seed) if steps is None else main(steps=steps, seed=seed)
            results[name] = {"losses": losses}
        except Exception as error:  # noqa: BLE001 - one program's failure must not hide the others' curves
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        results[name] |= {"seconds": time.perf_counter() - began, "engine": torch.Tensor.__module__.partition(".")[0]}
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=collect.__doc__)
    parser.add_argument("names", nargs="*", default=PROGRAMS)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.write_text(json.dumps(collect(asked.names, asked.steps, asked.seed)))
