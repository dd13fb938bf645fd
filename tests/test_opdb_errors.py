"""What PyTorch's database of operations says must be refused: every such call on ferro, with the same type and words.

The database gives each call with the type of its exception and a pattern of its text, which ferro's text must match.
"""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from tests.helpers import lookup
from tests.torch_databases import Unfit, as_ferro, database, disagreement

# Operations of which the database knows errors and which ferro lacks.
ABSENT = {
    "_chunk_cat": "private",
    "jiterator_binary": "compiles for GPUs",
    "jiterator_binary_return_by_ref": "compiles for GPUs",
}
# (operation, number of the error input) -> why ferro does otherwise; docs/differences.md has the same list.
OTHERWISE = {
    **{
        (name, 0): "a number on the left of a reflected operator is taken as one"
        for name in ("__radd__", "__rmul__", "__rdiv__", "__rand__", "__ror__", "__rxor__")
    },
    **{(name, 0): "out of date: PyTorch computes it, too" for name in ("clamp_max", "clamp_min")},
    **{(name, 1): "two numbers are added, as by PyTorch's add()" for name in ("__radd__", "__rmul__")},
    ("narrow_copy", 1): "IndexError, as of narrow; PyTorch reports an inner condition of its own",
    ("narrow_copy", 6): "it says that the length is negative, as narrow does, not that it goes beyond the end",
    ("gather", 7): "the result is computed before out= is resized into the memory of the index",
}


def function_of(op: Any) -> Any:
    """ferro's function for an entry of the database: input, then the other arguments."""
    if op.name == "where":
        return lambda input, condition, other: ferro.where(condition, input, other)
    inplace = op.variant_test_name == "in_place"
    for path in (op.name, f"Tensor.{op.name}", f"Tensor.{op.name}_")[2 if inplace else 0 :]:
        try:
            return lookup(ferro, path)
        except AttributeError:
            continue
    raise AssertionError(f"ferro has no {op.name}, which ABSENT does not list")


@pytest.mark.filterwarnings("ignore")
def test_operations_refuse_what_pytorch_refuses() -> None:
    wrong, tried = {}, 0
    for op in database("common_methods_invocations").op_db:
        if op.error_inputs_func is None or op.name in ABSENT:
            continue
        function = function_of(op)
        for i, case in enumerate(op.error_inputs("cpu")):
            sample, storages = case.sample_input, {}
            try:
                input, args, kwargs = (as_ferro(v, storages) for v in (sample.input, sample.args, sample.kwargs))
            except Unfit:
                continue
            tried += 1
            said = disagreement(case, lambda f=function, x=input, a=args, k=kwargs: f(x, *a, **k))
            if said:
                wrong[op.name, i] = said
    assert tried > 600, "the database said too little to mean anything"
    assert {k: v for k, v in wrong.items() if k not in OTHERWISE} == {}
    assert set(OTHERWISE) <= set(wrong), "these do as PyTorch, and need no entry in OTHERWISE"


def test_operations_said_to_be_absent_are() -> None:
    for name in ABSENT:
        with pytest.raises(AttributeError):
            lookup(ferro, name)
