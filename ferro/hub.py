"""torch.hub of local folders and of files that lie in its cache; nothing is downloaded.

Weights from a web address are read where PyTorch would have put them, so that files fetched by PyTorch, or by hand, are found.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlparse

from ferro import absent as _absent
from ferro.serialization import load as _load

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: builtins.list[str] = []  # that of set_dir


def get_dir() -> str:
    """The folder of the cache: set_dir's, else `$TORCH_HOME/hub`, `$XDG_CACHE_HOME/torch/hub` or `~/.cache/torch/hub`."""
    return _folder[-1] if _folder else str(Path(_get_torch_home()) / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of the cache."""
    _folder[:] = [str(Path(d).expanduser())]


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return str(Path(os.environ.get("TORCH_HOME", Path(cache) / "torch")).expanduser())


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> NoReturn:
    """RuntimeError: fetch the file by other means."""
    raise RuntimeError(f"ferro downloads nothing: fetch {url} by other means and put it at {dst}")


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What `load` reads from the file of that address in the cache; only data, whatever `weights_only` says.

    url: its last part is the file's name, unless `file_name` is given; model_dir: its folder (`get_dir()/checkpoints`).

    Raises: FileNotFoundError where the file is not there, with the place at which it is looked for; RuntimeError with
    `check_hash` for a file whose SHA-256 does not begin with what its name says.
    """
    folder = Path(get_dir()) / "checkpoints" if model_dir is None else Path(model_dir)
    file = folder / (file_name or Path(urlparse(url).path).name)
    if not file.is_file():
        raise FileNotFoundError(
            f"ferro downloads nothing, and {file} is not there: fetch {url} by other means (PyTorch puts it there, too)"
        )
    found = HASH_REGEX.search(file.name) if check_hash else None
    if found:
        from hashlib import sha256

        digest = sha256(file.read_bytes()).hexdigest()
        if not digest.startswith(found[1]):
            raise RuntimeError(f'invalid hash value (expected "{found[1]}", got "{digest}")')
    return _load(file, map_location=map_location, weights_only=True)


# -------------------------------------------------------------------- entry points of a folder with a hubconf.py


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the entry point `model` of the folder's `hubconf.py` returns for the arguments.

    Raises: ValueError for a source other than "github" and "local"; RuntimeError for "github": nothing is downloaded.
    """
    return _entry(_local(repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None, verbose: bool = True
) -> builtins.list[str]:
    """The entry points of a folder with a `hubconf.py`; of "owner/name" RuntimeError, since nothing is downloaded."""
    source = "local" if Path(github, "hubconf.py").is_file() else "github"
    module = _local(github, source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None
) -> str | None:
    """The docstring of an entry point of a folder with a `hubconf.py`."""
    source = "local" if Path(github, "hubconf.py").is_file() else "github"
    return _entry(_local(github, source), model).__doc__


def _local(folder: str, source: str) -> ModuleType:
    """The module `hubconf.py` of a folder, for whose imports the folder is on Python's path."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise RuntimeError(
            f"ferro downloads nothing: clone https://github.com/{folder.partition(':')[0]} and call "
            "hub.load(folder, ..., source='local')"
        )
    file = Path(folder) / "hubconf.py"
    spec = spec_from_file_location("hubconf", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no hubconf.py in {folder}")
    module = module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    """An entry point; what it needs must be installed."""
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [needed for needed in getattr(module, "dependencies", ()) if find_spec(needed) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


_absent.explain(__name__)
