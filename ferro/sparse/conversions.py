"""Copies, other dtypes and layouts of sparse tensors, and empty tensors like them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro import functional as F
from ferro.core import backend
from ferro.core.arguments import sizes, with_size
from ferro.core.dtypes import type_name
from ferro.core.layout import preserve_format, sparse_coo, strided, title
from ferro.sparse import making
from ferro.sparse.rules import RULES, refused, rule, same_shape
from ferro.sparse.tensor import SparseTensor, is_sparse


def _only_preserved(name: str, input: Any, memory_format: Any) -> None:
    """RuntimeError for a memory format other than that of the tensor, which has none."""
    if memory_format not in (None, preserve_format):
        kind = "COO" if input.kind is sparse_coo else "Csr"
        raise RuntimeError(
            f"{name}: to(options): {kind} only supports memory format Preserve, but got {_spelled(memory_format)} instead"
        )


def _spelled(memory_format: Any) -> str:
    """A memory format as PyTorch's messages name it."""
    return "".join([part.capitalize() for part in memory_format.name.removesuffix("_format").split("_")])


@rule("clone", compressed=True)
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy; gradients flow through it unchanged."""
    if memory_format is not None:
        raise RuntimeError(f"clone: unsupported memory format option {_spelled(memory_format)} for a sparse tensor")
    return SparseTensor(input.place.copy(), F.clone(input.kept), input.extent, input.unique, input.kind)


@rule("contiguous", compressed=True)
def contiguous(self: Any, memory_format: Any = None) -> Any:
    """The tensor itself: its indices and values have one order only."""
    return self


@rule("detach", compressed=True)
def detach(input: Any) -> Any:
    """The same indices and values without history."""
    return input.with_values(input.kept.detach())


@rule("detach_", compressed=True)
def detach_(input: Any) -> Any:
    """The tensor itself, from now on without history."""
    input.kept = input.kept.detach()
    return input


# -- another dtype -----------------------------------------------------------------------------------------------------


@rule("to", compressed=True)
def to(self: Any, *args: Any, copy: bool = False, memory_format: Any = None, **kwargs: Any) -> Any:
    """The tensor with another dtype."""
    _only_preserved("to", self, memory_format)
    args = tuple([a.kept if is_sparse(a) else a for a in args])
    kept = self.kept.to(*args, copy=copy, **kwargs)
    if kept is self.kept:
        return self
    place = backend.moved(self.place, backend.device_of(kept._data))
    place = place.copy() if copy and place is self.place else place
    return SparseTensor(place, kept, (*self.extent[: self.sparse_dim()], *kept.shape[1:]), self.unique, self.kind)


def _cast(name: str) -> Callable:
    """The rule of the method of tensors that casts to the dtype of this name."""

    def method(self: Any, memory_format: Any = None) -> Any:
        _only_preserved(name, self, memory_format)
        kept = getattr(self.kept, name)()
        return self if kept is self.kept else self.with_values(kept)

    return method


for _name in [
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
]:
    RULES[_name] = _cast(_name)


@rule("type_as", compressed=True)
def type_as(self: Any, other: Any) -> Any:
    """The tensor with the dtype of another."""
    return to(self, other.dtype)


@rule("type", compressed=True)
def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the old type, or the tensor with another dtype."""
    if dtype is not None:
        return to(self, dtype)
    if self.kind is not sparse_coo:
        raise RuntimeError(
            f"type: Unimplemented backend SparseCsrCPU: tensors of the layout {title(self.kind)} have no old type"
        )
    return f"torch.sparse.{type_name(self.dtype)}Tensor"


@rule("cpu", compressed=True)
def cpu(self: Any, memory_format: Any = None) -> Any:
    """The tensor on the processor; itself where it lies there."""
    return to(self, "cpu")


@rule("cuda", compressed=True)
def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """The tensor on the GPU."""
    return to(self, "cuda" if device is None else device)


# -- tensors like it ---------------------------------------------------------------------------------------------------


@rule("zeros_like", compressed=True)
def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A sparse tensor of the same shape without values, or a dense one of zeros."""
    layout = input.kind if layout is None else layout
    dtype = input.dtype if dtype is None else dtype
    if layout is strided:
        found = F.zeros(input.extent, dtype=dtype)
        if memory_format not in (None, preserve_format):  # (a sparse tensor has none to preserve)
            found = found.contiguous(memory_format=memory_format)
        return found.requires_grad_(requires_grad)
    if memory_format is not None:
        raise RuntimeError(
            f"memory format option is only supported by strided tensors, got {memory_format} for a sparse one"
        )
    found = making.none(input.extent, input.sparse_dim(), dtype).as_layout(layout)
    return found.requires_grad_(requires_grad)


@rule("empty_like", compressed=True)
def empty_like(input: Any, *, dtype: Any = None, layout: Any = None, **options: Any) -> Any:
    """zeros_like; of a compressed matrix, one with the same indices and values that are not set."""
    if input.kind is sparse_coo or layout not in (None, input.kind) or options.get("memory_format") is not None:
        return zeros_like(input, dtype=dtype, layout=layout, **options)
    return input.with_values(F.empty_like(input.kept, dtype=dtype).requires_grad_(options.get("requires_grad", False)))


@rule("zeros", "empty")
def zeros(
    *shape: Any, size: Any = None, out: Any, dtype: Any = None, requires_grad: bool = False, **ignored: Any
) -> Any:
    """zeros(out=sparse): lets go of all values and takes a shape."""
    shape = sizes("zeros", with_size("zeros", shape, size))
    if dtype is not None and dtype != out.dtype:
        raise RuntimeError(f"zeros: dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    return out.take(making.none(shape, len(shape), out.dtype).requires_grad_(requires_grad or out.requires_grad))


@rule("new_empty", "new_zeros", compressed=True)
def new_empty(
    self: Any,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A sparse tensor of another shape without values."""
    shape = sizes("new_empty", with_size("new_empty", shape, size))
    found = making.none(shape, len(shape), self.dtype if dtype is None else dtype)
    return found.as_layout(self.kind if layout is None else layout).requires_grad_(requires_grad)


@rule("new")
def new(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The old constructor."""
    return making.of_old("SparseTensor.new", self.dtype, args, kwargs)


# -- other content -----------------------------------------------------------------------------------------------------


@rule("zero_", compressed=True)
def zero_(self: Any) -> Any:
    """Lets go of all values."""
    return self.take(zeros_like(self))


@rule("copy_", compressed=True)
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Takes the indices and values of another sparse tensor of the same shape and layout."""
    if not (is_sparse(self) and is_sparse(src)):
        names = [
            type_(x) if is_sparse(x) and x.kind is sparse_coo else f"torch.{type_name(x.dtype)}Tensor"
            for x in (self, src)
        ]
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{names[0]} and src type = {names[1]}"
        )
    if self.kind is not src.kind:
        raise refused(
            "copy_",
            f"copy of sparse tensors having different layouts is not supported: {title(self.kind)} and {title(src.kind)}",
        )
    same_shape("copy_", self, src)
    return self.take(
        SparseTensor(src.place.copy(), src.kept.to(self.dtype, copy=True), src.extent, src.unique, src.kind)
    )
