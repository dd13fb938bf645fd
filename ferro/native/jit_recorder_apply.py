"""The recorder of any operation, and of those of a sequence of tensors: see jit_recorder.py."""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_fields import array_type, class_of, count_of, dtype_of, load64, room, store64, the_none, the_true
from ferro.native.jit_interpreter import (
    as_long,
    call,
    called,
    change_item,
    contains,
    filled_tuple,
    give_up,
    is_tuple,
    item_at,
    new_long,
    new_ref,
    new_tuple,
    pair,
    put_words,
    release,
    retain,
    set_item,
    single,
)
from ferro.native.jit_nodes import (
    edges_of,
    found_plan,
    new_mark,
    new_output_ref,
    node_of,
    saved_values,
    shape_of_array,
    tensor_of,
    watch_inputs,
)
from ferro.native.jit_objects import (
    are_plain,
    computed,
    handed_on,
    is_float,
    is_op,
    is_tensor,
    is_up_to_date,
    known,
    mode_here,
    put,
    slot,
)

# --- any operation ---------------------------------------------------------------------------------------------------


def apply(objects, count):
    """apply(op, xs) or apply(op, xs, params), for operations with a fixed number of inputs and outputs, and no views."""
    if not 2 <= count <= 3:
        return 0
    params = new_ref(load64(objects + 16)) if count == 3 else new_tuple(0)
    if params == 0:
        return -1
    found = _applied(load64(objects), load64(objects + 8), params)
    release(params)
    return found


@device
def _applied(op, xs, params):
    if not (is_op(op) and is_tuple(xs) and is_tuple(params) and are_plain(params)):
        return 0
    applied, mode, many = slot(op, "Op.applied"), mode_here(), count_of(xs)
    if mode == -1 or applied != the_true() or many + count_of(params) > 40:
        return 0
    function, arguments, lead = slot(op, "Op.direct"), room(), 0
    if function == the_none():
        function, lead = slot(op, "Op._forward"), 1
        store64(arguments, known("cpu"))
    arrays = arguments + 8 * lead
    mask = _gathered(xs, arrays)
    if mask < 0:
        return 0
    mask = mask & as_long(slot(op, "Op.diff_mask")) if mode == 0 else 0
    extra = put_words(arrays + 8 * many, params)
    # Held while the operation computes: where gradients go, the arrays, and the mark of the mode.
    edges = edges_of(xs, mask)
    if edges == 0:
        return -1
    for k in range(many):
        retain(load64(arrays + 8 * k))
    retain(mode)
    result = call(function, arguments, lead + many + extra, 0)
    for k in range(many):
        release(load64(arrays + 8 * k))
    found = handed_on() if result == 0 else _wrapped(op, xs, params, mode, mask, edges, result)
    give_up(result, edges, mode)
    return found


@device
def _gathered(xs, address):
    """Writes the arrays of tensors (None for None) to an address; gives which tensors have histories, -1 if Python has to look."""
    mask = 0
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        value = x
        if x != the_none():
            if not is_tensor(x) or not is_up_to_date(x):
                return -1
            value = slot(x, "TensorBase._data")
            if class_of(value) != array_type():
                return -1
            mask |= int(slot(x, "TensorBase._node") != the_none()) << k
        store64(address + 8 * k, value)
    return mask


@device
def _wrapped(op, xs, params, mode, mask, edges, result):
    """The tensors for what an operation has computed."""
    several, aux = slot(op, "Op.multi") == the_true(), as_long(slot(op, "Op.aux_count"))
    outs = new_ref(result) if several or aux != 0 else single(_as_array(new_ref(result)))
    if outs == 0:
        return -1
    found = 0
    if is_tuple(outs) and count_of(outs) >= aux:
        if several:
            found = _many(op, xs, params, mode, mask, edges, outs, count_of(outs) - aux)
        else:
            found = _single(op, xs, params, mode, mask, edges, outs)
    release(outs)
    return found


@device
def _as_array(value):
    """An array for a number, and anything else as it is; owned by the caller, who owned the value."""
    if value == 0 or class_of(value) == array_type():
        return value
    found = called(known("asarray"), value)
    release(value)
    return found


@device
def _is_inexact(a):
    """Whether an array has a dtype with derivatives; -1 if that cannot be found out."""
    return 1 if is_float(a) else contains(known("INEXACT"), dtype_of(a))


@device
def _node_with(kind, plan, edges, xs, outs, params, shape, dtype):
    """The node of a call; 0 if that fails. It owns the plan, the shape and the dtype; the edges get one more owner."""
    saved = saved_values(plan, xs, outs, params) if plan != 0 and shape != 0 else 0
    watched = new_ref(plan)
    locate = plan != 0 and slot(plan, "Plan.keeps") == the_true()
    node = node_of(kind, plan, new_ref(edges), saved, shape, dtype, locate)
    if node != 0 and not watch_inputs(node, watched, xs):
        release(node)
        node = 0
    release(watched)
    return node


@device
def _single(op, xs, params, mode, mask, edges, outs):
    """The tensor of an operation with one output, and perhaps aux values behind it."""
    data = _as_array(new_ref(item_at(outs, 0)))
    inexact = 0 if mask == 0 else -1 if data == 0 else _is_inexact(data)
    if data == 0 or inexact < 0:
        return give_up(data)
    if inexact == 0:
        return marked(data, mode, op, xs, the_none())
    plan, shape = found_plan(op, mask), shape_of_array(data)
    node = _node_with(known("Node"), plan, edges, xs, outs, params, shape, new_ref(dtype_of(data)))
    return tensor_of(data, node, new_ref(the_none()))


@device
def _many(op, xs, params, mode, mask, edges, outs, count):
    """The tuple of tensors of an operation with several outputs."""
    arrays, outputs, none = filled_tuple(count), filled_tuple(count), the_none()
    recorded = _described(op, mask, outs, arrays, outputs) if arrays != 0 and outputs != 0 else -1
    node, location = 0, new_ref(none)
    if recorded > 0:
        plan = found_plan(op, mask)
        node = _node_with(known("MultiNode"), plan, edges, xs, outs, params, new_ref(none), new_ref(none))
        if node != 0:
            put(node, "MultiNode.outputs", new_ref(outputs))
            if slot(node, "Node.code") != 0:
                release(location)
                location = pair(new_ref(slot(node, "Node.code")), new_ref(slot(node, "Node.offset")))
    failed = recorded < 0 or (recorded > 0 and node == 0) or location == 0
    tensors = 0 if failed else filled_tuple(count)
    for k in range(count):
        if tensors == 0:
            break
        t = _output(k, node, arrays, outputs, tensors, mode, op, xs, location)
        if t > 0:
            change_item(tensors, k, t)
        else:
            release(tensors)
            tensors = 0
    give_up(arrays, outputs, location, node)
    return -1 if tensors == 0 else tensors


@device
def _described(op, mask, outs, arrays, outputs):
    """Enters the arrays of outputs, and shape and dtype of those that are recorded. Whether there are such; -1 after an error."""
    recorded = 0
    for k in range(count_of(arrays)):
        data, number = _as_array(new_ref(item_at(outs, k))), new_long(k)
        inexact = -1 if data == 0 or number == 0 else 0
        if inexact == 0 and mask != 0:
            never = contains(slot(op, "Op.nondiff_indices"), number)
            inexact = _is_inexact(data) if never == 0 else -1 if never < 0 else 0
        release(number)
        if data != 0:
            change_item(arrays, k, data)
        if inexact > 0:
            recorded = 1
            found = pair(shape_of_array(data), new_ref(dtype_of(data)))
            inexact = -1 if found == 0 else 0
            if found != 0:
                change_item(outputs, k, found)
        if inexact < 0:
            return -1
    return recorded


@device
def _output(k, node, arrays, outputs, tensors, mode, op, xs, location):
    """The tensor of one of several outputs; -1 after an error."""
    data, found, none = new_ref(item_at(arrays, k)), item_at(outputs, k), the_none()
    if found != none:
        shape, dtype = new_ref(item_at(found, 0)), new_ref(item_at(found, 1))
        return tensor_of(data, new_output_ref(new_ref(node), new_long(k), shape, dtype), new_ref(none))
    if k > 0 and mode != 0:  # where nothing is recorded, all are marked alike
        return tensor_of(data, new_ref(none), new_ref(slot(item_at(tensors, 0), "TensorBase._meta")))
    t = marked(data, mode, op, xs, location)
    return give_up(t) if t > 0 and node != 0 and not _watch(t, node, k) else t


@device
def _watch(t, node, k):
    """Let a node watch its output number k, a tensor without history, if it has saved it. False after an error."""
    number = new_long(k)
    found = contains(slot(slot(node, "Node.plan"), "Plan.watched"), number) if number != 0 else -1
    done = called(known("watch_result"), t, node, number) if found > 0 else 0
    give_up(number, done)
    return found == 0 or done != 0


# --- marks of results without history ----------------------------------------------------------------------------------


@device
def marked(data, mode, op, xs, location):
    """A tensor without history, which owns the array, with the mark of how it lost it; -1 after an error."""
    t = tensor_of(data, new_ref(the_none()), new_ref(the_none()))
    return give_up(t) if t > 0 and not _mark(t, mode, op, xs, location) else t


@device
def _mark_by_python(t, mode, op, xs, location):
    done = called(known("_mark_detached"), t, mode if mode != 0 else the_none(), op, xs, location)
    release(done)
    return done != 0


@device
def _mark(t, mode, op, xs, location):
    """Mark a result without history, as `mark_detached` does. False if that raises."""
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        if x == the_none():
            continue
        n, meta, mark = slot(x, "TensorBase._node"), slot(x, "TensorBase._meta"), 0
        if n == 0 or meta == 0:
            return _mark_by_python(t, mode, op, xs, location)
        if n == the_none() and meta == the_none():
            continue
        if class_of(meta) == known("DetachedMark") and (k == 0 or n == the_none()):
            mark = meta
        elif n != the_none():
            mark = mode
        elif class_of(meta) == known("View"):
            mark = slot(meta, "View.detached")
        if slot(t, "TensorBase._meta") != the_none():
            return _mark_by_python(t, mode, op, xs, location)
        mark = new_ref(mark) if mark != 0 else new_mark(t, op, x, location)
        if mark <= 0:
            return mark == 0 and _mark_by_python(t, mode, op, xs, location)
        if mark != the_none():
            put(t, "TensorBase._meta", mark)
            release(the_none())
            return True
        release(mark)
    return True


# --- a sequence of tensors ---------------------------------------------------------------------------------------------


def joined(objects, count):
    """joined(op, xs, dim)."""
    if count != 3:
        return 0
    op, xs, dim = load64(objects), load64(objects + 8), load64(objects + 16)
    if not (is_op(op) and is_tuple(xs)) or count_of(xs) > 60:
        return 0
    words, mode = room(), mode_here()
    mask = _gathered(xs, words)
    if mode == -1 or mask < 0:
        return 0
    for k in range(count_of(xs)):
        a = load64(words + 8 * k)
        if class_of(a) != array_type() or dtype_of(a) != dtype_of(load64(words)):
            return 0
    recorded = mask if mode == 0 else 0
    arrays, edges = new_tuple(count_of(xs)), edges_of(xs, recorded)
    if arrays == 0 or edges == 0:
        return give_up(arrays, edges)
    for k in range(count_of(xs)):
        set_item(arrays, k, new_ref(load64(words + 8 * k)))
    retain(mode)
    store64(words, arrays)
    store64(words + 8, dim)
    found = computed(slot(op, "Op.direct"), words, 2)
    if found > 0:
        if recorded != 0:
            found = _joined_node(op, mask, arrays, edges, dim, found)
        elif mask & 1:
            found = tensor_of(found, new_ref(the_none()), new_ref(mode))
        else:
            found = marked(found, mode, op, xs, the_none())
    give_up(arrays, edges, mode)
    return found


@device
def _joined_node(op, mask, arrays, edges, dim, out):
    """The tensor of a recorded `joined`, which owns the array."""
    plan, saved = found_plan(op, mask), 0
    if plan != 0 and count_of(slot(plan, "Plan.shapes")) > 0:
        shapes = filled_tuple(count_of(arrays))
        for k in range(count_of(arrays)):
            shape = shape_of_array(item_at(arrays, k)) if shapes != 0 else 0
            if shape != 0:
                change_item(shapes, k, shape)
            else:
                release(shapes)
                shapes = 0
        saved = pair(new_ref(dim), shapes)
    elif plan != 0:
        saved = single(new_ref(dim))
    shape, dtype = shape_of_array(out), new_ref(dtype_of(out))
    node = node_of(known("Node"), plan, new_ref(edges), saved, shape, dtype, False)
    return tensor_of(out, node, new_ref(the_none()))
