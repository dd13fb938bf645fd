"""Operations that programs define in Python, with a name, a derivative and a place in `ops` (``ops.mylib.twice(x)``).

What PyTorch asks of an operation for its compiler (a kernel of shapes alone: `register_fake`) is taken, and never called:
nothing is traced here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ferro.autograd import Function
from ferro.autograd.grad_mode import no_grad
from ferro.core import trees
from ferro.core.mode import is_grad_enabled
from ferro.ops.namespace import NAMESPACES, Defined, Packet
from ferro.tensor import Tensor

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "register_autograd", "register_fake",
           "register_kernel"]  # fmt: skip

_HERE = ("cpu", "CPU", "default", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "")


class CustomOpDef:
    """An operation that a program has defined: a function under a name (`custom_op` makes it)."""

    def __init__(
        self, qualname: str, function: Callable | None, schema: str | None, mutated: Iterable[str], opaque: bool
    ) -> None:
        self._namespace, self._name = _parts(qualname)
        self._qualname, self._schema = f"{self._namespace}::{self._name}", schema
        self._function, self._opaque = function, opaque
        self._mutated = (mutated,) if isinstance(mutated, str) else tuple(mutated)
        self._derivative: tuple[Callable, Callable | None] | None = None
        self._taken = _of_schema(schema) if schema is not None else None

    def register_kernel(self, device_types: Any = None, fn: Callable | None = None, /) -> Any:
        """The function that computes on these devices: that of the CPU is called; also a decorator."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        named = [device_types] if isinstance(device_types, str) or device_types is None else device_types
        if any(name is None or name in _HERE for name in named):
            self._function = fn
        return fn

    def register_fake(self, fn: Callable, /) -> Callable:
        """Takes the function that gives shapes alone, which a compiler would call: nothing is compiled."""
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """The derivative: `backward(ctx, *grads)` gives one gradient for each argument (None: there is none), from what
        `setup_context(ctx, inputs, output)` has kept."""
        self._derivative = (backward, setup_context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the 'CPU' backend: it was defined without a function for the CPU"
            )
        bound = self._bound(args, kwargs)
        values = tuple(bound.arguments.values())
        leaves, structure = trees.flatten(values)
        recorded = is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in leaves)
        if not recorded or not (self._opaque or self._derivative):
            if not self._opaque:
                return self._function(*bound.args, **bound.kwargs)
            with no_grad():
                return self._checked(self._function(*bound.args, **bound.kwargs), leaves)
        for name in self._mutated:
            if any(isinstance(x, Tensor) and x.requires_grad for x in trees.flatten(bound.arguments.get(name))[0]):
                raise RuntimeError(
                    f"{self._qualname} writes to {name!r}, which requires grad: an operation that mutates has no "
                    "autograd formula. Call it under no_grad, or return the result instead"
                )
        shape: list[Any] = []

        class Recorded(Function):
            """One call of the operation: its leaves go in and out one by one."""

            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                given = self._bound_again(bound, trees.unflatten(structure, inputs))
                output = self._checked(self._function(*given.args, **given.kwargs), inputs)  # type: ignore[misc]
                self._keep(ctx, given, output)
                found, spec = trees.flatten(output)
                shape.append(spec)
                return tuple(found)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return self._gradients(ctx, trees.unflatten(shape[0], grads), structure)

        Recorded.__name__ = f"{self._namespace}_{self._name}"
        return trees.unflatten(shape[0], results) if (results := Recorded.apply(*leaves)) else results

    def _bound(self, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """The arguments by name, with the defaults of the schema or of the function."""
        taken = self._taken or inspect.signature(self._function)  # type: ignore[arg-type]
        try:
            bound = taken.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self._qualname}() {error}. Schema: {self._qualname}{self._schema or taken}") from None
        bound.apply_defaults()
        return bound

    def _bound_again(self, bound: inspect.BoundArguments, values: Any) -> inspect.BoundArguments:
        """The same names with these values."""
        return inspect.BoundArguments(bound.signature, dict(zip(bound.arguments, values, strict=True)))  # type: ignore[arg-type]

    def _checked(self, output: Any, inputs: Iterable[Any]) -> Any:
        for x in trees.flatten(output)[0]:
            if isinstance(x, Tensor) and any(x is given for given in inputs):
                raise RuntimeError(
                    f"{self._qualname}: The output of this custom operator (1) must not also be an input to this custom operator and "
                    "(2) may not alias any inputs to this custom operator or other returns. Return x.clone() instead of x"
                )
        return output

    def _keep(self, ctx: Any, given: inspect.BoundArguments, output: Any) -> None:
        setup = self._derivative[1] if self._derivative else None
        if setup is None:
            return
        if given.kwargs:
            setup(ctx, given.args, given.kwargs, output)
        else:
            setup(ctx, given.args, output)

    def _gradients(self, ctx: Any, grads: Any, structure: trees.Structure) -> tuple[Any, ...]:
        """One gradient for each leaf of the arguments."""
        if self._derivative is None:
            raise RuntimeError(
                f"Trying to backward through {self._namespace}.{self._name}.default but no autograd formula was registered. Please "
                "use register_autograd to add one."
            )
        several = isinstance(grads, (tuple, list))
        found = self._derivative[0](ctx, *(grads if several else (grads,)))
        found = found if isinstance(found, tuple) else (found,)
        parts = structure.parts
        if len(found) < len(parts):
            found = (*found, *[None] * (len(parts) - len(found))) if self._taken_by_name(len(found)) else found
        if len(found) != len(parts):
            raise RuntimeError(
                f"Expected the return from backward to be of the same structure as the inputs. {self._qualname} takes {len(parts)} "
                f"arguments, and its backward returned {len(found)} gradients"
            )
        leaves: list[Any] = []
        for gradient, part in zip(found, parts, strict=True):
            count = trees.leaf_count(part)
            leaves += (
                list(trees.flatten(gradient)[0])
                if gradient is not None and part.kind is not None
                else [gradient] * count
            )
        return tuple(leaves)

    def _taken_by_name(self, positional: int) -> bool:
        """Whether the arguments behind the first `positional` ones are taken by name only, which have no gradients."""
        taken = self._taken or inspect.signature(self._function)  # type: ignore[arg-type]
        return all(p.kind is p.KEYWORD_ONLY for p in list(taken.parameters.values())[positional:])

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an operation: opaque for autograd (`register_autograd` gives its derivative), and callable as
    ``ops.namespace.name``; also a decorator.  `mutates_args` names the arguments that it writes to.

    Raises: ValueError for a name without a namespace.

    >>> import ferro
    >>> @ferro.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: ferro.Tensor) -> ferro.Tensor:
    ...     return x**3
    >>> cube.register_autograd(
    ...     lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    ... )
    >>> x = ferro.tensor(2.0, requires_grad=True)
    >>> ferro.ops.docs.cube(x).backward()
    >>> x.grad
    tensor(12.)
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema, tags=tags
        )
    operation = CustomOpDef(name, None, schema, mutates_args, True)
    operation.register_kernel(device_types, fn)
    operation.__doc__ = fn.__doc__
    return _enter(operation)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """An operation by its schema, ``"(Tensor x, float a=1.0) -> Tensor"``; `impl` gives its function.

    Raises: ValueError for a name without a namespace, and for a schema that cannot be read.
    """
    _enter(CustomOpDef(qualname, None, schema, (), False))


def impl(qualname: str, types: Any, func: Callable | None = None, *, lib: Library | None = None) -> Any:
    """The function of an operation that `define` has named, for these devices; also a decorator."""
    if func is None:
        return lambda function: impl(qualname, types, function, lib=lib)
    return _find(qualname).register_kernel(types, func)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """The function that computes an operation on these devices; also a decorator."""
    return _find(op).register_kernel(device_types, func)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Library | None = None
) -> None:
    """The derivative of an operation; see `CustomOpDef.register_autograd`.

    Raises: AttributeError for an operation that is not there.
    """
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Takes the function that gives shapes alone, which a compiler would call; also a decorator.

    The operation need not be there: it may be one of a library in C++, which ferro does not load.
    """
    if isinstance(op, str):
        _parts(op)
    return (lambda function: function) if func is None else func


impl_abstract = register_fake  # (its name of PyTorch 2.1 to 2.3)


class Library:
    """Operations of one namespace, defined by schemas: `define`, then `impl`.

    >>> import ferro
    >>> lib = ferro.library.Library("docs", "DEF")
    >>> lib.define("scaled(Tensor x, float by=2.0) -> Tensor")
    'scaled'
    >>> lib.impl("scaled", lambda x, by: x * by, "CPU")
    >>> ferro.ops.docs.scaled(ferro.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported library type: {kind!r}; 'DEF', 'IMPL' or 'FRAGMENT'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An operation by its name and schema, ``"scaled(Tensor x) -> Tensor"``; returns the name."""
        name, brace, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", brace + rest)
        return name.strip()

    def impl(self, op_name: Any, fn: Callable, dispatch_key: str = "", **kwargs: Any) -> None:
        """The function of an operation for a device: that of the CPU is called."""
        name = op_name if isinstance(op_name, str) else str(op_name)
        qualname = name if "::" in name else f"{self.ns}::{name.partition('.')[0]}"
        impl(qualname, dispatch_key or self.dispatch_key, fn)


def _enter(operation: CustomOpDef) -> CustomOpDef:
    space = NAMESPACES.setdefault(operation._namespace, Defined(operation._namespace))
    if not isinstance(space, Defined):
        raise RuntimeError(
            f"{operation._qualname}: the namespace {operation._namespace!r} is PyTorch's own; take another"
        )
    space.operations[operation._name] = operation
    return operation


def _find(op: Any) -> CustomOpDef:
    """The operation of this name.  Raises: AttributeError where there is none."""
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, Packet):
        return op._function
    space, name = _parts(op)
    known = getattr(NAMESPACES.get(space), "operations", {})
    if name not in known:
        raise AttributeError(f"'_OpNamespace' {space!r} object has no attribute {name!r}: define the operation before")
    return known[name]


def _parts(qualname: str) -> tuple[str, str]:
    space, colons, name = qualname.partition("::")
    if not (space and colons and name):
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the '
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return space, name.partition(".")[0]


def _of_schema(schema: str) -> inspect.Signature:
    """The names and defaults of the arguments of a schema.  Raises: ValueError where it cannot be read."""
    inside, arrow, _ = schema.strip().rpartition("->")
    inside = inside.strip()
    if not (arrow and inside.startswith("(") and inside.endswith(")")):
        raise ValueError(f'expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"')
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = []
    for text in _split(inside[1:-1]):
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        typed, equals, default = text.partition("=")
        name = typed.split()[-1]
        value = _default(default.strip()) if equals else inspect.Parameter.empty
        found.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(found)


def _split(text: str) -> Sequence[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _default(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text  # (the name of a dtype or a layout)
