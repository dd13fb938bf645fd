"""When the parameters of sharded modules are gathered, freed and reduced: what hooks of modules, outputs and gradients call.

Note [Order].  All ranks must begin their exchanges in one order. Forward has that of the modules, which is noted, so that in the next
one the parameters of the module after this one begin to travel while it computes. Backward goes through it from its end: what a module
needs is gathered no earlier than what stands behind it in forward, and its gradients are reduced no earlier than theirs, so that threads
of backward change nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core.graph_task import current_run, outermost
from ferro.core.mode import is_grad_enabled
from ferro.tensor import Tensor
from ferro.utils._pytree import tree_leaves, tree_map

from ..process_group import ReduceOp
from ..tensor.spec import finish
from .parameters import Shards
from .policies import MixedPrecisionPolicy


class Context:
    """What the sharded modules below one root share."""

    def __init__(self, states: list[State]) -> None:
        self.states = states
        self.order: list[State] = []  # of this forward
        self.before: list[State] = []  # of the last one
        self.behind: list[State] = []  # of this backward: `order` from its end
        self.in_backward = False
        self._begun: State | None = None  # whose gradients travel
        self._reduced = 0  # how many of `behind` have begun to reduce

    def begin_forward(self) -> None:
        """The root is called."""
        self.in_backward = False
        self.before, self.order = self.order or self.before, []
        for state in self.states:
            state.entered = state.is_done = False

    def note(self, state: State) -> None:
        """A module is called; what was called behind it last time begins to travel."""
        if state not in self.order:
            self.order.append(state)
        follow = state.prefetches_forward
        if follow is None:
            place = self.before.index(state) + 1 if state in self.before else len(self.before)
            follow = self.before[place : place + 1]
        for other in follow:
            other.begin()

    def end_forward(self, is_recorded: bool) -> None:
        """The root has been called: what has travelled in vain is freed."""
        for state in self.states:
            if state.shards is not None and (state.shards.is_on_its_way() or not is_recorded):
                state.shards.reshard()

    # -- backward

    def enter(self) -> None:
        """A gradient has come to a module."""
        run = current_run()
        assert run is not None
        if run.record:
            raise NotImplementedError(
                "fully_shard: backward(create_graph=True) would need parameters after they have been freed; take such derivatives "
                "of the module as it was"
            )
        if not self.in_backward:
            self.in_backward = True
            self.behind = list(reversed(self.order))
            self._reduced, self._begun = 0, None
            outer: Any = outermost()
            outer.callbacks.append(self.end_backward)

    def gather(self, state: State) -> None:
        """The parameters of a module are there, those before it in forward on their way."""
        place = self.behind.index(state) if state in self.behind else -1
        for other in self.behind[: place + 1]:
            if not other.is_done:
                other.begin()
        if state.shards is not None:
            state.shards.unshard()
        follow = state.prefetches_backward
        for other in self.behind[place + 1 : place + 2] if follow is None and place >= 0 else follow or ():
            if not other.is_done:
                other.begin()

    def done(self) -> None:
        """Begins to reduce what is complete, in order."""
        while self._reduced < len(self.behind) and self.behind[self._reduced].is_done:
            self._reduce(self.behind[self._reduced])
            self._reduced += 1

    def _reduce(self, state: State) -> None:
        shards = state.shards
        if shards is None or not shards.syncs or not shards.learned or not state.entered:
            return
        with no_grad():
            if self._begun is not None and self._begun.shards is not None:
                self._begun.shards.end_reduce()
            shards.begin_reduce()
        self._begun = state

    def progress(self) -> None:
        """Lets MPI go on."""
        for state in (*self.behind[self._reduced : self._reduced + 2], self._begun):
            if state is not None and state.shards is not None:
                state.shards.progress()

    def end_backward(self) -> None:
        """The end of backward: what is not complete is reduced as it is, and all gradients are there."""
        for state in self.behind[self._reduced :]:
            state.is_done = True
        self.done()
        with no_grad():
            if self._begun is not None and self._begun.shards is not None:
                self._begun.shards.end_reduce()
            self._drop_unused()
        for state in self.states:
            if state.shards is not None and state.shards.reshards_after_backward:
                state.shards.reshard()
            state.entered = state.is_done = False
        self.in_backward, self._begun, self._reduced = False, None, 0

    def _drop_unused(self) -> None:
        """A parameter that no rank used keeps no gradient."""
        some = [
            s.shards for s in self.behind if s.shards is not None and s.entered and s.shards.syncs and s.shards.learned
        ]
        if not some:
            return
        every = [p for shards in some for p in shards.learned]
        used = np.array([p.was_used for p in every], np.uint8)
        finish(some[0].reduces.reduce_numbers(used, ReduceOp.MAX))
        for p, was_used in zip(every, used.tolist(), strict=True):
            p.drop_gradient_unless(bool(was_used))


class State:
    """What `fully_shard` keeps of a module."""

    def __init__(self, module: Any, shards: Shards | None, reshards: bool | None, policy: MixedPrecisionPolicy) -> None:
        self.module, self.shards, self.policy = module, shards, policy
        self.reshards_after_forward = reshards  # None: unless it is the root
        self.context: Context | None = None
        self.is_root = False
        self.entered = False  # whether a gradient has come in this backward
        self.is_done = False  # whether its gradients are complete
        self.prefetches_forward: list[State] | None = None
        self.prefetches_backward: list[State] | None = None
        for p in shards.learned if shards is not None else ():
            p.whole.register_post_accumulate_grad_hook(lambda _, p=p: self._ready(p))

    def begin(self) -> None:
        """The parameters begin to travel."""
        if self.shards is not None:
            self.shards.begin()

    def _in_context(self) -> Context:
        if self.context is None:
            states = [m._fsdp_state for m in self.module.modules() if "_fsdp_state" in m.__dict__]
            self.context = Context(states)
            self.is_root = True
            for state in states:
                state.context = self.context
                state.is_root = state is self
        return self.context

    def before_forward(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Has the parameters whole, and casts the inputs."""
        context = self._in_context()
        if current_run() is None:
            if self.is_root:
                context.begin_forward()
            if self.shards is not None:
                self.shards.unshard()
            context.note(self)
        else:  # (within backward a forward is computed once more)
            context.gather(self)
        if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
            args, kwargs = tree_map(lambda x: _cast(x, self.policy.param_dtype), (args, kwargs))
        return args, kwargs

    def after_forward(self, outputs: Any) -> Any:
        """Frees the parameters, and waits for gradients of what comes out."""
        context = self._in_context()
        is_recorded = is_grad_enabled()
        tensors = [t for t in tree_leaves(outputs) if isinstance(t, Tensor)]
        if current_run() is None and self.shards is not None:
            reshards = not self.is_root if self.reshards_after_forward is None else self.reshards_after_forward
            if reshards and not any(self.shards.holds(t._data) for t in tensors):
                self.shards.reshard()
        if is_recorded:
            for t in tensors:
                if t.requires_grad:
                    t.register_hook(self._enter)
        if current_run() is None and self.is_root:
            context.end_forward(is_recorded)
        if self.policy.output_dtype is not None:
            outputs = tree_map(lambda x: _cast(x, self.policy.output_dtype), outputs)
        return outputs

    def _enter(self, grad: Any = None) -> None:
        """A gradient has come: the parameters are needed."""
        context = self._in_context()
        context.enter()
        if not self.entered:
            self.entered = True
            if self.shards is not None:
                self.shards.missing = {id(p) for p in self.shards.learned}
        if not self.is_done:
            context.gather(self)

    def _ready(self, parameter: Any) -> None:
        """The gradient of a parameter is there."""
        if not self.entered:
            self._enter()
        shards, context = self.shards, self._in_context()
        assert shards is not None
        shards.missing.discard(id(parameter))
        if not shards.missing and len(shards.learned) == len(shards.parameters):
            self.is_done = True
            context.done()
            if shards.reshards_after_backward:
                shards.reshard()
        context.progress()


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
