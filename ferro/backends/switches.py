"""Switches that are attributes of a module: ``ferro.backends.cudnn.benchmark = True``; and the precision asked of float32."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Switch:
    """A bool that a program sets and reads. `setter` is the name that PyTorch's error gives."""

    def __init__(self, setter: str, value: bool = True) -> None:
        self.setter, self.value = setter, value

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self.value

    def __set__(self, owner: Any, value: bool) -> None:
        self.set(value)

    def set(self, value: bool) -> None:
        """Sets it; RuntimeError for what is no bool."""
        if not isinstance(value, bool):
            raise RuntimeError(f"{self.setter} expects a bool, but got {type(value).__name__}")
        self.value = value


class Reduction(Switch):
    """Whether sums within products may be of less precision: a bool, or two in a tuple (the second: by split k)."""

    def set(self, value: bool | tuple[bool, ...]) -> None:
        """Sets it; TypeError for what is neither a bool nor one or two of them."""
        pair = (value,) if isinstance(value, bool) else value
        if not isinstance(pair, (tuple, list)) or not all(isinstance(part, bool) for part in pair):
            raise TypeError(f"{self.setter} expects a bool or a tuple/list of bools, but got {type(value)!r}")
        if not 1 <= len(pair) <= 2:
            raise TypeError(
                f"{self.setter} expects at {'least one boolean argument' if not pair else 'most two boolean arguments'}"
            )
        self.value = pair[0]


@contextmanager
def set_for_a_while(owner: Any, **values: Any) -> Iterator[None]:
    """Sets attributes of `owner`, those of `values` that are not None, and puts back what they were."""
    before = {name: getattr(owner, name) for name, value in values.items() if value is not None}
    asked = dict(ASKED)
    try:
        for name in before:
            setattr(owner, name, values[name])
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
        ASKED.clear()
        ASKED.update(asked)


# -- float32 -----------------------------------------------------------------------------------------------------------
# How precisely a library may compute with float32: "ieee", "tf32", "bf16", or "none" (nothing is asked). What is asked of
# an operation goes before what is asked of its library, and that before what is asked of all. ferro always computes as
# "ieee" says, which whoever permits less gets too.

ASKED: dict[tuple[str, str], str] = {}  # (library, operation) -> precision
_ALLOWED = {
    "generic": ("none", "ieee", "tf32", "bf16"),
    "cuda": ("none", "ieee", "tf32"),
    "mkldnn": ("none", "ieee", "tf32", "bf16"),
}
_AT_FIRST = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}


def precision(library: str, operation: str) -> str:
    """What is asked of float32 in an operation of a library."""
    for key in ((library, operation), (library, "all"), ("generic", "all")):
        if key in ASKED:
            return ASKED[key] if ASKED[key] in _ALLOWED[library] else "none"
    return _AT_FIRST.get((library, operation), "none")


def ask_precision(library: str, operation: str, wish: str) -> None:
    """Asks for a precision; RuntimeError for one that the library has not."""
    if not isinstance(wish, str):
        raise TypeError(f"fp32_precision is a str such as 'ieee', not {type(wish).__name__}")
    if wish not in _ALLOWED["generic"]:
        raise RuntimeError(f"Unknown precision: {wish}; it may be one of {', '.join(_ALLOWED['generic'])}")
    if wish not in _ALLOWED[library]:
        raise RuntimeError(f"backend '{library}' does not support precision '{wish}'")
    ASKED.pop((library, operation), None)
    if wish != "none":
        ASKED[library, operation] = wish


class Precision:
    """The attribute ``fp32_precision`` of a module, or of an `Operation` of it."""

    def __init__(self, library: str, operation: str) -> None:
        self.key = library, operation

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else precision(*self.key)

    def __set__(self, owner: Any, wish: str) -> None:
        ask_precision(*self.key, wish)


class AllowTF32:
    """The older switch of the same: whether operations of a library may round float32 to tf32."""

    def __init__(self, setter: str, library: str, *operations: str) -> None:
        self.setter, self.library, self.operations = setter, library, operations

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else all(precision(self.library, o) == "tf32" for o in self.operations)

    def __set__(self, owner: Any, value: bool) -> None:
        wish = Switch(self.setter)
        wish.set(value)
        for operation in self.operations:
            ask_precision(self.library, operation, "tf32" if wish.value else "ieee")


class Operation:
    """An operation of a library, such as ``cudnn.conv``: it has ``fp32_precision`` and nothing else."""

    __slots__ = ("_key",)

    def __init__(self, library: str, operation: str) -> None:
        object.__setattr__(self, "_key", (library, operation))

    def __getattr__(self, name: str) -> str:
        if name != "fp32_precision":
            raise AttributeError(f"Unknown attribute {name}")
        return precision(*self._key)

    def __setattr__(self, name: str, value: str) -> None:
        if name != "fp32_precision":
            raise AttributeError(f"Unknown attribute {name}")
        ask_precision(*self._key, value)


def get_float32_matmul_precision() -> str:
    """What products of float32 matrices may round to: "highest" (at first; float32), "high" (tf32) or "medium" (bfloat16).

    ferro's products are of the highest precision, whatever is permitted.

    Example::

        >>> import ferro
        >>> ferro.get_float32_matmul_precision()
        'highest'
    """
    if precision("mkldnn", "matmul") == "bf16":
        return "medium"
    return "high" if precision("cuda", "matmul") == "tf32" else "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Permits products of float32 matrices to be less precise: "highest", "high" or "medium"; ferro does not use it.

    Any other name warns and changes nothing.

    Example::

        >>> import ferro
        >>> ferro.set_float32_matmul_precision("high")
        >>> ferro.backends.cuda.matmul.allow_tf32
        True
        >>> ferro.set_float32_matmul_precision("highest")
    """
    wishes = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("tf32", "bf16")}
    if not isinstance(precision, str):
        raise TypeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in wishes:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    for library, wish in zip(("cuda", "mkldnn"), wishes[precision], strict=True):
        ask_precision(library, "matmul", wish)
