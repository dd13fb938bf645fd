"""Machine code on disk: where it is kept, whom it is taken from, and what it says about when it may be used.

A file holds one kernel compiled for one signature. It begins with all that the code depends on, in words: the processor's
instructions, Python, NumPy and Numba, and a digest of the sources, the file that the kernel stands in and the files that
compile it (fingerprint.py). What begins otherwise is not read. Its name ends in a digest of the tools and one of the
sources, so that all have their own files: kernel-tag.tools.sources.kernel. What came with the package is asked first.

Note [Whose machine code is run]
    Whoever can write to what a process maps as code can do all that its user can. So code is taken only from folders and
    files that belong to the user or to the system's administrator, and that nobody else may write to; both are looked at
    when they are open, for a name may be given to something else in between. (Who may write to the folders above can put
    another one in its place, but none that belongs to the user.) Folders are made with the mode 0700; the one beside the
    sources with 0755, for an administrator may compile there for all users. What is not taken is noted for
    `ferro.show_config()`, and costs time only. Windows keeps such rights elsewhere: nothing is looked at there.

Note [What there was at the start]
    Kernels and formulas round differently, so that a process must not change from one to the other. Which answers is
    decided by the files that there were when ferro was imported (`tags`): a forked child decides as its parent does,
    whenever a function is first used, and whatever has been compiled in the meantime.

Note [Which files go]
    The folder beside the sources serves these sources alone. A file there that was compiled with the tools of this process
    (the same Python, NumPy, Numba, processor and settings), but from other sources, is of no use any more: it goes when
    the kernel has been compiled again, or at the next warm-up. Other tools are another Python's or another setting's.
    A folder that FERRO_CACHE_DIR names, or the one in the user's cache, may serve several versions of ferro: there, too,
    a file goes when nobody has used it for UNUSED days, which its time of modification tells (who reads it, and may, sets
    it once a day). Of no kernel and signature more than KEPT files stay. To take away a file that somebody needs costs
    that process time, and nothing else: it is opened and read in one go, and then compiled again.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ferro.native import fingerprint, packaged
from ferro.native.notices import note

_BESIDE = Path(__file__).parent / "__pycache__"
temporary: Path | None = None  # a folder of this process and its children, where there is no other
KEPT = 8  # files of a kernel and signature that are kept: of several Pythons, processors or versions of ferro
UNUSED = 30  # days without use after which a file goes
_DAY = 24 * 3600.0  # in seconds

_POSIX = os.name == "posix" and {os.open, os.mkdir, os.rename, os.unlink, os.stat} <= os.supports_dir_fd
_PLAIN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_ONLY_ITSELF = getattr(os, "O_NOFOLLOW", 0) | getattr(
    os, "O_NONBLOCK", 0
)  # no link, and no pipe that waits for a writer
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


# --- folders ---------------------------------------------------------------------------------------------------------


def folders() -> Iterator[Path]:
    """Where machine code may be kept, the first one preferred: beside this file, then where the user keeps caches.

    FERRO_CACHE_DIR or NUMBA_CACHE_DIR in the environment names the only one, a folder that exists.
    """
    for variable in ("FERRO_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "ferro"
            return
    if temporary is not None:
        yield temporary / "ferro"
    yield _BESIDE
    with suppress(RuntimeError, OSError):  # the user has no home
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        with suppress(OSError):
            home.mkdir(mode=0o700, exist_ok=True)
        if not _POSIX or home.stat().st_uid == os.geteuid():  # (as under sudo: nothing is left in another's home)
            yield home / "ferro"


def foreign(found: os.stat_result) -> str:
    """Why code there is not taken, in words; nothing where it is. See Note [Whose machine code is run]."""
    if not _POSIX:
        return ""
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of a folder that code is taken from, -1 where folders have none; OSError where there is no such folder."""
    if not _POSIX:
        yield -1
        return
    try:
        descriptor = os.open(folder, _PLAIN | _ONLY_ITSELF | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES):
            note("kernel cache", f"{folder} is not used: {error.strerror}")
        raise
    try:
        why = foreign(os.fstat(descriptor))
        if why:
            note("kernel cache", f"{folder} is not used: {why}")
            raise PermissionError(errno.EPERM, why, str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def trusted(folder: Path, begin: str) -> bool:
    """Whether code is taken from the files of a folder whose names begin so; another program reads them."""
    with suppress(OSError), _opened(folder) as descriptor:
        for file in _names(folder, descriptor) if descriptor >= 0 else ():
            if file.startswith(begin):
                found = os.stat(file, dir_fd=descriptor, follow_symlinks=False)
                why = foreign(found) if stat.S_ISREG(found.st_mode) else "it is no file"
                if why:
                    note("kernel cache", f"{folder / file} is not used: {why}")
                    return False
        return True
    return False


def _at(folder: Path, descriptor: int, file: str) -> dict:
    """The arguments that name a file of a folder to the functions of `os`."""
    return {"path": file, "dir_fd": descriptor} if descriptor >= 0 else {"path": folder / file}


def _names(folder: Path, descriptor: int) -> list[str]:
    with os.scandir(descriptor if descriptor >= 0 else folder) as entries:
        return [entry.name for entry in entries]


def writable() -> bool:
    """Whether there is a folder that new machine code can be kept in."""
    return any(_can_write(folder) for folder in folders())


def _can_write(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(mode=0o755 if folder == _BESIDE else 0o700)
    with suppress(OSError), _opened(folder):
        return os.access(folder, os.W_OK | os.X_OK)
    return False


# --- files -----------------------------------------------------------------------------------------------------------


def read(name: str, tag: str, sources: tuple[str, ...]) -> bytes | None:
    """The machine code of a kernel, `sources` being the modules that it is made from; `tag` tells its signatures apart."""
    found = packaged.read(name, tag, sources)
    return _read_file(name, tag, sources) if found is None else found


def _read_file(name: str, tag: str, sources: tuple[str, ...]) -> bytes | None:
    file, header = _file(name, tag, sources), _header(name, tag, sources)
    for folder in folders():
        with suppress(OSError), _opened(folder) as descriptor:
            found = _read(folder, descriptor, file)
            if found is None:
                continue
            begin = len(header) + 8
            if found.startswith(header) and int.from_bytes(found[begin - 8 : begin], "little") == len(found) - begin:
                return found[begin:]
            note("kernel cache", f"{folder / file} is not used: it is damaged, or was made for something else")
    return None


def _read(folder: Path, descriptor: int, file: str) -> bytes | None:
    """All of a file; None where there is none that code is taken from."""
    place = _at(folder, descriptor, file)
    try:
        opened = os.open(flags=_PLAIN | _ONLY_ITSELF, **place)
    except FileNotFoundError:
        return None
    with os.fdopen(opened, "rb") as stream:
        found = os.fstat(opened)
        why = foreign(found) if stat.S_ISREG(found.st_mode) else "it is no file"
        if why:
            note("kernel cache", f"{folder / file} is not used: {why}")
            return None
        if time.time() - found.st_mtime > _DAY:  # see Note [Which files go]
            with suppress(OSError, NotImplementedError):
                os.utime(opened if os.utime in os.supports_fd else folder / file)
        return stream.read()


def tags(name: str, sources: tuple[str, ...]) -> list[str]:
    """The tags that there was machine code for at the start: see Note [What there was at the start]."""
    end = _end(sources)
    found = [file[len(name) + 1 : -len(end)] for file in listed().get(name, []) if file.endswith(end)]
    return [*packaged.tags(name, sources), *found]


@cache
def listed() -> dict[str, list[str]]:
    """The files that there were at first, by the name of the kernel."""
    found: dict[str, list[str]] = {}
    for folder in folders():
        with suppress(OSError), _opened(folder) as descriptor:
            for file in _names(folder, descriptor):
                if file.endswith(".kernel"):
                    found.setdefault(file.partition("-")[0], []).append(file)
    return found


def write(name: str, tag: str, sources: tuple[str, ...], packed: bytes) -> bool:
    """Keep machine code. Whether there was a folder for it."""
    data = _header(name, tag, sources) + len(packed).to_bytes(8, "little") + packed
    for folder in folders():
        if _can_write(folder):
            with suppress(OSError), _opened(folder) as descriptor:
                file = _file(name, tag, sources)
                _put(folder, descriptor, file, data)
                with suppress(OSError):
                    alike = [
                        found
                        for found in _names(folder, descriptor)
                        if found.startswith((f"{name}-{tag}.", f"{name}-{tag}-"))
                    ]
                    _remove_old(folder, descriptor, alike, frozenset([fingerprint.of_sources(sources)]))
                return True
    return False


def _put(folder: Path, descriptor: int, file: str, data: bytes) -> None:
    """Write a file in one step: another process finds all of it or nothing."""
    part = f"{os.urandom(8).hex()}.part"
    place = _at(folder, descriptor, part)
    try:
        with os.fdopen(os.open(flags=_NEW, mode=0o644, **place), "wb") as stream:
            _locked(stream.fileno())
            stream.write(data)
            stream.flush()
            if descriptor >= 0:
                os.replace(part, file, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        if descriptor < 0:  # (there, open files are not renamed)
            (folder / part).replace(folder / file)
    except OSError:
        with suppress(OSError):
            os.unlink(**place)
        raise


def _locked(descriptor: int) -> bool:
    """Lock a file that is being written, for as long as it is open. Whether nobody else had done so."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def prune(current: frozenset[str]) -> None:
    """Remove files that are of no use: see Note [Which files go]. `current`: the digests of all sources as they are now.

    What processes that were killed have left half written goes, too.
    """
    for folder in folders():
        with suppress(OSError), _opened(folder) as descriptor:
            alike: dict[str, list[str]] = {}
            for file in _names(folder, descriptor):
                if file.endswith(".kernel"):
                    made_for = _MADE_FOR.search(file)
                    alike.setdefault(file[: made_for.start()] if made_for else file.rpartition("-")[0], []).append(file)
                elif file.endswith(".part") and descriptor >= 0:
                    with suppress(OSError):
                        _remove_if_left(descriptor, file)
            for files in alike.values():
                with suppress(OSError):
                    _remove_old(folder, descriptor, files, current)


def _remove_if_left(descriptor: int, file: str) -> None:
    opened = os.open(file, _PLAIN | _ONLY_ITSELF, dir_fd=descriptor)
    try:
        if _locked(opened):  # whoever wrote it has ended
            os.unlink(file, dir_fd=descriptor)
    finally:
        os.close(opened)


def _remove_old(folder: Path, descriptor: int, files: list[str], current: frozenset[str]) -> None:
    """Remove what is of no use among the files of a kernel and signature: see Note [Which files go]."""

    def used(file: str) -> float:
        return os.stat(follow_symlinks=False, **_at(folder, descriptor, file)).st_mtime

    def is_stale(file: str) -> bool:
        made_for = _MADE_FOR.search(file)  # (nothing in the names that former versions of ferro gave)
        ours = made_for is not None and made_for[1] == fingerprint.of_tools()
        if ours and made_for[2] in current:
            return False
        if folder == _BESIDE and (ours or made_for is None):
            return True
        return file in by_age[:-KEPT] or time.time() - used(file) > UNUSED * _DAY

    by_age = sorted(files, key=used)
    for file in by_age:
        if is_stale(file):
            os.unlink(**_at(folder, descriptor, file))


# --- names and first lines -------------------------------------------------------------------------------------------


def _end(sources: tuple[str, ...]) -> str:
    return f".{fingerprint.of_tools()}.{fingerprint.of_sources(sources)}.kernel"


_MADE_FOR = re.compile(r"\.([0-9a-f]{8})\.([0-9a-f]{16})\.kernel$")  # tools and sources


def _file(name: str, tag: str, sources: tuple[str, ...]) -> str:
    return f"{name}-{tag}{_end(sources)}"


def _header(name: str, tag: str, sources: tuple[str, ...]) -> bytes:
    """What a file begins with."""
    return f"ferro kernel {name} {tag}\n{fingerprint.tools()}sources: {fingerprint.of_sources(sources)}\n\n".encode()
