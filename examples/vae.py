"""A variational autoencoder on scikit-learn's digits (Kingma, Welling: Auto-Encoding Variational Bayes, 2013)."""

import torch
import torch.utils.data
from curves import command_line
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, latent)
        self.fc22 = nn.Linear(48, latent)
        self.fc3 = nn.Linear(latent, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(reconstructed, x, mu, logvar):
    """The evidence lower bound, negated: cross-entropy of the pixels, and the divergence from the standard normal."""
    bce = F.binary_cross_entropy(reconstructed, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + kld) / len(x)


def main(steps=120, seed=0):
    """Train the autoencoder and return the loss of every step."""
    torch.manual_seed(seed)
    pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    dataset = torch.utils.data.TensorDataset(pixels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=128, shuffle=True, drop_last=True)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    losses = []
    while len(losses) < steps:
        for (batch,) in loader:
            reconstructed, mu, logvar = model(batch)
            loss = loss_function(reconstructed, batch, mu, logvar)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break

    with torch.no_grad():
        sample = model.decode(torch.randn(1, 4)).view(8, 8)
    print("a sample from the prior:")
    for row in sample:
        print("".join(" .:-=+*#%@"[int(9 * pixel)] * 2 for pixel in row))
    return losses


if __name__ == "__main__":
    command_line(main)
