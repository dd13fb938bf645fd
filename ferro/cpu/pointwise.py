"""Pointwise functions of NumPy arrays."""

from __future__ import annotations

import numpy as np

exp, log, sin, cos, tanh, sqrt = np.exp, np.log, np.sin, np.cos, np.tanh, np.sqrt
conj, real = np.conj, np.real
