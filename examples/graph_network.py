"""A graph network: convolution and attention over the edges of a small graph find the communities of its nodes."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line


def communities(nodes=90, groups=3, inside=0.15, between=0.01):
    """A random graph with more edges inside of groups: edge index (2, edges), labels, noisy features."""
    labels = torch.arange(nodes) % groups
    same = labels[:, None] == labels[None, :]
    chance = torch.where(same, inside, between)
    linked = torch.triu(torch.rand(nodes, nodes) < chance, diagonal=1)
    linked = linked | linked.T | torch.eye(nodes, dtype=torch.bool)
    features = F.one_hot(labels, groups).float() + 1.5 * torch.randn(nodes, groups)
    return linked.nonzero().t(), labels, features


class GraphConv(nn.Module):
    """The mean over neighbours, weighted by degrees (Kipf, Welling: Semi-Supervised Classification with GCNs, 2016)."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, edges):
        source, target = edges
        degree = torch.zeros(len(x)).index_add_(0, target, torch.ones(len(target)))
        norm = degree.rsqrt()[source] * degree.rsqrt()[target]
        messages = (x @ self.weight)[source] * norm.unsqueeze(-1)
        out = torch.zeros(len(x), messages.size(1))
        return out.scatter_add(0, target.unsqueeze(-1).expand_as(messages), messages) + self.bias


class GraphAttention(nn.Module):
    """Neighbours weighted by what they say (Veličković et al., Graph Attention Networks, 2017), several heads."""

    def __init__(self, in_features, out_features, heads):
        super().__init__()
        self.heads, self.out_features = heads, out_features
        self.linear = nn.Linear(in_features, heads * out_features, bias=False)
        self.from_source = nn.Parameter(torch.empty(1, heads, out_features))
        self.to_target = nn.Parameter(torch.empty(1, heads, out_features))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, x, edges):
        source, target = edges
        h = self.linear(x).view(-1, self.heads, self.out_features)
        score = (h * self.from_source).sum(-1)[source] + (h * self.to_target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2).exp()
        total = torch.zeros(len(x), self.heads).index_add(0, target, score)
        weights = score / total[target]
        out = torch.zeros_like(h).index_add(0, target, h[source] * weights.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self, features, classes, width=16):
        super().__init__()
        self.conv = GraphConv(features, width)
        self.attention = GraphAttention(width, 4, heads=2)
        self.out = GraphConv(8, classes)

    def forward(self, x, edges):
        x = F.dropout(F.relu(self.conv(x, edges)), p=0.2, training=self.training)
        return F.log_softmax(self.out(F.elu(self.attention(x, edges)), edges), dim=1)


def main(steps=60, seed=0):
    """Train on a few labelled nodes and return the loss of every step."""
    torch.manual_seed(seed)
    edges, labels, features = communities()
    known = torch.zeros(len(labels), dtype=torch.bool)
    known[torch.randperm(len(labels))[:15]] = True
    model = Net(features.size(1), 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)

    losses = []
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        loss = F.nll_loss(model(features, edges)[known], labels[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    model.eval()
    with torch.no_grad():
        guessed = model(features, edges).max(dim=1).indices
    right = guessed[~known].eq(labels[~known]).double().mean().item()
    print(f"{edges.size(1)} edges; accuracy on the 75 nodes without a label: {right:.3f}")
    return losses


if __name__ == "__main__":
    command_line(main)
