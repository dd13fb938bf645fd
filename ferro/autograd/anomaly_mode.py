"""Anomaly mode: where the operation ran whose backward failed or made a nan."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

from ferro.core.mode import ACTIVE, MODE, changed, enter, leave

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class Anomaly:
    """What anomaly mode does: keep forward tracebacks on nodes, look for nan in gradients, explain errors."""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan

    def trace(self) -> str:
        """The user's stack at the operation being recorded."""
        frames = [f for f in traceback.extract_stack() if "/ferro/core/" not in f.filename.replace("\\", "/")]
        return "".join(traceback.format_list(frames[:-1]))

    def check(self, run: Any, node: Any, gs: list) -> None:
        """Raises if a gradient that a node made contains nan."""
        if not self.check_nan:
            return
        for i, g in enumerate(gs):
            if g is None:
                continue
            a = g._data if run.record else g
            if np.isnan(a).any():
                where = [int(k) for k in np.argwhere(np.isnan(a))[0]]
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output (first at index {where} of shape "
                                   f"{list(a.shape)})")  # fmt: skip

    def explain(self, node: Any) -> None:
        """Warns with the forward traceback of a node."""
        trace = node.meta.trace if node.meta is not None else None
        text = (f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{trace}" if trace else
                f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during forward pass for "
                "more information.")  # fmt: skip
        warnings.warn(text, UserWarning, stacklevel=2)


class detect_anomaly:
    """Inside, backward raises at the first nan, and errors in backward show where the operation ran forward.

    check_nan: whether to look for nan at all.  Slow: for debugging.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([4.0], requires_grad=True)
        >>> with ferro.autograd.detect_anomaly():
        ...     x.sqrt().backward()  # a nan here would raise, and show this line
        >>> x.grad
        tensor([0.2500])
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.anomaly = Anomaly(check_nan)

    def __enter__(self) -> None:
        self._previous = MODE.get()
        enter(changed(anomaly=self.anomaly))

    def __exit__(self, *exc: object) -> None:
        leave(self._previous)


class set_detect_anomaly:
    """Anomaly mode on or off: from the call on, or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = MODE.get()
        ACTIVE.append(None)
        MODE.set(changed(anomaly=Anomaly(check_nan) if mode else None))

    def __enter__(self) -> None:
        """The mode is on since the call."""

    def __exit__(self, *exc: object) -> None:
        leave(self._previous)
