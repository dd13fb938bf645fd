"""The recorder of views, see jit_recorder.py: one view of a tensor, or several."""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_entries import as_long
from ferro.native.jit_fields import array_type, base_of, class_of, count_of, dtype_of, put, room, the_none, word
from ferro.native.jit_objects import (
    allocate,
    attribute,
    call,
    change_item,
    changes_of,
    clear_error,
    computed,
    edge_of,
    filled_tuple,
    found_plan,
    give_up,
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
    n_outputs,
    new_long,
    new_tuple,
    next_of,
    no_grad_word,
    node_class,
    node_of,
    op_viewing,
    pair,
    params_and_shape,
    pick_of,
    place_here,
    plan_of,
    plan_short,
    release,
    retain,
    shape_word,
    single,
    t_counter,
    t_data,
    t_meta,
    t_node,
    the_sequence,
    tuple_from,
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
    view_tensor_of,
    view_word,
    zero_object,
)


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
def _is_whole(view):
    """Whether the slots of a View that are read here are filled."""
    return (
        word(view + v_base()) != 0
        and word(view + v_path()) != 0
        and word(view + v_creation()) != 0
        and word(view + v_born()) != 0
        and word(view + v_lost()) != 0
    )


@device
def _view_of(x, op, params, index, counter, silent, born, mark, place):
    """What a view of x knows of its base; 0 if it cannot be made.

    index: which of several, or None; silent: the mark of what is not recorded, or 0, and `born` then when it was made;
    mark: of lost history; place: where it was made, if it is one of several.
    """
    path = filled_tuple(4)
    if path == 0 or index == 0 or counter == 0 or born == 0 or place == 0:
        release(path)
        return 0
    parent = word(x + t_meta())
    if class_of(parent) == view_class() and word(parent + v_base()) != the_none():
        base, before, creation = word(parent + v_base()), word(parent + v_path()), word(parent + v_creation())
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
    change_item(path, 0, kept(before))
    change_item(path, 1, kept(op))
    change_item(path, 2, kept(params))
    change_item(path, 3, kept(index))
    for each in (base, creation, born, place, under, mark):  # held before anything else can run
        retain(each)
    view = allocate(view_class(), 0)
    if view == 0:
        give_up(path, base, creation, born, place, under, mark)
        return 0
    stamp = word(counter + version_n())
    put(view + v_base(), base)
    put(view + v_path(), path)
    put(view + v_creation(), creation)
    put(view + v_born(), born)
    put(view + v_stamp(), kept(stamp))
    put(view + v_tangent_stamp(), kept(stamp))
    put(view + v_dual(), kept(the_none()))
    put(view + v_place(), place)
    put(view + v_under(), under)
    put(view + v_lost(), mark)
    return view


@device
def _shares_memory(out, a):
    """Whether an array is sure to be a view of another one."""
    base = base_of(out)
    return base != 0 and (base == a or base == base_of(a))


@device
def _lost_mark(x):
    """The mark that a tensor hands on (of no account where it has a history); 0 where only Python knows."""
    meta = word(x + t_meta())
    if class_of(meta) == view_class():
        return word(meta + v_lost()) if _is_whole(meta) else 0
    mark = mark_of(x)
    if mark == 0 and word(x + t_node()) != the_none():  # a leaf with a gradient, say
        view = attribute(meta, view_word())
        if view == the_none():
            mark = view
        if view == 0:
            clear_error()
        release(view)
    return mark


def viewed(objects, count):
    """viewed(op, x) or viewed(op, x, params)."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode, extra = word(x + t_data()), word(op + op_viewing()), mode_here(), count_of(params)
    if mode == -1 or viewing == the_none() or class_of(a) != array_type():
        return 0
    inherited = _lost_mark(x)
    if inherited == 0 or (changes_of(x) != 0 and class_of(word(x + t_meta())) == view_class()):
        return 0
    n, plan, short, edge = word(x + t_node()), 0, 0, 0
    if n != the_none() and mode == 0:
        plan = plan_of(op, 1)
        if plan == the_none():
            return 0
        short = as_long(word(plan + plan_short()))
        edge = edge_of(x)
    mark = the_none()
    if plan == 0:
        mark = mode if n != the_none() else inherited
    for each in (a, mode, mark):  # held while the view is made
        retain(each)
    arguments = room()
    put(arguments, a)
    for k in range(extra):
        put(arguments + 8 + 8 * k, item_at(params, k))
    out = computed(viewing, arguments, 1 + extra)
    found = out
    if out > 0:
        if _shares_memory(out, a):
            found = _viewed(op, x, params, a, out, plan, short, edge, mode, mark)
        else:
            release(out)
            found = 0
    give_up(a, mode, mark, edge)
    return found


@device
def _viewed(op, x, params, a, out, plan, short, edge, mode, mark):
    """The tensor of a view, which owns the array."""
    counter, born = _counter_of(x), next_of(the_sequence()) if mode != 0 else kept(the_none())
    view = _view_of(x, op, params, the_none(), counter, mode, born, mark, the_none())
    release(born)
    if plan == 0:
        return view_tensor_of(out, kept(the_none()), counter, view)
    if short == 20:
        saved = single(attribute(a, shape_word()))
    elif short == 22:
        saved = params_and_shape(params, count_of(params), a)
    else:
        saved = kept(params) if short == 21 else new_tuple(0)
    shape = attribute(out, shape_word())
    node = node_of(node_class(), kept(plan), single(kept(edge)), saved, shape, kept(dtype_of(out)), False)
    return view_tensor_of(out, node, counter, view)


def parted(objects, count):
    """parted(op, x, params): several views of x."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode = word(x + t_data()), word(op + op_viewing()), mode_here()
    if mode == -1 or viewing == the_none() or class_of(a) != array_type():
        return 0
    inherited = _lost_mark(x)
    if inherited == 0 or (changes_of(x) != 0 and class_of(word(x + t_meta())) == view_class()):
        return 0
    n, edge, mark = word(x + t_node()), 0, the_none()
    if n == the_none():
        mark = inherited
    elif mode != 0:
        mark = mode
    else:
        edge = edge_of(x)
    for each in (a, mode, mark):  # held while the views are made
        retain(each)
    arguments = room()
    put(arguments, a)
    for k in range(count_of(params)):
        put(arguments + 8 + 8 * k, item_at(params, k))
    arrays = call(viewing, arguments, 1 + count_of(params), 0)
    outs = tuple_from(arrays) if arrays != 0 else 0
    release(arrays)
    if outs == 0:
        found = handed_on()
    else:
        found = _parted(op, x, params, a, outs, edge, mode, mark)
    give_up(outs, a, mode, mark, edge)
    return found


@device
def _parted(op, x, params, a, outs, edge, mode, mark):
    """The tuple of tensors for several views."""
    many, counter = count_of(outs), _counter_of(x)
    place = place_here() if counter != 0 else 0
    born = 0 if place == 0 else next_of(the_sequence()) if mode != 0 else kept(the_none())
    tensors, outputs, node = filled_tuple(many), filled_tuple(many), 0
    fine = born != 0 and tensors != 0 and outputs != 0
    if fine and edge != 0:
        plan, saved = found_plan(op, 1), params_and_shape(params, count_of(params), a)
        none = the_none()
        node = node_of(multi_node_class(), plan, single(kept(edge)), saved, kept(none), kept(none), False)
        fine = node != 0
        if fine:
            put(node + n_outputs(), kept(outputs))
    for k in range(many):
        if not fine:
            break
        out, index = item_at(outs, k), new_long(k)
        view = _view_of(x, op, params, index, counter, mode, born, mark, place)
        history = kept(the_none())
        if node != 0:
            known = pair(attribute(out, shape_word()), kept(dtype_of(out)))
            if known != 0:
                change_item(outputs, k, known)
                release(history)
                history = pick_of(kept(node), kept(index), kept(item_at(known, 0)), kept(item_at(known, 1)))
            else:
                release(history)
                history = 0
        release(index)
        t = view_tensor_of(kept(out), history, kept(counter), view)
        fine = t > 0
        if fine:
            change_item(tensors, k, t)
    if not fine:
        release(tensors)
        tensors = -1
    give_up(counter, place, born, outputs, node)
    return tensors
