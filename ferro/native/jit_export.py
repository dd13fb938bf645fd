"""Machine code of kernels in the form that loader.py loads: with entries for Python's calls, and nothing of Numba.

An entry looks whether the arguments are those that the kernel was compiled for (else it returns NotImplemented), reads
them out of Python's objects, lets go of the interpreter's lock, and calls the kernel. It neither copies nor counts
references: whoever calls holds the arguments. A second entry, "rows", calls the same code for chunks of rows that the
workers share, see jit_work_queue.py: it has six numbers in front of the kernel's arguments.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.np.arrayobj import make_array, populate_array

from ferro.native.jit import to_link
from ferro.native.jit_fields import READABLE, field_offset, from_python
from ferro.native.jit_work_queue import parts, spread_rows
from ferro.native.loader import LEADING, ROWS, SUPPORTED, pack

ENTRY = "ferro_entry"

_int8, _int32, _int64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_pointer = _int8.as_pointer()
entry_type = ir.FunctionType(_pointer, [_pointer, _pointer.as_pointer(), _int64])

_SCALARS = {"f4": types.float32, "f8": types.float64, "i8": types.int64, "b1": types.boolean}
_ACCEPTED = {
    types.float64: ("float", "float64", "int"),
    types.float32: ("float32", "float", "int"),
    types.int64: ("int", "int64"),
    types.boolean: ("bool",),
}


# --- signatures ------------------------------------------------------------------------------------------------------


def parse(signature: str) -> tuple[Any, ...]:
    """Numba's types for a signature as kernel.py writes it: "f4[2] i8 (i8 i8) b1"."""
    words = signature.replace("(", " ( ").replace(")", " ) ").split()
    found, rest = _sequence(words)
    if rest:
        raise ValueError(f"signature {signature!r} closes a tuple that it did not open")
    return found


def _sequence(words: list[str]) -> tuple[tuple[Any, ...], list[str]]:
    """The types up to the end or a closing bracket, and the words behind them."""
    found = []
    while words and words[0] != ")":
        word, *words = words
        if word == "(":
            inner, words = _sequence(words)
            words = words[1:]
            found.append(types.Tuple(inner))
        elif "[" in word:
            dtype, _, ndim = word.rstrip("]").partition("[")
            found.append(types.Array(_from_dtype(dtype), int(ndim), "C"))
        else:
            found.append(_SCALARS[word])
    return tuple(found), words


def _from_dtype(code: str) -> Any:
    from numba.np.numpy_support import from_dtype

    return from_dtype(np.dtype(code))


# --- the entry -------------------------------------------------------------------------------------------------------


class _Entry:
    """A function that Python calls, while it is written."""

    def __init__(self, context: Any, module: Any, kernel: Any, in_rows: bool):
        self.context, self.module = context, module
        function = ir.Function(module, entry_type, ENTRY + (ROWS if in_rows else ""))
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.refuse = function.append_basic_block("refuse")
        _, arguments, count = function.args
        b = self.builder
        kinds = (types.int64,) * (LEADING if in_rows else 0) + tuple(kernel.signature.args)
        self._unless(b.icmp_signed("==", count, _int64(len(kinds))))
        objects = [b.load(b.gep(arguments, [_int64(k)])) for k in range(len(kinds))]
        for kind, value in zip(kinds, objects, strict=True):
            self._check(kind, value)
        values = [self._read(kind, value) for kind, value in zip(kinds, objects, strict=True)]
        with b.if_then(cgutils.is_not_null(b, self._call("PyErr_Occurred", _pointer)), likely=False):
            b.ret(_pointer(None))
        state = self._call("PyEval_SaveThread", _pointer)
        kind, result, failed = self._in_rows(kernel, values) if in_rows else self._at_once(kernel, values)
        self._call("PyEval_RestoreThread", ir.VoidType(), state)
        with b.if_then(failed, likely=False):
            # Memory is all that a kernel can lack.
            b.ret(self._call("PyErr_NoMemory", _pointer))
        b.ret(self._boxed(kind, result))
        b.position_at_end(self.refuse)
        b.ret(self._new_reference("_Py_NotImplementedStruct"))

    def _at_once(self, kernel: Any, values: list) -> tuple[Any, Any, Any]:
        """The kernel's result, its type, and whether the call has failed."""
        kinds, kind = kernel.signature.args, kernel.signature.return_type
        callee = self.context.declare_function(self.module, kernel.fndesc)
        status, result = self.context.call_conv.call_function(
            self.builder, callee, kind, kinds, values, attrs=("noinline",)
        )
        return kind, result, status.is_error

    def _in_rows(self, kernel: Any, values: list) -> tuple[Any, Any, Any]:
        result, failed = spread_rows(self.context, self.builder, kernel, values[:LEADING], values[LEADING:])
        return types.int64, result, failed

    def _call(self, name: str, kind: Any, *arguments: Any) -> Any:
        return from_python(self.builder, name, kind, *arguments)

    def _object(self, name: str) -> Any:
        """The address of an object that the process has under that name."""
        if name not in self.module.globals:
            ir.GlobalVariable(self.module, _int8, name).linkage = "external"
        return self.module.globals[name]

    def _new_reference(self, name: str) -> Any:
        found = self._object(name)
        self._call("Py_IncRef", ir.VoidType(), found)
        return found

    def _unless(self, holds: Any) -> None:
        """Refuse the call unless the condition holds."""
        after = self.builder.append_basic_block("checked")
        self.builder.cbranch(holds, after, self.refuse)
        self.builder.position_at_end(after)

    def _field(self, value: Any, field: str, kind: Any = _pointer) -> Any:
        """What an object keeps in a field of layout.py."""
        return self._at(value, field_offset(self.builder, field), kind)

    def _at(self, value: Any, offset: Any, kind: Any = _pointer) -> Any:
        """What stands that many bytes behind an address."""
        place = self.builder.gep(value, [offset])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def _item(self, value: Any, k: int) -> Any:
        """An item of a tuple."""
        return self._at(value, self.builder.add(field_offset(self.builder, "tuple.items"), _int64(8 * k)))

    def _one_of(self, value: Any, names: tuple[str, ...]) -> None:
        """Refuse the call unless the object has one of these types."""
        found = self._field(value, "type")
        first, *others = [self.builder.icmp_unsigned("==", found, self._object(f"type.{name}")) for name in names]
        self._unless(reduce(self.builder.or_, others, first))

    def _check(self, kind: Any, value: Any) -> None:
        """Refuse the call unless the object is of that kind."""
        b = self.builder
        if _is_tuple(kind):
            self._one_of(value, ("tuple",))
            self._unless(b.icmp_signed("==", self._field(value, "tuple.size", _int64), _int64(len(kind))))
            for k, item in enumerate(kind):
                self._check(item, self._item(value, k))
        elif isinstance(kind, types.Array):
            self._one_of(value, ("array",))
            description = self._field(value, "array.dtype")
            self._unless(b.icmp_signed("==", self._field(value, "array.ndim", _int32), _int32(kind.ndim)))
            self._unless(
                b.icmp_unsigned("==", self._field(description, "dtype.num", _int32), _int32(_number(kind.dtype)))
            )
            self._unless(b.icmp_unsigned("!=", self._field(description, "dtype.byteorder", _int8), _int8(ord(">"))))
            flags = b.and_(self._field(value, "array.flags", _int32), _int32(READABLE))
            self._unless(b.icmp_unsigned("==", flags, _int32(READABLE)))
        else:
            self._one_of(value, _ACCEPTED[kind])

    def _read(self, kind: Any, value: Any) -> Any:
        """The object as Numba passes it on."""
        b = self.builder
        if _is_tuple(kind):
            items = [self._read(item, self._item(value, k)) for k, item in enumerate(kind)]
            return self.context.make_tuple(b, kind, items)
        if isinstance(kind, types.Array):
            return self._array(kind, value)
        if kind == types.boolean:
            return b.icmp_signed("!=", self._call("PyObject_IsTrue", _int32, value), _int32(0))
        if kind == types.int64:
            return self._call("PyLong_AsLongLong", _int64, value)
        number = self._call("PyFloat_AsDouble", ir.DoubleType(), value)
        return b.fptrunc(number, ir.FloatType()) if kind == types.float32 else number

    def _array(self, kind: Any, value: Any) -> Any:
        b = self.builder
        array = make_array(kind)(self.context, b)
        size = self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype))
        lengths, strides = self._field(value, "array.shape"), self._field(value, "array.strides")
        populate_array(
            array,
            data=b.bitcast(self._field(value, "array.data"), array.data.type),
            shape=[self._at(lengths, _int64(8 * k), _int64) for k in range(kind.ndim)],
            strides=[self._at(strides, _int64(8 * k), _int64) for k in range(kind.ndim)],
            itemsize=_int64(size),
            meminfo=None,
        )
        return array._getvalue()

    def _boxed(self, kind: Any, value: Any) -> Any:
        """A result as an object."""
        if kind == types.none:
            return self._new_reference("_Py_NoneStruct")
        if kind == types.boolean:
            return self._call("PyBool_FromLong", _pointer, self.builder.zext(value, _int64))
        if kind == types.float64:
            return self._call("PyFloat_FromDouble", _pointer, value)
        if kind == types.int64:
            return self._call("PyLong_FromLongLong", _pointer, value)
        raise TypeError(f"a kernel returns None, bool, int or float, not {kind}")


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple)


def _number(kind: Any) -> int:
    from numba.np.numpy_support import as_dtype

    return as_dtype(kind).num


# --- the object file -------------------------------------------------------------------------------------------------


@global_compiler_lock
def export(compiler: Callable[..., Any], signature: str) -> bytes:
    """The machine code of a kernel, compiled for a signature, as loader.py reads it; `compiler` as a Kernel has it.

    Nothing where only Numba can run it. Then Numba keeps the code on disk.
    """
    kinds, dispatcher = parse(signature), compiler()
    dispatcher.compile(kinds)
    if not SUPPORTED:
        compiler(True).compile((types.int64,) * LEADING + kinds)
        return b""
    kernel = dispatcher.overloads[kinds]

    def write_entries(context: Any, module: Any) -> None:
        for in_rows in (False, True):
            _Entry(context, module, kernel, in_rows)

    return assembled(dispatcher.targetctx, parts(kernel), write_entries)


def assembled(context: Any, compiled: list[Any], write_entries: Callable[[Any, Any], object]) -> bytes:
    """The machine code of compiled functions and of the entries to them, which are written into a module."""
    library = context.codegen().create_library("export")
    module = library.create_ir_module("entry")
    write_entries(context, module)
    library.add_ir_module(module)
    # The kernels have been optimised; what nobody calls goes. (The library is not finished, which would run it here.)
    for each in to_link([each.library for each in compiled]):
        library._final_module.link_in(each._get_module_for_linking(), preserve=True)
    machine = context.codegen()._tm
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library._final_module, binding.create_pass_builder(machine, binding.PipelineTuningOptions()))
    try:
        return _linked(machine.emit_object(library._final_module))
    except ValueError:  # an object file of another kind than is expected
        return b""


_SYMBOLS, _ADDRESSES = 2, 4  # kinds of sections
_ALLOCATED, _UNDEFINED, _COMMON, _ABSOLUTE64 = 2, 0, 0xFFF2, 1


def _linked(elf: bytes) -> bytes:
    """The sections of an object file that are needed to run, one behind the other, and the addresses to fill in."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + size * k) for k in range(count)]

    def text(section: int, offset: int) -> str:
        begin = sections[section][4] + offset
        return elf[begin : elf.index(b"\0", begin)].decode()

    code, starts = bytearray(), {}
    for k, (name, kind, flags, _, offset, length, _, _, align, _) in enumerate(sections):
        if flags & _ALLOCATED and length and text(names_at, name) != ".eh_frame":
            if flags & 1 or kind == 8:
                raise ValueError(f"section {text(names_at, name)} is written to")
            code += bytes(-len(code) % max(align, 1))
            starts[k] = len(code)
            code += elf[offset : offset + length]

    undefined: list[str] = []
    places: list[tuple[int, int]] = []  # of symbols: (the number of the undefined one or -1, the value)
    entries = {}
    (symbols,) = [s for s in sections if s[1] == _SYMBOLS]
    for k in range(symbols[5] // 24):
        name, _, _, section, value, length = struct.unpack_from("<IBBHQQ", elf, symbols[4] + 24 * k)
        label = text(symbols[6], name)
        if section == _UNDEFINED:
            if label not in undefined:
                undefined.append(label)
            places.append((undefined.index(label), 0))
        elif section == _COMMON:  # where Numba would put the constants of Python code, of which kernels have none
            code += bytes(-len(code) % 16)
            places.append((-1, len(code)))
            code += bytes(length)
        else:
            places.append((-1, starts.get(section, 0) + value))
        if label.startswith(ENTRY):
            entries[label.removeprefix(ENTRY)] = starts[section] + value
    addresses = []
    for _, kind, _, _, offset, length, _, target, _, _ in sections:
        if kind == _ADDRESSES and target in starts:
            for k in range(length // 24):
                place, info, addend = struct.unpack_from("<QQq", elf, offset + 24 * k)
                if info & 0xFFFFFFFF != _ABSOLUTE64:
                    raise ValueError(f"an address of kind {info & 0xFFFFFFFF} is not one that loader.py fills in")
                symbol, value = places[info >> 32]
                addresses.append((starts[target] + place, symbol, value + addend))
    used = sorted({symbol for _, symbol, _ in addresses if symbol >= 0})
    number = {symbol: k for k, symbol in enumerate(used)} | {-1: -1}
    addresses = [(place, number[symbol], addend) for place, symbol, addend in addresses]
    return pack(bytes(code), entries, [undefined[symbol] for symbol in used], addresses)
