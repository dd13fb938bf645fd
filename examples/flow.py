"""A normalising flow: affine couplings carry two moons to a normal distribution, and back."""

import math

import torch
import torch.nn as nn
from curves import command_line


def two_moons(count, noise=0.08):
    """Points on two half circles that reach into each other, shape (count, 2)."""
    angle = math.pi * torch.rand(count)
    upper = torch.rand(count) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x - 0.5, y - 0.25], dim=1) + noise * torch.randn(count, 2)


class AffineCoupling(nn.Module):
    """One half is scaled and moved by what the other says (Dinh et al., Density estimation using Real NVP, 2016)."""

    def __init__(self, mask, width=32):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(), nn.Linear(width, width), nn.LeakyReLU())
        self.scale = nn.Linear(width, 2)
        self.shift = nn.Linear(width, 2)
        for head in (self.scale, self.shift):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def parts(self, kept):
        hidden = self.net(kept)
        return torch.tanh(self.scale(hidden)) * (1 - self.mask), self.shift(hidden) * (1 - self.mask)

    def forward(self, x):
        scale, shift = self.parts(x * self.mask)
        return x * torch.exp(scale) + shift, scale.sum(dim=1)

    def inverse(self, z):
        scale, shift = self.parts(z * self.mask)
        return (z - shift) * torch.exp(-scale)


class RealNVP(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        masks = torch.eye(2).repeat(depth // 2, 1)
        self.layers = nn.ModuleList([AffineCoupling(mask) for mask in masks])

    def forward(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, piece = layer(x)
            log_det = log_det + piece
        return x, log_det

    def log_prob(self, x):
        z, log_det = self(x)
        return -0.5 * (z**2 + math.log(2 * math.pi)).sum(dim=1) + log_det

    @torch.no_grad()
    def sample(self, count):
        z = torch.randn(count, 2)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def main(steps=60, seed=0, batch=128):
    """Maximise the likelihood of fresh points and return the loss of every step."""
    torch.manual_seed(seed)
    flow = RealNVP()
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        loss = -flow.log_prob(two_moons(batch)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    points = two_moons(100)
    there, _ = flow(points)
    back = there
    for layer in reversed(flow.layers):
        back = layer.inverse(back)
    print(f"there and back: off by {(back - points).abs().max().item():.1e}")
    nearest = torch.cdist(flow.sample(200), two_moons(400)).min(dim=1).values
    print(f"mean distance of a sample to the next real point: {nearest.mean().item():.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
