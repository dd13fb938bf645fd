"""Every in-place method of torch.Tensor: against its out-of-place form and against PyTorch, with gradients, through views too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.autograd import Function
from tests.autograd.both import account, both, error, leaf

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")  # PyTorch: "in beta", once a process

RANGES = {"unit": (0.15, 0.85), "above one": (1.2, 2.5), "signed": (-0.8, 0.9)}


def numbers(seed: int, shape: tuple = (2, 3), values: str = "unit") -> np.ndarray:
    return np.random.default_rng(seed).uniform(*RANGES[values], shape)


class Case:
    """How a method is called: the tensor's range and shape, whether it stays `constant`, and the other arguments.

    Arrays among the arguments become tensors; out_of_place=None says that there is no such form (of the same dtype).
    """

    def __init__(
        self,
        *args: Any,
        values: str = "unit",
        shape: tuple = (2, 3),
        constant: bool = False,
        out_of_place: str | None = "same",
        **kwargs: Any,
    ) -> None:
        self.args, self.kwargs, self.values, self.shape = args, kwargs, values, shape
        self.constant, self.out_of_place = constant, out_of_place

    def arguments(self, T: Any) -> tuple[list, list]:
        """The arguments for a library, and the leaves among them."""
        leaves: list = []
        given: list = []
        for a in self.args:
            if isinstance(a, Leaf):
                given.append(T.tensor(a.array, requires_grad=True))
                leaves.append(given[-1])
            else:
                given.append(_converted(T, a))
        return given, leaves


class Leaf:
    """A tensor argument that requires grad."""

    def __init__(self, seed: int = 7, shape: tuple = (2, 3), values: str = "unit") -> None:
        self.array = numbers(seed, shape, values)


def _converted(T: Any, a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return T.from_numpy(a.copy())
    if isinstance(a, tuple):
        return tuple(_converted(T, x) for x in a)
    return a


ROWS, MASK = np.array([1, 0]), np.array([[True, False, True], [False, True, True]])
PLACES = np.array([[0, 1, 0], [1, 0, 1]])

CASES: dict[str, list[Case]] = {
    **{
        name: [Case(values="signed")]
        for name in (
            "abs_",
            "absolute_",
            "acos_",
            "arccos_",
            "arcsin_",
            "arcsinh_",
            "arctan_",
            "arctanh_",
            "asin_",
            "asinh_",
            "atan_",
            "atanh_",
            "ceil_",
            "conj_physical_",
            "cos_",
            "cosh_",
            "deg2rad_",
            "erf_",
            "erfc_",
            "erfinv_",
            "exp2_",
            "exp_",
            "expm1_",
            "fix_",
            "floor_",
            "frac_",
            "i0_",
            "nan_to_num_",
            "neg_",
            "negative_",
            "rad2deg_",
            "relu_",
            "round_",
            "sgn_",
            "sigmoid_",
            "sign_",
            "sin_",
            "sinc_",
            "sinh_",
            "square_",
            "tan_",
            "tanh_",
            "tril_",
            "triu_",
            "trunc_",
        )
    },
    **{
        name: [Case()]
        for name in (
            "digamma_",
            "lgamma_",
            "log10_",
            "log1p_",
            "log2_",
            "log_",
            "logit_",
            "reciprocal_",
            "rsqrt_",
            "sqrt_",
        )
    },
    **{name: [Case(values="above one")] for name in ("acosh_", "arccosh_")},
    **{
        name: [Case(Leaf()), Case(Leaf(shape=(3,))), Case(0.5)]
        for name in (
            "add_",
            "div_",
            "divide_",
            "float_power_",
            "mul_",
            "multiply_",
            "pow_",
            "sub_",
            "subtract_",
            "true_divide_",
            "xlogy_",
        )
    },
    **{
        name: [Case(Leaf(), values="signed"), Case(Leaf(shape=(1, 3)))]
        for name in ("arctan2_", "atan2_", "copysign_", "fmod_", "hypot_", "ldexp_", "remainder_")
    },
    **{
        name: [Case(Leaf(shape=(3,)), out_of_place=None), Case(0.5, out_of_place=None)]
        for name in (
            "eq_",
            "ge_",
            "greater_",
            "greater_equal_",
            "gt_",
            "le_",
            "less_",
            "less_equal_",
            "lt_",
            "ne_",
            "not_equal_",
        )
    },
    "addbmm_": [Case(Leaf(1, (4, 2, 5)), Leaf(2, (4, 5, 3)), beta=0.5, alpha=2)],
    "addcdiv_": [Case(Leaf(1), Leaf(2, (3,)), value=0.5)],
    "addcmul_": [Case(Leaf(1), Leaf(2, (2, 1)), value=0.5)],
    "addmm_": [Case(Leaf(1, (2, 4)), Leaf(2, (4, 3)), beta=0.5, alpha=2)],
    "addmv_": [Case(Leaf(1, (3, 4)), Leaf(2, (4,)), shape=(3,))],
    "addr_": [Case(Leaf(1, (2,)), Leaf(2, (3,)), beta=3)],
    "as_strided_": [Case((3, 2), (1, 3)), Case((2, 2), (2, 1), 1)],
    "baddbmm_": [Case(Leaf(1, (2, 2, 4)), Leaf(2, (2, 4, 3)), beta=0.5, shape=(2, 2, 3))],
    "clamp_": [Case(0.3, 0.6), Case(min=0.4), Case(Leaf(1), Leaf(2))],
    "clamp_max_": [Case(0.5), Case(Leaf(1))],
    "clamp_min_": [Case(0.5), Case(Leaf(1))],
    "clip_": [Case(0.3, 0.6)],
    "copy_": [Case(Leaf(1), out_of_place=None), Case(Leaf(1, (3,)), out_of_place=None)],
    "cumprod_": [Case(1)],
    "cumsum_": [Case(0)],
    "fill_": [Case(0.5, out_of_place=None), Case(Leaf(1, ()), out_of_place=None)],
    "fill_diagonal_": [Case(0.5, shape=(3, 3), out_of_place=None)],
    "floor_divide_": [Case(0.2)],
    "heaviside_": [Case(numbers(1), values="signed", out_of_place=None)],
    "igamma_": [Case(Leaf(1), constant=True)],
    "igammac_": [Case(Leaf(1), constant=True)],
    "index_add_": [Case(0, ROWS, Leaf(1), alpha=2)],
    "index_copy_": [Case(0, ROWS, Leaf(1))],
    "index_fill_": [Case(1, np.array([0, 2]), 0.5), Case(1, np.array([0, 2]), Leaf(1, ()))],
    "index_put_": [
        Case((ROWS, np.array([0, 2])), Leaf(1, (2,))),
        Case((ROWS,), Leaf(1), accumulate=True),
        Case((MASK,), Leaf(1, (4,))),
    ],
    "index_reduce_": [Case(0, np.array([0, 0]), Leaf(1), "prod"), Case(0, ROWS, Leaf(1), "amax")],
    "lerp_": [Case(Leaf(1), 0.3), Case(Leaf(1), Leaf(2))],
    "masked_fill_": [Case(MASK, 0.5), Case(MASK, Leaf(1, ()))],
    "masked_scatter_": [Case(MASK, Leaf(1, (5,)))],
    "mvlgamma_": [Case(2, values="above one")],
    "nextafter_": [Case(numbers(1))],
    "polygamma_": [Case(1)],
    "put_": [Case(np.array([4, 1]), Leaf(1, (2,))), Case(np.array([4, 4]), Leaf(1, (2,)), accumulate=True)],
    "renorm_": [Case(2.0, 0, 0.7)],
    "scatter_": [Case(0, PLACES, Leaf(1)), Case(0, PLACES, 0.5)],
    "scatter_add_": [Case(0, PLACES, Leaf(1))],
    "scatter_reduce_": [Case(0, PLACES, Leaf(1), reduce) for reduce in ("sum", "prod", "mean", "amin")],
    "squeeze_": [Case(shape=(2, 1, 3)), Case(1, shape=(2, 1, 3))],
    "swapaxes_": [Case(0, 1)],
    "swapdims_": [Case(0, 1)],
    "t_": [Case()],
    "transpose_": [Case(0, 1)],
    "unsqueeze_": [Case(1)],
    "zero_": [Case(out_of_place=None)],
}
NO_FORMULA = ("floor_divide_", "heaviside_", "nextafter_")  # in PyTorch
OUT_OF_PLACE_ONLY = ("acosh_", "arccosh_", "arcsinh_", "arctanh_", "asinh_", "atanh_")  # are differentiated by PyTorch

# What is left of dir(torch.Tensor), and where it is tested instead.
RANDOM = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
INTEGERS = {
    "bitwise_and_": (6,),
    "bitwise_left_shift_": (1,),
    "bitwise_not_": (),
    "bitwise_or_": (8,),
    "bitwise_right_shift_": (1,),
    "bitwise_xor_": (5,),
    "gcd_": (np.array([6, 4, 9]),),
    "lcm_": (np.array([6, 4, 9]),),
}
LOGICAL = {"logical_and_": True, "logical_not_": False, "logical_or_": True, "logical_xor_": True}
ELSEWHERE = ("apply_", "detach_", "map2_", "map_", "requires_grad_", "resize_", "resize_as_", "set_")  # test_views.py
ABSENT = (
    "resize_as_sparse_",
    "share_memory_",
    "sparse_resize_",
    "sparse_resize_and_clear_",
)  # sparse tensors, processes


def test_the_list_of_in_place_methods_is_complete() -> None:
    names = {n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_")}
    assert names == {*CASES, *RANDOM, *INTEGERS, *LOGICAL, *ELSEWHERE, *ABSENT}
    assert [n for n in sorted(names - set(ABSENT)) if not hasattr(ferro.Tensor, n)] == []


PAIRS = [pytest.param(name, i, id=f"{name}{i}") for name, cases in sorted(CASES.items()) for i in range(len(cases))]


def run(T: Any, name: str, case: Case, how: str) -> list:
    """The result and all gradients of a method: on a tensor ("direct"), on a view of one ("view"), or out of place ("out")."""
    x = T.tensor(numbers(3, case.shape, case.values), requires_grad=True)
    args, leaves = case.arguments(T)
    base = x.detach() * 1 if case.constant else x * 1
    if how == "view":
        base = T.stack([base, base * 2])
    version = base._version
    target = base[0] if how == "view" else base
    other = base[-1] if how == "view" else None
    if how == "out":
        y = getattr(target, name[:-1])(*args, **case.kwargs)
    else:
        y = getattr(target, name)(*args, **case.kwargs)
        assert y is target
        assert base._version > version
    weights = T.arange(1.0, 1.0 + y.numel(), dtype=T.float64).reshape(y.shape)
    loss = (y * weights).sum()
    if how == "view":
        loss = loss + (base**2).sum() + other.sum()
    grads = T.autograd.grad(loss, [x, *leaves], allow_unused=True)
    return [
        y.detach().numpy(),
        *[np.zeros(p.shape) if g is None else g.numpy(force=True) for p, g in zip([x, *leaves], grads, strict=True)],
    ]


def close(found: list, wanted: list) -> None:
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:index_reduce.* is in beta:UserWarning")
@pytest.mark.parametrize(("name", "number"), PAIRS)
def test_an_in_place_method_equals_its_out_of_place_form_and_torch(name: str, number: int) -> None:
    case = CASES[name][number]
    found = run(ferro, name, case, "direct")
    if name not in NO_FORMULA:
        close(found, run(torch, name, case, "out" if name in OUT_OF_PLACE_ONLY else "direct"))
    if case.out_of_place is not None:
        close(found, run(ferro, name, case, "out"))


RESHAPING = ("as_strided_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")


@pytest.mark.parametrize(
    ("name", "number"), [p for p in PAIRS if p.values[0] not in (*RESHAPING, *NO_FORMULA, *OUT_OF_PLACE_ONLY)]
)
def test_an_in_place_method_of_a_view_changes_the_base_with_its_gradient(name: str, number: int) -> None:
    case = CASES[name][number]
    close(run(ferro, name, case, "view"), run(torch, name, case, "view"))


@pytest.mark.parametrize(("name", "number"), PAIRS)
def test_an_in_place_method_refuses_a_leaf_and_works_under_no_grad(name: str, number: int) -> None:
    case = CASES[name][number]
    x = ferro.tensor(numbers(3, case.shape, case.values), requires_grad=True)
    before = x.tolist()
    args, _ = case.arguments(ferro)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(x, name)(*args, **case.kwargs)
    assert (x.tolist(), x._version) == (before, 0)
    with ferro.no_grad():
        getattr(x, name)(*args, **case.kwargs)
    want = torch.tensor(numbers(3, case.shape, case.values))
    with torch.no_grad():
        getattr(want, name)(*case.arguments(torch)[0], **case.kwargs)
    np.testing.assert_allclose(x.detach().numpy(), want.numpy(), rtol=1e-9, atol=1e-12)
    assert x.requires_grad
    assert x.is_leaf
    assert x._version > 0


@pytest.mark.parametrize("name", NO_FORMULA)
def test_methods_without_a_derivative_in_torch_have_that_of_almost_every_place(name: str) -> None:
    (case,) = CASES[name]
    x, y = (getattr(T.tensor(numbers(3, case.shape, case.values)), name)(*case.arguments(T)[0]) for T in (ferro, torch))
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12)
    slope = 1.0 if name == "nextafter_" else 0.0
    np.testing.assert_array_equal(run(ferro, name, case, "direct")[1], slope * np.arange(1.0, 7.0).reshape(2, 3))


@pytest.mark.parametrize("name", ["eq_", "gt_", "logical_and_", "ne_"])
def test_a_truth_value_written_in_place_cuts_the_old_content_off(name: str) -> None:
    # PyTorch lets the gradient of a logical_... method pass as if nothing had been written.
    x = leaf(ferro, 1.0, 2.0, 3.0)
    y = x * 2
    getattr(y[:2], name)(ferro.ones(2, dtype=ferro.float64))
    assert y.requires_grad
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 24.0]


@pytest.mark.parametrize("name", RANDOM)
def test_random_fills_cut_the_old_content_off(name: str) -> None:
    for T in (ferro, torch):
        x = leaf(T, 1.0, 2.0, 3.0)
        y = x * 2
        args = (0.5,) if name == "geometric_" else ()
        assert getattr(y, name)(*args) is y
        assert y.requires_grad
        assert y._version == 1
        y.sum().backward()
        assert x.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("name", sorted({**INTEGERS, **LOGICAL}))
def test_integer_methods_change_every_view(name: str) -> None:
    def program(T: Any) -> Any:
        x = T.tensor([[12, 7, 3], [5, 0, 6]])
        row = x[0]
        args = [_converted(T, a) for a in INTEGERS[name]] if name in INTEGERS else [T.tensor([1, 0, 2])] * LOGICAL[name]
        getattr(row, name)(*args)
        return x, row, x._version

    assert account(program(ferro)) == account(program(torch))


OPERATORS = {
    "+=": lambda x, y: x.__iadd__(y),
    "-=": lambda x, y: x.__isub__(y),
    "*=": lambda x, y: x.__imul__(y),
    "/=": lambda x, y: x.__itruediv__(y),
    "%=": lambda x, y: x.__imod__(y),
    "**=": lambda x, y: x.__ipow__(y),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_augmented_assignment_is_in_place(operator: str) -> None:
    def program(T: Any) -> Any:
        x, y = leaf(T, 3.5, 2.25, 7.0), leaf(T, 2.0, 1.5, 3.0)
        b = x * 1
        view = b[1:]
        result = OPERATORS[operator](b, y)
        (view * T.tensor([2.0, 3.0], dtype=T.float64)).sum().backward()
        return result is b, view, b._version, x.grad, y.grad

    assert account(program(ferro)) == account(program(torch))


# -- assignment by index ---------------------------------------------------------------------------------------------------

ASSIGNMENTS = {
    "an integer": lambda T, x, y: x.__setitem__(1, y[0]),
    "a slice": lambda T, x, y: x.__setitem__(slice(0, 2), y),
    "a step": lambda T, x, y: x.__setitem__(slice(None, None, 2), y),
    "an ellipsis": lambda T, x, y: x.__setitem__((..., 0), y[0, 0]),
    "None": lambda T, x, y: x.__setitem__((None, 0), y[:1]),
    "rows": lambda T, x, y: x.__setitem__(T.tensor([2, 0]), y),
    "rows twice, the last counts": lambda T, x, y: x.__setitem__(T.tensor([0, 2]), y),
    "rows and a column": lambda T, x, y: x.__setitem__((T.tensor([2, 0]), 1), y[:, 0]),
    "a mask": lambda T, x, y: x.__setitem__(x.detach() > 5, y.sum()),
    "a mask of rows": lambda T, x, y: x.__setitem__(T.tensor([True, False, True]), y),
    "a mask plus": lambda T, x, y: x.__setitem__(x.detach() > 5, x[x.detach() > 5] + y[0, 0]),
    "a row plus": lambda T, x, y: x.__setitem__(0, x[0] + y[1]),
    "a row times, in place": lambda T, x, y: x.__setitem__(0, x[0].mul_(y[1])),
    "a list": lambda T, x, y: x.__setitem__([0, 1], y),
    "a number": lambda T, x, y: x.__setitem__((slice(None), 1), 3.0),
    "itself, reordered": lambda T, x, y: x.__setitem__(T.tensor([0, 1, 2]), x[T.tensor([2, 0, 1])] * y[0]),
    "an expanded value": lambda T, x, y: x.__setitem__(slice(0, 2), y[:1]),
    "a boolean": lambda T, x, y: x.__setitem__(True, y[0]),
    "nothing": lambda T, x, y: x.__setitem__(slice(0, 0), y[:0]),
    "into a view": lambda T, x, y: x.t()[1:].__setitem__(0, y[:, 0].repeat(2)[:3]),
}


@pytest.mark.parametrize("key", ASSIGNMENTS)
def test_assignment_by_index_gives_gradients_to_both(key: str) -> None:
    def program(T: Any) -> Any:
        x = T.arange(1.0, 10.0, dtype=T.float64).reshape(3, 3).clone().requires_grad_()
        y = T.arange(0.5, 6.5, dtype=T.float64).reshape(2, 3).clone().requires_grad_()
        b = x * 1
        ASSIGNMENTS[key](T, b, y)
        weights = T.arange(1.0, 10.0, dtype=T.float64).reshape(3, 3)
        gx, gy = T.autograd.grad((b**2 * weights).sum(), (x, y), allow_unused=True)
        return b, gx, gy, b._version

    assert account(program(ferro)) == account(program(torch))


@both
def test_augmented_assignment_by_mask(T: Any) -> Any:
    x, y = leaf(T, 1.0, -2.0, 3.0, -4.0), leaf(T, 10.0, 20.0)
    b = x * 1
    mask = x.detach() > 0
    b[mask] += y
    b[~mask] *= 2
    b[0] -= y[1]
    b[1:] /= y.sum()
    (b * b).sum().backward()
    return b, x.grad, y.grad


@both
def test_assignment_refuses_what_does_not_fit(T: Any) -> Any:
    x = T.zeros(3, 2)
    return (
        error(lambda: x.__setitem__(0, T.zeros(3))),
        error(lambda: x.__setitem__(5, 1.0), "out of"),
        error(lambda: x.__setitem__(T.tensor([7]), 1.0), "out of"),
        x,
    )


# -- dtypes, shapes and memory ------------------------------------------------------------------------------------------------


@both
def test_the_dtype_of_the_tensor_is_kept(T: Any) -> Any:
    x = T.ones(2, dtype=T.float32)
    y = T.tensor([1.5, 2.5], dtype=T.float64, requires_grad=True)
    x.mul_(y)
    (x * x).sum().backward()
    i = T.tensor([7, 8])
    return (
        x,
        y.grad,
        i.add_(2),
        error(lambda: i.add_(0.5), "can't be cast"),
        error(lambda: i.div_(2), "can't be cast"),
        error(lambda: T.ones(2).mul_(1j), "can't be cast"),
    )


@both
def test_an_in_place_result_must_fit(T: Any) -> Any:
    x = T.ones(3)
    return error(lambda: x.add_(T.ones(2, 3)), "broadcast"), error(lambda: x.mul_(T.ones(4))), x, x._version


@both
def test_expanded_memory_is_not_written(T: Any) -> Any:
    e = T.ones(1, 3).expand(2, 3)
    words = ("more than one element", "single memory location", "clone()")
    return [
        error(lambda f=f: f(e), *words)
        for f in (
            lambda t: t.add_(1),
            lambda t: t.copy_(T.zeros(3)),
            lambda t: t.mul_(t),
            lambda t: t.exp_(),
            lambda t: t.cumsum_(0),
        )
    ], e


@both
def test_overlapping_operands_are_refused(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    b = x * 1
    m = T.arange(4.0).view(2, 2).clone()
    for change in (lambda: b[1:].add_(b[:-1]), lambda: m.add_(m.t())):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            change()
    b[1:].add_(b[:-1].clone())
    b.sum().backward()
    return b, m, x.grad


def test_overlapping_out_is_written_when_all_has_been_read() -> None:
    s = ferro.arange(4.0)  # (of elementwise operations it is refused, as in PyTorch)
    ferro.cumsum(s[1:], 0, out=s[:-1])
    assert s.tolist() == [1.0, 3.0, 6.0, 3.0]


@both
def test_a_tensor_may_be_its_own_operand_where_that_is_not_saved(T: Any) -> Any:
    x = leaf(T, 2.0, 3.0)
    b = x * 1
    b.add_(b).sub_(b * 3)
    b.sum().backward()
    c = x * 1
    c.mul_(c)
    return b, x.grad, c, error(lambda: c.sum().backward(), "modified by an inplace operation")


@both
def test_out_is_not_differentiable(T: Any) -> Any:
    x, plain = leaf(T, 1.0), T.zeros(1, dtype=T.float64)
    words = ("don't support automatic differentiation",)
    with T.no_grad():
        T.exp(x, out=plain)
    version = plain._version
    return (error(lambda: T.exp(x, out=plain), *words), error(lambda: T.exp(plain, out=x * 1), *words), plain, version)


# -- leaves, history, versions --------------------------------------------------------------------------------------------------


@both
def test_changes_of_a_leaf_under_no_grad_do_not_end_its_life_as_a_leaf(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * x).sum().backward()
    with T.no_grad():
        x -= 0.5 * x.grad
        x[0] = 4.0
        x.clamp_(max=3.0)
    first = x.grad.clone()
    (x * x).sum().backward()
    return first, x, x.grad, x.is_leaf, x._version


@both
def test_a_plain_tensor_gets_a_history_from_what_is_written(T: Any) -> Any:
    w = leaf(T, 2.0, 3.0)
    states = []
    for write in (
        lambda b: b.add_(w),
        lambda b: b.copy_(w),
        lambda b: b.__setitem__(0, w[1]),
        lambda b: b.masked_fill_(b > 0, w[0]),
        lambda b: b.lerp_(w, 0.5),
        lambda b: b.addcmul_(w, w),
        lambda b: b.index_add_(0, T.tensor([1, 1]), w),
    ):
        b = T.ones(2, dtype=T.float64)
        write(b)
        states.append((b.requires_grad, b.is_leaf, b, T.autograd.grad((b * b).sum(), w)[0]))
    return states


@both
def test_saved_values_are_protected(T: Any) -> Any:
    words = ("modified by an inplace operation", "version")
    found = []
    for make, change in (
        (lambda x: x * x, lambda x, y: x.add_(1)),
        (lambda x: x.exp(), lambda x, y: y.mul_(2)),
        (lambda x: x.sigmoid(), lambda x, y: y[0].zero_()),
        (lambda x: x.tanh(), lambda x, y: y.detach().add_(1)),
        (lambda x: x.pow(2), lambda x, y: x[:1].mul_(2)),
        (lambda x: x.log(), lambda x, y: x.zero_()),
        (lambda x: x / x, lambda x, y: x.copy_(y)),
        (lambda x: x.max(), lambda x, y: y.mul_(2)),
    ):
        x = leaf(T, 1.0, 2.0) * 1
        y = make(x)
        change(x, y)
        found.append(error(lambda y=y: y.sum().backward(), *words))
    return found


@both
def test_what_is_not_saved_may_be_changed(T: Any) -> Any:
    found = []
    for make, change in (
        (lambda x: x + x, lambda x, y: x.add_(1)),
        (lambda x: x.exp(), lambda x, y: x.mul_(2)),
        (lambda x: x.sum(), lambda x, y: x.zero_()),
        (lambda x: x.sin(), lambda x, y: y.mul_(2)),
        (lambda x: x * 3, lambda x, y: x.mul_(2)),
        (lambda x: x.relu(), lambda x, y: x.mul_(-1)),
    ):
        leaf_ = leaf(T, 1.0, 2.0)
        x = leaf_ * 1
        y = make(x)
        change(x, y)
        y.sum().backward()
        found.append(leaf_.grad)
    return found


@both
def test_versions_count_every_change_of_the_storage(T: Any) -> Any:
    x = T.zeros(2, 2)
    counts = [x._version]
    for change in (
        lambda: x.__setitem__(0, 1),
        lambda: x.__setitem__(T.tensor([0]), 2.0),
        lambda: x.__setitem__(x > 1, 3.0),
        lambda: x.add_(1),
        lambda: x.fill_(2).zero_(),
        lambda: x.copy_(T.ones(2, 2)),
        lambda: x[0].add_(1),
        lambda: x.t().mul_(2),
        lambda: x.detach().zero_(),
        lambda: x.view(-1).__setitem__(0, 1),
        lambda: x.data.add_(1),
        lambda: x.t_(),
        lambda: x.unsqueeze_(0),
        lambda: x.requires_grad_(),
        lambda: x.clone().add_(1),
        lambda: T.add(x.detach(), 1, out=x.detach()),
    ):
        change()
        counts.append(x._version)
    return counts


@both
def test_second_derivatives_through_in_place_operations(T: Any) -> Any:
    x = leaf(T, 0.5, 1.5)
    b = x * 1
    b.mul_(x).add_(x)
    b[0] = b.clone()[1] * x[0]
    b.exp_()
    (g,) = T.autograd.grad((b * b).sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)[0]


@both
def test_hooks_of_a_tensor_belong_to_the_content_it_had(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    seen: list = []
    y = x * 1
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    (y * 5).sum().backward()
    return seen, x.grad


@both
def test_hooks_of_a_view_do_not_see_what_is_written_into_it(T: Any) -> Any:
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    found = []
    for write in (
        lambda v: v.mul_(3),
        lambda v: v.copy_(v.exp()),
        lambda v: v.zero_(),
        Doubled.apply,
        lambda v: v.masked_fill_(v > 1, 0.5),
    ):
        x = leaf(T, 1.0, 2.0)
        seen: list = []
        base = x * 1
        view, other, _ = base[:1], base[:], base.view(2).register_hook(seen.append)
        before = view * 7
        view.register_hook(lambda g, seen=seen: seen.append(("view", g.tolist())))
        view.grad_fn.register_prehook(lambda gs, seen=seen: seen.append("node"))
        other.register_hook(lambda g, seen=seen: seen.append(("other", g.tolist())))
        write(view)
        assert other.grad_fn is not None
        other.register_hook(lambda g, seen=seen: seen.append(("now", g.tolist())))
        (view.sum() + other.sum()).backward(retain_graph=True)
        found.append((list(seen), x.grad.tolist()))
        before.sum().backward()
        found.append((seen, x.grad.tolist()))
    return found


@both
def test_a_function_that_writes_into_a_view_is_not_called_without_a_gradient(T: Any) -> Any:
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(g.tolist())
            return g * 2

    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> None:
            return None

    found = []
    for piece in (slice(0, 1), None):
        seen: list = []
        x = leaf(T, 1.0, 2.0)
        y = x * 1 if piece is None else (x * 1)[piece]
        Nothing.apply(Doubled.apply(y)).sum().backward()
        found.append((seen, x.grad))
    return found


def test_a_custom_function_that_marks_its_input_dirty_is_in_place() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = leaf(ferro, 1.0, 2.0, 3.0)
    b = x * 1
    tail = b[1:]
    saved = b * b
    y = Scaled.apply(b[:2])
    assert y._base is b
    assert b._version == 2
    (b.sum() + tail.sum()).backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 6.0, 2.0]
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*Scaled"):
        saved.sum().backward()


@both
def test_complex_in_place(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    z = T.complex(x, x * 2)
    z.mul_(2 + 1j)
    z.real.mul_(3)
    z.imag[0] = x[1] * 2
    T.view_as_real(z)[1].sub_(x)
    z.conj_physical_().add_(x)
    (z.abs() ** 2).sum().backward()
    return z, x.grad


def test_indices_that_backward_needs_may_not_be_written():
    for give in (lambda x: x.max(1), lambda x: x.sort(1), lambda x: x.topk(2, 1)):
        x = ferro.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
        values, indices = give(x)
        indices.zero_()
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            values.sum().backward()
