"""Softmax and log-softmax of NumPy arrays along one dimension, and their backward."""

from __future__ import annotations

from ferro.cpu.kernels.softmax import log_softmax, log_softmax_vjp, softmax, softmax_vjp

__all__ = ["log_softmax", "log_softmax_vjp", "softmax", "softmax_vjp"]
