"""The recorder of the tape as machine code: results computed, wrapped and recorded in one call.

What stands here says again, for the most frequent case, what `unary` and `binary` in core/apply.py say, and these stand
behind it: for any argument that is not a plain tensor of small float32 or float64 arrays, while any mode is on, and for
whatever raises. The objects of the tape are known here by a table, see core/tape.py: addresses of objects, and where
classes with slots keep theirs. Every function begins with `is_op`: where the table is empty, no object is an operation.

Note [Who owns what]
    Functions of jit_objects.py that make an object take over what they are given, and let it go if they fail; given 0,
    something that could not be made, they fail too. So a row of them needs one look at its end; `call`, which may run
    Python, must not follow an error. What is read from a tensor and used after other code has run is held meanwhile:
    another thread may change the tensor.
"""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_entries import as_long, is_number
from ferro.native.jit_fields import array_type, class_of, count_of, dtype_of, load64, room, store64, the_none, the_true
from ferro.native.jit_objects import (
    asarray_function,
    attribute,
    call,
    change_item,
    computed,
    constant_function,
    contains,
    cpu_module,
    detached_class,
    edge_of,
    filled_tuple,
    found_plan,
    function_for,
    give_up,
    handed_on,
    inexact_set,
    is_float,
    is_op,
    is_tensor,
    is_tuple,
    is_up_to_date,
    item_at,
    mark_function,
    mark_of,
    mode_here,
    multi_node_class,
    n_code,
    n_offset,
    n_outputs,
    new_long,
    new_output_ref,
    new_ref,
    new_tuple,
    node_class,
    node_of,
    op_applied,
    op_aux,
    op_direct,
    op_forward,
    op_mask,
    op_multi,
    op_nondiff,
    op_taped,
    pair,
    parameter_class,
    params_and_shape,
    plan_keeps,
    plan_of,
    plan_pick,
    plan_same,
    plan_shapes,
    plan_short,
    record,
    release,
    retain,
    saved_values,
    set_item,
    shape_name,
    single,
    t_data,
    t_meta,
    t_node,
    tensor_class,
    tensor_of,
    tensor_of_class,
    v_detached,
    view_class,
    watch_inputs,
)


def wrap(objects, count):
    """wrap(data), wrap(data, node) or wrap(data, node, cls)."""
    if not 1 <= count <= 3:
        return 0
    data, node, kind = load64(objects), the_none(), tensor_class()
    if count > 1:
        node = load64(objects + 8)
    if count == 3 and load64(objects + 16) != the_none():
        kind = load64(objects + 16)
    if class_of(data) != array_type() or kind == 0 or (kind != tensor_class() and kind != parameter_class()):
        return 0
    return tensor_of_class(kind, new_ref(data), new_ref(node), new_ref(the_none()))


def unary(objects, count):  # noqa: C901, PLR0912 (one straight list of cases)
    """unary(op, x) or unary(op, x, params)."""
    if not 2 <= count <= 3:
        return 0
    op, x = load64(objects), load64(objects + 8)
    if not is_op(op) or load64(op + op_taped()) != the_true() or not is_tensor(x):
        return 0
    a, mode = load64(x + t_data()), mode_here()
    function = function_for(op, a, a)
    if mode == -1 or function == 0 or not is_up_to_date(x):
        return 0
    params, extra = 0, 0
    if count == 3:
        params = load64(objects + 16)
        if not is_tuple(params) or count_of(params) > 8:
            return 0
        extra = count_of(params)
    n, plan, short, mark, edge = load64(x + t_node()), 0, 0, the_none(), 0
    if n != the_none() and mode == 0:
        plan = plan_of(op, 1)
        if plan == the_none():
            return 0
        short = as_long(load64(plan + plan_short()))
        if load64(plan + plan_pick()) == the_none():
            short = -1
        edge = edge_of(x)
    else:
        mark = mode if n != the_none() and mode != the_none() else mark_of(x)
        if mark == 0:
            return 0
    retain(mark)
    retain(a)
    arguments = room()
    store64(arguments, a)
    for k in range(extra):
        store64(arguments + 8 + 8 * k, item_at(params, k))
    out = computed(function, arguments, 1 + extra)
    if out <= 0:
        give_up(a, edge, mark)
        return out
    if plan == 0:
        release(a)
        return tensor_of(out, new_ref(the_none()), mark)
    release(mark)
    if short == -1:
        saved = new_tuple(0)
    elif short == 1:
        saved = single(new_ref(out))
    elif short == 0:
        saved = single(new_ref(x))
    elif short == 20:
        saved = single(attribute(a, shape_name()))
    elif short == 21:
        saved = new_ref(params) if params != 0 else new_tuple(0)
    elif short == 22:
        saved = params_and_shape(params, extra, a)
    else:
        saved = _saved_of(plan, single(new_ref(x)), out, params)
    same = edge if class_of(edge) == node_class() and load64(plan + plan_same()) == the_true() else 0
    locate = short != -1 and load64(plan + plan_keeps()) == the_true()
    found = record(plan, single(edge), saved, out, same, locate, x, x)
    release(a)
    return found


@device
def _saved_of(plan, xs, out, params):
    """`saved_values` for one output; the inputs, a tuple, are given away, and params may be 0."""
    outs, none, found = single(new_ref(out)), new_tuple(0), 0
    if xs != 0 and outs != 0 and none != 0:
        found = saved_values(plan, xs, outs, params if params != 0 else none)
    give_up(xs, outs, none)
    return found


@device
def _constant_like(value, x):
    """The tensor that stands for a number beside a tensor; 0 if Python has to choose, -1 after an error."""
    arguments = room()
    store64(arguments, value)
    store64(arguments + 8, dtype_of(load64(x + t_data())))
    found = call(constant_function(), arguments, 2, 0)
    if found == 0:
        return handed_on()
    if not is_tensor(found):
        release(found)
        return 0
    return found


def binary(objects, count):
    """binary(op, x, y), of which x or y may be a number."""
    if count != 3:
        return 0
    op, x, y = load64(objects), load64(objects + 8), load64(objects + 16)
    if not is_op(op) or load64(op + op_taped()) != the_true():
        return 0
    number, mode = 0, mode_here()
    if mode == -1:
        return 0
    if is_tensor(x):
        if not is_float(load64(x + t_data())):
            return 0
        if not is_tensor(y):
            if not is_number(y):
                return 0
            y = number = _constant_like(y, x)
    elif is_tensor(y):
        if not is_number(x) or not is_float(load64(y + t_data())):
            return 0
        x = number = _constant_like(x, y)
    else:
        return 0
    if x <= 0 or y <= 0:
        return min(x, y)
    found = _binary(op, x, y, mode)
    release(number)
    return found


@device
def _binary(op, x, y, mode):
    a, b = load64(x + t_data()), load64(y + t_data())
    function = function_for(op, a, b)
    if function == 0 or dtype_of(a) != dtype_of(b) or not (is_up_to_date(x) and is_up_to_date(y)):
        return 0
    mask = (load64(x + t_node()) != the_none()) + 2 * (load64(y + t_node()) != the_none())
    plan, short, mark, first, second = 0, 0, the_none(), 0, 0
    if mask != 0 and mode == 0:
        plan = plan_of(op, mask)
        if plan == the_none():
            return 0
        short = as_long(load64(plan + plan_short()))
        if load64(plan + plan_pick()) == the_none():
            short = -1
        first = edge_of(x if mask & 1 else y)
        if mask == 3:
            second = edge_of(y)
    else:
        mark = mode
        if mask == 0 or mode == the_none():
            mark = mark_of(x)
            if mark == the_none():
                mark = mark_of(y)
        if mark == 0:
            return 0
    retain(mark)
    arguments = room()
    store64(arguments, a)
    store64(arguments + 8, b)
    retain(a)
    retain(b)
    out = computed(function, arguments, 2)
    release(a)
    release(b)
    if out <= 0:
        give_up(first, second, mark)
        return out
    if plan == 0:
        return tensor_of(out, new_ref(the_none()), mark)
    release(mark)
    edges = pair(first, second) if mask == 3 else single(first)
    if short == -1:
        saved = new_tuple(0)
    elif short == 10:
        saved = pair(new_ref(y), new_ref(x))
    elif 0 <= short <= 1:
        saved = single(new_ref(y if short else x))
    else:
        saved = _saved_of(plan, pair(new_ref(x), new_ref(y)), out, 0)
    return record(plan, edges, saved, out, 0, short != -1, x, y)


# --- any operation ---------------------------------------------------------------------------------------------------


@device
def _as_array(value):
    """An array for a number, and anything else as it is; owned by the caller, who owned the value."""
    if value == 0 or class_of(value) == array_type():
        return value
    arguments = room()
    store64(arguments, value)
    found = call(asarray_function(), arguments, 1, 0)
    release(value)
    return found


@device
def _is_inexact(a):
    """Whether an array has a dtype with derivatives; -1 if that cannot be found out."""
    return 1 if is_float(a) else contains(inexact_set(), dtype_of(a))


@device
def _mark_by_python(t, mode, op, xs, location):
    arguments = room()
    store64(arguments, t)
    store64(arguments + 8, mode if mode != 0 else the_none())
    store64(arguments + 16, op)
    store64(arguments + 24, xs)
    store64(arguments + 32, location)
    done = call(mark_function(), arguments, 5, 0)
    release(done)
    return done != 0


@device
def _mark(t, mode, op, xs, location):
    """Mark a result without history, as `_mark_detached` does. False if that raises."""
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        if x == the_none():
            continue
        n, meta, mark = load64(x + t_node()), load64(x + t_meta()), 0
        if n == 0 or meta == 0:
            return _mark_by_python(t, mode, op, xs, location)
        if n == the_none() and meta == the_none():
            continue
        if class_of(meta) == detached_class() and (k == 0 or n == the_none()):
            mark = meta
        elif n != the_none():
            mark = mode
        elif class_of(meta) == view_class():
            mark = load64(meta + v_detached())
        if mark == 0 or load64(t + t_meta()) != the_none():
            return _mark_by_python(t, mode, op, xs, location)
        if mark != the_none():
            retain(mark)
            release(the_none())
            store64(t + t_meta(), mark)
            return True
    return True


@device
def _edges(xs, mask):
    """Where the gradients of the inputs in a mask go, a tuple; 0 if there is no memory."""
    many = 0
    for k in range(count_of(xs)):
        many += mask >> k & 1
    found = new_tuple(many)
    if found != 0:
        position = 0
        for k in range(count_of(xs)):
            if mask >> k & 1:
                set_item(found, position, edge_of(item_at(xs, k)))
                position += 1
    return found


def apply(objects, count):
    """apply(op, xs) or apply(op, xs, params), for operations with a fixed number of inputs and outputs, and no views."""
    if count == 3:
        return _apply(load64(objects), load64(objects + 8), load64(objects + 16))
    if count != 2:
        return 0
    params = new_tuple(0)
    if params == 0:
        return -1
    found = _apply(load64(objects), load64(objects + 8), params)
    release(params)
    return found


@device
def _apply(op, xs, params):
    if not (is_op(op) and is_tuple(xs) and is_tuple(params)):
        return 0
    applied = load64(op + op_applied())
    if (applied != the_true() and applied != the_none()) or count_of(xs) + count_of(params) > 40:
        return 0
    mode = mode_here()
    if mode == -1:
        return 0
    arguments, given = room(), 0
    function = load64(op + op_direct())
    if function == the_none():
        function = load64(op + op_forward())
        store64(arguments, cpu_module())
        given = 8
    mask = 0
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        value = x
        if x != the_none():
            if not is_tensor(x) or not is_up_to_date(x):
                return 0
            value = load64(x + t_data())
            if class_of(value) != array_type():
                return 0
            if mode == 0 and load64(x + t_node()) != the_none():
                mask |= 1 << k
        store64(arguments + given, value)
        given += 8
    for k in range(count_of(params)):
        store64(arguments + given, item_at(params, k))
        given += 8
    mask &= as_long(load64(op + op_mask()))
    if mask != 0 and applied != the_true():
        return 0
    # Held while the operation computes: where gradients go, the arrays, and the mark of the mode.
    edges = _edges(xs, mask) if mask != 0 else 0
    if mask != 0 and edges == 0:
        return -1
    held = given // 8 - count_of(params)
    for k in range(held):
        retain(load64(arguments + 8 * k))
    retain(mode)
    result = call(function, arguments, given // 8, 0)
    for k in range(held):
        release(load64(arguments + 8 * k))
    found = -1
    if result == 0:
        found = handed_on()
    else:
        found = _wrapped(op, xs, params, mode, mask, edges, result)
    give_up(result, edges, mode)
    return found


@device
def _wrapped(op, xs, params, mode, mask, edges, result):
    """The tensors for what an operation has computed."""
    several, aux = load64(op + op_multi()) == the_true(), as_long(load64(op + op_aux()))
    if several or aux != 0:
        if not is_tuple(result) or count_of(result) < aux:
            return 0
        if several:
            return _many(op, xs, params, mode, mask, edges, result, count_of(result) - aux)
        return _single(op, xs, params, mode, mask, edges, result)
    outs = single(_as_array(new_ref(result)))
    if outs == 0:
        return -1
    found = _single(op, xs, params, mode, mask, edges, outs)
    release(outs)
    return found


@device
def _node_with(kind, plan, edges, xs, outs, params, shape, dtype):
    """The node of a call; 0 if that fails. It owns the plan, the shape and the dtype; the edges get one more owner."""
    saved = saved_values(plan, xs, outs, params) if plan != 0 and shape != 0 else 0
    watched = new_ref(plan)
    locate = plan != 0 and load64(plan + plan_keeps()) == the_true()
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
        t = tensor_of(data, new_ref(the_none()), new_ref(the_none()))
        if t > 0 and not _mark(t, mode, op, xs, the_none()):
            return give_up(t)
        return t
    plan, shape = found_plan(op, mask), attribute(data, shape_name())
    node = _node_with(node_class(), plan, edges, xs, outs, params, shape, new_ref(dtype_of(data)))
    return tensor_of(data, node, new_ref(the_none()))


@device
def _many(op, xs, params, mode, mask, edges, outs, count):
    """The tuple of tensors of an operation with several outputs."""
    arrays, outputs = filled_tuple(count), filled_tuple(count)
    recorded, fine = False, arrays != 0 and outputs != 0
    for k in range(count):
        if not fine:
            break
        data, number = _as_array(new_ref(item_at(outs, k))), new_long(k)
        inexact = -1 if data == 0 or number == 0 else 0
        if inexact == 0 and mask != 0:
            known = contains(load64(op + op_nondiff()), number)
            inexact = _is_inexact(data) if known == 0 else -1 if known < 0 else 0
        release(number)
        fine = inexact >= 0
        if data != 0:
            change_item(arrays, k, data)
        if inexact > 0:
            recorded = True
            known_pair = pair(attribute(data, shape_name()), new_ref(dtype_of(data)))
            fine = known_pair != 0
            if fine:
                change_item(outputs, k, known_pair)
    node, location = 0, new_ref(the_none())
    if fine and recorded:
        node = _node_with(
            multi_node_class(), found_plan(op, mask), edges, xs, outs, params, new_ref(the_none()), new_ref(the_none())
        )
        fine = node != 0
        if fine:
            store64(node + n_outputs(), new_ref(outputs))
            if load64(node + n_code()) != 0:
                release(location)
                location = pair(new_ref(load64(node + n_code())), new_ref(load64(node + n_offset())))
                fine = location != 0
    tensors = filled_tuple(count) if fine else 0
    for k in range(count):
        if tensors == 0:
            break
        known, history = item_at(outputs, k), the_none()
        if known != the_none():
            history = new_output_ref(new_ref(node), new_long(k), new_ref(item_at(known, 0)), new_ref(item_at(known, 1)))
        else:
            retain(history)
        t = tensor_of(new_ref(item_at(arrays, k)), history, new_ref(the_none()))
        fine = t > 0
        if fine and known == the_none():
            if k > 0 and mode != 0:
                release(the_none())
                store64(t + t_meta(), new_ref(load64(item_at(tensors, 0) + t_meta())))
            else:
                fine = _mark(t, mode, op, xs, location)
        if fine:
            change_item(tensors, k, t)
        else:
            give_up(tensors, max(0, t))
            tensors = 0
    give_up(arrays, outputs, location, node)
    return -1 if tensors == 0 else tensors


def joined(objects, count):
    """joined(op, xs, dim)."""
    if count != 3:
        return 0
    op, xs, dim = load64(objects), load64(objects + 8), load64(objects + 16)
    if not (is_op(op) and is_tuple(xs)) or count_of(xs) > 60:
        return 0
    mask, description, many, mode = 0, 0, count_of(xs), mode_here()
    if mode == -1:
        return 0
    for k in range(many):
        x = item_at(xs, k)
        if not is_tensor(x) or not is_up_to_date(x):
            return 0
        a = load64(x + t_data())
        if class_of(a) != array_type() or (k > 0 and dtype_of(a) != description):
            return 0
        description = dtype_of(a)
        if load64(x + t_node()) != the_none():
            mask |= 1 << k
    arrays = new_tuple(many)
    if arrays == 0:
        return -1
    for k in range(many):
        set_item(arrays, k, new_ref(load64(item_at(xs, k) + t_data())))
    edges = _edges(xs, mask) if mask != 0 and mode == 0 else 0
    if mask != 0 and mode == 0 and edges == 0:
        return give_up(arrays)
    retain(mode)
    arguments = room()
    store64(arguments, arrays)
    store64(arguments + 8, dim)
    out = computed(load64(op + op_direct()), arguments, 2)
    if out <= 0:
        give_up(arrays, edges, mode)
        return out
    found = -1
    if edges != 0:
        found = _joined_node(op, mask, arrays, edges, dim, out)
    else:
        found = tensor_of(out, new_ref(the_none()), new_ref(mode if mask & 1 else the_none()))
        if found > 0 and mask & 1 == 0 and not _mark(found, mode, op, xs, the_none()):
            found = give_up(found)
    give_up(arrays, edges, mode)
    return found


@device
def _joined_node(op, mask, arrays, edges, dim, out):
    """The tensor of a recorded `joined`, which owns the array."""
    plan, shapes, saved = found_plan(op, mask), 0, 0
    if plan != 0 and count_of(load64(plan + plan_shapes())) > 0:
        shapes = filled_tuple(count_of(arrays))
        for k in range(count_of(arrays)):
            if shapes != 0:
                shape = attribute(item_at(arrays, k), shape_name())
                if shape != 0:
                    change_item(shapes, k, shape)
                else:
                    release(shapes)
                    shapes = 0
        saved = pair(new_ref(dim), shapes)
    elif plan != 0:
        saved = single(new_ref(dim))
    shape, dtype = attribute(out, shape_name()), new_ref(dtype_of(out))
    node = node_of(node_class(), plan, new_ref(edges), saved, shape, dtype, False)
    return tensor_of(out, node, new_ref(the_none()))
