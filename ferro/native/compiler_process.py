"""The compiler process: a child that makes machine code. Its two sides, requests on its input, answers on its output."""

from __future__ import annotations

import atexit
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ferro.native import disk_cache

_ROOT = str(Path(__file__).parents[2])  # the folder that ferro is imported from
IDLE = 10.0  # seconds without a request after which a child ends
# Bytes from which a child ends, and another one takes what is still asked for; all kernels of one dtype take 0.8e9.
MOST_MEMORY = 1e9


# --- seen from the program -------------------------------------------------------------------------------------------


class CompilerProcess:
    """A child process that makes machine code, and the thread that listens to it.

    `answered` is called with every answer: kernel, and what was asked for. `closed` is called when the child has ended.
    """

    def __init__(self, answered: Callable[[str, str], None], closed: Callable[[CompilerProcess], None]):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, sys.path)])}
        if disk_cache.temporary is not None:
            environment["FERRO_CACHE_DIR"] = str(disk_cache.temporary)
        # Plain file descriptors: after a fork they can be closed whoever was reading them.
        theirs, self.requests = os.pipe()
        self.answers, their_answers = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ferro.warmup", "--serve"],
                stdin=theirs,
                stdout=their_answers,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # an interrupt from the keyboard is not meant for it
            )
        except OSError:
            os.close(self.requests)
            os.close(self.answers)
            raise
        finally:
            os.close(theirs)
            os.close(their_answers)
        _open.append(self)
        self.thread = threading.Thread(target=self._listen, args=(answered, closed), name="ferro-compiler", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            self.hang_up()
            os.close(self.answers)
            raise

    def request(self, name: str, wanted: str) -> None:
        """Ask for a kernel's machine code, for a signature or for all whose tags begin so ("f4-")."""
        with suppress(OSError):  # it has just ended: whoever is told that it has closed asks again
            os.write(self.requests, f"{name}\t{wanted}\n".encode())

    def hang_up(self) -> None:
        """Say that no more requests come. The child ends by itself, and nobody complains that it still runs."""
        if self in _open:
            _open.remove(self)
            os.close(self.requests)
            if self.process.returncode is None:
                self.process.returncode = 0

    def _listen(self, answered: Callable[[str, str], None], closed: Callable[[CompilerProcess], None]) -> None:
        heard = b""
        while piece := os.read(self.answers, 1 << 16):
            *lines, heard = (heard + piece).split(b"\n")
            for line in lines:
                answered(*line.decode().split("\t"))
        self.process.wait()
        closed(self)  # so that nobody asks here any more
        self.hang_up()
        os.close(self.answers)


_open: list[CompilerProcess] = []


def start(answered: Callable[[str, str], None], closed: Callable[[CompilerProcess], None]) -> CompilerProcess | None:
    """A process that compiles; None where this program is not one that could start it, or there is nowhere to keep what it makes."""
    if not Path(sys.executable or "").name.startswith("python"):
        return None  # Python is part of another program
    try:
        if not disk_cache.writable():
            disk_cache.temporary = Path(tempfile.mkdtemp(prefix="ferro-"))
            atexit.register(remove_folder, disk_cache.temporary)
        return CompilerProcess(answered, closed)
    except (OSError, RuntimeError):  # the system refuses a folder, a process or a thread
        return None


def remove_folder(folder: Path) -> None:
    """Remove a folder in which children may still be writing: under its name they find no folder any more."""
    gone = folder.with_name(f"{folder.name}-gone")
    try:
        folder.rename(gone)
    except OSError:
        gone = folder
    for _ in range(100):  # (one that was writing a file finishes it)
        shutil.rmtree(gone, ignore_errors=True)
        if not gone.exists():
            return


@atexit.register
def hang_up_all() -> None:
    """The program ends."""
    while _open:
        _open[-1].hang_up()


def after_fork() -> None:
    """A forked child has nobody who listens; its parent keeps the process."""
    for process in _open:
        os.close(process.answers)
    hang_up_all()


# --- the child's side ------------------------------------------------------------------------------------------------


def serve(
    compile_for: Callable[[str, str], bool],
    compile_all: Callable[[str], Iterator[None]],
    help_with: Callable[[str], list[subprocess.Popen]],
) -> None:
    """Make what is asked for, until the program has ended or has asked for nothing for a while.

    What a program has asked for by name is made even if it has ended: it will be needed when it runs again.
    compile_for (kernel, signature or beginning of its tags) says whether the code could be kept, compile_all (beginning of
    tags) makes all kernels and pauses after each, help_with (beginning of tags) starts processes that make them from the end.
    """
    helpers: list[subprocess.Popen] = []
    try:
        _serve(compile_for, compile_all, lambda wanted: helpers.extend(help_with(wanted)))
    finally:
        for helper in helpers:
            helper.terminate()
            helper.wait()


def _serve(
    compile_for: Callable[[str, str], bool],
    compile_all: Callable[[str], Iterator[None]],
    get_help: Callable[[str], None],
) -> None:
    with suppress(OSError, AttributeError):
        os.nice(10)  # the program comes first
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_take_requests, args=(requests,), daemon=True).start()
    later: list[tuple[str, Iterator[None]]] = []  # all kernels for some dtypes, made when nothing else is asked for
    while True:
        try:
            line = requests.get(timeout=0 if later else IDLE)
        except queue.Empty:
            if not later or _has_grown():
                return
            if next(later[0][1], later) is later:
                _answer("", later.pop(0)[0])
            continue
        if not line or _has_grown():
            return
        if not disk_cache.writable():
            raise SystemExit("nothing can be kept any more")
        name, wanted = line.rstrip("\n").split("\t")
        if name:
            try:
                kept = compile_for(name, wanted)
            except Exception:  # noqa: BLE001 - the program will meet the error itself, when it compiles what it waits for
                kept = True
            _answer(name, wanted)
            if not kept:
                raise SystemExit("nothing can be kept any more")
        else:
            later.append((wanted, compile_all(wanted)))
            with suppress(OSError):  # (the system refuses a process)
                get_help(wanted)


def _has_grown() -> bool:
    """Whether it is time for another child: Numba keeps in memory what it has compiled."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not on Linux
        return False
    return pages * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY


def _answer(*words: str) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(1, ("\t".join(words) + "\n").encode())


def _take_requests(requests: queue.Queue[str]) -> None:
    """Pass on what is asked for; an empty line says that there is nobody any more."""
    while line := sys.stdin.readline():
        requests.put(line)
    requests.put("")
