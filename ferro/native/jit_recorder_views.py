"""The recorder of views, see jit_recorder.py: one view of a tensor, or several."""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_fields import array_type, base_of, class_of, count_of, dtype_of, load64, room, store64, the_none
from ferro.native.jit_interpreter import (
    allocate,
    attribute,
    call,
    called,
    change_item,
    clear_error,
    filled_tuple,
    give_up,
    is_tuple,
    item_at,
    new_long,
    new_ref,
    next_of,
    pair,
    put_words,
    release,
    retain,
    single,
    tuple_from,
)
from ferro.native.jit_nodes import (
    edge_of,
    new_output_ref,
    new_tensor,
    node_of,
    params_and_shape,
    plan_of,
    saved_of_one,
    shape_of_array,
)
from ferro.native.jit_objects import (
    changes_of,
    handed_on,
    is_op,
    is_tensor,
    known,
    location_here,
    mark_of,
    mode_here,
    put,
    slot,
)

# --- what a view knows -------------------------------------------------------------------------------------------------


@device
def _counter_of(x):
    """The version counter of a tensor, made if there is none yet; 0 if that fails."""
    counter = slot(x, "TensorBase._counter")
    return called(known("version_of"), x) if counter == the_none() else new_ref(counter)


@device
def _is_whole(view):
    """Whether the slots of a View that are read here are filled."""
    return (
        slot(view, "View.base") != 0
        and slot(view, "View.path") != 0
        and slot(view, "View.creation") != 0
        and slot(view, "View.born") != 0
        and slot(view, "View.detached") != 0
    )


@device
def _origin(x):
    """Base, path, creation and born that a view of x starts from."""
    parent = slot(x, "TensorBase._meta")
    if class_of(parent) == known("View") and slot(parent, "View.base") != the_none():
        return (
            slot(parent, "View.base"),
            slot(parent, "View.path"),
            slot(parent, "View.creation"),
            slot(parent, "View.born"),
        )
    return x, the_none(), the_none(), known("0")


@device
def _view_of(x, op, params, index, counter, mode, born, mark, location):
    """What a view of x knows of its base; 0 if it cannot be made. It owns none of what is given.

    index: which of several, or None; mode: the mark of what is not recorded, or 0, and `born` then when it was made;
    mark: of lost history; location: where it was made, if it is one of several.
    """
    path = filled_tuple(4)
    if path == 0 or index == 0 or counter == 0 or born == 0 or location == 0:
        release(path)
        return 0
    base, before, creation, first = _origin(x)
    under = the_none()
    if mode != 0:
        under = mode
    else:
        born = first
    if creation == the_none():
        if mode != 0:
            creation = known("'no_grad'")
        elif index != the_none():
            creation = known("'multi'")
    change_item(path, 0, new_ref(before))
    change_item(path, 1, new_ref(op))
    change_item(path, 2, new_ref(params))
    change_item(path, 3, new_ref(index))
    for each in (base, creation, born, location, under, mark):  # held before anything else can run
        retain(each)
    view = allocate(known("View"), 0)
    if view == 0:
        give_up(path, base, creation, born, location, under, mark)
        return 0
    stamp = slot(counter, "Version.n")
    put(view, "View.base", base)
    put(view, "View.path", path)
    put(view, "View.creation", creation)
    put(view, "View.born", born)
    put(view, "View.stamp", new_ref(stamp))
    put(view, "View.tangent_stamp", new_ref(stamp))
    put(view, "View.dual", new_ref(the_none()))
    put(view, "View.location", location)
    put(view, "View.under", under)
    put(view, "View.detached", mark)
    return view


@device
def _shares_memory(out, a):
    """Whether an array is sure to be a view of another one."""
    base = base_of(out)
    return base != 0 and (base == a or base == base_of(a))


@device
def _detached_mark(x):
    """The mark that a tensor hands on (of no account where it has a history); 0 where only Python knows."""
    meta = slot(x, "TensorBase._meta")
    if class_of(meta) == known("View"):
        return slot(meta, "View.detached") if _is_whole(meta) and changes_of(x) == 0 else 0
    mark = mark_of(x)
    if mark == 0 and slot(x, "TensorBase._node") != the_none():  # a leaf with a gradient, say
        view = attribute(meta, known("'view'"))
        if view == the_none():
            mark = view
        if view == 0:
            clear_error()
        release(view)
    return mark


# --- the functions -----------------------------------------------------------------------------------------------------


def viewed(objects, count):
    """viewed(op, x, params)."""
    return _views(load64(objects), load64(objects + 8), load64(objects + 16), False) if count == 3 else 0


def parted(objects, count):
    """parted(op, x, params): several views of x."""
    return _views(load64(objects), load64(objects + 8), load64(objects + 16), True) if count == 3 else 0


@device
def _views(op, x, params, several):
    if not (is_op(op) and is_tensor(x) and is_tuple(params)) or count_of(params) > 8:
        return 0
    a, viewing, mode = slot(x, "TensorBase._data"), slot(op, "Op.viewing"), mode_here()
    if mode == -1 or viewing == the_none() or class_of(a) != array_type():
        return 0
    mark = _detached_mark(x)
    if mark == 0:
        return 0
    plan, edge = 0, 0
    if slot(x, "TensorBase._node") != the_none():
        mark = mode
        if mode == 0:
            plan, mark = plan_of(op, 1), the_none()
            if plan == the_none():
                return 0
            edge = edge_of(x)
    for each in (a, mode, mark):  # held while the views are made
        retain(each)
    arguments = room()
    store64(arguments, a)
    outs = call(viewing, arguments, 1 + put_words(arguments + 8, params), 0)
    if outs != 0 and several:
        arrays = tuple_from(outs)
        release(outs)
        outs = arrays
    found = 0
    if outs == 0:
        found = handed_on()
    elif several:
        found = _parted(op, x, params, a, outs, plan, edge, mode, mark)
    elif class_of(outs) == array_type() and _shares_memory(outs, a):
        found = _viewed(op, x, params, a, outs, plan, edge, mode, mark)
    give_up(outs, a, mode, mark, edge)
    return found


@device
def _viewed(op, x, params, a, out, plan, edge, mode, mark):
    """The tensor of a view."""
    counter = _counter_of(x)
    born = 0 if counter == 0 else next_of(known("sequence")) if mode != 0 else new_ref(the_none())
    view = _view_of(x, op, params, the_none(), counter, mode, born, mark, the_none())
    release(born)
    history = new_ref(the_none())
    if plan != 0 and view != 0:
        release(history)
        saved, shape = saved_of_one(plan, x, 0, a, out, params), shape_of_array(out)
        dtype = new_ref(dtype_of(out))
        history = node_of(known("Node"), new_ref(plan), single(new_ref(edge)), saved, shape, dtype, False)
    return new_tensor(known("Tensor"), new_ref(out), history, counter, view)


@device
def _parted(op, x, params, a, outs, plan, edge, mode, mark):
    """The tuple of tensors for several views."""
    many, none, counter = count_of(outs), the_none(), _counter_of(x)
    location = location_here() if counter != 0 else 0
    born = 0 if location == 0 else next_of(known("sequence")) if mode != 0 else new_ref(none)
    tensors, outputs, node = filled_tuple(many), filled_tuple(many), 0
    fine = born != 0 and tensors != 0 and outputs != 0
    if fine and plan != 0:
        saved, edges = params_and_shape(params, a), single(new_ref(edge))
        node = node_of(known("MultiNode"), new_ref(plan), edges, saved, new_ref(none), new_ref(none), False)
        fine = node != 0
        if fine:
            put(node, "MultiNode.outputs", new_ref(outputs))
    for k in range(many):
        if not fine:
            break
        out, index = item_at(outs, k), new_long(k)
        view = _view_of(x, op, params, index, counter, mode, born, mark, location)
        t = new_tensor(known("Tensor"), new_ref(out), _history(node, outputs, k, out, index), new_ref(counter), view)
        release(index)
        fine = t > 0
        if fine:
            change_item(tensors, k, t)
    if not fine:
        release(tensors)
        tensors = -1
    give_up(counter, location, born, outputs, node)
    return tensors


@device
def _history(node, outputs, k, out, index):
    """Where the gradient of one of several views goes: None, or an output of the node, whose shape and dtype are entered. 0 if that fails."""
    if node == 0:
        return new_ref(the_none())
    known_pair = pair(shape_of_array(out), new_ref(dtype_of(out)))
    if known_pair == 0:
        return 0
    change_item(outputs, k, known_pair)
    shape, dtype = new_ref(item_at(known_pair, 0)), new_ref(item_at(known_pair, 1))
    return new_output_ref(new_ref(node), new_ref(index), shape, dtype)
