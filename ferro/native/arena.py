"""An arena: memory in which the arrays of a program come to lie at places that were planned before.

Note [Arenas]
    While a program runs, NumPy asks a handler of ours (handlers.py) for the memory of arrays, whoever makes them: kernels, NumPy's
    functions, formulas in Python. The handler goes through a table with one entry for each array, in the order in which they
    are made: its size, its place, and the places that must be free before. As long as the sizes are those of the table, and
    the places are free, an array gets its place. At the first one that differs the handler goes back to the C library, until
    somebody shows it another entry. So no two arrays that live at the same time share memory, whatever a function does
    with its arrays, and whether the table is right or wrong: a wrong one costs memory, not numbers.

    `begins` has a byte for every 64 of the arena: how many arrays that live begin there (two where a result took the
    place of an argument). A program that is recorded writes sizes and addresses of what it allocates and frees into `log`.

    Arrays carry their handler until they are freed, at the very end of the process too. So contexts, code and arenas are memory that
    no object of Python's owns; a context is used again when none of its arrays is left.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np

from ferro.native import locks, pages
from ferro.native.handlers import Handler, capsule_of, handlers, opened
from ferro.native.loader import REFUSAL

LINE = 64  # places are multiples of a cache line

# The words of a context.
WORDS = (
    *("next", "malloc", "realloc", "free", "context", "start", "length", "begins"),
    *("held", "placed", "outside", "log", "log_end", "none", "bound", "bounds", "lent"),
)
NEXT, HELD, PLACED, OUTSIDE = (WORDS.index(name) for name in ("next", "held", "placed", "outside"))
_START, _LENGTH, _BEGINS = (WORDS.index(name) for name in ("start", "length", "begins"))
_LOG, _LOG_END, _NONE, _BOUND, _BOUNDS, _LENT = range(WORDS.index("log"), len(WORDS))
_LENDERS, _MOST = (
    len(WORDS) + 3,
    16,
)  # behind the words stands an entry for no array, then where lent memory begins, and its size

# The functions of the handler: bytes, and what they say. rdi is the context, whose words stand in brackets; rsi and rdx are
# NumPy's arguments: malloc (size), calloc (count, size of one), free (address, size), realloc (address, size).
_CODE = """
malloc:
    48 ff 47 40                     inc [held]
    48 8b 07                        mov rax,[next]
    48 39 30                        cmp [rax],rsi
    75 1b                           jne missed
    48 8b 48 10                     mov rcx,[rax+16]
    48 8d 50 18                     lea rdx,[rax+24]
again:
    48 83 e9 01                     sub rcx,1
    72 16                           jb place
    4c 8b 02                        mov r8,[rdx]
    48 83 c2 08                     add rdx,8
    41 80 38 00                     cmp byte [r8],0
    74 ed                           je again
missed:
    48 8b 47 68                     mov rax,[none]
    48 89 07                        mov [next],rax
    eb 30                           jmp other
place:
    48 89 17                        mov [next],rdx
    48 8b 40 08                     mov rax,[rax+8]
    48 85 c0                        test rax,rax
    74 24                           je other
    48 89 c1                        mov rcx,rax
    48 2b 4f 28                     sub rcx,[start]
    48 3b 4f 30                     cmp rcx,[length]
    73 0f                           jae bound
    48 c1 e9 06                     shr rcx,6
    48 03 4f 38                     add rcx,[begins]
    fe 01                           inc byte [rcx]
    48 ff 47 48                     inc [placed]
    c3                              ret
bound:
    48 ff 87 80 00 00 00            inc [lent]
    c3                              ret
other:
    48 01 77 50                     add [outside],rsi
    57                              push rdi
    56                              push rsi
    48 83 ec 08                     sub rsp,8
    48 8b 47 08                     mov rax,[malloc]
    48 8b 7f 20                     mov rdi,[context]
    ff d0                           call rax
    48 83 c4 08                     add rsp,8
    5e                              pop rsi
    5f                              pop rdi
    48 8b 4f 58                     mov rcx,[log]
    48 3b 4f 60                     cmp rcx,[log_end]
    74 0f                           je done
    48 89 31                        mov [rcx],rsi
    48 89 41 08                     mov [rcx+8],rax
    48 83 c1 10                     add rcx,16
    48 89 4f 58                     mov [log],rcx
done:
    c3                              ret
calloc:
    48 0f af f2                     imul rsi,rdx
    56                              push rsi
    e8 62 ff ff ff                  call malloc
    5a                              pop rdx
    48 85 c0                        test rax,rax
    74 11                           je nothing
    48 89 c7                        mov rdi,rax
    31 f6                           xor esi,esi
    48 b8 .. .. .. .. .. .. .. ..   movabs rax,memset
    ff e0                           jmp rax
nothing:
    c3                              ret
free:
    48 ff 4f 40                     dec [held]
    48 89 f0                        mov rax,rsi
    48 2b 47 28                     sub rax,[start]
    48 3b 47 30                     cmp rax,[length]
    73 0f                           jae foreign
    48 c1 e8 06                     shr rax,6
    48 03 47 38                     add rax,[begins]
    fe 08                           dec byte [rax]
    48 ff 4f 48                     dec [placed]
    c3                              ret
foreign:
    48 8b 4f 78                     mov rcx,[bounds]
    4c 8b 47 70                     mov r8,[bound]
look:
    48 83 e9 01                     sub rcx,1
    72 18                           jb release
    48 89 f0                        mov rax,rsi
    49 2b 00                        sub rax,[r8]
    49 3b 40 08                     cmp rax,[r8+8]
    4d 8d 40 10                     lea r8,[r8+16]
    73 ea                           jae look
    48 ff 8f 80 00 00 00            dec [lent]
    c3                              ret
release:
    48 8b 4f 58                     mov rcx,[log]
    48 3b 4f 60                     cmp rcx,[log_end]
    74 13                           je go
    48 c7 01 00 00 00 00            mov [rcx],0
    48 89 71 08                     mov [rcx+8],rsi
    48 83 c1 10                     add rcx,16
    48 89 4f 58                     mov [log],rcx
go:
    48 8b 47 18                     mov rax,[free]
    48 8b 7f 20                     mov rdi,[context]
    ff e0                           jmp rax
realloc:
    48 89 f0                        mov rax,rsi
    48 2b 47 28                     sub rax,[start]
    48 3b 47 30                     cmp rax,[length]
    72 11                           jb inside
    48 83 7f 78 00                  cmp [bounds],0
    75 58                           jne refused
    48 8b 47 10                     mov rax,[realloc]
    48 8b 7f 20                     mov rdi,[context]
    ff e0                           jmp rax
inside:
    57                              push rdi
    56                              push rsi
    52                              push rdx
    48 89 d6                        mov rsi,rdx
    48 8b 47 08                     mov rax,[malloc]
    48 8b 7f 20                     mov rdi,[context]
    ff d0                           call rax
    5a                              pop rdx
    5e                              pop rsi
    5f                              pop rdi
    48 85 c0                        test rax,rax
    74 38                           je failed
    48 8b 4f 28                     mov rcx,[start]
    48 03 4f 30                     add rcx,[length]
    48 29 f1                        sub rcx,rsi
    48 39 ca                        cmp rdx,rcx
    48 0f 47 d1                     cmova rdx,rcx
    48 89 f1                        mov rcx,rsi
    48 2b 4f 28                     sub rcx,[start]
    48 c1 e9 06                     shr rcx,6
    48 03 4f 38                     add rcx,[begins]
    fe 09                           dec byte [rcx]
    48 ff 4f 48                     dec [placed]
    48 89 c7                        mov rdi,rax
    48 b8 .. .. .. .. .. .. .. ..   movabs rax,memcpy
    ff e0                           jmp rax
refused:
    31 c0                           xor eax,eax
failed:
    c3                              ret
"""


def _assembled() -> tuple[bytes, dict[str, int]]:
    """The machine code, and where each label stands in it."""
    library, code, labels = ctypes.CDLL(None), b"", {}
    for line in _CODE.strip().splitlines():
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
            continue
        said, _, what = line.strip().partition("  ")
        if ".." in said:
            address = ctypes.cast(getattr(library, what.rpartition(",")[2]), ctypes.c_void_p).value or 0
            said = said[: said.index("..")] + address.to_bytes(8, "little").hex()
        code += bytes.fromhex(said)
    return code, labels


@cache
def refusal() -> str:
    """Why arrays cannot be given places in this process; empty if they can."""
    if REFUSAL:
        return REFUSAL
    try:
        _functions()
        _base()
    except (AttributeError, ImportError, OSError, RuntimeError, ValueError) as error:
        return str(error)
    return ""


@cache
def _base() -> Handler:
    """The handler that gives memory to all other arrays: NumPy's, or that of cpu/memory.py."""
    return opened(handlers().get())


@cache
def _functions() -> dict[str, int]:
    """The addresses of the handler's functions."""
    code, labels = _assembled()
    start = pages.keep(code, executable=True)
    return {name: start + labels[name] for name in ("malloc", "calloc", "realloc", "free")}


class _Context:
    """The words that the handler's functions read, and the capsule that makes NumPy call them.

    open: whether arrays may still be made by it; lenders: arrays in whose memory others may lie.
    """

    region: Any
    lenders: list

    def __init__(self) -> None:
        count = len(WORDS)
        address = pages.keep(bytes(8 * (_LENDERS + 2 * _MOST)))
        words = self.words = (ctypes.c_int64 * (_LENDERS + 2 * _MOST)).from_address(address)
        words[count] = -1  # an entry for no array
        self.none = address + 8 * count
        now = _base()
        words[WORDS.index("malloc") : WORDS.index("context") + 1] = now.malloc, now.realloc, now.free, now.context or 0
        words[NEXT] = words[_NONE] = self.none
        words[_BOUND] = address + 8 * _LENDERS
        self.open, self.region, self.lenders = False, None, []
        functions = _functions()
        self.capsule = capsule_of(
            Handler(b"ferro.arena", 1, address, *[functions[name] for name in ("malloc", "calloc", "realloc", "free")])
        )


class _Region:
    """The memory of an arena, and the contexts that give it to arrays."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.start = pages.reserve(self.size + self.size // LINE) if size else 0
        self.contexts: list[_Context] = []

    def give_back(self) -> None:
        """Returns the memory, if nobody can make arrays in it any more and none is left."""
        if self.start and not any(c.open or c.words[PLACED] for c in self.contexts):
            start, self.start = self.start, 0
            for c in self.contexts:
                c.words[_START : _BEGINS + 1] = 0, 0, 0
            pages.give_back(start, self.size + self.size // LINE)


_LOCK = locks.new()
_unused: list[_Context] = []
_retired: list[_Context] = []  # arrays of these may still be there


def _collect() -> None:
    """Gives back the arenas in which no array is left, and takes the contexts back that no array has."""
    with _LOCK:
        for context in list(_retired):
            if context not in _retired:  # (a finaliser has been here meanwhile)
                continue
            context.region.give_back()
            if not context.words[HELD]:
                _retired.remove(context)
                context.region.contexts.remove(context)
                context.region, context.lenders = None, []
                _unused.append(context)


def _context() -> _Context:
    """One that nobody uses."""
    _collect()
    with _LOCK:
        return _unused.pop() if _unused else _Context()


class Arena:
    """Memory of `size` bytes, and the handler that gives it to arrays. `start` is its address.

    of: an arena whose memory this one gives, too: each thread that makes arrays has an arena of its own.
    """

    def __init__(self, size: int, of: Arena | None = None) -> None:
        self._region = _Region(size) if of is None else of._region
        self._context: Any = _context()
        self._context.open, self._context.region = True, self._region
        self._region.contexts.append(self._context)
        self.words, self._capsule, self._put = self._context.words, self._context.capsule, handlers().put
        self.now = handlers().get  # who gives memory in this thread
        self.none = self._context.none  # the address of an entry that no array has
        self.start, self.size = self._region.start, self._region.size
        self.words[OUTSIDE] = self.words[_LENT] = self.words[_BOUNDS] = 0
        self.words[_START : _BEGINS + 1] = self.start, self.size, self.start + self.size

    def begin(self, table: int) -> None:
        """NumPy takes memory by the table at this address from now on, in this thread.

        Whoever calls it asks `now` before, and has a `finally` around it that calls `end`: an interrupt may come behind any call.
        """
        self.words[NEXT] = table
        self._put(self._capsule)

    def end(self, before: Any) -> int:
        """NumPy takes memory as before; where in the table it stood is returned."""
        self._put(before)
        at, self.words[NEXT] = self.words[NEXT], self.none
        return at

    def log(self, numbers: np.ndarray | None) -> None:
        """Sizes and addresses are written into these int64 numbers from now on, two for each event; None: no more."""
        start = 0 if numbers is None else numbers.ctypes.data
        self.words[_LOG : _LOG_END + 1] = start, start + (0 if numbers is None else numbers.nbytes // 16 * 16)

    @property
    def logged(self) -> int:
        """Where the log ends now, an address."""
        return self.words[_LOG]

    def lend(self, array: np.ndarray) -> bool:
        """The table may give memory of an array to others, which is not freed with them; it is kept until none is left.

        False, and nothing is lent, while arrays lie in too many others.
        """
        n, start = self.words[_BOUNDS], array.__array_interface__["data"][0]
        if self.start <= start < self.start + self.size:
            return True
        if n == _MOST:
            return False
        self._context.lenders.append(array)
        at = _LENDERS + 2 * n
        self.words[at : at + 2] = start, array.nbytes
        self.words[_BOUNDS] = n + 1
        return True

    def settle(self) -> None:
        """Nothing is lent any more, if no array lies there."""
        if not self.words[_LENT]:
            self.words[_BOUNDS] = 0
            self._context.lenders.clear()

    def begins(self, offset: int) -> int:
        """The address of the byte that counts the arrays which begin there."""
        return self.start + self.size + offset // LINE

    def count(self, offset: int) -> int:
        """How many arrays begin there."""
        return ctypes.c_uint8.from_address(self.begins(offset)).value

    @property
    def live(self) -> int:
        """How many arrays lie in the arena."""
        return self.words[PLACED]

    def close(self) -> None:
        """Gives the memory back, as soon as no array lies in it."""
        if self._context is not None:
            self._context.open = False
            _retired.append(self._context)
            self._context = None
            _collect()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None:
            self.close()
