"""Hostile cases: calls repeated very often, fine ones and refused ones, leave memory and references where they were."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ferro
from ferro import nn
from ferro.core import operands
from tests.hostile.calls import Call, calls
from tests.hostile.child import Options, note
from tests.hostile.failures import PROGRAMS, census, grown
from tests.hostile.tampered import every_recorder, leaf, view


def often(text: str, call: Callable, times: int) -> None:
    """Repeat a call; references and blocks of memory must stay. What grows a few times is a cache, what grows every time leaks."""
    note(text)
    left: dict[str, int] = {}
    for _ in range(6):
        for _ in range(20):
            quiet(call)
        operands._constants.clear()
        resident = pages()
        before = census()
        for _ in range(times):
            quiet(call)
        operands._constants.clear()
        left = grown(
            before, census(), max(50, times // 4)
        )  # (a leak shows as often as the call; caches of ints and frames do not)
        more = (pages() - resident) * resource.getpagesize()
        if times > 5000 and more > 64 * times:
            left["bytes of memory"] = more
        if not left:
            return
    raise AssertionError(f"{text}: {times} calls leave behind {left}, again and again")


def quiet(call: Callable) -> None:
    """The call, whether or not it raises."""
    try:
        call()
    except Exception:  # noqa: BLE001 (calls that are refused must not leak either)
        return


def pages() -> int:
    """The memory of this process, in pages."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1])


def repeated(call: Call, times: int) -> None:
    """A public function: without a history, recorded and run backward, and refused."""
    arrays = call.arrays()
    text = f"ferro.{call.path}{call.sample}"
    often(text, lambda: call.run(list(map(fresh, arrays))), times)
    if not arrays:
        return

    def refused() -> None:
        odd = ferro.ones(5, 7, 3, 2, 1, 2)
        tensors = list(map(fresh, arrays))
        quiet(lambda: call.run(["text", *tensors[1:]]))
        quiet(lambda: call.run([*tensors[:-1], odd]))
        quiet(lambda: call.run([tensors[0].to(ferro.int8), *tensors[1:]]))

    often(f"{text}, recorded", lambda: backward(call.run([recorded(fresh(a)) for a in arrays])), times)
    often(f"{text}, refused: text, a wrong shape, a wrong dtype", refused, times)


def fresh(a: Any) -> Any:
    """A tensor of its own for an array."""
    return ferro.tensor(a)


def recorded(t: Any) -> Any:
    """The tensor with a history, if it can have one."""
    return t.requires_grad_() * 1 if t.is_floating_point() else t


def backward(result: Any) -> None:
    """Gradients of the first result that has a history."""
    for t in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(t, ferro.Tensor) and t.requires_grad:
            t.backward(ferro.ones_like(t))
            return


def trained() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))
    optimizer = ferro.optim.Adam(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(ferro.ones(5, 4)), ferro.zeros(5, dtype=ferro.int64)).backward()
        optimizer.step()


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases: single calls into machine code, small programs, everything public."""
    gc.disable()
    times = 20_000 * options.rounds if options.long else 300
    for text, f in every_recorder().items():
        for make in (leaf, view):
            yield (
                f"{text}, x = {make.__name__}()",
                lambda text=text, f=f, make=make: often(text, lambda: f(make()), times),
            )
    for text, f in PROGRAMS.items():
        yield text, lambda text=text, f=f: often(text, lambda: f(leaf()), times // 2)
    yield "training", lambda: often("training", trained, times // 4)
    for call in calls(1, methods=options.long):
        rounds = times if options.long else 60
        yield f"ferro.{call.path}{call.sample}", lambda call=call, rounds=rounds: repeated(call, rounds)
