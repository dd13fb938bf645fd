"""Datasets: samples by index or as a stream, and datasets made of datasets."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ferro.ops.random import randperm
from ferro.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by key: a subclass defines `__getitem__`, and `__len__` if it has a length.

    `__getitems__(indices)`, if it is defined, gives a DataLoader the samples of a whole batch at once.

    Example::

        >>> import ferro
        >>> class Squares(ferro.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...
        ...     def __getitem__(self, i):
        ...         return i**2
        >>> [batch.tolist() for batch in ferro.utils.data.DataLoader(Squares(), batch_size=2)]
        [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"Subclasses of Dataset should implement __getitem__. {type(self).__name__} does not define it"
        )

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: a subclass defines `__iter__`.

    With several workers each one iterates over the dataset: `get_worker_info` tells a worker its share.
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # a stream has no index
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of the same first size; a sample is a tuple of their rows.

    Example::

        >>> import ferro
        >>> data = ferro.utils.data.TensorDataset(ferro.arange(6).reshape(3, 2), ferro.tensor([0, 1, 0]))
        >>> len(data), data[1]
        (3, (tensor([2, 3]), tensor(1)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.shape[0] for tensor in tensors]
        if any(size != sizes[0] for size in sizes):
            raise AssertionError(f"Size mismatch between tensors: their first dimensions are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is a tuple of theirs, or a dictionary if they are given by name.

    Takes datasets of one length, else ValueError.

    Example::

        >>> import ferro
        >>> from ferro.utils.data import StackDataset
        >>> StackDataset("ab", [1, 2])[1], StackDataset(letter="ab", number=[1, 2])[0]
        (('b', 2), {'letter': 'a', 'number': 1})
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = kwargs or args
        lengths = [len(dataset) for dataset in (kwargs.values() if kwargs else args)]
        if any(length != lengths[0] for length in lengths):
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch; each dataset that can gives its part of them at once."""
        if isinstance(self.datasets, dict):
            parts = [_samples(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, sample, strict=True)) for sample in zip(*parts, strict=True)]
        return list(zip(*(_samples(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: list[int]) -> Any:
    """The samples of some indices, all at once if the dataset can give them so."""
    at_once = getattr(dataset, "__getitems__", None)
    if not callable(at_once):
        return [dataset[i] for i in indices]
    samples: Any = at_once(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)} from "
            f"{type(dataset).__name__}.__getitems__"
        )
    return samples


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other.

    - `datasets` (datasets): with lengths; AssertionError for none and for streams

    Example::

        >>> import ferro
        >>> from ferro.utils.data import ConcatDataset
        >>> data = ConcatDataset(["ab", "cd"])
        >>> len(data), data[2]
        (4, 'c')
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if place < 0:
            raise ValueError(f"absolute value of index should not exceed dataset length: {index}, length {len(self)}")
        if place >= len(self):
            raise IndexError(f"index {index} is out of range for a dataset of length {len(self)}")
        number = bisect_right(self.cumulative_sizes, place)
        start = self.cumulative_sizes[number - 1] if number > 0 else 0
        return self.datasets[number][place - start]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other.

    - `datasets` (IterableDatasets): AssertionError for others, when it is iterated

    Example::

        >>> import ferro
        >>> from ferro.utils.data import ChainDataset, IterableDataset
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    datasets: Iterable[Any]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from _stream(dataset)

    def __len__(self) -> int:
        return sum(len(_stream(dataset)) for dataset in self.datasets)


def _stream(dataset: Any) -> Any:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError(f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}")
    return dataset


class Subset(Dataset[T_co]):
    """The samples of a dataset at the given indices.

    - `dataset` (Dataset): the whole
    - `indices` (integers): which

    Example::

        >>> import ferro
        >>> from ferro.utils.data import Subset
        >>> list(Subset("abcd", [1, 3]))
        ['b', 'd']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        if type(self).__getitem__ is not Subset.__getitem__ and type(self).__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__, which is what a DataLoader calls. A simple "
                "implementation:\n\ndef __getitems__(self, indices):\n    return [self.__getitem__(idx) for idx in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch, all at once if the dataset can give them so."""
        chosen = [self.indices[i] for i in indices]
        at_once: Any = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[i] for i in chosen] if at_once is None else at_once(chosen)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """Split a dataset at random into parts of the given lengths, or of the given fractions if these add up to 1.

    What the rounding down of fractions leaves over goes to the parts in turn.

    Example::

        >>> import ferro
        >>> train, test = ferro.utils.data.random_split(range(10), [0.8, 0.2])
        >>> len(train), len(test)
        (8, 2)
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1: {fraction}")
        parts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(parts)):
            parts[i % len(parts)] += 1
        for i, part in enumerate(parts):
            if part == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    else:
        parts = [int(length) for length in lengths]
    if sum(parts) != size:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! They are {list(lengths)} for length {size}"
        )
    order = randperm(size, generator=generator, device="cpu").tolist()
    ends = list(accumulate(parts))
    return [Subset(dataset, order[end - part : end]) for end, part in zip(ends, parts, strict=True)]
