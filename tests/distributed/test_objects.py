"""Objects from rank to rank: plain data come back as they were, and bytes of a stranger execute nothing."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributed as dist
from ferro.core import dtypes
from ferro.distributed import plain
from tests.distributed.starting import needs_mpi, started

HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def same(a: Any, b: Any) -> bool:
    """Whether two values are of one type and equal to the last bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, ferro.Tensor):
        alike = (a.dtype, a.shape, a.device, a.requires_grad) == (b.dtype, b.shape, b.device, b.requires_grad)
        return alike and a.detach()._data.tobytes() == b.detach()._data.tobytes()
    if isinstance(a, (np.ndarray, np.generic)):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    if isinstance(a, (float, complex)):
        return pickle.dumps(a) == pickle.dumps(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    return a == b


RECORDS = np.array([(1, 2.5), (3, -0.0)], [("a", ">i4"), ("b", "f8", (1,))])
VALUES = [
    *[None, True, 0, -1, 2**64, -(2**64), 10**6000, -(10**5000), 1.5, -0.0, math.inf, -math.inf, math.nan, 5e-324],
    *["", "text", "äöü 😀", "\ud83d", "\ud83d\ude00", "\0", b"", b"\x00\xff", bytearray(b"abc")],
    *[complex(0.0, -0.0), complex(-0.0, math.inf), complex(math.nan, 1)],
    *[[], [1, [2, [3, ()]]], (), (1,), ((1, 2), [3]), {}, {"a": 1, 2: "b", (3, None): [4]}, {1.5: {True: {}}}],
    *[set(), {1, "a", (2, 3)}, frozenset({1}), {frozenset({1}): 2}, OrderedDict(b=1, a=2), Counter("hello")],
    *[{"tuple": [1]}, {"array": ["float32", [1], 0]}, {"int": "0x1"}],  # (what the format itself says)
    *[ferro.float32, ferro.bfloat16, ferro.complex32, ferro.device("cpu"), ferro.Size([2, 3]), ferro.Size()],
    *[np.float32(0.1), np.int8(-3), np.bool_(True), np.complex64(1 + 2j), np.str_("text"), np.uint64(2**64 - 1)],
    *[np.float64(math.nan), dtypes.BFLOAT16.type(1.5), np.longdouble(1) / 3, np.datetime64("2001-02-03T04:05", "ns")],
    *[np.bytes_(b"ab"), RECORDS[0], RECORDS, np.arange(6.0).reshape(2, 3).T, np.zeros((0, 3), np.int16), np.array(7)],
    *[np.array(["a", "bcd"]), np.array([b"a", b"bc"]), np.array([1, 2], ">i8"), np.array(1, dtypes.BFLOAT16)],
    *[np.array(["2001-02-03"], "M8[D]"), np.array([True, False]), np.zeros((2, 0), "U3"), np.array([""])],
]


def test_plain_data_come_back_as_they_were() -> None:
    for value in (*VALUES, VALUES):
        found = plain.loads(plain.dumps(value))
        assert same(found, value), (found, value)


@pytest.mark.parametrize("dtype", list(dtypes.ALL), ids=str)
def test_tensors_come_back_as_they_were(dtype: Any, rng: np.random.Generator) -> None:
    numbers = ferro.tensor(rng.integers(0, 9, (3, 4))).to(dtype)
    leaf = ferro.nn.Parameter(numbers.clone(), requires_grad=dtype.category > 1)
    values = [numbers, numbers.T[1:], numbers[0, 0], numbers[:0], leaf, {"of": [leaf.detach()]}]
    if dtype.category > 1:
        values += [numbers.clone().requires_grad_(), leaf * 2]
    found = plain.loads(plain.dumps(values))
    assert same(found, values)
    assert all(x.is_leaf for x in found if isinstance(x, ferro.Tensor))
    found[0].add_(1) if dtype.category else found[0].logical_not_()  # (its memory is its own)
    assert not same(found[0], values[0])


@dataclasses.dataclass
class Record:
    """No plain data."""

    loss: float


class Texts(str):
    """A subclass, which would come back as its base."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        *[
            object(),
            Record(1.0),
            Texts("a"),
            len,
            Record,
            iter([]),
            ferro.nn.Linear(1, 1),
            range(3),
            ValueError("of it"),
        ],
        *[np.array([None]), np.array([(1, "a")], [("a", "i4"), ("b", "O")]), np.ma.masked_array([1], [True])],
        *[ferro.eye(2).to_sparse(), ferro.nn.Buffer(ferro.ones(1))],
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_by_its_type(value: Any, alone: None) -> None:
    for holder in (value, [1, {"a": (value,)}]):
        with pytest.raises(TypeError, match=f"all_gather_object: {type(value)} is no plain data .*allow_pickle=True"):
            dist.all_gather_object([None], holder)


def test_what_holds_itself_is_refused() -> None:
    value: list = []
    value.append(value)
    with pytest.raises(TypeError, match="too deep in one another, or within themselves"):
        plain.dumps(value)


class Bomb:
    """A pickle of it creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_are_read_where_they_are_allowed(tmp_path: Path) -> None:
    """The bomb goes off there, and nowhere else."""
    bomb = Bomb(tmp_path / "file")
    dist.init_process_group("gloo", rank=0, world_size=1, pg_options=dist.GroupOptions(allow_pickle=True))
    try:
        group = dist.new_group([0])
        found: list = [None]
        dist.all_gather_object(found, Record(0.5), group)
        assert found == [Record(0.5)]
        dist.all_gather_object(found, bomb)
        assert bomb.path.exists()
    finally:
        dist.destroy_process_group()


def test_the_environment_allows_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRO_DISTRIBUTED_PICKLE", "1")
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        found: list = [None]
        dist.scatter_object_list(found, [Record(0.5)])
        assert found == [Record(0.5)]
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    "of", [b"", b"p%s", b"j%s", b"x", b"j\xff\xff\xff\xff\xff\xff\xff\xff", b"j\4\0\0\0\0\0\0\0null "[:-2]]
)
def test_a_strangers_bytes_execute_nothing(
    of: bytes, alone: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = Bomb(tmp_path / "file")
    sent = of.replace(b"%s", pickle.dumps(bomb))
    monkeypatch.setattr(dist.ProcessGroup, "exchanged", lambda self, data, name="": [sent])
    for gather in (dist.all_gather_object, lambda found, value: dist.gather_object(value, found)):
        found: list = ["before"]
        with pytest.raises(dist.DistError, match=r"_object: rank 0 has sent (a pickle|bytes that are none)"):
            gather(found, 1)
        assert found == ["before"]
    assert not bomb.path.exists()


TEXTS = [
    *['{"array": ["O", [1], 0]}', '{"array": [[["a", "O"]], [1], 0]}', '{"array": ["float32", [9], 0]}'],
    *['{"array": ["float32", [-1], 0]}', '{"array": ["float32", [1], -4]}', '{"array": ["float32", [1], 99]}'],
    *[
        '{"array": ["float32", ["x"], 0]}',
        '{"array": ["no dtype", [1], 0]}',
        '{"numpy": ["O", 1]}',
        '{"bytes": [0, 99]}',
    ],
    *[
        '{"bytes": [0, -1]}',
        '{"int": "x"}',
        '{"int": 5}',
        '{"float": "x"}',
        '{"complex": ["x", "1"]}',
        '{"points": [-1]}',
    ],
    *[
        '{"dtype": "wrap"}',
        '{"dtype": "__class__"}',
        '{"device": "gpu"}',
        '{"size": ["x"]}',
        '{"set": [[1]]}',
        '{"set": 1}',
    ],
    *[
        '{"dict": [[[1], 2]]}',
        '{"dict": [1]}',
        '{"dict": [[1, 2, 3]]}',
        '{"Counter": 3}',
        "{}",
        '{"a": 1, "b": 2}',
        '{"eval": "1"}',
    ],
    *['{"tensor": ["int64", [1], 0, "cpu", true, false]}', '{"tensor": ["qint8", [1], 0, "cpu", false, false]}'],
    *['{"tensor": []}', '{"element": 1}', "[" * 100_000, "nonsense", "", '"\\ud8', "[1", "1e"],
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_that_are_none_raise_one_error(text: str) -> None:
    with pytest.raises(ValueError, match="no plain data"):
        plain.loads(len(text).to_bytes(8, "little") + text.encode() + bytes(8))


def test_changed_bytes_give_an_error_or_other_data(rng: np.random.Generator) -> None:
    """Of 3,000 changes some must be found, and none raises anything but ValueError."""
    data, found = plain.dumps([v for v in VALUES if not isinstance(v, int)]), 0
    for _ in range(3000):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            changed[at] = rng.integers(256)
        try:
            plain.loads(bytes(changed))
        except ValueError:
            found += 1
    assert 100 < found < 3000


def test_manifests_of_checkpoints_say_the_same() -> None:
    """The format is one; without memory behind the text what has elements is refused."""
    for value in VALUES:
        try:
            text = json.dumps(plain.encoded(value))
        except plain.NotPlain:
            assert isinstance(value, (bytes, bytearray, np.ndarray, np.generic)), value
            continue
        assert same(plain.decoded(json.loads(text)), value)


@needs_mpi
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_objects_between_ranks(count: int, tmp_path: Path) -> None:
    status, out, error = started(HERE / "objects_on_ranks.py", str(tmp_path), options=("--nproc-per-node", str(count)))
    assert status == 0, error[-3000:]
    assert f"[0] {count} ranks agree on objects" in out.splitlines()
    assert not list(tmp_path.iterdir())  # (no pickle has been read)
