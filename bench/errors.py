"""Wrong calls and what each engine says to them: `python bench/errors.py` (--markdown for a table)."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import harness

WRONG: dict[str, Callable[[Any], Any]] = {}


def wrong(label: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Enter a function of the library into the table; it is expected to raise."""

    def enter(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        WRONG[label] = function
        return function

    return enter


# Shapes.
wrong("ones(2, 3) + ones(4)")(lambda lib: lib.ones(2, 3) + lib.ones(4))
wrong("ones(2, 3) @ ones(2, 3)")(lambda lib: lib.ones(2, 3) @ lib.ones(2, 3))
wrong("bmm(ones(2, 3, 4), ones(3, 4, 5))")(lambda lib: lib.bmm(lib.ones(2, 3, 4), lib.ones(3, 4, 5)))
wrong("ones(6).reshape(4, -1)")(lambda lib: lib.ones(6).reshape(4, -1))
wrong("ones(2, 3).t().view(6)")(lambda lib: lib.ones(2, 3).t().view(6))
wrong("ones(3).expand(4)")(lambda lib: lib.ones(3).expand(4))
wrong("cat((ones(2, 3), ones(3, 2)))")(lambda lib: lib.cat((lib.ones(2, 3), lib.ones(3, 2))))
wrong("stack((ones(2), ones(3)))")(lambda lib: lib.stack((lib.ones(2), lib.ones(3))))
wrong("tensor([[1, 2], [3]])")(lambda lib: lib.tensor([[1, 2], [3]]))
wrong("conv2d: 3 channels, weight for 4")(
    lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 8, 8), lib.ones(2, 4, 3, 3))
)
wrong("nn.Linear(4, 2)(ones(3, 5))")(lambda lib: lib.nn.Linear(4, 2)(lib.ones(3, 5)))

# Dimensions and indices.
wrong("ones(2, 3).sum(dim=2)")(lambda lib: lib.ones(2, 3).sum(dim=2))
wrong("ones(2, 3).sum(dim=(0, 0))")(lambda lib: lib.ones(2, 3).sum(dim=(0, 0)))
wrong("ones(2, 3).permute(0, 0)")(lambda lib: lib.ones(2, 3).permute(0, 0))
wrong("ones(3)[5]")(lambda lib: lib.ones(3)[5])
wrong("ones(3)[0, 0]")(lambda lib: lib.ones(3)[0, 0])
wrong("ones(3)[tensor([0, 7])]")(lambda lib: lib.ones(3)[lib.tensor([0, 7])])
wrong("ones(0).max()")(lambda lib: lib.ones(0).max())

# Types and devices.
wrong("ones(2).add('one')")(lambda lib: lib.ones(2).add("one"))
wrong("arange(3, requires_grad=True)")(lambda lib: lib.arange(3, requires_grad=True))
wrong("arange(3).mean()")(lambda lib: lib.arange(3).mean())
wrong("float32 @ float64")(lambda lib: lib.ones(2, 2) @ lib.ones(2, 2, dtype=lib.float64))
wrong("zeros(2).to('cuda:99')")(lambda lib: lib.zeros(2).to("cuda:99"))
wrong("cross_entropy: class 5 of 3")(lambda lib: lib.nn.functional.cross_entropy(lib.ones(2, 3), lib.tensor([0, 5])))

# Reading values.
wrong("ones(3).item()")(lambda lib: lib.ones(3).item())
wrong("bool(ones(2))")(lambda lib: bool(lib.ones(2)))
wrong("numpy() of a tensor that requires grad")(lambda lib: lib.ones(2, requires_grad=True).numpy())


# The tape.
@wrong("backward() of a vector")
def _not_scalar(lib: Any) -> None:
    (lib.ones(3, requires_grad=True) * 2).backward()


@wrong("backward() of what nothing recorded")
def _no_grad_root(lib: Any) -> None:
    lib.ones(3).sum().backward()


@wrong("backward(gradient of another shape)")
def _wrong_gradient(lib: Any) -> None:
    (lib.ones(3, requires_grad=True) * 2).backward(lib.ones(4))


@wrong("backward() twice")
def _freed_graph(lib: Any) -> None:
    loss = lib.ones(3, requires_grad=True).exp().sum()
    loss.backward()
    loss.backward()


@wrong("backward() after an in-place change of a saved value")
def _changed_in_place(lib: Any) -> None:
    y = lib.ones(3, requires_grad=True).exp()
    z = y * y
    y.add_(1)
    z.sum().backward()


@wrong("in-place change of a leaf that requires grad")
def _leaf_in_place(lib: Any) -> None:
    lib.ones(3, requires_grad=True).add_(1)


@wrong("in-place result of a larger shape")
def _in_place_shape(lib: Any) -> None:
    lib.ones(3).add_(lib.ones(2, 3))


@wrong("requires_grad_(False) of a result")
def _result_not_requiring(lib: Any) -> None:
    (lib.ones(3, requires_grad=True) * 2).requires_grad_(False)


@wrong("autograd.grad of an input that was not used")
def _unused(lib: Any) -> None:
    x, y = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
    lib.autograd.grad(x.sum(), (x, y))


@wrong("load_state_dict with another shape")
def _state(lib: Any) -> None:
    lib.nn.Linear(2, 3).load_state_dict(lib.nn.Linear(3, 2).state_dict())


@wrong("SGD(lr=-1)")
def _rate(lib: Any) -> None:
    lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=-1)


def answer(lib: ModuleType, call: Callable[[Any], Any]) -> tuple[str, str]:
    """The name of the exception that a call raises, and its message; ("", "") when it raises nothing."""
    try:
        call(lib)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the table shows
        return type(error).__name__, str(error)
    return "", ""


def main(argv: list[str] | None = None) -> int:
    parser = harness.parser(__doc__)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    args = parser.parse_args(argv)
    libraries = harness.begin(args)
    rows = []
    if args.markdown:
        print("| call | ferro | torch |\n|---|---|---|")
    for label, call in WRONG.items():
        answers = {engine: answer(lib, call) for engine, lib in libraries.items()}
        rows.append({"call": label, **{engine: list(said) for engine, said in answers.items()}})
        show(label, answers, args.markdown)
    silent = [row["call"] for row in rows if not row["ferro"][0]]
    other = [row["call"] for row in rows if "torch" in row and row["ferro"][0] != row["torch"][0]]
    print(f"\n{len(rows)} wrong calls; {len(silent)} accepted silently: {silent}; other exception than torch: {other}")
    harness.save(args, libraries, {"errors": rows})
    return 1 if silent else 0


def show(label: str, answers: dict[str, tuple[str, str]], markdown: bool) -> None:
    """Print one wrong call and what each engine said."""
    if markdown:
        cells = [f"{kind or 'accepted'}: {' '.join(text.split())}" for kind, text in answers.values()]
        print("|", " | ".join(cell.replace("|", "\\|") for cell in [f"`{label}`", *cells]), "|")
        return
    print(f"\n{label}")
    for engine, (kind, text) in answers.items():
        said = f"{kind}: {' '.join(text.split())}" if kind else "accepted without a word"
        print(textwrap.fill(said, 116, initial_indent=f"  {engine}  ", subsequent_indent=" " * 9, max_lines=4))


if __name__ == "__main__":
    sys.exit(main())
