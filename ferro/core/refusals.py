"""Why the history of a view cannot follow an in-place change, in PyTorch's words and with what ferro knows of the view."""

from __future__ import annotations

import re
from typing import Any

from ferro.core.node import OutputRef
from ferro.core.provenance import at

_AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
    "inplace either both inside the {0} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked)."
)
_ADVICE = {
    "no_grad": _AMBIGUOUS.format("no_grad"),
    "inference": _AMBIGUOUS.format("inference_mode"),
    "multi": "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified "
    "inplace. You should replace the inplace operation by an out-of-place one (indexing or narrow() give views that can be modified).",
    "function": "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
    "view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
    "forbidden. You can fix this by cloning the output of the custom Function.",
}


def refusal(name: str, view: Any, node: Any, indirect: bool = False) -> RuntimeError:
    """The error for the change of a view by the operation `name`, or (indirect) of what it is a view of.

    `node`: the history of the view.
    """
    what = "its base or another view of its base has been" if indirect else "is being"
    kind = view.creation
    made, index = (node.node, node.index) if isinstance(node, OutputRef) else (node, 0)
    plan = getattr(made, "plan", None)  # (a leaf has none)
    name_of_node = None if plan is None else re.sub(r"Backward\d*$", "", plan.op.backward_name)
    output = None if plan is None else f"Output {index} of {name_of_node} is a view"
    advice = _ADVICE["multi" if kind == "function" and len(getattr(made, "outputs", ())) > 1 else kind]
    if kind in ("no_grad", "inference") or output is None:
        first = "A view was created in" if output is None else f"{output} of a view which was created in"
        mode = "inference mode" if kind == "inference" else "no_grad mode"
        then = "in normal mode" if kind == "inference" else "with grad mode enabled"
        sentence = f"{first} {mode} and {what} modified inplace {then}."
    else:
        sentence = f"{output} and {what} modified inplace."
    several = (
        f" It is one of several views returned by '{view.steps[-1][0].name}'{at(view.location)}."
        if kind == "multi"
        else ""
    )
    under = f" The view was made under {view.under}." if view.under is not None else ""
    return RuntimeError(f"{name}: {sentence} {advice}{several}{under}")
