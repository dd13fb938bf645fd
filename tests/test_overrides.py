"""__torch_function__: what a class says of functions, methods and operators, in ferro and in PyTorch."""

from __future__ import annotations

import operator
import subprocess
import sys
from typing import Any

import pytest

import ferro


def classes(engine: Any) -> dict[str, Any]:
    """Classes that override, of one engine, and the log of what was asked."""
    asked: list[str] = []

    class Marked(engine.Tensor):
        pass

    class More(Marked):
        pass

    class Other(engine.Tensor):
        pass

    class Logged(engine.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    class Duck:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__, [t.__name__ for t in types]

    class Silent:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    return {
        "engine": engine,
        "F": engine.nn.functional,
        "x": Marked([1.0, 2.0]),
        "more": More([3.0, 4.0]),
        "other": Other([5.0, 6.0]),
        "plain": engine.tensor([7.0, 8.0]),
        "param": engine.nn.Parameter(engine.tensor([1.0, 2.0])),
        "logged": Logged([1.0, 2.0]),
        "asked": asked,
        "duck": Duck(),
        "silent": Silent(),
        "o": operator,
    }


# The class of the result, and what was asked on the way.
EXPRESSIONS = [
    "x + 1", "1 + x", "1 - x", "x - x", "x / 2", "2 / x", "x // 2", "x % 2", "x ** 2", "2 ** x", "x @ x", "-x", "abs(x)", "x < 2",
    "x == x", "x != 1", "plain + x", "x + plain", "plain - x", "plain * x", "plain @ x", "plain < x", "param + 1", "x.T", "x.real",
    "x.data", "x[0]", "x[0].item()", "list(x)[0]", "reversed(x)", "x.shape", "x.sum()", "x.max(0)", "x.max(0).values", "x.add(1)",
    "plain.add(x)", "plain.where(plain > 7, x)", "x.double()", "x.detach()", "x.clone()", "x.view(2, 1)", "x.numpy()", "x.tolist()",
    "engine.exp(x)", "engine.cat([plain, x])", "engine.stack((x, x))", "engine.zeros_like(x)", "engine.linalg.norm(x)",
    "engine.fft.fft(x)", "engine.special.erf(x)", "F.relu(x)", "F.mse_loss(x, plain)", "F.linear(plain, x)", "engine.where(x > 1, x, plain)",
    "engine.split(x, 1)", "engine.split(x, 1)[0]", "more + x", "x + more", "engine.add(x, more)", "x + other", "engine.add(x, other)",
    "x.new_zeros(2)", "x.as_subclass(engine.Tensor)", "engine.Tensor._make_subclass(type(x), plain)", "repr(x)", "repr(x + 1)",
    "engine.add(duck, 1)", "engine.mean(duck)", "F.relu(duck)", "plain.add(duck)", "engine.stack([duck, x])", "engine.add(silent, 1)",
    "x.__add__('no')", "logged + 1", "1 + logged", "1 - logged", "logged / 2", "logged @ logged", "-logged", "logged < 1",
    "logged.sum()", "logged.relu()", "engine.relu(logged)", "engine.cat([logged, plain])", "logged[0]", "len(logged)", "logged.exp_()",
    "logged.mul(2).sum(0, keepdim=True)", "F.softplus(logged)", "o.iadd(logged, 1)", "bool(logged.sum())",
]  # fmt: skip


def outcome(names: dict[str, Any], expression: str) -> Any:
    names["asked"].clear()
    try:
        found = eval(expression, dict(names))
    except (TypeError, RuntimeError) as e:
        return type(e).__name__, [
            line for line in str(e).splitlines() if "class" in line or "unsupported operand" in line
        ]
    shown = (
        found
        if isinstance(found, (str, float)) or (isinstance(found, tuple) and isinstance(found[0], str))
        else type(found).__name__
    )
    return shown, list(names["asked"])


@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors of dimension other than 2")
def test_as_in_pytorch() -> None:
    torch: Any = pytest.importorskip("torch")
    ferro.overrides.enable()
    ours, theirs = classes(ferro), classes(torch)
    found = {e: outcome(ours, e) for e in EXPRESSIONS}
    expected = {e: outcome(theirs, e) for e in EXPRESSIONS}
    assert {e: (found[e], expected[e]) for e in EXPRESSIONS if found[e] != expected[e]} == {}


def test_gradients_flow_through_a_subclass() -> None:
    class Marked(ferro.Tensor):
        pass

    x = Marked([1.0, 2.0]).requires_grad_()
    y = ferro.exp(x * 2).sum()
    y.backward()
    assert type(y) is Marked
    assert x.grad.tolist() == pytest.approx((2 * ferro.exp(ferro.tensor([2.0, 4.0]))).tolist())


def test_a_function_is_found_under_its_name_before_and_after() -> None:
    before = ferro.ops.arithmetic.add
    ferro.overrides.enable()
    handled = {before: "add"}
    assert ferro.add is not before
    assert handled[ferro.add] == handled[ferro.Tensor.add] == "add"


def test_disabled() -> None:
    class Marked(ferro.Tensor):
        pass

    x = Marked([1.0])
    with ferro.overrides.DisableTorchFunctionSubclass():
        assert type(x + 1) is type(ferro.exp(x)) is type(x.exp()) is ferro.Tensor
    assert type(x + 1) is Marked


def test_helpers() -> None:
    class Duck:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func, args

    duck = Duck()

    @ferro.overrides.wrap_torch_function(lambda a, b: (a, b))
    def both(a: Any, b: Any) -> Any:
        return a + b

    assert both(1, 2) == 3
    assert both(1, duck) == (both, (1, duck))
    assert ferro.overrides.is_tensor_like(duck)
    assert not ferro.overrides.is_tensor_like(3)
    assert ferro.overrides.has_torch_function((1, duck))
    assert not ferro.overrides.has_torch_function((1, ferro.ones(1)))


def test_ferro_itself_overrides_nothing() -> None:
    code = "import ferro, ferro.optim, ferro.nn, ferro.func; print(type(ferro.add).__name__, type(ferro.Tensor.add).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["function", "function"]
