"""Curves, pictures and texts of a training for TensorBoard: `SummaryWriter`, through the package `tensorboard`."""

from .writer import SummaryWriter

__all__ = ["SummaryWriter"]
