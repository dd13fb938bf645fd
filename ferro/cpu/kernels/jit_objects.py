"""The objects of the tape as machine code sees them: addresses, where their slots lie, and what is made of them.

The table of core/tape.py gives addresses of objects, and where classes with slots keep theirs. Functions here return
the addresses of new objects, which their caller owns then, and 0 where there is no memory.
"""

from __future__ import annotations

from typing import Any

from numba import types

from ferro.cpu.kernels.jit import device
from ferro.cpu.kernels.jit_export import DATA, DESCRIPTION, TUPLE_ITEMS, TUPLE_SIZE, TYPE
from ferro.cpu.kernels.jit_front import (
    MOST,
    address_of,
    array_type,
    external,
    is_array,
    put,
    room,
    size_of,
    word,
)
from ferro.cpu.kernels.tape_table import FIELDS

i64 = types.int64
LIST_SIZE, LIST_ITEMS = 16, 24
FLOAT32, FLOAT64 = 11, 12  # NPY_FLOAT, NPY_DOUBLE

retain, release = [external(name, types.void, i64) for name in ("Py_IncRef", "Py_DecRef")]
call = external("PyObject_Vectorcall", i64, i64, i64, i64, i64)
allocate = external("PyType_GenericAlloc", i64, i64, i64)
attribute = external("PyObject_GetAttr", i64, i64, i64)
next_of = external("PyIter_Next", i64, i64)
new_tuple = external("PyTuple_New", i64, i64)
clear_error = external("PyErr_Clear", types.void)
as_long = external("PyLong_AsLongLong", i64, i64)
new_long = external("PyLong_FromLongLong", i64, i64)
_value_of = external("PyContextVar_Get", types.int32, i64, i64, i64)
_code_of = external("PyFrame_GetCode", i64, i64)
_instruction_of = external("PyFrame_GetLasti", types.int32, i64)
dict_item = external("PyDict_GetItem", i64, i64, i64)
tuple_from = external("PySequence_Tuple", i64, i64)
contains = external("PySet_Contains", types.int32, i64, i64)
the_none, the_true = address_of("_Py_NoneStruct"), address_of("_Py_TrueStruct")
tuple_type = address_of("type.tuple")
_value_error, _runtime_warning = address_of("PyExc_ValueError"), address_of("PyExc_RuntimeWarning")
_error_is = external("PyErr_ExceptionMatches", types.int32, i64)
_table = address_of("ferro.tape")


def _entry(name: str) -> Any:
    """A function that gives a number of the table."""
    place = 8 * FIELDS.index(name)

    def entry():
        return word(word(_table() + DATA) + place)

    return device(entry)


tensor_class, _parameter, node_class, the_leaf = map(_entry, ("Tensor", "Parameter", "Node", "LEAF"))
_active, the_sequence, _outside, _outermost = map(_entry, ("ACTIVE", "sequence", "OUTSIDE", "outermost"))
constant_function, _frame_at, one_object, zero_object = map(_entry, ("constant", "_getframe", "1", "0"))
_mode, _mode_silent, _mode_lost = map(_entry, ("MODE", "Mode.silent", "Mode.lost"))
lost_class, guard_function = map(_entry, ("Lost", "guard"))
view_class, version_function, no_grad_word, multi_word = map(_entry, ("View", "version_of", "'no_grad'", "'multi'"))
v_base, v_path, v_creation, v_born, v_stamp, v_tangent_stamp, v_lost = map(
    _entry,
    ("View.base", "View.path", "View.creation", "View.born", "View.stamp", "View.tangent_stamp", "View.lost"),
)
v_dual, v_place, v_under = map(_entry, ("View.dual", "View.place", "View.under"))
op_viewing = _entry("Op.viewing")
_op_class = _entry("Op")
op_applied, op_multi, op_aux, op_mask, op_forward = map(
    _entry, ("Op.applied", "Op.multi", "Op.aux_count", "Op.diff_mask", "Op._forward")
)
_op_plans, op_nondiff, plan_indices = map(_entry, ("Op.plans", "Op.nondiff_indices", "Plan.indices"))
cpu_module, _find_plan, mark_function, asarray_function, inexact_set = map(
    _entry, ("cpu", "plan_of", "_mark_lost", "asarray", "INEXACT")
)
multi_node_class, pick_class, n_outputs = map(_entry, ("MultiNode", "Pick", "MultiNode.outputs"))
p_node, p_index, p_shape, p_dtype = map(_entry, ("Pick.node", "Pick.index", "Pick.shape", "Pick.dtype"))
file_word, shape_word, view_word = map(_entry, ("'co_filename'", "'shape'", "'view'"))
t_data, t_node, t_counter, t_meta = map(
    _entry, ("TensorBase._data", "TensorBase._node", "TensorBase._counter", "TensorBase._meta")
)
version_n = _entry("Version.n")
op_direct, _op_large, _op_table, op_taped = map(_entry, ("Op.direct", "Op.large", "Op.table", "Op.taped"))
plan_pick, plan_short, plan_keeps, plan_same = map(_entry, ("Plan.pick", "Plan.short", "Plan.keeps", "Plan.same"))
plan_shapes, plan_saves_inputs = map(_entry, ("Plan.shapes", "Plan.saves_inputs"))
n_plan, n_edges, n_saved, n_shape, n_dtype = map(
    _entry, ("Node.plan", "Node.edges", "Node.saved", "Node.shape", "Node.dtype")
)
n_seq, n_meta, n_code, n_offset = map(_entry, ("Node.seq", "Node.meta", "Node.code", "Node.offset"))


@device
def kept(value):
    """An object, which has one more owner now."""
    retain(value)
    return value


@device
def is_tensor(x):
    kind = word(x + TYPE)
    return kind == tensor_class() or kind == _parameter()


@device
def is_op(op):
    return word(op + TYPE) == _op_class()


@device
def is_tuple(items):
    return word(items + TYPE) == tuple_type()


@device
def is_float(a):
    """Whether an object is an array of float32 or float64."""
    return is_array(a, FLOAT32) or is_array(a, FLOAT64)


@device
def function_for(op, a, b):
    """What computes an operation of two arrays of floats, or of one given twice; 0 if Python has to choose."""
    if not is_float(a) or not is_float(b):
        return 0
    found = word(op + (op_direct() if size_of(a) < MOST and size_of(b) < MOST else _op_large()))
    return 0 if found == the_none() else found


@device
def changes_of(x):
    """How often a tensor has been changed in place."""
    counter = word(x + t_counter())
    return 0 if counter == the_none() else as_long(word(counter + version_n()))


@device
def is_up_to_date(x):
    """Whether the history of a tensor is sure to be what is noted: it is no view, or has not been changed."""
    meta = word(x + t_meta())
    return meta == the_none() or word(meta + TYPE) == lost_class() or changes_of(x) == 0


@device
def mode_here():
    """What is switched: 0 for nothing, -1 for what only Python deals with; else the mark of what is not recorded."""
    if word(_active() + LIST_SIZE) == 0:
        return 0
    found = room()
    if _value_of(_mode(), 0, found) != 0:
        clear_error()
        return -1
    mode = word(found)
    mark = 0
    if mode != the_none():
        mark = word(mode + _mode_lost()) if word(mode + _mode_silent()) == the_true() else -1
    release(mode)  # (the context holds it)
    return mark


@device
def mark_of(x):
    """The mark that a result without history inherits from a tensor: None for none, 0 if only Python knows."""
    meta = word(x + t_meta())
    return meta if meta == the_none() or word(meta + TYPE) == lost_class() else 0


@device
def plan_of(op, mask):
    """The plan of an operation whose inputs in the mask need gradients; None if there is none yet."""
    return word(word(word(op + _op_table()) + LIST_ITEMS) + 8 * mask)


@device
def tensor_of(out, mark):
    """A new tensor, which owns `out` now. Its history is still to be given."""
    t = allocate(tensor_class(), 0)
    if t != 0:
        put(t + t_data(), out)
        put(t + t_counter(), kept(the_none()))
        put(t + t_meta(), kept(mark))
    return t


@device
def edge_of(x):
    """Where the gradient of a tensor goes."""
    n = word(x + t_node())
    return kept(x if n == the_leaf() else n)


@device
def tuple_of(a, b, c):
    """A tuple of up to three objects (0: no more), which owns them now."""
    found = new_tuple((a != 0) + (b != 0) + (c != 0))
    if found != 0:
        if a != 0:
            put(found + TUPLE_ITEMS, a)
        if b != 0:
            put(found + TUPLE_ITEMS + 8, b)
        if c != 0:
            put(found + TUPLE_ITEMS + 16, c)
    return found


@device
def _frame_here():
    """The frame of the user's program: two up, or further where that is the library's; 0 if it cannot be found."""
    arguments = room()
    put(arguments, one_object())
    frame = call(_frame_at(), arguments, 1, 0)
    if frame == 0:  # the operation itself is the bottom of the stack
        clear_error()
        put(arguments, zero_object())
        frame = call(_frame_at(), arguments, 1, 0)
        if frame == 0:
            return 0
    code = _code_of(frame)
    file = attribute(code, file_word())
    release(code)
    if file == 0:
        return 0
    known = contains(_outside(), file)
    release(file)
    if known != 1:
        put(arguments, frame)
        other = call(_outermost(), arguments, 1, 0)
        release(frame)
        frame = other
    return frame


@device
def note_place(node):
    """Note the place in the user's program. False if that fails."""
    frame = _frame_here()
    if frame == 0:
        return False
    put(node + n_code(), _code_of(frame))
    put(node + n_offset(), new_long(_instruction_of(frame)))
    release(frame)
    return True


@device
def place_here():
    """The place in the user's program, as `caller` gives it; 0 if that fails."""
    frame = _frame_here()
    if frame == 0:
        return 0
    place = tuple_of(_code_of(frame), new_long(_instruction_of(frame)), 0)
    release(frame)
    return place


@device
def count_of(items):
    return word(items + TUPLE_SIZE)


@device
def item_at(items, k):
    """An item of a tuple."""
    return word(items + TUPLE_ITEMS + 8 * k)


@device
def number_at(items, k):
    return as_long(item_at(items, k))


@device
def saved_values(plan, xs, outs, params):
    """What a plan saves, from the inputs, the tuple of outputs and aux values, and the parameters; 0 if that fails."""
    if word(plan + plan_pick()) == the_none():
        return tuple_of(0, 0, 0)
    values = new_tuple(count_of(xs) + count_of(outs) + count_of(params))
    if values == 0:
        return 0
    place = values + TUPLE_ITEMS
    for k in range(count_of(xs)):
        put(place, kept(item_at(xs, k)))
        place += 8
    for k in range(count_of(outs)):
        put(place, kept(item_at(outs, k)))
        place += 8
    for k in range(count_of(params)):
        put(place, kept(item_at(params, k)))
        place += 8
    arguments = room()
    put(arguments, values)
    picked = call(word(plan + plan_pick()), arguments, 1, 0)
    release(values)
    shapes = word(plan + plan_shapes())
    if picked == 0 or count_of(shapes) == 0:
        return picked
    found = new_tuple(count_of(picked) + count_of(shapes))
    if found != 0:
        for k in range(count_of(picked)):
            put(found + TUPLE_ITEMS + 8 * k, kept(item_at(picked, k)))
        for k in range(count_of(shapes)):
            x = item_at(xs, number_at(shapes, k))
            shape = kept(x) if x == the_none() else attribute(word(x + t_data()), shape_word())
            put(found + TUPLE_ITEMS + 8 * (count_of(picked) + k), shape)
    release(picked)
    return found


@device
def node_of(kind, plan, edges, saved):
    """A node, which owns what is given; what is known of its outputs is still to be noted. 0 if there is no memory."""
    node = allocate(kind, 0)
    if node != 0:
        put(node + n_plan(), plan)
        put(node + n_edges(), edges)
        put(node + n_saved(), saved)
        put(node + n_seq(), next_of(the_sequence()))
        put(node + n_meta(), kept(the_none()))
    return node


@device
def watch_inputs(node, plan, xs):
    """Let a node watch the inputs that it has saved and that were changed before. False if it must not save one."""
    inputs = word(plan + plan_saves_inputs())
    for k in range(count_of(inputs)):
        x = item_at(xs, number_at(inputs, k))
        if x != the_none() and changes_of(x) != 0:
            arguments = room()
            put(arguments, node)
            put(arguments + 8, word(x + t_counter()))
            done = call(guard_function(), arguments, 2, 0)
            if done == 0:
                return False
            release(done)
    return True


@device
def record(t, plan, edges, saved, out, same, place, x, y):
    """Give a tensor its history. `same`: a node whose shape and dtype it has too, or 0; x, y: what may have been saved.

    What is given belongs to the node now, but for the plan. Gives the tensor, or -1 and takes it away.
    """
    retain(plan)
    node = node_of(node_class(), plan, edges, saved) if edges != 0 and saved != 0 else 0
    if node == 0:
        release(t)
        return -1
    put(t + t_node(), node)
    if same != 0:
        put(node + n_shape(), kept(word(same + n_shape())))
        put(node + n_dtype(), kept(word(same + n_dtype())))
    else:
        put(node + n_shape(), attribute(out, shape_word()))
        put(node + n_dtype(), kept(word(out + DESCRIPTION)))
    fine = not place or note_place(node)
    if fine and (changes_of(x) != 0 or changes_of(y) != 0):
        xs = tuple_of(kept(x), kept(y), 0)
        fine = watch_inputs(node, plan, xs)
        release(xs)
    if not fine:
        release(t)
        return -1
    return t


@device
def handed_on():
    """After an error: 0 where Python has an answer to it, which computes again; else -1, it reaches the caller."""
    if _error_is(word(_value_error())) == 0 and _error_is(word(_runtime_warning())) == 0:
        return -1
    clear_error()
    return 0


@device
def computed(direct, arguments, count):
    """The array that a function gives; 0 if it gives anything else, and what `handed_on` says if it raises."""
    out = call(direct, arguments, count, 0)
    if out == 0:
        return handed_on()
    if word(out + TYPE) != array_type():
        release(out)
        return 0
    return out


@device
def params_and_shape(params, count, a):
    """A tuple of parameters and behind them the shape of an array."""
    found = new_tuple(count + 1)
    if found != 0:
        for k in range(count):
            put(found + TUPLE_ITEMS + 8 * k, kept(word(params + TUPLE_ITEMS + 8 * k)))
        put(found + TUPLE_ITEMS + 8 * count, attribute(a, shape_word()))
    return found


@device
def found_plan(op, mask):
    """The plan of an operation whose inputs in the mask need gradients, made if there is none yet; 0 if that fails."""
    if mask < 4:
        plan = plan_of(op, mask)
        if plan != the_none():
            return kept(plan)
    number = new_long(mask)
    plan = dict_item(word(op + _op_plans()), number)
    if plan != 0:
        retain(plan)
    else:
        arguments = room()
        put(arguments, op)
        put(arguments + 8, number)
        plan = call(_find_plan(), arguments, 2, 0)
    release(number)
    return plan
