"""Op: the declaration of an operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ferro import cpu
from ferro.core import codegen
from ferro.core import samples as _samples
from ferro.core.plan import ELEMENTWISE, GENERAL, LINEAR, MULTILINEAR, Plan, argument_names, for_large  # noqa: F401 (declarations take the kinds from here)
from ferro.cpu import layouts
from ferro.cpu.kernels.entries import into_place
from ferro.cpu.lowering import ufunc_of
from ferro.elementwise import Elementwise

OPS: dict[str, Op] = {}
COMPUTED: dict[Elementwise, Op] = {}  # by an elementwise function, the operation that computes it


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
        "name",
        "nondiff_indices",
        "placed",
        "plans",
        "table",
        "taped",
        "ufunc",
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
        self._name_outputs(outputs)
        # one input, one output, nothing special: apply() takes the short form
        plain = not (self.multi or self.aux or variadic or view)
        self.short = len(self.inputs) == 1 and plain
        self.taped = bool(self.diff) and plain
        # whether machine code makes the call
        self.applied = not (variadic or view or outputs == "*" or self.short)
        self.aux_count = len(self.aux)
        self.plans: dict[int, Plan] = {}
        self.table: list[Plan | None] = [None] * 4  # the plans of masks 1 to 3, for the short forms of apply
        self.backward_name = _backward_name(name)
        self._check()
        if samples is not None:
            _samples.declare(path or name, samples, complex=complex)
        if name in OPS:
            raise ValueError(f"operation {name!r} is declared twice")
        OPS[name] = self

    def _name_outputs(self, outputs: Sequence[str] | str | None) -> None:
        """What the outputs are called, which have no derivative, and which has one alone."""
        names = (outputs,) if isinstance(outputs, str) else outputs
        self.output_names = ("out",) if outputs is None else () if outputs == "*" else tuple(names or ())
        self.multi = outputs is not None
        self.lone = (
            next((i for i, n in enumerate(self.output_names) if n not in self.nondiff), 0)
            if (self.multi and len(self.output_names) - len(self.nondiff) == 1 and outputs != "*")
            else None
        )
        self.nondiff_indices = frozenset(i for i, n in enumerate(self.output_names) if n in self.nondiff)

    @property
    def forward(self) -> Callable:
        """The forward function."""
        return self._forward

    @forward.setter
    def forward(self, function: Callable) -> None:
        self._forward = function
        if isinstance(function, Elementwise):
            COMPUTED[function] = self
        direct: Any = codegen.direct(function, len(self.inputs), len(self.params))
        # what the short forms call; of a view, `viewed` in views.py
        self.direct, self.viewing = (None, getattr(direct, "method", direct)) if self.view else (direct, None)
        self.large = None if self.view else for_large(function, direct)
        # by which results are written into arrays that there are, see writes.py
        self.ufunc = None if self.view or self.params else _float_ufunc(direct)
        self.placed = None if self.view or direct is None else into_place(direct)
        if self.layout and not self.view:
            arrays = None if self.variadic else len(self.inputs)
            others = len(self.params)
            self.direct = layouts.laid(direct or (lambda *args: function(cpu, *args)), self.layout, arrays, others)
            self.large = layouts.laid(for_large(function, direct), self.layout, arrays, others)

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


def _float_ufunc(function: Any) -> Any:
    """The ufunc that an array function is, if it gives floats of floats: its result can be written where one of them is."""
    found = ufunc_of(function)
    return found if found is not None and f"{'f' * found.nin}->f" in found.types else None


def _backward_name(name: str) -> str:
    """The name PyTorch gives the node; a letter behind a digit is a capital, "Log1PBackward0"."""
    stem = "".join(part.capitalize() for part in name.rsplit(".", maxsplit=1)[-1].split("_"))
    return re.sub(r"(?<=\d)[a-z]", lambda m: m[0].upper(), f"{stem}Backward0")


def _parameters(name: str, forward: Callable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the tensor inputs and of the parameters in forward's signature."""
    names = argument_names(forward)
    if names[:1] != ["xp"]:
        raise ValueError(f"{name}: forward must take xp first")
    positional = getattr(forward, "__wrapped__", forward).__code__.co_posonlyargcount
    if positional:
        return tuple(names[1:positional]), tuple(names[positional:])
    return tuple(names[1:]), ()
