"""compile: its arguments are checked; what stands for a function or module then is made by ferro/graph when it is first called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import singledispatch
from typing import Any

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
RECORDED = ("reduce-overhead", "max-autotune")  # modes in which functions of a device's tensors are recorded
# By device type, what records functions of its tensors and replays them: made of a function, its name and how many recordings there may be.
RECORDERS: dict[str, Callable[[Callable, str, int], Any]] = {}
# What runs a function as it is written, by definition.
EAGER = ("eager", "aot_eager")
BACKENDS = (*EAGER, "cudagraphs", "inductor")
DEFAULT = ["inductor"]
STANCE = ["default"]  # see set_stance
GENERATION = [0]  # `reset` begins another one: captures of the one before are dropped


def known(backend: Any) -> str:
    """The name of a backend, checked."""
    if callable(backend):
        raise NotImplementedError(
            "compile: a backend that is a function is called with a graph of torch.fx, which ferro's are not (ferro.graph.capture); leave it "
            'out, or say backend="eager"'
        )
    if backend not in BACKENDS:
        raise RuntimeError(
            f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends. ferro takes "
            f"{', '.join(BACKENDS)}"
        )
    return backend


class Calls:
    """A function and, once it is called, its captures: see Note [Compiled functions] in graph/compiled.py."""

    make: Callable[..., Any]  # entered by compiler.py, which may know of graphs

    def __init__(self, fn: Callable, given: dict[str, Any]) -> None:
        self.fn, self.given = fn, given
        self.graphs: list[Any] = []  # of the captures so far
        self.made: Any = None

    def captures(self) -> Any:
        """What captures the function; made at first use, as it takes all of ferro.graph."""
        if self.made is None:
            name = self.given["name"] or getattr(self.fn, "__qualname__", type(self.fn).__name__)
            recorded = self.given["backend"] == "cudagraphs" or self.given["mode"] in RECORDED
            limit = self.given["recompile_limit"]
            self.made = Calls.make(self.fn, name, self.given["fullgraph"], limit, self.graphs, recorded)
        return self.made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.made or self.captures())(args, kwargs)


@singledispatch
def compiled(model: Any, calls: Calls | None) -> Any:
    """What stands for a function that is compiled: a function of its name, or itself (`calls` None); compiler.py says so of modules."""
    if calls is None:
        return model

    @functools.wraps(model, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        return (calls.made or calls.captures())(args, kwargs)

    run.__dict__.update(getattr(model, "__dict__", {}))
    run.explain = lambda: calls.captures().explain()  # type: ignore[attr-defined]
    run.graphs = calls.graphs  # type: ignore[attr-defined]
    run._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    run.calls = calls  # type: ignore[attr-defined]
    return run


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A function, or module, that is captured as a graph when it is called for the second time, and replayed from then on.

    Results, gradients, random numbers and all that it writes are eager's to the last bit: see docs/graphs.md. Where a graph cannot hold what
    the function does, it runs as it is written, and a warning says so once, with the line. `explain()` of the result tells
    what became of the calls.

    - `model` (callable or Module, default None): None makes a decorator
    - `fullgraph` (bool, default False): the first call is captured already, and CaptureError names the line where that cannot be
    - `dynamic` (bool, default None): no effect: a graph is for the shapes of its capture
    - `backend` (str, default None): "inductor" (None too) or "cudagraphs"; "aot_eager" and "eager" run the model as it is written
    - `mode` (str, default None): one of PyTorch's modes; "reduce-overhead" and "max-autotune" (or the backend "cudagraphs") record functions of
      tensors on a GPU as CUDA graphs, which others run as they are written (see docs/cuda.md); without effect on the CPU
    - `options` (dict, default None): for a compiler, without effect
    - `name` (str, default None): how warnings call it
    - `disable` (bool, default False): gives the model itself
    - `recompile_limit` (int, default None): how many captures there may be, 8 unless it is said
    - `isolate_recompiles` (bool, default False): no effect
    - `shapes_spec` (Any, default None): no effect

    RuntimeError for an unknown backend or mode, or for mode and options at once; NotImplementedError for a backend that
    is a function, which would be given a graph.

    Example::

        >>> import ferro
        >>> @ferro.compile
        ... def swish(x):
        ...     return x * x.sigmoid()
        >>> for _ in range(3):
        ...     y = swish(ferro.zeros(1))
        >>> y, swish.explain().replays
        (tensor([0.]), 1)
        >>> list(ferro.compile(ferro.nn.Linear(2, 1), backend="eager").state_dict())
        ['_orig_mod.weight', '_orig_mod.bias']
    """
    given = dict(locals())
    del given["model"]
    if model is None:

        def decorate(model: Callable) -> Any:
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(model, **given)

        return decorate
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    chosen = known(DEFAULT[0] if backend is None else backend)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    if chosen in EAGER:
        return compiled(model, None)
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"compile: recompile_limit is {recompile_limit!r}; expected a number of captures, 1 or more")
    return compiled(model, Calls(model, given))
