"""The share of a dataset that one of several processes takes."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from ferro.ops.random import randperm

from .sampler import Sampler, seeded


class DistributedSampler(Sampler[int]):
    """The indices of one of several processes: every num_replicas-th of an order that all processes draw alike.

    - `dataset` (sized): its length counts
    - `num_replicas` (int, default None): the number of processes; None asks the process group, which must have been
      made (ValueError)
    - `rank` (int, default None): the number of this one, likewise; ValueError if it is not among them
    - `shuffle` (bool, default True): draws a new order for each seed and epoch
    - `seed` (int, default 0): the same in all processes
    - `drop_last` (bool, default False): all get equally many: the first indices are given out twice, or with True the
      last ones not at all

    `set_epoch` says which epoch it is.

    Example::

        >>> import ferro
        >>> from ferro.utils.data import DistributedSampler
        >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ferro.distributed import get_rank, get_world_size  # (only programs with process groups import them)

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed
        self._begin = self._begun = (
            0  # how many indices of the epoch all processes have had: before the next iteration, the last one
        )

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = (
            randperm(size, generator=seeded(self.seed + self.epoch), device="cpu").tolist()
            if self.shuffle
            else range(size)
        )
        begin, self._begun, self._begin = self._begin, self._begin, 0
        left = max(0, size - begin)
        count = left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)
        return iter([order[(begin + self.rank + i * self.num_replicas) % size] for i in range(count)])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which epoch is next: each has an order of its own."""
        if epoch != self.epoch:
            self._begin = 0
        self.epoch = epoch

    def state_dict(self, given: int = 0) -> dict[str, int]:
        """Which epoch it is, and how many of its indices all processes have had, if each has taken so many of the last iteration."""
        return {"epoch": self.epoch, "begin": self._begun + given * self.num_replicas}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Lets the next iteration go on in that epoch behind those indices; the number of processes may be another one.

        Example::

            >>> from ferro.utils.data import DistributedSampler
            >>> samplers = [DistributedSampler(range(8), 2, rank, shuffle=False) for rank in (0, 1)]
            >>> for sampler in samplers:
            ...     sampler.load_state_dict({"epoch": 0, "begin": 4})
            >>> [list(sampler) for sampler in samplers], list(samplers[0])
            ([[4, 6], [5, 7]], [0, 2, 4, 6])
        """
        self.epoch, self._begin = state_dict["epoch"], state_dict["begin"]
