"""A U-Net that finds discs in noise: down, up, with the fine maps joined in again, cross-entropy and Dice loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels, out_channels):
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1),
            nn.GroupNorm(4, out_channels),
            nn.SiLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
            nn.GroupNorm(4, out_channels),
            nn.SiLU(inplace=True),
        )


class UNet(nn.Module):
    """Ronneberger, Fischer, Brox: U-Net: Convolutional Networks for Biomedical Image Segmentation (2015), two levels."""

    def __init__(self, width=8):
        super().__init__()
        self.enc1 = DoubleConv(1, width)
        self.enc2 = DoubleConv(width, 2 * width)
        self.bottom = DoubleConv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, kernel_size=2, stride=2)
        self.dec2 = DoubleConv(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.dec1 = DoubleConv(3 * width, width)
        self.head = nn.Conv2d(width, 1, kernel_size=1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        fine = self.enc1(x)
        middle = self.enc2(self.pool(fine))
        coarse = self.bottom(self.pool(middle))
        x = self.dec2(torch.cat([self.up2(coarse), middle], dim=1))
        x = self.dec1(torch.cat([self.up1(x), fine], dim=1))
        return self.head(x)


def discs(count, size=16):
    """Images with one disc each in noise, and the mask of the disc, both (count, 1, size, size)."""
    centre = torch.rand(count, 2, 1, 1) * (size - 6) + 3
    radius = torch.rand(count, 1, 1) * 2 + 2
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    distance = ((rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2).sqrt()
    mask = (distance <= radius).float().unsqueeze(1)
    return mask + 0.5 * torch.randn_like(mask), mask


def dice_loss(logits, mask, eps=1.0):
    probability = torch.sigmoid(logits)
    overlap = (probability * mask).sum(dim=(1, 2, 3))
    total = probability.sum(dim=(1, 2, 3)) + mask.sum(dim=(1, 2, 3))
    return (1 - (2 * overlap + eps) / (total + eps)).mean()


def main(steps=30, seed=0):
    """Train the network on fresh images and return the loss of every step."""
    torch.manual_seed(seed)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        images, masks = discs(8)
        logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    model.eval()
    with torch.no_grad():
        images, masks = discs(32)
        found = model(images) > 0
        intersection = torch.logical_and(found, masks.bool()).sum()
        union = torch.logical_or(found, masks.bool()).sum()
    print(f"intersection over union on 32 new images: {(intersection / union).item():.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
