"""Train a small causal transformer on text that ships with Python: `python -m ferro.examples.chargpt`."""

import argparse
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ferro
import ferro.nn.functional as F
from ferro import nn, optim
from ferro.examples import optional

BATCH_SIZE = 16
HELD_OUT = 0.1
WARM_UP = 50
PEAK_RATE = 3e-3


@dataclass(frozen=True)
class Size:
    """The dimensions of the network."""

    vocabulary: int
    context: int = 64
    width: int = 96
    heads: int = 4
    blocks: int = 3


class Attention(nn.Module):
    """Causal self-attention: softmax(Q Kᵀ / √d, over the past) V, in several heads."""

    def __init__(self, size: Size):
        super().__init__()
        self.heads = size.heads
        self.project_in = nn.Linear(size.width, 3 * size.width)
        self.project_out = nn.Linear(size.width, size.width)
        self.register_buffer("future", ferro.ones(size.context, size.context).triu(1).bool(), persistent=False)

    def forward(self, x):
        batch, time, width = x.shape
        split = self.project_in(x).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(self.future[:time, :time], -math.inf).softmax(dim=-1)
        return self.project_out((weights @ v).transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention and a two-layer network, each normalising its input and adding to it."""

    def __init__(self, size: Size):
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.norm2 = nn.LayerNorm(size.width)
        self.mlp = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    """Scores of the next character at every place of a text, given the characters up to that place."""

    def __init__(self, size: Size):
        super().__init__()
        self.context = size.context
        self.characters = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.blocks)))
        self.norm = nn.LayerNorm(size.width)
        self.scores = nn.Linear(size.width, size.vocabulary)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What is added to the residual stream starts smaller, so that its variance does not grow with depth.
                last = name.endswith(("project_out.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * size.blocks) if last else 0.02)

    def forward(self, text):
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        return self.scores(self.norm(self.blocks(x)))


def corpus() -> str:
    """The reference manual that `help()` shows: about 400,000 to 700,000 characters, by the version of Python."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise SystemExit(
            "This Python was packaged without pydoc_data.topics, the text of the example. A Python from python.org, "
            "conda-forge, or the full package of the distribution has it."
        ) from None
    return "\n\n".join(topics[name] for name in sorted(topics))


def batches(codes: np.ndarray, context: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Random pieces of the text, and the same pieces one character on."""
    starts = rng.integers(0, len(codes) - context - 1, BATCH_SIZE)
    pieces = codes[starts[:, None] + np.arange(context + 1)]
    return ferro.tensor(pieces[:, :-1]), ferro.tensor(pieces[:, 1:])


def cross_entropy(model: CharGPT, text: Any, following: Any) -> Any:
    """Mean loss in nats per character."""
    return F.cross_entropy(model(text).flatten(0, 1), following.flatten())


def train(
    model: CharGPT, codes: np.ndarray, steps: int, rng: np.random.Generator, memory_map: str | None = None
) -> list[float]:
    """AdamW; the learning rate warms up and falls along a cosine; gradients are clipped. Returns the losses.

    With `memory_map` (a file to be written) the steps are compiled, and the map of their memory is written there.
    """
    # Matrices decay; biases, gains and embeddings do not, as is usual.
    decaying = [p for name, p in model.named_parameters() if p.dim() == 2 and not name.startswith(("char", "places"))]
    others = [p for p in model.parameters() if not any(p is q for q in decaying)]
    groups = [{"params": decaying, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.99))
    warm_up = min(WARM_UP, max(1, steps // 5))

    def rate(step: int) -> float:
        cosine = 0.55 + 0.45 * math.cos(math.pi * min(1.0, step / steps))
        return min(1.0, (step + 1) / warm_up) * cosine

    schedule = optim.lr_scheduler.LambdaLR(optimizer, rate)

    def update(text: Any, following: Any) -> Any:
        loss = cross_entropy(model, text, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if memory_map is not None:
        update = ferro.compile(update)
    losses = []
    model.train()
    with optional("tqdm").tqdm(total=steps, unit="step", desc="training") as progress:
        for step in range(steps):
            losses.append(update(*batches(codes, model.context, rng)).item())
            schedule.step()
            if step % 10 == 9:
                progress.set_postfix(nats_per_char=f"{np.mean(losses[-10:]):.3f}", refresh=False)
            progress.update()
    if memory_map is not None:
        tell(update.explain(), memory_map)
    return losses


def tell(explained: Any, memory_map: str) -> None:
    """Prints what became of compiled steps, and writes the map of their memory."""
    print(explained)
    if explained.plans:
        explained.plans[0].html(memory_map)
        print(f"the map of its memory is {memory_map}")


def evaluate(model: CharGPT, codes: np.ndarray, how_many: int = 20) -> float:
    """Mean loss on held-out text, on pieces that are always the same."""
    rng = np.random.default_rng(0)
    model.eval()
    with ferro.no_grad():
        losses = [cross_entropy(model, *batches(codes, model.context, rng)).item() for _ in range(how_many)]
    return float(np.mean(losses))


def sample(
    model: CharGPT, start: list[int], length: int, rng: np.random.Generator, temperature: float = 0.8
) -> list[int]:
    """Continue a text, drawing one character after the other from the network's probabilities."""
    codes = list(start)
    model.eval()
    with ferro.no_grad():
        for _ in range(length):
            scores = model(ferro.tensor([codes[-model.context :]]))[0, -1]
            probability = (scores / temperature).softmax(dim=0).double().numpy()
            codes.append(int(rng.choice(len(probability), p=probability / probability.sum())))
    return codes


def first_below(losses: list[float], bound: float, window: int = 10) -> int | None:
    """The step at which the mean of the last `window` losses is first below a bound."""
    means = np.convolve(losses, np.ones(window) / window, mode="valid")
    below = np.flatnonzero(means < bound)
    return int(below[0]) + window if len(below) else None


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ferro.examples.chargpt", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of 16 pieces of 64 characters each (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the pieces and the sample")
    parser.add_argument("--sample", type=int, default=500, help="characters to write at the end (default 500)")
    parser.add_argument(
        "--compile",
        nargs="?",
        const="chargpt_memory.html",
        metavar="FILE",
        help="steps run as graphs; a map of their memory is written to the file (default chargpt_memory.html)",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: as many as processors")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.sample < 0:
        parser.error(f"--steps must be at least 1 and --sample at least 0, got {args.steps} and {args.sample}")
    return args


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Train, evaluate, write; returns the losses, the held-out loss and the sampled text."""
    args = parse(argv)
    start = time.perf_counter()
    ferro.set_num_threads(args.threads)
    ferro.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    text = corpus()
    letters = sorted(set(text))
    code = {letter: number for number, letter in enumerate(letters)}
    codes = np.array([code[letter] for letter in text], dtype=np.int64)
    train_codes, test_codes = np.split(codes, [int(len(codes) * (1 - HELD_OUT))])
    model = CharGPT(Size(vocabulary=len(letters)))
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} characters of {len(letters)} kinds; {parameters:,} parameters")
    losses = train(model, train_codes, args.steps, rng, args.compile)
    held_out = evaluate(model, test_codes)
    fell = first_below(losses, 2.0)
    print(f"nats per character: {losses[0]:.3f} at first, {np.mean(losses[-10:]):.3f} in the last ten steps")
    below = f"below 2.0 after {fell} steps" if fell else "never below 2.0"
    print(f"{held_out:.3f} on held-out text; in training {below}")
    written = "".join(letters[i] for i in sample(model, [code["\n"]], args.sample, rng))
    print(f"{time.perf_counter() - start:.1f} s in all. A sample:\n{written}")
    return {"losses": losses, "held_out": held_out, "sample": written}


if __name__ == "__main__":
    main()
