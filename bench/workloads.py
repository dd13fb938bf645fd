"""Small models written once for any library with PyTorch's vocabulary, their data, and training them step by step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

CYCLE = 20


def mixed(lib: ModuleType, x: Any, w: Any, b: Any, cycles: int = 5) -> Any:
    """A chain of 20 operations per cycle, of the kinds that models are made of; every value stays within ±8."""
    tanh, sigmoid, exp, sin, cos, relu, sqrt = lib.tanh, lib.sigmoid, lib.exp, lib.sin, lib.cos, lib.relu, lib.sqrt
    for _ in range(cycles):
        y = x @ w  # 1: the rows of w have norm 1
        y = y + b
        y = tanh(y)
        z = y * x  # 4
        z = sigmoid(z)
        z = z - y
        e = exp(z)  # 7: within (e⁻¹, e²)
        z = y / e
        z = sin(z)
        z = -z  # 10
        r = relu(z)
        z = z * 0.5
        z = z + r  # 13
        z = z.t()
        q = z**2
        q = q + 1.0  # 16
        q = sqrt(q)
        z = z / q
        z = cos(z)
        x = z - y  # 20
    return x


def mlp(lib: ModuleType) -> Any:
    """Three linear layers on 8x8 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def wide_mlp(lib: ModuleType) -> Any:
    """Three linear layers on images of handwriting, the usual first model."""
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def digits_cnn(lib: ModuleType) -> Any:
    """The network of ferro.examples.digits without its dropout, whose random numbers differ between the engines."""
    from ferro.examples.digits import network  # here, so that bench/child.py can time torch without ferro

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


def resnet8(lib: ModuleType, classes: int = 10) -> Any:
    """Three residual blocks of 16, 32 and 64 channels on 32x32 images."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
            self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
            self.shortcut = nn.Conv2d(before, after, 1, stride=stride, bias=False) if stride > 1 else nn.Identity()

        def forward(self, x):
            y = nn.functional.relu(self.norm1(self.conv1(x)))
            return nn.functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def vae(lib: ModuleType, pixels: int = 784, hidden: int = 256, latent: int = 16) -> Any:
    """A variational autoencoder of four linear layers; its noise is an input, so that engines can be compared."""
    nn = lib.nn

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.code = nn.Linear(pixels, hidden), nn.Linear(hidden, 2 * latent)
            self.decode, self.pixels = nn.Linear(latent, hidden), nn.Linear(hidden, pixels)

        def forward(self, x, noise):
            mean, logvar = self.code(lib.relu(self.encode(x))).chunk(2, dim=1)
            code = mean + lib.exp(0.5 * logvar) * noise
            return self.pixels(lib.relu(self.decode(code))), mean, logvar

    return VAE()


def _vae_loss(lib: ModuleType, model: Any, x: Any, noise: Any) -> Any:
    """The negative evidence lower bound per image."""
    logits, mean, logvar = model(x, noise)
    missed = lib.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum()
    return (missed + divergence) / x.shape[0]


def tanh_network(lib: ModuleType, inputs: int, outputs: int, width: int = 32) -> Any:
    """Two hidden layers of tanh: smooth, for what differentiates the network by its inputs."""
    nn = lib.nn
    return nn.Sequential(
        nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
    )


def _burgers_loss(lib: ModuleType, model: Any, points: Any, values: Any) -> Any:
    """A physics-informed network: the residual of Burgers' equation u_t + u u_x = 0.01 u_xx, and given values."""
    t, x = points[:, :1].requires_grad_(), points[:, 1:].requires_grad_()
    u = model(lib.cat((t, x), dim=1))
    ones = lib.ones_like(u)
    u_t, u_x = lib.autograd.grad(u, (t, x), ones, create_graph=True)
    (u_xx,) = lib.autograd.grad(u_x, x, ones, create_graph=True)
    residual = u_t + u * u_x - 0.01 * u_xx
    return (residual**2).mean() + ((u - values) ** 2).mean()


def _ode_loss(lib: ModuleType, model: Any, start: Any, end: Any) -> Any:
    """A neural ordinary differential equation: 20 steps of the classical Runge-Kutta method from start to end."""
    y, h = start, 0.05
    for _ in range(20):
        k1 = model(y)
        k2 = model(y + 0.5 * h * k1)
        k3 = model(y + 0.5 * h * k2)
        k4 = model(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return ((y - end) ** 2).mean()


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
    from ferro.examples.digits import load_digits

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


def random_pair(shape: tuple[int, ...], targets: tuple[int, ...], image: bool = False) -> Iterator[Batch]:
    """One pair of arrays of random numbers, the same for ever; images lie between 0 and 1."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0 if image else -1, 1, shape).astype(np.float32)
    batch = x, rng.normal(size=targets).astype(np.float32)
    while True:
        yield batch


def _classify(lib: ModuleType, model: Any, x: Any, target: Any) -> Any:
    """The loss of a classifier."""
    return lib.nn.functional.cross_entropy(model(x), target)


@dataclass(frozen=True)
class Workload:
    """A model, its batches, its optimiser and its loss."""

    model: Callable[[ModuleType], Any]
    batches: Callable[[], Iterator[Batch]]
    optimizer: Callable[[ModuleType, Any], Any]
    loss: Callable[[ModuleType, Any, Any, Any], Any] = _classify


def _adam(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.Adam(parameters, lr=1e-3)


def _adamw(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.AdamW(parameters, lr=1e-3)


def _sgd(lib: ModuleType, parameters: Any) -> Any:
    return lib.optim.SGD(parameters, lr=0.05, momentum=0.9)


WORKLOADS = {
    "MLP 64-128-128-10, digits, SGD": Workload(mlp, digit_batches, _sgd),
    **{
        f"MLP 784-512-512-10, batch {n}, SGD": Workload(wide_mlp, partial(random_batch, (n, 784), (n,)), _sgd)
        for n in (1, 8, 128)
    },
    "digits CNN, batch norm, Adam": Workload(digits_cnn, digit_batches, _adam),
    "LeNet 64x1x28x28, SGD": Workload(lenet, lambda: random_batch((64, 1, 28, 28), (64,)), _sgd),
    "char-GPT 2x64, 16x64 characters, AdamW": Workload(char_gpt, character_batch, _adamw),
    "LSTM 32 steps of 32x64, Adam": Workload(lstm, lambda: random_batch((32, 32, 16), (32,)), _adam),
    "ResNet-8 32x3x32x32, SGD": Workload(resnet8, lambda: random_batch((32, 3, 32, 32), (32,)), _sgd),
    "VAE 784-256-16, 128 images, Adam": Workload(
        vae, lambda: random_pair((128, 784), (128, 16), image=True), _adam, _vae_loss
    ),
    "PINN of Burgers' equation, 256 points, Adam": Workload(
        lambda lib: tanh_network(lib, 2, 1), lambda: random_pair((256, 2), (256, 1)), _adam, _burgers_loss
    ),
    "neural ODE, 20 Runge-Kutta steps of 32x2, Adam": Workload(
        lambda lib: tanh_network(lib, 2, 2), lambda: random_pair((32, 2), (32, 2)), _adam, _ode_loss
    ),
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
        self.loss = workload.loss

    def load(self, batch: Batch) -> tuple[Any, Any]:
        """The arrays of a batch as tensors, numbers in the precision of the run."""
        x, target = (a.astype(self.dtype) if a.dtype.kind == "f" else a for a in batch)
        return self.lib.from_numpy(x), self.lib.from_numpy(target)

    def step(self, x: Any, target: Any) -> Any:
        """Forward, backward, update; returns the loss."""
        loss = self.loss(self.lib, self.model, x, target)
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
