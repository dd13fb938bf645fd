"""The inputs of a checkpointed part and the random numbers at its beginning, kept until it runs again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, meta_of, version_of, wrap
from ferro.core.device import DEVICE_BACKENDS
from ferro.core.history import history
from ferro.core.random import GENERATORS, Generator, all_states
from ferro.core.saved_values import Packed
from ferro.core.tangents import tangents_of
from ferro.tensor import Tensor

__all__ = ["get_device_states", "set_device_states"]


class _Input:
    """A tensor among the arguments: saved as any tensor is, by the checkpoint or saved-tensor hooks around this one.

    One without history comes back as the very tensor that it is; of others the history is not kept.
    """

    def __init__(self, t: Any) -> None:
        self.needs = history(t) is not None
        self.tangents = tangents_of(t)
        self.kind, self.attributes = type(t), None if type(t) is Tensor else t.__dict__
        pack = _mode.current().pack
        self.packed = None
        if pack:
            with _mode.switched(grad=False, pack=()):
                self.packed = Packed(pack[-1][0](t), pack[-1][1], None)
            return
        self.version = version_of(t)
        self.expected = self.version.n
        self.kept = self._cut(t) if self.needs or self.tangents else t

    def tensor(self) -> Any:
        """The tensor again, cut off from its history (the tangents of forward mode stay)."""
        t = self._unchanged() if self.packed is None else self.packed.tensor()
        if not self.needs and not self.tangents:
            return t
        t = self._cut(t)
        t._node = LEAF if self.needs else None
        if self.tangents:
            meta_of(t).tangents = self.tangents
        return t

    def _cut(self, t: Any) -> Any:
        """The same numbers and class without history."""
        cut = wrap(t._data, None, self.kind)
        if self.packed is None:
            cut._counter = self.version
        if self.attributes:
            cut.__dict__.update(self.attributes)
        return cut

    def _unchanged(self) -> Any:
        v = self.version
        if v.n != self.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an input of "
                f"shape {list(self.kept._data.shape)} of a checkpointed function is at version {v.n}; expected version "
                f"{self.expected} instead. The last change was made by '{v.culprit}'. Recomputation would start from other "
                "values: use the out-of-place form, or give the checkpoint a clone()."
            )
        return self.kept


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples and dicts with `change` applied to what they hold; unchanged nests are the same object."""
    if isinstance(value, (list, tuple)):
        items = [_mapped(v, change) for v in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        found = {k: _mapped(v, change) for k, v in value.items()}
        if all(found[k] is v for k, v in value.items()):
            return value
        return found if type(value) is dict else type(value)(found)
    return change(value)


class _Arguments:
    """The arguments of a checkpointed function, the precision of autocast, and the states of the generators it may draw from."""

    def __init__(self, args: tuple, kwargs: dict, preserve: bool, tensors: bool = True) -> None:
        self.cast = _mode.current().cast
        self.states: list = all_states() if preserve else []

        def keep(value: Any) -> Any:
            if tensors and isinstance(value, TensorBase):
                return _Input(value)
            if preserve and isinstance(value, Generator):
                self.states.append((value, value.get_state()))
            return value

        self.kept = _mapped((args, kwargs), keep)

    def restored(self) -> tuple[tuple, dict]:
        """The arguments for a recomputation."""
        return _mapped(self.kept, lambda v: v.tensor() if isinstance(v, _Input) else v)

    @contextlib.contextmanager
    def random(self) -> Iterator[None]:
        """Inside, the generators are in the states that they had; afterwards in those of now."""
        now = [(g, g.get_state()) for g, _ in self.states]
        try:
            for g, state in self.states:
                g.set_state(state)
            yield
        finally:
            for g, state in now:
                g.set_state(state)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs on which the arguments have tensors, and the states of their generators.  The CPU's is `get_rng_state()`.

    >>> import ferro
    >>> ferro.utils.checkpoint.get_device_states(ferro.ones(2))
    ([], [])
    """
    found: set[str] = set()

    def look(value: Any) -> Any:
        if isinstance(value, TensorBase) and value.device.type in GENERATORS:  # type: ignore[attr-defined]
            found.add(value.device.type)  # type: ignore[attr-defined]
        return value

    _mapped(args, look)
    return [0] * len(found), [GENERATORS[kind].get_state() for kind in found]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets the generators of GPUs.  Raises: RuntimeError where there is a state for one that is not there."""
    kind = device_type or "cuda"
    if (len(devices) or len(states)) and (kind not in DEVICE_BACKENDS or any(devices) or len(devices) != len(states)):
        raise RuntimeError(
            f"set_device_states: there are no generators for the devices {list(devices)} of type {kind}; `set_rng_state` "
            "sets the CPU's"
        )
    for state in states:
        GENERATORS[kind].set_state(state)
