"""MAML: weights from which a few steps of gradient descent fit any sine wave."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line
from torch.func import functional_call


class Wave:
    """One task: y = amplitude * sin(x + phase), with both drawn at random."""

    def __init__(self):
        self.amplitude = 0.1 + 4.9 * torch.rand(1)
        self.phase = math.pi * torch.rand(1)

    def sample(self, count):
        x = 10 * torch.rand(count, 1) - 5
        return x, self.amplitude * torch.sin(x + self.phase)


def adapt(model, parameters, x, y, lr=0.02, inner_steps=2, create_graph=True):
    """Parameters after a few steps of gradient descent on (x, y), still functions of those given."""
    for _ in range(inner_steps):
        loss = F.mse_loss(functional_call(model, parameters, (x,)), y)
        gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=create_graph)
        parameters = {name: p - lr * g for (name, p), g in zip(parameters.items(), gradients)}
    return parameters


def main(steps=40, seed=0, tasks=4, shots=10):
    """Meta-train (Finn, Abbeel, Levine: Model-Agnostic Meta-Learning, 2017) and return the outer losses."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(tasks):
            wave = Wave()
            x, y = wave.sample(shots)
            adapted = adapt(model, dict(model.named_parameters()), x, y)
            x, y = wave.sample(shots)
            loss = F.mse_loss(functional_call(model, adapted, (x,)), y) / tasks
            loss.backward()  # through the inner steps: second derivatives
            total += loss.item()
        optimizer.step()
        losses.append(total)

    wave = Wave()
    x, y = wave.sample(shots)
    before = F.mse_loss(model(x), y).item()
    adapted = adapt(model, dict(model.named_parameters()), x, y, inner_steps=10, create_graph=False)
    after = F.mse_loss(functional_call(model, adapted, (x,)), y).item()
    print(f"a new wave: loss {before:.3f}, after ten steps of adaptation {after:.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
