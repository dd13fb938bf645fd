"""The objects of the tape as machine code sees them: addresses, where their slots lie, and what is made of them.

The table of core/tape.py gives addresses of objects, and where classes with slots keep theirs. Functions here return
the addresses of new objects, which their caller owns then, and 0 where there is no memory.
"""

from __future__ import annotations

from typing import Any

from numba import types

from ferro.native.jit import device
from ferro.native.jit_entries import MOST, as_long, is_array, size_of
from ferro.native.jit_fields import (
    address_of,
    array_type,
    class_of,
    count_of,
    dtype_of,
    external,
    int_type,
    items_of,
    list_count,
    list_items,
    load64,
    room,
    store64,
    the_none,
    the_true,
    tuple_type,
)
from ferro.native.slots import FIELDS

i64 = types.int64
FLOAT32, FLOAT64 = 11, 12  # NPY_FLOAT, NPY_DOUBLE

retain, release = [
    external(name, types.void, i64) for name in ("Py_IncRef", "Py_DecRef")
]  # (0 is no object: nothing happens)
call = external("PyObject_Vectorcall", i64, i64, i64, i64, i64)
allocate = external("PyType_GenericAlloc", i64, i64, i64)
attribute = external("PyObject_GetAttr", i64, i64, i64)
next_of = external("PyIter_Next", i64, i64)
new_tuple = external("PyTuple_New", i64, i64)
clear_error = external("PyErr_Clear", types.void)
new_long = external("PyLong_FromLongLong", i64, i64)
_value_of = external("PyContextVar_Get", types.int32, i64, i64, i64)
_code_of = external("PyFrame_GetCode", i64, i64)
_instruction_of = external("PyFrame_GetLasti", types.int32, i64)
_dict_item = external("PyDict_GetItemWithError", i64, i64, i64)
tuple_from = external("PySequence_Tuple", i64, i64)
contains = external("PySet_Contains", types.int32, i64, i64)
_error_is = external("PyErr_ExceptionMatches", types.int32, i64)
_failed = external("PyErr_Occurred", i64)
_value_error, _runtime_warning, _overflow_error = [
    address_of(f"PyExc_{name}") for name in ("ValueError", "RuntimeWarning", "OverflowError")
]
_table = address_of("ferro.tape")


def _entry(name: str) -> Any:
    """A function that gives a number of the table."""
    offset = 8 * FIELDS.index(name)

    def entry():
        return load64(_table() + offset)

    return device(entry)


tensor_class, parameter_class, node_class, the_leaf = map(_entry, ("Tensor", "Parameter", "Node", "LEAF"))
_active, the_sequence, _outside, _outermost = map(_entry, ("ACTIVE", "sequence", "OUTSIDE", "outermost"))
constant_function, _frame_at, one_object, zero_object = map(_entry, ("constant", "_getframe", "1", "0"))
_mode, _mode_silent, _mode_detached = map(_entry, ("MODE", "Mode.silent", "Mode.detached"))
detached_class, _version_class, _guard_function = map(_entry, ("DetachedMark", "Version", "guard"))
view_class, version_function, no_grad_name, multi_name = map(_entry, ("View", "version_of", "'no_grad'", "'multi'"))
v_base, v_path, v_creation, v_born, v_stamp, v_tangent_stamp, v_detached = map(
    _entry,
    ("View.base", "View.path", "View.creation", "View.born", "View.stamp", "View.tangent_stamp", "View.detached"),
)
v_dual, v_location, v_under = map(_entry, ("View.dual", "View.location", "View.under"))
op_viewing = _entry("Op.viewing")
_op_class = _entry("Op")
op_applied, op_multi, op_aux, op_mask, op_forward = map(
    _entry, ("Op.applied", "Op.multi", "Op.aux_count", "Op.diff_mask", "Op._forward")
)
_op_plans, op_nondiff, plan_indices = map(_entry, ("Op.plans", "Op.nondiff_indices", "Plan.indices"))
cpu_module, _find_plan, mark_function, asarray_function, inexact_set = map(
    _entry, ("cpu", "plan_of", "_mark_detached", "asarray", "INEXACT")
)
multi_node_class, output_ref_class, n_outputs = map(_entry, ("MultiNode", "OutputRef", "MultiNode.outputs"))
p_node, p_index, p_shape, p_dtype = map(
    _entry, ("OutputRef.node", "OutputRef.index", "OutputRef.shape", "OutputRef.dtype")
)
file_name, shape_name, view_name = map(_entry, ("'co_filename'", "'shape'", "'view'"))
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
def new_ref(value):
    """An object, which has one more owner now."""
    retain(value)
    return value


@device
def give_up(*owned):
    """What a function returns after an error, which reaches the caller: -1. What it owned is let go."""
    for each in owned:
        release(each)
    return -1


# --- whether objects are what they should be --------------------------------------------------------------------------


@device
def _is_counter(counter):
    """Whether an object is None or a version counter with a number."""
    if counter == the_none():
        return True
    if counter == 0 or class_of(counter) != _version_class():
        return False
    n = load64(counter + version_n())
    return n != 0 and class_of(n) == int_type()


@device
def is_tensor(x):
    """Whether an object is a tensor whose slots are all filled.

    One that another thread is making, or that somebody has taken a slot from, is left to Python.
    """
    kind = class_of(x)
    if kind != tensor_class() and kind != parameter_class():
        return False
    if load64(x + t_data()) == 0 or load64(x + t_node()) == 0 or load64(x + t_meta()) == 0:
        return False
    return _is_counter(load64(x + t_counter()))


@device
def is_op(op):
    return class_of(op) == _op_class()


@device
def is_tuple(items):
    return class_of(items) == tuple_type()


@device
def is_float(a):
    """Whether an object is an array of float32 or float64."""
    return is_array(a, FLOAT32) or is_array(a, FLOAT64)


@device
def function_for(op, a, b):
    """What computes an operation of two arrays of floats, or of one given twice; 0 if Python has to choose."""
    if not is_float(a) or not is_float(b):
        return 0
    found = load64(op + (op_direct() if size_of(a) < MOST and size_of(b) < MOST else _op_large()))
    return 0 if found == the_none() else found


@device
def changes_of(x):
    """How often a tensor has been changed in place."""
    counter = load64(x + t_counter())
    return 0 if counter == the_none() else as_long(load64(counter + version_n()))


@device
def is_up_to_date(x):
    """Whether the history of a tensor is sure to be what is noted: it is no view, or has not been changed."""
    meta = load64(x + t_meta())
    return meta == the_none() or class_of(meta) == detached_class() or changes_of(x) == 0


# --- errors ----------------------------------------------------------------------------------------------------------


@device
def handed_on():
    """After an error: 0 where Python has an answer to it, which computes again; else -1, it reaches the caller."""
    for kind in (load64(_value_error()), load64(_runtime_warning()), load64(_overflow_error())):
        if _error_is(kind) != 0:
            clear_error()
            return 0
    return -1


# --- modes and marks --------------------------------------------------------------------------------------------------


@device
def mode_here():
    """What is switched: 0 for nothing, -1 for what only Python deals with; else the mark of what is not recorded."""
    if list_count(_active()) == 0:
        return 0
    found = room()
    if _value_of(_mode(), 0, found) != 0:
        clear_error()
        return -1
    mode = load64(found)
    mark = 0
    if mode != the_none():
        mark = load64(mode + _mode_detached()) if load64(mode + _mode_silent()) == the_true() else -1
    release(mode)  # (the context holds it)
    return mark


@device
def mark_of(x):
    """The mark that a result without history inherits from a tensor: None for none, 0 if only Python knows."""
    meta = load64(x + t_meta())
    return meta if meta == the_none() or class_of(meta) == detached_class() else 0


# --- tuples ----------------------------------------------------------------------------------------------------------


@device
def item_at(items, k):
    """An item of a tuple."""
    return load64(items_of(items) + 8 * k)


@device
def number_at(items, k):
    return as_long(item_at(items, k))


@device
def set_item(items, k, value):
    """Give a tuple its item, which belongs to the tuple now."""
    store64(items_of(items) + 8 * k, value)


@device
def filled_tuple(n):
    """A tuple of n times None, to be filled while other code runs, which must not see a tuple without items."""
    found = new_tuple(n)
    if found != 0:
        for k in range(n):
            set_item(found, k, new_ref(the_none()))
    return found


@device
def change_item(items, k, value):
    """`set_item` in a tuple that has been filled."""
    set_item(items, k, value)
    release(the_none())


@device
def single(a):
    """A tuple of one object, which owns it now. 0 for 0 (the object could not be made), or if there is no memory."""
    if a == 0:
        return 0
    found = new_tuple(1)
    if found == 0:
        release(a)
        return 0
    set_item(found, 0, a)
    return found


@device
def pair(a, b):
    """The same of two objects."""
    found = new_tuple(2) if a != 0 and b != 0 else 0
    if found == 0:
        release(a)
        release(b)
        return 0
    set_item(found, 0, a)
    set_item(found, 1, b)
    return found


@device
def params_and_shape(params, count, a):
    """A tuple of parameters and behind them the shape of an array."""
    shape = attribute(a, shape_name())
    found = new_tuple(count + 1) if shape != 0 else 0
    if found == 0:
        release(shape)
        return 0
    for k in range(count):
        set_item(found, k, new_ref(item_at(params, k)))
    set_item(found, count, shape)
    return found


# --- where the user's program is -----------------------------------------------------------------------------------------


@device
def _frame_here():
    """The frame of the user's program: two up, or further where that is the library's; 0 if it cannot be found."""
    arguments = room()
    store64(arguments, one_object())
    frame = call(_frame_at(), arguments, 1, 0)
    if frame == 0:  # the operation itself is the bottom of the stack
        if _error_is(load64(_value_error())) == 0:
            return 0
        clear_error()
        store64(arguments, zero_object())
        frame = call(_frame_at(), arguments, 1, 0)
        if frame == 0:
            return 0
    code = _code_of(frame)
    file = attribute(code, file_name())
    release(code)
    known = contains(_outside(), file) if file != 0 else -1
    release(file)
    if known == 1:
        return frame
    other = 0
    if known == 0:
        store64(arguments, frame)
        other = call(_outermost(), arguments, 1, 0)
    release(frame)
    return other


@device
def location_here():
    """Where the user's program is, as `caller` gives it; 0 if that fails."""
    frame = _frame_here()
    if frame == 0:
        return 0
    location = pair(_code_of(frame), new_long(_instruction_of(frame)))
    release(frame)
    return location


# --- what a plan saves ------------------------------------------------------------------------------------------------


@device
def plan_of(op, mask):
    """The plan of an operation whose inputs in the mask (up to 3) need gradients; None if there is none yet."""
    return load64(list_items(load64(op + _op_table())) + 8 * mask)


@device
def found_plan(op, mask):
    """The plan of an operation whose inputs in the mask need gradients, made if there is none yet; 0 if that fails."""
    if mask < 4:
        plan = plan_of(op, mask)
        if plan != the_none():
            return new_ref(plan)
    number = new_long(mask)
    plan = _dict_item(load64(op + _op_plans()), number) if number != 0 else 0
    if plan != 0:
        retain(plan)
    elif _failed() == 0:
        arguments = room()
        store64(arguments, op)
        store64(arguments + 8, number)
        plan = call(_find_plan(), arguments, 2, 0)
    release(number)
    return plan


@device
def saved_values(plan, xs, outs, params):
    """What a plan saves, from the inputs, the tuple of outputs and aux values, and the parameters; 0 if that fails."""
    if load64(plan + plan_pick()) == the_none():
        return new_tuple(0)
    values = new_tuple(count_of(xs) + count_of(outs) + count_of(params))
    if values == 0:
        return 0
    position = 0
    for k in range(count_of(xs)):
        set_item(values, position, new_ref(item_at(xs, k)))
        position += 1
    for k in range(count_of(outs)):
        set_item(values, position, new_ref(item_at(outs, k)))
        position += 1
    for k in range(count_of(params)):
        set_item(values, position, new_ref(item_at(params, k)))
        position += 1
    arguments = room()
    store64(arguments, values)
    picked = call(load64(plan + plan_pick()), arguments, 1, 0)
    release(values)
    shapes = load64(plan + plan_shapes())
    if picked == 0 or count_of(shapes) == 0:
        return picked
    found = filled_tuple(count_of(picked) + count_of(shapes))
    if found != 0:
        for k in range(count_of(picked)):
            change_item(found, k, new_ref(item_at(picked, k)))
        for k in range(count_of(shapes)):
            x = item_at(xs, number_at(shapes, k))
            shape = new_ref(x) if x == the_none() else attribute(load64(x + t_data()), shape_name())
            if shape == 0:
                release(found)
                found = 0
                break
            change_item(found, count_of(picked) + k, shape)
    release(picked)
    return found


# --- nodes and tensors ------------------------------------------------------------------------------------------------


@device
def edge_of(x):
    """Where the gradient of a tensor goes."""
    n = load64(x + t_node())
    # (None or 0: another thread has just taken the history away)
    return new_ref(x if n == the_leaf() or n == the_none() or n == 0 else n)


@device
def tensor_of_class(kind, out, node, mark):
    """A new tensor around an array, with its history and the mark that it inherits. It owns them; they are let go if it fails.

    Nothing runs between the making of the object and the filling of its slots: nobody sees it half made.
    """
    t = allocate(kind, 0) if out != 0 and node != 0 and mark != 0 else 0
    if t == 0:
        return give_up(out, node, mark)
    store64(t + t_data(), out)
    store64(t + t_node(), node)
    store64(t + t_counter(), new_ref(the_none()))
    store64(t + t_meta(), mark)
    return t


@device
def tensor_of(out, node, mark):
    """The same of class Tensor."""
    return tensor_of_class(tensor_class(), out, node, mark)


@device
def view_tensor_of(out, node, counter, view):
    """The same of a view, with the version counter that it shares."""
    t = allocate(tensor_class(), 0) if out != 0 and node != 0 and counter != 0 and view != 0 else 0
    if t == 0:
        return give_up(out, node, counter, view)
    store64(t + t_data(), out)
    store64(t + t_node(), node)
    store64(t + t_counter(), counter)
    store64(t + t_meta(), view)
    return t


@device
def node_of(kind, plan, edges, saved, shape, dtype, locate):
    """A node of a class, with all that is given, which it owns then. `locate`: whether to note where the program is.

    0 if that fails, or if one of these could not be made (0); then they are let go.
    """
    code, offset, seq = 0, 0, 0
    fine = plan != 0 and edges != 0 and saved != 0 and shape != 0 and dtype != 0
    if fine and locate:
        frame = _frame_here()
        if frame != 0:
            code = _code_of(frame)
            offset = new_long(_instruction_of(frame))
            release(frame)
        fine = code != 0 and offset != 0
    if fine:
        seq = next_of(the_sequence())
    node = allocate(kind, 0) if seq != 0 else 0
    if node == 0:
        give_up(plan, edges, saved, shape, dtype, code, offset, seq)
        return 0
    store64(node + n_plan(), plan)
    store64(node + n_edges(), edges)
    store64(node + n_saved(), saved)
    store64(node + n_seq(), seq)
    store64(node + n_meta(), new_ref(the_none()))
    store64(node + n_shape(), shape)
    store64(node + n_dtype(), dtype)
    if locate:
        store64(node + n_code(), code)
        store64(node + n_offset(), offset)
    return node


@device
def new_output_ref(node, index, shape, dtype):
    """One output of a node, owning what is given; 0 if that fails, and then it is let go."""
    found = allocate(output_ref_class(), 0) if node != 0 and index != 0 and shape != 0 and dtype != 0 else 0
    if found == 0:
        give_up(node, index, shape, dtype)
        return 0
    store64(found + p_node(), node)
    store64(found + p_index(), index)
    store64(found + p_shape(), shape)
    store64(found + p_dtype(), dtype)
    return found


@device
def watch_inputs(node, plan, xs):
    """Let a node watch the inputs that it has saved and that were changed before. False if it must not save one."""
    inputs = load64(plan + plan_saves_inputs())
    for k in range(count_of(inputs)):
        x = item_at(xs, number_at(inputs, k))
        if x != the_none() and changes_of(x) != 0:
            arguments = room()
            store64(arguments, node)
            store64(arguments + 8, load64(x + t_counter()))
            done = call(_guard_function(), arguments, 2, 0)
            if done == 0:
                return False
            release(done)
    return True


@device
def record(plan, edges, saved, out, same, locate, x, y):
    """A tensor around an array, and its node. `same`: a node whose shape and dtype it has too, or 0; x, y: what may have been saved.

    It owns the array, the edges and what is saved, but not the plan; 0 among them says that one could not be made. Gives
    the tensor; or -1 after an error, and then all is let go.
    """
    if edges == 0 or saved == 0:
        return give_up(edges, saved, out)
    retain(plan)
    if same != 0 and load64(same + n_shape()) != 0 and load64(same + n_dtype()) != 0:
        shape, dtype = new_ref(load64(same + n_shape())), new_ref(load64(same + n_dtype()))
    else:
        shape, dtype = attribute(out, shape_name()), new_ref(dtype_of(out))
    node = node_of(node_class(), plan, edges, saved, shape, dtype, locate)
    if node == 0:
        return give_up(out)
    if changes_of(x) != 0 or changes_of(y) != 0:
        xs = pair(new_ref(x), new_ref(y))
        fine = xs != 0 and watch_inputs(node, plan, xs)
        release(xs)
        if not fine:
            return give_up(out, node)
    return tensor_of(out, node, new_ref(the_none()))


@device
def computed(function, arguments, count):
    """The array that a function gives; 0 if it gives anything else, and what `handed_on` says if it raises."""
    out = call(function, arguments, count, 0)
    if out == 0:
        return handed_on()
    if class_of(out) != array_type():
        release(out)
        return 0
    return out
