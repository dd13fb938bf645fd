"""Chunks of a kernel computed by several threads without the interpreter: the queue they meet at, and who does what.

Note [The work queue]
    The caller writes into the queue what is to be done, and makes the ticket odd. Threads that `serve` watch the ticket:
    they sign in, look whether it is still the same, and take chunks until none is left. The caller takes chunks like
    the others, then makes the ticket even, and waits for those who have signed in. So a thread that comes late costs
    nothing: who signs in after the last chunk finds another ticket, and leaves the queue as it is. All accesses are
    sequentially consistent; that makes "sign in, then look" and "close, then count" safe against each other.

    Every thread has a share of the chunks, which it takes first: what one kernel leaves in a core's cache, the next one
    reads there. Who is done takes what is left of the others' shares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ferro.native.jit import device, kernel, link_late
from ferro.native.jit_fields import from_python
from ferro.native.work_queue import (
    ASLEEP,
    BODY,
    BUSY,
    CALLS,
    CHUNKS,
    CONDITION,
    HALT,
    INSIDE,
    LIMIT,
    MUTEX,
    NEXT,
    TICKET,
    WORK,
)

LOOKS = 4096  # some 50 us: who is waited for that long may be kept off its core by somebody else's thread

# Many rows are cut at multiples of whole registers: what is left over behind them, which LLVM may compute by other
# instructions, is then left over for any number of chunks.
MANY, EVEN = 4096, 64

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_int = ir.IntType(64)
_pointer = ir.IntType(8).as_pointer()
_body_type = ir.FunctionType(ir.VoidType(), [_pointer, _int])
_i64: Any = types.int64


# --- what Numba has no words for -------------------------------------------------------------------------------------


def _place(builder: Any, queue: Any, place: Any) -> Any:
    return builder.gep(builder.inttoptr(queue, _int.as_pointer()), [place])


@intrinsic
def _load(_typing, queue, place):
    def generate(_context, builder, _signature, args):
        return builder.load_atomic(_place(builder, *args), "seq_cst", 8)

    return _i64(_i64, _i64), generate


@intrinsic
def _swap(_typing, queue, place, value):
    """Write, and return what was there."""

    def generate(_context, builder, _signature, args):
        return builder.atomic_rmw("xchg", _place(builder, *args[:2]), args[2], "seq_cst")

    return _i64(_i64, _i64, _i64), generate


@intrinsic
def _add(_typing, queue, place, value):
    """Add, and return what was there before."""

    def generate(_context, builder, _signature, args):
        return builder.atomic_rmw("add", _place(builder, *args[:2]), args[2], "seq_cst")

    return _i64(_i64, _i64, _i64), generate


@intrinsic
def _pause(_typing):
    """Tell the processor that this is a loop of waiting."""

    def generate(context, builder, _signature, _args):
        if llvmlite.binding.get_default_triple().startswith(("x86_64", "i686")):
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), name), [])
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def call_body(_typing, body, work, chunk):
    """Call the function at the address `body`."""

    def generate(context, builder, _signature, args):
        function = builder.inttoptr(args[0], _body_type.as_pointer())
        builder.call(function, [builder.inttoptr(args[1], _pointer), args[2]])
        return context.get_dummy_value()

    return types.none(_i64, _i64, _i64), generate


def _system(name: str, arguments: int) -> Any:
    """A function of the C library that takes addresses and returns an int."""
    return types.ExternalFunction(name, types.int32(*[_i64] * arguments))


_give_way = _system("sched_yield", 0)
_init_mutex, _lock, _unlock = map(
    _system, ("pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock"), (2, 1, 1)
)
_init_condition, _wait, _wake_all = map(
    _system, ("pthread_cond_init", "pthread_cond_wait", "pthread_cond_broadcast"), (2, 2, 1)
)


# --- the two sides of the queue --------------------------------------------------------------------------------------


@device
def _take(queue, me, threads, chunks, body, work):
    """Call body(work, chunk) for chunks that nobody else has taken, those of the own share first."""
    for k in range(threads):
        share = (me + k) % threads
        first, stop = chunks * share // threads, chunks * (share + 1) // threads
        while True:
            chunk = first + _add(queue, NEXT + 8 * share, 1)
            if chunk >= stop:
                break
            call_body(body, work, chunk)


@kernel
def _lead(queue, limit, chunks, body, work):
    """Have body(work, chunk) called for every chunk, by this thread and up to `limit` of those that serve.

    Returns how many were asleep when it was done.
    """
    if limit < 1 or _swap(queue, BUSY, 1):  # alone, or the threads serve another caller
        for chunk in range(chunks):
            call_body(body, work, chunk)
        return 0
    for share in range(limit + 1):
        _swap(queue, NEXT + 8 * share, 0)
    _swap(queue, LIMIT, limit)
    _swap(queue, CHUNKS, chunks)
    _swap(queue, BODY, body)
    _swap(queue, WORK, work)
    _add(queue, TICKET, 1)
    _take(queue, 0, limit + 1, chunks, body, work)
    _add(queue, TICKET, 1)
    looks = 0
    while _load(queue, INSIDE) > 0:
        _pause()
        looks += 1
        if looks % LOOKS == 0:
            _give_way()
    _swap(queue, BUSY, 0)
    return _load(queue, ASLEEP)


@kernel
def set_up(queue):
    """Make a queue of zeros ready."""
    _init_mutex(queue + 8 * MUTEX, 0)
    _init_condition(queue + 8 * CONDITION, 0)


@kernel
def wake(queue):
    """Call those that sleep."""
    _lock(queue + 8 * MUTEX)
    _add(queue, CALLS, 1)
    _wake_all(queue + 8 * CONDITION)
    _unlock(queue + 8 * MUTEX)


@device
def _sleep(queue):
    """Until the next call."""
    _lock(queue + 8 * MUTEX)
    calls = _load(queue, CALLS)
    _add(queue, ASLEEP, 1)
    while _load(queue, CALLS) == calls and _load(queue, HALT) == 0:
        _wait(queue + 8 * CONDITION, queue + 8 * MUTEX)
    _add(queue, ASLEEP, -1)
    _unlock(queue + 8 * MUTEX)


@kernel
def serve(queue, me, patience, busy):
    """Take part in what is in the queue as number `me`, asleep when nothing has come for `patience` looks at it.

    At the address `busy` stands whether threads of Python have the cores: then it sleeps at once, for it would keep one of
    them off its core. Returns when a halt is called.

    A thread that returned to Python to sleep would ask for the interpreter's lock, which costs its holder 100 us.
    """
    last = 0
    looks = 0
    while _load(queue, HALT) == 0:
        ticket = _load(queue, TICKET)
        if ticket % 2 == 0 or ticket == last:
            if looks >= patience or _load(busy, 0) != 0:
                _sleep(queue)
                looks = 0
            _pause()
            looks += 1
            continue
        _add(queue, INSIDE, 1)
        limit = _load(queue, LIMIT)
        if me <= limit and _load(queue, TICKET) == ticket:
            _take(queue, me, limit + 1, _load(queue, CHUNKS), _load(queue, BODY), _load(queue, WORK))
        _add(queue, INSIDE, -1)
        last = ticket
        looks = 0


# --- from a kernel to chunks -----------------------------------------------------------------------------------------


def spread_rows(context: Any, builder: Any, kernel: Any, numbers: list[Any], values: list[Any]) -> tuple[Any, Any]:
    """Emit a call of a compiled kernel for every chunk; `numbers` and what a chunk gets of the values: see `over_rows`.

    What the chunks need lies in the caller's frame: whether a call has failed, whether one has returned False, and the
    values. Gives how many threads are asleep, or -1 if a call has returned False, and whether one has failed.
    """
    one = ir.IntType(1)
    queue, limit, *rest = numbers
    record = ir.LiteralStructType([one, one, *[value.type for value in (*rest, *values)]])
    frame = cgutils.alloca_once(builder, record)
    for k, value in enumerate([one(0), one(0), *rest, *values]):
        builder.store(value, cgutils.gep_inbounds(builder, frame, 0, k))
    body = _body(context, builder.module, kernel, record)
    lead = _lead_compiled()
    given = [queue, limit, rest[0], builder.ptrtoint(body, _int), builder.ptrtoint(frame, _int)]
    _, asleep = context.call_internal_no_propagate(builder, lead.fndesc, lead.signature, given)
    failed, declined = [builder.load(cgutils.gep_inbounds(builder, frame, 0, k)) for k in (0, 1)]
    return builder.select(declined, _int(-1), asleep), failed


def _body(context: Any, module: Any, kernel: Any, record: Any) -> Any:
    """The function that `_lead` has called: the kernel for a chunk, of what stands in a record."""
    body = ir.Function(module, _body_type, module.get_unique_name("chunk"))
    body.linkage = "internal"
    builder = ir.IRBuilder(body.append_basic_block("entry"))
    place = builder.bitcast(body.args[0], record.as_pointer())
    found = [builder.load(cgutils.gep_inbounds(builder, place, 0, k)) for k in range(2, len(record.elements))]
    signature = kernel.signature
    arguments = _cut(context, builder, signature.args, body.args[1], *found)
    status, result = context.call_internal_no_propagate(builder, kernel.fndesc, signature, arguments)
    one = ir.IntType(1)
    with builder.if_then(status.is_error, likely=False):
        builder.store(one(1), cgutils.gep_inbounds(builder, place, 0, 0))
    if signature.return_type == types.boolean:
        with builder.if_then(builder.not_(result), likely=False):
            builder.store(one(1), cgutils.gep_inbounds(builder, place, 0, 1))
    builder.ret_void()
    return body


def _cut(
    context: Any, builder: Any, kinds: Any, chunk: Any, chunks: Any, length: Any, whole: Any, span: Any, *values: Any
) -> list:
    """What a chunk gets of the values."""

    def bounds(rows: Any) -> list:
        found = []
        for number in (chunk, builder.add(chunk, _int(1))):
            bound = builder.udiv(builder.mul(rows, number), chunks)
            even = builder.and_(builder.add(bound, _int(EVEN - 1)), _int(-EVEN))
            even = builder.select(builder.icmp_unsigned("<", even, rows), even, rows)
            many = builder.icmp_unsigned(">=", length, _int(MANY))
            found.append(builder.select(many, even, bound))
        return found

    arguments = []
    for k, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if isinstance(kind, types.Array):
            is_whole = builder.trunc(builder.lshr(whole, _int(k)), ir.IntType(1))
            value = builder.select(is_whole, value, _rows(context, builder, kind, value, bounds))
        elif kind == _i64:
            for offset, bound in enumerate(bounds(length)):
                here = builder.icmp_signed("==", builder.add(span, _int(offset)), _int(k))
                value = builder.select(here, bound, value)
        arguments.append(value)
    return arguments


def _lead_compiled() -> Any:
    signature = _i64(*[_i64] * 5)
    _lead.compile(signature)
    return _lead.overloads[signature.args]


def parts(kernel: Any) -> list[Any]:
    """What `spread_rows` calls, compiled."""
    return [kernel, _lead_compiled()]


@intrinsic
def over_rows(typing, function, queue, limit, chunks, length, whole, span, values):
    """Call function(*values) for every chunk, arrays being cut along their first axis: each in so many parts of its own.

    An array whose bit in `whole` is set is not cut. The values number `span` and `span` + 1, if there are such, are the
    first of the `length` rows of the chunk and the one behind its last. All others are handed on.
    """
    signature = function.get_call_type(typing, values.types, {})

    def generate(context, builder, _signature, args):
        kernel = function.dispatcher.get_compile_result(signature)
        link_late(context, *parts(kernel))
        items = [builder.extract_value(args[7], k) for k in range(len(values.types))]
        found, failed = spread_rows(context, builder, kernel, list(args[1:7]), items)
        with builder.if_then(failed, likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, ("a chunk of a kernel has failed",))
        return found

    return _i64(function, *[_i64] * 6, values), generate


@intrinsic
def freely_in_rows(typing, function, numbers, values):
    """over_rows(function, *numbers, values), meanwhile without the interpreter's lock."""
    signature = function.get_call_type(typing, values.types, {})

    def generate(context, builder, _signature, args):
        kernel = function.dispatcher.get_compile_result(signature)
        link_late(context, *parts(kernel))
        leading, items = [cgutils.unpack_tuple(builder, arg) for arg in args[1:]]
        state = from_python(builder, "PyEval_SaveThread", _pointer)
        found, failed = spread_rows(context, builder, kernel, leading, items)
        from_python(builder, "PyEval_RestoreThread", ir.VoidType(), state)
        with builder.if_then(failed, likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, ("a chunk of a kernel has failed",))
        return found

    return _i64(function, numbers, values), generate


def _rows(context: Any, builder: Any, kind: Any, value: Any, bounds: Callable[[Any], list]) -> Any:
    """The rows of an array between the bounds of their number."""
    array = context.make_array(kind)(context, builder, value)
    shape, strides = cgutils.unpack_tuple(builder, array.shape), cgutils.unpack_tuple(builder, array.strides)
    start, stop = bounds(shape[0])
    data = builder.bitcast(array.data, _pointer)
    array.data = builder.bitcast(builder.gep(data, [builder.mul(start, strides[0])]), array.data.type)
    shape[0] = builder.sub(stop, start)
    array.shape = cgutils.pack_array(builder, shape)
    count = shape[0]
    for length in shape[1:]:
        count = builder.mul(count, length)
    array.nitems = count
    return array._getvalue()


@cache
def parallel_version(function: Any, name: str) -> Any:
    """The parallel version of a kernel as Numba knows it: called with (queue, limit, chunks, length, whole, span, *arguments).

    Numba keeps machine code by the file and the name of the function: the version is given its kernel's file, and a
    `name` that no other of that file has: kernels that one function makes are all called alike in Python.
    """
    plain = function.py_func
    names = ", ".join(inspect.signature(plain).parameters)
    leading = "_queue, _limit, _chunks, _length, _whole, _span"  # some kernels have an argument `queue` themselves
    source = f"def {name}_rows({leading}, {names}):\n    return over_rows({name}, {leading}, ({names},))\n"
    scope = {name: function, "over_rows": over_rows, "__name__": plain.__module__}
    exec(compile(source, plain.__code__.co_filename, "exec"), scope)
    return kernel(scope[f"{name}_rows"])
