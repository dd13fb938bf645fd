"""Seats: what a thread that runs a branch or a body by a memory plan knows of it; set by the plan, asked by the functions of such nodes."""

from __future__ import annotations

import threading
from typing import Any


class Seats(threading.local):
    """Of each thread: `node` says where the graphs of the node that runs find their places (planning/rooms.py), None without a plan;
    `copied` counts the bytes that loops copy.
    """

    node: Any = None
    copied: int = 0


SEATS = Seats()
