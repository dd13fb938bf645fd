"""The words of layouts: how an entry is called, and the text of the function of Python that reads such a call.

Note [Layouts]
    A layout says what an entry is called with: words for the arguments, then for the results.

    x         the first array; it gives the shape;  many   the same, for functions that NumPy rounds better: not too small
    =         an array of the same shape; a small one that lies otherwise than x is copied
    ~         the same, or an array whose shape is the end of the first one's, or a number
    number    a float or an int, of which the kernel gets a float64
    dims      dimensions: a tuple of ascending ints without gaps, or one int
    keep      a bool: whether reduced dimensions are kept, with size 1
    last      the last dimension, an int;  trailing   how many of the last ones make up a row
    mask      bools, an array of the shape of the first one
    weight    an array of the shape of a row, or None (of which the kernel gets an empty one)
    rows      a vector with a number for each row;  any   what the kernel need not know
    none true false mean   that constant, and nothing else ("mean" is a string)
    one       an array of no dimensions;  norms   a vector with a float64 for each row
    labels    a vector with an int64 for each row, of a matrix x
    index     an array of int64
    count     an int: how many rows the result has
    channels  a vector with a number for each channel, dimension 1 of x;  channel   the same, or None
    groups    an int: how many groups of channels there are; rows then have a number for each group of each image
    changed   an x that is written to;  buffer   an array of its shape that is, or None;  flag   a bool

    Where all words are x, many, =, ~ and number, and the result is x (elementwise functions), it may be written into an array
    that there is, see `into_place` in cpu/kernels/entries.py, and into x itself but for "again" behind it: the kernel may read
    elements again after it has written them. Arrays may then have their
    dimensions in any order in memory, the same for all, without gaps: so has the result then. With dims that order may be
    any, too, where all dimensions are reduced, or one of a matrix. A small first array whose dimensions lie in order, with
    gaps (a slice, say), is copied; a large one, or one beside which others lie otherwise, is taken row by row where rows lie side
    by side: see Note [Views in entries] in jit_views.py.

    Results: x, of the shape of the first array; r, of that shape without the dimensions; i, the same of int64; counted, a
    matrix; rows, weight, one, norms and channels as above; none, of functions that change their arguments.

    Kernels get flat arrays and numbers in the order of the layout, with dims three lengths (of what lies before the
    dimensions, in them, and behind them), and the flat results. With last, trailing, labels or index, arrays have rows;
    with channel or channels, three dimensions (images, channels, places), and are told the range of all channels. With groups
    the dimensions are (images and groups, channels, places), and what has a number for each channel is a matrix with a row for
    each group; but results are flat. At the end may stand "?", the kernel says whether it could compute the
    result, and "+", large arrays too: shared by their elements or rows, or with dims by another kernel, which is also
    told where the queue is and how many threads may help.
"""

from __future__ import annotations

# What is asked of an argument `a`, and (behind "|") what the kernel gets of it, if anything.
_ARGUMENTS = {
    "x": """
if not is_array({a}, number): return 0
size = size_of({a})
if size < {least} or size > {most}: return 0
plain = is_plain({a}, number)
{unless_plain}
| elements(T, {x_read}, {size})""",
    "=": """
same_{a} = is_plain({a}, number) and is_like({x}, {a}) if plain else lies_like({x}, {a}, number)
if not same_{a} and ({unless_same} or not may_be_read({x}, {a}, number)): return 0
| elements(T, {a}_read, {size})""",
    "~": """
n_{a}, same_{a} = 1, True
if is_number({a}):
    put_number(T, numbers, as_double({a}))
    if failed() != 0: return -1
elif is_plain({a}, number) and (plain or ndim_of({a}) == 0):
    if not ends_like({x}, {a}): return 0
    n_{a} = size_of({a})
else:
    n_{a}, same_{a} = size, not plain and lies_like({x}, {a}, number)
    if not same_{a} and ({unless_same} or not may_be_read({x}, {a}, number)): return 0
| array_at(T, numbers if is_number({a}) else data_of({a}_read), (n_{a},))""",
    "mask": """
if not is_array({x}, number) or not is_plain({a}, BOOL) or not is_like({x}, {a}): return 0
| elements(np.bool_, {a}, size)""",
    "weight": """
n_{a} = 0
if {a} != the_none():
    if not is_plain({a}, number) or not ends_like({x}, {a}): return 0
    n_{a} = size_of({a})
| elements(T, {x} if n_{a} == 0 else {a}, n_{a})""",
    "rows": """
if not is_plain({a}, number) or ndim_of({a}) != 1: return 0
| elements(T, {a}, load64(shape_of({a})))""",
    "number": """
if not is_number({a}): return 0
f_{a} = as_double({a})
if f_{a} == -1 and failed() != 0: return -1
| f_{a}""",
    "norms": """
if not is_vector({a}, DOUBLE, length({x}, 0, 1)): return 0
| elements(np.float64, {a}, size // columns)""",
    "one": """
if not is_plain({a}, number) or ndim_of({a}) != 0: return 0
| elements(T, {a}, 1)""",
    "labels": """
if ndim_of({x}) != 2 or not is_vector({a}, INT64, length({x}, 0, 1)): return 0
columns = length({x}, 1, 2)
| elements(np.int64, {a}, size // columns)""",
    "index": """
if not is_plain({a}, INT64) or ndim_of({x}) < 1 or ndim_of({a}) > 30: return 0
columns, places = length({x}, ndim_of({x}) - 1, ndim_of({x})), size_of({a})
if places * columns < 1 or places * columns > MOST: return 0
| elements(np.int64, {a}, places)""",
    "count": """
if class_of({a}) != int_type(): return 0
total = as_long({a})
if ndim_of({x}) != ndim_of({index}) + 1 or size != places * columns or total < 1 or total > MOST // columns: return 0
|""",
    "channels": """
if not is_vector({a}, number, channels): return 0
| elements(T, {a}, {channels})""",
    "channel": """
if {a} != the_none() and not is_vector({a}, number, channels): return 0
| elements(T, {x} if {a} == the_none() else {a}, 0 if {a} == the_none() else {channels})""",
    "groups": """
if class_of({a}) != int_type(): return 0
groups = as_long({a})
if groups < 1 or channels % groups != 0: return 0
|""",
    "changed": """
if not is_plain({a}, number) or flags_of({a}) & WRITABLE == 0: return 0
size = size_of({a})
if size < 1 or size > {most}: return 0
plain = True
| elements(T, {a}, size)""",
    "buffer": """
if {a} != the_none() and not (is_plain({a}, number) and is_like({x}, {a}) and flags_of({a}) & WRITABLE): return 0
| elements(T, {x} if {a} == the_none() else {a}, 0 if {a} == the_none() else size)""",
    "flag": """
if class_of({a}) != bool_type(): return 0
| {a} == the_true()""",
    "none": "if {a} != the_none(): return 0 |",
    "true": "if {a} != the_true(): return 0 |",
    "false": "if {a} != the_false(): return 0 |",
    "mean": "if not is_mean({a}): return 0 |",
    "any": "|",
    "last": """
if class_of({a}) != int_type() or ndim_of({x}) < 1 or as_long({a}) != ndim_of({x}) - 1: return 0
first = ndim_of({x}) - 1
columns = length({x}, first, first + 1)
|""",
    "trailing": """
if class_of({a}) != int_type() or as_long({a}) < 1 or as_long({a}) > ndim_of({x}): return 0
first = ndim_of({x}) - as_long({a})
columns = length({x}, first, ndim_of({x}))
|""",
    "dims": """
first = first_dim({a})
stop = first + count_dims({a})
if first < 0 or stop > ndim_of({x}): return 0
before, inside, behind = length({x}, 0, first), length({x}, first, stop), length({x}, stop, ndim_of({x}))
if not plain and stop - first < ndim_of({x}):
    if ndim_of({x}) > 2: return 0
    before, behind = behind, before
|""",
    "keep": """
if class_of({a}) != bool_type(): return 0
keep = {a} == the_true()
|""",
}
# What is asked of an x that is not plain, where its dimensions may lie in any order; those with gaps are copied, or taken row by row.
_FREE = """
gaps = not plain and not is_without_gaps({a}, width)
if gaps and ({unless_gaps} or not is_in_order({a})): return 0
plain = plain or gaps"""
# The rest of what is done row by row, and what is left to others: small arrays are copied.
_IN_VIEWS = """
        if wanted == 0: put_new(words, width)
        else: put_view(words, {x}, wanted)
        rows = in_rows(words, width)
        if rows > 0:
            out = like({x}, True) if wanted == 0 else new_ref(wanted)
            many = helpers() if size > MOST and out != 0 else 0
            if out == 0 or many < 0:
                release(out)
                return -1
            if wanted == 0: put_address(words, out)
            put_body(kernel, words, ({values},))
            chunks = max(min(size // GRAIN, CHUNKS, rows), 1)
            freely_in_rows(by_views, (queue(), many, chunks, rows, -1, 0), (0, rows, words))
            return out
if size > MOST and ({anyhow}): return 0
"""
# How an array of the result is made, and what the kernel gets of it.
_RESULTS = {
    "x": "like({x}, plain) | elements(T, {r}, {size})",
    "one": "shaped({x}, 0, 0) | elements(T, {r}, 1)",
    "norms": "doubles(size // columns) | elements(np.float64, {r}, size // columns)",
    "counted": "sized({x}, total, columns) | elements(T, {r}, total, columns)",
    "channels": "sized({x}, channels) | elements(T, {r}, channels)",
    "r": "reduced({x}, first, stop, keep, False) | elements(T, {r}, before * behind)",
    "i": "reduced({x}, first, stop, keep, True) | elements(np.int64, {r}, before * behind)",
    "rows": "sized({x}, {rows}) | elements(T, {r}, {rows})",
    "weight": "reduced({x}, 0, first, False, False) | elements(T, {r}, columns)",
}
VIEWS = 5  # arrays, that of the result among them, whose rows an entry can describe (see jit_views.py)
_IN_ROWS, _IN_CHANNELS = {"last", "trailing", "labels", "index"}, {"channel", "channels"}


def is_elementwise(layout: str) -> bool:
    """Whether a layout is that of an elementwise function: see Note [Layouts]."""
    arguments, _, results = layout.partition(" -> ")
    return {"x", "many", "=", "~", "number"}.issuperset(arguments.split()) and results.split()[0] == "x"


class _Text:
    """The text of an entry, while it is written."""

    def __init__(self, layout: str):
        arguments, _, results = layout.partition(" -> ")
        self.flags = layout.rsplit(maxsplit=1)[-1] if layout[-1] in "?+" else ""
        self.results = [word for word in results.split() if word not in ("none", "again", self.flags)]
        self.again = "again" in results
        self.arguments = [kind.replace("many", "x") for kind in arguments.split()]
        self.in_rows = not _IN_ROWS.isdisjoint(self.arguments)
        self.in_channels = not _IN_CHANNELS.isdisjoint(self.arguments)
        # whether arrays may lie in any order: x is read as it lies, and so is all that is read with it
        self.elementwise = is_elementwise(layout)
        free = self.free = self.results == ["r"] or self.elementwise
        self.views = self.elementwise and "+" in self.flags and len(self.named("x", "=", "~")) < VIEWS
        names = {kind: f"a{k}" for k, kind in enumerate(self.arguments)}
        self.x = next(names[kind] for kind in ("x", "changed") if kind in names)
        few = "False" if self.views else "size > MOST"
        self.names = {
            "x": self.x,
            "index": names.get("index", ""),
            "size": "size // columns, columns" if self.in_rows else "size",
            "least": "LEAST" if "many" in arguments else "1",
            "most": "FULL" if "+" in self.flags else "MOST",
            "unless_plain": _FREE.format(a=self.x, unless_gaps=few).strip() if free else "if not plain: return 0",
            "unless_same": "(size > MOST and not plain)" if self.views else "size > MOST",
            "x_read": "x_read" if free else self.x,
        }
        rows, channels = "size // columns", "channels"
        if "groups" in self.arguments:
            rows, channels = "size // (channels // groups * places)", "groups, channels // groups"
            self.names["size"] = f"{rows}, channels // groups, places"
        elif self.in_channels:
            self.names["size"] = "size // (channels * places), channels, places"
        self.names |= {"rows": rows, "channels": channels}
        self.lines: list[str] = []
        self.given: list[str] = []  # what the kernel gets
        self.whole: list[str] = []  # bits of arrays that are not cut into chunks
        self.let_go: list[str] = []  # lines that let copies go

    def named(self, *kinds: str) -> list[str]:
        """The arguments of these kinds."""
        return [f"a{k}" for k, kind in enumerate(self.arguments) if kind in kinds]

    def read(self) -> None:
        """Reads the arguments and looks whether they are what the layout says."""
        if self.elementwise:  # (before anything else may call an entry)
            self.lines += ["wanted = wanted_here()", "want(0)"]
        self.lines += [f"if count != {len(self.arguments)}: return 0", "numbers = room()"]
        self.lines += [f"a{k} = load64(objects + {8 * k})" for k in range(len(self.arguments))]
        for k, kind in enumerate(self.arguments):
            text, _, passed = _ARGUMENTS[kind].format(a=f"a{k}", **self.names).partition("|")
            self.lines += text.strip("\n").splitlines()
            if kind in ("weight", "~"):
                self.whole.append(f"({kind == 'weight'} or n_a{k} == 1) << {len(self.given)}")
            self.given += [passed.strip()] if passed.strip() else []
            if kind == "x" and self.in_channels:
                self.lines.append(f"if ndim_of(a{k}) < 2: return 0")
                self.lines.append(f"channels, places = length(a{k}, 1, 2), length(a{k}, 2, ndim_of(a{k}))")
        self.lines += [f"if n_{a} != 0 and n_{a} != columns: return 0" for a in self.named("weight")]
        self.lines += [f"if length({a}, 0, 1) != {self.names['rows']}: return 0" for a in self.named("rows")]
        self.given += ["before", "inside", "behind"] if "dims" in self.arguments else []
        self.given += ["0", "channels"] if self.in_channels and "groups" not in self.arguments else []

    def by_views(self) -> None:
        """Computes what is large and does not lie as the kernel reads it row by row: see Note [Views in entries] in jit_views.py."""
        if not self.views:
            return
        views = self.named("x", "=", "~")
        anyhow = " or ".join(["gaps", *[f"not same_{a}" for a in self.named("=", "~")]])
        one = f"elements(T, {self.x}, 1)"
        values = [
            one if passed.startswith(("elements", "array_at")) else passed for passed in (*self.given, "elements")
        ]
        clear = [
            f"({f'is_number({a}) or ' * (a in self.named('~'))}is_clear({a}, wanted, width, {self.again}))"
            for a in views
        ]
        text = ["takes = wanted == 0", "if wanted != 0 and size >= VIEW_LEAST and plain:"]
        text += [f"    takes = takes_rows(wanted, {self.x}, number, width) and {' and '.join(clear)}"]
        apart = f"{anyhow} or (wanted != 0 and not is_plain(wanted, number))"
        text += [f"if size >= VIEW_LEAST and plain and takes and ({apart}):", "    words = room()"]
        numbers = sum([1 << k for k, a in enumerate(views) if a in self.named("~")])
        text.append(f"    if put_lengths(words, {self.x}, {numbers}):")
        for a in views:
            put = f"put_view(words, {self.x}, {a})"
            number = f"if is_number({a}): put_one(words, numbers)\n        else: " if a in self.named("~") else ""
            text += f"        {number}{put}".splitlines()
        text += _IN_VIEWS.format(x=self.x, anyhow=anyhow, values=", ".join(values)).strip("\n").splitlines()
        self.lines += text

    def gather(self) -> None:
        """Calls those that may help with a large array."""
        if "+" in self.flags:
            self.lines += [f"if size > MOST and 1 < n_{a} < size: return 0" for a in self.named("~")]
            self.lines += ["count = helpers() if size > MOST else 0", "if count < 0: return -1"]

    def copy(self) -> None:
        """Copies what has to be read in the order of x, and x itself where it has gaps."""
        copies = [("x_read", self.x, "not gaps")] if self.free else []
        copies += [(f"{a}_read", a, f"same_{a}") for a in self.named("=", "~")]
        for read, a, as_it_is in copies:
            self.lines += [f"{read} = {a} if {as_it_is} else copied(T, {self.x}, {a}, plain)"]
            self.lines += [f"if {read} == 0:", *[f"    {line}" for line in self.let_go], "    return -1"]
            self.let_go.append(f"release(0 if {as_it_is} else {read})")

    def make(self) -> None:
        """Makes the arrays of the results."""
        for k, kind in enumerate(self.results):
            text, _, passed = _RESULTS[kind].format(r=f"r{k}", **self.names).partition("|")
            let_go = [f"release(r{j})" for j in range(k)] + self.let_go
            if self.elementwise:
                self.lines += ["there = wanted != 0 and plain and may_be_written(wanted, x_read, number)"]
                for a in self.named("x", "=", "~"):
                    apart = f"lies_apart({a}_read, wanted, width, {self.again})".replace(f"{self.x}_read", "x_read")
                    self.lines += [f"there = there and ({f'is_number({a}) or ' * (a in self.named('~'))}{apart})"]
                text = f"new_ref(wanted) if there else {text}"
            self.lines += [f"r{k} = {text}", f"if r{k} == 0:", *[f"    {line}" for line in let_go], "    return -1"]
            self.given.append(passed.strip())

    def call(self) -> None:
        """Calls the kernel, a large array's with the queue."""
        self.lines.append(f"given = ({', '.join(self.given)},)")
        alone = "fine = freely(kernel, size >= ALONE, given)"
        if "+" in self.flags:
            length = "size // columns" if self.in_rows else "size"
            chunks = f"min(size // GRAIN, CHUNKS, {length}), {length}, {' | '.join(self.whole) or 0}"
            large = f"found = freely_in_rows(kernel, (queue(), count, {chunks}, -2), given)"
            if "dims" in self.arguments:
                large = f"{'fine' if '?' in self.flags else 'found'} = freely(large, True, (*given, queue(), count))"
            self.lines += [f"if size > MOST: {large}", f"else: {alone}"]
        else:
            self.lines.append(alone)
        self.lines += self.let_go

    def give(self) -> None:
        """Returns the results."""
        made = [f"r{k}" for k in range(len(self.results))]
        if "?" in self.flags:
            self.lines += ["if not fine:", *[f"    release({r})" for r in made], "    return 0"]
        if made:
            self.lines.append("return r0" if len(made) == 1 else f"return bundle({', '.join(made)})")
        else:
            self.lines.append("return new_ref(the_none())")


# Of two arrays of which one repeats the other: `large` is the kernel where that is the second one, `other` where it is the first.
REPEATED = """
def entry(objects, count):
    wanted = wanted_here()
    found = near(objects, count)
    if found != 0 or count != 2:
        return found
    x, y = load64(objects), load64(objects + 8)
    if class_of(x) != array_type() or class_of(y) != array_type():
        return 0
    second = repeats(x, y, number, width) if is_plain(x, number) else 0
    first = repeats(y, x, number, width) if second == 0 and is_plain(y, number) else 0
    if first != 0:
        x, y = y, x
    size, columns = size_of(x), abs(first) + abs(second)
    if columns < COLUMNS or size <= MOST or size > FULL:
        return 0
    many, out = helpers(), 0
    if many >= 0:
        there = wanted != 0 and may_be_written(wanted, x, number)
        there = there and lies_apart(x, wanted, width, False) and lies_apart(y, wanted, width, True)
        out = new_ref(wanted) if there else like(x, True)
    if out == 0:
        return -1
    rows, by_columns = size // columns, first + second < 0
    order = (queue(), many, min(size // BLOCK, CHUNKS, rows), rows, -1, 0)
    repeated = elements(T, y, rows if by_columns else columns)
    given = (0, rows, by_columns, elements(T, x, rows, columns), repeated, elements(T, out, rows, columns))
    if first == 0:
        freely_in_rows(large, order, given)
    else:
        freely_in_rows(other, order, given)
    return out
"""


def source(layout: str, name: str = "entry") -> str:
    """The text of an entry, a function `entry(objects, count)`: see `make` in jit_entries.py for the names in it."""
    text = _Text(layout)
    for step in (text.read, text.by_views, text.gather, text.copy, text.make, text.call, text.give):
        step()
    return f"def {name}(objects, count):\n" + "".join(f"    {line}\n" for line in text.lines)
