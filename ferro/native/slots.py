"""The table by which machine code knows the objects of the tape: what stands where. See jit_recorder.py; core/tape.py fills it."""

from __future__ import annotations

import numpy as np

# Names of objects, and of slots as Class.slot.
FIELDS = (
    *(
        "Tensor",
        "Parameter",
        "Op",
        "Node",
        "LEAF",
        "ACTIVE",
        "sequence",
        "OUTSIDE",
        "outermost",
        "constant",
        "_getframe",
    ),
    *("MODE", "Mode.silent", "Mode.detached", "DetachedMark", "guard", "Plan.saves_inputs"),
    *("str", "list", "slice", "DTypeMeta"),
    *("0", "1", "'co_filename'", "'shape'", "'view'"),
    *("TensorBase._data", "TensorBase._node", "TensorBase._counter", "TensorBase._meta", "Version.n", "Version.last"),
    *(
        "Op.direct",
        "Op.large",
        "Op.placed",
        "Op.table",
        "Op.taped",
        "Op.viewing",
        "Op.applied",
        "Op.multi",
        "Op.aux_count",
        "Op.diff_mask",
        "Op.name",
        "Op._forward",
    ),
    *(
        "Op.plans",
        "Op.nondiff_indices",
        "cpu",
        "plan_of",
        "_mark_detached",
        "asarray",
        "INEXACT",
        "Plan.indices",
        "MultiNode",
        "OutputRef",
    ),
    *("MultiNode.outputs", "OutputRef.node", "OutputRef.index", "OutputRef.shape", "OutputRef.dtype"),
    *("View", "Version", "version_of", "bump", "'__setitem__'", "'no_grad'", "'multi'"),
    *("View.base", "View.path", "View.creation", "View.born", "View.stamp", "View.tangent_stamp", "View.detached"),
    *("View.dual", "View.location", "View.under"),
    *("Plan", "Plan.op", "Plan.pick", "Plan.short", "Plan.keeps", "Plan.same", "Plan.shapes", "Plan.watched"),
    *(f"DetachedMark.{name}" for name in ("why", "location", "dtype", "shape", "op")),
    "watch_result",
    *(
        "Node.plan",
        "Node.edges",
        "Node.saved",
        "Node.shape",
        "Node.dtype",
        "Node.seq",
        "Node.meta",
        "Node.code",
        "Node.offset",
    ),
)

TABLE = np.zeros(len(FIELDS), np.int64)  # addresses of the objects, and offsets of the slots in theirs
