"""Numbers, histograms and pictures as the messages that TensorBoard reads."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ferro.core.base import TensorBase


def array(value: Any) -> np.ndarray:
    """A tensor, an array, numbers: as an array."""
    given: Any = value
    return given.detach().numpy() if isinstance(value, TensorBase) else np.asarray(given)


def number(name: str, value: Any) -> float:
    """The one number that a tensor, an array or a number holds."""
    found = array(value)
    if found.size != 1:
        raise ValueError(f"SummaryWriter.{name}: one number is needed, got {found.size} of shape {list(found.shape)}")
    return float(found.reshape(()))


def buckets() -> np.ndarray:
    """The limits of TensorFlow's histograms: powers of 1.1 from 1e-12 to 1e20, negative and positive, around 0."""
    positive = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-positive[::-1], [0], positive])


def histogram(values: np.ndarray, bins: Any, max_bins: int | None) -> dict[str, Any]:
    """The fields of a HistogramProto; `bins` is "tensorflow", a rule of numpy.histogram, or the limits."""
    values = values.reshape(-1).astype(np.float64)
    if not values.size:
        raise ValueError("The input has no element.")
    if not np.isfinite(values).all():
        raise ValueError(
            f"SummaryWriter.add_histogram: {(~np.isfinite(values)).sum()} of {values.size} values are nan or inf"
        )
    counts, limits = np.histogram(values, buckets() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1][::step], limits[-1])
    filled = np.flatnonzero(counts)
    # An empty bucket before the first: where the second begins is written nowhere else.
    first, last = (int(filled[0]), int(filled[-1])) if filled.size else (0, -1)
    return {
        "min": values.min(),
        "max": values.max(),
        "num": values.size,
        "sum": values.sum(),
        "sum_squares": values @ values,
        "bucket_limit": [limits[first], *limits[first + 1 : last + 2]],
        "bucket": [0, *counts[first : last + 1]],
    }


def picture(name: str, value: Any, dataformats: str) -> np.ndarray:
    """Bytes of shape (H, W, 1, 3 or 4); batches are put side by side in a grid; floats are scaled by 255."""
    pixels = array(value)
    letters = dataformats.upper()
    if len(set(letters)) != len(letters) or not set(letters) <= set("NCHW") or not {"H", "W"} <= set(letters):
        raise ValueError(
            f"SummaryWriter.{name}: dataformats {dataformats!r} must name each of N, C, H, W at most once, H and W always"
        )
    if len(letters) != pixels.ndim:
        raise ValueError(
            f"SummaryWriter.{name}: size of input tensor and input format are different: tensor shape: "
            f"{list(pixels.shape)}, input_format: {dataformats}"
        )
    # As (N, H, W, C), with what is not there of size 1.
    pixels = pixels.transpose([letters.index(c) for c in "NHWC" if c in letters])
    pixels = pixels if "N" in letters else pixels[None]
    pixels = pixels if "C" in letters else pixels[..., None]
    if pixels.shape[3] not in (1, 3, 4):
        raise ValueError(f"SummaryWriter.{name}: a picture has 1, 3 or 4 channels, got {pixels.shape[3]}")
    if pixels.dtype != np.uint8:
        pixels = (pixels.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    return _grid(pixels)


def _grid(pixels: np.ndarray) -> np.ndarray:
    count, height, width, channels = pixels.shape
    if count == 1:
        return pixels[0]
    columns = min(count, 8)
    rows = -(-count // columns)
    padded = np.zeros((rows * columns, height, width, channels), np.uint8)
    padded[:count] = pixels
    return (
        padded.reshape(rows, columns, height, width, channels)
        .swapaxes(1, 2)
        .reshape(rows * height, columns * width, channels)
    )


def png(pixels: np.ndarray) -> bytes:
    """A picture's file."""
    try:
        from PIL import Image
    except ImportError as e:
        raise ImportError("SummaryWriter writes pictures with Pillow: pip install pillow") from e
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(out, format="PNG")
    return out.getvalue()


def figure(figures: Any, close: bool) -> np.ndarray:
    """Figures of matplotlib, drawn: (N, H, W, 4)."""
    from matplotlib import pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = []
    for f in figures if isinstance(figures, (list, tuple)) else [figures]:
        canvas = FigureCanvasAgg(f)
        canvas.draw()
        drawn.append(np.asarray(canvas.buffer_rgba()).copy())
        if close:
            plt.close(f)
    return np.stack(drawn)
