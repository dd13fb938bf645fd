"""backward() and grad(): arguments checked, then handed to the engine."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.autograd.grad_arguments import _inputs, _listed, _seeds, _sequence, _Stand, _unused
from ferro.autograd.graph import GradientEdge
from ferro.core import accumulate, backend, engine
from ferro.core.base import LEAF, DetachedMark, TensorBase, wrap
from ferro.core.graph_task import key_of
from ferro.core.history import history, position
from ferro.core.node import Node, OutputRef, moves_before
from ferro.core.notices import warn_once
from ferro.core.provenance import caller
from ferro.cpu.sparse_rows import Rows

if TYPE_CHECKING:
    from ferro.tensor import Tensor


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause "
    "a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make "
    "sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
    *,
    num_threads: int | None = None,
) -> None:
    """Adds to the `.grad` of every leaf the gradient of the weighted sum of tensors.

    - `tensors` (Tensor, gradient edge or several): the roots
    - `grad_tensors` (Tensor or several, default None): their weights, in their shapes; None is 1, for roots with one
      element
    - `retain_graph` (bool, default None): True keeps what backward needs, for another one; None is create_graph
    - `create_graph` (bool, default False): True records backward itself, for higher derivatives
    - `grad_variables` (default None): the old name of grad_tensors
    - `inputs` (Tensor, gradient edge or several, default None): adds to the `.grad` of these alone, leaves or not; an
      edge that is not of a leaf ends the way back and takes nothing
    - `num_threads` (int, default None): 1 forces the serial executor, more allow so many threads for independent
      branches, None leaves it to `ferro.set_num_threads`; the gradients are bit for bit the same

    RuntimeError for a root with several elements and no weight, one that does not require grad, a graph that was freed,
    or a weight of the wrong shape.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0], requires_grad=True)
        >>> ferro.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    roots = _sequence(tensors)
    seeds = _sequence(grad_tensors) if grad_tensors is not None else [None] * len(roots)
    if inputs is not None:
        inputs = _listed(inputs)
        asked = _inputs(inputs, "backward")
        left = _left_behind(roots, inputs, asked)
        wanted = _parts([t for i, t in enumerate(asked) if i not in left])
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, seeds, create_graph, "backward")
    if create_graph:
        warn_once(_CYCLE, stacklevel=3)
    if inputs is None:
        engine.backward(roots, seeds, keep=keep, record=create_graph, threads=num_threads)
        return
    _need_histories("backward", wanted)
    keys = [key_of(position(t)) for t in wanted]
    found = engine.backward(
        roots, seeds, keep=keep, record=create_graph, capture=dict.fromkeys(keys), threads=num_threads, into_grad=True
    )
    _add_to_grad(wanted, keys, found)


def _add_to_grad(wanted: list, keys: list, found: dict) -> None:
    """Adds to ``.grad`` what backward has found for tensors that are no leaves."""
    for t, key in dict(zip(wanted, keys, strict=True)).items():
        if key is t or type(t) is _Stand or (t._meta is not None and t._meta.retains):
            continue  # a leaf, or a tensor that retains its gradient: added on the way; an edge has no .grad
        if found.get(key) is not None:
            accumulate.accumulate(t, found[key], isinstance(found[key], TensorBase), False, caller())


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
    *,
    num_threads: int | None = None,
) -> tuple[Tensor, ...]:
    """The gradients of a weighted sum of tensors by others; no `.grad` is touched.

    - `outputs` (Tensor, gradient edge or several): what is differentiated
    - `inputs` (Tensor, gradient edge or several): by what
    - `grad_outputs` (Tensor or several, default None): the weights of the outputs; None is 1, for outputs with one
      element
    - `retain_graph` (bool, default None): True keeps what backward needs, for another one; None is create_graph
    - `create_graph` (bool, default False): True records backward itself, for higher derivatives
    - `only_inputs` (bool, default True): changes nothing; False warns
    - `allow_unused` (bool, default None): True gives None for an input that the outputs do not depend on; otherwise it
      is a RuntimeError
    - `is_grads_batched` (bool, default False): the first dimension of every weight counts independent gradients
    - `materialize_grads` (bool, default False): zeros instead of None
    - `num_threads` (int, default None): as in `backward`

    The result is a tuple, with the shapes of the inputs.

    Example::

        >>> import ferro
        >>> x = ferro.tensor(3.0, requires_grad=True)
        >>> (g,) = ferro.autograd.grad(x**3, x, create_graph=True)
        >>> ferro.autograd.grad(g, x)
        (tensor(18.),)
    """
    inputs = _listed(inputs)
    roots, wanted = _sequence(outputs), _inputs(inputs, "grad")
    if any(len(t._recording()) > 1 for t in wanted):
        return _by_sparse(
            roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched, materialize_grads
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the "
            "graph, please use ferro.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    seeds = _sequence(grad_outputs) if grad_outputs is not None else [None] * len(roots)
    if is_grads_batched:
        return _batched(roots, wanted, seeds, retain_graph, create_graph, allow_unused, materialize_grads)
    keep = create_graph if retain_graph is None else retain_graph
    seeds = _seeds(roots, seeds, create_graph, "grad")
    _need_histories("grad", wanted)
    left = _left_behind(roots, inputs, wanted)
    keys = [_left_key if i in left else key_of(position(t)) for i, t in enumerate(wanted)]
    found = engine.backward(
        roots, seeds, keep=keep, record=create_graph, capture=dict.fromkeys(keys), threads=num_threads
    )
    return _found_for(roots, wanted, keys, found, create_graph, allow_unused, materialize_grads)


def _need_histories(name: str, wanted: list) -> None:
    """Refuses inputs without history."""
    for i, t in enumerate(wanted):
        if history(t) is None:
            raise RuntimeError(
                f"{name}: One of the differentiated Tensors does not require grad (inputs[{i}], shape {list(t._data.shape)})"
            )


def _found_for(
    roots: list,
    wanted: list,
    keys: list,
    found: dict,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple:
    """The gradients in the order of the inputs: for one that nothing leads to zeros, None or an error."""
    result: list = []
    mark = None if create_graph else DetachedMark("grad() without create_graph=True", caller())
    repeated = len(set(keys)) < len(keys)
    for i, (t, key) in enumerate(zip(wanted, keys, strict=True)):
        g = found.get(key) if repeated else found.pop(key, None)
        if g is None:
            if materialize_grads:
                if type(t) is _Stand:
                    raise RuntimeError(
                        f"grad: materialize_grads cannot be used when the given input is a GradientEdge (inputs[{i}]) that "
                        "the outputs do not depend on: nobody knows the shape of its tensor"
                    )
                result.append(
                    wrap(
                        backend.beside(t._data, np.zeros(t._data.shape, t._data.dtype)), LEAF if create_graph else None
                    )
                )
                continue
            if not allow_unused:
                raise _unused(i, t._data.shape, roots)
            result.append(None)
        elif isinstance(g, TensorBase):
            result.append(g)
        else:
            g = backend.tensor_class._of_rows(g) if type(g) is Rows else wrap(accumulate.own(g))
            g._meta = mark
            result.append(g)
    return tuple(result)


def _parts(wanted: list) -> list:
    """The tensors, in place of each sparse one the two that gradients are recorded for."""
    return [p for t in wanted for p in t._recording()]


def _by_sparse(
    roots: list,
    wanted: list,
    seeds: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    is_grads_batched: bool,
    materialize: bool,
) -> tuple:
    """grad by sparse tensors: by their kept values, and by what a sum adds to the gradient of all elements."""
    if is_grads_batched:
        raise NotImplementedError(
            "grad: is_grads_batched is not supported for sparse inputs; differentiate by their values"
        )
    sparse = [len(t._recording()) > 1 for t in wanted]
    for i, t in enumerate(wanted):
        if not t.requires_grad:
            raise RuntimeError(f"grad: One of the differentiated Tensors does not require grad (inputs[{i}])")
    found = iter(grad(roots, _parts(wanted), seeds, retain_graph, create_graph, allow_unused=True))
    result = []
    for i, (t, s) in enumerate(zip(wanted, sparse, strict=True)):
        g = next(found)
        constant = next(found) if s else None
        if g is None and not (materialize or allow_unused):
            raise _unused(i, t.shape, roots)
        if g is None and materialize:
            g = backend.functional.zeros_like(t.kept if s else t).detach()
        result.append(g if g is None or not s else t.gradient(g, constant))
    return tuple(result)


def _batched(
    roots: list,
    wanted: list,
    seeds: list,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize: bool,
) -> tuple:
    """One backward per element of the first dimension of the seeds, results stacked."""
    from ferro.core.batching import over_rows

    for i, (root, seed) in enumerate(zip(roots, seeds, strict=False)):
        shape = root._data.shape
        if seed is not None and (not seed._data.ndim or seed._data.shape[1:] != shape):
            raise RuntimeError(
                f"grad: If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                f"The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a mismatch "
                f"was detected: grad_output[{i}] has a shape of {list(seed._data.shape)} and output[{i}] has a shape of "
                f"{list(shape)}."
            )
    sizes = {s._data.shape[0] for s in seeds if s is not None}
    if len(sizes) != 1:
        raise RuntimeError(
            f"grad: is_grads_batched=True needs grad_outputs with one batch size, got {sorted(sizes) or 'no grad_outputs'}"
        )
    (count,) = sizes
    if not count:
        raise RuntimeError("grad: is_grads_batched=True needs at least one row of grad_outputs")
    return tuple(
        over_rows(
            lambda row: list(
                grad(roots, wanted, row, retain_graph, create_graph, True, allow_unused, False, materialize)
            ),
            seeds,
            count,
            transform=False,
        )
    )


_left_key = object()  # in the place of a position that nothing leads to


def _left_behind(roots: list, given: list, wanted: list) -> set:
    """Which of the wanted are leaves that were given other memory by set_() after all the nodes that lead to them were made.

    (Or, the other way round, edges that were taken before it, to which only younger nodes lead.)
    """
    found: set = set()
    for i, (t, asked) in enumerate(zip(wanted, given, strict=True)):
        if t._meta is None or not t._meta.moves:
            continue
        age = asked.node.age if isinstance(asked, GradientEdge) else len(t._meta.moves)
        ages = {moves_before(t, node.seq) for node in _nodes(roots) if any(edge is t for edge in node.edges)}
        if ages and age not in ages:
            found.add(i)
        elif len(ages) > 1:
            raise RuntimeError(
                f"inputs[{i}] is a leaf that was given other memory by set_() while the graph was recorded: of what it was "
                "before and what it was since there is one gradient. Take a new tensor instead of set_()."
            )
    return found


def _nodes(roots: list) -> list:
    """All nodes that the roots lead to."""
    starts = [position(r) for r in roots]
    found = {n: None for n in [s.node if type(s) is OutputRef else s for s in starts] if isinstance(n, Node)}
    todo = list(found)
    while todo:
        for edge in todo.pop().edges:
            node = edge.node if type(edge) is OutputRef else edge
            if isinstance(node, Node) and node not in found:
                found[node] = None
                todo.append(node)
    return list(found)


backend.backward = backward
