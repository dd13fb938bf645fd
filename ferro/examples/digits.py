"""Train a small convolutional network on scikit-learn's handwritten digits: `python -m ferro.examples.digits`."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ferro
import ferro.nn.functional as F
from ferro import nn, optim
from ferro.examples import optional
from ferro.utils.data import DataLoader, TensorDataset

TEST_SIZE = 450
BATCH_SIZE = 64
SMOOTHING = 0.1


def load_digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, classes) to train on, 1,347 of them, and to test, 450; images are (N, 1, 8, 8) with unit variance.

    The split never changes, whatever the seed of the run: every class gives the same share of its images to the test.
    """
    bunch = optional("sklearn.datasets").load_digits()
    images = ((bunch.images - bunch.images.mean()) / bunch.images.std()).astype(np.float32)[:, None]
    labels = bunch.target.astype(np.int64)
    test = stratified_choice(labels, TEST_SIZE, np.random.default_rng(0))
    train = np.setdiff1d(np.arange(len(labels)), test)
    return (images[train], labels[train]), (images[test], labels[test])


def stratified_choice(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of `size` samples in which each class has its share, rounded so that the sizes add up."""
    order = rng.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    # Evenly spaced positions in the list sorted by class meet each class in proportion to its size.
    positions = (np.arange(size) * len(labels)) // size
    return np.sort(by_class[positions])


def network(nn: Any = nn) -> Any:
    """Two convolutions and two linear layers, 38,000 parameters.

    `nn` is an argument only so that bench/models.py can build the same network with torch.nn.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(64, 10),
    )


def train(
    model: Any, images: np.ndarray, labels: np.ndarray, held_out: tuple[np.ndarray, np.ndarray], epochs: int, seed: int
) -> tuple[list[float], list[float]]:
    """Train with AdamW under a one-cycle learning rate; returns the loss of every step, and on held_out every epoch.

    Label smoothing and a strong weight decay halve the mistakes of so small a set. Moving the images about does not
    help here: they are centred already, training and test alike.
    """
    data = TensorDataset(ferro.from_numpy(images), ferro.from_numpy(labels))
    loader = DataLoader(data, batch_size=BATCH_SIZE, shuffle=True, generator=ferro.Generator().manual_seed(seed))
    steps = epochs * len(loader)
    optimizer = optim.AdamW(model.parameters(), weight_decay=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    losses, held_out_losses = [], []
    with optional("tqdm").tqdm(total=steps, unit="step", desc="training") as progress:
        for epoch in range(epochs):
            model.train()
            for batch, target in loader:
                loss = F.cross_entropy(model(batch), target, label_smoothing=SMOOTHING)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                progress.update()
            held_out_losses.append(evaluate(model, *held_out)[0])
            progress.set_postfix(epoch=epoch + 1, loss=f"{np.mean(losses[-len(loader) :]):.4f}")
    return losses, held_out_losses


def evaluate(model: Any, images: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss and the class chosen for every image; nothing is recorded."""
    model.eval()
    with ferro.no_grad():
        scores = model(ferro.from_numpy(images))
        loss = F.cross_entropy(scores, ferro.from_numpy(labels), label_smoothing=SMOOTHING)
        return loss.item(), scores.argmax(dim=1).numpy()


def confusion(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """counts[true, predicted]"""
    counts = np.zeros((10, 10), dtype=int)
    np.add.at(counts, (labels, predicted), 1)
    return counts


def worst_classes(counts: np.ndarray, how_many: int = 3) -> list[str]:
    """A line for each of the classes with the lowest share of right answers: what they were taken for."""
    right, total = counts.diagonal(), counts.sum(axis=1)
    lines = []
    for digit in np.argsort(right / total, kind="stable")[:how_many]:
        if right[digit] == total[digit]:
            break
        others = [(n, other) for other, n in enumerate(counts[digit]) if n and other != digit]
        taken = ", ".join(f"{other} ({n} times)" if n > 1 else f"{other} (once)" for n, other in sorted(others)[::-1])
        lines.append(f"  {digit}: {right[digit]} of {total[digit]} right; taken for {taken}")
    return lines or ["  none: every test image was classified correctly"]


def draw(
    path: Path,
    curves: tuple[list[float], list[float]],
    images: np.ndarray,
    labels: np.ndarray,
    predicted: np.ndarray,
) -> None:
    """Write the picture: loss curves on the left; on the right test images with predictions, mistakes first."""
    optional("matplotlib").use("Agg")
    plt = optional("matplotlib.pyplot")
    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 6))
    steps, epochs = curves
    per_epoch = len(steps) // len(epochs)
    axes = left.subplots()
    axes.plot(np.arange(1, len(steps) + 1) / per_epoch, steps, color="0.8", linewidth=0.8, label="training, a step")
    smooth = np.reshape(steps, (len(epochs), per_epoch)).mean(axis=1)
    axes.plot(np.arange(1, len(epochs) + 1), smooth, color="C0", label="training, mean of an epoch")
    axes.plot(np.arange(1, len(epochs) + 1), epochs, color="C1", label="test, after an epoch")
    axes.set(xlabel="epoch", ylabel="cross-entropy with smoothed labels (nats)", title="loss", ylim=(0.4, None))
    axes.legend()
    wrong = np.flatnonzero(labels != predicted)
    shown = np.concatenate([wrong, np.flatnonzero(labels == predicted)])[:24]
    for cell, index in zip(right.subplots(4, 6).flat, shown, strict=True):
        mistake = labels[index] != predicted[index]
        cell.imshow(images[index, 0], cmap="gray_r")
        cell.axis("off")
        title = f"{predicted[index]} (is {labels[index]})" if mistake else str(predicted[index])
        cell.set_title(title, color="C3" if mistake else "C2", fontsize=9)
    right.suptitle(f"predictions: {len(labels) - len(wrong)} of {len(labels)} test images right", fontsize=11)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ferro.examples.digits", description=__doc__)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the 1,347 training images (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the order of the batches")
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="the picture to write (digits.png)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: as many as processors")
    args = parser.parse_args(argv)
    if args.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {args.epochs}")
    return args


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Train, test, draw; returns the accuracy, the losses and the path of the picture."""
    args = parse(argv)
    start = time.perf_counter()
    ferro.set_num_threads(args.threads)
    ferro.manual_seed(args.seed)
    train_set, test_set = load_digits()
    model = network()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(train_set[0]):,} training and {len(test_set[0])} test images of 8x8; {parameters:,} parameters")
    losses, test_losses = train(model, *train_set, test_set, args.epochs, args.seed)
    _, predicted = evaluate(model, *test_set)
    images, labels = test_set
    accuracy = float(np.mean(predicted == labels))
    print(f"test accuracy {accuracy:.2%} ({int((predicted != labels).sum())} of {len(labels)} wrong)")
    print("worst classes:", *worst_classes(confusion(labels, predicted)), sep="\n")
    draw(args.output, (losses, test_losses), images, labels, predicted)
    print(f"wrote {args.output}; {time.perf_counter() - start:.1f} s in all")
    return {"accuracy": accuracy, "losses": losses, "test_losses": test_losses, "output": args.output}


if __name__ == "__main__":
    main()
