"""Functions that Python calls for arrays: they read the arguments, make the result, and call a kernel.

A call of a NumPy function costs a quarter of a microsecond whatever it computes, and functions of several steps a
multiple of it. An entry is a kernel with all that stands around it in Python: it looks whether the arguments are those
it is made for (C-contiguous arrays of one dtype, Python's numbers), makes the array of the result, computes, and returns
it. Anything else goes to the function that it stands in front of. Many entries take large arrays too and share the kernel
among the workers, see jit_work_queue.py: after an array has gone through the caches, Python's functions take a microsecond
each, and a kernel in front of a dozen of them 30. What an entry is called with is said by a layout, see jit_layouts.py.

Note [Entries of one layout]
    Entries of the same layout and dtype differ in the names of the kernels that they call, and in nothing else. The first
    one is compiled; the others are its text, optimised already, with other names. This took a quarter of the time off.
"""

from __future__ import annotations

import re
from copy import copy
from itertools import count as numbering
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from ferro.native import jit_arrays, jit_fields, jit_interpreter, jit_views
from ferro.native.jit import LATE, device, link_late
from ferro.native.jit import kernel as as_kernel
from ferro.native.jit_export import ENTRY, assembled, entry_type
from ferro.native.jit_fields import from_python, load64, store64, the_workers
from ferro.native.jit_interpreter import call, release
from ferro.native.jit_layouts import REPEATED, source
from ferro.native.jit_work_queue import freely_in_rows
from ferro.native.loader import SUPPORTED, address
from ferro.native.thresholds import (
    CHUNK,
    ENTRY_ALONE,
    ENTRY_BLOCK,
    ENTRY_COLUMNS,
    ENTRY_FULL,
    ENTRY_MOST,
    MOST_CHUNKS,
    SMALL,
    VIEW_LEAST,
)
from ferro.native.work_queue import ASLEEP, BUDGET, CORES, GATHER, MEMBERS, QUEUE, RUNS, WANTED

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_i64 = types.int64
_int64, _int8 = ir.IntType(64), ir.IntType(8)
SYMBOLS = (
    "numpy.94",
    "numpy.45",
    *[f"type.{name}" for name in ("array", "tuple", "float", "int", "bool")],
    "ferro.layout",
    "ferro.tape",
    "ferro.workers",
)

# --- what entries call ------------------------------------------------------------------------------------------------


@intrinsic
def freely(typing, function, free, values):
    """function(*values), meanwhile without the interpreter's lock if `free`."""
    signature = function.get_call_type(typing, values.types, {})

    def generate(context, builder, _signature, args):
        compiled = function.dispatcher.get_compile_result(signature)
        link_late(context, compiled)
        pointer = _int8.as_pointer()
        state = cgutils.alloca_once_value(builder, pointer(None))
        with builder.if_then(args[1]):
            builder.store(from_python(builder, "PyEval_SaveThread", pointer), state)
        items = [builder.extract_value(args[2], k) for k in range(len(values.types))]
        status, result = context.call_internal_no_propagate(builder, compiled.fndesc, signature, items)
        with builder.if_then(args[1]):
            from_python(builder, "PyEval_RestoreThread", ir.VoidType(), builder.load(state))
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return signature.return_type(function, types.boolean, values), generate


@device
def queue():
    return load64(the_workers() + 8 * QUEUE)


@device
def wanted_here():
    """The array that the result may be written into, or 0; see `put_into`."""
    return load64(the_workers() + 8 * WANTED)


@device
def want(array):
    """Let the entry of an elementwise function that is called next write its result into an array, or (0) into a new one."""
    store64(the_workers() + 8 * WANTED, array)


@device
def helpers():
    """How many threads may help with a kernel now, as workers.py counts them. They are called together; -1 if that fails."""
    shared = the_workers()
    count = min(load64(shared + 8 * BUDGET), load64(shared + 8 * CORES)) - 1
    if count < 1 or load64(shared + 8 * RUNS) != 0:
        return 0
    if load64(shared + 8 * MEMBERS) < count or load64(queue() + 8 * ASLEEP) != 0:
        done = call(load64(shared + 8 * GATHER), 0, 0, 0)
        if done == 0:
            return -1
        release(done)
    return count if queue() != 0 else 0


# --- from a layout to machine code --------------------------------------------------------------------------------------


# The names in the texts of entries: what they call, and thresholds.
_NAMES: dict[str, Any] = {
    **vars(jit_fields),
    **vars(jit_interpreter),
    **vars(jit_arrays),
    **vars(jit_views),
    "freely": freely,
    "freely_in_rows": freely_in_rows,
    "queue": queue,
    "helpers": helpers,
    "wanted_here": wanted_here,
    "want": want,
    "np": np,
    "MOST": ENTRY_MOST,
    "FULL": ENTRY_FULL,
    "LEAST": SMALL,
    "ALONE": ENTRY_ALONE,
    "GRAIN": CHUNK,
    "CHUNKS": MOST_CHUNKS,
    "COLUMNS": ENTRY_COLUMNS,
    "BLOCK": ENTRY_BLOCK,
    "VIEW_LEAST": VIEW_LEAST,
}


class Entry(NamedTuple):
    """What an entry is made of: see `make`."""

    function: Any
    kernels: tuple[Any, ...]
    kind: tuple[Any, ...]  # layout and dtype: entries of one kind differ in their kernels alone


def make(kernel: Any, layout: str, dtype: Any, large: Any = None, other: Any = None) -> Entry:
    """The entry of a kernel. `large` is the kernel for large arrays where the layout has dims, or with `other` those where
    one array repeats another, see REPEATED in jit_layouts.py.

    It is compiled from a function of the address and the number of arguments (Python's own way of calling), which returns
    the address of the result, 0 for arguments that it is not made for, and -1 if there is no memory.
    """
    kind = np.dtype(dtype)
    scope = {**_NAMES, "kernel": kernel, "large": large, "other": other, "T": dtype}
    scope |= {"number": kind.num, "width": kind.itemsize}
    exec(compile(source(layout, "near" if other else "entry"), f"<entry {kernel.__name__}>", "exec"), scope)
    if other:
        scope["near"] = device(scope["near"])
        exec(compile(REPEATED, f"<entry {kernel.__name__}>", "exec"), scope)
    return Entry(scope["entry"], (kernel, large, other), (layout, bool(other), kind.char))


class _Compiled(NamedTuple):
    """A function that is compiled, as Numba has it: its name and types, and the library with its code."""

    fndesc: Any
    library: Any


class _Renamed:
    """A library whose code is that of another one, with other names."""

    _linking_libraries = ()

    def __init__(self, module: Any):
        self.module = module

    def _get_module_for_linking(self) -> Any:
        return self.module


_first: dict[tuple[Any, ...], tuple[Entry, Any]] = {}  # of the entries of a kind, and what it was compiled to
_numbers = numbering()  # behind names, to tell them apart


def _compiled(entry: Any) -> Any:
    """An entry, or the function of one that no layout describes, compiled."""
    same = _renamed(entry, *_first[entry.kind]) if isinstance(entry, Entry) and entry.kind in _first else None
    if same is not None:
        return same
    made = as_kernel(entry.function if isinstance(entry, Entry) else entry)
    made.compile((_i64, _i64))
    found = made.overloads[_i64, _i64]
    if isinstance(entry, Entry):
        _first[entry.kind] = entry, found
    return found


def _called_late(library: Any) -> list[Any]:
    """What the code of a library calls that is linked late, by itself or by what has been compiled into it."""
    found, left = {}, [library]
    while left:
        each = left.pop()
        found |= {other.fndesc.mangled_name: other for other in LATE.get(each, ())}
        left += each._linking_libraries
    return list(found.values())


def _renamed(entry: Entry, first: Entry, compiled: Any) -> _Compiled | None:
    """An entry from the first of its kind, which is compiled; None where it cannot be: see Note [Entries of one layout]."""
    fndesc = copy(compiled.fndesc)
    fndesc.mangled_name = f"{fndesc.mangled_name}.{next(_numbers)}"
    names, called = {compiled.fndesc.mangled_name: fndesc.mangled_name}, []
    for other in _called_late(compiled.library):
        found = other
        for theirs, ours in zip(first.kernels, entry.kernels, strict=True):
            if theirs is not None and other in theirs.overloads.values():
                ours.compile(other.signature.args)
                found = ours.overloads[other.signature.args]
                names[other.fndesc.mangled_name] = found.fndesc.mangled_name
        if found.signature != other.signature:
            return None
        called.append(found)
    if len(names) < 2:  # the kernel's code is within the entry's
        return None
    words = "|".join(map(re.escape, names))
    text = re.sub(rf"(?<![\w.$])({words})(?![\w.$])", lambda word: names[word[0]], compiled.library.get_llvm_str())
    library = _Renamed(binding.parse_assembly(text))
    LATE[library] = called
    return _Compiled(fndesc, library)


def export(entries: dict[str, Any]) -> bytes:
    """The machine code of entries by name, or of functions of the address and the number of arguments: see `make`."""
    if not SUPPORTED:
        return b""
    for symbol in SYMBOLS:
        binding.add_symbol(symbol, address(symbol))
    with global_compiler_lock:
        compiled = [_compiled(entry) for entry in entries.values()]

        def write_entries(context: Any, module: Any) -> None:
            for name, function in zip(entries, compiled, strict=True):
                _write_entry(context, module, name, function)

        return assembled(cpu_target.target_context, compiled, write_entries)


def _write_entry(context: Any, module: Any, name: str, compiled: Any) -> None:
    """What Python calls: function(fallback, arguments, count)."""
    entry = ir.Function(module, entry_type, f"{ENTRY}{name}")
    fallback, objects, count = entry.args
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    null = fallback.type(None)

    callee = context.declare_function(module, compiled.fndesc)
    given = [builder.ptrtoint(objects, _int64), count]
    status, result = context.call_conv.call_function(builder, callee, _i64, (_i64, _i64), given)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(from_python(builder, "PyErr_NoMemory", fallback.type))
    with builder.if_then(builder.icmp_signed("==", result, _int64(0)), likely=False):
        builder.ret(from_python(builder, "PyObject_Vectorcall", fallback.type, fallback, objects, count, null))
    failed = builder.icmp_signed("==", result, _int64(-1))
    builder.ret(builder.select(failed, null, builder.inttoptr(result, null.type)))
