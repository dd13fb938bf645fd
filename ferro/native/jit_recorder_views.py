"""The recorder of views, see jit_recorder.py: one view of a tensor, or several."""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_entries import as_long
from ferro.native.jit_fields import array_type, base_of, class_of, count_of, dtype_of, load64, room, store64, the_none
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
    location_here,
    mark_of,
    mode_here,
    multi_name,
    multi_node_class,
    n_outputs,
    new_long,
    new_output_ref,
    new_ref,
    new_tuple,
    next_of,
    no_grad_name,
    node_class,
    node_of,
    op_viewing,
    pair,
    params_and_shape,
    plan_of,
    plan_short,
    release,
    retain,
    shape_name,
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
    v_detached,
    v_dual,
    v_location,
    v_path,
    v_stamp,
    v_tangent_stamp,
    v_under,
    version_function,
    version_n,
    view_class,
    view_name,
    view_tensor_of,
    zero_object,
)


@device
def _counter_of(x):
    """The version counter of a tensor, made if there is none yet; 0 if that fails."""
    counter = load64(x + t_counter())
    if counter != the_none():
        return new_ref(counter)
    arguments = room()
    store64(arguments, x)
    return call(version_function(), arguments, 1, 0)


@device
def _is_whole(view):
    """Whether the slots of a View that are read here are filled."""
    return (
        load64(view + v_base()) != 0
        and load64(view + v_path()) != 0
        and load64(view + v_creation()) != 0
        and load64(view + v_born()) != 0
        and load64(view + v_detached()) != 0
    )


@device
def _view_of(x, op, params, index, counter, silent, born, mark, location):
    """What a view of x knows of its base; 0 if it cannot be made.

    index: which of several, or None; silent: the mark of what is not recorded, or 0, and `born` then when it was made;
    mark: of lost history; location: where it was made, if it is one of several.
    """
    path = filled_tuple(4)
    if path == 0 or index == 0 or counter == 0 or born == 0 or location == 0:
        release(path)
        return 0
    parent = load64(x + t_meta())
    if class_of(parent) == view_class() and load64(parent + v_base()) != the_none():
        base, before, creation = load64(parent + v_base()), load64(parent + v_path()), load64(parent + v_creation())
        if silent == 0:
            born = load64(parent + v_born())
    else:
        base, before, creation = x, the_none(), the_none()
        if silent == 0:
            born = zero_object()
    if creation == the_none():
        if silent != 0:
            creation = no_grad_name()
        elif index != the_none():
            creation = multi_name()
    under = silent if silent != 0 else the_none()
    change_item(path, 0, new_ref(before))
    change_item(path, 1, new_ref(op))
    change_item(path, 2, new_ref(params))
    change_item(path, 3, new_ref(index))
    for each in (base, creation, born, location, under, mark):  # held before anything else can run
        retain(each)
    view = allocate(view_class(), 0)
    if view == 0:
        give_up(path, base, creation, born, location, under, mark)
        return 0
    stamp = load64(counter + version_n())
    store64(view + v_base(), base)
    store64(view + v_path(), path)
    store64(view + v_creation(), creation)
    store64(view + v_born(), born)
    store64(view + v_stamp(), new_ref(stamp))
    store64(view + v_tangent_stamp(), new_ref(stamp))
    store64(view + v_dual(), new_ref(the_none()))
    store64(view + v_location(), location)
    store64(view + v_under(), under)
    store64(view + v_detached(), mark)
    return view


@device
def _shares_memory(out, a):
    """Whether an array is sure to be a view of another one."""
    base = base_of(out)
    return base != 0 and (base == a or base == base_of(a))


@device
def _detached_mark(x):
    """The mark that a tensor hands on (of no account where it has a history); 0 where only Python knows."""
    meta = load64(x + t_meta())
    if class_of(meta) == view_class():
        return load64(meta + v_detached()) if _is_whole(meta) else 0
    mark = mark_of(x)
    if mark == 0 and load64(x + t_node()) != the_none():  # a leaf with a gradient, say
        view = attribute(meta, view_name())
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
    op, x, params = load64(objects), load64(objects + 8), load64(objects + 16)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode, extra = load64(x + t_data()), load64(op + op_viewing()), mode_here(), count_of(params)
    if mode == -1 or viewing == the_none() or class_of(a) != array_type():
        return 0
    inherited = _detached_mark(x)
    if inherited == 0 or (changes_of(x) != 0 and class_of(load64(x + t_meta())) == view_class()):
        return 0
    n, plan, short, edge = load64(x + t_node()), 0, 0, 0
    if n != the_none() and mode == 0:
        plan = plan_of(op, 1)
        if plan == the_none():
            return 0
        short = as_long(load64(plan + plan_short()))
        edge = edge_of(x)
    mark = the_none()
    if plan == 0:
        mark = mode if n != the_none() else inherited
    for each in (a, mode, mark):  # held while the view is made
        retain(each)
    arguments = room()
    store64(arguments, a)
    for k in range(extra):
        store64(arguments + 8 + 8 * k, item_at(params, k))
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
    counter, born = _counter_of(x), next_of(the_sequence()) if mode != 0 else new_ref(the_none())
    view = _view_of(x, op, params, the_none(), counter, mode, born, mark, the_none())
    release(born)
    if plan == 0:
        return view_tensor_of(out, new_ref(the_none()), counter, view)
    if short == 20:
        saved = single(attribute(a, shape_name()))
    elif short == 22:
        saved = params_and_shape(params, count_of(params), a)
    else:
        saved = new_ref(params) if short == 21 else new_tuple(0)
    shape = attribute(out, shape_name())
    node = node_of(node_class(), new_ref(plan), single(new_ref(edge)), saved, shape, new_ref(dtype_of(out)), False)
    return view_tensor_of(out, node, counter, view)


def parted(objects, count):
    """parted(op, x, params): several views of x."""
    if count != 3:
        return 0
    op, x, params = load64(objects), load64(objects + 8), load64(objects + 16)
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode = load64(x + t_data()), load64(op + op_viewing()), mode_here()
    if mode == -1 or viewing == the_none() or class_of(a) != array_type():
        return 0
    inherited = _detached_mark(x)
    if inherited == 0 or (changes_of(x) != 0 and class_of(load64(x + t_meta())) == view_class()):
        return 0
    n, edge, mark = load64(x + t_node()), 0, the_none()
    if n == the_none():
        mark = inherited
    elif mode != 0:
        mark = mode
    else:
        edge = edge_of(x)
    for each in (a, mode, mark):  # held while the views are made
        retain(each)
    arguments = room()
    store64(arguments, a)
    for k in range(count_of(params)):
        store64(arguments + 8 + 8 * k, item_at(params, k))
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
    location = location_here() if counter != 0 else 0
    born = 0 if location == 0 else next_of(the_sequence()) if mode != 0 else new_ref(the_none())
    tensors, outputs, node = filled_tuple(many), filled_tuple(many), 0
    fine = born != 0 and tensors != 0 and outputs != 0
    if fine and edge != 0:
        plan, saved = found_plan(op, 1), params_and_shape(params, count_of(params), a)
        none = the_none()
        node = node_of(multi_node_class(), plan, single(new_ref(edge)), saved, new_ref(none), new_ref(none), False)
        fine = node != 0
        if fine:
            store64(node + n_outputs(), new_ref(outputs))
    for k in range(many):
        if not fine:
            break
        out, index = item_at(outs, k), new_long(k)
        view = _view_of(x, op, params, index, counter, mode, born, mark, location)
        history = new_ref(the_none())
        if node != 0:
            known = pair(attribute(out, shape_name()), new_ref(dtype_of(out)))
            if known != 0:
                change_item(outputs, k, known)
                release(history)
                history = new_output_ref(
                    new_ref(node), new_ref(index), new_ref(item_at(known, 0)), new_ref(item_at(known, 1))
                )
            else:
                release(history)
                history = 0
        release(index)
        t = view_tensor_of(new_ref(out), history, new_ref(counter), view)
        fine = t > 0
        if fine:
            change_item(tensors, k, t)
    if not fine:
        release(tensors)
        tensors = -1
    give_up(counter, location, born, outputs, node)
    return tensors
