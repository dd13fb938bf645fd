"""CUDA graphs: work that is recorded once and repeated by one call, with the same memory.

Note [Memory of a CUDA graph]
    A graph reads and writes the addresses that it was recorded with. So what is made while it is recorded comes from a
    pool of its own, which lives as long as the graph and gives nothing to others. Results of the block keep their
    addresses: each replay writes them anew. The shapes, numbers of Python and decisions of the program are those of the recording.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from ferro.autograd.backward import grad
from ferro.autograd.function import Function
from ferro.autograd.grad_mode import no_grad
from ferro.core.base import TensorBase
from ferro.cuda import driver
from ferro.cuda import generator as _generator
from ferro.cuda.devices import needs_gpu, synchronize
from ferro.cuda.memory_use import empty_cache
from ferro.cuda.streams import OfGPU, Stream, StreamContext, current_stream

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_MODES = {"global": "streamCaptureModeGlobal", "thread_local": "streamCaptureModeThreadLocal", "relaxed": "streamCaptureModeRelaxed"}  # fmt: skip


@needs_gpu
def graph_pool_handle() -> Any:
    """A pool of memory that several graphs may share, if they are replayed in the order in which they were recorded."""
    return driver.cupy().cuda.MemoryPool()


def is_current_stream_capturing() -> bool:
    """Whether the work of the current stream is being recorded; False without a GPU."""
    return driver.available() and bool(driver.cupy().cuda.get_current_stream().is_capturing())


class CUDAGraph(OfGPU):
    """Work of a GPU that is recorded to be repeated; RuntimeError without a GPU. See `graph`, which records into one.

    - `keep_graph` (bool, default False): no effect: what was recorded is ready to run when `capture_end` returns
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool: Any = None
        self._graph: Any = None
        self._allocator: Any = None
        self._draws: dict[Any, Any] = {}

    def register_generator_state(self, generator: Any) -> None:
        """Changes nothing: whichever generators the block draws from, each replay draws on."""

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begins to record the current stream, which must not be the default one (RuntimeError), with memory of a pool.

        - `pool` (default None): what `graph_pool_handle` or another graph's `pool` gave; None: a new one
        - `capture_error_mode` (str, default "global"): "thread_local" and "relaxed" let other threads make memory meanwhile
        """
        cuda = driver.cupy().cuda
        stream = cuda.get_current_stream()
        if not stream.ptr:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the "
                "default stream.)"
            )
        if self._graph is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph: call reset() first")
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._pool = graph_pool_handle() if pool is None else pool
        self._allocator = cuda.using_allocator(self._pool.malloc)
        self._allocator.__enter__()
        try:
            stream.begin_capture(getattr(cuda.runtime, _MODES[capture_error_mode]))
        except BaseException:
            self._allocator.__exit__(None, None, None)
            raise
        self._draws = {}
        _generator.record(self._draws)

    def capture_end(self) -> None:
        """Ends the recording."""
        if self._allocator is None:
            raise RuntimeError("capture_end() called before capture_begin()")
        allocator, self._allocator = self._allocator, None
        _generator.record(None)
        try:
            self._graph = driver.cupy().cuda.get_current_stream().end_capture()
        finally:
            allocator.__exit__(None, None, None)

    def replay(self) -> None:
        """Gives the recorded work to the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        for stream, recorded in self._draws.items():
            stream.replayed(recorded)
        self._graph.launch(driver.cupy().cuda.get_current_stream())

    def reset(self) -> None:
        """Drops what was recorded, and its memory."""
        self._graph = self._pool = None

    def pool(self) -> Any:
        """The pool of its memory, for graphs that are to share it."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool


class graph(OfGPU):
    """A block whose work is recorded into a CUDAGraph, in a stream of its own; RuntimeError without a GPU.

    - `cuda_graph` (CUDAGraph): receives it
    - `pool` (default None): see `CUDAGraph.capture_begin`
    - `stream` (Stream, default None): the stream that records; None: one for all recordings
    - `capture_error_mode` (str, default "global"): see `CUDAGraph.capture_begin`

    The block must have run before, in the same shapes, so that what is made once exists.

    Example, on a machine with a GPU::

        recorded = ferro.cuda.CUDAGraph()
        with ferro.cuda.graph(recorded):
            y = model(x)
        x.copy_(batch)
        recorded.replay()  # y has the new result
    """

    _stream: Stream | None = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        if stream is None and graph._stream is None:
            graph._stream = Stream()
        self.cuda_graph, self._given = cuda_graph, (pool, capture_error_mode)
        self._context = StreamContext(stream or graph._stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        empty_cache()
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(*self._given)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self._context.__exit__(*exc)


# -------------------------------------------------------------------- functions by graphs


@needs_gpu
def make_graphed_callables(
    callables: Any,
    sample_args: tuple,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules whose forward and backward are one replay each.

    - `callables` (callable or tuple of them): each takes and gives tensors, of the same shapes in every call; a module is changed
      and returned
    - `sample_args` (tuple of Tensors, or one tuple for each callable): arguments as those of the calls, with their `requires_grad`
    - `num_warmup_iters` (int, default 3): how often each runs before it is recorded
    - `allow_unused_input` (bool, default False): whether an argument or parameter may have no part in the results (else RuntimeError)
    - `pool` (default None): see `CUDAGraph.capture_begin`

    Results and gradients lie in the memory of the graphs: the next call overwrites them.
    """
    is_one = not isinstance(callables, tuple)
    functions = (callables,) if is_one else callables
    samples = (sample_args,) if is_one else sample_args
    pool = graph_pool_handle() if pool is None else pool
    side = Stream()
    side.wait_stream(current_stream())
    with StreamContext(side):
        for function, args in zip(functions, samples, strict=True):
            for _ in range(num_warmup_iters):
                _differentiated(function, args, _parameters(function), None, allow_unused_input)
    current_stream().wait_stream(side)
    made = [_graphed(f, args, allow_unused_input, pool) for f, args in zip(functions, samples, strict=True)]
    return made[0] if is_one else tuple(made)


def _parameters(function: Any) -> tuple:
    return tuple(function.parameters()) if hasattr(function, "parameters") else ()


def _tensors(results: Any) -> tuple:
    found = (results,) if isinstance(results, TensorBase) else tuple(results)
    if not all(isinstance(t, TensorBase) for t in found):
        raise TypeError(f"make_graphed_callables: a function must give tensors, got {type(results).__name__}")
    return found


def _differentiated(function: Any, args: Sequence, parameters: tuple, seeds: Any, allow_unused: bool) -> tuple:
    """The results of a function, and the gradients by the arguments and parameters that require one."""
    results = _tensors(function(*args))
    return results, _gradients(results, args, parameters, seeds, allow_unused)


def _gradients(results: tuple, args: Sequence, parameters: tuple, seeds: Any, allow_unused: bool) -> tuple:
    wanted = [t for t in (*args, *parameters) if t.requires_grad]
    roots = [t for t in results if t.requires_grad]
    seeds = seeds or [t.new_zeros(t.shape) for t in roots]
    if not wanted or not roots:
        return ()
    return grad(roots, wanted, seeds, allow_unused=allow_unused)


class _Recorded:
    """One function by two graphs: one for its results, one for its gradients."""

    def __init__(self, function: Any, args: tuple, allow_unused: bool, pool: Any) -> None:
        self.ahead, self.back = CUDAGraph(), CUDAGraph()
        self.given = tuple([a.detach().clone().requires_grad_(a.requires_grad) for a in args])
        self.inputs = (*self.given, *_parameters(function))
        with graph(self.ahead, pool):
            self.raw = function(*self.given)
        self.results = _tensors(self.raw)
        self.seeds = [t.new_zeros(t.shape) for t in self.results if t.requires_grad]
        self.gradients: tuple = ()
        if self.seeds:
            with graph(self.back, pool):
                self.gradients = _gradients(self.results, self.given, _parameters(function), self.seeds, allow_unused)

    def forward(self, given: Sequence) -> tuple:
        """The results for these arguments."""
        for target, source in zip(self.given, given, strict=False):
            if target._data is not source._data:
                target.detach().copy_(source)
        self.ahead.replay()
        return tuple([t.detach() for t in self.results])

    def backward(self, given: Sequence) -> tuple:
        """The gradients by arguments and parameters for these of the results."""
        arrived = [g for g, t in zip(given, self.results, strict=True) if t.requires_grad]
        with no_grad():
            for target, source in zip(self.seeds, arrived, strict=True):
                target.copy_(source)
        self.back.replay()
        found = iter(self.gradients)
        return tuple([_shown(next(found)) if t.requires_grad else None for t in self.inputs])


def _graphed(function: Any, args: tuple, allow_unused: bool, pool: Any) -> Any:
    """One function by its graphs."""
    recorded, parameters = _Recorded(function, args, allow_unused, pool), _parameters(function)

    class Replayed(Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            found = recorded.forward(given)
            ctx.mark_non_differentiable(
                *[f for f, t in zip(found, recorded.results, strict=True) if not t.requires_grad]
            )
            return found

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            return recorded.backward(given)

    def replayed(*given: Any) -> Any:
        found = Replayed.apply(*given, *parameters)
        return found[0] if isinstance(recorded.raw, TensorBase) else type(recorded.raw)(found)

    if not hasattr(function, "forward"):
        return replayed
    function.forward = _in_mode(function, function.forward, replayed)
    return function


def _in_mode(module: Any, plain: Callable, replayed: Callable) -> Callable:
    """A module's forward: by its graph in the mode (training or not) in which that was recorded."""
    recorded = module.training
    return lambda *args: replayed(*args) if module.training == recorded else plain(*args)


def _shown(gradient: Any) -> Any:
    return None if gradient is None else gradient.detach()
