"""The errors of a backward in words: what failed, where it ran forward, where its graph was freed, and what helps."""

from __future__ import annotations

from typing import Any

from ferro.core.graph_task import Run
from ferro.core.node import Freed, Node, OutputRef
from ferro.core.provenance import at


def freed_message(node: Any, run: Run) -> str:
    """Why a second backward through the same graph fails, where the graphs meet, and what helps."""
    freed = node.saved
    text = (
        f"Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
        "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after "
        f"calling backward. The values that '{node.plan.op.name}' ({node.name()}"
        f"{_shape_of(node)}) saved{at(node.location)} were freed"
    )
    if type(freed) is not Freed:
        return f"{text}. Specify retain_graph=True the first time."
    text += f" by the backward{at(freed.location)}. "
    joint = _joint(node, run, freed.seq)
    if joint is None:
        return text + (
            "If a tensor is kept from one iteration to the next (a hidden state, a running loss), detach() it; for several losses "
            "call backward() once, on their sum; if the graph itself is to be used twice, specify retain_graph=True the "
            "first time."
        )
    young, old, came = joint
    if isinstance(young, Node):
        how = f"into '{young.plan.op.name}'{at(_location_near(young, came))}"
    else:
        how = "into this backward"
    return text + (
        f"The result of '{old.plan.op.name}'{at(old.location)} was made before that backward and leads {how}: if it is "
        "kept from one iteration to the next (a hidden state, a running loss), detach() it. If the graph itself is to be "
        "used twice, specify retain_graph=True the first time."
    )


def _shape_of(node: Any) -> str:
    return "" if node.shape is None else f", output shape {list(node.shape)}"


def _joint(target: Any, run: Run, seq: int) -> tuple | None:
    """The edge on a way from the roots to `target` where what is older than `seq` begins; None if the roots are older."""
    came: dict = {s.node if type(s) is OutputRef else s: None for s in run.starts}
    todo = list(came)
    while todo:
        node = todo.pop()
        if node is target:
            break
        for t in node.edges if isinstance(node, Node) else ():
            t = t.node if type(t) is OutputRef else t
            if t not in came:
                came[t] = node
                todo.append(t)
    young, old = came.get(target), target
    while young is not None and young.seq < seq:
        young, old = came[young], young
    return None if young is None else (young, old, came)


def _location_near(node: Any, came: dict) -> Any:
    """The location of a node, or of the nearest one on the way from the roots to it that noted its own."""
    while node is not None and node.location is None:
        node = came[node]
    return None if node is None else node.location


def explain(e: Exception, node: Any, run: Run) -> None:
    """Adds to an exception which node was running (in anomaly mode: and where it ran forward)."""
    if node is not None and not getattr(e, "_ferro_noted", False):
        shape = list(node.shape) if node.shape is not None else [list(o[0]) if o else None for o in node.outputs]
        ran = f", which ran forward{at(node.location)}" if node.location is not None else ""
        if node.plan.user:
            ran += f"; its backward is defined{at(node.plan.definition)}"
        e.add_note(f"raised while running backward of '{node.plan.op.name}' ({node.name()}), output shape {shape}{ran}")
        e._ferro_noted = True  # type: ignore[attr-defined]
        if run.anomaly is not None:
            run.anomaly.explain(node)
