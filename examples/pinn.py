"""A physics-informed network solves the heat equation: its derivatives are the loss; Adam, then L-BFGS."""

import math
from itertools import pairwise

import torch
import torch.nn as nn
from curves import command_line

DIFFUSIVITY = 0.1


class Solution(nn.Module):
    def __init__(self, width=20, depth=3):
        super().__init__()
        sizes = [2, *[width] * depth]
        hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
        self.net = nn.Sequential(*hidden, nn.Linear(width, 1))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def derivative(y, x):
    """dy/dx for every point, itself differentiable."""
    return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]


def exact(x, t):
    """The solution for u(x, 0) = sin(πx), u(0, t) = u(1, t) = 0."""
    return torch.exp(-DIFFUSIVITY * math.pi**2 * t) * torch.sin(math.pi * x)


def losses_of(model, x, t, x_start, t_edge):
    """Squared errors of the equation inside, of the start and of both edges (Raissi et al., PINNs, 2019)."""
    u = model(x, t)
    residual = derivative(u, t) - DIFFUSIVITY * derivative(derivative(u, x), x)
    start = model(x_start, torch.zeros_like(x_start)) - torch.sin(math.pi * x_start)
    left, right = model(torch.zeros_like(t_edge), t_edge), model(torch.ones_like(t_edge), t_edge)
    return residual.pow(2).mean(), start.pow(2).mean(), left.pow(2).mean() + right.pow(2).mean()


def main(steps=60, seed=0):
    """Train with Adam for most steps and with L-BFGS for the last sixth; return the loss of every step."""
    torch.manual_seed(seed)
    model = Solution()
    x = torch.rand(128, 1, requires_grad=True)
    t = torch.rand(128, 1, requires_grad=True)
    x_start, t_edge = torch.rand(32, 1), torch.rand(32, 1)

    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=10)

    losses = []

    def closure():
        adam.zero_grad()
        loss = sum(losses_of(model, x, t, x_start, t_edge))
        loss.backward()
        return loss

    for step in range(steps):
        optimizer = adam if step < steps - steps // 6 else lbfgs
        losses.append(optimizer.step(closure).item())

    with torch.no_grad():
        grid = torch.linspace(0, 1, 21)
        points = torch.cartesian_prod(grid, grid)
        error = (model(points[:, :1], points[:, 1:]) - exact(points[:, :1], points[:, 1:])).abs().max().item()
    print(f"largest error against the exact solution: {error:.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
