"""The short way of the tape as machine code: small results computed, wrapped and recorded in one call.

What stands here says again, for the most frequent case, what `unary` and `binary` in core/apply.py say, and these stand
behind it: for any argument that is not a plain tensor of small float32 or float64 arrays, while any mode is on, and for
whatever raises. The objects of the tape are known here by a table, see core/tape.py: addresses of objects, and where
classes with slots keep theirs.
"""

from __future__ import annotations

from ferro.cpu.kernels.jit import device
from ferro.cpu.kernels.jit_export import DESCRIPTION, TUPLE_ITEMS, TYPE
from ferro.cpu.kernels.jit_front import array_type, is_number, put, room, word
from ferro.cpu.kernels.jit_objects import (  # fmt: skip
    allocate,
    as_long,
    asarray_function,
    attribute,
    call,
    clear_error,
    computed,
    constant_function,
    contains,
    count_of,
    cpu_module,
    edge_of,
    found_plan,
    function_for,
    handed_on,
    inexact_set,
    is_float,
    is_op,
    is_tensor,
    is_tuple,
    is_up_to_date,
    item_at,
    kept,
    lost_class,
    mark_function,
    mark_of,
    mode_here,
    multi_node_class,
    n_code,
    n_dtype,
    n_offset,
    n_outputs,
    n_shape,
    new_long,
    new_tuple,
    node_class,
    node_of,
    note_place,
    number_at,
    op_applied,
    op_aux,
    op_direct,
    op_forward,
    op_mask,
    op_multi,
    op_nondiff,
    op_taped,
    p_dtype,
    p_index,
    p_node,
    p_shape,
    params_and_shape,
    pick_class,
    plan_indices,
    plan_keeps,
    plan_of,
    plan_pick,
    plan_same,
    plan_shapes,
    plan_short,
    record,
    release,
    saved_values,
    shape_word,
    t_data,
    t_meta,
    t_node,
    tensor_of,
    the_none,
    the_true,
    tuple_of,
    v_lost,
    view_class,
    watch_inputs,
)


def unary(objects, count):  # noqa: C901, PLR0912 (one straight list of cases)
    """unary(op, x) or unary(op, x, params)."""
    if not 2 <= count <= 3:
        return 0
    op, x = word(objects), word(objects + 8)
    if not is_op(op) or word(op + op_taped()) != the_true() or not is_tensor(x):
        return 0
    a, mode = word(x + t_data()), mode_here()
    function = function_for(op, a, a)
    if mode == -1 or function == 0 or not is_up_to_date(x):
        return 0
    params, extra = 0, 0
    if count == 3:
        params = word(objects + 16)
        extra = count_of(params)
        if not is_tuple(params) or extra > 8:
            return 0
    n, plan, short, mark = word(x + t_node()), 0, 0, the_none()
    if n != the_none() and mode == 0:
        plan = plan_of(op, 1)
        if plan == the_none():
            return 0
        short = as_long(word(plan + plan_short()))
        if word(plan + plan_pick()) == the_none():
            short = -1
    else:
        mark = mode if n != the_none() and mode != the_none() else mark_of(x)
        if mark == 0:
            return 0
    arguments = room()
    put(arguments, a)
    for k in range(extra):
        put(arguments + 8 + 8 * k, word(params + TUPLE_ITEMS + 8 * k))
    out = computed(function, arguments, 1 + extra)
    if out <= 0:
        return out
    t = tensor_of(out, mark)
    if t == 0:
        return -1
    if plan == 0:
        put(t + t_node(), kept(the_none()))
        return t
    if short == -1:
        saved = tuple_of(0, 0, 0)
    elif short == 1:
        saved = tuple_of(kept(out), 0, 0)
    elif short == 0:
        saved = tuple_of(kept(x), 0, 0)
    elif short == 20:
        saved = tuple_of(attribute(a, shape_word()), 0, 0)
    elif short == 21:
        saved = kept(params) if params != 0 else tuple_of(0, 0, 0)
    elif short == 22:
        saved = params_and_shape(params, extra, a)
    else:
        saved = _saved_of(plan, tuple_of(kept(x), 0, 0), out, params)
    same = n if word(n + TYPE) == node_class() and word(plan + plan_same()) == the_true() else 0
    place = short != -1 and word(plan + plan_keeps()) == the_true()
    return record(t, plan, tuple_of(edge_of(x), 0, 0), saved, out, same, place, x, x)


@device
def _saved_of(plan, xs, out, params):
    """`saved_values` for one output; the inputs, a tuple, are given away, and params may be 0."""
    outs, none = tuple_of(kept(out), 0, 0), new_tuple(0)
    found = saved_values(plan, xs, outs, params if params != 0 else none)
    release(xs)
    release(outs)
    release(none)
    return found


@device
def _constant_like(value, x):
    """The tensor that stands for a number beside a tensor."""
    arguments = room()
    put(arguments, value)
    put(arguments + 8, word(word(x + t_data()) + DESCRIPTION))
    found = call(constant_function(), arguments, 2, 0)
    if found == 0:
        clear_error()
    return found


def binary(objects, count):
    """binary(op, x, y), of which x or y may be a number."""
    if count != 3:
        return 0
    op, x, y = word(objects), word(objects + 8), word(objects + 16)
    mode = mode_here()
    if mode == -1 or not is_op(op) or word(op + op_taped()) != the_true():
        return 0
    number = 0
    if is_tensor(x):
        if not is_float(word(x + t_data())):
            return 0
        if not is_tensor(y):
            if not is_number(y):
                return 0
            y = number = _constant_like(y, x)
    elif is_tensor(y):
        if not is_number(x) or not is_float(word(y + t_data())):
            return 0
        x = number = _constant_like(x, y)
    else:
        return 0
    if x == 0 or y == 0:
        return 0
    found = _binary(op, x, y, mode)
    if number != 0:
        release(number)
    return found


@device
def _binary(op, x, y, mode):
    a, b = word(x + t_data()), word(y + t_data())
    function = function_for(op, a, b)
    if function == 0 or word(a + DESCRIPTION) != word(b + DESCRIPTION) or not (is_up_to_date(x) and is_up_to_date(y)):
        return 0
    mask = (word(x + t_node()) != the_none()) + 2 * (word(y + t_node()) != the_none())
    plan, short, mark = 0, 0, the_none()
    if mask != 0 and mode == 0:
        plan = plan_of(op, mask)
        if plan == the_none():
            return 0
        short = as_long(word(plan + plan_short()))
        if word(plan + plan_pick()) == the_none():
            short = -1
    else:
        mark = mode
        if mask == 0 or mode == the_none():
            mark = mark_of(x)
            if mark == the_none():
                mark = mark_of(y)
        if mark == 0:
            return 0
    arguments = room()
    put(arguments, a)
    put(arguments + 8, b)
    out = computed(function, arguments, 2)
    if out <= 0:
        return out
    t = tensor_of(out, mark)
    if t == 0:
        return -1
    if plan == 0:
        put(t + t_node(), kept(the_none()))
        return t
    if mask == 3:
        edges = tuple_of(edge_of(x), edge_of(y), 0)
    else:
        edges = tuple_of(edge_of(x if mask == 1 else y), 0, 0)
    if short == -1:
        saved = tuple_of(0, 0, 0)
    elif short == 10:
        saved = tuple_of(kept(y), kept(x), 0)
    elif 0 <= short <= 1:
        saved = tuple_of(kept(y if short else x), 0, 0)
    else:
        saved = _saved_of(plan, tuple_of(kept(x), kept(y), 0), out, 0)
    return record(t, plan, edges, saved, out, 0, short != -1, x, y)


# --- any operation ---------------------------------------------------------------------------------------------------


@device
def _as_array(value):
    """An array for a number, and anything else as it is; owned by the caller, who owned the value."""
    if value == 0 or word(value + TYPE) == array_type():
        return value
    arguments = room()
    put(arguments, value)
    found = call(asarray_function(), arguments, 1, 0)
    release(value)
    return found


@device
def _is_inexact(a):
    """Whether an array has a dtype with derivatives; -1 if that cannot be found out."""
    return 1 if is_float(a) else contains(inexact_set(), word(a + DESCRIPTION))


@device
def _mark_by_python(t, mode, op, xs, place):
    arguments = room()
    put(arguments, t)
    put(arguments + 8, mode if mode != 0 else the_none())
    put(arguments + 16, op)
    put(arguments + 24, xs)
    put(arguments + 32, place)
    done = call(mark_function(), arguments, 5, 0)
    if done == 0:
        return False
    release(done)
    return True


@device
def _mark(t, mode, op, xs, place):
    """Mark a result without history, as `_mark_lost` does. False if that raises."""
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        if x == the_none() or (word(x + t_node()) == the_none() and word(x + t_meta()) == the_none()):
            continue
        mark, meta = 0, word(x + t_meta())
        if word(meta + TYPE) == lost_class() and (k == 0 or word(x + t_node()) == the_none()):
            mark = meta
        elif word(x + t_node()) != the_none():
            mark = mode
        elif word(meta + TYPE) == view_class():
            mark = word(meta + v_lost())
        if mark == 0 or word(t + t_meta()) != the_none():
            return _mark_by_python(t, mode, op, xs, place)
        if mark != the_none():
            release(the_none())
            put(t + t_meta(), kept(mark))
            return True
    return True


@device
def _edges(plan, xs):
    indices = word(plan + plan_indices())
    found = new_tuple(count_of(indices))
    if found != 0:
        for k in range(count_of(indices)):
            put(found + TUPLE_ITEMS + 8 * k, edge_of(item_at(xs, number_at(indices, k))))
    return found


@device
def _recorded(kind, op, mask, xs, outs, params):
    """The node of a call, of an operation with one output or with several; 0 if that fails."""
    plan = found_plan(op, mask)
    if plan == 0:
        return 0
    edges, saved = _edges(plan, xs), saved_values(plan, xs, outs, params)
    if edges == 0 or saved == 0:
        return 0
    node = node_of(kind, plan, edges, saved)
    if node != 0 and not (
        watch_inputs(node, plan, xs) and (word(plan + plan_keeps()) != the_true() or note_place(node))
    ):
        release(node)
        return 0
    return node


def apply(objects, count):
    """apply(op, xs) or apply(op, xs, params), for operations with a fixed number of inputs and outputs, and no views."""
    if count == 3:
        return _apply(word(objects), word(objects + 8), word(objects + 16))
    if count != 2:
        return 0
    params = new_tuple(0)
    found = _apply(word(objects), word(objects + 8), params)
    release(params)
    return found


@device
def _apply(op, xs, params):
    if not (is_op(op) and is_tuple(xs) and is_tuple(params)):
        return 0
    if word(op + op_applied()) != the_true() or count_of(xs) + count_of(params) > 40:
        return 0
    mode = mode_here()
    if mode == -1:
        return 0
    arguments, place = room(), 0
    function = word(op + op_direct())
    if function == the_none():
        function = word(op + op_forward())
        put(arguments, cpu_module())
        place = 8
    mask = 0
    for k in range(count_of(xs)):
        x = item_at(xs, k)
        value = x
        if x != the_none():
            if not is_tensor(x) or not is_up_to_date(x):
                return 0
            value = word(x + t_data())
            if word(value + TYPE) != array_type():
                return 0
            if mode == 0 and word(x + t_node()) != the_none():
                mask |= 1 << k
        put(arguments + place, value)
        place += 8
    for k in range(count_of(params)):
        put(arguments + place, item_at(params, k))
        place += 8
    mask &= as_long(word(op + op_mask()))
    result = call(function, arguments, place // 8, 0)
    if result == 0:
        return handed_on()
    several, aux = word(op + op_multi()) == the_true(), as_long(word(op + op_aux()))
    if not several and aux == 0:
        result = tuple_of(_as_array(result), 0, 0)
        if result == 0 or count_of(result) == 0:
            return -1
    found = _many(op, xs, params, mode, mask, result, count_of(result) - aux) if several else (
        _single(op, xs, params, mode, mask, result))  # fmt: skip
    release(result)
    return found


@device
def _single(op, xs, params, mode, mask, outs):
    data = _as_array(kept(item_at(outs, 0)))
    t = tensor_of(data, the_none())
    if t == 0 or data == 0:
        return -1
    inexact = _is_inexact(data) if mask != 0 else 0
    if inexact < 0:
        return -1
    if inexact == 0:
        put(t + t_node(), kept(the_none()))
        return t if _mark(t, mode, op, xs, the_none()) else -1
    node = _recorded(node_class(), op, mask, xs, outs, params)
    if node == 0:
        release(t)
        return -1
    put(node + n_shape(), attribute(data, shape_word()))
    put(node + n_dtype(), kept(word(data + DESCRIPTION)))
    put(t + t_node(), node)
    return t


@device
def _many(op, xs, params, mode, mask, outs, count):
    """The tuple of tensors of an operation with several outputs."""
    tensors, outputs = new_tuple(count), new_tuple(count)
    if tensors == 0 or outputs == 0:
        return -1
    recorded = False
    for k in range(count):
        data = _as_array(kept(item_at(outs, k)))
        t = tensor_of(data, the_none())
        if t == 0 or data == 0:
            return -1
        put(tensors + TUPLE_ITEMS + 8 * k, t)
        number = new_long(k)
        inexact = _is_inexact(data) if mask != 0 and contains(word(op + op_nondiff()), number) == 0 else 0
        release(number)
        if inexact < 0:
            return -1
        if inexact != 0:
            recorded = True
            known = tuple_of(attribute(data, shape_word()), kept(word(data + DESCRIPTION)), 0)
        else:
            known = kept(the_none())
        put(outputs + TUPLE_ITEMS + 8 * k, known)
    node, place = 0, kept(the_none())
    if recorded:
        node = _recorded(multi_node_class(), op, mask, xs, outs, params)
        if node == 0:
            for owned in (tensors, outputs, place):
                release(owned)
            return -1
        put(node + n_outputs(), kept(outputs))
        put(node + n_shape(), kept(the_none()))
        put(node + n_dtype(), kept(the_none()))
        if word(node + n_code()) != 0:
            release(place)
            place = tuple_of(kept(word(node + n_code())), kept(word(node + n_offset())), 0)
    first = item_at(tensors, 0)
    for k in range(count):
        t, known = item_at(tensors, k), item_at(outputs, k)
        if known != the_none():
            pick = allocate(pick_class(), 0)
            if pick == 0:
                return -1
            put(pick + p_node(), kept(node))
            put(pick + p_index(), new_long(k))
            put(pick + p_shape(), kept(item_at(known, 0)))
            put(pick + p_dtype(), kept(item_at(known, 1)))
            put(t + t_node(), pick)
            continue
        put(t + t_node(), kept(the_none()))
        if k > 0 and mode != 0:
            release(word(t + t_meta()))
            put(t + t_meta(), kept(word(first + t_meta())))
        elif not _mark(t, mode, op, xs, place):
            return -1
    release(place)
    release(outputs)
    if node != 0:
        release(node)
    return tensors


def joined(objects, count):  # noqa: C901, PLR0912
    """joined(op, xs, dim)."""
    if count != 3:
        return 0
    op, xs, dim = word(objects), word(objects + 8), word(objects + 16)
    mode, many = mode_here(), count_of(xs)
    if not (is_op(op) and is_tuple(xs)) or mode == -1 or many > 60:
        return 0
    mask, description = 0, 0
    for k in range(many):
        x = item_at(xs, k)
        if not is_tensor(x) or not is_up_to_date(x):
            return 0
        a = word(x + t_data())
        if word(a + TYPE) != array_type() or (k > 0 and word(a + DESCRIPTION) != description):
            return 0
        description = word(a + DESCRIPTION)
        if word(x + t_node()) != the_none():
            mask |= 1 << k
    arrays = new_tuple(many)
    if arrays == 0:
        return -1
    for k in range(many):
        put(arrays + TUPLE_ITEMS + 8 * k, kept(word(item_at(xs, k) + t_data())))
    arguments = room()
    put(arguments, arrays)
    put(arguments + 8, dim)
    out = call(word(op + op_direct()), arguments, 2, 0)
    release(arrays)
    if out == 0:
        return handed_on()
    t = tensor_of(out, the_none())
    if t == 0:
        return -1
    if mask == 0 or mode != 0:
        put(t + t_node(), kept(the_none()))
        if mask & 1:
            release(word(t + t_meta()))
            put(t + t_meta(), kept(mode))
        elif not _mark(t, mode, op, xs, the_none()):
            return -1
        return t
    plan = found_plan(op, mask)
    if plan == 0:
        return -1
    shapes = 0
    if count_of(word(plan + plan_shapes())) > 0:
        shapes = new_tuple(many)
        if shapes == 0:
            return -1
        for k in range(many):
            put(shapes + TUPLE_ITEMS + 8 * k, attribute(word(item_at(xs, k) + t_data()), shape_word()))
    edges, saved = _edges(plan, xs), tuple_of(kept(dim), shapes, 0)
    shape = attribute(out, shape_word())
    if edges == 0 or saved == 0 or shape == 0:
        return -1
    node = node_of(node_class(), plan, edges, saved)
    if node == 0:
        return -1
    put(node + n_shape(), shape)
    put(node + n_dtype(), kept(word(out + DESCRIPTION)))
    put(t + t_node(), node)
    return t
