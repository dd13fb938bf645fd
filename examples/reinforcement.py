"""Reinforcement learning: an actor with a critic balances a pole on a cart, in an environment of its own."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from curves import command_line
from torch.distributions import Categorical


class CartPole:
    """A pole on a cart, pushed left or right (Barto, Sutton, Anderson: Neuronlike adaptive elements, 1983).

    The state is position, speed, angle and its speed; a step is worth 1 until the pole or the cart leaves its bounds.
    """

    gravity, cart, pole, half_length, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def reset(self):
        self.state = (torch.rand(4) * 0.1 - 0.05).tolist()
        return self.state

    def step(self, action):
        x, v, angle, spin = self.state
        push = self.force if action == 1 else -self.force
        sin, cos, mass = math.sin(angle), math.cos(angle), self.cart + self.pole
        pull = (push + self.pole * self.half_length * spin**2 * sin) / mass
        turn = (self.gravity * sin - cos * pull) / (self.half_length * (4 / 3 - self.pole * cos**2 / mass))
        slide = pull - self.pole * self.half_length * turn * cos / mass
        self.state = [x + self.tau * v, v + self.tau * slide, angle + self.tau * spin, spin + self.tau * turn]
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state, 1.0, fallen


class Policy(nn.Module):
    """One network with two heads: the actor's probabilities and the critic's value."""

    def __init__(self, width=32):
        super().__init__()
        self.affine = nn.Linear(4, width)
        self.action_head = nn.Linear(width, 2)
        self.value_head = nn.Linear(width, 1)

    def forward(self, state):
        hidden = torch.tanh(self.affine(state))
        return F.softmax(self.action_head(hidden), dim=-1), self.value_head(hidden).squeeze(-1)


def episode(env, policy, longest=60):
    """Play until the pole falls: the logarithms of the chosen probabilities, values, entropies and rewards."""
    state, log_probs, values, entropies, rewards = env.reset(), [], [], [], []
    for _ in range(longest):
        probabilities, value = policy(torch.tensor(state))
        choice = Categorical(probabilities)
        action = choice.sample()
        state, reward, done = env.step(action.item())
        log_probs.append(choice.log_prob(action))
        values.append(value)
        entropies.append(choice.entropy())
        rewards.append(reward)
        if done:
            break
    return log_probs, values, entropies, rewards


def returns_of(rewards, gamma=0.99):
    """What each step still earned, later rewards counting less."""
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.insert(0, total)
    return torch.tensor(returns)


def main(steps=25, seed=0):
    """Play and learn `steps` episodes; return the loss of each."""
    torch.manual_seed(seed)
    env, policy = CartPole(), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    losses, lengths = [], []
    for _ in range(steps):
        log_probs, values, entropies, rewards = episode(env, policy)
        returns, values = returns_of(rewards) / 20, torch.stack(values)
        advantage = returns - values.detach()
        actor = -(torch.stack(log_probs) * advantage).mean()
        critic = F.smooth_l1_loss(values, returns)
        loss = actor + critic - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        lengths.append(len(rewards))
    print(
        f"the pole stood for {lengths[0]} steps at first, {sum(lengths[-5:]) / len(lengths[-5:]):.0f} in the last five"
    )
    return losses


if __name__ == "__main__":
    command_line(main)
