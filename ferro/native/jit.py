"""How kernels are compiled: the decorators, the cache on disk, and what LLVM may do to floating-point arithmetic.

Numba is imported only here and in the files named jit_*, and those are imported when a kernel is first needed.

Note [Floating point in kernels]
    A multiplication and an addition may become one instruction (`contract`); apart from that, formulas are computed as
    they stand. Only a `reduction` may add in another order (`reassoc`), without which LLVM does not vectorise a sum.

Note [The cache of kernels]
    Machine code is kept by disk_cache.py where loader.py can load it; only elsewhere does Numba keep it. To decide whether
    it is still good, Numba looks only at the file that the kernel stands in; what that takes from other files counts
    too, as fingerprint.py sees it. Nor does it look whose files they are, though it runs what they say:
    disk_cache.py does. A file that is damaged, or cannot be written, costs time.

Note [Compiled, never run]
    Numba makes each function that it compiles ready to run, one by one, though they are only compiled into kernels, and
    kernels run as loader.py loads them. That took a fifth of the time to compile. There is no option against it, so
    the methods that do it are replaced meanwhile; other threads wait, as Numba's lock is held. Another Numba, which may
    have other methods, is left as it is.

Note [Compiled once, linked late]
    Numba compiles what a function calls into the function: LLVM optimises all of it once more, for every caller. Entries
    call kernels that are too large to be inlined, so they gained nothing and took twice as long to compile. What is
    called by `link_late`, or compiled by `once`, is declared only; jit_export.py links its code, which has been optimised,
    when it writes a file. Code that Numba itself is to run is linked with all that it calls.

Note [Whole registers]
    On many processors with AVX-512 LLVM uses half of each register, because the first of them slowed down when all of
    it was used. For long chains of arithmetic the whole is a third faster. The wish is an attribute of the function,
    for which neither Numba nor llvmlite has a way in. Constants that find no register lie on the stack, and where that is not
    aligned to a cache line each read of one takes two: erf of float64 has 26 of them, and is a fifth faster with an aligned stack.

Note [Apart, or the same]
    A loop over elements may write into an array that it reads: it has read all of an element before. LLVM does not see
    that. It asks at run time whether arrays overlap, and if they do, it computes one number after the other: a tenth of the
    speed. So the arrays are said not to overlap; a test runs every such loop in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numba
from llvmlite import ir
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload

from ferro.native import disk_cache, fingerprint
from ferro.native.loader import SUPPORTED
from ferro.native.notices import note

_KERNEL: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
# Without what Numba writes around a function so that Python and C can call it: a fifth of the time to compile.
NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_INSIDE: dict[str, Any] = {**_KERNEL, **NO_WRAPPERS, "forceinline": True}


def _finish(library: Any) -> None:
    """What Numba does to a library that is finished, but for loading it."""
    library._finalize_dynamic_globals()
    library._finalized = True


def _no_place(library: Any, name: str) -> int:
    library._ensure_finalized()
    return 0


def _link(library: Any, other: Any) -> None:
    """What Numba does with code that is called, but for a function that is compiled by `once`."""
    if SUPPORTED and other in _once:
        LATE.setdefault(library, []).append(_once[other])
    else:
        codegen.CPUCodeLibrary.add_linking_library(library, other)


def _link_all(library: Any, other: Any) -> None:
    """The same where code is to be run by Numba."""
    for each in to_link([other]):
        codegen.CPUCodeLibrary.add_linking_library(library, each)


# What a library calls, by library, and libraries of functions compiled by `once`: see Note [Compiled once, linked late].
LATE: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
_once: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

_Methods = tuple[tuple[Any, str, Any], ...]
_TO_EXPORT: _Methods = (
    (codegen.JITCodeLibrary, "_finalize_final_module", _finish),
    (codegen.JITCodeLibrary, "get_pointer_to_function", _no_place),
    (codegen.JITCodeLibrary, "add_linking_library", _link),
    (codegen.JITCPUCodegen, "set_env", lambda *_: None),
)
_TO_RUN: _Methods = ((codegen.JITCodeLibrary, "add_linking_library", _link_all),)
_NEEDED = ("_finalize_dynamic_globals", "_ensure_finalized")
_CAN = all(hasattr(owner, name) for owner, name, _ in _TO_EXPORT) and all(
    hasattr(codegen.JITCodeLibrary, n) for n in _NEEDED
)


@contextmanager
def _replaced(methods: _Methods) -> Iterator[None]:
    """See Note [Compiled, never run]."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in methods]
    try:
        for owner, name, function in methods if _CAN else ():
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in before if _CAN else ():
            if function is None:  # (it is inherited)
                delattr(owner, name)
            else:
                setattr(owner, name, function)


def link_late(context: Any, *compiled: Any) -> None:
    """Say that what is being compiled calls compiled functions: see Note [Compiled once, linked late]."""
    if SUPPORTED and vars(codegen.JITCodeLibrary).get("add_linking_library") is _link:
        LATE.setdefault(context.active_code_library, []).extend(compiled)
    else:  # (it is compiled to be run)
        context.add_linking_libs([each.library for each in compiled])


def to_link(libraries: list[Any]) -> list[Any]:
    """Libraries, and those with the code of what they call that is not theirs."""
    found, left, seen = [], [(each, True) for each in libraries], set()
    while left:
        library, is_apart = left.pop()
        if (library, is_apart) not in seen:
            seen.add((library, is_apart))
            found += [library] if is_apart else []
            left += [(other, False) for other in library._linking_libraries]  # (whose code it has)
            left += [(other.library, True) for other in LATE.get(library, ())]
    return found


class _Bare(CPUDispatcher):
    """What numba.njit makes of a function, without wrappers. If Python calls it after all, another one is compiled."""

    def __init__(self, fn: Callable[..., Any], options: dict[str, Any], once: bool = False):
        super().__init__(fn, {}, {"nopython": True, "boundscheck": None, **NO_WRAPPERS, **options})
        self._wrapped: Any = None
        self._is_once = once

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock, _replaced(_TO_EXPORT):
            found = super().compile(sig)
        if self._is_once:
            _once.update({each.library: each for each in self.overloads.values()})
        return found

    def __call__(self, *args: Any) -> Any:
        if self._wrapped is None:
            options: dict[str, Any] = {name: v for name, v in self.targetoptions.items() if name not in NO_WRAPPERS}
            self._wrapped = numba.jit(**options)(self.py_func)
        kinds = tuple(map(numba.typeof, args))
        if kinds not in self._wrapped.overloads:
            with global_compiler_lock, _replaced(_TO_RUN):
                self._wrapped.compile(kinds)
        return self._wrapped(*args)


def device(fn: Callable[..., Any]) -> Any:
    """A function that kernels call; compiled into them."""
    return _Bare(fn, _INSIDE)


def once(fn: Callable[..., Any]) -> Any:
    """A function that kernels call and that is too large to be compiled into each of them: see Note [Compiled once, linked late]."""
    return _Bare(fn, {**_KERNEL, **NO_WRAPPERS}, once=True)


def reduction(fn: Callable[..., Any]) -> Any:
    """A function that kernels call, and whose sums may be added in any order (fixed by the length of the row)."""
    return _Bare(fn, {**_INSIDE, "fastmath": {"contract", "reassoc"}})


def kernel(fn: Callable[..., Any]) -> Any:
    """A function that Python calls. It runs without the interpreter's lock. Where disk_cache.py cannot, Numba keeps it on disk."""
    if SUPPORTED:
        return _Bare(fn, _KERNEL)
    try:
        made: Any = numba.njit(cache=True, **_KERNEL)(fn)
    except RuntimeError:  # Numba found no folder that it may write to
        return numba.njit(**_KERNEL)(fn)
    cache = made._cache
    index = cache._cache_file
    if not disk_cache.trusted(Path(cache.cache_path), index._index_name.rpartition(".")[0]):
        return numba.njit(**_KERNEL)(fn)
    if fn.__module__.startswith("ferro."):  # (a kernel may stand elsewhere, in a test)
        index._source_stamp = fingerprint.of_tools() + fingerprint.of_sources(
            (fn.__module__,)
        )  # see Note [The cache of kernels]
    cache.load_overload, cache.save_overload = _tried(cache.load_overload), _tried(cache.save_overload)
    return made


def _tried(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of Numba's cache, after which there is nothing (and it compiles) where the call fails: see the same Note."""

    def tried(*args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001 - a damaged file raises whatever it says
            note("kernel cache", f"Numba could not use its own: {type(error).__name__}: {error}")
            return None

    return tried


def _whole_registers(_context):
    """Stands first in a kernel that computes much for each number: see Note [Whole registers]."""

    def generate(context, builder, _signature, _args):
        # Their own add() takes only the attributes that llvmlite knows.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        builder.function.attributes.alignstack = 64
        return context.get_dummy_value()

    return numba.types.none(), generate


whole_registers: Any = intrinsic(_whole_registers)


def _apart(_context):
    """Stands first in a loop over elements: see Note [Apart, or the same]."""

    def generate(context, builder, _signature, _args):
        elements = (ir.FloatType().as_pointer(), ir.DoubleType().as_pointer())
        for argument in builder.function.args[2:]:  # (behind Numba's own two)
            if argument.type in elements:
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return numba.types.none(), generate


apart: Any = intrinsic(_apart)


def by_precision(single: Any, double: Any) -> Callable[[Any], Any]:
    """A function for kernels: `single` of an argument with 32 bits, `double` of one with 64."""

    def function(x: Any) -> Any:
        return double(x)

    options: Any = _INSIDE

    @overload(function, jit_options=options)
    def choose(x):  # its signature must be that of the lambda
        chosen = single if x.bitwidth == 32 else double
        return lambda x: chosen(x)

    return function
