"""gradcheck and gradgradcheck: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd.backward import grad
from ferro.autograd.directions import _random
from ferro.autograd.finite_differences import GradcheckError, _Check, _differentiable, _strided
from ferro.core.base import TensorBase
from ferro.core.history import history
from ferro.core.layout import strided

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the derivatives of `func(*inputs)` by the inputs that require grad with central differences.

    - `func` (function of tensors): what is checked
    - `inputs` (Tensor or tuple): best in float64
    - `eps` (float, default 1e-6): the step of the differences
    - `atol`, `rtol` (float, default 1e-5 and 1e-3): how much they may differ, absolutely and relatively
    - `raise_exception` (bool, default True): False returns False instead of raising GradcheckError
    - `nondet_tol` (float, default 0.0): how much two backward runs may differ
    - `check_undefined_grad` (bool, default True): absent cotangents of some outputs must act like zeros
    - `check_grad_dtypes` (bool, default False): gradients must have the dtypes of the inputs
    - `check_batched_grad` (bool, default False): batched cotangents (`is_grads_batched`) must agree with a loop
    - `check_batched_forward_grad` (bool, default False): likewise batched tangents; needs check_forward_ad
    - `check_forward_ad` (bool, default False): forward mode too
    - `check_backward_ad` (bool, default True): reverse mode; AssertionError if neither is checked
    - `fast_mode` (bool, default False): one random projection of the Jacobian instead of all of it
    - `masked` (bool, default None): changes nothing

    Complex inputs and outputs are compared by real and imaginary part, in PyTorch's convention. Returns True, or raises
    GradcheckError that names the input and output.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([0.5, 2.0], dtype=ferro.float64, requires_grad=True)
        >>> ferro.autograd.gradcheck(lambda x: x * x * x, (x,))
        True
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    func, inputs = _of_values(func, inputs)
    if not (check_backward_ad or check_forward_ad):
        raise AssertionError("gradcheck: Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("gradcheck: Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("gradcheck: Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    try:
        _Check(func, inputs, eps, atol, rtol, nondet_tol).run(
            check_backward_ad,
            check_forward_ad,
            check_undefined_grad,
            check_batched_grad,
            check_grad_dtypes,
            fast_mode,
            check_batched_forward_grad,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compares the second derivatives of a function with central differences of the first ones.

    - `func` (function of tensors): what is checked
    - `inputs` (Tensor or tuple): best in float64
    - `grad_outputs` (Tensor or tuple, default None): the cotangents, varied too; None draws them
    - `eps` (float, default 1e-6): the step of the differences
    - `atol`, `rtol` (float, default 1e-5 and 1e-3): how much they may differ, absolutely and relatively
    - `gen_non_contig_grad_outputs` (bool, default False): draws cotangents that are not contiguous
    - `raise_exception` (bool, default True): False returns False instead of raising GradcheckError
    - `nondet_tol` (float, default 0.0): how much two backward runs may differ
    - `check_undefined_grad`, `check_rev_over_rev` (bool, default True): as in gradcheck; reverse over reverse
    - `check_grad_dtypes`, `check_batched_grad` (bool, default False): as in gradcheck
    - `check_fwd_over_rev` (bool, default False): forward over reverse too
    - `fast_mode` (bool, default False): as in gradcheck
    - `masked` (bool, default False): changes nothing

    Returns True, or raises GradcheckError that names the input and output.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([0.5, 2.0], dtype=ferro.float64, requires_grad=True)
        >>> ferro.autograd.gradgradcheck(lambda x: x * x * x, (x,))
        True
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    func, inputs = _of_values(func, inputs)
    outputs = _differentiable(func(*inputs))
    rng = np.random.default_rng(0)
    if grad_outputs is None:
        cotangents = tuple([_random(o, rng).requires_grad_() for o in outputs])
        if gen_non_contig_grad_outputs:
            cotangents = tuple([_strided(c) for c in cotangents])
    else:
        cotangents = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, TensorBase) and history(x) is not None]

    def first_order(*args: Any) -> tuple:
        given = [
            a.requires_grad_() if k in wanted and history(a) is None else a for k, a in enumerate(args[: len(inputs)])
        ]
        roots = _differentiable(func(*given))
        targets = [given[i] for i in wanted]
        found = grad(roots, targets, args[len(inputs) :], create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        first_order,
        (*inputs, *cotangents),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _of_values(func: Callable, inputs: tuple) -> tuple[Callable, tuple]:
    """A function of sparse tensors as one of their kept values, which alone are varied; of sparse outputs, the dense tensors."""

    def is_sparse(x: Any) -> bool:
        return isinstance(x, TensorBase) and x.layout is not strided  # type: ignore[attr-defined]

    def dense(outputs: Any) -> Any:
        if isinstance(outputs, (tuple, list)):
            return type(outputs)([dense(o) for o in outputs])
        return outputs.to_dense() if is_sparse(outputs) else outputs

    def of_values(*values: Any) -> Any:
        return dense(func(*[x.with_values(v) if is_sparse(x) else v for x, v in zip(inputs, values, strict=True)]))

    return of_values, tuple([x.detach().kept.requires_grad_(x.requires_grad) if is_sparse(x) else x for x in inputs])
