"""The fields of Python's and NumPy's objects as machine code reads them: by the offsets that layout.py has measured.

An object is the number of its address here. Offsets stand in the table of layout.py, whose address is filled in when the
code is loaded: no compiled code holds an offset itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ferro.native.layout import FIELDS

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64 = types.int64
_int64, _int32, _int8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_table_type = ir.ArrayType(_int64, len(FIELDS))
READABLE = 0x101  # of an array's flags: C-contiguous and aligned
ALIGNED, WRITABLE = 0x100, 0x400


def external(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the process."""
    return types.ExternalFunction(name, result(*arguments))


# --- memory ----------------------------------------------------------------------------------------------------------


def _by_numbers(builder: Any) -> None:
    """Tell LLVM that the function reads or writes at an address that it has as a number.

    LLVM makes of it a distance from the null pointer, and would else conclude that nothing can lie there.
    """
    set.add(builder.function.attributes, "null_pointer_is_valid")  # (see `whole_registers` in jit.py)


def _field(kind: Any) -> Any:
    """An intrinsic that reads a signed number of that width at an address."""

    def read(_typing, _address):
        def generate(_context, builder, _signature, args):
            _by_numbers(builder)
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
            return value if kind is _int64 else builder.sext(value, _int64)

        return _i64(_i64), generate

    return intrinsic(read)


load64, load32, load8 = _field(_int64), _field(_int32), _field(_int8)


@intrinsic
def store64(_typing, address, value):
    """Write 64 bits."""

    def generate(context, builder, _signature, args):
        _by_numbers(builder)
        builder.store(args[1], builder.inttoptr(args[0], _int64.as_pointer()))
        return context.get_dummy_value()

    return types.none(_i64, _i64), generate


def address_of(name: str) -> Any:
    """An intrinsic that gives the address of an object of the process."""

    def address(_typing):
        def generate(_context, builder, _signature, _args):
            module = builder.module
            if name not in module.globals:
                ir.GlobalVariable(module, _int8, name).linkage = "external"
            return builder.ptrtoint(module.globals[name], _int64)

        return _i64(), generate

    return intrinsic(address)


array_type, tuple_type, float_type, int_type, bool_type = [
    address_of(f"type.{name}") for name in ("array", "tuple", "float", "int", "bool")
]
the_none, the_true, the_false = [address_of(f"_Py_{name}Struct") for name in ("None", "True", "False")]
text_type, the_workers = address_of("PyUnicode_Type"), address_of("ferro.workers")


@intrinsic
def room(_typing):
    """The address of 64 words in the caller's frame."""

    def generate(_context, builder, _signature, _args):
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_int64, 64)), _int64)

    return _i64(), generate


# --- fields ----------------------------------------------------------------------------------------------------------


def field_offset(builder: Any, field: str) -> Any:
    """Emit the look-up of an offset in the table of layout.py."""
    module = builder.module
    if "ferro.layout" not in module.globals:
        ir.GlobalVariable(module, _table_type, "ferro.layout").linkage = "external"
    place = builder.gep(module.globals["ferro.layout"], [_int32(0), _int32(FIELDS.index(field))])
    found = builder.load(place)
    found.set_metadata("invariant.load", module.add_metadata([]))  # the table is filled before any code is loaded
    return found


def _reader(field: str, kind: Any = _int64) -> Any:
    """A function that gives what an object keeps in a field."""

    def read(_typing, _object):
        def generate(_context, builder, _signature, args):
            _by_numbers(builder)
            place = builder.add(args[0], field_offset(builder, field))
            value = builder.load(builder.inttoptr(place, kind.as_pointer()))
            return value if kind is _int64 else builder.sext(value, _int64)

        return _i64(_i64), generate

    return intrinsic(read)


class_of, count_of, list_count, list_items = map(_reader, ("type", "tuple.size", "list.size", "list.items"))
data_of, shape_of, strides_of, base_of, dtype_of = map(
    _reader, ("array.data", "array.shape", "array.strides", "array.base", "array.dtype")
)
ndim_of, flags_of, number_of = [_reader(field, _int32) for field in ("array.ndim", "array.flags", "dtype.num")]
byteorder_of = _reader("dtype.byteorder", _int8)


@intrinsic
def items_of(_typing, items):
    """The address of the places of a tuple's items."""

    def generate(_context, builder, _signature, args):
        return builder.add(args[0], field_offset(builder, "tuple.items"))

    return _i64(_i64), generate


def from_python(builder: Any, name: str, kind: Any, *arguments: Any) -> Any:
    """Emit a call of a function of Python's C interface."""
    declared = ir.FunctionType(kind, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, declared, name), arguments)
