"""The short way of the tape as machine code: small results computed, wrapped and recorded in one call.

What stands here says again, for the most frequent case, what `unary` and `binary` in core/apply.py say, and these stand
behind it: for any argument that is not a plain tensor of small float32 or float64 arrays, while any mode is on, and for
whatever raises. The objects of the tape are known here by a table, see core/tape.py: addresses of objects, and where
classes with slots keep theirs.
"""

from __future__ import annotations

from typing import Any

from numba import types

from ferro.cpu.kernels.jit import device
from ferro.cpu.kernels.jit_export import DATA, DESCRIPTION, TUPLE_ITEMS, TUPLE_SIZE, TYPE
from ferro.cpu.kernels.jit_front import MOST, address_of, array_type, external, is_number, is_plain, put, room, size_of, word
from ferro.cpu.kernels.tape_table import FIELDS

_i64 = types.int64
_LIST_SIZE, _LIST_ITEMS = 16, 24
_BASE = 48  # of an array
_FLOAT32, _FLOAT64 = 11, 12  # NPY_FLOAT, NPY_DOUBLE

_retain, _release = [external(name, types.void, _i64) for name in ("Py_IncRef", "Py_DecRef")]
_call = external("PyObject_Vectorcall", _i64, _i64, _i64, _i64, _i64)
_allocate = external("PyType_GenericAlloc", _i64, _i64, _i64)
_get = external("PyObject_GetAttr", _i64, _i64, _i64)
_next = external("PyIter_Next", _i64, _i64)
_new_tuple = external("PyTuple_New", _i64, _i64)
_clear = external("PyErr_Clear", types.void)
_as_long = external("PyLong_AsLongLong", _i64, _i64)
_long = external("PyLong_FromLongLong", _i64, _i64)
_value_of = external("PyContextVar_Get", types.int32, _i64, _i64, _i64)
_code_of = external("PyFrame_GetCode", _i64, _i64)
_instruction_of = external("PyFrame_GetLasti", types.int32, _i64)
_item = external("PyDict_GetItem", _i64, _i64, _i64)
_tuple_from = external("PySequence_Tuple", _i64, _i64)
_contains = external("PySet_Contains", types.int32, _i64, _i64)
_none, _true = address_of("_Py_NoneStruct"), address_of("_Py_TrueStruct")
_tuple_kind = address_of("type.tuple")
_table = address_of("ferro.tape")


def _entry(name: str) -> Any:
    """A function that gives a number of the table."""
    place = 8 * FIELDS.index(name)

    def entry():
        return word(word(_table() + DATA) + place)

    return device(entry)


_tensor, _parameter, _node, _leaf = map(_entry, ("Tensor", "Parameter", "Node", "LEAF"))
_active, _sequence, _outside, _outermost = map(_entry, ("ACTIVE", "sequence", "OUTSIDE", "outermost"))
_constant, _frame_at, _one, _zero = map(_entry, ("constant", "_getframe", "1", "0"))
_mode, _mode_silent, _mode_lost = map(_entry, ("MODE", "Mode.silent", "Mode.lost"))
_lost, _guard = map(_entry, ("Lost", "guard"))
_view, _version_of, _no_grad, _several = map(_entry, ("View", "version_of", "'no_grad'", "'multi'"))
_v_base, _v_path, _v_creation, _v_born, _v_stamp, _v_tangent_stamp, _v_lost = map(
    _entry,
    ("View.base", "View.path", "View.creation", "View.born", "View.stamp", "View.tangent_stamp", "View.lost"),
)
_v_dual, _v_place, _v_under = map(_entry, ("View.dual", "View.place", "View.under"))
_op_viewing = _entry("Op.viewing")
_op_applied, _op_multi, _op_aux, _op_mask, _op_forward = map(
    _entry, ("Op.applied", "Op.multi", "Op.aux_count", "Op.diff_mask", "Op._forward")
)
_op_plans, _op_nondiff, _plan_indices = map(_entry, ("Op.plans", "Op.nondiff_indices", "Plan.indices"))
_cpu, _find_plan, _mark_python, _asarray, _inexact = map(
    _entry, ("cpu", "plan_of", "_mark_lost", "asarray", "INEXACT")
)
_multi_node, _pick, _n_outputs = map(_entry, ("MultiNode", "Pick", "MultiNode.outputs"))
_p_node, _p_index, _p_shape, _p_dtype = map(_entry, ("Pick.node", "Pick.index", "Pick.shape", "Pick.dtype"))
_file_name, _shape_name = map(_entry, ("'co_filename'", "'shape'"))
_t_data, _t_node, _t_counter, _t_meta = map(
    _entry, ("TensorBase._data", "TensorBase._node", "TensorBase._counter", "TensorBase._meta")
)
_version_n = _entry("Version.n")
_op_direct, _op_table, _op_short = map(_entry, ("Op.direct", "Op.table", "Op.taped"))
_plan_pick, _plan_short, _plan_keeps, _plan_same = map(
    _entry, ("Plan.pick", "Plan.short", "Plan.keeps", "Plan.same")
)
_plan_shapes, _plan_saves_inputs = map(_entry, ("Plan.shapes", "Plan.saves_inputs"))
_n_plan, _n_edges, _n_saved, _n_shape, _n_dtype = map(
    _entry, ("Node.plan", "Node.edges", "Node.saved", "Node.shape", "Node.dtype")
)
_n_seq, _n_meta, _n_code, _n_offset = map(_entry, ("Node.seq", "Node.meta", "Node.code", "Node.offset"))


@device
def _kept(value):
    """An object, which has one more owner now."""
    _retain(value)
    return value


@device
def _is_tensor(x):
    kind = word(x + TYPE)
    return kind == _tensor() or kind == _parameter()


@device
def _is_small(a):
    """Whether an object is a small array of floats."""
    return (is_plain(a, _FLOAT32) or is_plain(a, _FLOAT64)) and size_of(a) < MOST


@device
def _changes(x):
    """How often a tensor has been changed in place."""
    counter = word(x + _t_counter())
    return 0 if counter == _none() else _as_long(word(counter + _version_n()))


@device
def _is_up_to_date(x):
    """Whether the history of a tensor is sure to be what is noted: it is no view, or has not been changed."""
    meta = word(x + _t_meta())
    return meta == _none() or word(meta + TYPE) == _lost() or _changes(x) == 0


@device
def _mode_here():
    """What is switched: 0 for nothing, -1 for what only Python deals with; else the mark of what is not recorded."""
    if word(_active() + _LIST_SIZE) == 0:
        return 0
    found = room()
    if _value_of(_mode(), 0, found) != 0:
        _clear()
        return -1
    mode = word(found)
    mark = 0
    if mode != _none():
        mark = word(mode + _mode_lost()) if word(mode + _mode_silent()) == _true() else -1
    _release(mode)  # (the context holds it)
    return mark


@device
def _mark_of(x):
    """The mark that a result without history inherits from a tensor: None for none, 0 if only Python knows."""
    meta = word(x + _t_meta())
    return meta if meta == _none() or word(meta + TYPE) == _lost() else 0


@device
def _plan_of(op, mask):
    """The plan of an operation whose inputs in the mask need gradients; None if there is none yet."""
    return word(word(word(op + _op_table()) + _LIST_ITEMS) + 8 * mask)


@device
def _tensor_of(out, mark):
    """A new tensor, which owns `out` now. Its history is still to be given."""
    t = _allocate(_tensor(), 0)
    if t != 0:
        put(t + _t_data(), out)
        put(t + _t_counter(), _kept(_none()))
        put(t + _t_meta(), _kept(mark))
    return t


@device
def _edge(x):
    """Where the gradient of a tensor goes."""
    n = word(x + _t_node())
    return _kept(x if n == _leaf() else n)


@device
def _tuple(a, b, c):
    """A tuple of up to three objects (0: no more), which owns them now."""
    found = _new_tuple((a != 0) + (b != 0) + (c != 0))
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
    put(arguments, _one())
    frame = _call(_frame_at(), arguments, 1, 0)
    if frame == 0:  # the operation itself is the bottom of the stack
        _clear()
        put(arguments, _zero())
        frame = _call(_frame_at(), arguments, 1, 0)
        if frame == 0:
            return 0
    code = _code_of(frame)
    file = _get(code, _file_name())
    _release(code)
    if file == 0:
        return 0
    known = _contains(_outside(), file)
    _release(file)
    if known != 1:
        put(arguments, frame)
        other = _call(_outermost(), arguments, 1, 0)
        _release(frame)
        frame = other
    return frame


@device
def _note_place(node):
    """Note the place in the user's program. False if that fails."""
    frame = _frame_here()
    if frame == 0:
        return False
    put(node + _n_code(), _code_of(frame))
    put(node + _n_offset(), _long(_instruction_of(frame)))
    _release(frame)
    return True


@device
def _place_here():
    """The place in the user's program, as `caller` gives it; 0 if that fails."""
    frame = _frame_here()
    if frame == 0:
        return 0
    place = _tuple(_code_of(frame), _long(_instruction_of(frame)), 0)
    _release(frame)
    return place


@device
def _record(t, plan, edges, saved, shape, dtype, place):
    """Give a tensor its history; what is given belongs to the node now. Whether there was memory."""
    node = _allocate(_node(), 0)
    if node == 0 or edges == 0 or saved == 0 or shape == 0:
        return False
    put(t + _t_node(), node)
    put(node + _n_plan(), _kept(plan))
    put(node + _n_edges(), edges)
    put(node + _n_saved(), saved)
    put(node + _n_shape(), shape)
    put(node + _n_dtype(), dtype)
    put(node + _n_seq(), _next(_sequence()))
    put(node + _n_meta(), _kept(_none()))
    return _note_place(node) if place else True


@device
def _guarded(t, plan, x, y):
    """Let the node of t watch the inputs that it has saved and that were changed before. False if it must not save one."""
    inputs = word(plan + _plan_saves_inputs())
    for k in range(word(inputs + TUPLE_SIZE)):
        v = y if _as_long(word(inputs + TUPLE_ITEMS + 8 * k)) else x
        if _changes(v) != 0:
            arguments = room()
            put(arguments, word(t + _t_node()))
            put(arguments + 8, word(v + _t_counter()))
            done = _call(_guard(), arguments, 2, 0)
            if done == 0:
                return False
            _release(done)
    return True


@device
def _picked(plan, x, y, out):
    """What a plan picks from the inputs and the output."""
    arguments = room()
    values = _tuple(_kept(x), _kept(y), _kept(out)) if y != 0 else _tuple(_kept(x), _kept(out), 0)
    put(arguments, values)
    found = _call(word(plan + _plan_pick()), arguments, 1, 0)
    _release(values)
    return found


@device
def _computed(direct, arguments, count):
    """The array that a function gives; 0 if it raises or gives anything else."""
    out = _call(direct, arguments, count, 0)
    if out == 0:
        _clear()
    elif word(out + TYPE) != array_type():
        _release(out)
        return 0
    return out


@device
def _params_and_shape(params, count, a):
    """A tuple of parameters and behind them the shape of an array."""
    found = _new_tuple(count + 1)
    if found != 0:
        for k in range(count):
            put(found + TUPLE_ITEMS + 8 * k, _kept(word(params + TUPLE_ITEMS + 8 * k)))
        put(found + TUPLE_ITEMS + 8 * count, _get(a, _shape_name()))
    return found


def unary(objects, count):
    """unary(op, x) or unary(op, x, params)."""
    if count != 2 and count != 3:
        return 0
    op, x = word(objects), word(objects + 8)
    if word(op + _op_short()) != _true() or not _is_tensor(x):
        return 0
    a, direct, mode = word(x + _t_data()), word(op + _op_direct()), _mode_here()
    if mode == -1 or direct == _none() or not _is_small(a) or not _is_up_to_date(x):
        return 0
    params = word(objects + 16) if count == 3 else 0
    extra = word(params + TUPLE_SIZE) if count == 3 else 0
    if extra > 8:
        return 0
    n, plan, short, mark = word(x + _t_node()), 0, 0, _none()
    if n != _none() and mode == 0:
        plan = _plan_of(op, 1)
        if plan == _none():
            return 0
        short = _as_long(word(plan + _plan_short()))
        if word(plan + _plan_pick()) == _none():
            short = -1
        elif short == 99 and (extra > 0 or word(word(plan + _plan_shapes()) + TUPLE_SIZE) > 0):
            return 0
    else:
        mark = mode if n != _none() and mode != _none() else _mark_of(x)
        if mark == 0:
            return 0
    arguments = room()
    put(arguments, a)
    for k in range(extra):
        put(arguments + 8 + 8 * k, word(params + TUPLE_ITEMS + 8 * k))
    out = _computed(direct, arguments, 1 + extra)
    if out == 0:
        return 0
    t = _tensor_of(out, mark)
    if t == 0:
        return -1
    if plan == 0:
        put(t + _t_node(), _kept(_none()))
        return t
    if word(n + TYPE) == _node() and word(plan + _plan_same()) == _true():
        shape, dtype = _kept(word(n + _n_shape())), _kept(word(n + _n_dtype()))
    else:
        shape, dtype = _get(out, _shape_name()), _kept(word(out + DESCRIPTION))
    if short == -1:
        saved = _tuple(0, 0, 0)
    elif short == 1:
        saved = _tuple(_kept(out), 0, 0)
    elif short == 0:
        saved = _tuple(_kept(x), 0, 0)
    elif short == 20:
        saved = _tuple(_get(a, _shape_name()), 0, 0)
    elif short == 21:
        saved = _kept(params) if params != 0 else _tuple(0, 0, 0)
    elif short == 22:
        saved = _params_and_shape(params, extra, a)
    else:
        saved = _picked(plan, x, 0, out)
    place = short != -1 and word(plan + _plan_keeps()) == _true()
    fine = _record(t, plan, _tuple(_edge(x), 0, 0), saved, shape, dtype, place)
    return t if fine and _guarded(t, plan, x, x) else -1


@device
def _constant_like(value, x):
    """The tensor that stands for a number beside a tensor."""
    arguments = room()
    put(arguments, value)
    put(arguments + 8, word(word(x + _t_data()) + DESCRIPTION))
    found = _call(_constant(), arguments, 2, 0)
    if found == 0:
        _clear()
    return found


def binary(objects, count):
    """binary(op, x, y), of which x or y may be a number."""
    if count != 3:
        return 0
    op, x, y = word(objects), word(objects + 8), word(objects + 16)
    mode = _mode_here()
    if mode == -1 or word(op + _op_short()) != _true():
        return 0
    number = 0
    if _is_tensor(x):
        if not _is_small(word(x + _t_data())):
            return 0
        if not _is_tensor(y):
            if not is_number(y):
                return 0
            y = number = _constant_like(y, x)
    elif _is_tensor(y):
        if not is_number(x) or not _is_small(word(y + _t_data())):
            return 0
        x = number = _constant_like(x, y)
    else:
        return 0
    if x == 0 or y == 0:
        return 0
    found = _binary(op, x, y, mode)
    if number != 0:
        _release(number)
    return found


@device
def _binary(op, x, y, mode):
    a, b, direct = word(x + _t_data()), word(y + _t_data()), word(op + _op_direct())
    if direct == _none() or word(b + TYPE) != array_type() or word(a + DESCRIPTION) != word(b + DESCRIPTION):
        return 0
    if not (_is_small(a) and _is_small(b) and _is_up_to_date(x) and _is_up_to_date(y)):
        return 0
    mask = (word(x + _t_node()) != _none()) + 2 * (word(y + _t_node()) != _none())
    plan, short, mark = 0, 0, _none()
    if mask != 0 and mode == 0:
        plan = _plan_of(op, mask)
        if plan == _none():
            return 0
        short = _as_long(word(plan + _plan_short()))
        if word(plan + _plan_pick()) == _none():
            short = -1
        elif word(word(plan + _plan_shapes()) + TUPLE_SIZE) > 0:
            return 0
    else:
        mark = mode
        if mask == 0 or mode == _none():
            mark = _mark_of(x)
            if mark == _none():
                mark = _mark_of(y)
        if mark == 0:
            return 0
    arguments = room()
    put(arguments, a)
    put(arguments + 8, b)
    out = _computed(direct, arguments, 2)
    if out == 0:
        return 0
    t = _tensor_of(out, mark)
    if t == 0:
        return -1
    if plan == 0:
        put(t + _t_node(), _kept(_none()))
        return t
    if mask == 3:
        edges = _tuple(_edge(x), _edge(y), 0)
    else:
        edges = _tuple(_edge(x if mask == 1 else y), 0, 0)
    if short == -1:
        saved = _tuple(0, 0, 0)
    elif short == 10:
        saved = _tuple(_kept(y), _kept(x), 0)
    elif short == 0 or short == 1:
        saved = _tuple(_kept(y if short else x), 0, 0)
    else:
        saved = _picked(plan, x, y, out)
    dtype = _kept(word(out + DESCRIPTION))
    fine = _record(t, plan, edges, saved, _get(out, _shape_name()), dtype, short != -1)
    return t if fine and _guarded(t, plan, x, y) else -1


# --- views -----------------------------------------------------------------------------------------------------------


@device
def _counter_of(x):
    """The version counter of a tensor, made if there is none yet; 0 if that fails."""
    counter = word(x + _t_counter())
    if counter != _none():
        return _kept(counter)
    arguments = room()
    put(arguments, x)
    return _call(_version_of(), arguments, 1, 0)


@device
def _view_of(x, op, params, index, counter, silent, born, mark, place):
    """What a view of x knows of its base.

    index: which of several, or None; silent: the mark of what is not recorded, or 0, and `born` then when it was made;
    mark: of lost history; place: where it was made, if it is one of several.
    """
    view = _allocate(_view(), 0)
    path = _new_tuple(4)
    if view == 0 or path == 0:
        return 0
    parent = word(x + _t_meta())
    if word(parent + TYPE) == _view() and word(parent + _v_base()) != _none():
        base, before = word(parent + _v_base()), word(parent + _v_path())
        creation = word(parent + _v_creation())
        if silent == 0:
            born = word(parent + _v_born())
    else:
        base, before, creation = x, _none(), _none()
        if silent == 0:
            born = _zero()
    if creation == _none():
        if silent != 0:
            creation = _no_grad()
        elif index != _none():
            creation = _several()
    under = silent if silent != 0 else _none()
    put(path + TUPLE_ITEMS, _kept(before))
    put(path + TUPLE_ITEMS + 8, _kept(op))
    put(path + TUPLE_ITEMS + 16, _kept(params))
    put(path + TUPLE_ITEMS + 24, _kept(index))
    stamp = word(counter + _version_n())
    put(view + _v_base(), _kept(base))
    put(view + _v_path(), path)
    put(view + _v_creation(), _kept(creation))
    put(view + _v_born(), _kept(born))
    put(view + _v_stamp(), _kept(stamp))
    put(view + _v_tangent_stamp(), _kept(stamp))
    put(view + _v_dual(), _kept(_none()))
    put(view + _v_place(), _kept(place))
    put(view + _v_under(), _kept(under))
    put(view + _v_lost(), _kept(mark))
    return view


@device
def _shares_memory(out, a):
    """Whether an array is sure to be a view of another one."""
    base = word(out + _BASE)
    return base != 0 and (base == a or base == word(a + _BASE))


@device
def _lost_mark(x):
    """The mark that a tensor with None, a mark or a View as `_meta` hands on; 0 for other ones."""
    meta = word(x + _t_meta())
    if word(meta + TYPE) == _view():
        return word(meta + _v_lost())
    return _mark_of(x)


def viewed(objects, count):
    """viewed(op, x) or viewed(op, x, params)."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    extra = word(params + TUPLE_SIZE)
    if not _is_tensor(x) or extra > 8:
        return 0
    a, viewing, mode = word(x + _t_data()), word(op + _op_viewing()), _mode_here()
    inherited = _lost_mark(x)
    if mode == -1 or inherited == 0 or viewing == _none() or word(a + TYPE) != array_type():
        return 0
    if _changes(x) != 0 and word(word(x + _t_meta()) + TYPE) == _view():
        return 0
    n, plan, short = word(x + _t_node()), 0, 0
    if n != _none() and mode == 0:
        plan = _plan_of(op, 1)
        if plan == _none():
            return 0
        short = _as_long(word(plan + _plan_short()))
    arguments = room()
    put(arguments, a)
    for k in range(extra):
        put(arguments + 8 + 8 * k, word(params + TUPLE_ITEMS + 8 * k))
    out = _computed(viewing, arguments, 1 + extra)
    if out == 0:
        return 0
    if not _shares_memory(out, a):
        _release(out)
        return 0
    counter = _counter_of(x)
    t = _tensor_of(out, 0)
    if counter == 0 or t == 0:
        return -1
    _release(word(t + _t_counter()))
    put(t + _t_counter(), counter)
    mark = _none()
    if plan == 0:
        mark = mode if n != _none() else inherited
    born = _next(_sequence()) if mode != 0 else _kept(_none())
    view = _view_of(x, op, params, _none(), counter, mode, born, mark, _none())
    _release(born)
    if view == 0:
        return -1
    put(t + _t_meta(), view)
    if plan == 0:
        put(t + _t_node(), _kept(_none()))
        return t
    if short == 20:
        saved = _tuple(_get(a, _shape_name()), 0, 0)
    elif short == 22:
        saved = _params_and_shape(params, extra, a)
    else:
        saved = _kept(params) if short == 21 else _tuple(0, 0, 0)
    dtype = _kept(word(out + DESCRIPTION))
    return t if _record(t, plan, _tuple(_edge(x), 0, 0), saved, _get(out, _shape_name()), dtype, False) else -1


# --- any operation ---------------------------------------------------------------------------------------------------


@device
def _size(items):
    return word(items + TUPLE_SIZE)


@device
def _at(items, k):
    """An item of a tuple."""
    return word(items + TUPLE_ITEMS + 8 * k)


@device
def _number(items, k):
    return _as_long(_at(items, k))


@device
def _found_plan(op, mask):
    """The plan of an operation whose inputs in the mask need gradients, made if there is none yet; 0 if that fails."""
    if mask < 4:
        plan = _plan_of(op, mask)
        if plan != _none():
            return _kept(plan)
    number = _long(mask)
    plan = _item(word(op + _op_plans()), number)
    if plan != 0:
        _retain(plan)
    else:
        arguments = room()
        put(arguments, op)
        put(arguments + 8, number)
        plan = _call(_find_plan(), arguments, 2, 0)
    _release(number)
    return plan


@device
def _as_array(value):
    """An array for a number, and anything else as it is; owned by the caller, who owned the value."""
    if value == 0 or word(value + TYPE) == array_type():
        return value
    arguments = room()
    put(arguments, value)
    found = _call(_asarray(), arguments, 1, 0)
    _release(value)
    return found


@device
def _is_inexact(a):
    """Whether an array has a dtype with derivatives; -1 if that cannot be found out."""
    return 1 if is_plain(a, _FLOAT32) or is_plain(a, _FLOAT64) else _contains(_inexact(), word(a + DESCRIPTION))


@device
def _have_history(xs):
    """Whether one of these tensors has a history, or something that is left of one."""
    for k in range(_size(xs)):
        x = _at(xs, k)
        if x != _none() and (word(x + _t_node()) != _none() or word(x + _t_meta()) != _none()):
            return True
    return False


@device
def _mark(t, mode, op, xs, place):
    """Mark a result without history, as Python does. False if it raises."""
    if not _have_history(xs):
        return True
    arguments = room()
    put(arguments, t)
    put(arguments + 8, mode if mode != 0 else _none())
    put(arguments + 16, op)
    put(arguments + 24, xs)
    put(arguments + 32, place)
    done = _call(_mark_python(), arguments, 5, 0)
    if done == 0:
        return False
    _release(done)
    return True


@device
def _edges(plan, xs):
    indices = word(plan + _plan_indices())
    found = _new_tuple(_size(indices))
    if found != 0:
        for k in range(_size(indices)):
            put(found + TUPLE_ITEMS + 8 * k, _edge(_at(xs, _number(indices, k))))
    return found


@device
def _saved(plan, xs, outs, params):
    """What a plan saves, from the inputs, the tuple of outputs and aux values, and the parameters; 0 if that fails."""
    if word(plan + _plan_pick()) == _none():
        return _tuple(0, 0, 0)
    values = _new_tuple(_size(xs) + _size(outs) + _size(params))
    if values == 0:
        return 0
    place = values + TUPLE_ITEMS
    for k in range(_size(xs)):
        put(place, _kept(_at(xs, k)))
        place += 8
    for k in range(_size(outs)):
        put(place, _kept(_at(outs, k)))
        place += 8
    for k in range(_size(params)):
        put(place, _kept(_at(params, k)))
        place += 8
    arguments = room()
    put(arguments, values)
    picked = _call(word(plan + _plan_pick()), arguments, 1, 0)
    _release(values)
    shapes = word(plan + _plan_shapes())
    if picked == 0 or _size(shapes) == 0:
        return picked
    found = _new_tuple(_size(picked) + _size(shapes))
    if found != 0:
        for k in range(_size(picked)):
            put(found + TUPLE_ITEMS + 8 * k, _kept(_at(picked, k)))
        for k in range(_size(shapes)):
            x = _at(xs, _number(shapes, k))
            shape = _kept(x) if x == _none() else _get(word(x + _t_data()), _shape_name())
            put(found + TUPLE_ITEMS + 8 * (_size(picked) + k), shape)
    _release(picked)
    return found


@device
def _node_of(kind, plan, edges, saved):
    """A node, which owns what is given; what is known of its outputs is still to be noted. 0 if there is no memory."""
    node = _allocate(kind, 0)
    if node != 0:
        put(node + _n_plan(), plan)
        put(node + _n_edges(), edges)
        put(node + _n_saved(), saved)
        put(node + _n_seq(), _next(_sequence()))
        put(node + _n_meta(), _kept(_none()))
    return node


@device
def _watch_inputs(node, plan, xs):
    """Let a node watch the inputs that it has saved and that were changed before. False if it must not save one."""
    inputs = word(plan + _plan_saves_inputs())
    for k in range(_size(inputs)):
        x = _at(xs, _number(inputs, k))
        if x != _none() and _changes(x) != 0:
            arguments = room()
            put(arguments, node)
            put(arguments + 8, word(x + _t_counter()))
            done = _call(_guard(), arguments, 2, 0)
            if done == 0:
                return False
            _release(done)
    return True


@device
def _recorded(kind, op, mask, xs, outs, params):
    """The node of a call, of an operation with one output or with several; 0 if that fails."""
    plan = _found_plan(op, mask)
    if plan == 0:
        return 0
    edges, saved = _edges(plan, xs), _saved(plan, xs, outs, params)
    if edges == 0 or saved == 0:
        return 0
    node = _node_of(kind, plan, edges, saved)
    if node == 0 or not _watch_inputs(node, plan, xs):
        return 0
    return node if word(plan + _plan_keeps()) != _true() or _note_place(node) else 0


def apply(objects, count):
    """apply(op, xs) or apply(op, xs, params), for operations with a fixed number of inputs and outputs, and no views."""
    if count == 3:
        return _apply(word(objects), word(objects + 8), word(objects + 16))
    if count != 2:
        return 0
    params = _new_tuple(0)
    found = _apply(word(objects), word(objects + 8), params)
    _release(params)
    return found


@device
def _apply(op, xs, params):
    if word(op + _op_applied()) != _true() or _size(xs) + _size(params) > 40:
        return 0
    mode = _mode_here()
    if mode == -1:
        return 0
    arguments, place = room(), 0
    function = word(op + _op_direct())
    if function == _none():
        function = word(op + _op_forward())
        put(arguments, _cpu())
        place = 8
    mask = 0
    for k in range(_size(xs)):
        x = _at(xs, k)
        value = x
        if x != _none():
            if not _is_tensor(x) or not _is_up_to_date(x):
                return 0
            value = word(x + _t_data())
            if word(value + TYPE) != array_type():
                return 0
            if mode == 0 and word(x + _t_node()) != _none():
                mask |= 1 << k
        put(arguments + place, value)
        place += 8
    for k in range(_size(params)):
        put(arguments + place, _at(params, k))
        place += 8
    mask &= _as_long(word(op + _op_mask()))
    result = _call(function, arguments, place // 8, 0)
    if result == 0:
        _clear()
        return 0
    several, aux = word(op + _op_multi()) == _true(), _as_long(word(op + _op_aux()))
    if not several and aux == 0:
        result = _tuple(_as_array(result), 0, 0)
        if result == 0 or _size(result) == 0:
            return -1
    found = _many(op, xs, params, mode, mask, result, _size(result) - aux) if several else (
        _single(op, xs, params, mode, mask, result))  # fmt: skip
    _release(result)
    return found


@device
def _single(op, xs, params, mode, mask, outs):
    data = _as_array(_kept(_at(outs, 0)))
    t = _tensor_of(data, _none())
    if t == 0 or data == 0:
        return -1
    inexact = _is_inexact(data) if mask != 0 else 0
    if inexact < 0:
        return -1
    if inexact == 0:
        put(t + _t_node(), _kept(_none()))
        return t if _mark(t, mode, op, xs, _none()) else -1
    node = _recorded(_node(), op, mask, xs, outs, params)
    shape = _get(data, _shape_name())
    if node == 0 or shape == 0:
        return -1
    put(node + _n_shape(), shape)
    put(node + _n_dtype(), _kept(word(data + DESCRIPTION)))
    put(t + _t_node(), node)
    return t


@device
def _many(op, xs, params, mode, mask, outs, count):
    """The tuple of tensors of an operation with several outputs."""
    tensors, outputs = _new_tuple(count), _new_tuple(count)
    if tensors == 0 or outputs == 0:
        return -1
    recorded = False
    for k in range(count):
        data = _as_array(_kept(_at(outs, k)))
        t = _tensor_of(data, _none())
        if t == 0 or data == 0:
            return -1
        put(tensors + TUPLE_ITEMS + 8 * k, t)
        number = _long(k)
        inexact = _is_inexact(data) if mask != 0 and _contains(word(op + _op_nondiff()), number) == 0 else 0
        _release(number)
        if inexact < 0:
            return -1
        if inexact != 0:
            recorded = True
            known = _tuple(_get(data, _shape_name()), _kept(word(data + DESCRIPTION)), 0)
        else:
            known = _kept(_none())
        put(outputs + TUPLE_ITEMS + 8 * k, known)
    node, place = 0, _kept(_none())
    if recorded:
        node = _recorded(_multi_node(), op, mask, xs, outs, params)
        if node == 0:
            return -1
        put(node + _n_outputs(), _kept(outputs))
        put(node + _n_shape(), _kept(_none()))
        put(node + _n_dtype(), _kept(_none()))
        if word(node + _n_code()) != 0:
            _release(place)
            place = _tuple(_kept(word(node + _n_code())), _kept(word(node + _n_offset())), 0)
    first = _at(tensors, 0)
    for k in range(count):
        t, known = _at(tensors, k), _at(outputs, k)
        if known != _none():
            pick = _allocate(_pick(), 0)
            if pick == 0:
                return -1
            put(pick + _p_node(), _kept(node))
            put(pick + _p_index(), _long(k))
            put(pick + _p_shape(), _kept(_at(known, 0)))
            put(pick + _p_dtype(), _kept(_at(known, 1)))
            put(t + _t_node(), pick)
            continue
        put(t + _t_node(), _kept(_none()))
        if k > 0 and mode != 0:
            _release(word(t + _t_meta()))
            put(t + _t_meta(), _kept(word(first + _t_meta())))
        elif not _mark(t, mode, op, xs, place):
            return -1
    _release(place)
    _release(outputs)
    if node != 0:
        _release(node)
    return tensors


# --- parts and sequences ---------------------------------------------------------------------------------------------


def parted(objects, count):
    """parted(op, x, params): several views of x."""
    if count != 3:
        return 0
    op, x, params = word(objects), word(objects + 8), word(objects + 16)
    if not _is_tensor(x) or _size(params) > 8:
        return 0
    a, viewing, mode = word(x + _t_data()), word(op + _op_viewing()), _mode_here()
    inherited = _lost_mark(x)
    if mode == -1 or inherited == 0 or viewing == _none() or word(a + TYPE) != array_type():
        return 0
    if _changes(x) != 0 and word(word(x + _t_meta()) + TYPE) == _view():
        return 0
    arguments = room()
    put(arguments, a)
    for k in range(_size(params)):
        put(arguments + 8 + 8 * k, _at(params, k))
    arrays = _call(viewing, arguments, 1 + _size(params), 0)
    outs = _tuple_from(arrays) if arrays != 0 else 0
    if arrays != 0:
        _release(arrays)
    if outs == 0:
        _clear()
        return 0
    many = _size(outs)
    counter, place, born = _counter_of(x), _place_here(), _next(_sequence()) if mode != 0 else _kept(_none())
    tensors, outputs, node, mark = _new_tuple(many), _new_tuple(many), 0, _none()
    if counter == 0 or place == 0 or tensors == 0 or outputs == 0:
        return -1
    if word(x + _t_node()) == _none():
        mark = inherited
    elif mode != 0:
        mark = mode
    else:
        plan, edges = _found_plan(op, 1), _tuple(_edge(x), 0, 0)
        saved = _params_and_shape(params, _size(params), a)
        if plan == 0 or edges == 0 or saved == 0:
            return -1
        node = _node_of(_multi_node(), plan, edges, saved)
        if node == 0:
            return -1
        put(node + _n_shape(), _kept(_none()))
        put(node + _n_dtype(), _kept(_none()))
        put(node + _n_outputs(), _kept(outputs))
    for k in range(many):
        out = _at(outs, k)
        t, index = _tensor_of(_kept(out), 0), _long(k)
        if t == 0:
            return -1
        put(tensors + TUPLE_ITEMS + 8 * k, t)
        view = _view_of(x, op, params, index, counter, mode, born, mark, place)
        if view == 0:
            return -1
        put(t + _t_meta(), view)
        _release(word(t + _t_counter()))
        put(t + _t_counter(), _kept(counter))
        if node == 0:
            known, history = _kept(_none()), _kept(_none())
        else:
            known = _tuple(_get(out, _shape_name()), _kept(word(out + DESCRIPTION)), 0)
            history = _allocate(_pick(), 0)
            if known == 0 or history == 0:
                return -1
            put(history + _p_node(), _kept(node))
            put(history + _p_index(), _kept(index))
            put(history + _p_shape(), _kept(_at(known, 0)))
            put(history + _p_dtype(), _kept(_at(known, 1)))
        put(outputs + TUPLE_ITEMS + 8 * k, known)
        put(t + _t_node(), history)
        _release(index)
    for owned in (outs, counter, place, born, outputs):
        _release(owned)
    if node != 0:
        _release(node)
    return tensors


def joined(objects, count):
    """joined(op, xs, dim)."""
    if count != 3:
        return 0
    op, xs, dim = word(objects), word(objects + 8), word(objects + 16)
    mode, many = _mode_here(), _size(xs)
    if mode == -1 or word(xs + TYPE) != _tuple_kind() or many > 60:
        return 0
    mask, description = 0, 0
    for k in range(many):
        x = _at(xs, k)
        if not _is_tensor(x) or not _is_up_to_date(x):
            return 0
        a = word(x + _t_data())
        if word(a + TYPE) != array_type() or (k > 0 and word(a + DESCRIPTION) != description):
            return 0
        description = word(a + DESCRIPTION)
        if word(x + _t_node()) != _none():
            mask |= 1 << k
    arrays = _new_tuple(many)
    if arrays == 0:
        return -1
    for k in range(many):
        put(arrays + TUPLE_ITEMS + 8 * k, _kept(word(_at(xs, k) + _t_data())))
    arguments = room()
    put(arguments, arrays)
    put(arguments + 8, dim)
    out = _call(word(op + _op_direct()), arguments, 2, 0)
    _release(arrays)
    if out == 0:
        _clear()
        return 0
    t = _tensor_of(out, _none())
    if t == 0:
        return -1
    if mask == 0 or mode != 0:
        put(t + _t_node(), _kept(_none()))
        if mask & 1:
            _release(word(t + _t_meta()))
            put(t + _t_meta(), _kept(mode))
        elif not _mark(t, mode, op, xs, _none()):
            return -1
        return t
    plan = _found_plan(op, mask)
    if plan == 0:
        return -1
    shapes = 0
    if _size(word(plan + _plan_shapes())) > 0:
        shapes = _new_tuple(many)
        if shapes == 0:
            return -1
        for k in range(many):
            put(shapes + TUPLE_ITEMS + 8 * k, _get(word(_at(xs, k) + _t_data()), _shape_name()))
    edges, saved = _edges(plan, xs), _tuple(_kept(dim), shapes, 0)
    shape = _get(out, _shape_name())
    if edges == 0 or saved == 0 or shape == 0:
        return -1
    node = _node_of(_node(), plan, edges, saved)
    if node == 0:
        return -1
    put(node + _n_shape(), shape)
    put(node + _n_dtype(), _kept(word(out + DESCRIPTION)))
    put(t + _t_node(), node)
    return t
