"""How tensors are printed: PyTorch's layout of numbers, with set_printoptions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.batched.array import Batched
from ferro.batched.levels import RUNNING
from ferro.core import backend, dtypes
from ferro.core.base import LEAF, wrap
from ferro.core.device import CPU
from ferro.core.history import history
from ferro.core.mode import current
from ferro.core.node import OutputRef
from ferro.core.tangents import tangents_of

__all__ = ["get_printoptions", "set_printoptions"]

_DEFAULTS: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_options = dict(_DEFAULTS)


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed.

    - `precision` (int, default None): digits behind the point (4)
    - `threshold` (int, default None): elements above which the middle is left out (1000)
    - `edgeitems` (int, default None): how many are then shown at each end (3)
    - `linewidth` (int, default None): characters of a line (80)
    - `profile` (str, default None): "default", "short" or "full" sets all of them first
    - `sci_mode` (bool, default None): True or False forces or forbids the exponential form; None: by the values

    What is None stays as it is.

    Example::

        >>> import ferro
        >>> ferro.set_printoptions(precision=2)
        >>> ferro.tensor([1 / 3])
        tensor([0.33])
        >>> ferro.set_printoptions(profile="default")
    """
    if profile is not None:
        profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
        if profile not in profiles:
            raise ValueError(f"set_printoptions: profile must be one of {sorted(profiles)}, got {profile!r}")
        _options.update(zip(("precision", "threshold", "edgeitems", "linewidth"), profiles[profile], strict=True))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({k: v for k, v in given.items() if v is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force."""
    return dict(_options)


class _Format:
    """One format for all real numbers of a tensor: their common width, and whether they need an exponent."""

    def __init__(self, values: Any) -> None:
        self.kind = values.dtype.kind
        self.exponent = self.whole = False
        if self.kind == "f":
            self._choose(values.astype(np.float64))
        counted = values[np.isfinite(values) & (values != 0)] if self.kind == "f" else values.reshape(-1)
        self.width = max([len(self._text(v)) for v in counted.tolist()], default=1)

    def _choose(self, values: Any) -> None:
        finite = np.abs(values[np.isfinite(values) & (values != 0)])
        if not finite.size:
            self.whole = True
            return
        low, high = float(finite.min()), float(finite.max())
        self.whole = bool((finite == np.ceil(finite)).all())
        self.exponent = high / low > 1000 or high > 1e8 or (not self.whole and low < 1e-4)
        if _options["sci_mode"] is not None:
            self.exponent = _options["sci_mode"]

    def _text(self, v: Any) -> str:
        if self.kind != "f":
            return str(v)
        if not math.isfinite(v):
            return str(v)
        if self.exponent:
            return f"{v:.{_options['precision']}e}"
        return f"{v:.0f}." if self.whole else f"{v:.{_options['precision']}f}"

    def __call__(self, v: Any) -> str:
        return self._text(v).rjust(self.width)


class _ComplexFormat:
    """Real and imaginary part side by side."""

    def __init__(self, values: Any) -> None:
        self.real, self.imag = _Format(values.real), _Format(values.imag)
        self.width = self.real.width + self.imag.width + 1  # what PyTorch counts: without the sign or the j

    def __call__(self, v: Any) -> str:
        imag = self.imag(v.imag).lstrip()
        return self.real(v.real) + (imag if imag.startswith("-") else "+" + imag) + "j"


def _shown(a: Any) -> Any:
    """The elements that will be printed, as one flat array."""
    edge = _options["edgeitems"]
    for d in range(a.ndim):
        if a.shape[d] > 2 * edge:
            head = [slice(None)] * d
            a = np.concatenate([a[(*head, slice(0, edge))], a[(*head, slice(-edge, None))]], axis=d)
    return a.reshape(-1)


def _lines(a: Any, fmt: Any, indent: int, cut: bool) -> str:
    """Nested brackets, wrapped at the line width."""
    if a.ndim == 0:
        return fmt(a.item())
    edge = _options["edgeitems"]
    n = a.shape[0]
    short = cut and n > 2 * edge
    if a.ndim == 1:
        per_line = max(1, (_options["linewidth"] - indent) // (fmt.width + 2))
        if short:
            items = [fmt(v) for v in a[:edge].tolist()] + [" ..."] + [fmt(v) for v in a[-edge:].tolist()]
        else:
            items = [fmt(v) for v in a.tolist()]
        rows = [items[i : i + per_line] for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join([", ".join(row) for row in rows]) + "]"
    if short:
        parts = [_lines(a[i], fmt, indent + 1, cut) for i in range(edge)] + ["..."]
        parts += [_lines(a[i], fmt, indent + 1, cut) for i in range(n - edge, n)]
    else:
        parts = [_lines(a[i], fmt, indent + 1, cut) for i in range(n)]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def numbers(a: Any, indent: int) -> str:
    """The elements of an array in brackets."""
    if a.dtype in dtypes.HALF:
        a = a.astype(np.float32)
    cut = a.size > _options["threshold"]
    shown = _shown(a) if cut else a.reshape(-1)
    fmt = _ComplexFormat(shown) if a.dtype.kind == "c" else _Format(shown)
    return _lines(a, fmt, indent, cut)


def _of_all_slices(t: Any, name: str) -> str:
    """repr of a tensor under vmap: the level, counted from the outermost, and the numbers of all slices."""
    level = t._data.level
    running = RUNNING.get()
    inner = wrap(t._data.physical)
    text = describe(inner, name).replace("\n", "\n    ")
    return f"BatchedTensor(lvl={running.index(level) + 1 if level in running else level.number}, bdim=0, value=\n    {text}\n)"


def describe(t: Any, name: str = "tensor") -> str:
    """repr of a tensor: its numbers, then what is not the default (size, dtype, history)."""
    a = t._data
    extra = []
    if type(a) is Batched:
        return _of_all_slices(t, name)
    if t.device != CPU:
        a = backend.moved(a, CPU)
        extra.append(f"device={str(t.device)!r}")
    elif type(a) is not np.ndarray:
        return _of_all_slices(t, name)
    prefix = f"{name}("
    default = dtypes.default()
    plain = _is_default(t.dtype)
    if a.size == 0:
        body = "[]"
        if a.ndim != 1:
            extra.append(f"size={tuple(a.shape)}")
        plain = t.dtype is default
    else:
        body = numbers(a, len(prefix))
    if not plain:
        extra.append(f"dtype={t.dtype}")
    try:
        node = history(t)
    except RuntimeError:  # of a view whose base was changed: it must not be used, but can be looked at
        node = None
        extra.append("grad_fn=<Invalid>")
    if node is not None and node is not LEAF:
        extra.append(f"grad_fn=<{(node.node if isinstance(node, OutputRef) else node).name()}>")
    elif extra[-1:] != ["grad_fn=<Invalid>"] and t.requires_grad:
        view = t._meta.view if t._meta is not None else None
        outdated = node is None and view is not None and view.outdated
        extra.append("grad_fn=<Invalid>" if outdated else "requires_grad=True")
    tangent = tangents_of(t).get(current().level)
    if tangent is not None:
        extra.append(f"tangent={tangent}")
    return _with(prefix + body, extra, len(prefix)) + ")"


def _with(text: str, extra: list[str], indent: int, apart: bool = False) -> str:
    """A text and what is said behind it, on another line where one is full; the first is `apart`, on a line of its own."""
    last = _options["linewidth"] if apart else len(text) - text.rfind("\n") + 1
    for e in extra:
        if last + len(e) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + e
            last = indent + len(e)
        else:
            text += ", " + e
            last += len(e) + 2
    return text


def _is_default(dtype: Any) -> bool:
    """Whether a tensor need not say its dtype: its numbers do."""
    default = dtypes.default()
    return dtype in (default, dtypes.int64, dtypes.bool_) or dtype is default.to_complex()


def describe_sparse(t: Any, parts: dict[str, Any]) -> str:
    """repr of a sparse tensor: the arrays of its indices and values by their names, then what is known of the whole."""
    prefix, shown = "tensor(", []
    for name, given in parts.items():
        a = backend.on_host(given)
        start = f"{name}=tensor("
        body = numbers(a, len(prefix) + len(start)) if a.size else f"[], size={tuple(a.shape)}"
        shown.append(start + body + ")")
    where = [] if t.device.type == CPU.type else [f"device='{t.device}'"]
    extra = [*where, f"size={tuple(t.shape)}", f"nnz={len(parts['values'])}"]
    if not _is_default(t.dtype):
        extra.append(f"dtype={t.dtype}")
    extra.append(f"layout={t.layout}")
    if t.grad_fn is not None:
        extra.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        extra.append("requires_grad=True")
    text = prefix + (",\n" + " " * len(prefix)).join(shown)
    return _with(text, extra, len(prefix), apart=len(parts) == 2) + ")"
