"""L-BFGS: quasi-Newton steps from the last changes of position and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.autograd.grad_mode import enable_grad, no_grad
from ferro.ops.complex import view_as_real
from ferro.ops.joining import cat
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .line_search import Point, strong_wolfe
from .optimizer import Optimizer, Params
from .options import check_not_negative


class LBFGS(Optimizer):
    """p ← p - t H g, H the limited-memory BFGS estimate of the inverse Hessian, from the last steps.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1): t, and with a line search the first t it tries
    - `max_iter` (int, default 20): how many iterations one `step` makes at most
    - `max_eval` (int, default None): how often it calls the closure at most; None is 5/4 of max_iter
    - `tolerance_grad` (float, default 1e-7): stops where no element of g is larger
    - `tolerance_change` (float, default 1e-9): stops where p or the loss change by less
    - `history_size` (int, default 100): how many steps H remembers
    - `line_search_fn` (str, default None): "strong_wolfe" looks for t; None takes `lr`

    `step(closure)` needs a function that clears the gradients, computes the loss, calls `backward` and returns it.
    There is one group of parameters, taken as one long vector: ValueError for more. Source: Nocedal and Wright,
    Numerical Optimization, 2006, algorithms 3.5, 3.6, 7.4 and 7.5.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w**4).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure)
        tensor(17., grad_fn=<SumBackward0>)
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _counts = ()

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_not_negative("lr", lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]
        if any(hasattr(p, "_spec") for p in self._params):
            raise NotImplementedError(
                "LBFGS: products of whole vectors would be needed of DTensors; step full_tensor()s, or use Adam"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ---------------------------------------------------------------- the parameters as one vector

    def _gradient(self) -> Tensor:
        parts = [zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return cat([_real(part.to_dense() if part.is_sparse else part).reshape(-1) for part in parts])

    def _move(self, t: float, direction: Tensor) -> None:
        start = 0
        for param in map(_real, self._params):
            stop = start + param.numel()
            param.add_(direction[start:stop].view_as(param), alpha=t)
            start = stop

    def _probe(self, closure: Callable[[], Any], start: list[Tensor], t: float, direction: Tensor) -> Point:
        """Loss, gradient and slope at `start + t direction`; the parameters come back to `start`."""
        self._move(t, direction)
        loss = _number(closure())
        grad = self._gradient()
        for param, value in zip(self._params, start, strict=True):
            param.copy_(value)
        return Point(t, loss, grad, grad.dot(direction).item())

    # ---------------------------------------------------------------- the algorithm

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations; returns the loss that the closure gave first."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that evaluates the model again and returns the loss")
        with no_grad():
            return self._iterate(_recording(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {group['line_search_fn']!r}")
        first_loss = closure()
        state["func_evals"] += 1
        here = Point(0.0, _number(first_loss), self._gradient(), 0.0)
        evaluations, n = 1, 0
        flat = here.grad.abs().max().item() <= group["tolerance_grad"]
        while not flat and n < group["max_iter"]:
            n += 1
            state["n_iter"] += 1
            direction = self._direction(state, here.grad, group["history_size"])
            state.update(d=direction, prev_flat_grad=here.grad.clone(), prev_loss=here.loss)
            t = float(group["lr"])
            if state["n_iter"] == 1:  # nothing is known of the curvature yet: a short step
                t /= max(1.0, here.grad.abs().sum().item())
            state["t"] = t
            slope = here.grad.dot(direction).item()
            if slope > -group["tolerance_change"]:
                break
            here, used = self._advance(closure, here._replace(t=0.0, slope=slope), t, direction, n)
            state["t"] = here.t
            state["func_evals"] += used
            evaluations += used
            flat = here.grad.abs().max().item() <= group["tolerance_grad"]
            moved = (direction * here.t).abs().max().item()
            change = abs(here.loss - state["prev_loss"])
            still = moved <= group["tolerance_change"] or change < group["tolerance_change"]
            if evaluations >= group["max_eval"] or still:
                break
        return first_loss

    def _advance(
        self, closure: Callable[[], Any], here: Point, t: float, direction: Tensor, n: int
    ) -> tuple[Point, int]:
        """Move along `direction` by t, or as far as the line search says; the new point and the evaluations it took."""
        group = self.param_groups[0]
        if group["line_search_fn"] is not None:
            start = [param.clone() for param in self._params]

            def probe(t: float) -> Point:
                return self._probe(closure, start, t, direction)

            found, used = strong_wolfe(probe, here, t, direction.abs().max().item())
            self._move(found.t, direction)
            return found, used
        self._move(t, direction)
        if n == group["max_iter"]:  # the loss here is not needed any more
            return here._replace(t=t), 0
        return Point(t, _number(closure()), self._gradient(), 0.0), 1

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """-H g by the two-loop recursion, after taking the last change into the history."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return grad.neg()
        # The keys are PyTorch's: old_dirs are changes of the gradient, old_stps of the position, ro = 1 / (y . s).
        ys, ss, rhos = state["old_dirs"], state["old_stps"], state["ro"]
        y = grad - state["prev_flat_grad"]
        s = state["d"] * state["t"]
        curvature = y.dot(s).item()
        if curvature > 1e-10:
            if len(ys) == history_size:
                for history in (ys, ss, rhos):
                    history.pop(0)
            ys.append(y)
            ss.append(s)
            rhos.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y).item()
        q = grad.neg()
        alphas = []
        for y, s, rho in zip(reversed(ys), reversed(ss), reversed(rhos), strict=True):
            alpha = s.dot(q).item() * rho
            q.add_(y, alpha=-alpha)
            alphas.append(alpha)
        r = q * state["H_diag"]
        for y, s, rho, alpha in zip(ys, ss, rhos, reversed(alphas), strict=True):
            r.add_(s, alpha=alpha - y.dot(r).item() * rho)
        return r


def _real(t: Tensor) -> Tensor:
    """A view of real numbers: a complex one is two."""
    return view_as_real(t) if t.is_complex() else t


def _number(loss: Any) -> float:
    return loss.item() if isinstance(loss, Tensor) else float(loss)


def _recording(closure: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with enable_grad():
            return closure()

    return run
