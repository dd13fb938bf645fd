"""A neural ordinary differential equation learns a spiral, with gradients by the adjoint equation."""

from itertools import pairwise

import torch
import torch.nn as nn
from curves import command_line


class ODEFunc(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        for module in self.net.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0, std=0.1)
                nn.init.constant_(module.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


def rk4_step(f, t, dt, y):
    """One classical Runge-Kutta step of a tuple of tensors."""
    k1 = f(t, y)
    k2 = f(t + dt / 2, tuple(a + dt / 2 * k for a, k in zip(y, k1)))
    k3 = f(t + dt / 2, tuple(a + dt / 2 * k for a, k in zip(y, k2)))
    k4 = f(t + dt, tuple(a + dt * k for a, k in zip(y, k3)))
    return tuple(a + dt / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4))


class OdeintAdjoint(torch.autograd.Function):
    """Values at all times; backward solves the adjoint equation (Chen et al., Neural ODEs, 2018) and stores no steps."""

    @staticmethod
    def forward(ctx, func, y0, times, *parameters):
        values = [y0]
        for t, later in pairwise(times):
            values.append(rk4_step(lambda s, y: (func(s, y[0]),), t, later - t, (values[-1],))[0])
        solution = torch.stack(values)
        ctx.func, ctx.parameters = func, parameters
        ctx.save_for_backward(solution, times)
        return solution

    @staticmethod
    def backward(ctx, grad_output):
        solution, times = ctx.saved_tensors

        def augmented(t, state):
            y, adjoint, *_ = state
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                value = ctx.func(t, y)
                vjp = torch.autograd.grad(value, (y, *ctx.parameters), -adjoint, allow_unused=True)
            return (value.detach(), *vjp)

        adjoint = grad_output[-1]
        sums = tuple(torch.zeros_like(p) for p in ctx.parameters)
        for i in range(len(times) - 1, 0, -1):
            state = (solution[i], adjoint, *sums)
            _, adjoint, *sums = rk4_step(augmented, times[i], times[i - 1] - times[i], state)
            adjoint = adjoint + grad_output[i - 1]
        return (None, adjoint, None, *sums)


def main(steps=25, seed=0, points=80, batch=16, window=8):
    """Fit short pieces of the spiral and return the loss of every step."""
    torch.manual_seed(seed)
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    times = torch.linspace(0, 8, points)
    with torch.no_grad():
        values = [torch.tensor([[2.0, 0.0]])]
        for t, later in pairwise(times):
            values.append(rk4_step(lambda s, y: (y[0] ** 3 @ matrix,), t, later - t, (values[-1],))[0])
        truth = torch.stack(values)

    func = ODEFunc()
    optimizer = torch.optim.RMSprop(func.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randperm(points - window)[:batch]
        y0 = truth[starts]
        wanted = torch.stack([truth[starts + i] for i in range(window)])
        optimizer.zero_grad()
        solution = OdeintAdjoint.apply(func, y0, times[:window], *func.parameters())
        loss = torch.mean(torch.abs(solution - wanted))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"mean distance over {window} points: {losses[0]:.3f} at first, {losses[-1]:.3f} at the end")
    return losses


if __name__ == "__main__":
    command_line(main)
