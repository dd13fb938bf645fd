"""Whether all ranks mean the same exchange, asked before it begins.

With FERRO_DISTRIBUTED_DEBUG=1 (or TORCH_DISTRIBUTED_DEBUG=DETAIL) ranks tell each other what they are about to begin, over a
communicator of its own for each group: two more exchanges before each one. Exchanges from one rank to another are not compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .control import Begun, words
from .errors import DistError
from .pending import Pending, Watched
from .process_group import ReduceOp


def is_on() -> bool:
    """Whether exchanges are compared, by the environment."""
    own = os.environ.get("FERRO_DISTRIBUTED_DEBUG", "0")
    return own not in ("", "0") or os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


def bytes_of_all(group: Watched, communicator: Any, begun: Begun, data: bytes) -> list[bytes]:
    """The bytes of every rank; raises as `Pending.wait` does."""
    sizes = np.empty(group.size(), np.int64)
    Pending(group, begun, communicator.Iallgather(np.array([len(data)]), sizes)).wait()
    found = bytearray(int(sizes.sum()))
    Pending(group, begun, communicator.Iallgatherv(data, [found, sizes])).wait()
    ends = sizes.cumsum().tolist()
    return [bytes(found[end - size : end]) for end, size in zip(ends, sizes.tolist(), strict=True)]


def _text(what: Any) -> str:
    if hasattr(what, "shape"):
        place = "" if getattr(what, "is_cuda", False) is not True else f" on {what.device}"
        return f"{list(what.shape)} {what.dtype}{place}"
    if isinstance(what, ReduceOp):
        return what.name
    return f"root {what}" if isinstance(what, int) else str(what)


def _joined(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def compare(group: Watched, communicator: Any, begun: Begun, what: Sequence[Any], parts: Any = None) -> None:
    """DistError unless all ranks begin the same exchange, of the same shapes, dtypes, operation and root.

    `parts`: for all_to_all the sizes in bytes of what this rank sends to each, and of what it wants from each.
    """
    means = f"{begun[1]} #{begun[2]} of {', '.join(_text(w) for w in what if w is not None)}".removesuffix(" of ")
    place = words(begun).partition(" at ")[2]
    told = [
        json.loads(data)
        for data in bytes_of_all(group, communicator, begun, json.dumps([means, place, parts]).encode())
    ]
    if len({t[0] for t in told}) > 1:
        calls: dict[str, list[int]] = {}
        for rank, (text, where, _) in zip(group.ranks, told, strict=True):
            calls.setdefault(f"{text} at {where}", []).append(rank)
        each = "; ".join(f"{_joined(ranks)}: {call}" for call, ranks in calls.items())
        raise DistError(f"{group.title()}: its ranks begin exchanges that do not fit each other: {each}")
    if parts is not None:
        for i, (text, where, (sent, _)) in enumerate(told):
            for j, (_, other, (_, wanted)) in enumerate(told):
                if sent[j] != wanted[i]:
                    raise DistError(
                        f"{group.title()}: {text}: rank {group.ranks[i]} sends {sent[j]} bytes to rank {group.ranks[j]} (at {where}), "
                        f"which has room for {wanted[i]} (at {other})"
                    )
