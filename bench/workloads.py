"""Small models written once for any library with PyTorch's vocabulary, their data, and training them step by step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ferro.examples.digits import load_digits, network


def mlp(lib: ModuleType) -> Any:
    """Three linear layers on 8x8 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def digits_cnn(lib: ModuleType) -> Any:
    """The network of ferro.examples.digits without its dropout, whose random numbers differ between the engines."""
    return lib.nn.Sequential(*(layer for layer in network(lib.nn) if not isinstance(layer, lib.nn.Dropout)))


def lenet(lib: ModuleType) -> Any:
    """LeNet's shape on 28x28 images: convolution, tanh, average pooling, three linear layers."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


def char_gpt(lib: ModuleType, vocabulary: int = 64, context: int = 64, width: int = 64, heads: int = 4) -> Any:
    """Two pre-norm transformer blocks over characters, attention written with basic operations."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project_in, self.project_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("future", lib.ones(context, context).triu(1).bool())

        def attention(self, x):
            batch, time, _ = x.shape
            qkv = self.project_in(x).view(batch, time, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q @ k.transpose(-2, -1) / math.sqrt(width // heads)).masked_fill(self.future, -math.inf)
            return self.project_out((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, time, width))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.narrow(nn.functional.gelu(self.widen(self.norm2(x))))

    class CharGPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.characters, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, text):
            x = self.characters(text) + self.places.weight
            return self.scores(self.norm(self.blocks(x))).flatten(0, 1)

    return CharGPT()


def lstm(lib: ModuleType, features: int = 16, hidden: int = 64) -> Any:
    """An LSTM cell written out, run along 32 steps: many small operations, each depending on the one before."""
    nn = lib.nn

    class LSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.from_input, self.from_hidden = nn.Linear(features, 4 * hidden), nn.Linear(hidden, 4 * hidden)
            self.scores = nn.Linear(hidden, 10)

        def forward(self, x):
            h = c = lib.zeros(x.shape[0], hidden, dtype=x.dtype)
            for step in self.from_input(x).unbind(1):
                i, f, g, o = (step + self.from_hidden(h)).chunk(4, dim=1)
                c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
                h = lib.sigmoid(o) * lib.tanh(c)
            return self.scores(h)

    return LSTM()


Batch = tuple[np.ndarray, np.ndarray]


def digit_batches(size: int = 64) -> Iterator[Batch]:
    """Batches of the training images of ferro.examples.digits, reshuffled for ever by a fixed seed."""
    images, labels = load_digits()[0]
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(len(labels))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield images[chosen], labels[chosen]


def random_batch(shape: tuple[int, ...], targets: tuple[int, ...], classes: int = 10) -> Iterator[Batch]:
    """One batch of random numbers, the same for ever: for timing."""
    rng = np.random.default_rng(0)
    batch = rng.normal(size=shape).astype(np.float32), rng.integers(0, classes, targets)
    while True:
        yield batch


def character_batch() -> Iterator[Batch]:
    """One batch of random characters, the same for ever: for timing."""
    rng = np.random.default_rng(0)
    batch = rng.integers(0, 64, (16, 64)), rng.integers(0, 64, 16 * 64)
    while True:
        yield batch


@dataclass(frozen=True)
class Workload:
    """A model, its batches and its optimiser."""

    model: Callable[[ModuleType], Any]
    batches: Callable[[], Iterator[Batch]]
    optimizer: Callable[[ModuleType, Any], Any]


def _adam(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.Adam(parameters, lr=1e-3)


def _adamw(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.AdamW(parameters, lr=1e-3)


def _sgd(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.05, momentum=0.9)


WORKLOADS = {
    "MLP 64-128-128-10, digits, SGD": Workload(mlp, digit_batches, _sgd),
    "digits CNN, batch norm, Adam": Workload(digits_cnn, digit_batches, _adam),
    "LeNet 64x1x28x28, SGD": Workload(lenet, lambda: random_batch((64, 1, 28, 28), (64,)), _sgd),
    "char-GPT 2x64, 16x64 characters, AdamW": Workload(char_gpt, character_batch, _adamw),
    "LSTM 32 steps of 32x64, Adam": Workload(lstm, lambda: random_batch((32, 32, 16), (32,)), _adam),
}


def initial_state(workload: Workload, lib: ModuleType, seed: int = 0) -> dict[str, np.ndarray]:
    """The weights and buffers that one library initialises a model with, as arrays that every library can load."""
    lib.manual_seed(seed)
    return {name: value.numpy().copy() for name, value in workload.model(lib).state_dict().items()}


class Trainer:
    """A model in one library, from given weights; each call of `step` is one step of training."""

    def __init__(self, workload: Workload, lib: ModuleType, state: dict[str, np.ndarray], dtype: str = "float32"):
        self.lib, self.dtype = lib, dtype
        self.model = workload.model(lib)
        self.model.load_state_dict({name: lib.from_numpy(array.copy()) for name, array in state.items()})
        self.model.to(getattr(lib, dtype))
        self.optimizer = workload.optimizer(lib, self.model.parameters())

    def load(self, batch: Batch) -> tuple[Any, Any]:
        """The arrays of a batch as tensors, numbers in the precision of the run."""
        x, target = batch
        x = x.astype(self.dtype) if x.dtype.kind == "f" else x
        return self.lib.from_numpy(x), self.lib.from_numpy(target)

    def step(self, x: Any, target: Any) -> Any:
        """Forward, backward, update; returns the loss."""
        loss = self.lib.nn.functional.cross_entropy(self.model(x), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def loss_curve(
    workload: Workload, lib: ModuleType, state: dict[str, np.ndarray], steps: int = 50, dtype: str = "float32"
) -> np.ndarray:
    """The losses of the first steps of training."""
    trainer = Trainer(workload, lib, state, dtype)
    batches = workload.batches()
    return np.array([trainer.step(*trainer.load(next(batches))).item() for _ in range(steps)])
