"""A Wasserstein GAN with gradient penalty that learns eight clusters on a ring."""

import math

import torch
import torch.nn as nn
from curves import command_line
from torch import autograd, optim


def ring(count, clusters=8, radius=2.0, spread=0.05):
    """Points around `clusters` centres on a circle, shape (count, 2)."""
    angle = torch.randint(0, clusters, (count,)) * (2 * math.pi / clusters)
    centres = radius * torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    return centres + spread * torch.randn(count, 2)


class Generator(nn.Module):
    def __init__(self, latent=4, width=48):
        super().__init__()
        self.latent = latent
        self.main = nn.Sequential(
            nn.Linear(latent, width), nn.ReLU(True), nn.Linear(width, width), nn.ReLU(True), nn.Linear(width, 2)
        )

    def forward(self, count):
        return self.main(torch.randn(count, self.latent))


class Critic(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
        )

    def forward(self, points):
        return self.main(points).squeeze(1)


def gradient_penalty(critic, real, fake, weight=1.0):
    """Hold the critic's slope near 1 between real and made points (Gulrajani et al., Improved Training of WGANs, 2017)."""
    alpha = torch.rand(len(real), 1)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(between)
    gradients = autograd.grad(
        outputs=scores,
        inputs=between,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return weight * ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def main(steps=40, seed=0, critic_steps=3, batch=128):
    """Train both networks and return the critic's estimate of the distance at every step of the generator."""
    torch.manual_seed(seed)
    generator, critic = Generator(), Critic()
    optimizer_g = optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    optimizer_c = optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))

    losses = []
    for _ in range(steps):
        for _ in range(critic_steps):
            real, fake = ring(batch), generator(batch).detach()
            distance = critic(real).mean() - critic(fake).mean()
            loss_c = gradient_penalty(critic, real, fake) - distance
            optimizer_c.zero_grad()
            loss_c.backward()
            optimizer_c.step()

        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        loss_g = -critic(generator(batch)).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        losses.append(distance.item())

    with torch.no_grad():
        radius = generator(1000).norm(dim=1)
    print(f"radius of 1000 made points: {radius.mean().item():.2f} ± {radius.std().item():.2f} (the ring's is 2)")
    return losses


if __name__ == "__main__":
    command_line(main)
