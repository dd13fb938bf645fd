"""Sequence to sequence: a packed bidirectional GRU reads, a GRU with attention writes the sequence backwards."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD, BOS, EOS, FIRST = 0, 1, 2, 3


def pairs(count, symbols=8, longest=8):
    """Sequences of different lengths and their reversals: sources, lengths, targets that end with EOS."""
    lengths = torch.randint(3, longest + 1, (count,))
    sources = [torch.randint(FIRST, FIRST + symbols, (n,)) for n in lengths.tolist()]
    targets = [torch.cat([source.flip(0), torch.tensor([EOS])]) for source in sources]
    return pad_sequence(sources, padding_value=PAD), lengths, pad_sequence(targets, padding_value=PAD)


class Encoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.gru = nn.GRU(width, width, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)

    def forward(self, sources, lengths):
        packed = pack_padded_sequence(self.embedding(sources), lengths, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs)
        return outputs, torch.tanh(self.bridge(torch.cat([hidden[0], hidden[1]], dim=1)))


class Attention(nn.Module):
    """Additive attention (Bahdanau, Cho, Bengio: Neural Machine Translation by Jointly Learning to Align, 2014)."""

    def __init__(self, width):
        super().__init__()
        self.keys = nn.Linear(2 * width, width, bias=False)
        self.query = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, hidden, memory, mask):
        energy = self.score(torch.tanh(self.keys(memory) + self.query(hidden).unsqueeze(0))).squeeze(-1)
        weights = F.softmax(energy.masked_fill(~mask, float("-inf")), dim=0)
        return torch.einsum("sb,sbd->bd", weights, memory)


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention = Attention(width)
        self.cell = nn.GRUCell(3 * width, width)
        self.out = nn.Linear(3 * width, vocabulary)

    def forward(self, token, hidden, memory, mask):
        context = self.attention(hidden, memory, mask)
        hidden = self.cell(torch.cat([self.embedding(token), context], dim=1), hidden)
        return self.out(torch.cat([hidden, context], dim=1)), hidden


def run(encoder, decoder, sources, lengths, targets, forced):
    """Logits of every written token, shape (time, batch, vocabulary); `forced` feeds the right ones."""
    memory, hidden = encoder(sources, lengths)
    mask = torch.arange(len(memory))[:, None] < lengths[None, :]
    token, logits = torch.full((sources.size(1),), BOS), []
    for step in range(len(targets)):
        step_logits, hidden = decoder(token, hidden, memory, mask)
        logits.append(step_logits)
        token = targets[step] if forced else step_logits.argmax(dim=-1)
    return torch.stack(logits)


def main(steps=30, seed=0, symbols=8, width=24):
    """Train with teacher forcing and return the loss of every step."""
    torch.manual_seed(seed)
    encoder, decoder = Encoder(FIRST + symbols, width), Decoder(FIRST + symbols, width)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)

    losses = []
    for _ in range(steps):
        sources, lengths, targets = pairs(32, symbols)
        logits = run(encoder, decoder, sources, lengths, targets, forced=True)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())

    with torch.no_grad():
        sources, lengths, targets = pairs(64, symbols)
        written = run(encoder, decoder, sources, lengths, targets, forced=False).argmax(-1)
        asked = targets != PAD
        right = (written[asked] == targets[asked]).float().mean().item()
    print(f"share of tokens right when it writes on its own: {right:.2f}")
    return losses


if __name__ == "__main__":
    command_line(main)
