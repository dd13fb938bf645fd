"""Samplers: in which order, and in which batches, the samples of a dataset are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from ferro.core import dtypes
from ferro.core.random import Generator
from ferro.ops.data import as_tensor
from ferro.ops.random import randint, randperm
from ferro.ops.sampling import multinomial
from ferro.ops.uninitialised import empty

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An iterable of indices (or lists of indices); a subclass defines `__iter__`, and `__len__` if it can."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The indices 0, 1, 2, ... of a dataset.

    - `data_source` (sized): its length counts

    Example::

        >>> import ferro
        >>> from ferro.utils.data import SequentialSampler
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order: a permutation, or with replacement independent draws.

    - `data_source` (sized): its length counts
    - `replacement` (bool, default False): True may give an index twice; TypeError for what is no bool
    - `num_samples` (int, default None): how many; None is the length; ValueError below 1
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> from ferro.utils.data import RandomSampler
        >>> sorted(RandomSampler(range(4)))
        [0, 1, 2, 3]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if num_samples is None and len(data_source) == 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got num_samples=0: the data source is empty"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        # Without a generator, one of its own: other random numbers drawn meanwhile then do not change the order.
        generator = self.generator if self.generator is not None else seeded(new_seed())
        left = self.num_samples
        while left > 0:
            if self.replacement:
                drawn = randint(0, size, (min(left, 32),), dtype=dtypes.int64, generator=generator, device="cpu")
            else:
                drawn = randperm(size, generator=generator, device="cpu")[:left]
            yield from drawn.tolist()
            left -= len(drawn)
        if not self.replacement and not self.num_samples % size:
            randperm(size, generator=generator, device="cpu")  # PyTorch draws one more, of which it takes nothing

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    - `indices` (integers): which
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> from ferro.utils.data import SubsetRandomSampler
        >>> sorted(SubsetRandomSampler([1, 3, 5]))
        [1, 3, 5]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator, device="cpu").tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to weights.

    - `weights` (numbers): one for each index; they need not sum to 1
    - `num_samples` (int): how many; ValueError below 1
    - `replacement` (bool, default True): False gives each index at most once
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> from ferro.utils.data import WeightedRandomSampler
        >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
        [1, 1, 1]
    """

    num_samples: int
    replacement: bool

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=dtypes.float64, device="cpu")
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler.

    - `sampler` (Sampler or other iterable): gives the indices
    - `batch_size` (int): ValueError below 1
    - `drop_last` (bool): True leaves out a last list that is shorter

    Example::

        >>> import ferro
        >>> from ferro.utils.data import BatchSampler
        >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # if it has a length
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


def new_seed(generator: Any = None) -> int:
    """A seed from a generator, the default one unless given."""
    return int(empty((), dtype=dtypes.int64, device="cpu").random_(generator=generator).item())


def seeded(seed: int) -> Any:
    """A new generator with the given seed."""
    generator = Generator()
    generator.manual_seed(seed)
    return generator
