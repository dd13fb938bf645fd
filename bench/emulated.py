"""A network between two machines that are none: two network namespaces, and packets that are held back between them.

Each rank runs in a namespace of its own, whose only way out is a TUN device; a thread here carries packets from one to the other,
each when the link would have sent it (bytes over bandwidth, one after the other) and the latency has passed. Linux, as root.
The kernel's own means (tc with netem) do the same where they are; this needs /dev/net/tun alone.
"""

import argparse
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.scale import Link, Step, launched

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
SET_DEVICE, TUN, NO_HEADER = 0x400454CA, 0x0001, 0x1000  # TUNSETIFF and its flags
DEVICE, PACKET = "ferro0", 16000
POINTS = ((1e-3, 125e6), (200e-6, 12.5e6))  # seconds and bytes a second


def machine(number: int) -> tuple[int, int]:
    """A process in a new namespace with a device of this number, and the other end of the device."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "unshare")
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, SET_DEVICE, struct.pack("16sH", DEVICE.encode(), TUN | NO_HEADER))
            for words in (
                f"addr add 192.0.2.{number}/24 dev {DEVICE}",
                f"link set {DEVICE} mtu {PACKET} up",
                "link set lo up",
            ):
                subprocess.run(["ip", *words.split()], check=True)
            socket.send_fds(theirs, [b"there"], [device])
            ours.close()
            theirs.recv(1)  # (until the other side closes)
        finally:
            os._exit(0)
    theirs.close()
    said, devices, _, _ = socket.recv_fds(ours, 16, 1)
    if said != b"there":
        raise OSError("no network namespace or no TUN device: this needs Linux, root and /dev/net/tun")
    HELD.append((ours, pid))
    return pid, devices[0]


HELD: list[tuple[socket.socket, int]] = []


def carry(devices: tuple[int, int], latency: float, bandwidth: float, stop: threading.Event) -> None:
    """Carries packets between two devices until it is stopped."""
    waiting: dict[int, deque[tuple[float, bytes]]] = {device: deque() for device in devices}
    free = dict.fromkeys(devices, 0.0)
    other = {devices[0]: devices[1], devices[1]: devices[0]}
    while not stop.is_set():
        now = time.perf_counter()
        due = min((queue[0][0] for queue in waiting.values() if queue), default=now + 0.05)
        ready, _, _ = select.select(devices, [], [], max(0.0, due - now))
        now = time.perf_counter()
        for device in ready:
            try:
                packet = os.read(device, PACKET + 64)
            except BlockingIOError:
                continue
            free[device] = max(now, free[device]) + len(packet) / bandwidth
            waiting[device].append((free[device] + latency, packet))
        now = time.perf_counter()
        for device, queue in waiting.items():
            while queue and queue[0][0] <= now:
                os.write(other[device], queue.popleft()[1])


@contextmanager
def network(latency: float, bandwidth: float) -> Iterator[list[int]]:
    """Two machines behind a link: the processes whose namespaces they are."""
    made = [machine(1), machine(2)]
    stop = threading.Event()
    devices = made[0][1], made[1][1]
    thread = threading.Thread(target=carry, args=(devices, latency, bandwidth, stop), daemon=True)
    thread.start()
    try:
        yield [pid for pid, _ in made]
    finally:
        stop.set()
        thread.join(10)
        for device in devices:
            os.close(device)
        while HELD:
            end, pid = HELD.pop()
            end.close()
            os.waitpid(pid, 0)


# MPI over TCP even where both ranks see one host name.
OVER_TCP = {
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": DEVICE,
}


def points(steps: dict[str, Step], args: argparse.Namespace, per_byte: float) -> list[dict[str, Any]]:
    """Measures and predicts two ranks over two links, and prints both."""
    found = []
    print("\nover an emulated link      model            measured ms  predicted ms   error")
    for latency, bandwidth in POINTS:
        with network(latency, bandwidth) as pids:
            inside = [["nsenter", f"--net=/proc/{pid}/ns/net"] for pid in pids]
            measured = launched(2, args, inside=inside, **OVER_TCP)
        link = Link(latency, bandwidth, per_byte)
        rows = [r for r in measured["exchanges"] if r["exchange"] == "all_reduce"]
        name = f"{latency * 1e6:.0f} us, {bandwidth / 1e6:.1f} MB/s"
        for row in rows:
            told = sum(link.all_reduce(row["bytes"], 2))
            print(
                f"{name:27}{'all-reduce ' + str(row['bytes']):20}{row['seconds'] * 1e3:8.2f}{told * 1e3:14.2f}{told / row['seconds'] - 1:8.0%}"
            )
        for model, got in measured["steps"].items():
            told = steps[model].on(2, link)
            print(
                f"{name:27}{model:20}{got['step'] * 1e3:8.2f}{told * 1e3:14.2f}{told / got['step'] - 1:8.0%}",
                flush=True,
            )
        found.append({"latency": latency, "bandwidth": bandwidth, **measured})
    return found


if __name__ == "__main__":
    sys.exit("run bench/scale.py --emulate")
