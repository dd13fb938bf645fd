"""backward() and grad(): arguments checked, then handed to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import engine, worlds
from ferro.core.base import LEAF, TensorBase, history, position, wrap
from ferro.core.dtypes import COMPLEX
from ferro.core.engine import key_of

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None, inputs: Any = None, *, num_threads: int | None = None) -> None:  # fmt: skip
    """Adds to the ``.grad`` of every leaf the gradient of the sum of ``tensors`` weighted by ``grad_tensors``.

    num_threads: 1 forces the serial executor, n > 1 allows up to n threads for independent branches, None leaves it to
    :func:`ferro.set_num_threads`; the gradients are bit for bit the same.

    Raises RuntimeError for a non-scalar root without a gradient, a root that does not require grad, a graph that was
    freed, or a gradient of the wrong shape.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0], requires_grad=True)
        >>> ferro.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        grad_tensors = grad_variables
    roots = _sequence(tensors)
    seeds = _sequence(grad_tensors) if grad_tensors is not None else [None] * len(roots)
    if inputs is not None:
        wanted = _sequence(inputs)
        if not wanted:
            raise RuntimeError("backward: `inputs` argument to `backward()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, seeds, create_graph, "backward")
    if inputs is None:
        engine.backward(roots, seeds, keep=keep, record=create_graph, threads=num_threads)
        return
    for i, t in enumerate(wanted):
        if history(t) is None:
            raise RuntimeError(f"backward: One of the differentiated Tensors (inputs[{i}]) does not require grad")
    keys = [key_of(position(t)) for t in wanted]
    found = engine.backward(
        roots, seeds, keep=keep, record=create_graph, capture=dict.fromkeys(keys), threads=num_threads
    )
    for t, key in dict(zip(wanted, keys, strict=True)).items():
        if t._meta is not None and t._meta.retains and t._node is not LEAF:
            continue  # its gradient has been added on the way
        if found.get(key) is not None:
            engine.accumulate(t, found[key], create_graph, False)
            meta = t._meta
            if meta is not None and meta.post and t._node is LEAF:
                for hook in tuple(meta.post.values()):
                    hook(t)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False, *, num_threads: int | None = None) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of the sum of ``outputs`` (weighted by ``grad_outputs``) by ``inputs``; no ``.grad`` is touched.

    allow_unused: an input that the outputs do not depend on gives None instead of an error; materialize_grads: zeros
    instead of None; is_grads_batched: the first dimension of every grad_outputs counts independent gradients.

    Example::

        >>> import ferro
        >>> x = ferro.tensor(3.0, requires_grad=True)
        >>> (g,) = ferro.autograd.grad(x**3, x, create_graph=True)
        >>> ferro.autograd.grad(g, x)
        (tensor(18.),)
    """
    roots, wanted = _sequence(outputs), _sequence(inputs)
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use backward() to accumulate into all leaves")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    seeds = _sequence(grad_outputs) if grad_outputs is not None else [None] * len(roots)
    if is_grads_batched:
        return _batched(roots, wanted, seeds, retain_graph, create_graph, allow_unused, materialize_grads)
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, seeds, create_graph, "grad")
    for i, t in enumerate(wanted):
        if history(t) is None:
            raise RuntimeError(
                f"grad: One of the differentiated Tensors does not require grad (inputs[{i}], shape {list(t.shape)})"
            )
    keys = [key_of(position(t)) for t in wanted]
    found = engine.backward(
        roots, seeds, keep=keep, record=create_graph, capture=dict.fromkeys(keys), threads=num_threads
    )
    result: list = []
    repeated = len(set(keys)) < len(keys)
    for i, (t, key) in enumerate(zip(wanted, keys, strict=True)):
        g = found.get(key) if repeated else found.pop(key, None)
        if g is None:
            if materialize_grads:
                result.append(wrap(np.zeros_like(t._data)))
                continue
            if not allow_unused:
                raise RuntimeError(f"grad: One of the differentiated Tensors (inputs[{i}], shape {list(t.shape)}) appears to not have been used "
                                   "in the graph. Set allow_unused=True if this is the desired behavior.")  # fmt: skip
            result.append(None)
        elif create_graph:
            result.append(g)
        else:
            result.append(wrap(engine.own(g)))
    return tuple(result)


def _batched(roots: list, wanted: list, seeds: list, retain_graph: bool | None, create_graph: bool,
             allow_unused: bool | None, materialize: bool) -> tuple:  # fmt: skip
    """One backward per element of the first dimension of the seeds, results stacked."""
    from ferro import functional

    count = next(s for s in seeds if s is not None).shape[0]
    rows = []
    for i in range(count):
        keep = True if i < count - 1 else retain_graph
        row = [None if s is None else s[i] for s in seeds]
        rows.append(grad(roots, wanted, row, keep, create_graph, True, allow_unused, False, materialize))
    return tuple([None if column[0] is None else functional.stack(list(column)) for column in zip(*rows, strict=True)])


def _sequence(given: Any) -> list:
    if isinstance(given, TensorBase):
        return [given]
    return list(given)


def _seeds(roots: list, seeds: list, record: bool, who: str) -> list:
    """A cotangent for every root: checked if given, one for a scalar root otherwise."""
    if len(roots) != len(seeds):
        raise RuntimeError(f"{who}: got {len(roots)} tensors and {len(seeds)} gradients")
    found = []
    for i, (root, seed) in enumerate(zip(roots, seeds, strict=True)):
        if not isinstance(root, TensorBase):
            raise TypeError(f"{who}: expected tensors to differentiate, got {type(root).__name__} at position {i}")
        data: Any = root._data
        if history(root) is None:
            raise RuntimeError(
                f"{who}: element {i} of tensors does not require grad and does not have a grad_fn. {lost(root)}"
            )
        if seed is None:
            if data.size != 1:
                raise RuntimeError(f"{who}: grad can be implicitly created only for scalar outputs, but tensor {i} has shape {list(data.shape)}. "
                                   "Reduce it, for example with .sum(), or pass the gradient explicitly.")  # fmt: skip
            if data.dtype in COMPLEX:
                raise RuntimeError(
                    f"{who}: grad can be implicitly created only for real scalar outputs but got {data.dtype}"
                )
            seed = wrap(np.ones(data.shape, data.dtype))
        elif not isinstance(seed, TensorBase):
            raise TypeError(
                f"{who}: gradients can be either Tensors or None, but got {type(seed).__name__} at position {i}"
            )
        elif seed._data.shape != data.shape:
            raise RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {list(seed._data.shape)} and output[{i}] has a shape of "
                               f"{list(data.shape)}.")  # fmt: skip
        elif (seed._data.dtype.kind == "c") != (data.dtype.kind == "c"):
            raise RuntimeError(f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                               f"grad_output[{i}] has {seed.dtype} and output[{i}] has {root.dtype}.")  # type: ignore[attr-defined]  # fmt: skip
        elif seed._data.dtype is not data.dtype:
            seed = wrap(seed._data.astype(data.dtype)) if not record else seed.to(root.dtype)  # type: ignore[attr-defined]
        found.append(seed)
    return found


def lost(t: Any) -> str:
    """Where the history of a tensor may have been lost."""
    if t._data.dtype.kind in "biu":
        return f"It has dtype {t.dtype}, and only floating-point and complex tensors have gradients."
    return ("It was computed from tensors that do not require grad, or under no_grad(), or was cut off by detach(), .data, "
            ".item() or .numpy().")  # fmt: skip


worlds.backward = backward
