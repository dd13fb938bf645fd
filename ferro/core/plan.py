"""Plan: what one recorded call of an operation saves, and what its backward runs."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ferro import cpu
from ferro.core import codegen
from ferro.core.saved_values import saved_arrays, saved_tensors
from ferro.cpu import blocks, fusion
from ferro.cpu.kernels.entries import with_entry
from ferro.native.entries import fallback

# How forward mode follows an operation: see `kind` of Op.
ELEMENTWISE, LINEAR, MULTILINEAR, GENERAL = "elementwise", "linear", "multilinear", "general"


def argument_names(function: Any) -> list[str]:
    """The names of a plain function's positional arguments (inspect.signature takes twenty times as long)."""
    code = getattr(function, "__wrapped__", function).__code__
    return list(code.co_varnames[: code.co_argcount])


class CalledOp:
    """Stands for an Op where a node's backward is called as a whole: that of a custom function, or of a compiled one."""

    multi, lone, weight, variadic, view = True, None, 20.0, False, False
    nondiff_indices: frozenset = frozenset()
    name: str
    backward_name: str


class CalledPlan:
    """Stands for a Plan there: ``user(run, gradients, node)`` gives those of all `arity` arguments, of which `indices` have edges."""

    joint, general, same, keeps, keeps_out = True, True, False, True, False
    formulas = recorded = (None,)
    spread = kinds = names = ()
    definition: Any = None
    op: Any
    arity: int
    indices: tuple


class Plan:
    """How one kind of recorded call runs backward: `formulas` on arrays and `recorded` on Tensors, one per edge.

    ``save(inputs, arrays, outputs and aux, parameters)`` gives the tuple of what a call saves: `names`. The recorder in
    machine code does the same by `short`, or by `pick`, which takes the values from (inputs..., outputs and aux...,
    parameters...), and `shapes`, the inputs whose shape is saved behind them.  `indices` are the input numbers of the edges.
    """

    __slots__ = (
        "arity",
        "formulas",
        "general",
        "indices",
        "joint",
        "keeps",
        "keeps_out",
        "kinds",
        "large",
        "mask",
        "names",
        "op",
        "pick",
        "recorded",
        "same",
        "save",
        "saves_inputs",
        "shapes",
        "short",
        "small",
        "spread",
        "user",
        "watched",
    )

    def __init__(self, op: Any, mask: int) -> None:
        self.op, self.mask = op, mask
        self.joint = op.joint is not None
        self.arity = mask.bit_length() if op.variadic else len(op.inputs)
        self.indices = tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
        used = _formulas(op, self.indices)
        wanted: list[str] = []
        for formula in used:
            wanted += [n for n in argument_names(formula)[2:] if n not in wanted and n != "needs"]  # type: ignore[arg-type]
        base = list(op.inputs) + list(op.output_names or (("out",) if op.outputs == "*" else ())) + list(op.aux)
        flat = base + list(op.params)
        shapes = [n for n in wanted if n not in flat]
        values = [n for n in wanted if n in flat]
        self.names = (*values, *shapes)
        positions = [flat.index(n) for n in values]
        self.pick: Any = _getter(positions) if wanted else None
        self.save = codegen.saver(op, self.names)
        self.short = _short(op, positions, bool(shapes), list(range(len(base), len(flat))))
        self.shapes = tuple(op.inputs.index(n.removesuffix("_shape")) for n in shapes)
        self.kinds = tuple(kind_of(op, n) for n in self.names)
        self.keeps_out = any(k.startswith("array") for k in self.kinds)
        # outputs that are saved: one without history (indices, say) is watched, see watch_result
        self.watched = frozenset(int(k[5:]) for k in self.kinds if k.startswith("array") and k[5:].isdecimal())
        self.saves_inputs = tuple(
            op.inputs.index(n) for n, k in zip(self.names, self.kinds, strict=True) if k.startswith("tensor")
        )
        self.keeps = self.keeps_out or bool(self.saves_inputs) or "aux" in self.kinds
        # an elementwise operation of one input gives gradients of the shape and dtype they must have
        self.same = op.kind == ELEMENTWISE and len(op.inputs) == 1 and not (op.joint or op.real)
        self.general = self.joint or op.multi  # not for the short form of the engine's loop
        self.user: Any = None  # set by a custom Function's plan
        # a joint formula returns a gradient for every differentiable input; edges exist for those in the mask
        self.spread: tuple = () if not self.joint or op.variadic else tuple(op.diff.index(i) for i in self.indices)
        needs = tuple(bool(mask >> i & 1) for i in (range(self.arity) if op.variadic else op.diff))
        self.formulas = tuple(_bind(op, f, self.names, needs, recorded=False) for f in used)
        self.small = tuple(map(self._for_small, used, self.formulas))
        self.recorded = tuple(_bind(op, f, self.names, needs, recorded=True) for f in used)
        self.large: tuple | None = None  # see `for_large`

    def _for_small(self, formula: Any, otherwise: Callable) -> Callable:
        """The formula written out for small NumPy arrays, if it can be; otherwise as it is for any."""
        named = argument_names(formula)[2:]
        kinds = [kind_of(self.op, name) for name in named]
        if "needs" in kinds:
            return otherwise
        return codegen.generate(formula, kinds, list(map(self.names.index, named))) or otherwise

    def for_large(self) -> tuple:
        """The formulas of the short form of the engine's loop, for large arrays."""
        op = self.op
        self.large = tuple([bind_large(op, op.formulas[op.inputs[i]], self.names) for i in self.indices])
        return self.large


def _formulas(op: Any, indices: tuple[int, ...]) -> list:
    """The derivatives that a call runs whose inputs at these numbers need gradients."""
    if op.joint is not None:
        return [op.joint]
    missing = [op.inputs[i] for i in indices if op.inputs[i] not in op.formulas]
    if missing:
        raise NotImplementedError(f"{op.name}: the derivative by {', '.join(missing)} is not implemented")
    return [op.formulas[op.inputs[i]] for i in indices]


def _short(op: Any, positions: list[int], shapes: bool, parameters: list[int]) -> int:
    """What machine code saves without `pick`: values at 0, 1, or 1 and 0; of one input shapes (20), parameters (21), both (22)."""
    if len(op.inputs) == 1 and (positions == parameters or (shapes and not positions)):
        return (22 if positions else 20) if shapes else 21 if positions else 99
    return {(0,): 0, (1,): 1, (1, 0): 10}.get(tuple(positions), 99) if not shapes else 99


def _getter(positions: list[int]) -> Callable:
    """A function from a tuple to the tuple of its elements at `positions`."""
    if not positions:
        return lambda values: ()
    if len(positions) == 1:
        i = positions[0]
        return lambda values: (values[i],)
    return itemgetter(*positions)


def _bind(op: Any, formula: Any, names: tuple[str, ...], needs: tuple[bool, ...], recorded: bool) -> Callable:
    """The formula as a function (xp, g, node) that reads what it names from ``node.saved``.

    The short forms are what the hot loop of backward spends its time in.
    """
    wanted = argument_names(formula)[2:]
    kinds = [kind_of(op, n) for n in wanted]
    where = [names.index(n) if n != "needs" else -1 for n in wanted]
    if not wanted:
        return lambda xp, g, node: formula(xp, g)
    if not recorded and all(k in ("plain", "array") for k in kinds) and len(wanted) <= 3:
        if len(wanted) == 1:
            i = where[0]
            return lambda xp, g, node: formula(xp, g, node.saved[i])
        pick = itemgetter(*where)
        return lambda xp, g, node: formula(xp, g, *pick(node.saved))
    if not recorded and kinds == ["tensor"]:
        i = where[0]

        def one(xp: Any, g: Any, node: Any) -> Any:
            t = node.saved[i]
            if t is None or t._counter is not None:
                return formula(xp, g, *saved_arrays(node, [("tensor", i)], needs))
            return formula(xp, g, t._data)

        return one
    entries = list(zip(kinds, where, strict=True))
    if recorded:
        return lambda xp, g, node: formula(xp, g, *saved_tensors(node, entries, needs))
    return lambda xp, g, node: formula(xp, g, *saved_arrays(node, entries, needs))


def for_large(forward: Callable, direct: Any) -> Callable:
    """`direct` for large arrays: the forward function runs as a program if it can be one."""
    if direct is not None and fusion.is_call(forward):
        return direct

    behind = fallback(direct)

    def function(*args: Any) -> Any:
        if direct is None:
            return fusion.run(forward, cpu, *args)
        found = fusion.evaluate(forward, *args)
        return behind(*args) if found is None else found

    return function if behind is direct else with_entry(function, direct.__name__)


def bind_large(op: Any, formula: Any, names: tuple[str, ...]) -> Callable:
    """`_bind` for large arrays: the formula runs as a program if it can be one."""
    entries = [(kind_of(op, n), names.index(n)) for n in argument_names(formula)[2:]]
    plain = [kind == "plain" for kind, _ in entries]
    direct = codegen.direct(formula, 1 + plain.count(False), plain.count(True)) if plain == sorted(plain) else None
    if direct is not None:
        compute = for_large(formula, direct)
        found = codegen.calling(compute, *map(list, zip(*entries, strict=True))) if entries else None
        return found or (lambda xp, g, node: compute(g, *saved_arrays(node, entries, ())))

    def function(xp: Any, g: Any, node: Any) -> Any:
        values = saved_arrays(node, entries, ())
        out = fusion.evaluate(formula, g, *values)
        if out is None:
            cut = op.kind == ELEMENTWISE and not fusion.is_one_step(formula, g, *values)
            out = blocks.by_blocks(formula, xp, g, *values) if cut else formula(xp, g, *values)
        return out

    return function


def kind_of(op: Any, name: str) -> str:
    if name == "needs":
        return "needs"
    if name in op.inputs:
        return "tensors" if op.variadic else "tensor"
    if name in op.output_names:
        return f"array{op.output_names.index(name)}" if op.multi else "array"
    if name in op.aux:
        return "aux"
    if name == "out":
        return "arrays"
    return "plain"
