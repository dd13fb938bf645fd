"""Options of saving and loading, under the names of PyTorch's planners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DefaultSavePlanner:
    """Options of `save`, which change nothing.

    - `flatten_state_dict`, `flatten_sharded_tensors` (bool, default True), `dedup_save_to_lowest_rank` (bool, default False),
      `enable_plan_caching` (bool, default False): kept
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    dedup_save_to_lowest_rank: bool = False
    enable_plan_caching: bool = False


@dataclass
class DefaultLoadPlanner:
    """Options of `load`.

    - `flatten_state_dict`, `flatten_sharded_tensors` (bool, default True): kept
    - `allow_partial_load` (bool, default False): names that the checkpoint has not are left as they are
    """

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    allow_partial_load: bool = False
