"""What the recorder makes: nodes with what their plans save, tensors, and one output of many. See jit_interpreter.py for who owns what."""

from __future__ import annotations

from ferro.native.jit import device
from ferro.native.jit_fields import class_of, count_of, dtype_of, list_items, load64, the_none
from ferro.native.jit_interpreter import (
    allocate,
    as_long,
    attribute,
    called,
    change_item,
    code_of,
    dict_item,
    failed,
    filled_tuple,
    give_up,
    instruction_of,
    item_at,
    new_long,
    new_ref,
    new_tuple,
    next_of,
    number_at,
    pair,
    put_items,
    release,
    retain,
    set_item,
    single,
)
from ferro.native.jit_objects import changes_of, frame_here, known, location_here, put, slot

# --- what a plan saves ------------------------------------------------------------------------------------------------


@device
def plan_of(op, mask):
    """The plan of an operation whose inputs in the mask (up to 3) need gradients; None if there is none yet."""
    return load64(list_items(slot(op, "Op.table")) + 8 * mask)


@device
def found_plan(op, mask):
    """The plan of an operation whose inputs in the mask need gradients, made if there is none yet; 0 if that fails."""
    if mask < 4:
        plan = plan_of(op, mask)
        if plan != the_none():
            return new_ref(plan)
    number = new_long(mask)
    plan = dict_item(slot(op, "Op.plans"), number) if number != 0 else 0
    if plan != 0:
        retain(plan)
    elif failed() == 0:
        plan = called(known("plan_of"), op, number)
    release(number)
    return plan


@device
def shape_of_array(a):
    return attribute(a, known("'shape'"))


@device
def params_and_shape(params, a):
    """A tuple of parameters and behind them the shape of an array."""
    shape = shape_of_array(a)
    found = new_tuple(count_of(params) + 1) if shape != 0 else 0
    if found == 0:
        release(shape)
        return 0
    set_item(found, put_items(found, 0, params), shape)
    return found


@device
def saved_values(plan, xs, outs, params):
    """What a plan saves, from the inputs, the tuple of outputs and aux values, and the parameters; 0 if that fails."""
    if slot(plan, "Plan.pick") == the_none():
        return new_tuple(0)
    values = new_tuple(count_of(xs) + count_of(outs) + count_of(params))
    if values == 0:
        return 0
    put_items(values, put_items(values, put_items(values, 0, xs), outs), params)
    picked = called(slot(plan, "Plan.pick"), values)
    release(values)
    shapes = slot(plan, "Plan.shapes")
    if picked == 0 or count_of(shapes) == 0:
        return picked
    count = count_of(picked)
    found = filled_tuple(count + count_of(shapes))
    for k in range(count_of(shapes) + count):
        if found == 0:
            break
        if k < count:
            value = new_ref(item_at(picked, k))
        else:
            x = item_at(xs, number_at(shapes, k - count))
            value = new_ref(x) if x == the_none() else shape_of_array(slot(x, "TensorBase._data"))
        if value != 0:
            change_item(found, k, value)
        else:
            release(found)
            found = 0
    release(picked)
    return found


@device
def saved_of_one(plan, x, y, a, out, params):
    """What a plan saves of a call with one tensor (y is 0) or two, of which `a` is the first array; params: a tuple, or 0."""
    short = as_long(slot(plan, "Plan.short"))
    other = out if y == 0 else y
    if slot(plan, "Plan.pick") == the_none():
        return new_tuple(0)
    if short == 0:
        return single(new_ref(x))
    if short == 1:
        return single(new_ref(other))
    if short == 10:
        return pair(new_ref(other), new_ref(x))
    if short == 20:
        return single(shape_of_array(a))
    if short == 21 and params != 0:
        return new_ref(params)
    if short == 22 and params != 0:
        return params_and_shape(params, a)
    xs = single(new_ref(x)) if y == 0 else pair(new_ref(x), new_ref(y))
    outs, none, found = single(new_ref(out)), new_tuple(0), 0
    if xs != 0 and outs != 0 and none != 0:
        found = saved_values(plan, xs, outs, params if params != 0 else none)
    give_up(xs, outs, none)
    return found


# --- nodes and tensors ------------------------------------------------------------------------------------------------


@device
def edge_of(x):
    """Where the gradient of a tensor goes."""
    n = slot(x, "TensorBase._node")
    # (None or 0: another thread has just taken the history away)
    return new_ref(x if n == known("LEAF") or n == the_none() or n == 0 else n)


@device
def edges_of(xs, mask):
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


@device
def new_tensor(kind, out, node, counter, meta):
    """A new tensor around an array, with its history, version counter, and mark or view; -1 if that fails.

    Nothing runs between the making of the object and the filling of its slots: nobody sees it half made.
    """
    t = allocate(kind, 0) if out != 0 and node != 0 and counter != 0 and meta != 0 else 0
    if t == 0:
        return give_up(out, node, counter, meta)
    put(t, "TensorBase._data", out)
    put(t, "TensorBase._node", node)
    put(t, "TensorBase._counter", counter)
    put(t, "TensorBase._meta", meta)
    return t


@device
def tensor_of(out, node, mark):
    """A new Tensor around an array, with its history and the mark that it inherits; -1 if that fails."""
    return new_tensor(known("Tensor"), out, node, new_ref(the_none()), mark)


@device
def node_of(kind, plan, edges, saved, shape, dtype, locate):
    """A node of a class; 0 if that fails. `locate`: whether to note where the program is."""
    code, offset, seq = 0, 0, 0
    fine = plan != 0 and edges != 0 and saved != 0 and shape != 0 and dtype != 0
    if fine and locate:
        frame = frame_here()
        if frame != 0:
            code = code_of(frame)
            offset = new_long(instruction_of(frame))
            release(frame)
        fine = code != 0 and offset != 0
    if fine:
        seq = next_of(known("sequence"))
    node = allocate(kind, 0) if seq != 0 else 0
    if node == 0:
        give_up(plan, edges, saved, shape, dtype, code, offset, seq)
        return 0
    put(node, "Node.plan", plan)
    put(node, "Node.edges", edges)
    put(node, "Node.saved", saved)
    put(node, "Node.seq", seq)
    put(node, "Node.meta", new_ref(the_none()))
    put(node, "Node.shape", shape)
    put(node, "Node.dtype", dtype)
    if locate:
        put(node, "Node.code", code)
        put(node, "Node.offset", offset)
    return node


@device
def new_output_ref(node, index, shape, dtype):
    """One output of a node; 0 if that fails."""
    found = allocate(known("OutputRef"), 0) if node != 0 and index != 0 and shape != 0 and dtype != 0 else 0
    if found == 0:
        give_up(node, index, shape, dtype)
        return 0
    put(found, "OutputRef.node", node)
    put(found, "OutputRef.index", index)
    put(found, "OutputRef.shape", shape)
    put(found, "OutputRef.dtype", dtype)
    return found


@device
def watch_inputs(node, plan, xs):
    """Let a node watch the inputs that it has saved and that were changed before. False if it must not save one."""
    inputs = slot(plan, "Plan.saves_inputs")
    for k in range(count_of(inputs)):
        x = item_at(xs, number_at(inputs, k))
        if x != the_none() and changes_of(x) != 0:
            done = called(known("guard"), node, slot(x, "TensorBase._counter"))
            if done == 0:
                return False
            release(done)
    return True


@device
def record(plan, edges, saved, out, same, locate, x, y):
    """A tensor around an array, and its node. `same`: a node whose shape and dtype it has too, or 0; x, y: what may have been saved.

    It owns the array, the edges and what is saved, but not the plan. -1 after an error.
    """
    if edges == 0 or saved == 0:
        return give_up(edges, saved, out)
    retain(plan)
    if same != 0 and slot(same, "Node.shape") != 0 and slot(same, "Node.dtype") != 0:
        shape, dtype = new_ref(slot(same, "Node.shape")), new_ref(slot(same, "Node.dtype"))
    else:
        shape, dtype = shape_of_array(out), new_ref(dtype_of(out))
    node = node_of(known("Node"), plan, edges, saved, shape, dtype, locate)
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
def new_mark(t, op, x, location):
    """The mark of a result whose operation has no gradient, of a tensor x that has a history; 0 if only Python knows, -1 after an error."""
    n, maker = slot(x, "TensorBase._node"), the_none()
    node = slot(n, "OutputRef.node") if class_of(n) == known("OutputRef") else n
    if node == 0:
        return 0
    if node != known("LEAF"):
        plan = slot(node, "Node.plan") if class_of(node) == known("Node") or class_of(node) == known("MultiNode") else 0
        if plan == 0 or class_of(plan) != known("Plan"):
            return 0
        maker = slot(plan, "Plan.op")
    retain(maker)
    where = location_here() if location == the_none() else new_ref(location)
    shape = shape_of_array(slot(x, "TensorBase._data"))
    mark = allocate(known("DetachedMark"), 0) if where != 0 and shape != 0 else 0
    if mark == 0:
        return give_up(maker, where, shape)
    put(mark, "DetachedMark.why", new_ref(slot(op, "Op.name")))
    put(mark, "DetachedMark.location", where)
    put(mark, "DetachedMark.dtype", new_ref(dtype_of(slot(t, "TensorBase._data"))))
    put(mark, "DetachedMark.shape", shape)
    put(mark, "DetachedMark.op", maker)
    return mark
