"""An image classifier: a convolutional network on scikit-learn's digits, with a DataLoader, dropout and a schedule."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, random_split


class Digits(Dataset):
    """The 1,797 images of 8 by 8 pixels, scaled to 0..1, with their labels."""

    def __init__(self):
        images, labels = load_digits(return_X_y=True)
        self.images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        self.labels = torch.tensor(labels, dtype=torch.long)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(torch.flatten(x, 1))
        return self.fc2(F.relu(self.fc1(x)))


@torch.no_grad()
def accuracy(model, loader):
    """The share of images whose largest logit is at their label."""
    model.eval()
    right = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


def main(steps=80, seed=0):
    """Train the classifier and return the loss of every step."""
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = random_split(Digits(), [1437, 360])
    train_loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=180)

    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    losses = []
    while len(losses) < steps:
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    print(f"accuracy on 360 images not trained on: {accuracy(model, test_loader):.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
