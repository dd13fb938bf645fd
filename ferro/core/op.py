"""Op: the declaration of an operation, and Plan: what one recorded call of it saves and runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ferro import cpu
from ferro.core import codegen
from ferro.core import samples as _samples
from ferro.core.node import expose
from ferro.core.saved_values import saved_arrays, saved_tensors
from ferro.cpu import blocks, fusion, layouts
from ferro.cpu.kernels.entries import entry
from ferro.native.entries import fallback

OPS: dict[str, Op] = {}
ELEMENTWISE, LINEAR, MULTILINEAR, GENERAL = "elementwise", "linear", "multilinear", "general"


class Op:
    """An operation: its forward function, one derivative formula per differentiable input, and its samples.

    ::

        MUL = Op("mul", lambda xp, x, y: x * y,
                 x=lambda xp, g, y: g * y.conj(),
                 y=lambda xp, g, x: g * x.conj(), kind=MULTILINEAR, samples=binary())

    forward(xp, tensors..., /, parameters...): the names before a ``/`` are tensor inputs (all are, where there is no
    ``/``), the others are parameters: Python values, already normalised.  Keyword arguments that bear the name of an
    input give the formula of the gradient by that input; a formula receives `xp`, the cotangent `g` and what it names:

    - an input or a parameter by its name, ``<input>_shape``, and ``out`` (or the declared names of `outputs`);
    - a name of `aux`: arrays that forward returns behind its outputs for the formulas (floating aux values are None in
      a recorded backward: there they would cut the graph);
    - ``needs``: for a joint formula `vjp`, which of the differentiable inputs (`diff`) need a gradient.

    Options: `vjp`, one joint formula that returns a gradient (or None) for every input in `diff`; `outputs`, names of several
    outputs (``"*"``: a tuple of any length; g is then a tuple with None for absent cotangents); `nondiff`, the outputs
    among them without derivative (with exactly one differentiable output, g is its cotangent alone); `variadic`, the
    tensors are one sequence named by forward's first input; `view`, the output shares memory with the input; `kind`, how forward mode
    follows: "elementwise" (the formula applied to the tangent), "linear" (in all inputs together), "multilinear" (in
    each input alone), "general" (the formula transposed), or an explicit `jvp(xp, tangents, <names>)`; `weight`,
    nanoseconds per element of the output, for the scheduler; `floats`, integers are computed as the default dtype; `real`, the result of
    complex numbers is real; `layout`, where the result lies in memory (see cpu/layouts.py), unless it is for the function to say.
    """

    # Slots: what the recorder in machine code (native/jit_recorder.py) asks for.
    __slots__ = (
        "__dict__",
        "_forward",
        "applied",
        "aux_count",
        "diff_mask",
        "direct",
        "large",
        "multi",
        "nondiff_indices",
        "plans",
        "table",
        "taped",
        "viewing",
    )

    def __init__(
        self,
        name: str,
        forward: Callable,
        *,
        vjp: Callable | None = None,
        diff: Sequence[str] = (),
        outputs: Sequence[str] | str | None = None,
        nondiff: Sequence[str] = (),
        aux: Sequence[str] = (),
        variadic: bool = False,
        view: bool = False,
        kind: str = GENERAL,
        jvp: Callable | None = None,
        weight: float = 1.0,
        floats: bool = False,
        real: bool = False,
        samples: Sequence[_samples.Sample] | None = None,
        complex: bool = False,
        path: str | None = None,
        layout: str = "",
        **formulas: Callable,
    ) -> None:
        self.name = name
        self.joint = vjp
        self.formulas = formulas
        self.outputs = outputs
        self.aux = tuple(aux)
        self.nondiff = tuple(nondiff)
        self.variadic, self.view, self.kind, self.jvp = variadic, view, kind, jvp
        self.weight, self.floats, self.real = weight, floats, real
        self.inputs, self.params = _parameters(name, forward)
        self.layout = layout or (
            layouts.ITERATED if kind == ELEMENTWISE and len(self.inputs) > 1 and outputs is None else ""
        )
        self.forward = forward
        self.diff_names = tuple(diff) if vjp is not None else tuple(formulas)
        self.diff = tuple(self.inputs.index(n) for n in self.diff_names if n in self.inputs)
        self.diff_mask = sum(1 << i for i in self.diff)
        names = (outputs,) if isinstance(outputs, str) else outputs
        self.output_names = ("out",) if outputs is None else () if outputs == "*" else tuple(names or ())
        self.multi = outputs is not None
        self.lone = (
            next((i for i, n in enumerate(self.output_names) if n not in self.nondiff), 0)
            if (self.multi and len(self.output_names) - len(self.nondiff) == 1 and outputs != "*")
            else None
        )
        self.nondiff_indices = frozenset(i for i, n in enumerate(self.output_names) if n in self.nondiff)
        # one input, one output, nothing special: apply() takes the short form
        plain = not (self.multi or self.aux or variadic or view)
        self.short = len(self.inputs) == 1 and plain
        self.taped = bool(self.diff) and plain
        # whether machine code makes the call: always, where nothing is recorded (None), or never
        self.applied: bool | None = not (variadic or view or outputs == "*" or self.short)
        self.aux_count = len(self.aux)
        self.plans: dict[int, Plan] = {}
        self.table: list[Plan | None] = [None] * 4  # the plans of masks 1 to 3, for the short forms of apply
        stem = "".join(part.capitalize() for part in name.rsplit(".", maxsplit=1)[-1].split("_"))
        # PyTorch's way: a letter behind a digit is a capital, "Log1PBackward0"
        self.backward_name = re.sub(r"(?<=\d)[a-z]", lambda m: m[0].upper(), f"{stem}Backward0")
        self._check()
        saving = [n for f in (*formulas.values(), vjp) if f is not None for n in argument_names(f)]
        if self.applied and not set(self.nondiff).isdisjoint(saving):
            # a result without history that is saved (indices, say) is watched: see _wrap_outputs in apply.py
            self.applied = None
        if samples is not None:
            _samples.declare(path or name, samples, complex=complex)
        if name in OPS:
            raise ValueError(f"operation {name!r} is declared twice")
        OPS[name] = self

    @property
    def forward(self) -> Callable:
        """The forward function."""
        return self._forward

    @forward.setter
    def forward(self, function: Callable) -> None:
        self._forward = function
        direct: Any = codegen.direct(function, len(self.inputs), len(self.params))
        # what the short forms call; of a view, `viewed` in views.py
        self.direct, self.viewing = (None, getattr(direct, "method", direct)) if self.view else (direct, None)
        self.large = None if self.view else _for_large(function, direct)
        if self.layout and not self.view:
            arrays = None if self.variadic else len(self.inputs)
            others = len(self.params)
            self.direct = layouts.laid(direct or (lambda *args: function(cpu, *args)), self.layout, arrays, others)
            self.large = layouts.laid(_for_large(function, direct), self.layout, arrays, others)

    def _check(self) -> None:
        """Every formula names only what exists."""
        legal = set(self.inputs) | set(self.params) | set(self.output_names) | set(self.aux) | {"needs"}
        legal |= {f"{n}_shape" for n in self.inputs}
        if self.outputs == "*":
            legal.add("out")
        for label, formula in [*self.formulas.items(), ("vjp", self.joint)]:
            if formula is None:
                continue
            if label != "vjp" and label not in self.inputs:
                raise ValueError(f"{self.name}: formula for {label!r}, which is no tensor input; inputs: {self.inputs}")
            names = argument_names(formula)
            if names[:2] != ["xp", "g"]:
                raise ValueError(f"{self.name}: the formula of {label} must begin with (xp, g, ...), not {names[:2]}")
            unknown = [n for n in names[2:] if n not in legal]
            if unknown:
                raise ValueError(f"{self.name}: the formula of {label} names {unknown}; known are {sorted(legal)}")
        if self.joint is not None and not self.diff:
            raise ValueError(f"{self.name}: a joint formula needs diff=(names of the differentiable inputs)")
        if len(self.output_names) == 0 and self.aux:
            raise ValueError(f"{self.name}: aux values need a fixed number of outputs")

    def plan(self, mask: int) -> Plan:
        """What a call saves and runs when the inputs in the bit mask need gradients."""
        try:
            return self.plans[mask]
        except KeyError:
            plan = self.plans[mask] = Plan(self, mask)
            if mask < len(self.table):
                self.table[mask] = plan
            return plan

    def __repr__(self) -> str:
        return f"Op({self.name!r})"


def _parameters(name: str, forward: Callable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the tensor inputs and of the parameters in forward's signature."""
    names = argument_names(forward)
    if names[:1] != ["xp"]:
        raise ValueError(f"{name}: forward must take xp first")
    positional = forward.__code__.co_posonlyargcount
    if positional:
        return tuple(names[1:positional]), tuple(names[positional:])
    return tuple(names[1:]), ()


def argument_names(function: Any) -> list[str]:
    """The names of a plain function's positional arguments (inspect.signature takes twenty times as long)."""
    code = getattr(function, "__wrapped__", function).__code__
    return list(code.co_varnames[: code.co_argcount])


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
    )

    def __init__(self, op: Op, mask: int) -> None:
        self.op, self.mask = op, mask
        self.joint = op.joint is not None
        self.arity = mask.bit_length() if op.variadic else len(op.inputs)
        self.indices = tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
        if self.joint:
            used = [op.joint]
        else:
            missing = [op.inputs[i] for i in self.indices if op.inputs[i] not in op.formulas]
            if missing:
                raise NotImplementedError(f"{op.name}: the derivative by {', '.join(missing)} is not implemented")
            used = [op.formulas[op.inputs[i]] for i in self.indices]
        wanted: list[str] = []
        for formula in used:
            wanted += [n for n in argument_names(formula)[2:] if n not in wanted and n != "needs"]  # type: ignore[arg-type]
        base = list(op.inputs) + list(op.output_names or (("out",) if op.outputs == "*" else ())) + list(op.aux)
        flat = base + list(op.params)
        shapes = [n for n in wanted if n not in flat]
        values = [n for n in wanted if n in flat]
        self.names = (*values, *shapes)
        expose(self.names)
        positions = [flat.index(n) for n in values]
        self.pick: Any = _getter(positions) if wanted else None
        self.save = codegen.saver(op, self.names)
        # what machine code saves without `pick`: values at 0, 1, or 1 and 0; of one input shapes (20), parameters (21), both (22)
        self.short = {(0,): 0, (1,): 1, (1, 0): 10}.get(tuple(positions), 99) if not shapes else 99
        everything = positions == list(range(len(base), len(flat)))
        if len(op.inputs) == 1 and (everything or (shapes and not positions)):
            self.short = (22 if positions else 20) if shapes else 21 if positions else 99
        self.shapes = tuple(op.inputs.index(n.removesuffix("_shape")) for n in shapes)
        self.kinds = tuple(_kind(op, n) for n in self.names)
        self.keeps_out = any(k.startswith("array") for k in self.kinds)
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
        kinds = [_kind(self.op, name) for name in named]
        if "needs" in kinds:
            return otherwise
        return codegen.generate(formula, kinds, list(map(self.names.index, named))) or otherwise

    def for_large(self) -> tuple:
        """The formulas of the short form of the engine's loop, for large arrays."""
        op = self.op
        self.large = tuple([_bind_large(op, op.formulas[op.inputs[i]], self.names) for i in self.indices])
        return self.large


def _getter(positions: list[int]) -> Callable:
    """A function from a tuple to the tuple of its elements at `positions`."""
    if not positions:
        return lambda values: ()
    if len(positions) == 1:
        i = positions[0]
        return lambda values: (values[i],)
    return itemgetter(*positions)


def _bind(op: Op, formula: Any, names: tuple[str, ...], needs: tuple[bool, ...], recorded: bool) -> Callable:
    """The formula as a function (xp, g, node) that reads what it names from ``node.saved``.

    The short forms are what the hot loop of backward spends its time in.
    """
    wanted = argument_names(formula)[2:]
    kinds = [_kind(op, n) for n in wanted]
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


def _for_large(forward: Callable, direct: Any) -> Callable:
    """`direct` for large arrays: the forward function runs as a program if it can be one."""
    if direct is not None and fusion.is_call(forward):
        return direct

    def function(*args: Any) -> Any:
        return fusion.run(forward, cpu, *args)

    return function if fallback(direct) is direct else entry(function, direct.__name__)


def _bind_large(op: Op, formula: Any, names: tuple[str, ...]) -> Callable:
    """`_bind` for large arrays: the formula runs as a program if it can be one."""
    entries = [(_kind(op, n), names.index(n)) for n in argument_names(formula)[2:]]
    plain = [kind == "plain" for kind, _ in entries]
    direct = codegen.direct(formula, 1 + plain.count(False), plain.count(True)) if plain == sorted(plain) else None
    if direct is not None:
        compute = _for_large(formula, direct)
        return lambda xp, g, node: compute(g, *saved_arrays(node, entries, ()))
    steps = op.kind == ELEMENTWISE and _of_steps(formula)

    def function(xp: Any, g: Any, node: Any) -> Any:
        values = saved_arrays(node, entries, ())
        out = fusion.evaluate(formula, g, *values)
        if out is None:
            out = blocks.by_blocks(formula, xp, g, *values) if steps else formula(xp, g, *values)
        return out

    return function


def _of_steps(formula: Any) -> bool:
    """Whether a formula has several steps, and none that sees to large arrays itself (as `once` in activations.py)."""
    code = getattr(formula, "__code__", None)
    return code is not None and len(code.co_code) > 50 and "once" not in code.co_names


def _kind(op: Op, name: str) -> str:
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
