"""A word-level LSTM language model: tied weights, dropout, truncated backpropagation through time, clipped gradients."""

import math
import random

import torch
import torch.nn as nn
from curves import command_line


def sentences(count, seed):
    """Words of `count` sentences from a small grammar, each ended by <eos>."""
    choose = random.Random(seed).choice
    words = []
    for _ in range(count):
        noun, verb = choose([("cat", "sleeps"), ("dog", "barks"), ("cats", "sleep"), ("dogs", "bark")])
        words += ["the", *choose([[], ["old"], ["small"], ["very", "small"]]), noun, verb]
        words += [*choose([[], ["near", "the", choose(["house", "river", "tree"])]]), "<eos>"]
    return words


class Corpus:
    def __init__(self, words):
        self.idx2word = sorted(set(words))
        self.word2idx = {word: index for index, word in enumerate(self.idx2word)}
        self.ids = torch.tensor([self.word2idx[word] for word in words])

    def batchify(self, batch_size):
        """The text cut into `batch_size` columns that are read side by side, shape (length, batch_size)."""
        length = self.ids.size(0) // batch_size
        return self.ids.narrow(0, 0, length * batch_size).view(batch_size, -1).t().contiguous()


class RNNModel(nn.Module):
    def __init__(self, ntoken, nhid=32, nlayers=2, dropout=0.1):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, nhid)
        self.rnn = nn.LSTM(nhid, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        return self.decoder(self.drop(output)).view(-1, self.ntoken), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters())
        shape = (self.nlayers, batch_size, self.nhid)
        return weight.new_zeros(shape), weight.new_zeros(shape)


def repackage_hidden(hidden):
    """The same states, cut from their history."""
    return tuple(state.detach() for state in hidden)


def main(steps=80, seed=0, bptt=12, batch_size=16):
    """Train the model and return the loss of every step."""
    torch.manual_seed(seed)
    corpus = Corpus(sentences(1200, seed))
    text = corpus.batchify(batch_size)
    model = RNNModel(len(corpus.idx2word))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(1, steps // 2), gamma=0.5)

    losses, start, hidden = [], 0, model.init_hidden(batch_size)
    for _ in range(steps):
        if start + bptt + 1 > text.size(0):
            start, hidden = 0, model.init_hidden(batch_size)
        data, targets = text[start : start + bptt], text[start + 1 : start + 1 + bptt].reshape(-1)
        start += bptt
        hidden = repackage_hidden(hidden)
        model.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())

    model.eval()
    token, words = torch.tensor([[corpus.word2idx["the"]]]), ["the"]
    with torch.no_grad():
        hidden = model.init_hidden(1)
        for _ in range(12):
            output, hidden = model(token, hidden)
            token = output.div(0.8).softmax(-1).argmax(-1, keepdim=True)
            words.append(corpus.idx2word[token.item()])
    print(f"perplexity {math.exp(losses[-1]):.1f} of {len(corpus.idx2word)} words; it says: {' '.join(words)}")
    return losses


if __name__ == "__main__":
    command_line(main)
