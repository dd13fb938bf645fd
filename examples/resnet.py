"""A residual network on scikit-learn's digits: shortcuts, batch norm, random shifts, SGD with one cycle."""

import torch
from curves import command_line
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F


class BasicBlock(nn.Module):
    """Two convolutions beside a shortcut (He et al., Deep Residual Learning for Image Recognition, 2015)."""

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Identity()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    def __init__(self, widths=(8, 16, 32), blocks=1, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]))
        layers, planes = [], widths[0]
        for depth, width in enumerate(widths):
            for block in range(blocks):
                layers.append(BasicBlock(planes, width, stride=2 if depth and not block else 1))
                planes = width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(planes, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layers(F.relu(self.stem(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def shifted(images):
    """Each batch moved by up to one pixel in both directions, zeros coming in at the edge."""
    padded = F.pad(images, (1, 1, 1, 1))
    down, right = torch.randint(0, 3, (2,)).tolist()
    return padded[:, :, down : down + 8, right : right + 8]


def main(steps=60, seed=0):
    """Train the network and return the loss of every step."""
    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16.0
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(labels))
    train, test = order[:1500], order[1500:]

    model = ResNet()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.06, total_steps=steps + 1)

    losses = []
    for _ in range(steps):
        batch = train[torch.randint(len(train), (32,))]
        loss = F.cross_entropy(model(shifted(images[batch])), labels[batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())

    model.eval()
    with torch.inference_mode():
        correct = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, accuracy on 297 other images {correct:.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
