"""`help()` helps: a layer, and whatever else takes more than three parameters, describes each of them and has an example.

A parameter stands in a line of the form "- `name`, `name2` (type, default 1): meaning", with the default that it has
("default 1 and 2" where two differ). tests/without_help/NAMESPACE.txt lists the names that do not yet do so; nothing may be
added. `python -m tests.test_help` takes out the names that do by now. That the examples are true is checked in
test_docs.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ferro

EXCEPTIONS = Path(__file__).parent / "without_help"
MOST_WITHOUT = 3

# In this order: an object belongs to the first namespace that has it.
NAMESPACES = (
    "ferro.nn",
    "ferro.nn.functional",
    "ferro.nn.init",
    "ferro.nn.utils",
    "ferro.nn.utils.rnn",
    "ferro.nn.utils.parametrize",
    "ferro.nn.utils.parametrizations",
    "ferro.nn.utils.prune",
    "ferro.nn.parallel",
    "ferro.optim",
    "ferro.optim.lr_scheduler",
    "ferro.optim.swa_utils",
    "ferro.utils.data",
    "ferro.amp",
    "ferro.func",
    "ferro.autograd",
    "ferro.autograd.functional",
    "ferro.autograd.graph",
    "ferro.distributions",
    "ferro.linalg",
    "ferro.special",
    "ferro.fft",
    "ferro.signal.windows",
    "ferro.sparse",
    "ferro",
    "ferro.Tensor",
)

LINE = re.compile(r"^ *- (?P<names>`\*{0,2}\w+`(?:, `\*{0,2}\w+`)*) \((?P<kind>[^\n]*?)\):", re.MULTILINE)


def resolved(namespace: str) -> Any:
    """The module or class of a dotted name."""
    if namespace == "ferro.Tensor":
        return ferro.Tensor
    return importlib.import_module(namespace)


def public(namespace: str) -> Iterator[tuple[str, Any]]:
    """(name, callable) of what a namespace makes public and ferro defines."""
    holder = resolved(namespace)
    is_listed = hasattr(holder, "__all__") or inspect.isclass(holder)
    home = "ferro" if is_listed else namespace
    names = dir(holder) if inspect.isclass(holder) else getattr(holder, "__all__", None) or vars(holder)
    for name in sorted(names):
        value = getattr(holder, name, None)  # None: a name of PyTorch's that ferro lacks
        module = getattr(inspect.unwrap(value), "__module__", None) if callable(value) else None
        if not name.startswith("_") and str(module).startswith(home):
            yield name, value


def parameters(value: Any) -> list[inspect.Parameter]:
    """The public parameters of a call, without self, *args and **kwargs; none where Python cannot tell."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    collected = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in found if p.name != "self" and not p.name.startswith("_") and p.kind not in collected]


def own_docstring(value: Any) -> str:
    """The docstring, dedented, unless a class has only that of its parent."""
    inherited = inspect.isclass(value) and not vars(value).get("__doc__")
    return "" if inherited else inspect.getdoc(value) or ""


def same(default: Any, text: str) -> bool:
    """Whether the text is the default, as code or in print; a default that has no literal may be written in any words."""
    if default is not None and not isinstance(default, (bool, int, float, str, tuple)):
        return bool(text)
    try:
        return str(default) == text or eval(text, {"__builtins__": {}}) == default
    except (NameError, SyntaxError):
        return False


def described(text: str) -> dict[str, tuple[bool, str]]:
    """Each parameter that a docstring describes: whether it has a default there, and that default's text."""
    found = {}
    for line in LINE.finditer(text):
        names = re.findall(r"\w+", line["names"])
        _, has, after = line["kind"].partition("default ")
        texts = after.split(" and ") if len(names) > 1 and " and " in after else [after] * len(names)
        for name, default in zip(names, texts, strict=len(texts) == len(names)):
            found[name] = bool(has), default.strip()
    return found


def lacks(value: Any) -> list[str]:
    """What the help of a callable lacks: nothing if it takes few parameters and is no layer."""
    wanted = parameters(value)
    is_layer = inspect.isclass(value) and issubclass(value, ferro.nn.Module)
    if len(wanted) <= MOST_WITHOUT and not is_layer:
        return []
    text = own_docstring(value)
    lines = described(text)
    wrong = [] if ">>> " in text else ["an example"]
    written = [name for line in LINE.finditer(text) for name in re.findall(r"\w+", line["names"])]
    wrong += [f"a single line for `{name}`" for name in dict.fromkeys(written) if written.count(name) > 1]
    for parameter in wanted:
        if parameter.name not in lines:
            wrong.append(f"a line for `{parameter.name}`")
            continue
        has, default = lines[parameter.name]
        # (a bare object marks what must be given, but has another name in PyTorch's errors)
        needs = parameter.default is not parameter.empty and type(parameter.default) is not object
        if has != needs or (needs and not same(parameter.default, default)):
            wrong.append(f"the default of `{parameter.name}`")
    return wrong


def without_help() -> dict[str, dict[str, list[str]]]:
    """For each namespace, the names whose help lacks something, and what; one help under several names once."""
    seen: set[tuple[str, str]] = set()
    found: dict[str, dict[str, list[str]]] = {}
    for namespace in NAMESPACES:
        found[namespace] = {}
        for name, value in public(namespace):
            wrong = lacks(value)
            # Not the object: the names of a function are objects of their own once functions ask who overrides them.
            shown = own_docstring(value), str(parameters(value))
            if wrong and shown not in seen:
                seen.add(shown)
                found[namespace][name] = wrong
    return found


def exceptions(namespace: str) -> list[str]:
    """The names of a namespace that are excused."""
    path = EXCEPTIONS / f"{namespace}.txt"
    return path.read_text("utf-8").split() if path.exists() else []


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, list[str]]]:
    return without_help()


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_parameter_is_described_and_there_is_an_example(namespace: str, found: dict[str, Any]) -> None:
    excused = exceptions(namespace)
    wrong = [f"{namespace}.{name} lacks {', '.join(w)}" for name, w in found[namespace].items() if name not in excused]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_no_exception_is_listed_that_has_its_help(namespace: str, found: dict[str, Any]) -> None:
    excused = exceptions(namespace)
    assert [name for name in excused if name not in found[namespace]] == []
    assert excused == sorted(set(excused))


def test_the_lists_of_exceptions_belong_to_namespaces_and_are_not_empty() -> None:
    names = {path.stem for path in EXCEPTIONS.glob("*")}
    assert names <= set(NAMESPACES)
    assert [name for name in names if not exceptions(name)] == []


def complete(a: int, b: int = 2, c: float = 1e-5, *, d: Any = None) -> None:
    """A docstring as the rule wants it.

    - `a` (int): one
    - `b`, `c` (numbers, default 2 and 1e-5): two
    - `d` (default None): three

    Example::

        >>> 1 + 1
        2
    """


@pytest.mark.parametrize(
    ("old", "new", "lack"),
    [
        ("- `a` (int): one", "", "a line for `a`"),
        ("- `a` (int): one", "- a (int): one", "a line for `a`"),
        ("`a` (int)", "`a` (int, default 1)", "the default of `a`"),
        ("2 and 1e-5", "2 and 1e-6", "the default of `c`"),
        ("(default None)", "(int)", "the default of `d`"),
        (">>> 1", "1", "an example"),
        ("- `a` (int): one", "- `a` (int): one\n    - `a` (int): once more", "a single line for `a`"),
    ],
)
def test_a_docstring_that_lacks_something_is_found(
    old: str, new: str, lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lacks(complete) == []
    assert complete.__doc__ is not None
    monkeypatch.setattr(complete, "__doc__", complete.__doc__.replace(old, new))
    assert lacks(complete) == [lack]


def in_place_methods() -> Iterator[tuple[str, Any]]:
    """(name, method) of what writes into a tensor and has the text of a function."""
    for name in dir(ferro.Tensor):
        method = getattr(ferro.Tensor, name, None)
        if (
            name.endswith("_")
            and not name.endswith("__")
            and isinstance(getattr(method, "__signature__", None), inspect.Signature)
        ):
            yield name, method


def test_in_place_methods_show_the_signature_and_the_text_of_their_function() -> None:
    methods = dict(in_place_methods())
    assert len(methods) > 100
    for name, method in methods.items():
        first, _, rest = (inspect.getdoc(method) or "").partition("\n\n")
        assert first.startswith("In-place version of :func:`"), name
        assert rest[:1].strip(), f"{name}: the text of the function is missing or indented"
        assert "`out`" not in described(rest), name
        assert "out" not in inspect.signature(method).parameters, name
    clamp = inspect.getdoc(ferro.clamp) or ""
    assert clamp.splitlines()[0] in (inspect.getdoc(ferro.Tensor.clamp_) or "")
    assert [p.name for p in parameters(ferro.Tensor.clamp_)] == ["min", "max"]


def test_copying_forms_have_the_text_of_their_view() -> None:
    text = inspect.getdoc(ferro.narrow_copy) or ""
    assert set(described(text)) == {"out", "input", "dim", "start", "length"}
    assert (inspect.getdoc(ferro.narrow) or "").splitlines()[0] in text


def test_einsum_and_new_show_what_callers_write() -> None:
    shown = inspect.signature(ferro.einsum)
    assert [(p.name, p.kind.name) for p in shown.parameters.values()] == [
        ("equation", "POSITIONAL_ONLY"),
        ("operands", "VAR_POSITIONAL"),
    ]
    assert ferro.einsum("i,i->", ferro.ones(2), ferro.ones(2)).item() == 2
    assert "device" in inspect.signature(ferro.Tensor.new).parameters
    assert ferro.ones(1).new([2, 3], device="cpu").tolist() == [2, 3]


def main() -> None:
    """Takes the names that have their help by now out of the lists."""
    found = without_help()
    for path in EXCEPTIONS.glob("*.txt"):
        left = [name for name in exceptions(path.stem) if name in found[path.stem]]
        if left:
            path.write_text("\n".join(left) + "\n", "utf-8")
        else:
            path.unlink()


if __name__ == "__main__":
    main()
