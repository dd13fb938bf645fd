"""Steps of optimisers over whole lists of parameters by kernels that are printed from their formulas (ferro/optim/formulas.py).

One launch for all parameters of a group and dtype. Blocks and table are those of optimisers.py; in the table stand, behind the arrays of a
parameter, the addresses of numbers that lie on the GPU: with `capturable` its count, which one launch before has counted on, and a rate.
Numbers are computed in double, once for each thread. Bytes: every array read, those that change written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.optimisers import EACH, table_of
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.printer import Lines
from ferro.expressions import NAMES, Symbol
from ferro.optim.formulas import FORMULAS

__all__ = ["count_momenta", "count_rates", "count_steps", "formula_steps"]

_READ = {"float32": "float", "float64": "double"}
_KERNEL = 'extern "C" __global__ void __launch_bounds__(256, 2)'  # (powers in double take more than 64 registers)
# By name: the numbers of a kernel that counts, and what becomes of each of those that belong together, of which c0 is the count. (A factor is
# rounded to their dtype before the product is, as a tensor times a number.)
COUNTED = {
    "count_steps": ((), ("+= 1",)),
    "count_momenta": (("beta1", "fading"), ("+= 1", "*= KIND(beta1 * (1 - 0.5 * pow(0.96, c0 * fading)))")),
    "count_rates": (
        ("lr", "lambd", "alpha", "t0"),
        ("+= 1", "= lr / pow(1 + lambd * lr * c0, alpha)", "= 1 / larger(c0 - t0, 1.0)"),
    ),
}


@cache
def counting_text(name: str, kind: str) -> str:
    """The kernel that counts numbers of a dtype on; `counts` has the addresses of those that belong together, n times."""
    numbers, changes = COUNTED[name]
    given = "".join([f"double {each}, " for each in numbers])
    body = [
        f"  *({kind}*)counts[i * {len(changes)} + {k}] {each.replace('KIND', kind)};" for k, each in enumerate(changes)
    ]
    body.insert(1, f"  const double c0 = *({kind}*)counts[i * {len(changes)}];")
    head = f"KERNEL {name}(place n, {given}const place* counts) {{"
    start = ["  const place i = blockIdx.x * (place)blockDim.x + threadIdx.x;", "  if (i >= n) return;"]
    return text_of("\n".join(["", head, *start, *body, "}", ""]), "float32")


@cache
def step_text(name: str, has: frozenset, arrays: tuple, numbers: tuple, read: tuple, dtype: str) -> str:
    """The kernel of a formula for arrays and numbers of these names; `read`: those of the numbers that lie on the GPU, and their dtypes."""
    a, n = ({each: Symbol() for each in names} for names in (arrays, numbers))
    found = FORMULAS[name](NAMES, has, SimpleNamespace(**a), SimpleNamespace(**n))
    lines = Lines([*a.values()], [*n.values()])
    results = {each: lines.name(found[each]) for each in arrays if each in found}
    there, width = dict(read), len(arrays) + len(read) + 1
    given = [f"double p{k}" for k, each in enumerate(numbers) if each not in there]
    body = [f"  const place* row = table + parameters + table[2 * blockIdx.x] * {width};"]
    for k, each in enumerate(arrays):
        body.append(f"  S* a{k} = (S*)row[{k}];" if each in results else f"  const S* a{k} = (const S*)row[{k}];")
    for k, (each, kind) in enumerate(read):
        place = f"*(const {_READ[kind]}*)row[{len(arrays) + k}]"
        body.append(f"  const double p{numbers.index(each)} = {place};")
    body += [f"  {line}" for line in lines.before]
    body.append(f"  const place begin = table[2 * blockIdx.x + 1], n = row[{width - 1}];")
    body.append(f"  const place end = begin + {THREADS * EACH} < n ? begin + {THREADS * EACH} : n;")
    body.append("  for (place i = begin + threadIdx.x; i < end; i += blockDim.x) {")
    body += [f"    const T x{k} = load(a{k}[i]);" for k in range(len(arrays))]
    body += [f"    {line}" for line in lines.inside]
    body += [f"    store(a{arrays.index(each)} + i, T({result}));" for each, result in results.items()]
    head = f"KERNEL {name}_formula({', '.join(['place parameters', *given, 'const place* table'])}) {{"
    return text_of("\n".join(["", head, *body, "  }", "}", ""]), dtype, KERNEL=_KERNEL)


def _example(name: str, has: str, arrays: str, numbers: str, read: tuple = ()) -> tuple:
    return name, frozenset(has.split()), tuple(f"p g {arrays}".split()), tuple(numbers.split()), read


_ADAM, _THERE = "step lr beta1 beta2 eps decay", (("step", "float32"),)
# What optimisers ask for in their usual settings.
EXAMPLES = (
    _example("adam", "", "m v", _ADAM, _THERE),
    _example("adam", "decay decoupled largest", "m v top", _ADAM, (*_THERE, ("lr", "float64"))),
    _example("nadam", "decay", "m v", "step lr now ahead beta1 beta2 correction eps decay"),
    _example(
        "nadam",
        "counted decay",
        "m v",
        "step beta1 beta2 eps decay lr fading product",
        (*_THERE, ("product", "float32")),
    ),
    _example("radam", "decay", "m v", _ADAM),
    _example("radam", "decay", "m v", _ADAM, _THERE),
    _example("adamax", "decay", "m u", _ADAM),
    _example("adagrad", "decay", "v", "step lr fading eps decay"),
    _example("adadelta", "decay", "v d", "step lr rho eps decay"),
    _example("rmsprop", "decay centered momentum", "v m b", "step lr alpha momentum eps decay"),
    _example("rprop", "", "before size", "step smaller larger least most"),
    _example("asgd", "decay", "ax", "step lr lambd eta mu decay"),
    _example("asgd", "decay", "ax", "step lr lambd decay eta mu", (*_THERE, ("eta", "float32"), ("mu", "float32"))),
)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    counting = [counting_text(name, _READ[dtype]) for name in COUNTED] if dtype in _READ else []
    return [*[step_text(*example, dtype) for example in EXAMPLES], *counting]


def formula_steps(
    lists: Sequence[tuple], name: str, has: frozenset, arrays: tuple, numbers: tuple, read: tuple, *values: float
) -> None:
    """A step by a formula for each of the lists: arrays of these names, then numbers that are read; `values` are the other numbers."""
    of: dict[tuple, list] = {}
    for each in lists:
        if each[0].size:
            kinds = tuple(a.dtype.name for a in each[len(arrays) :])
            of.setdefault((each[0].dtype.name, kinds), []).append(each)
    for (dtype, kinds), some in of.items():
        rows = tuple([(*[a.data.ptr for a in each], each[0].size) for each in some])
        blocks, table = table_of(rows)
        text = step_text(name, has, arrays, numbers, tuple(zip(read, kinds, strict=True)), dtype)
        launch(text, f"{name}_formula", (blocks,), (THREADS,), 2 * blocks, *map(float, values), table)


def _counted(name: str, lists: Sequence[tuple], *numbers: float) -> None:
    of: dict[str, list] = {}
    for each in lists:
        of.setdefault(each[0].dtype.name, []).append([a.data.ptr for a in each])
    for dtype, places in of.items():
        _, table = table_of(((*[place for some in places for place in some], 0),))
        blocks = -(-len(places) // THREADS)
        launch(counting_text(name, _READ[dtype]), name, (blocks,), (THREADS,), len(places), *map(float, numbers), table)


def count_steps(lists: Sequence[tuple]) -> None:
    """Counts on: adds 1 to numbers that lie on the GPU."""
    _counted("count_steps", lists)


def count_momenta(lists: Sequence[tuple], beta1: float, fading: float) -> None:
    """Counts on, and multiplies the product of NAdam's momenta by the next: lists of (count, product)."""
    _counted("count_momenta", lists, beta1, fading)


def count_rates(lists: Sequence[tuple], lr: float, lambd: float, alpha: float, t0: float) -> None:
    """Counts on, and makes the rates of ASGD's next step: lists of (count, rate, share of the mean)."""
    _counted("count_rates", lists, lr, lambd, alpha, t0)
