"""The short way of the tape for views, see jit_tape.py: one view of a tensor, or several."""

from __future__ import annotations

from ferro.cpu.kernels.jit import device
from ferro.cpu.kernels.jit_export import DESCRIPTION, TUPLE_ITEMS, TYPE
from ferro.cpu.kernels.jit_front import array_type, put, room, word
from ferro.cpu.kernels.jit_objects import (  # fmt: skip
    allocate,
    as_long,
    attribute,
    call,
    changes_of,
    clear_error,
    computed,
    count_of,
    edge_of,
    found_plan,
    handed_on,
    is_op,
    is_tensor,
    is_tuple,
    item_at,
    kept,
    mark_of,
    mode_here,
    multi_node_class,
    multi_word,
    n_dtype,
    n_outputs,
    n_shape,
    new_long,
    new_tuple,
    next_of,
    no_grad_word,
    node_of,
    op_viewing,
    p_dtype,
    p_index,
    p_node,
    p_shape,
    params_and_shape,
    pick_class,
    place_here,
    plan_of,
    plan_short,
    record,
    release,
    shape_word,
    t_counter,
    t_data,
    t_meta,
    t_node,
    tensor_of,
    the_none,
    the_sequence,
    tuple_from,
    tuple_of,
    v_base,
    v_born,
    v_creation,
    v_dual,
    v_lost,
    v_path,
    v_place,
    v_stamp,
    v_tangent_stamp,
    v_under,
    version_function,
    version_n,
    view_class,
    view_word,
    zero_object,
)

_BASE = 48  # where an array keeps what it is a view of


@device
def _counter_of(x):
    """The version counter of a tensor, made if there is none yet; 0 if that fails."""
    counter = word(x + t_counter())
    if counter != the_none():
        return kept(counter)
    arguments = room()
    put(arguments, x)
    return call(version_function(), arguments, 1, 0)


@device
def _view_of(x, op, params, index, counter, silent, born, mark, place):
    """What a view of x knows of its base.

    index: which of several, or None; silent: the mark of what is not recorded, or 0, and `born` then when it was made;
    mark: of lost history; place: where it was made, if it is one of several.
    """
    view = allocate(view_class(), 0)
    path = new_tuple(4)
    if view == 0 or path == 0:
        return 0
    parent = word(x + t_meta())
    if word(parent + TYPE) == view_class() and word(parent + v_base()) != the_none():
        base, before = word(parent + v_base()), word(parent + v_path())
        creation = word(parent + v_creation())
        if silent == 0:
            born = word(parent + v_born())
    else:
        base, before, creation = x, the_none(), the_none()
        if silent == 0:
            born = zero_object()
    if creation == the_none():
        if silent != 0:
            creation = no_grad_word()
        elif index != the_none():
            creation = multi_word()
    under = silent if silent != 0 else the_none()
    put(path + TUPLE_ITEMS, kept(before))
    put(path + TUPLE_ITEMS + 8, kept(op))
    put(path + TUPLE_ITEMS + 16, kept(params))
    put(path + TUPLE_ITEMS + 24, kept(index))
    stamp = word(counter + version_n())
    put(view + v_base(), kept(base))
    put(view + v_path(), path)
    put(view + v_creation(), kept(creation))
    put(view + v_born(), kept(born))
    put(view + v_stamp(), kept(stamp))
    put(view + v_tangent_stamp(), kept(stamp))
    put(view + v_dual(), kept(the_none()))
    put(view + v_place(), kept(place))
    put(view + v_under(), kept(under))
    put(view + v_lost(), kept(mark))
    return view


@device
def _shares_memory(out, a):
    """Whether an array is sure to be a view of another one."""
    base = word(out + _BASE)
    return base != 0 and (base == a or base == word(a + _BASE))


@device
def _lost_mark(x):
    """The mark that a tensor hands on (of no account where it has a history); 0 where only Python knows."""
    meta = word(x + t_meta())
    if word(meta + TYPE) == view_class():
        return word(meta + v_lost())
    mark = mark_of(x)
    if mark == 0 and word(x + t_node()) != the_none():  # a leaf with a gradient, say
        view = attribute(meta, view_word())
        if view == the_none():
            mark = view
        if view == 0:
            clear_error()
        else:
            release(view)
    return mark


def viewed(objects, count):
    """viewed(op, x) or viewed(op, x, params)."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    extra = count_of(params)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or extra > 8:
        return 0
    a, viewing, mode = word(x + t_data()), word(op + op_viewing()), mode_here()
    inherited = _lost_mark(x)
    if mode == -1 or inherited == 0 or viewing == the_none() or word(a + TYPE) != array_type():
        return 0
    if changes_of(x) != 0 and word(word(x + t_meta()) + TYPE) == view_class():
        return 0
    n, plan, short = word(x + t_node()), 0, 0
    if n != the_none() and mode == 0:
        plan = plan_of(op, 1)
        if plan == the_none():
            return 0
        short = as_long(word(plan + plan_short()))
    arguments = room()
    put(arguments, a)
    for k in range(extra):
        put(arguments + 8 + 8 * k, word(params + TUPLE_ITEMS + 8 * k))
    out = computed(viewing, arguments, 1 + extra)
    if out <= 0:
        return out
    if not _shares_memory(out, a):
        release(out)
        return 0
    counter = _counter_of(x)
    t = tensor_of(out, 0)
    if counter == 0 or t == 0:
        return -1
    release(word(t + t_counter()))
    put(t + t_counter(), counter)
    mark = the_none()
    if plan == 0:
        mark = mode if n != the_none() else inherited
    born = next_of(the_sequence()) if mode != 0 else kept(the_none())
    view = _view_of(x, op, params, the_none(), counter, mode, born, mark, the_none())
    release(born)
    if view == 0:
        return -1
    put(t + t_meta(), view)
    if plan == 0:
        put(t + t_node(), kept(the_none()))
        return t
    if short == 20:
        saved = tuple_of(attribute(a, shape_word()), 0, 0)
    elif short == 22:
        saved = params_and_shape(params, extra, a)
    else:
        saved = kept(params) if short == 21 else tuple_of(0, 0, 0)
    return record(t, plan, tuple_of(edge_of(x), 0, 0), saved, out, 0, False, x, x)


def parted(objects, count):  # noqa: C901, PLR0912 (one straight list of cases)
    """parted(op, x, params): several views of x."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode = word(x + t_data()), word(op + op_viewing()), mode_here()
    inherited = _lost_mark(x)
    if mode == -1 or inherited == 0 or viewing == the_none() or word(a + TYPE) != array_type():
        return 0
    if changes_of(x) != 0 and word(word(x + t_meta()) + TYPE) == view_class():
        return 0
    arguments = room()
    put(arguments, a)
    for k in range(count_of(params)):
        put(arguments + 8 + 8 * k, item_at(params, k))
    arrays = call(viewing, arguments, 1 + count_of(params), 0)
    outs = tuple_from(arrays) if arrays != 0 else 0
    if arrays != 0:
        release(arrays)
    if outs == 0:
        return handed_on()
    many = count_of(outs)
    counter, place, born = _counter_of(x), place_here(), next_of(the_sequence()) if mode != 0 else kept(the_none())
    tensors, outputs, node, mark = new_tuple(many), new_tuple(many), 0, the_none()
    if counter == 0 or place == 0 or tensors == 0 or outputs == 0:
        return -1
    if word(x + t_node()) == the_none():
        mark = inherited
    elif mode != 0:
        mark = mode
    else:
        plan, edges = found_plan(op, 1), tuple_of(edge_of(x), 0, 0)
        saved = params_and_shape(params, count_of(params), a)
        if plan == 0 or edges == 0 or saved == 0:
            return -1
        node = node_of(multi_node_class(), plan, edges, saved)
        if node == 0:
            return -1
        put(node + n_shape(), kept(the_none()))
        put(node + n_dtype(), kept(the_none()))
        put(node + n_outputs(), kept(outputs))
    for k in range(many):
        out = item_at(outs, k)
        t, index = tensor_of(kept(out), 0), new_long(k)
        if t == 0:
            return -1
        put(tensors + TUPLE_ITEMS + 8 * k, t)
        view = _view_of(x, op, params, index, counter, mode, born, mark, place)
        if view == 0:
            return -1
        put(t + t_meta(), view)
        release(word(t + t_counter()))
        put(t + t_counter(), kept(counter))
        if node == 0:
            known, history = kept(the_none()), kept(the_none())
        else:
            known = tuple_of(attribute(out, shape_word()), kept(word(out + DESCRIPTION)), 0)
            history = allocate(pick_class(), 0)
            if known == 0 or history == 0:
                return -1
            put(history + p_node(), kept(node))
            put(history + p_index(), kept(index))
            put(history + p_shape(), kept(item_at(known, 0)))
            put(history + p_dtype(), kept(item_at(known, 1)))
        put(outputs + TUPLE_ITEMS + 8 * k, known)
        put(t + t_node(), history)
        release(index)
    for owned in (outs, counter, place, born, outputs):
        release(owned)
    if node != 0:
        release(node)
    return tensors
