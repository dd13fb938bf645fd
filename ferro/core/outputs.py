"""Which dtypes `out=` may have: what the result can be cast to, and for the functions listed here the result's own alone."""

from __future__ import annotations

from typing import Any

from ferro.core.dtypes import FROM_NUMPY, META_NAMES, can_cast, dtype, type_name, uint8

_FOUND = "Found dtype {Found} but expected {Wanted}"
_EXPECTED = "Expected out tensor to have dtype {wanted}, but got {found} instead"
_NORM = "{name} expected out tensor dtype {Wanted} but got: {Found}"
_ORDER = "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True"
_BOOLS = "{name} does not support non-boolean outputs."
_PARAMETER = "dtype {Wanted} does not match dtype of out parameter ({Found})"
_PRODUCT = "result dtype {Found} does not match input dtype {Wanted}"
_CONTRACTION = (
    "tensordot: Expected the output tensor to have dtype {Wanted}, but got an output tensor with dtype {Found}"
)
_CHAIN = "multi_dot(): expected out tensor to have dtype {wanted} but got {found}"
_EXTREMUM = (
    "Expected the dtype for input and out to match, but got {Wanted} for input's dtype and {Found} for out's dtype."
)

# The functions whose `out` has the dtype of the result, with PyTorch's sentence.
EXACT: dict[str, str] = {
    **dict.fromkeys(
        (
            "abs",
            "bitwise_not",
            "ceil",
            "clamp",
            "clamp_max",
            "clamp_min",
            "conj_physical",
            "floor",
            "frac",
            "hardshrink",
            "ldexp",
            "lerp",
            "neg",
            "round",
            "sgn",
            "sign",
            "softplus",
            "softshrink",
            "trunc",
        ),
        _FOUND,
    ),
    **dict.fromkeys(
        (
            "addbmm",
            "addmm",
            "addmv",
            "argmax",
            "argmin",
            "baddbmm",
            "bmm",
            "cross",
            "diag",
            "index_add",
            "index_copy",
            "index_reduce",
            "isin",
            "linalg.cholesky",
            "linalg.cross",
            "linalg.det",
            "linalg.eigvalsh",
            "linalg.inv",
            "linalg.lu_solve",
            "linalg.solve",
            "linalg.solve_triangular",
            "linalg.svdvals",
            "linalg.vector_norm",
            "log_softmax",
            "lu_solve",
            "matmul",
            "mm",
            "msort",
            "mv",
            "ormqr",
            "renorm",
            "scatter",
            "scatter_add",
            "scatter_reduce",
            "softmax",
            "tril",
            "triu",
            "where",
        ),
        _EXPECTED,
    ),
    **dict.fromkeys(("isneginf", "isposinf", "signbit"), _BOOLS),
    **dict.fromkeys(("linalg.norm", "linalg.matrix_norm", "linalg.vecdot"), _NORM),
    **dict.fromkeys(("searchsorted", "bucketize"), _ORDER),
    **dict.fromkeys(("fftfreq", "rfftfreq"), _PARAMETER),
    **dict.fromkeys(("dot", "vdot"), _PRODUCT),
    **dict.fromkeys(("tensordot", "inner"), _CONTRACTION),
    **dict.fromkeys(("multi_dot", "chain_matmul"), _CHAIN),
    **dict.fromkeys(("amax", "amin"), _EXTREMUM),
    **dict.fromkeys(("all", "any"), "{name} only supports bool tensor for result, got: {Found}"),
    **dict.fromkeys(("quantile", "nanquantile"), "quantile() out tensor must be same dtype as the input tensor"),
    "float_power": "the output given to float_power has dtype {Found} but the operation's result requires dtype {Wanted}",
    "histc": "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {wanted} and hist {found}",
    "nan_to_num": "nan_to_num: dtype of out: {Found} should be same as input: {Wanted}",
    "nonzero": "nonzero: Expected out tensor to have scalar type {Wanted} but got scalar type{Found}",
}


def refuse_dtype(name: str, result: Any, out: Any, inputs: tuple) -> None:
    """RuntimeError where a result may not be written into `out` because of its dtype. Arrays; `inputs` are tensors."""
    if result.dtype is out.dtype:
        return
    wanted, found = FROM_NUMPY[result.dtype], FROM_NUMPY[out.dtype]
    sentence = EXACT.get(name)
    if name == "abs" and inputs and inputs[0]._data.dtype.kind == "c":
        sentence = None  # the modulus may go where the number itself would
    if name in ("all", "any") and found is uint8:
        sentence = None
    if sentence is not None:
        said = sentence.format(
            name=name,
            Wanted=type_name(wanted),
            Found=type_name(found),
            wanted=META_NAMES[wanted],
            found=META_NAMES[found],
        )
        raise RuntimeError(f"{said} ({name}(out=): the result is {wanted}, out is {found})")
    if not can_cast(wanted, found):
        raise cannot_cast(name, wanted, found)


def cannot_cast(name: str, result: dtype, out: dtype) -> RuntimeError:
    """The error for a result that the dtype of the tensor it belongs into cannot hold."""
    return RuntimeError(
        f"{name}: result type {type_name(result)} can't be cast to the desired output type {type_name(out)} "
        f"({result} to {out})"
    )
