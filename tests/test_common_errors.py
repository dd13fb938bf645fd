"""The mistakes that everybody makes: PyTorch's type of error and its sentence, and behind it what ferro knows better."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import agree

pytest.importorskip("torch", reason="PyTorch is the oracle of these tests and is not installed")

MISTAKES = [
    "t.ones(2, 3) @ t.ones(2, 3)",
    "t.ones(2, 3) @ t.ones(2)",
    "t.ones(3) @ t.ones(2, 2)",
    "t.ones(3) @ t.ones(2)",
    "t.ones(2, 2, 3) @ t.ones(2, 2, 3)",
    "t.ones(2, 2, 3) @ t.ones(2, 3)",
    "t.mv(t.ones(2, 3), t.ones(2))",
    "t.ones(2, 3).double() @ t.ones(3, 2)",
    "t.ones(2, 3).half().mm(t.ones(3, 2))",
    "t.ones(1, 2, 3).long().bmm(t.ones(1, 3, 2))",
    "t.addmm(t.ones(2), t.ones(2, 3).double(), t.ones(3, 2))",
    "nn.Linear(4, 2)(t.ones(3, 5))",
    "nn.Linear(784, 10)(t.ones(8, 1, 28, 28))",
    "nn.Linear(3, 2)(t.ones(2, 3).double())",
    "nn.Linear(3, 2)(t.ones(2, 3).long())",
    "nn.Linear(3, 2, bias=False)(t.ones(2, 3).double())",
    "nn.Conv2d(3, 8, 3)(t.ones(1, 1, 8, 8))",
    "nn.Conv2d(3, 8, 3)(t.ones(8, 8))",
    "nn.LSTM(3, 4)(t.ones(2, 5, 7))",
    "nn.Embedding(3, 2)(t.tensor([3]))",
    "nn.Embedding(3, 2)(t.tensor([1.0]))",
    "nn.Linear(2, 3).load_state_dict(nn.Linear(3, 3).state_dict())",
    "nn.Linear(2, 3).load_state_dict({'w': t.ones(1)})",
    "nn.Module()(1)",
    "t.optim.SGD([], lr=0.1)",
    "t.optim.SGD(t.ones(2), lr=0.1)",
    "t.optim.SGD([t.ones(2)], lr=-1)",
    "t.utils.data.DataLoader([1, 2], batch_size=0)",
    "F.cross_entropy(t.ones(2, 3), t.ones(2))",
    "F.cross_entropy(t.ones(2, 3), t.tensor([1, 3]))",
    "F.binary_cross_entropy(t.tensor([2.0]), t.tensor([1.0]))",
    "F.binary_cross_entropy(t.rand(2, 1), t.rand(2))",
    "F.one_hot(t.tensor([3]), 2)",
    "t.cat([t.ones(2, 3), t.ones(2, 2)])",
    "t.stack([t.ones(2), t.ones(3)])",
    "t.ones(2, 3) + t.ones(2, 4)",
    "t.ones(2, 3).view(4)",
    "t.ones(2, 3).t().view(6)",
    "t.ones(2, 3).reshape(4, -1)",
    "t.ones(2, 3).expand(4, 3)",
    "t.ones(2).sum(dim=3)",
    "t.ones(2, 2).gather(1, t.tensor([[0, 5]]))",
    "t.ones(3)[5]",
    "t.ones(3)[1.5]",
    "t.ones(3)[0, 0]",
    "t.ones(3).__setitem__(slice(0, 2), t.ones(3))",
    "t.ones(3).__setitem__(t.tensor([0, 1]), t.ones(3))",
    "t.ones(3).item()",
    "bool(t.ones(3) > 0)",
    "float(t.ones(3))",
    "t.ones(2) + 'a'",
    "t.tensor([[1, 2], [3]])",
    "t.tensor(['a'])",
    "t.tensor(None)",
    "t.tensor([1, 2]).mean()",
    "t.tensor([1, 2]).div_(2)",
    "t.tensor([1, 2], requires_grad=True)",
    "t.ones(3, requires_grad=True).add_(1)",
    "t.ones(3, requires_grad=True).numpy()",
    "(t.ones(3, requires_grad=True) * 2).backward()",
    "t.ones(2).sum().backward()",
    "t.autograd.grad(t.ones(2, requires_grad=True).sum(), t.ones(2, requires_grad=True))",
    "t.device('gpu')",
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_common_mistake_is_answered_with_pytorchs_sentence(mistake: str) -> None:
    def make(library: Any) -> Any:
        names = {"t": library, "nn": library.nn, "F": library.nn.functional}
        return eval(mistake, names)

    agree(make)
