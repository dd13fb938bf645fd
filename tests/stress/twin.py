"""Programs without in-place operations: tensors that replay views and writes as functions of one flat tensor.

What a program means is said here once more, independently of how a library tracks views and versions: memory is a flat
tensor, a view is an array of places in it, a write makes a new flat tensor.  Two tensors of one memory that do not share
a history (after detach) have flat tensors of their own and follow each other's content.
"""

from __future__ import annotations

from typing import Any

import torch

VIEWS = {
    "select",
    "narrow",
    "unsqueeze",
    "squeeze",
    "flatten",
    "view_as",
    "transpose",
    "reshape",
    "diagonal",
    "permute",
    "expand",
    "unbind",
    "split",
    "__getitem__",
    "contiguous",
}


class Memory:
    """The flat tensors, one for every history, that share one memory."""

    def __init__(self) -> None:
        self.flats: list[Any] = []


class Twin:
    """A tensor: which memory, which of its histories, and which places."""

    def __init__(self, memory: Memory, history: int, places: Any, leaf: Any = None) -> None:
        self.memory, self.history, self.places, self.leaf = memory, history, places, leaf

    @classmethod
    def of(cls, t: Any, leaf: Any = None) -> Twin:
        """A twin with memory of its own."""
        memory = Memory()
        memory.flats.append(t.reshape(-1))
        places = torch.empty_strided(t.shape, t.stride(), dtype=torch.int64)
        places.copy_(torch.arange(t.numel()).reshape(t.shape))
        return cls(memory, 0, places, leaf)

    def now(self) -> Any:
        """The tensor that this is now."""
        return self.memory.flats[self.history][self.places.reshape(-1)].reshape(self.places.shape)

    def write(self, value: Any) -> Twin:
        """The tensor takes a value."""
        flats = self.memory.flats
        with torch.no_grad():
            content = flats[self.history].index_put(
                (self.places.reshape(-1),), value.detach().expand(self.places.shape).reshape(-1)
            )
        for i, flat in enumerate(flats):
            if i == self.history and torch.is_grad_enabled():
                flats[i] = flat.index_put((self.places.reshape(-1),), value.expand(self.places.shape).reshape(-1))
            else:
                with torch.enable_grad():
                    flats[i] = flat + (content - flat.detach())
        return self

    def __getattr__(self, call: str) -> Any:
        def method(*args: Any) -> Any:
            if call in VIEWS:
                return self._view(call, args)
            if call == "__setitem__":
                key, value = args[0], plain(args[1])
                places = self.places[plain(key)]
                value = torch.as_tensor(value, dtype=torch.float64)
                return Twin(self.memory, self.history, places).write(value)
            if call.endswith("_") and not call.endswith("__") and call != "requires_grad_":
                if call in ("copy_", "fill_", "zero_"):
                    value = torch.as_tensor(plain(args[0]) if args else 0.0, dtype=torch.float64)
                    return self.write(value.expand(self.places.shape))
                return self.write(getattr(self.now(), call[:-1])(*map(plain, args)))
            return twins(getattr(self.now(), call)(*map(plain, args)))

        return method

    def _view(self, call: str, args: tuple) -> Any:
        if call == "contiguous" and self.places.is_contiguous():
            return self
        found = getattr(self.places, call)(*[a.places if isinstance(a, Twin) else a for a in args])
        own = self.places.untyped_storage().data_ptr()
        made = []
        for places in found if isinstance(found, tuple) else [found]:
            twin = Twin(self.memory, self.history, places)
            made.append(twin if places.untyped_storage().data_ptr() == own else Twin.of(twin.now()))
        return tuple(made) if isinstance(found, tuple) else made[0]

    def detach(self) -> Twin:
        """The same memory, without this history."""
        self.memory.flats.append(self.memory.flats[self.history].detach())
        return Twin(self.memory, len(self.memory.flats) - 1, self.places)

    def apply_function(self, function: Any, *others: Any) -> Any:
        """A custom function, written without in-place operations too."""
        if function.__name__ == "Double":
            return self.write(self.now() * 2)
        return twins(function.apply(self.now(), *map(plain, others)))


def plain(t: Any) -> Any:
    """The tensor of a twin."""
    return t.now() if isinstance(t, Twin) else [plain(x) for x in t] if isinstance(t, list) else t


def twins(result: Any) -> Any:
    """The twins of tensors."""
    return tuple(map(Twin.of, result)) if isinstance(result, tuple) else Twin.of(result)
