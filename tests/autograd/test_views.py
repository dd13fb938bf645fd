"""Views: of views, of bases that change, in several pieces, from Functions; tensors that exchange memory; copies and pickles."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import ferro
from tests.autograd.both import account, both, error, leaf, raises
from tests.helpers import run_python


def numbers(T: Any, *shape: int) -> Any:
    """A leaf 1, 2, 3, ... of this shape."""
    n = 1
    for s in shape:
        n *= s
    return T.arange(1.0, 1.0 + n, dtype=T.float64).reshape(shape).clone().requires_grad_()


# -- bases and views ---------------------------------------------------------------------------------------------------------


@both
def test_every_view_knows_its_base_and_shares_its_version(T: Any) -> Any:
    x = T.zeros(2, 3, 4)
    views = [
        x[0],
        x[0][1:],
        x.t() if x.dim() == 2 else x.transpose(0, 2),
        x.view(-1)[3],
        x.unbind()[1],
        x.chunk(2)[0][0],
        x.expand(5, 2, 3, 4),
        x.as_strided((2,), (3,)),
        x.unfold(2, 2, 1)[0],
        x.diagonal(),
        x.squeeze(),
        x.permute(2, 0, 1)[0],
    ]
    views[1].add_(1)
    x.mul_(2)
    return [(v._base is x, v._is_view(), v._version) for v in views], x._base is None, x._version, x.detach()._is_view()


@both
def test_views_of_a_base_that_later_requires_grad(T: Any) -> Any:
    x = T.ones(3, dtype=T.float64)
    v, w = x[:2], x[1:]
    x.requires_grad_()
    refused = error(lambda: v.add_(1), "a view of a leaf Variable that requires grad")
    states = [(v.requires_grad, v.is_leaf, v.grad_fn is None)]
    with T.no_grad():
        v.add_(1)
    states.append((v.requires_grad, w.requires_grad, v.grad_fn is None))
    ((v * 2).sum() + (w * 3).sum()).backward()
    return refused, states, x.grad, x


@both
def test_a_view_that_requires_grad_by_itself(T: Any) -> Any:
    x, w = T.ones(3, dtype=T.float64), leaf(T, 2.0, 3.0, 4.0)
    v = x[:2]
    v.requires_grad_()
    (v * 2).sum().backward()
    first = v.grad.clone(), x.requires_grad, v.is_leaf, error(lambda: v.add_(1), "leaf Variable that requires grad")
    x.mul_(w)  # the content of v is now computed from w
    (v * v).sum().backward()
    return first, x.requires_grad, v.is_leaf, w.grad, error(lambda: v.requires_grad_(False), "leaf variables")


@both
def test_histories_are_renewed_by_writes(T: Any) -> Any:
    x, y = numbers(T, 2, 3), leaf(T, 2.0, 3.0)
    b = x * 1
    row, column, corner = b[1], b[:, 1], b[1][:2]
    gradients = []
    for write in (lambda: b.mul_(2), lambda: column.mul_(y), lambda: corner.copy_(y * 3), lambda: b.t()[2].zero_()):
        write()
        gradients.append(
            [
                T.autograd.grad((v * v).sum(), (x, y), retain_graph=True, allow_unused=True)
                for v in (b, row, column, corner)
            ]
        )
    return gradients, b


@both
def test_pieces_of_a_tensor_must_not_be_written_alone(T: Any) -> Any:
    words = ("view", "is being modified inplace")
    return [
        error(lambda f=f: f(numbers(T, 4, 4) * 1), *words)
        for f in (
            lambda b: b.chunk(2)[0].mul_(2),
            lambda b: b.split(1)[0].mul_(2),
            lambda b: b.split_with_sizes([1, 3])[1].zero_(),
            lambda b: b.unbind()[0].add_(1),
            lambda b: b.unbind()[0][:1].mul_(2),
            lambda b: next(iter(b)).mul_(2),
        )
    ], [
        error(lambda f=f: f(numbers(T, 4, 4) * 1)).split(",")[0]
        for f in (
            lambda b: b.hsplit(2)[0].mul_(2),
            lambda b: b.vsplit(2)[0].mul_(2),
            lambda b: b.tensor_split(2)[0].mul_(2),
            lambda b: b.unsafe_chunk(2)[0].mul_(2),
            lambda b: b.unsafe_split(2)[0].mul_(2),
        )
    ]


@both
def test_pieces_may_be_written_where_nothing_is_recorded(T: Any) -> Any:
    x = numbers(T, 4)
    b, plain = x * 1, T.ones(4)
    c = b.chunk(2)
    with T.no_grad():
        c[0].mul_(2)
    u = plain.unbind()
    u[0].mul_(3)
    b.sum().backward()
    return b, x.grad, plain, error(lambda: u[1].mul_(x[0]), "is being modified inplace")


def test_pieces_follow_a_write_to_their_base() -> None:
    # PyTorch refuses to look at them again; what they hold has one history only, that of the base.
    x = numbers(ferro, 4)
    b = x * 1
    first, second = b.chunk(2)
    u = b.unbind()
    b.mul_(b.detach().clone())
    (g,) = ferro.autograd.grad((first * 3).sum(), x, retain_graph=True)
    assert g.tolist() == [3.0, 6.0, 0.0, 0.0]
    with ferro.no_grad():
        b.zero_()
    (g,) = ferro.autograd.grad(second.sum() + u[0], x)
    assert g.tolist() == [1.0, 0.0, 3.0, 4.0]


# -- custom functions ----------------------------------------------------------------------------------------------------------


def returning(T: Any, view: Any, back: Any = lambda g: g * 10) -> Any:
    class Returning(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return view(x)

        @staticmethod
        def backward(ctx: Any, *g: Any) -> Any:
            return back(*g)

    return Returning


@both
def test_views_that_functions_return(T: Any) -> Any:
    F = returning(T, lambda x: x.view(-1), lambda g: g.view(2, 2) * 10)
    x = numbers(T, 2, 2)
    b = x * 1
    y = F.apply(b)
    y.sum().backward()
    found = y._is_view(), y.grad_fn is not None
    z = F.apply(b)
    refused = error(lambda: z.mul_(2), "is a view", "is being modified inplace")
    b.mul_(2)
    return found, x.grad, refused, error(lambda: z.sum().backward(), "modified inplace")


@both
def test_inputs_that_functions_return_as_they_are(T: Any) -> Any:
    F = returning(T, lambda x: x)
    x = numbers(T, 2)
    b = x * 1
    y = F.apply(b)
    y.sum().backward()
    return y is b, y._is_view(), y._base is b, x.grad, error(lambda: y.mul_(2), "modified inplace")


@both
def test_several_views_that_a_function_returns(T: Any) -> Any:
    F = returning(T, lambda x: (x[:1], x[1:]), lambda a, b: T.cat([a, b * 2]))
    x = numbers(T, 3)
    a, b = F.apply(x * 1)
    (a.sum() + (b * b).sum()).backward()
    return x.grad, error(lambda: a.mul_(2), "modified inplace")


# -- as_strided ------------------------------------------------------------------------------------------------------------------


@both
def test_as_strided_chains(T: Any) -> Any:
    x = numbers(T, 12)
    b = x * 1
    v = b.as_strided((3, 2), (4, 1))
    w = v.as_strided((2,), (4,), 1)
    tail = b[4:]
    beyond, here = tail.as_strided((2,), (2,), 5), tail.as_strided((2,), (2,))
    w.mul_(5)
    beyond.mul_(7)
    here.mul_(3)
    (b * b).sum().backward()
    return b, v, w, beyond, here, x.grad, here.storage_offset()


@both
def test_as_strided_in_place_and_its_errors(T: Any) -> Any:
    x = numbers(T, 6)
    b = x * 1
    b.as_strided_((2, 2), (2, 1))
    (b * b).sum().backward()
    return (
        b,
        x.grad,
        [
            error(lambda f=f: f(T.ones(4)), "as_strided") if k else error(lambda f=f: f(T.ones(4)), "out of bounds")
            for k, f in enumerate((lambda t: t.as_strided((3, 3), (2, 2)), lambda t: t.as_strided((2,), (-1,))))
        ],
    )


# -- memory that is exchanged ------------------------------------------------------------------------------------------------------


@both
def test_set_shows_other_memory(T: Any) -> Any:
    x, y = T.ones(3), T.zeros(2, 2)
    before = x.is_set_to(y)
    result = x.set_(y)
    y[0, 0] = 5.0
    part = T.ones(1).set_(T.arange(6.0), 2, (2, 2), (2, 1))
    view = T.ones(3)[:2]
    base = view._base
    view.set_(T.zeros(4)).add_(1)
    p = T.ones(3, requires_grad=True)
    with T.no_grad():
        p.set_(T.zeros(2))
    return (
        result is x,
        x,
        x._version,
        before,
        x.is_set_to(y),
        x.is_set_to(y[0]),
        part,
        view,
        base,
        p,
        p.requires_grad,
        p._version,
        T.ones(2).set_(),
    )


@both
def test_what_set_refuses(T: Any) -> Any:
    w = T.ones(3)
    y = (T.ones(3, requires_grad=True) * w).sum()
    w.set_(T.zeros(3))
    return (
        error(lambda: T.ones(3, requires_grad=True).set_(T.zeros(2)), "leaf Variable that requires grad"),
        error(lambda: T.ones(3).set_(T.ones(3, dtype=T.int64)), "Could not set tensor of type"),
        error(lambda: T.ones(3).set_(3)).split(":")[0],
        error(y.backward, "modified by an inplace operation"),
    )


def test_set_has_no_derivative() -> None:
    # PyTorch says so when backward runs.
    x = leaf(ferro, 1.0, 2.0)
    raises(
        lambda: ferro.ones(2, dtype=ferro.float64).set_(x),
        RuntimeError,
        "derivative of set_ is not implemented",
        "detach()",
    )
    raises(
        lambda: (x * 1).set_(ferro.ones(2, dtype=ferro.float64)), RuntimeError, "derivative of set_ is not implemented"
    )


@both
def test_resize(T: Any) -> Any:
    x = T.arange(6.0)
    v = x[1:]
    counts = [x._version]
    for size in ((6,), (2, 3), (2, 2), (0,)):
        result = x.resize_(*size)
        counts.append(x._version)
    shrunk = T.arange(6.0).resize_([2, 2])
    grown = T.ones(3).resize_(2, 2)
    transposed = T.arange(6.0).view(2, 3).t()
    again = T.arange(6.0).view(2, 3).t().resize_(2, 3)
    base = T.arange(6.0)
    part = base[2:4].resize_(3)
    part[0] = 9.0
    alike = T.arange(6.0).resize_as_(T.ones(3, 1))
    return (
        result is x,
        counts,
        x,
        v,
        shrunk,
        grown.flatten()[:3],
        list(grown.shape),
        transposed.resize_(3, 2),
        transposed.is_contiguous(),
        again,
        part,
        base,
        alike,
        T.ones(3).resize_(()),
    )


@both
def test_what_resize_refuses(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    w = T.ones(3, dtype=T.float64)
    y = (x * w).sum()
    w.resize_(2)
    with T.no_grad():
        silent = error(lambda: x.resize_(2), "cannot resize variables that require grad")
    return (
        [
            error(lambda f=f: f(), "cannot resize variables that require grad")
            for f in (
                lambda: x.resize_(2),
                lambda: (x * 1).resize_(2),
                lambda: x.resize_(3),
                lambda: x.resize_as_(T.ones(2)),
            )
        ],
        silent,
        error(y.backward, "modified by an inplace operation"),
        error(lambda: T.ones(3).resize_(-1)),
        error(lambda: T.ones(3).resize_("a")).split(":")[0],
        error(lambda: T.ones(3).resize_()).split(":")[0],
    )


def test_views_keep_their_place_when_the_base_is_resized() -> None:
    w = leaf(ferro, 2.0, 3.0, 4.0, 5.0)
    x = ferro.ones(6, dtype=ferro.float64)
    v = x[1:3]
    x.resize_(2, 2).mul_(w.view(2, 2))
    v.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    y = ferro.ones(2, dtype=ferro.float64)
    u = y[:1]
    y.resize_(4).mul_(w)  # moves to other memory: u stays where it was
    assert not u.requires_grad
    assert u.tolist() == [1.0]


@both
def test_element_by_element(T: Any) -> Any:
    grid = T.arange(6.0).view(2, 3)
    result = grid[:, 1].apply_(lambda v: -v)
    words = ("Can't call", "on Variable that requires grad")
    x = leaf(T, 1.0)
    return (
        grid,
        result.dtype,
        T.arange(3).apply_(lambda v: v + 1),
        T.arange(3.0).map_(T.ones(3), lambda a, b: a + b),
        T.zeros(2, 3).map_(T.arange(3.0), lambda a, b: a + b),
        T.arange(3.0).map2_(T.ones(3), T.ones(3) * 2, lambda a, b, c: a + b * c),
        [
            error(lambda f=f: f(), *words)
            for f in (lambda: x.apply_(abs), lambda: (x * 1).apply_(abs), lambda: T.ones(1).map_(x.float(), max))
        ],
        error(lambda: T.ones(2).apply_(lambda v: "a")).split(":")[0],
        error(lambda: T.ones(2).map_(T.ones(2, dtype=T.int64), max)).split(":")[0],
        error(lambda: T.ones(3).map_(T.ones(2), max)).split(":")[0],
    )


def test_element_by_element_counts_as_a_change() -> None:
    # PyTorch does not count it, and backward then runs with the new content.
    w = ferro.ones(2, dtype=ferro.float64)
    y = (leaf(ferro, 1.0, 2.0) * w).sum()
    w.apply_(lambda v: 5.0)
    raises(y.backward, RuntimeError, "modified by an inplace operation", "apply_")


@both
def test_data_escapes(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    y = (x * x).sum()
    x.data.mul_(2)  # unseen, as documented
    y.backward()
    first = x.grad.clone(), x._version, x.data.requires_grad
    z = (x * 2).sum()
    x.data = T.zeros(3, dtype=T.float64)
    z.backward()
    other = T.zeros(3)
    plain = T.ones(3)
    plain.data = other
    other.add_(1)
    single = leaf(T, 1.0)
    single.data = T.zeros(2, 2)
    return (
        first,
        x,
        x.grad,
        plain,
        plain._version,
        other._version,
        single,
        single.requires_grad,
        error(lambda: setattr(x, "data", [1.0]), "Variable data has to be a tensor"),
        error(lambda: setattr(x, "data", None), "has to be a tensor"),
        error(lambda: setattr(x, "data", T.zeros(3, dtype=T.int64)), "must be floating point or complex"),
        error(lambda: delattr(x, "data"), "Deleting tensor data is not allowed"),
    )


@both
def test_detach(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 2
    z = y * 3
    d = y.detach()
    d.add_(1)
    y.detach_()
    y.mul_(3)
    z.sum().backward()
    return (
        x.grad,
        y,
        y.requires_grad,
        y.is_leaf,
        y._version,
        d._version,
        d._is_view(),
        x.detach_().requires_grad,
        error(lambda: T.ones(3)[:2].detach_(), "Can't detach views in-place"),
    )


# -- swap_tensors ------------------------------------------------------------------------------------------------------------------


@both
def test_swap_exchanges_everything_but_identity(T: Any) -> Any:
    a, b = leaf(T, 1.0, 2.0), T.zeros(3)
    a.grad = T.ones(2, dtype=T.float64)
    holder = [a]
    T.utils.swap_tensors(a, b)
    p, q = T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.zeros(3), requires_grad=False)
    p.note = "p"
    T.utils.swap_tensors(p, q)
    product = leaf(T, 1.0) * 2
    plain = T.zeros(3)
    T.utils.swap_tensors(product, plain)
    return (
        a,
        b,
        a.requires_grad,
        b.requires_grad,
        a.grad,
        b.grad,
        holder[0] is a,
        p,
        q,
        q.note,
        hasattr(p, "note"),
        p.requires_grad,
        product.requires_grad,
        plain.requires_grad,
    )


class _Slotted(ferro.Tensor):
    __slots__ = ("mark",)


def test_swap_exchanges_slots_and_refuses_different_ones() -> None:
    a, b = _Slotted(ferro.ones(2)), _Slotted(ferro.zeros(3))
    a.mark, b.note = 1, 2
    a.untyped_storage()
    ferro.utils.swap_tensors(a, b)
    assert (b.mark, hasattr(a, "mark"), a.note, hasattr(b, "note")) == (1, False, 2, False)
    words = "Cannot swap t1 and t2 if they have different slots"
    raises(lambda: ferro.utils.swap_tensors(a, ferro.ones(2)), RuntimeError, words)
    assert a.shape == (3,)
    p, q = ferro.nn.Parameter(ferro.ones(1)), ferro.zeros(2)
    ferro.utils.swap_tensors(p, q)
    assert (type(q), type(p), p.requires_grad) == (ferro.nn.Parameter, ferro.Tensor, False)


@both
def test_swap_refuses_tensors_that_are_weakly_referenced(T: Any) -> Any:
    a = T.ones(2)
    reference = weakref.ref(a)
    return error(lambda: T.utils.swap_tensors(a, T.zeros(3)), "Cannot swap t1 because it has weakref"), reference() is a


def test_swap_refuses_tensors_that_a_graph_or_a_view_holds() -> None:
    # PyTorch raises when that graph runs backward.
    a, b = leaf(ferro, 1.0, 2.0), ferro.zeros(2, dtype=ferro.float64)
    y = (a * b).sum()
    raises(
        lambda: ferro.utils.swap_tensors(a, ferro.zeros(1)),
        RuntimeError,
        "Cannot swap t1",
        "a graph that leads to it is in use",
    )
    raises(lambda: ferro.utils.swap_tensors(ferro.zeros(1), b), RuntimeError, "Cannot swap t2", "graph")
    del y
    v = b[:1]
    raises(lambda: ferro.utils.swap_tensors(a, b), RuntimeError, "Cannot swap t2", "a view of it")
    del v
    ferro.utils.swap_tensors(a, b)
    assert b.requires_grad

    class Larger(ferro.Tensor):
        __slots__ = ("more",)
        __torch_function__ = ferro.overrides.disabled

    raises(lambda: ferro.utils.swap_tensors(a, Larger([1.0])), RuntimeError, "if they have different slots")
    raises(lambda: ferro.utils.swap_tensors(a, 3), TypeError, "expected t2 to be a Tensor")


# -- copies and pickles ------------------------------------------------------------------------------------------------------------


@both
def test_deepcopy(T: Any) -> Any:
    x = T.arange(6.0)
    view, turned = copy.deepcopy(x[1:3]), copy.deepcopy(x.view(2, 3).t())
    view.add_(1)
    group = copy.deepcopy({"a": x, "b": x, "c": [x]})
    group["a"].add_(10)
    loaded = leaf(T, 1.0, 2.0)
    (loaded * 3).sum().backward()
    twin = copy.deepcopy(loaded)
    twin.grad.add_(1)
    frozen = copy.deepcopy(T.nn.Parameter(T.ones(2), requires_grad=False))
    return (
        view,
        x,
        view._is_view(),
        turned,
        turned.stride(),
        group["b"],
        group["c"][0] is group["a"],
        twin,
        twin.requires_grad,
        twin.grad,
        loaded.grad,
        type(frozen).__name__,
        frozen.requires_grad,
        error(lambda: copy.deepcopy(loaded * 1), "graph leaves"),
        copy.copy(loaded) is loaded,
        copy.copy(loaded).requires_grad,
    )


@both
def test_pickle(T: Any) -> Any:
    def loaded(x: Any, protocol: int = 4) -> Any:
        return pickle.loads(pickle.dumps(x, protocol=protocol))

    x = numbers(T, 2, 3)
    (x * 2).sum().backward()
    p = T.nn.Parameter(T.ones(2))
    frozen = loaded(T.nn.Parameter(T.ones(2), requires_grad=False))
    y = loaded(x)
    a, b = loaded((p, p))
    return (
        y,
        y.requires_grad,
        y.is_leaf,
        y.grad,
        [loaded(x, k) for k in (2, 3, 4, 5)],
        loaded(T.arange(6.0).view(2, 3).t()),
        loaded(T.arange(6.0)[2:4])._is_view(),
        a is b,
        type(a).__name__,
        a.requires_grad,
        type(frozen).__name__,
        frozen.requires_grad,
        [loaded(T.ones(2, dtype=d)) for d in (T.float16, T.bfloat16, T.complex64, T.bool, T.uint8, T.int64)],
        loaded(T.ones(0, 3)),
        loaded(T.tensor(3.0)),
    )


def test_copies_hold_no_history_alive() -> None:
    gc.disable()
    try:
        x = leaf(ferro, 1.0)
        y = x * 2
        node = weakref.ref(y.grad_fn)
        copies = [y.detach(), copy.deepcopy(y.detach()), y.data, y.detach().clone()]
        del y
        assert node() is None
        assert [c.item() for c in copies] == [2.0] * 4
    finally:
        gc.enable()


def test_account_sees_a_difference() -> None:
    assert account(ferro.ones(2)) != account(ferro.ones(2, dtype=ferro.float64))


@both
def test_repr_says_that_a_view_made_under_no_grad_has_been_overtaken(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    plain = T.ones(2, dtype=T.float64)
    with T.no_grad():
        views = [x[:1], x.view(2), (x * 1)[1:], x.narrow(0, 0, 1)[:1], plain[:1]]
    recorded = x[:1]
    before = ["Invalid" in repr(v) for v in (*views, recorded)]
    with T.no_grad():
        x.mul_(2)
        plain.mul_(2)
    return before, ["Invalid" in repr(v) for v in (*views, recorded)], [v.requires_grad for v in views]


def test_the_first_view_of_a_process_is_no_exception() -> None:
    run_python("""
import ferro
x = ferro.ones(2, requires_grad=True)
with ferro.no_grad():
    view = x[:1]
    x.mul_(2)
assert "Invalid" in repr(view), view
assert (view * 2).grad_fn is None
""")
