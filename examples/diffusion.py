"""Diffusion on points of the plane: a network learns to take the noise out of a spiral, step by step."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line


def spiral(count):
    """Points on a spiral of one and a half turns, shape (count, 2)."""
    angle = 3 * math.pi * torch.rand(count).sqrt()
    points = torch.stack([angle * angle.cos(), angle * angle.sin()], dim=1) / 5
    return points + 0.03 * torch.randn(count, 2)


class SinusoidalEmbedding(nn.Module):
    def __init__(self, size, longest=1000):
        super().__init__()
        frequencies = torch.exp(-math.log(longest) * torch.arange(size // 2) / (size // 2))
        self.register_buffer("frequencies", frequencies)

    def forward(self, t):
        angles = t[:, None].float() * self.frequencies[None]
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.time = nn.Sequential(SinusoidalEmbedding(32), nn.Linear(32, width), nn.SiLU())
        self.enter = nn.Linear(2, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Linear(width, width)) for _ in range(3))
        self.leave = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.enter(x) + self.time(t)
        for layer in self.layers:
            h = h + layer(h)
        return self.leave(h)


class Diffusion:
    """The schedule of noise (Ho, Jain, Abbeel: Denoising Diffusion Probabilistic Models, 2020)."""

    def __init__(self, steps=50):
        self.steps = steps
        self.betas = torch.linspace(1e-3, 0.1, steps)
        self.alphas = 1.0 - self.betas
        self.alphas_cumprod = torch.cumprod(self.alphas, dim=0)

    def add_noise(self, x, noise, t):
        kept = self.alphas_cumprod[t].unsqueeze(-1)
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    @torch.no_grad()
    def sample(self, model, count):
        x = torch.randn(count, 2)
        for t in reversed(range(self.steps)):
            predicted = model(x, torch.full((count,), t))
            x = (x - self.betas[t] / (1 - self.alphas_cumprod[t]).sqrt() * predicted) / self.alphas[t].sqrt()
            if t > 0:
                x = x + self.betas[t].sqrt() * torch.randn_like(x)
        return x


@torch.no_grad()
def update_average(average, model, decay=0.98):
    """Move the averaged weights a little towards the model's."""
    for mean, parameter in zip(average.parameters(), model.parameters()):
        mean.lerp_(parameter, 1 - decay)


def main(steps=100, seed=0, batch=128):
    """Train the denoiser and return the loss of every step."""
    torch.manual_seed(seed)
    model, diffusion = Denoiser(), Diffusion()
    average = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    losses = []
    for _ in range(steps):
        points = spiral(batch)
        noise = torch.randn_like(points)
        t = torch.randint(0, diffusion.steps, (batch,)).long()
        loss = F.mse_loss(model(diffusion.add_noise(points, noise, t), t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update_average(average, model)
        losses.append(loss.item())

    made, real = diffusion.sample(average, 200), spiral(200)
    print(
        f"mean distance of a made point to the next real one: {torch.cdist(made, real).amin(dim=1).mean().item():.3f}"
    )
    return losses


if __name__ == "__main__":
    command_line(main)
