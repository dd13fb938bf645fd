"""Hostile cases: tensors that are only half made, or whose slots, class, history or counter somebody has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

import ferro
from ferro import nn
from ferro.autograd.graph import saved_tensors_hooks
from ferro.core.base import LEAF, DetachedMark, Meta, TensorBase, Version, View
from ferro.core.node import MultiNode, Node, NodeMeta, OutputRef
from tests.hostile.calls import Call, calls, places
from tests.hostile.child import Options, Raised, outcome

SLOTS = ("_data", "_node", "_counter", "_meta")
F = nn.functional
x_of = object.__new__  # what a half-made object is made by


class Sub(ferro.Tensor):
    """A subclass, for ``__class__``."""


class Slim(ferro.Tensor):
    """A subclass of the same layout."""

    __slots__ = ()


class Number(float):
    """A subclass of a number."""


# -- tensors to spoil ---------------------------------------------------------------------------------------------------


def plain() -> Any:
    return ferro.tensor([[0.5, 1.0, 2.0], [1.5, 0.25, 0.75]])


def leaf() -> Any:
    return plain().requires_grad_()


def inner() -> Any:
    return leaf() * 2


def view() -> Any:
    return (leaf() * 2)[0:2]


def base() -> Any:
    x = leaf() * 2
    x[0]
    x.detach()
    return x


def changed() -> Any:
    x = (leaf() * 2)[0:2]
    x.add_(1)
    return x


def picked() -> Any:
    return ferro.stack([leaf(), leaf()]).unbind(0)[0]


def detached() -> Any:
    return (leaf() * 2).detach()


def parameter() -> Any:
    return nn.Parameter(plain())


MAKERS = (plain, leaf, inner, view, base, changed, picked, detached, parameter)


# -- how they are spoilt ------------------------------------------------------------------------------------------------


def wrongs() -> dict[str, Any]:
    """What does not belong into a slot."""
    x = leaf()
    y = x.sin()
    v = Version()
    v.n = 0
    found: dict[str, Any] = {
        "None": None,
        "5": 5,
        "2**70": 2**70,
        "-1": -1,
        "1.5": 1.5,
        "True": True,
        "text": "text",
        "bytes": b"bytes",
        "()": (),
        "[]": [],
        "{}": {},
        "object": object(),
        "type": int,
        "function": len,
        "another tensor": x,
        "a node": y.grad_fn,
        "LEAF": LEAF,
        "dtype": x.dtype,
        "NumPy's dtype": np.dtype("f4"),
        "scalar": np.float32(1),
        "Version": v,
        "half a Version": x_of(Version),
        "half a View": x_of(View),
        "half a DetachedMark": x_of(DetachedMark),
        "half a Meta": x_of(Meta),
        "half a Node": x_of(Node),
        "half a MultiNode": x_of(MultiNode),
        "half a OutputRef": x_of(OutputRef),
        "half a tensor": x_of(ferro.Tensor),
        "array": np.ones(3, "f4"),
        "array of objects": np.array([None, 1, "x"], dtype=object),
        "array of text": np.array(["a", "b"]),
        "array of records": np.zeros(3, dtype=[("a", "f4"), ("b", "i8")]),
        "array of dates": np.array(["2000-01-01"], dtype="M8[D]"),
        "swapped array": np.ones((2, 3), ">f4"),
        "array of halves": np.ones((2, 3), "f2"),
        "long doubles": np.ones((2, 3), "g"),
        "matrix": np.matrix([[1.0, 2.0]]),
        "masked array": np.ma.masked_array([1.0, 2.0], [True, False]),
        "empty array": np.empty((0, 3), "f4"),
        "0-d array": np.array(1.0, "f4"),
        "fixed array": np.broadcast_to(np.float32(1), (2, 3)),
    }
    odd = np.frombuffer(bytearray(25), np.uint8)[1:].view("f4").reshape(2, 3)
    found["misaligned array"] = odd
    for n, value in (("text", "x"), ("2**70", 2**70), ("-1", -1), ("None", None), ("1.5", 1.5), ("a tensor", x)):
        counter = Version()
        counter.n = value
        found[f"Version whose n is {n}"] = counter
    for slot in View.__slots__:
        for what, value in (("None", None), ("5", 5), ("a tensor", x), ("()", ()), ("(5,)", (5,))):
            made = view()._meta
            setattr(made, slot, value)
            found[f"View whose {slot} is {what}"] = made
        made = view()._meta
        delattr(made, slot)
        found[f"View without {slot}"] = made
    for make, kind in ((lambda: y, Node), (picked, MultiNode)):
        for slot in ("code", "dtype", "edges", "meta", "offset", "plan", "saved", "seq", "shape", "outputs"):
            for what, value in (
                ("", NOTHING),
                ("None", None),
                ("5", 5),
                ("()", ()),
                ("(5,)", (5,)),
                ("a tensor", x),
                ("text", "x"),
            ):
                node = make().detach().requires_grad_().sin() if kind is Node else make()
                kept = node._node if kind is Node else node._node.node
                spoil(kept, slot, value)
                if kind is Node:
                    found[f"Node {worded(slot, what)}"] = kept
                else:
                    found[f"OutputRef of a MultiNode {worded(slot, what)}"] = node._node
    for slot in ("dtype", "index", "node", "shape"):
        for what, value in (("", NOTHING), ("None", None), ("5", 5), ("-7", -7), ("()", ()), ("a tensor", x)):
            pick = picked()._node
            spoil(pick, slot, value)
            found[f"OutputRef {worded(slot, what)}"] = pick
    meta = Meta()
    meta.view, meta.grad, meta.hooks, meta.tangents = 5, 5, 5, 5  # type: ignore[assignment]
    found["Meta of wrong things"] = meta
    node = leaf().sin()._node
    node.meta = x_of(NodeMeta)
    found["Node with half a NodeMeta"] = node
    return found


NOTHING = object()


def spoil(thing: Any, slot: str, value: Any) -> None:
    """Put something into a slot, or NOTHING."""
    try:
        if value is NOTHING:
            delattr(thing, slot)
        else:
            setattr(thing, slot, value)
    except (AttributeError, TypeError):
        pass  # it has no such slot, or guards it


def worded(slot: str, what: str) -> str:
    return f"whose {slot} is {what}" if what else f"without {slot}"


def ways() -> Iterator[tuple[str, Callable]]:
    """How to get a spoilt tensor: a name, and a function that makes one."""
    for kind in (ferro.Tensor, nn.Parameter, Sub, Slim, TensorBase):
        yield f"object.__new__({kind.__name__})", lambda kind=kind: x_of(kind)
    for make in MAKERS:
        for slot in SLOTS:
            yield f"{make.__name__}() without {slot}", lambda make=make, slot=slot: _without(make(), slot)
        yield f"{make.__name__}() without any slot", lambda make=make: _without(make(), *SLOTS)
        for kind in (Sub, Slim, nn.Parameter, TensorBase, ferro.Tensor):
            yield f"{make.__name__}() as {kind.__name__}", lambda make=make, kind=kind: _as(make(), kind)
    for wrong, value in wrongs().items():
        for slot in _slots_for(wrong):
            for make in (inner, changed) if slot == "_counter" else (view,) if slot == "_meta" else (inner,):
                yield (
                    f"{make.__name__}() whose {slot} is {wrong}",
                    lambda make=make, slot=slot, value=value: _with(make(), slot, value),
                )
    yield "a tensor that has nothing but an array", lambda: _with(x_of(ferro.Tensor), "_data", np.ones((2, 3), "f4"))


def _slots_for(wrong: str) -> tuple:
    """Where a wrong thing is put: what has the name of a slot's class into that slot, the rest into all."""
    for kind, slot in (
        ("Version", "_counter"),
        ("View", "_meta"),
        ("Node", "_node"),
        ("OutputRef", "_node"),
        ("Meta", "_meta"),
    ):
        if wrong.startswith(f"{kind} "):
            return (slot,)
    return ("_data",) if "array" in wrong else SLOTS


def _without(x: Any, *slots: str) -> Any:
    for slot in slots:
        delattr(x, slot)
    return x


def _with(x: Any, slot: str, value: Any) -> Any:
    spoil(x, slot, value)
    return x


def _as(x: Any, kind: type) -> Any:
    spoil(x, "__class__", kind)
    return x


# -- what is called with them -------------------------------------------------------------------------------------------


def every_recorder() -> dict[str, Callable]:
    """Calls that lead into machine code: by one input, two, numbers, views, parts, sequences, several inputs and outputs."""
    y, w = leaf() * 1, leaf() * 3
    return {
        "ferro.sin(x)": ferro.sin,
        "ferro.relu(x)": ferro.relu,
        "x.exp()": lambda x: x.exp(),
        "-x": lambda x: -x,
        "x + x": lambda x: x + x,
        "x * y": lambda x: x * y,
        "y - x": lambda x: y - x,
        "x * 2.0": lambda x: x * 2.0,
        "2 / x": lambda x: 2 / x,
        "x ** 2": lambda x: x**2,
        "ferro.add(x, y, alpha=2)": lambda x: ferro.add(x, y, alpha=2),
        "ferro.maximum(x, y)": lambda x: ferro.maximum(x, y),
        "x.sum()": lambda x: x.sum(),
        "x.sum(0)": lambda x: x.sum(0),
        "x.mean((0, 1), True)": lambda x: x.mean((0, 1), True),
        "x.max(1)": lambda x: x.max(1),
        "x.amax()": lambda x: x.amax(),
        "x.var(0)": lambda x: x.var(0),
        "x.view(3, 2)": lambda x: x.view(3, 2),
        "x.view(6)": lambda x: x.view(6),
        "x.reshape(-1)": lambda x: x.reshape(-1),
        "x.t()": lambda x: x.t(),
        "x.transpose(0, 1)": lambda x: x.transpose(0, 1),
        "x[0]": lambda x: x[0],
        "x[:, 1:]": lambda x: x[:, 1:],
        "x[None]": lambda x: x[None],
        "x[y > 1]": lambda x: x[y > 1],
        "y[x]": lambda x: y[x],
        "x.unsqueeze(0)": lambda x: x.unsqueeze(0),
        "x.expand(2, 3)": lambda x: x.expand(2, 3),
        "x.detach()": lambda x: x.detach(),
        "x.unbind()": lambda x: x.unbind(),
        "x.split(1)": lambda x: x.split(1),
        "x.chunk(2, 1)": lambda x: x.chunk(2, 1),
        "ferro.cat([x, y])": lambda x: ferro.cat([x, y]),
        "ferro.cat((y, x), 1)": lambda x: ferro.cat((y, x), 1),
        "ferro.stack([y, x])": lambda x: ferro.stack([y, x]),
        "F.linear(x, y)": lambda x: F.linear(x, y),
        "F.linear(y, x)": lambda x: F.linear(y, x),
        "F.linear(w, y, x)": lambda x: F.linear(w, y, x),
        "x @ y.t()": lambda x: x @ y.t(),
        "ferro.where(y > 1, x, y)": lambda x: ferro.where(y > 1, x, y),
        "ferro.where(x, x, y)": lambda x: ferro.where(x, x, y),
        "ferro.addmm(x, y.t(), y)": lambda x: ferro.addmm(x, y.t(), y),
        "F.softmax(x, 1)": lambda x: F.softmax(x, 1),
        "F.layer_norm(x, (3,), x)": lambda x: F.layer_norm(x, (3,), x),
        "F.layer_norm(y, (3,), w[0], x)": lambda x: F.layer_norm(y, (3,), w[0], x),
        "F.batch_norm(x, x, x)": lambda x: F.batch_norm(x, x, x, training=True),
        "F.mse_loss(x, y)": lambda x: F.mse_loss(x, y),
        "F.cross_entropy(x, labels)": lambda x: F.cross_entropy(x, ferro.tensor([0, 1])),
        "F.cross_entropy(y, x)": lambda x: F.cross_entropy(y, x),
        "F.conv1d(x, x)": lambda x: F.conv1d(x[None], x[None]),
        "F.embedding(labels, x)": lambda x: F.embedding(ferro.tensor([0, 1]), x),
        "F.embedding(x, y)": lambda x: F.embedding(x, y),
        "F.dropout(x)": lambda x: F.dropout(x),
        "x.add_(1)": lambda x: x.add_(1),
        "x.mul_(x)": lambda x: x.mul_(x),
        "y.add_(x)": lambda x: (leaf() * 1).add_(x),
        "x.zero_()": lambda x: x.zero_(),
        "x[0] = 1": lambda x: x.__setitem__(0, 1),
        "y[0] = x": lambda x: (leaf() * 1).__setitem__(0, x),
        "x.requires_grad_()": lambda x: x.requires_grad_(),
        "x.grad_fn": lambda x: x.grad_fn,
        "x.is_leaf": lambda x: x.is_leaf,
        "x._version": lambda x: x._version,
        "x.register_hook(len)": lambda x: x.register_hook(len),
        "x.retain_grad()": lambda x: x.retain_grad(),
        "x.backward(y)": lambda x: x.backward(y),
        "y.backward(x)": lambda x: (leaf() * 1).backward(x),
        "grad(x.sum(), x)": lambda x: ferro.autograd.grad(x.sum(), x),
        "x.numpy()": lambda x: x.numpy(),
        "repr(x)": repr,
        "x.tolist()": lambda x: x.tolist(),
        "len(x)": len,
        "iter(x)": list,
        "bool(x)": bool,
        "float(x)": float,
        "np.asarray(x)": np.asarray,
        "ferro.tensor(x)": ferro.tensor,
        "x.shape": lambda x: x.shape,
        "x.dtype": lambda x: x.dtype,
        "x.clone()": lambda x: x.clone(),
        "x.to(float64)": lambda x: x.to(ferro.float64),
        "hash(x)": hash,
        "x == x": lambda x: x == x,
        "x.data = y": lambda x: setattr(x, "data", y),
        "y.data = x": lambda x: setattr(leaf(), "data", x),
        "x.grad = y": lambda x: setattr(x, "grad", y),
        "y.grad = x": lambda x: setattr(leaf(), "grad", x),
        "SGD([x]).step()": lambda x: ferro.optim.SGD([x], lr=0.1).step(),
    }


MODES: dict[str, Callable] = {
    "": nullcontext,
    "no_grad": ferro.no_grad,
    "inference_mode": ferro.inference_mode,
    "saved_tensors_hooks": lambda: saved_tensors_hooks(lambda t: t, lambda t: t),
}


def looked_at(text: str, result: Any) -> None:
    """Use what a spoilt tensor has given: it must not be worse than its source."""
    for t in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(t, TensorBase):
            outcome(f"repr({text})", repr, t)
            outcome(f"({text}) * 2", lambda t: t * 2, t)
            outcome(f"({text}).sum().backward()", lambda t: t.sum().backward(), t)


def recorders(way: str, make: Callable, modes: tuple) -> None:
    """One way to spoil a tensor, in every call that leads into machine code."""
    called = every_recorder()
    for mode in modes:
        for text, function in called.items():
            said = f"x = {way}; {text}" + (f" under {mode}" if mode else "")
            with MODES[mode]():
                result = outcome(said, function, make())
            if not isinstance(result, Raised):
                looked_at(said, result)


def half_made(call: Call) -> None:
    """One call with a spoilt tensor in the place of each of its tensors."""
    fine = [ferro.from_numpy(a) for a in call.arrays()]
    for k in range(len(fine)):
        for way, make in (*SIMPLE, *grown(fine[k])):
            spoilt = [*fine[:k], make(), *fine[k + 1 :]]
            outcome(f"ferro.{call.path} with {call.sample}, tensor {k}: {way}", call.run, spoilt)


SIMPLE = [(f"object.__new__({kind.__name__})", lambda kind=kind: x_of(kind)) for kind in (ferro.Tensor, nn.Parameter)]


def grown(x: Any) -> Iterator[tuple[str, Callable]]:
    """The same tensor with a slot deleted, or something wrong in it."""
    for slot in SLOTS:
        yield f"without {slot}", lambda slot=slot: _without(ferro.from_numpy(x._data), slot)
        yield f"whose {slot} is 5", lambda slot=slot: _with(ferro.from_numpy(x._data), slot, 5)
    yield "whose _node is half a Node", lambda: _with(ferro.from_numpy(x._data), "_node", x_of(Node))
    yield "whose _counter is half made", lambda: _with(ferro.from_numpy(x._data), "_counter", x_of(Version))
    yield "whose _meta is half made", lambda: _with(ferro.from_numpy(x._data), "_meta", x_of(View))


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases: every way in the recorders, then everything public."""
    modes = tuple(MODES) if options.long else ("", "no_grad")
    for way, make in ways():
        yield f"x = {way}", lambda way=way, make=make: recorders(way, make, modes)
    for call in calls(1000 if options.long else 1, methods=options.long):
        if places(call.sample):
            yield f"ferro.{call.path}{call.sample}", lambda call=call: half_made(call)
