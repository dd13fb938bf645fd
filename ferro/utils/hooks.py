"""RemovableHandle: what registering a hook returns, and how the hook is taken off again."""

import itertools
import weakref
from collections.abc import Iterable
from typing import Any, Self

_numbers = itertools.count()


class RemovableHandle:
    """Removes one hook from the dictionary that holds it, and its marks from the `extra_dict` dictionaries.

    The dictionaries are held weakly: a handle keeps no module alive, and `remove` may be called any number of times.
    As a context manager it removes the hook on the way out.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_numbers)
        extras: Iterable[Any] = (
            () if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        )
        self._dicts = [weakref.ref(d) for d in (hooks_dict, *extras)]

    @property
    def hooks_dict_ref(self) -> Any:
        """The weak reference to the dictionary that holds the hook."""
        return self._dicts[0]

    def remove(self) -> None:
        for ref in self._dicts:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[int, list[Any]]:
        return self.id, [ref() for ref in self._dicts]

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        self.id, dicts = state
        self._dicts = [weakref.ref(d) if d is not None else _nowhere for d in dicts]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _nowhere() -> None:
    """The reference of a dictionary that had died before its handle was pickled."""
