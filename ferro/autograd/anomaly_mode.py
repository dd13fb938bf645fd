"""Anomaly mode: where the operation ran whose backward failed or made a nan."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np

from ferro.batched.array import plain
from ferro.core.backend import on_host
from ferro.core.graph_task import current_run
from ferro.core.mode import ANOMALY, MODE, changed, pull, push, settle
from ferro.core.provenance import at

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


class Trace(NamedTuple):
    """Where an operation ran forward, and the node whose backward ran it, if one did."""

    text: str
    parent: Any


class Anomaly:
    """What anomaly mode does: keep forward tracebacks on nodes, look for nan in gradients, explain errors."""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan

    def trace(self) -> Trace:
        """The user's stack at the operation being recorded."""
        inside = ("/ferro/core/", "/ferro/autograd/")
        frames = [
            f for f in traceback.extract_stack() if not any(part in f.filename.replace("\\", "/") for part in inside)
        ]
        run = current_run()
        return Trace("".join(traceback.format_list(frames)), None if run is None else run.running)

    def check(self, run: Any, node: Any, gs: list) -> None:
        """Raises if a gradient that a node made contains nan."""
        if not self.check_nan:
            return
        for i, g in enumerate(gs):
            if g is None:
                continue
            a = on_host(plain(g._data if run.record else g))
            if np.isnan(a).any():
                where = [int(k) for k in np.argwhere(np.isnan(a))[0]]
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output (first at index {where} of shape "
                    f"{list(a.shape)})"
                )

    def explain(self, node: Any) -> None:
        """Warns with the forward traceback of a node; of one recorded in a backward, also with that of the node that ran then."""
        trace = node.meta.trace if node.meta is not None else None
        text = (
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{trace.text}"
            if trace
            else f"Error detected in {node.name()}{at(node.location)}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
        _tell(text)
        while trace is not None and trace.parent is not None:
            parent = trace.parent
            trace = parent.meta.trace if parent.meta is not None else None
            text = (
                f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call that induced the previous "
                f"calculation:\n{trace.text}"
                if trace
                else f"\n\nPrevious calculation was induced by {parent.name()}{at(parent.location)}. "
                "No forward pass information available."
            )
            _tell(text)


def _tell(text: str) -> None:
    """Warns beside an error that is being raised; where warnings are errors, the text goes to the standard error stream."""
    try:
        warnings.warn(text, UserWarning, stacklevel=3)
    except UserWarning:
        sys.stderr.write(f"{text}\n")


class detect_anomaly:
    """Inside, backward raises at the first nan, and errors in backward show where the operation ran forward.

    check_nan: whether to look for nan at all.  Slow: for debugging.  As in PyTorch, backward is watched in all threads;
    forward tracebacks are kept in the thread that entered.

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
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        everywhere = [self.anomaly]
        ANOMALY.append(everywhere)
        push(self, {"anomaly": self.anomaly, "everywhere": everywhere})

    def __exit__(self, *exc: object) -> None:
        changes = pull(self)
        _withdraw(self.anomaly if changes is None else changes["everywhere"])


def _withdraw(what: Any) -> None:
    """Ends what a context switched on in all threads: its list in ANOMALY, or the last one of its anomaly mode."""
    for i in range(len(ANOMALY) - 1, 0, -1):
        if ANOMALY[i] is what or ANOMALY[i][0] is what:
            del ANOMALY[i]
            return


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return ANOMALY[-1][0] is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks, or once switched on will look, for nan."""
    return ANOMALY[-1][0] is None or ANOMALY[-1][0].check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Anomaly mode on or off from now on."""
    set_detect_anomaly(mode, check_nan)


class set_detect_anomaly:
    """Anomaly mode on or off: from the call on, or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous, self._everywhere = MODE.get(), ANOMALY[-1][0]
        self._where = ANOMALY[-1]
        self._where[0] = Anomaly(check_nan) if mode else None
        settle(changed(anomaly=self._where[0]))

    def __enter__(self) -> None:
        """The mode is on since the call."""

    def __exit__(self, *exc: object) -> None:
        self._where[0] = self._everywhere
        settle(self._previous)
