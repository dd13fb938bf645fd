"""A layered layout for directed acyclic graphs: nothing but numbers in, nothing but positions out."""

from __future__ import annotations

WIDTH, HEIGHT, GAP_X, GAP_Y = 150.0, 46.0, 22.0, 40.0


def levels(edges: dict[int, list[int]], order: list[int]) -> dict[int, int]:
    """The layer of every vertex: 0 for `order[0]`, one more than the deepest vertex that points at it for the others.

    `order` holds every vertex before those it points at.
    """
    level = dict.fromkeys(order, 0)
    for v in order:
        for t in edges[v]:
            level[t] = max(level[t], level[v] + 1)
    return level


def ordered(edges: dict[int, list[int]], level: dict[int, int], sweeps: int = 4) -> list[list[int]]:
    """The vertices of every layer from left to right, each near its neighbours in the layers around (barycentres)."""
    layers: list[list[int]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for v, k in level.items():
        layers[k].append(v)
    near: dict[int, list[int]] = {v: list(ts) for v, ts in edges.items()}
    for v, ts in edges.items():
        for t in ts:
            near[t].append(v)
    position = {v: i - len(layer) / 2 for layer in layers for i, v in enumerate(layer)}
    for sweep in range(sweeps):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            if len(layer) > 1:
                layer.sort(key=lambda v: sum(position[t] for t in near[v]) / len(near[v]) if near[v] else position[v])
            for i, v in enumerate(layer):
                position[v] = i - len(layer) / 2
    return layers


def positions(edges: dict[int, list[int]], order: list[int]) -> tuple[dict[int, tuple[float, float]], float, float]:
    """The centre of every vertex's box, and the width and height of the picture; `order[0]` stands at the bottom."""
    level = levels(edges, order)
    layers = ordered(edges, level)
    widest = max((len(layer) for layer in layers), default=1)
    width = widest * (WIDTH + GAP_X) + GAP_X
    height = len(layers) * (HEIGHT + GAP_Y) + GAP_Y
    found: dict[int, tuple[float, float]] = {}
    for k, layer in enumerate(layers):
        y = height - GAP_Y - HEIGHT / 2 - k * (HEIGHT + GAP_Y)
        left = (width - len(layer) * (WIDTH + GAP_X) + GAP_X) / 2
        for i, v in enumerate(layer):
            found[v] = (left + i * (WIDTH + GAP_X) + WIDTH / 2, y)
    return found, width, height
