"""Errors tell where: scripted mistakes of every common kind, with the lines that a person needs marked `# <-`."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

import ferro

MISTAKES: dict[str, tuple[type[Exception], str, str]] = {
    "an input of an operation is changed in place": (
        RuntimeError,
        "'mul'.*'add_'",
        """
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        z = y * y  # <-
        y.add_(1)  # <-
        z.sum().backward()
        """,
    ),
    "the result of an operation is changed in place": (
        RuntimeError,
        "'exp'.*'mul_'",
        """
        x = torch.ones(3, requires_grad=True)
        y = x.exp()  # <-
        y *= 2  # <-
        y.sum().backward()
        """,
    ),
    "a saved tensor is changed through a view": (
        RuntimeError,
        r"'sin'.*'zero_'.*through another tensor .*slice",
        """
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        z = y.sin()  # <-
        y[1:].zero_()  # <-
        z.sum().backward()
        """,
    ),
    "a saved tensor is changed through detach()": (
        RuntimeError,
        r"'tanh'.*'fill_'.*detach",
        """
        x = torch.ones(3, requires_grad=True)
        z = x.tanh()  # <-
        z.detach().fill_(0)  # <-
        z.sum().backward()
        """,
    ),
    "a saved tensor is changed inside of a function": (
        RuntimeError,
        r"in normalise .*",
        """
        def normalise(t):
            t /= t.max()  # <-
            return t

        x = torch.ones(3, requires_grad=True)
        y = x * 2
        z = (y ** 3).sum()  # <-
        w = normalise(y)
        z.backward()
        """,
    ),
    "the optimiser steps before the last backward": (
        RuntimeError,
        "'linear'.*'sgd'",
        """
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 2)).sum()  # <-
        loss.backward(retain_graph=True)
        optimiser.step()  # <-
        loss.backward()
        """,
    ),
    "a parameter is initialised again between forward and backward": (
        RuntimeError,
        "'linear'.*'normal_'",
        """
        layer = torch.nn.Linear(2, 2)
        x = torch.ones(1, 2, requires_grad=True)
        y = layer(x)  # <-
        torch.nn.init.normal_(layer.weight)  # <-
        y.sum().backward()
        """,
    ),
    "what a custom function saved is changed": (
        RuntimeError,
        "'Square'.*'add_'",
        """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                return 2 * g * ctx.saved_tensors[0]

        x = torch.ones(2, requires_grad=True)
        y = x * 1
        z = Square.apply(y)  # <-
        y.add_(1)  # <-
        z.sum().backward()
        """,
    ),
    "backward twice": (
        RuntimeError,
        "second time.*retain_graph=True",
        """
        x = torch.ones(3, requires_grad=True)
        loss = (x * x).sum()  # <-
        loss.backward()  # <-
        loss.backward()
        """,
    ),
    "grad(), then backward": (
        RuntimeError,
        "second time",
        """
        x = torch.ones(3, requires_grad=True)
        loss = x.exp().sum()  # <-
        torch.autograd.grad(loss, x)  # <-
        loss.backward()
        """,
    ),
    "a hidden state is kept from one iteration to the next": (
        RuntimeError,
        r"second time.*'tanh'.*detach\(\)",
        """
        w = torch.ones(2, 2, requires_grad=True)
        hidden = torch.zeros(1, 2)
        for step in range(2):
            new = hidden @ w  # <-
            hidden = torch.tanh(new + 1)  # <-
            loss = hidden.sum()
            loss.backward()  # <-
        """,
    ),
    "a running loss is kept": (
        RuntimeError,
        r"second time.*'pow_number'.*leads into 'add'.*detach\(\)",
        """
        w = torch.ones(2, requires_grad=True)
        total = 0
        for step in range(2):
            total = total + (w ** 2).sum()  # <-
            total.backward()  # <-
        """,
    ),
    "two losses share a trunk": (
        RuntimeError,
        r"second time.*'sigmoid'.*leads into 'cos'",
        """
        x = torch.ones(2, requires_grad=True)
        trunk = x.sigmoid()  # <-
        first = trunk.sin().sum()
        first.backward()  # <-
        second = trunk.cos().sum()  # <-
        second.backward()
        """,
    ),
    "the loss is computed under no_grad": (
        RuntimeError,
        "lost to no_grad",
        """
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():  # <-
            y = x * 2
        loss = (y + 1).sum()
        loss.backward()
        """,
    ),
    "the model is decorated with no_grad": (
        RuntimeError,
        r"lost to no_grad, the decorator of predict\(\)",
        """
        x = torch.ones(3, requires_grad=True)

        @torch.no_grad()  # <-
        def predict(x):
            return (x * 2).softmax(0)

        predict(x).log().sum().backward()
        """,
    ),
    "set_grad_enabled(False) is never undone": (
        RuntimeError,
        "lost to set_grad_enabled",
        """
        x = torch.ones(3, requires_grad=True)
        torch.set_grad_enabled(False)  # <-
        y = x * 3
        torch.set_grad_enabled(True)
        y.sum().backward()
        """,
    ),
    "detach() in the middle": (
        RuntimeError,
        r"lost to detach\(\) \(shape \[3\], a result of 'tanh'\)",
        """
        x = torch.ones(3, requires_grad=True)
        y = x.tanh().detach()  # <-
        (y * 2).sum().backward()
        """,
    ),
    ".data in the middle": (
        RuntimeError,
        r"lost to \.data",
        """
        x = torch.ones(3, requires_grad=True)
        (x.data * 2).sum().backward()  # <-
        """,
    ),
    "a cast to integers": (
        RuntimeError,
        "int64 result has no gradient",
        """
        x = torch.ones(3, requires_grad=True)
        rounded = x.long()  # <-
        (rounded.float() * 2).sum().backward()
        """,
    ),
    "a comparison": (
        RuntimeError,
        r"lost to gt\(\), whose bool result",
        """
        x = torch.ones(3, requires_grad=True)
        accuracy = (x > 0).float().mean()  # <-
        accuracy.backward()
        """,
    ),
    "argmax": (
        RuntimeError,
        r"lost to argmax\(\)",
        """
        x = torch.ones(3, requires_grad=True)
        best = x.argmax(0)  # <-
        best.float().backward()
        """,
    ),
    "a number leaves by item()": (
        RuntimeError,
        r"No tensor .* item\(\)",
        """
        x = torch.ones(3, requires_grad=True)
        scale = x.sum().item()  # <-
        torch.tensor(scale).backward()
        """,
    ),
    "an array leaves by numpy()": (
        RuntimeError,
        r"No tensor .* numpy\(\)",
        """
        x = torch.ones(3, requires_grad=True)
        array = x.detach().numpy() * 2  # <-
        torch.from_numpy(array).sum().backward()
        """,
    ),
    "a gradient without create_graph": (
        RuntimeError,
        r"lost to grad\(\) without create_graph=True",
        """
        x = torch.ones(3, requires_grad=True)
        (g,) = torch.autograd.grad((x ** 3).sum(), x)  # <-
        g.sum().backward()
        """,
    ),
    "an input that was detached is asked for": (
        RuntimeError,
        r"not have been used.*lost to detach\(\)",
        """
        x = torch.ones(3, requires_grad=True)
        w = torch.ones(3, requires_grad=True)
        y = w * x.detach()  # <-
        torch.autograd.grad(y.sum(), x)
        """,
    ),
    "an inference tensor is saved": (
        RuntimeError,
        "Inference tensors cannot be saved.*inference_mode",
        """
        w = torch.ones(3, requires_grad=True)
        with torch.inference_mode():  # <-
            features = torch.ones(3) * 2
        w * features
        """,
    ),
    "one of several views is changed": (
        RuntimeError,
        "several views returned by 'split'",
        """
        x = torch.ones(4, requires_grad=True)
        first, second = (x * 1).chunk(2)  # <-
        first.mul_(2)
        """,
    ),
    "a view made under no_grad is changed": (
        RuntimeError,
        "created in no_grad mode",
        """
        x = torch.ones(4, requires_grad=True)
        y = x * 1
        with torch.no_grad():  # <-
            part = y[:2]
        part.mul_(2)
        """,
    ),
    "a custom backward returns the wrong shape": (
        RuntimeError,
        "invalid gradient",
        """
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod  # <-
            def backward(ctx, g):
                return g.new_ones(7)

        x = torch.ones(3, requires_grad=True)
        Wrong.apply(x).sum().backward()  # <-
        """,
    ),
    "a custom backward raises": (
        ZeroDivisionError,
        "Faulty",
        """
        class Faulty(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod  # <-
            def backward(ctx, g):
                return g / (1 // 0)

        x = torch.ones(3, requires_grad=True)
        y = Faulty.apply(x)  # <-
        y.sum().backward()
        """,
    ),
}


def run(script: str, file: Path) -> None:
    lines = script.split("\n")[1:]
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = "\n".join(line[indent:] for line in lines)
    file.write_text(source)
    linecache.checkcache(str(file))
    exec(compile(source, str(file), "exec"), {"torch": ferro})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_names_the_lines(mistake: str, tmp_path: Path) -> None:
    kind, words, script = MISTAKES[mistake]
    file = tmp_path / "script.py"
    try:
        with pytest.raises(kind) as caught:
            run(script, file)
    finally:
        ferro.set_grad_enabled(True)
    message = str(caught.value) + " " + " ".join(getattr(caught.value, "__notes__", ()))
    assert re.search(words, message), message
    marked = [i for i, line in enumerate(file.read_text().split("\n"), 1) if "# <-" in line]
    assert marked
    for line in marked:
        assert f"{file}:{line}" in message, f"line {line} is missing: {message}"


@pytest.mark.parametrize("threads", [1, 2])
def test_the_place_is_found_from_any_thread(threads: int, tmp_path: Path) -> None:
    """Formulas that fail on a worker still name the user's lines."""
    script = f"""
        x = torch.ones(300, 300, requires_grad=True)
        losses = [(x * i).exp() for i in range(4)]  # <-
        total = sum(y.sum() for y in losses)
        total.backward(num_threads={threads})  # <-
        total.backward(num_threads={threads})
        """
    file = tmp_path / "script.py"
    with pytest.raises(RuntimeError) as caught:
        run(script, file)
    assert f"{file}:2" in str(caught.value)
    assert f"{file}:4" in str(caught.value)


def test_a_mark_is_inherited_but_does_not_outlive_a_new_history() -> None:
    x = ferro.ones(3, requires_grad=True)
    cut = x.detach()
    assert (cut * 2 + 1)._meta.detached is cut._meta.detached
    assert (cut * x)._meta is None  # it has a history again
    cut.requires_grad_()
    (cut * 2).sum().backward()
    assert cut.grad is not None
    assert cut.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_mark_holds_on_to_nothing() -> None:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = ferro.ones(3, requires_grad=True)
        y = x * 2
        cut = y.detach()
        node, source = weakref.ref(y.grad_fn), weakref.ref(y)
        del y
        assert source() is None
        assert node() is None
        assert cut.tolist() == [2.0, 2.0, 2.0]
    finally:
        gc.enable()


def test_operations_called_at_the_bottom_of_a_stack_have_a_place_too() -> None:
    import _thread
    import threading

    x = ferro.ones(3, requires_grad=True)
    found: list[Any] = []
    done = threading.Event()

    def body() -> None:
        found.append(x.exp())
        done.set()

    _thread.start_new_thread(body, ())
    assert done.wait(10)
    assert found[0].grad_fn.location[0] is body.__code__
    _thread.start_new_thread(ferro.exp, (x,))  # must not raise for want of a caller: an unraisable would fail the test
