"""Reading pickles that anybody may have written: a whitelist of names, of opcodes and of what may be called."""

from __future__ import annotations

import pickle
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ferro.serialization.names import torch_names
from ferro.serialization.rebuilding import CALLED, PLAIN, TORCH, checked_key, filled

# -- what may be loaded besides ----------------------------------------------------------------------------------------

_SAFE: dict[str, Any] = {}
_BLOCKED = ("sys", "os", "posix", "nt")  # whoever asks for them


def _named(entries: Any) -> dict[str, Any]:
    """Functions and classes, or pairs of such and a name, by their full names."""
    found = {}
    for entry in entries:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(entry)}"
                )
            value, name = entry
            if type(name) is not str:
                raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(name)}")
        else:
            value, name = entry, f"{entry.__module__}.{entry.__qualname__}"
        found[name] = value
    return found


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load(weights_only=True)` use these classes and functions too; a pair (class, name) is found by that name.

    ValueError or TypeError for tuples that are no such pair.

    Example::

        >>> import fractions
        >>> from ferro.serialization import add_safe_globals, clear_safe_globals, get_safe_globals
        >>> add_safe_globals([fractions.Fraction])
        >>> get_safe_globals()
        [<class 'fractions.Fraction'>]
        >>> clear_safe_globals()
    """
    _SAFE.update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """The classes and functions that were added."""
    return list(_SAFE.values())


def clear_safe_globals() -> None:
    """Take all that were added away."""
    _SAFE.clear()


def remove_safe_globals(safe_globals: list[Any]) -> None:
    """Take these away."""
    for name in _named(safe_globals):
        _SAFE.pop(name, None)


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Add classes and functions as long as the context is open."""
    before = dict(_SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        clear_safe_globals()
        _SAFE.update(before)


def full_name(module: str, name: str) -> str:
    """The name of a global in Python 3, whatever Python wrote it."""
    module, name = NAME_MAPPING.get((module, name), (module, name))
    return f"{IMPORT_MAPPING.get(module, module)}.{name}"


def is_allowed(full: str) -> bool:
    """Whether `load(weights_only=True)` knows a name."""
    return full in TORCH or full in PLAIN or full in _added()


def _added() -> dict[str, Any]:
    """The safe globals, those of ferro's also by the names that they have in PyTorch."""
    names = {f"{module}.{name}": value for value in _SAFE.values() for module, name in torch_names(value)}
    return {**names, **_SAFE}


# -- the unpickler -----------------------------------------------------------------------------------------------------


def refusal(why: str) -> pickle.UnpicklingError:
    """PyTorch's error of files that hold more than weights."""
    return pickle.UnpicklingError(
        "Weights only load failed. In PyTorch 2.6, the default value of the `weights_only` argument in `torch.load` was "
        "changed from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, "
        "but it can result in arbitrary code execution. Do it only if you got the file from a trusted source. " + why
    )


class _Opcodes(dict):
    """The opcodes that may be used; any other is refused."""

    def __missing__(self, code: int) -> NoReturn:
        raise refusal(f"Unsupported operand {code}: no file of weights has this instruction.")


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined] # (the one in C cannot be kept from anything but names)
_HARMLESS = (
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 TUPLE "
    "EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST EMPTY_DICT EMPTY_SET GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE "
    "GLOBAL STACK_GLOBAL"
)


class WeightsUnpickler(_PythonUnpickler):
    """Reads tensors, plain containers and what was added to the safe globals; UnpicklingError for anything else.

    It changes lists, dictionaries and sets that it has made, and nothing that it has found: the attributes of a class, for
    example, cannot be set from a file.
    """

    dispatch = _Opcodes(
        {code: _PythonUnpickler.dispatch[code] for code in [getattr(pickle, name)[0] for name in _HARMLESS.split()]}
    )

    def load(self) -> Any:
        """The next object. Whatever is wrong with it is an UnpicklingError, or a RuntimeError of the storage's place."""
        try:
            return super().load()
        except RecursionError as error:
            raise refusal("The objects in the file lie too deep in one another.") from error
        except (RuntimeError, Warning):
            raise
        except pickle.UnpicklingError as error:
            if str(error).startswith("Weights only load failed"):
                raise
            raise pickle.UnpicklingError(f"Weights only load failed. The file is damaged: {error}") from error
        except EOFError as error:
            raise pickle.UnpicklingError("Weights only load failed. Ran out of input: the file is cut off.") from error
        except Exception as error:
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file is damaged: {type(error).__name__}: {error}"
            ) from error

    def find_class(self, module: str, name: str) -> Any:
        full = full_name(module, name)
        if full.partition(".")[0] in _BLOCKED:
            blocked = full.rpartition(".")[0]
            raise refusal(f"Trying to load unsupported GLOBAL {full} whose module {blocked} is blocked.")
        for known in (TORCH, PLAIN, _added()):
            if full in known:
                return known[full]
        raise refusal(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context "
            "manager to allowlist this global if you trust this class/function."
        )

    def _reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        called = next((by for known, by in CALLED if known is function), None)
        if called is None:
            called = next((safe for safe in _SAFE.values() if safe is function), None)
        if called is None or type(arguments) is not tuple:
            raise refusal(
                f"Trying to call reduce for unrecognized function {function!r:.200} with arguments of type {type(arguments).__name__}"
            )
        self.stack[-1] = called(*arguments)

    def _new(self) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not any(kind is safe for safe in _SAFE.values()) or type(arguments) is not tuple:
            raise refusal(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                f"{kind!r:.200}"
            )
        self.append(kind.__new__(kind, *arguments))

    def _build(self) -> None:
        found = self.stack[-2]
        if type(found) is OrderedDict:
            state = self.stack.pop()
            if type(state) is not dict or not all(type(name) is str for name in state):
                raise refusal("The attributes of an OrderedDict are no dictionary.")
            found.__dict__.update(state)
        elif any(type(found) is safe for safe in _SAFE.values()):
            _PythonUnpickler.load_build(self)
        else:
            raise refusal(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{type(found)}"
            )

    def _persistent(self) -> None:
        pid = self.stack.pop()
        if type(pid) is not tuple:
            raise refusal(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if not pid or pid[0] not in ("storage", b"storage", "module"):
            raise refusal(f"Only persistent_load of storage is allowed, but got {pid[:1]!r:.200}")
        self.append(self.persistent_load(pid))

    def _append(self) -> None:
        self._extend(list, [self.stack.pop()])

    def _appends(self) -> None:
        items = self.pop_mark()
        self._extend(list, items)

    def _additems(self) -> None:
        items = self.pop_mark()
        self._extend(set, [checked_key(item) for item in items])

    def _extend(self, kind: type, items: list[Any]) -> None:
        if type(self.stack[-1]) is not kind:
            raise refusal(f"Can only append to lists and sets, but got {type(self.stack[-1])}")
        self.stack[-1].extend(items) if kind is list else self.stack[-1].update(items)

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _setitems(self) -> None:
        items = self.pop_mark()
        self._put(items)

    def _put(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) not in (dict, OrderedDict, Counter) and not any(type(into) is safe for safe in _SAFE.values()):
            raise refusal(f"Can only set items of dictionaries, but got {type(into)}")
        filled(into, zip(items[::2], items[1::2], strict=True))

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append(filled({}, zip(items[::2], items[1::2], strict=True)))

    def _frozenset(self) -> None:
        items = self.pop_mark()
        self.append(frozenset([checked_key(item) for item in items]))

    dispatch.update(
        {
            pickle.REDUCE[0]: _reduce,
            pickle.NEWOBJ[0]: _new,
            pickle.BUILD[0]: _build,
            pickle.BINPERSID[0]: _persistent,
            pickle.APPEND[0]: _append,
            pickle.APPENDS[0]: _appends,
            pickle.ADDITEMS[0]: _additems,
            pickle.SETITEM[0]: _setitem,
            pickle.SETITEMS[0]: _setitems,
            pickle.DICT[0]: _dict,
            pickle.FROZENSET[0]: _frozenset,
        }
    )
