"""Runs a program for which `torch` is ferro, as Python itself would run it: arguments, `__main__`, tracebacks, exit codes."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from ferro.as_torch.finder import install

USAGE = """usage: python -m ferro.as_torch [-m module | -c code | script | -] [argument ...]

Runs a program in which `import torch` gives ferro."""


def main(arguments: list[str]) -> None:
    """Runs the program that the arguments name; returns where it ends by itself, raises what it raises."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    first, rest = arguments[0], arguments[1:]
    if first in ("-m", "-c"):
        if not rest:
            _give_up(f"Argument expected for the {first} option")
        first, rest = first + rest[0], rest[1:]
    elif first.startswith("-") and first != "-" and first[:2] not in ("-m", "-c"):
        _give_up(f"unknown option {first}\n{USAGE}")
    install()
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    try:
        _run(_program(first, rest, main), main)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = _without_this_file(sys.excepthook)
        raise


def _run(code: CodeType, main: ModuleType) -> None:
    exec(code, vars(main))


def _program(first: str, rest: list[str], main: ModuleType) -> CodeType:
    """The code of the program; sets what Python sets for it in `sys` and in its module."""
    vars(main).update({"__builtins__": sys.modules["builtins"], "__annotations__": {}})
    if first.startswith("-m"):
        return _module(first[2:], rest, main)
    if first.startswith("-c"):
        _set("-c", rest, "")
        return compile(first[2:] + "\n", "<string>", "exec", dont_inherit=True)
    if first == "-":
        _set("-", rest, "")
        return compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
    path = Path(first)
    if path.is_dir() or path.suffix in (".zip", ".pyz"):
        spec: Any = PathFinder.find_spec("__main__", [first])
        if spec is None:
            _give_up(f"can't find '__main__' module in {os.fspath(path.absolute())!r}", 1)
        _set(first, rest, first)
        return _of(spec, main)
    try:
        text = path.read_bytes()
    except OSError as error:
        _give_up(f"can't open file {os.fspath(path.absolute())!r}: [Errno {error.errno}] {error.strerror}")
    _set(first, rest, str(path.resolve().parent))
    file = str(path.absolute())
    vars(main).update({"__file__": file, "__cached__": None, "__loader__": SourceFileLoader("__main__", file)})
    return compile(text, file, "exec", dont_inherit=True)


def _module(name: str, rest: list[str], main: ModuleType) -> CodeType:
    """The code of `-m name`, of a package that of its `__main__`."""
    _set("-m", rest, str(Path.cwd()))
    try:
        spec: Any = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        _give_up(f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})", 1)
    if spec is None:
        _give_up(f"No module named {name}", 1)
    code = _of(spec, main)
    sys.argv[0] = spec.origin
    return code


def _of(spec: Any, main: ModuleType) -> CodeType:
    """The code of a module that was found; `main` gets its description."""
    vars(main).update(
        {
            "__spec__": spec,
            "__file__": spec.origin,
            "__cached__": spec.cached,
            "__loader__": spec.loader,
            "__package__": spec.parent,
        }
    )
    code = spec.loader.get_code(spec.name)
    if code is None:
        _give_up(f"No code object available for {spec.name}", 1)
    return code


def _set(name: str, rest: list[str], folder: str) -> None:
    """The arguments, and where a program finds its modules first: `-m ferro.as_torch` has put the current folder there."""
    sys.argv[:] = [name, *rest]
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _give_up(message: str, code: int = 2) -> NoReturn:
    print(f"{sys.executable}: {message}", file=sys.stderr)  # noqa: T201 - a program for people
    raise SystemExit(code)


def _without_this_file(show: Any) -> Any:
    """The hook that prints an error, which begins where the program does."""

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        inside = trace
        while inside is not None and inside.tb_frame.f_code is not _run.__code__:
            inside = inside.tb_next
        inside = inside.tb_next if inside is not None else None  # (None: the program was not even compiled)
        show(kind, error.with_traceback(inside), inside)

    return shown
