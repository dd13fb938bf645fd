"""assert_close: tensors, numbers and containers of them are compared up to rounding; a failure says where and by how much."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ferro import functional as F
from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.core.layout import sparse_coo, strided, title
from ferro.tensor import Tensor

# The relative and the absolute tolerance by dtype; what is not here is compared exactly.
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES = {dtypes.float16: (1e-3, 1e-3), dtypes.float32: (1e-4, 1e-5), dtypes.float64: (1e-5, 1e-8)}
_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
_BOOLS = (bool, np.bool_)
_WIDE = (dtypes.uint16, dtypes.uint32, dtypes.uint64)  # (promoted with nothing; small numbers fit into int64)


class Options(NamedTuple):
    """The options of assert_close; None for a tolerance: that of the dtype."""

    allow_subclasses: bool = True
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    check_device: bool = True
    check_dtype: bool = True
    check_layout: bool = True
    check_stride: bool = False


class Mismatch(Exception):
    """A comparison fails: the type of the exception that the user gets, and its text."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text
        self.path: tuple = ()  # of indices and keys, where the comparison is one of several


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Asserts that two tensors (arrays, numbers, bools, None, or sequences and mappings of these) are close.

    Finite numbers are close if ``abs(actual - expected) <= atol + rtol * abs(expected)``, others if they are equal, with
    equal_nan also nan and nan.  Shapes must be the same, and dtypes, devices and layouts, and with check_stride strides,
    unless their check is switched off; then both are brought to a common one.  Without tolerances those of the dtype
    hold (the larger ones of two): float64 1e-7 and 1e-7, float32 1.3e-6 and 1e-5, float16 1e-3 and 1e-5, bfloat16
    1.6e-2 and 1e-5, the parts of complex numbers likewise; integers and bools must be equal.

    Raises AssertionError for what is not close (with `msg` as its text, or ``msg(text)``), TypeError for what cannot be
    compared, ValueError if only one of rtol and atol is given.

    Example::

        >>> import ferro
        >>> ferro.testing.assert_close(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 2.0 + 1e-6]))
        >>> ferro.testing.assert_close({"a": [1.0]}, {"a": [1.5]})
        Traceback (most recent call last):
        AssertionError: Scalars are not close!
        <BLANKLINE>
        Expected 1.5 but got 1.0.
        Absolute difference: 0.5 (up to 1e-07 allowed)
        Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
        <BLANKLINE>
        The failure occurred for item ['a'][0]
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    options = Options(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    try:
        for path, compare, a, b in _comparisons(actual, expected, (), options):
            with _at(path):
                compare(a, b, options)
        return
    except Mismatch as mismatch:
        kind, text = mismatch.kind, mismatch.text
        if mismatch.path:
            text += f"\n\nThe failure occurred for item {''.join([str([key]) for key in mismatch.path])}"
    raise kind(msg if isinstance(msg, str) else text if msg is None else msg(text))


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of `assert_close`: of tensors or what can be made into them, whatever their dtypes. Deprecated."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = F.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = F.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _loosest((actual.dtype, expected.dtype), _OLD_TOLERANCES)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


# -- what is compared with what ----------------------------------------------------------------------------------------


@contextmanager
def _at(path: tuple) -> Iterator[None]:
    """Tells a mismatch inside where in the containers it is."""
    try:
        yield
    except Mismatch as mismatch:
        mismatch.path = path
        raise


def _comparisons(actual: Any, expected: Any, path: tuple, options: Options) -> list:
    """The comparisons of leaves, all listed before any is made: (place, function, actual, expected)."""
    with _at(path):
        if _are(Sequence, actual, expected) and not _are(str, actual) and not _are(str, expected):
            if len(actual) != len(expected):
                raise Mismatch(
                    AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
                )
            keys: Any = range(len(actual))
        elif _are(Mapping, actual, expected):
            have, want = set(actual), set(expected)
            if have != want:
                raise Mismatch(
                    AssertionError,
                    "The keys of the mappings do not match:\n"
                    f"Missing keys in the actual mapping: {_listed(want - have)}\n"
                    f"Additional keys in the actual mapping: {_listed(have - want)}",
                )
            keys = _listed(have)
        else:
            return [(path, *_comparison(actual, expected, options))]
    return [found for key in keys for found in _comparisons(actual[key], expected[key], (*path, key), options)]


def _are(kind: Any, *values: Any) -> bool:
    return all(isinstance(v, kind) for v in values)


def _listed(keys: set) -> list:
    """In order, if they have one."""
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def _comparison(actual: Any, expected: Any, options: Options) -> tuple:
    """How two leaves are compared, and the leaves as that takes them."""
    if actual is None or expected is None:
        return _compare_nothing, actual, expected
    if _are(_BOOLS, actual, expected):
        return _compare_bools, bool(actual), bool(expected)
    if _are((*_NUMBERS, np.number), actual, expected):
        numbers = [v.item() if isinstance(v, np.number) else v for v in (actual, expected)]
        tolerances(options, *numbers)  # one alone is refused before anything is compared
        return _compare_numbers, *numbers
    if type(actual) is type(expected) or (
        options.allow_subclasses and (isinstance(actual, type(expected)) or isinstance(expected, type(actual)))
    ):
        tensors = [_as_tensor(v) for v in (actual, expected)]
        if _are(Tensor, *tensors):
            tolerances(options, *tensors)
            return _compare_tensors, *tensors
    raise Mismatch(
        TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    )


def _as_tensor(value: Any) -> Tensor | None:
    """None for what cannot be made into one."""
    try:
        return value if isinstance(value, Tensor) else F.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def tolerances(options: Options, *values: Any) -> tuple[float, float]:
    """The relative and absolute tolerance for some tensors or numbers: the larger ones of those of their dtypes."""
    if (options.rtol is None) != (options.atol is None):
        missing = "rtol" if options.rtol is None else "atol"
        raise Mismatch(ValueError, f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    if options.rtol is not None and options.atol is not None:
        return options.rtol, options.atol
    return _loosest([v.dtype if isinstance(v, Tensor) else _number_dtype(v) for v in values], TOLERANCES)


def _number_dtype(number: Any) -> Any:
    return next(dtype for kind, dtype in _NUMBERS.items() if isinstance(number, kind))


def _loosest(kinds: Any, table: dict) -> tuple[float, float]:
    pairs = [table.get(dtype, (0.0, 0.0)) for dtype in kinds]
    return max(r for r, _ in pairs), max(a for _, a in pairs)


# -- leaves ------------------------------------------------------------------------------------------------------------


def _compare_nothing(actual: Any, expected: Any, options: Options) -> None:
    if actual is not expected:
        raise Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}")


def _compare_bools(actual: bool, expected: bool, options: Options) -> None:
    if actual is not expected:
        raise Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}")


def _compare_numbers(actual: Any, expected: Any, options: Options) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    if actual == expected or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    rtol, atol = tolerances(options, actual, expected)
    difference = abs(actual - expected)
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
        raise Mismatch(AssertionError, _of_numbers("Scalars", actual, expected, rtol, atol))


def _compare_tensors(actual: Tensor, expected: Tensor, options: Options) -> None:
    for name, checked in (
        ("shape", True),
        ("layout", options.check_layout),
        ("stride()", options.check_stride),
        ("device", options.check_device),
        ("dtype", options.check_dtype),
    ):
        if name == "stride()" and not (actual.layout == expected.layout == strided):
            continue
        have, want = [t.stride() if name == "stride()" else getattr(t, name) for t in (actual, expected)]
        if checked and have != want:
            raise Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {have} != {want}.")
    rtol, atol = tolerances(options, actual, expected)
    if actual.dtype != expected.dtype:
        wide = [dtypes.int64 if t.dtype in _WIDE else t.dtype for t in (actual, expected)]
        common = dtypes.promote_types(*wide)
        actual, expected = actual.to(common), expected.to(common)
    if actual.layout != expected.layout:
        actual, expected = [t if t.layout is strided else t.to_dense() for t in (actual, expected)]
    for name, a, b, exact in _parts(actual, expected):
        _compare_values(name, a, b, *((0.0, 0.0) if exact else (rtol, atol)), options.equal_nan)


def _parts(actual: Tensor, expected: Tensor) -> list:
    """The dense tensors that a pair of tensors consists of: (name, actual, expected, whether they must be equal)."""
    if actual.layout is strided:
        return [("", actual, expected, False)]
    a, b, kind = actual, expected, title(actual.layout)
    if actual.layout is sparse_coo:
        kind = "COO"
        if a.sparse_dim() != b.sparse_dim():
            raise Mismatch(
                AssertionError,
                "The number of sparse dimensions in sparse COO tensors does not match: "
                f"{a.sparse_dim()} != {b.sparse_dim()}",
            )
        names: tuple = ("_indices",)
    else:
        kind = kind.removeprefix("Sparse").upper()
        names = ("crow_indices", "col_indices") if kind == "CSR" else ("ccol_indices", "row_indices")
    if a._nnz() != b._nnz():
        raise Mismatch(
            AssertionError,
            f"The number of specified values in sparse {kind} tensors does not match: {a._nnz()} != {b._nnz()}",
        )
    values = "_values" if kind == "COO" else "values"
    parts = [(*[getattr(t, name)().long() for t in (a, b)], True, name) for name in names]
    parts.append((*[getattr(t, values)() for t in (a, b)], False, values))
    return [(f"Sparse {kind} {name.lstrip('_')}", x, y, exact) for x, y, exact, name in parts]


def _compare_values(name: str, actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool) -> None:
    with no_grad():
        matches = F.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if bool(matches.all()):
            return
        if actual.ndim == 0:
            raise Mismatch(AssertionError, _of_numbers(name or "Scalars", actual.item(), expected.item(), rtol, atol))
        raise Mismatch(AssertionError, _of_tensors(name or "Tensor-likes", actual, expected, matches, rtol, atol))


# -- what is said ------------------------------------------------------------------------------------------------------


def _of_numbers(name: str, actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = float("inf") if expected == 0 else difference / abs(expected)
    return "\n".join(
        (
            *_head(name, rtol, atol),
            f"Expected {expected} but got {actual}.",
            f"Absolute difference: {difference}{_allowed(rtol, atol, atol)}",
            f"Relative difference: {relative}{_allowed(rtol, atol, rtol)}",
        )
    )


def _of_tensors(name: str, actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    count, wrong = matches.numel(), int((~matches).sum())
    if not (actual.is_floating_point() or actual.is_complex()):
        actual, expected = actual.long(), expected.long()
    difference = F.where(matches, 0, (actual - expected).abs())
    relative = F.where(matches, 0, difference / expected.abs())
    lines = [f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})"]
    for kind, of, tolerance in (("absolute", difference, atol), ("relative", relative, rtol)):
        place = tuple([int(i) for i in np.unravel_index(int(of.argmax()), tuple(of.shape))])
        lines.append(
            f"Greatest {kind} difference: {of[place].item()} at index {place}{_allowed(rtol, atol, tolerance)}"
        )
    return "\n".join((*_head(name, rtol, atol), *lines))


def _head(name: str, rtol: float, atol: float) -> tuple[str, str]:
    return f"{name} are not {'equal' if rtol == atol == 0 else 'close'}!", ""


def _allowed(rtol: float, atol: float, tolerance: float) -> str:
    return "" if rtol == atol == 0 else f" (up to {tolerance} allowed)"
