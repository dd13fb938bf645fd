"""save and async_save: every rank writes its parts, and the first one the manifest."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core.backend import is_host
from ferro.core.base import TensorBase, wrap

from ..group import is_initialized, resolved
from ..process_group import ProcessGroup
from .filesystem import FileSystemWriter
from .flattening import flattened
from .metadata import CheckpointException, ChunkStorageMetadata, Metadata, TensorStorageMetadata, encoded

_running: list[Future[Any]] = []  # the save that goes on


class Save:
    """What this rank writes: found out and copied at once, written when `write` is called."""

    def __init__(self, state: dict[str, Any], writer: FileSystemWriter, group: ProcessGroup, copies: bool) -> None:
        self.writer, self.group = writer, group
        self.metadata = Metadata()
        self.parts: list[tuple[str, Any, np.ndarray]] = []
        problem, flat = "", {}
        try:
            flat = flattened(state)
            for name, value in flat.items():
                if not isinstance(value, (TensorBase, np.ndarray)):
                    encoded(name, value)
            if group.rank() == 0:
                writer.prepare()
        except (ValueError, TypeError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        told = exchanged(group, {"names": list(flat), "token": os.urandom(6).hex(), "problem": problem})
        raise_together("checkpoint is not written", [t["problem"] for t in told])
        self.token = told[0]["token"]
        earlier = {name for t in told[: group.rank()] for name in t["names"]}
        with no_grad():
            for name, value in flat.items():
                self._take(name, value, name not in earlier, copies)

    def _take(self, name: str, value: Any, is_first: bool, copies: bool) -> None:
        """Notes a value, if it is this rank that writes it: a part that no rank before has."""
        spec = getattr(value, "_spec", None)
        if not isinstance(value, (TensorBase, np.ndarray)):
            if is_first:
                self.metadata.values[name] = value
            return
        if spec is None and not is_first:
            return
        is_array = isinstance(value, np.ndarray)
        data = value if is_array else value.detach()._data  # type: ignore[union-attr]
        shape, offsets = (data.shape, (0,) * data.ndim) if spec is None else (spec.shape, spec.local()[0])
        dtype = data.dtype.str if is_array else value.dtype.name  # type: ignore[union-attr]
        self.metadata.state_dict_metadata[name] = TensorStorageMetadata(dtype, shape, [], is_array)
        if spec is None or (spec.is_first() and data.size):
            if not is_host(data):  # (a GPU's is a copy in any case)
                data, copies = wrap(data).cpu()._data, False
            self.parts.append((name, offsets, np.array(data, order="C") if copies else data))

    def write(self, group: ProcessGroup) -> Metadata:
        """Writes the parts, and on the first rank the manifest; all ranks are done when it returns."""
        file, problem = f"rank_{group.rank():05}_{self.token}.safetensors", ""
        chunks: dict[str, ChunkStorageMetadata] = {}
        try:
            if self.parts:
                chunks = self.writer.write_tensors(file, self.parts)
                self.metadata.files[file] = (self.writer.path / file).stat().st_size
        except OSError as error:
            problem = f"{type(error).__name__}: {error}"
        for name, chunk in chunks.items():
            self.metadata.state_dict_metadata[name].chunks.append(chunk)
        told = exchanged(group, {"metadata": self.metadata.as_json(), "problem": problem})
        raise_together("checkpoint is not written", [t["problem"] for t in told])
        whole = _together([Metadata.of_json(t["metadata"]) for t in told])
        if group.rank() == 0:
            try:
                self.writer.finish(whole)
            except OSError as error:
                problem = f"{type(error).__name__}: {error}"
        raise_together("checkpoint is not written", exchanged(group, problem))
        return whole


def _together(manifests: list[Metadata]) -> Metadata:
    """One manifest of those of all ranks."""
    whole = Metadata()
    for one in reversed(manifests):
        whole.values.update(one.values)
    for one in manifests:
        whole.files.update(one.files)
        for name, tensor in one.state_dict_metadata.items():
            known = whole.state_dict_metadata.setdefault(
                name, TensorStorageMetadata(tensor.dtype, tensor.size, [], tensor.is_array)
            )
            known.chunks += tensor.chunks
    return whole


def exchanged(group: ProcessGroup, value: Any) -> list[Any]:
    """The plain data of every rank."""
    return [json.loads(data) for data in group.exchanged(json.dumps(value).encode())]


def raise_together(message: str, problems: list[str]) -> None:
    """CheckpointException in every rank if one has a problem."""
    failures = {rank: problem for rank, problem in enumerate(problems) if problem}
    if failures:
        raise CheckpointException(message, failures)


def group_of(process_group: Any, no_dist: bool) -> ProcessGroup:
    """The ranks that take part: those of the group, or this one alone."""
    if no_dist or not is_initialized():
        return ProcessGroup("gloo", "alone")
    return resolved(process_group)


def as_state(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state, with what has a `state_dict` (models, optimisers) as that."""
    return {
        name: value.state_dict() if hasattr(value, "state_dict") and not isinstance(value, dict) else value
        for name, value in state_dict.items()
    }


def _writer(storage_writer: Any, checkpoint_id: Any) -> FileSystemWriter:
    if storage_writer is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
        return FileSystemWriter(checkpoint_id)
    if checkpoint_id is not None:
        storage_writer.path = Path(checkpoint_id)
    return storage_writer


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a state into a folder: every rank its parts, as a safetensors file, and the first one a manifest, when all is on the disk.

    - `state_dict` (dict): tensors, DTensors, arrays and plain data in dictionaries, lists and tuples; what has a `state_dict` (a model, an
      optimiser) stands for that
    - `checkpoint_id` (str or path, default None): the folder
    - `storage_writer` (FileSystemWriter, default None): has the folder, and options
    - `planner` (default None), `use_collectives` (bool, default True): no effect
    - `process_group` (default None): the ranks that take part, which must all ask; None is all
    - `no_dist` (bool, default False): this rank alone writes, as if there were no other

    Of a DTensor each rank writes its part; of what all ranks have, the first one that has it. A save that is killed leaves the one that
    was in the folder before. CheckpointException, in all ranks, for values that cannot be saved and files that cannot be written.

    Example::

        >>> import ferro, tempfile
        >>> from ferro.distributed import checkpoint
        >>> state = {"model": ferro.nn.Linear(2, 1), "step": 3}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = checkpoint.save(state, checkpoint_id=folder)
        ...     found = {"model": ferro.nn.Linear(2, 1), "step": 0}
        ...     checkpoint.load(found, checkpoint_id=folder)
        >>> found["step"], (found["model"].weight == state["model"].weight).all()
        (3, tensor(True))
    """
    wait_for_last()
    group = group_of(process_group, no_dist)
    return Save(as_state(state_dict), _writer(storage_writer, checkpoint_id), group, False).write(group)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """Copies the state and writes it in a thread, as `save` does; the Future is done when all ranks are.

    The arguments are those of `save`; `async_checkpointer_type` and `async_stager` have no effect. What is in the state may be changed as soon as it
    returns. A second one waits for the first.
    """
    wait_for_last()
    group = group_of(process_group, no_dist)
    task = Save(as_state(state_dict), _writer(storage_writer, checkpoint_id), group, True)
    other = group.__dict__.get("_checkpoints")  # exchanges of the thread must not stand among those of the program
    if other is None:
        other = group.__dict__["_checkpoints"] = group.twin()
    future: Future[Metadata] = Future()
    _running.append(future)
    threading.Thread(target=_run, args=(future, lambda: task.write(other)), name="checkpoint").start()
    return future


def _run(future: Future[Any], write: Callable[[], Any]) -> None:
    try:
        future.set_result(write())
    except BaseException as error:  # noqa: BLE001 - whoever waits for it sees it
        future.set_exception(error)


def wait_for_last() -> None:
    """Waits for a save that goes on; its error is that of its Future."""
    while _running:
        _running.pop().exception()
