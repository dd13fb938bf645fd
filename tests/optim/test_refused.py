"""What PyTorch's database of optimisers says must be refused: every such use on ferro, with the same type and words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ferro
from tests.torch_databases import as_ferro, database, disagreement, torch


@pytest.mark.filterwarnings("ignore")
def test_optimisers_refuse_what_pytorch_refuses() -> None:
    optimisers, wrong, tried = database("common_optimizers"), {}, set()
    for info in optimisers.optim_db:
        name = info.optim_cls.__name__
        make = getattr(ferro.optim, name)
        for case in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
            given = case.optimizer_error_input
            params, kwargs = as_parameters(given.params), as_ferro(given.kwargs, {})

            def use(make: Any = make, params: Any = params, kwargs: dict = kwargs, case: Any = case) -> None:
                with warnings.catch_warnings():
                    warnings.simplefilter("error" if issubclass(case.error_type, Warning) else "ignore")
                    made = make(params, **kwargs)
                if case.error_on is optimisers.OptimizerErrorEnum.STEP_ERROR:
                    made.step()

            tried.add(name)
            if said := disagreement(case, use):
                wrong[name, given.desc] = said
    assert len(tried) > 12, "the database said too little to mean anything"
    assert wrong == {}


def as_parameters(given: Any) -> Any:
    """Parameters as ferro's: each tensor becomes one, with its gradient."""
    made: dict[int, Any] = {}

    def convert(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if id(x) not in made:
                own = as_ferro(x.to_dense().detach() if x.layout is not torch.strided else x.detach(), {})
                made[id(x)] = ferro.nn.Parameter(own) if x.requires_grad else own
                if x.layout is not torch.strided:
                    made[id(x)] = own.to_sparse()
                if x.grad is not None:
                    made[id(x)].grad = as_ferro(x.grad, {})
            return made[id(x)]
        if isinstance(x, dict):
            return {k: convert(v) for k, v in x.items()}
        if isinstance(x, (tuple, list)):
            return type(x)(convert(v) for v in x)
        return convert(list(x)) if hasattr(x, "__next__") else x

    return convert(given)
