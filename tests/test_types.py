"""What a type checker knows of results: pyright reads this file in `make lint`, and the tests see that it is true."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import pytest

import ferro
from ferro import Tensor
from ferro.core import return_types
from ferro.core.size import Size
from tests.helpers import ROOT


def test_operators_are_tensors() -> None:
    x = ferro.tensor([1.0, 2.0])
    found = [
        assert_type(x + 1, Tensor),
        assert_type(1 + x, Tensor),
        assert_type(x - x, Tensor),
        assert_type(1 - x, Tensor),
        assert_type(x * 2, Tensor),
        assert_type(2 / x, Tensor),
        assert_type(x / 2, Tensor),
        assert_type(x // 2, Tensor),
        assert_type(x % 2, Tensor),
        assert_type(x**2, Tensor),
        assert_type(2**x, Tensor),
        assert_type(-x, Tensor),
        assert_type(abs(x), Tensor),
        assert_type(x @ x, Tensor),
        assert_type(x < 1, Tensor),
        assert_type(x >= 1, Tensor),
        assert_type(~(x > 1), Tensor),
        assert_type((x > 1) & (x < 3), Tensor),
        assert_type(x[0], Tensor),
    ]
    x += 1
    x *= x
    found += [assert_type(x, Tensor), *x]
    assert [type(f) for f in found] == [Tensor] * len(found)


def test_methods_say_what_they_return() -> None:
    x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = [
        assert_type(x.to(ferro.float64), Tensor),
        assert_type(x.double(), Tensor),
        assert_type(x.clone(), Tensor),
        assert_type(x.detach(), Tensor),
        assert_type(x.max(), Tensor),
        assert_type(x.median(), Tensor),
        assert_type(ferro.min(x), Tensor),
        assert_type(x.sum(0).sqrt().clamp(min=1), Tensor),
        assert_type(ferro.where(x > 1, x, 0), Tensor),
        assert_type(x.add_(1).mul_(2).exp_(), Tensor),
        assert_type(x.uniform_(1, 2), Tensor),
        assert_type(x.t_(), Tensor),
        assert_type(x.index_fill_(0, ferro.tensor([0]), 1.0), Tensor),
        assert_type(ferro.sigmoid_(x), Tensor),
        assert_type(ferro.expand_copy(x, (2, 2)), Tensor),
    ]
    assert [type(f) for f in found] == [Tensor] * len(found)


def test_what_is_no_tensor() -> None:
    x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert assert_type(x.sum().item(), int | float | bool) == 10
    assert assert_type(x.size(), Size) == (2, 2)
    assert assert_type(x.size(0), int) == 2
    assert assert_type(x.stride(), tuple[int, ...]) == (2, 1)
    assert assert_type(x.stride(1), int) == 1
    assert assert_type(x.type(), str) == x.type()
    assert [len(i) for i in assert_type(ferro.where(x > 2), tuple[Tensor, ...])] == [2, 2]
    pair = assert_type(x.max(0), return_types.max)
    assert assert_type(pair.indices, Tensor).tolist() == [1, 1]


# Expressions of x, a floating matrix, and n, one of integers; and their types. All is read by pyright and evaluated.
EXPRESSIONS = {
    "Tensor": """
        x == 0; x != x; x <= x; n & 1; n | n; n ^ 1; ~n; n << 1; n >> n; 1 + x; 2 - x; 3 * x; 1 / x; 2**x; 5 // x; 5 % x; -x; +x;
        abs(x); x @ x; x[0]; x[0, 1:]; x[..., None]; x[x > 0]; x[n[0]]; x.T; x.mT; x.H; x.real; x.data; x.to("cpu"); x.to(torch.float64);
        x.to(x); x.float(); x.half(); x.long(); x.bool(); x.cpu(); x.type_as(x); x.clone(); x.detach(); x.contiguous();
        x.requires_grad_(); x.view(-1); x.view(2, 2); x.reshape(4); x.reshape((4,)); x.permute(1, 0); x.transpose(0, 1); x.t();
        x.flatten(); x.squeeze(); x.unsqueeze(0); x.expand(2, 2); x.expand(-1, -1); x.repeat(2, 1); x.roll(1); x.flip(0); x.sum();
        x.sum(dim=1, keepdim=True); x.mean(); x.mean(0); x.std(); x.var(1); x.norm(); x.prod(); x.prod(0); x.amax(0); x.argmax(1);
        x.any(); x.all(0); x.max(); x.min(); x.median(); x.cumsum(0); x.exp(); x.log(); x.sigmoid(); x.tanh(); x.relu(); x.softmax(-1);
        x.log_softmax(1); x.clamp(0, 1); x.clamp(min=0); x.round(); x.pow(2); x.masked_fill(x > 0, 0.0); x.gather(0, n); x.index_select(0,
        n[0]); x.scatter(0, n, 1.0); x.matmul(x); x.mm(x); x[0].outer(x[0]); x.nonzero(); x.tril(); x.diag(); x.inverse(); x.det();
        x.isnan(); x.eq(1); x.lerp(x, 0.5); x.addmm(x, x); x.new_zeros(3); x.new_tensor([1.0]); x.add_(1); x.mul_(x); x.sub_(1, alpha=2);
        x.div_(2); x.clamp_(0, 1); x.exp_(); x.zero_(); x.fill_(1); x.copy_(x); x.normal_(); x.uniform_(0, 1); x.masked_fill_(x > 5, 0.0);
        x.unsqueeze_(0).squeeze_(0); x.scatter_(0, n, 1.0); x.index_add_(0, n[0], x.clone()); x.detach_(); x.unbind()[0]; x.chunk(2)[1];
        x.split(1)[0]; x.max(dim=0).values; x.min(1).indices; x.topk(1).values; x.sort().indices; x.svd().S; x.aminmax().min;
        x.mode().values; x.kthvalue(1).values; x.median(0).values; x.cummax(0).values; torch.max(x, 0).values; torch.max(x, x);
        torch.linalg.svd(x).Vh; torch.linalg.qr(x).Q; torch.linalg.eigh(x).eigenvalues; torch.linalg.slogdet(x).logabsdet;
        torch.linalg.lstsq(x, x).solution; torch.linalg.inv(x); torch.linalg.solve(x, x); torch.linalg.norm(x); torch.fft.fft(x);
        torch.special.expit(x); torch.unique(n); torch.zeros(3); torch.ones(2, 3); torch.randn(2); torch.rand_like(x); torch.arange(3);
        torch.linspace(0, 1, 3); torch.eye(2); torch.tensor([1]); torch.full((2,), 1.0); torch.cat([x, x]); torch.stack((x, x));
        torch.where(x > 0, x, 0); torch.einsum("ij,jk->ik", x, x); torch.std_mean(x)[0]; torch.bmm(x[None], x[None]);
        torch.from_numpy(x.numpy()); torch.meshgrid(x[0], x[0], indexing="ij")[0]; x.float_power(2); torch.vmap(torch.sin)(x);
        nn.functional.relu(x); nn.functional.softmax(x, dim=1); nn.functional.cross_entropy(x, n[0]); nn.functional.dropout(x, 0.5);
        nn.functional.linear(x, x); nn.functional.max_pool2d(x[None], 2); nn.functional.pad(x, (1, 1)); nn.functional.one_hot(n);
        nn.functional.conv1d(x[None], x[None]); nn.functional.mse_loss(x, x); nn.functional.interpolate(x[None], 4)
    """,
    "int": "x.dim(); x.ndim; x.numel(); x.size(0); x.shape[0]; len(x); x.element_size()",
    "bool": "x.is_contiguous(); x.requires_grad; x.is_leaf; x.is_floating_point(); torch.equal(x, x); torch.allclose(x, x); torch.is_tensor(x)",
    "float": "float(x.sum())",
    "torch.dtype": "x.dtype; torch.float32; torch.get_default_dtype()",
    "torch.device": "x.device",
    "torch.Size": "x.shape; x.size()",
    "tuple[Tensor, ...]": "x.split(1); x.chunk(2); x.unbind(); torch.where(x > 0); x.nonzero(as_tuple=True); torch.broadcast_tensors(x, x)",
    "tuple[Tensor, Tensor]": "torch.std_mean(x); torch.var_mean(x, 0)",
    "return_types.max": "x.max(0); x.max(dim=1, keepdim=True); torch.max(x, dim=0)",
    "return_types.topk": "x.topk(1); torch.topk(x, 1)",
    "return_types.sort": "x.sort(); torch.sort(x, descending=True)",
    "return_types.linalg_svd": "torch.linalg.svd(x)",
    "return_types.linalg_eigh": "torch.linalg.eigh(x)",
}
LINES = [(kind, " ".join(e.split())) for kind, expressions in EXPRESSIONS.items() for e in expressions.split(";")]
HEAD = """from typing import assert_type
import ferro as torch
from ferro import Tensor, nn, return_types
x, n = torch.eye(2), torch.tensor([[0, 1], [1, 0]])
"""


def test_a_type_checker_knows_a_hundred_expressions_and_more(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed (it is among the extra `dev`)")
    program = tmp_path / "expressions.py"
    program.write_text(HEAD + "".join(f"assert_type({e}, {kind})\n" for kind, e in LINES))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(program)]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=250, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    said = [
        f"{LINES[i][1]}: {d['message']}"
        for d in found["generalDiagnostics"]
        if (i := d["range"]["start"]["line"] - 4) >= 0
    ]
    assert (said, found["summary"]["errorCount"], done.returncode) == ([], 0, 0)


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_the_expressions_have_these_types(kind: str) -> None:
    names = {"torch": ferro, "nn": ferro.nn, "Tensor": Tensor, "return_types": return_types}
    for expression in (e for k, e in LINES if k == kind):
        x, n = ferro.eye(2), ferro.tensor([[0, 1], [1, 0]])
        value = eval(expression, {**names, "x": x, "n": n})
        if kind.startswith("tuple"):
            assert all(type(v) is Tensor for v in value), expression
        else:
            assert isinstance(value, eval(kind, names)), expression


@pytest.mark.parametrize(
    "owner", [Tensor, ferro, ferro.nn.functional, ferro.linalg, ferro.special, ferro.fft], ids=lambda o: o.__name__
)
def test_signatures_name_the_arguments(owner: Any) -> None:
    """Functions made of other functions (in-place methods, copying forms) show what they take."""
    for name in dir(owner):
        function = inspect.getattr_static(owner, name)
        if (
            name.startswith("_")
            or not inspect.isfunction(function)
            or not function.__module__.startswith(("ferro.ops", "ferro.core"))
        ):
            continue
        kinds = [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
        assert ("kwargs", inspect.Parameter.VAR_KEYWORD) not in kinds or name == "new", name
        if owner is Tensor and name.endswith("_"):
            assert (kinds[0][0], "out" in dict(kinds)) == ("self", False) or "input" in dict(kinds), name


def test_signatures_of_in_place_methods() -> None:
    x = ferro.ones(2)
    assert list(inspect.signature(x.clamp_).parameters) == ["min", "max"]
    assert list(inspect.signature(Tensor.transpose_).parameters) == ["self", "dim0", "dim1"]
    assert (
        str(inspect.signature(ferro.t_copy))
        == "(input: 'Tensor', *, out: 'Tensor | tuple[Tensor, ...] | None' = None) -> 'Tensor'"
    )
    add: Any = x.add_
    with pytest.raises(TypeError, match=r"add_\(\) got an unexpected keyword argument 'out'"):
        add(1, out=x)
