"""What random programs have found: the smallest program for each bug."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.core import engine


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


class Nothing(ferro.autograd.Function):
    """Passes no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> None:
        return None


class Doubled(ferro.autograd.Function):
    """Changes its input in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_threads_keep_what_an_output_had_received_before_they_took_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    for n in (1, 4):
        x = leaf(1.0, 2.0, 3.0)
        a, b, _ = x.unbind(0)
        c, d = b.sin(), b.cos()
        ferro.autograd.backward([a, c, d], [ferro.tensor(5.0, dtype=ferro.float64)] * 3, num_threads=n)
        assert x.grad[0].item() == 5.0


def test_a_retained_gradient_belongs_to_the_latest_content() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    y.retain_grad()
    y.cos_()
    y.backward(ferro.tensor([1.0, 10.0], dtype=ferro.float64))
    assert y.grad.tolist() == [1.0, 10.0]


def test_a_retained_gradient_follows_a_write_through_a_view() -> None:
    y = leaf(1.0, 2.0).clone()
    y.retain_grad()
    v = y[0:1]
    v.neg_()
    (v * 3 + y).sum().backward()
    assert y.grad.tolist() == [7.0, 1.0]


def test_a_retained_gradient_of_a_view_follows_a_write_to_its_base() -> None:
    base = leaf(1.0, 2.0, 3.0).clone()
    v = base[:2]
    v.retain_grad()
    base.clamp_(-0.5, 0.5)
    assert v.requires_grad
    v.sum().backward()
    assert v.grad.tolist() == [1.0, 1.0]


def test_hooks_are_told_of_an_absent_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    seen: list = []
    y.register_hook(lambda g: seen.append(("y", g)))
    y.grad_fn.register_prehook(lambda g: seen.append(("pre", g)))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post", gi, go)))
    x.register_hook(lambda g: seen.append(("x", g)))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("accumulated", t.grad)))
    Nothing.apply(y).sum().backward()
    assert seen == [("y", None), ("pre", (None,)), ("post", (None,), (None,)), ("x", None), ("accumulated", None)]
    a, b = x.clone().unbind(0)
    a.register_hook(lambda g: ferro.ones_like(b))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        b.backward()


def test_an_absent_gradient_reaches_a_custom_backward_as_zeros() -> None:
    class Plain(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(1.0, 2.0)
    Nothing.apply(Plain.apply(x)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_root_that_leads_to_no_input_is_not_run() -> None:
    x, z = leaf(1.0), leaf(2.0)
    y = z.clone()
    saved = y * y  # its saved value is changed below
    with ferro.no_grad():
        y.zero_()
    (g,) = ferro.autograd.grad([x * 3, saved], [x], [ferro.ones(1)] * 2)
    assert g.tolist() == [3.0]


def test_an_input_that_retains_its_gradient_gets_it_once() -> None:
    y = leaf(1.0).clone()
    y.retain_grad()
    (y * 3).backward(inputs=[y])
    assert y.grad.tolist() == [3.0]


def test_a_refused_write_writes_nothing() -> None:
    plain = ferro.zeros(3, dtype=ferro.float64)
    part = plain.unbind(0)[0]
    with pytest.raises(RuntimeError, match="several views"):
        part.add_(leaf(1.0)[0])
    assert plain.tolist() == [0.0, 0.0, 0.0]


def test_a_custom_function_must_not_change_a_view_of_a_leaf() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Doubled.apply(leaf(1.0, 2.0)[:1])


def test_an_output_without_gradient_may_be_hooked_where_others_are_captured() -> None:
    class Pair(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sin(), x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b * 2

    x = leaf(1.0, 2.0)
    a, b = Pair.apply(x)
    seen: list = []
    b.register_hook(seen.append)
    Nothing.apply(a).backward(ferro.ones(2, dtype=ferro.float64), inputs=[x])
    assert seen == [None]
    assert x.grad.tolist() == [0.0, 0.0]  # a function is given zeros unless it asked for None


def test_what_was_changed_does_not_matter_where_the_formula_that_saved_it_does_not_run() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    y.sin_()
    z = y * y
    y.cos_()
    (g,) = ferro.autograd.grad(z.exp().sum(), z)
    assert ferro.equal(g, z.exp())
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        ferro.autograd.grad(z.exp().sum(), x)


def test_what_was_changed_does_not_matter_to_a_node_without_gradient_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    for n in (1, 4):
        x = leaf(1.0, 2.0)
        y = x.tanh()
        z = Nothing.apply(y * 1)
        y.detach().mul_(2)  # what tanh saved: its own result
        ferro.autograd.backward([z, x * 3], [ferro.ones(2, dtype=ferro.float64)] * 2, num_threads=n)
        assert x.grad.tolist() == [3.0, 3.0]
