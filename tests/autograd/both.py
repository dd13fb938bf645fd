"""`both`: a test body that runs with PyTorch and with ferro, and passes if both give the same account of what happened."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ferro


def both(body: Callable) -> Callable:
    """The test that runs ``body(library)`` with both libraries and compares what it returns (see `account`)."""

    @functools.wraps(body)
    def test(torch: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch")
            warnings.filterwarnings("ignore", message=".*create_graph=True.*reference cycle")
            expected = account(body(torch))
        found = account(body(ferro))
        assert expected is not None, "the body says nothing"
        assert found == expected, f"\nferro: {found}\ntorch: {expected}"

    test.__signature__ = _TORCH  # type: ignore[attr-defined] # pytest looks here for the fixtures, not at the body
    return test


def _signature() -> Any:
    import inspect

    def of(torch: Any) -> None: ...

    return inspect.signature(of)


_TORCH = _signature()


def account(value: Any) -> Any:
    """A value without the library it comes from: tensors as (dtype, shape, rounded values), nodes as their names."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, complex)):
        return _rounded(value)
    if isinstance(value, dict):
        return {k: account(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [account(v) for v in value]
    if hasattr(value, "next_functions"):
        return value.name().removeprefix("torch::autograd::")
    if hasattr(value, "requires_grad"):
        return [_name(value.dtype), list(value.shape), _rounded(value.detach().tolist())]
    return _name(value)


def _name(value: Any) -> str:
    return str(value).rsplit(".", maxsplit=1)[-1]


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, complex):
        return [_rounded(value.real), _rounded(value.imag)]
    return f"{value:.6g}" if isinstance(value, float) else value


def error(call: Callable[[], Any], *words: str) -> str:
    """What `call` raises: the type, and which of the `words` its message has; the message itself if one is missing."""
    try:
        result = call()
    except Exception as e:  # noqa: BLE001 (whatever it is, it is compared)
        text = str(e).lower()
        if all(w.lower() in text for w in words):
            return f"{type(e).__name__}: {', '.join(words)}"
        return f"{type(e).__name__}: {e}"
    return f"no error, but {account(result)}"


def outcome(call: Callable, *args: Any, **kwargs: Any) -> str:
    """The type of what ``call(*args, **kwargs)`` raises, or its result."""
    return error(lambda: call(*args, **kwargs)).split(":", maxsplit=1)[0]


def leaf(T: Any, *values: float) -> Any:
    """A leaf of float64 that requires grad."""
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def identity(T: Any, forward: Any, backward: Any = None, **more: Any) -> Any:
    """A Function with the given static methods; backward passes the gradient on."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward or (lambda ctx, g: g))}
    body |= {k: staticmethod(v) if callable(v) else v for k, v in more.items()}
    return type("Own", (T.autograd.Function,), body)


def raises(call: Callable, kind: type, *words: str) -> None:
    """Asserts that a call raises an error of this type whose message has all the words."""
    with pytest.raises(kind) as caught:
        call()
    missing = [w for w in words if w not in str(caught.value)]
    assert not missing, f"{missing} not in {caught.value}"
