"""load: every rank reads what it has parts of, whatever the ranks that have saved it had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core.base import TensorBase, wrap
from ferro.optim.optimizer import Optimizer

from .filesystem import FileSystemReader
from .flattening import flattened, restored
from .metadata import Metadata
from .saving import exchanged, group_of, raise_together, wait_for_last
from .state_dict import begin_state


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Reads a checkpoint into a state: tensors in place, other values in their places of the dictionaries.

    - `state_dict` (dict): has the names that are wanted. What has `state_dict` and `load_state_dict` (a model, an optimiser) takes its state
    - `checkpoint_id` (str or path, default None): the folder
    - `storage_reader` (FileSystemReader, default None): has the folder
    - `planner` (DefaultLoadPlanner, default None): with `allow_partial_load` names that the checkpoint has not are left as they are
    - `process_group` (default None): the ranks that take part; None is all
    - `no_dist` (bool, default False): this rank reads alone

    The number of ranks and the parts may be others than those that saved. CheckpointException, in all ranks and before anything is
    changed, for a checkpoint that is not there or not whole, for names that it has not, and for other shapes.
    """
    if storage_reader is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    wait_for_last()
    reader = FileSystemReader(checkpoint_id) if storage_reader is None else storage_reader  # type: ignore[arg-type]
    if checkpoint_id is not None:
        reader.path = Path(checkpoint_id)
    group, problem, whole, states = group_of(process_group, no_dist), "", Metadata(), {}
    try:
        whole = reader.read_metadata()
        states = {name: _state_of(value) for name, value in state_dict.items()}
        _check(flattened(states), whole, getattr(planner, "allow_partial_load", False))
    except (OSError, ValueError, KeyError) as error:
        problem = error.args[0] if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    raise_together("checkpoint is not loaded", exchanged(group, problem))
    with no_grad():
        for name, value in state_dict.items():
            found = restored(name, states[name], lambda n, leaf: _read(n, leaf, whole, reader))
            if states[name] is not value:
                value.load_state_dict(found)
            else:
                state_dict[name] = found


def _state_of(value: Any) -> Any:
    if isinstance(value, dict) or not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
        return value
    if isinstance(value, Optimizer):
        begin_state(value)
    return value.state_dict()


def _check(flat: dict[str, Any], whole: Metadata, is_partial: bool) -> None:
    value: Any
    for name, value in flat.items():
        known = whole.state_dict_metadata.get(name)
        is_data = isinstance(value, (TensorBase, np.ndarray))
        if known is None and (name not in whole.values or is_data):
            if is_partial and name not in whole.values:
                continue
            raise KeyError(f"Missing key in checkpoint state_dict: {name}.")
        if known is not None and is_data and tuple(value.shape) != tuple(known.size):
            raise ValueError(f"Size mismatch between saved {known.size} and current: {tuple(value.shape)} for {name}")


def _read(name: str, leaf: Any, whole: Metadata, reader: FileSystemReader) -> Any:
    """What stands for a leaf: the tensor itself, with its elements read; another value."""
    known = whole.state_dict_metadata.get(name)
    if known is None:
        return whole.values.get(name, leaf)
    if not isinstance(leaf, TensorBase):
        found = reader.read(known, (0,) * len(known.size), known.size)
        return found if known.is_array else wrap(found)
    spec = getattr(leaf, "_spec", None)
    offsets, sizes = ((0,) * len(known.size), known.size) if spec is None else spec.local()
    leaf.copy_(wrap(reader.read(known, offsets, sizes)))  # type: ignore[attr-defined]
    return leaf
