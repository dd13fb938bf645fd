"""The recorder of the tape as machine code: results computed, wrapped and recorded in one call.

What stands here says again, for the most frequent case, what core/apply.py says, and the functions there stand behind these:
for any argument that is not a plain tensor, while any mode is on that does more than leave out recording, and for whatever
raises. `unary` and `binary` take float32 and float64 alone. The objects of the tape are known by a table, see core/tape.py.
Every function begins with `is_op`: where the table is empty, no object is an operation.

Note [Who owns what]
    Functions that make an object take over what they are given: see jit_interpreter.py. `call`, which may run Python, must
    not follow an error. What is read from a tensor and used after other code has run is held meanwhile: another thread may
    change the tensor.
"""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_arrays import is_number
from ferro.native.jit_fields import array_type, class_of, count_of, dtype_of, load64, room, store64, the_none, the_true
from ferro.native.jit_interpreter import (
    called,
    give_up,
    is_tuple,
    new_ref,
    pair,
    put_words,
    release,
    retain,
    single,
)
from ferro.native.jit_nodes import (
    edge_of,
    new_tensor,
    plan_of,
    record,
    saved_of_one,
    tensor_of,
)
from ferro.native.jit_objects import (
    are_plain,
    computed,
    function_for,
    handed_on,
    is_float,
    is_op,
    is_tensor,
    is_up_to_date,
    known,
    mark_of,
    mode_here,
    slot,
)
from ferro.native.jit_recorder_apply import marked


def wrap(objects, count):
    """wrap(data), wrap(data, node) or wrap(data, node, cls)."""
    if not 1 <= count <= 3:
        return 0
    data, node, kind, none = load64(objects), the_none(), known("Tensor"), the_none()
    if count > 1:
        node = load64(objects + 8)
    if count == 3 and load64(objects + 16) != none:
        kind = load64(objects + 16)
    if class_of(data) != array_type() or kind == 0 or (kind != known("Tensor") and kind != known("Parameter")):
        return 0
    return new_tensor(kind, new_ref(data), new_ref(node), new_ref(none), new_ref(none))


# --- operations of one or two tensors of floats ------------------------------------------------------------------------


def unary(objects, count):
    """unary(op, x) or unary(op, x, params)."""
    if not 2 <= count <= 3:
        return 0
    op, x, params = load64(objects), load64(objects + 8), 0
    if not is_op(op) or slot(op, "Op.taped") != the_true() or not is_tensor(x):
        return 0
    if count == 3:
        params = load64(objects + 16)
        if not is_tuple(params) or count_of(params) > 8 or not are_plain(params):
            return 0
    return _recorded(op, x, 0, params)


def binary(objects, count):
    """binary(op, x, y), of which x or y may be a number."""
    if count != 3:
        return 0
    op, x, y, number = load64(objects), load64(objects + 8), load64(objects + 16), 0
    if not is_op(op) or slot(op, "Op.applied") != the_true():
        return 0
    if not is_tensor(x):
        if not is_number(x) or not is_tensor(y) or not is_float(slot(y, "TensorBase._data")):
            return 0
        x = number = _constant_like(x, y)
    elif not is_tensor(y):
        if not is_number(y) or not is_float(slot(x, "TensorBase._data")):
            return 0
        y = number = _constant_like(y, x)
    if x <= 0 or y <= 0:
        return min(x, y)
    found = _recorded(op, x, y, 0) if slot(op, "Op.taped") == the_true() else _compared(op, x, y)
    release(number)
    return found


@device
def _compared(op, x, y):
    """The tensor of an operation of two tensors that has no gradient."""
    mode, words = mode_here(), room()
    a, b = slot(x, "TensorBase._data"), slot(y, "TensorBase._data")
    function = function_for(op, a, b)
    if mode == -1 or function == 0 or not is_up_to_date(x) or not is_up_to_date(y):
        return 0
    xs = pair(new_ref(x), new_ref(y))
    if xs == 0:
        return -1
    retain(mode)
    retain(a)
    retain(b)
    store64(words, a)
    store64(words + 8, b)
    found, none = computed(function, words, 2), the_none()
    if found > 0:
        recorded = mode == 0 or (slot(x, "TensorBase._node") == none and slot(y, "TensorBase._node") == none)
        if not recorded and mode != none:
            found = tensor_of(found, new_ref(none), new_ref(mode))
        else:
            found = marked(found, mode, op, xs, none)
    give_up(a, b, xs, mode)
    return found


@device
def _constant_like(value, x):
    """The tensor that stands for a number beside a tensor; 0 if Python has to choose, -1 after an error."""
    found = called(known("constant"), value, dtype_of(slot(x, "TensorBase._data")))
    if found == 0:
        return handed_on()
    if not is_tensor(found):
        release(found)
        return 0
    return found


@device
def _recorded(op, x, y, params):
    """The tensor of an operation of one tensor (y is 0) and parameters (a tuple, or 0), or of two tensors."""
    mode, a = mode_here(), slot(x, "TensorBase._data")
    b = a if y == 0 else slot(y, "TensorBase._data")
    function = function_for(op, a, b)
    if mode == -1 or function == 0 or not is_up_to_date(x) or (y != 0 and not is_up_to_date(y)):
        return 0
    mask = int(slot(x, "TensorBase._node") != the_none())
    if y != 0:
        mask += 2 * (slot(y, "TensorBase._node") != the_none())
    plan, first, second, mark = 0, 0, 0, the_none()
    if mask != 0 and mode == 0:
        plan = plan_of(op, mask)
        if plan == the_none():
            return 0
        first = edge_of(x if mask & 1 else y)
        if mask == 3:
            second = edge_of(y)
    else:
        mark = _inherited(x, y, mask, mode)
        if mark == 0:
            return 0
    retain(mark)
    retain(a)
    retain(b)
    out = _computed(function, a, b, y, params)
    if out <= 0:
        give_up(a, b, first, second, mark)
        return out
    if plan == 0:
        give_up(a, b)
        return tensor_of(out, new_ref(the_none()), mark)
    release(mark)
    saved = saved_of_one(plan, x, y, a, out, params)
    give_up(a, b)
    edges = pair(first, second) if mask == 3 else single(first)
    if y != 0:
        return record(plan, edges, saved, out, 0, slot(plan, "Plan.pick") != the_none(), x, y)
    same = first if class_of(first) == known("Node") and slot(plan, "Plan.same") == the_true() else 0
    return record(plan, edges, saved, out, same, slot(plan, "Plan.keeps") == the_true(), x, x)


@device
def _inherited(x, y, mask, mode):
    """The mark of a result without history: that of the mode, or the first that x and y hand on; 0 if only Python knows."""
    if mask != 0 and mode != the_none():
        return mode
    mark = mark_of(x)
    return mark_of(y) if y != 0 and mark == the_none() else mark


@device
def _computed(function, a, b, y, params):
    """The array that a function gives for one array and parameters, or for two."""
    arguments, many = room(), 1
    store64(arguments, a)
    if y != 0:
        store64(arguments + 8, b)
        many = 2
    elif params != 0:
        many += put_words(arguments + 8, params)
    return computed(function, arguments, many)
