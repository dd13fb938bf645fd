"""Names of PyTorch's inside that libraries import: they do as PyTorch's do, or raise at their use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import ferro
from tests.helpers import run_python

# -- conditions


@pytest.mark.parametrize(
    "case",
    [
        lambda t: t._check(True),
        lambda t: t._check(False),
        lambda t: t._check(False, lambda: "the reason"),
        lambda t: t._check(False, "text"),
        lambda t: t._check(1),
        lambda t: t._check(t.tensor(True)),
        lambda t: t._check_index(False, lambda: "i"),
        lambda t: t._check_value(False, lambda: "v"),
        lambda t: t._check_type(False, lambda: "t"),
        lambda t: t._check_not_implemented(False, lambda: "n"),
        lambda t: t._check_is_size(2),
        lambda t: t._check_is_size(-1, lambda: "s"),
        lambda t: t._check_tensor_all(t.tensor([True, False]), lambda: "all"),
        lambda t: t._check_tensor_all(t.tensor([True])),
        lambda t: t._check_tensor_all(t.ones(1)),
        lambda t: t._assert_async(t.tensor(3)),
        lambda t: t._assert_async(t.tensor(0)),
        lambda t: t._assert_async(t.tensor(False), "the reason"),
        lambda t: t._assert_async(t.ones(2), "the reason"),
        lambda t: t._assert_async(True, "the reason"),
    ],
    ids=range(20),
)
def test_conditions_raise_as_in_pytorch(torch: Any, case: Callable[[Any], Any]) -> None:
    def outcome(t: Any) -> Any:
        try:
            return case(t)
        except Exception as error:  # noqa: BLE001 (compared)
            return type(error), str(error)

    ours, theirs = outcome(ferro), outcome(torch)
    if theirs is None or "tensor" in theirs[1].lower():  # (the words about tensors name more here)
        assert (ours and ours[0]) == (theirs and theirs[0])
    else:
        assert ours == theirs


# -- the C++ part


def test_transforms_are_told_apart() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append((ferro._C._are_functorch_transforms_active(), ferro._C._functorch.is_batchedtensor(x)))
        assert not ferro._C._functorch.is_legacy_batchedtensor(x)
        return x.sum()

    f(ferro.ones(2))
    ferro.func.grad(f)(ferro.ones(2))
    ferro.func.vmap(f)(ferro.ones(2, 2))
    assert seen == [(False, False), (True, False), (True, True)]
    assert ferro._C._get_default_device() == "cpu"


def test_a_class_may_turn_its_torch_function_off() -> None:
    assert run_python(
        "import ferro\n"
        "class Plain(ferro.Tensor):\n"
        "    __torch_function__ = ferro._C._disabled_torch_function_impl\n"
        "x = ferro.ones(2).as_subclass(Plain)\n"
        "print(type(x).__name__, type(x + 1).__name__)"
    ).split() == ["Plain", "Tensor"]


def test_operations_of_aten_without_a_public_name(torch: Any) -> None:
    def results(t: Any) -> list[Any]:
        aten, x = t.ops.aten, t.arange(6.0).reshape(2, 3)
        made = [
            aten._to_copy.default(x, dtype=t.float64),
            aten.slice.Tensor(x, 1, 0, 3, 2),
            aten.slice.Tensor(x, -1, 1),
            aten.index.Tensor(x, [None, t.tensor([2, 0])]),
            aten.alias.default(x),
        ]
        return [(str(y.dtype).rpartition(".")[2], y.tolist()) for y in made]

    assert results(ferro) == results(torch)
    x = ferro.ones(2)
    assert ferro.ops.aten._to_copy(x).data_ptr() != x.data_ptr() == ferro.ops.aten.alias(x).data_ptr()
    with pytest.raises(NotImplementedError, match=r"use sparse\.mm"):
        ferro.ops.aten._sparse_mm_reduce_impl.default(x, x, "sum")


# -- lists of tensors, modules, arguments for several devices


@pytest.mark.parametrize("indices", [False, True])
def test_tensors_in_groups_of_a_dtype(torch: Any, indices: bool) -> None:
    def groups(t: Any) -> Any:
        from importlib import import_module

        group = import_module(f"{t.__name__}.utils._foreach_utils")._group_tensors_by_device_and_dtype
        first = [t.zeros(1), t.zeros(2, dtype=t.float64), t.zeros(3)]
        found = group([first, [None, t.zeros(4), t.zeros(5)]], indices)
        plain = {str(dtype).rpartition(".")[2]: lists for (_, dtype), lists in found.items()}
        return {
            k: ([[x is not None and len(x) for x in part] for part in lists], where)
            for k, (lists, where) in plain.items()
        }

    assert groups(ferro) == groups(torch)
    from ferro.utils import _foreach_utils

    with pytest.raises(RuntimeError, match="of the same length"):
        _foreach_utils._group_tensors_by_device_and_dtype([[ferro.zeros(1)], []])


def test_a_module_with_other_tensors_in_a_block() -> None:
    from ferro.nn.utils.stateless import _reparametrize_module

    layer = ferro.nn.Linear(1, 1, bias=False)
    own = layer.weight
    with _reparametrize_module(layer, {"weight": ferro.tensor([[2.0]])}):
        assert layer(ferro.ones(1)).tolist() == [2.0]
    assert layer.weight is own


def test_arguments_for_several_devices(torch: Any) -> None:
    from torch.nn.parallel import scatter_gather as theirs

    from ferro.nn.parallel import scatter_gather as ours

    given: Any
    for given in ({"a": [1, (2, "x")]}, [], 3):
        assert ours.scatter(given, ["cpu", "cpu"]) == theirs.scatter(given, [torch.device("cpu")] * 2)
    gpus: Any = ["cpu", "cpu"]
    assert ours.scatter_kwargs((1,), {"k": 2}, gpus) == (((1,), (1,)), ({"k": 2}, {"k": 2}))
    assert ours.scatter_kwargs((), {"k": 2}, gpus) == (((), ()), ({"k": 2}, {"k": 2}))
    with pytest.raises(ValueError, match="Expected a non cpu device, but got: cpu"):
        ours.scatter([ferro.ones(2)], gpus)
    with pytest.raises(AssertionError, match="Gather function not implemented for CPU tensors"):
        ours.gather([ferro.ones(2)], "cpu")


# -- text, marks, classes


def test_settings_as_text(torch: Any) -> None:
    for name in ("USE_CUDA=0", "USE_MKL=OFF", "instruction set"):
        assert name in ferro.__config__.show()
    line = f"at::get_num_threads() : {ferro.get_num_threads()}"
    assert line in ferro.__config__.parallel_info()
    assert "at::get_num_threads() : " in torch.__config__.parallel_info()


def test_the_numbers_of_a_tensor_as_text(torch: Any) -> None:
    import torch._tensor_str as theirs

    values = [[1.5, -2.0], [3.0, 1e-3]]
    assert ferro._tensor_str._tensor_str(ferro.tensor(values), 4) == theirs._tensor_str(torch.tensor(values), 4)
    assert ferro._tensor_str.PRINT_OPTS.threshold == theirs.PRINT_OPTS.threshold
    with pytest.raises(AttributeError, match="no option 'colour'"):
        _ = ferro._tensor_str.PRINT_OPTS.colour


def test_marks_for_a_compiler_and_classes_that_nothing_is_of() -> None:
    from ferro import _jit_internal
    from ferro._subclasses.fake_tensor import is_fake
    from ferro.fx.experimental.proxy_tensor import get_proxy_mode

    for mark in (ferro.jit._overload, ferro.jit._overload_method, _jit_internal._copy_to_script_wrapper):
        assert mark(len) is len
    assert ferro.jit.Attribute(3, int).value == 3
    assert issubclass(ferro.jit.Error, Exception)
    assert issubclass(ferro.jit.TracerWarning, Warning)
    with pytest.raises(NotImplementedError, match=r"debug\.graph"):
        ferro.jit._get_trace_graph(ferro.nn.Identity(), ferro.ones(1))
    for kind in (ferro.ao.quantization.FakeQuantizeBase, ferro.ao.quantization.ObserverBase):
        with pytest.raises(NotImplementedError, match="quantised tensors are not there"):
            kind()
    assert not is_fake(ferro.ones(1))
    assert get_proxy_mode() is None
    assert ferro.nn.modules.module._IncompatibleKeys([], []) == ferro.nn.Identity().load_state_dict({})


def test_private_names_of_filling_are_the_public_functions() -> None:
    assert ferro.nn.init._no_grad_uniform_(ferro.zeros(3), 2.0, 3.0).min() >= 2
    assert ferro.nn.init._no_grad_normal_(ferro.zeros(3), 5.0, 0.0).tolist() == [5.0] * 3


# -- a GPU that is not there


def test_streams_and_ranges_are_refused_where_they_are_made(torch: Any) -> None:
    if torch.version.cuda is not None:
        pytest.skip("this PyTorch was built with CUDA")
    for make in (
        lambda t: t.cuda.Stream(),
        lambda t: t.cuda.Event(),
        lambda t: t.cuda.nvtx.range_push("a"),
        lambda t: t.cuda.nvtx.range("a").__enter__(),
    ):
        with pytest.raises(RuntimeError) as theirs:
            make(torch)
        with pytest.raises(RuntimeError, match=re.escape(str(theirs.value))):
            make(ferro)


def test_torch_is_in_torch() -> None:
    program = "import ferro; ferro.as_torch.install(); import torch; print(torch.torch.deg2rad is ferro.deg2rad)"
    assert run_python(program).strip() == "True"


def test_a_tensor_is_the_same_where_its_cdata_is(torch: Any) -> None:
    for t in (ferro, torch):
        x = t.ones(2)
        same, other = x, x.view(2)
        assert x._cdata == same._cdata != other._cdata


@pytest.mark.parametrize("library", ["ferro", "torch"])
def test_a_transform_or_distribution_may_be_a_module(torch: Any, library: str) -> None:
    t: Any = ferro if library == "ferro" else torch

    class Scale(t.distributions.Transform, t.nn.Module):
        domain = codomain = t.distributions.constraints.real
        bijective = True

        def __init__(self) -> None:
            super().__init__(cache_size=1)
            self.scale = t.nn.Parameter(t.tensor(2.0))

        def __hash__(self) -> int:
            return t.nn.Module.__hash__(self)

        def _call(self, x: Any) -> Any:
            return self.scale * x

    class Learned(t.distributions.Normal, t.nn.Module):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)
            self.shift = t.nn.Parameter(t.tensor(3.0))

    assert [name for name, _ in Scale().named_parameters()] == ["scale"]
    assert Scale()(t.tensor(3.0)).item() == 6
    assert [name for name, _ in Learned().named_parameters()] == ["shift"]


@pytest.mark.parametrize(
    "arguments",
    [
        lambda m: (("cpu",), {}),
        lambda m: ((m.float64,), {}),
        lambda m: (("cpu", m.float64, True), {}),
        lambda m: ((m.ones(1, dtype=m.int8),), {}),
        lambda m: ((), {"dtype": m.float16, "non_blocking": True}),
        lambda m: ((), {"memory_format": m.channels_last}),
        lambda m: ((), {}),
    ],
    ids=["device", "dtype", "all by place", "tensor", "names", "format", "nothing"],
)
def test_arguments_of_to_are_taken_apart(torch: Any, arguments: Any) -> None:
    found = []
    for m in (ferro, torch):
        args, kwargs = arguments(m)
        found.append([str(x).rpartition(".")[2] for x in m._C._nn._parse_to(*args, **kwargs)])
    assert found[0] == found[1]


def test_a_function_of_torch_as_an_attribute_of_a_module_is_no_method(torch: Any) -> None:
    for t in (ferro, torch):

        class Base(t.nn.Module):
            activation = t.relu

            def forward(self, x: Any) -> Any:
                return self.activation(x)

        class Other(Base):
            activation = t.square

        x = t.tensor([-2.0, 3.0])
        assert Base()(x).tolist() == Base.activation(x).tolist() == [0.0, 3.0]
        assert Other()(x).tolist() == [4.0, 9.0]


@pytest.mark.parametrize("small", [False, True])
def test_rows_as_indices_and_as_pointers(torch: Any, small: bool) -> None:
    def results(t: Any) -> Any:
        starts = t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2, 2, 3]), 5, out_int32=small)
        columns = t.tensor([1, 3, 0, 2, 2])
        both = [
            t._convert_indices_from_csr_to_coo(starts.long(), columns, out_int32=small, transpose=transpose)
            for transpose in (False, True)
        ]
        return [(str(x.dtype).rpartition(".")[2], x.tolist()) for x in (starts, *both)]

    assert results(ferro) == results(torch)
    with pytest.raises(RuntimeError, match="Input is supposed to be a vector, but got 2 dimensional tensor"):
        ferro._convert_indices_from_coo_to_csr(ferro.ones(1, 1).long(), 1)


def test_no_number_is_a_symbol() -> None:
    for name in ("SymInt", "SymFloat", "SymBool"):
        kind = getattr(ferro, name)
        assert not isinstance(ferro.ones(2).shape[0], kind)
        with pytest.raises(TypeError, match="never symbols"):
            kind(3)


def test_members_of_a_kind_by_name(torch: Any) -> None:
    def names(t: Any) -> list[str]:
        model = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.BatchNorm1d(1))
        return [name for name, _ in model._named_members(lambda module: module._parameters.items(), prefix="net")]

    assert names(ferro) == names(torch)
