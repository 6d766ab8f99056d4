"""A network between two hosts that delays every frame by a random time, so that frames overtake each other, and may
lose some: for kernels without netem.

winding_road.py NETWORK DELAY_MS JITTER_MS LOSS_PERCENT: host1 and host2 get an interface far0, at NETWORK.1 and .2.
Prints "ready", runs until it is ended, and prints how many frames came, were lost, and were overtaken by a later one.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
NAME = "far0"


def interface_of(host, address):
    """A descriptor that has what the host sends there."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{host}", os.O_RDONLY)
    if libc.setns(there, CLONE_NEWNET) != 0:
        sys.exit(f"setns: {os.strerror(ctypes.get_errno())}")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", NAME], check=True)
    subprocess.run(["ip", "link", "set", NAME, "up"], check=True)
    libc.setns(own, CLONE_NEWNET)
    os.close(there)
    os.close(own)
    return tap


class Road:
    def __init__(self, ends, delay_s, jitter_s, loss):
        self.ends, self.delay_s, self.jitter_s, self.loss = ends, delay_s, jitter_s, loss
        self.random = random.Random(1)
        self.under_way = []  # (due, number, end, frame)
        self.came = self.lost = self.overtaken = 0
        self.newest = [-1, -1]
        self.going = True

    def run(self):
        while self.going:
            patience = max(0, self.under_way[0][0] - time.monotonic()) if self.under_way else 0.1
            for end in select.select(self.ends, [], [], patience)[0]:
                self.take(end)
            now = time.monotonic()
            while self.under_way and self.under_way[0][0] <= now:
                self.deliver(*heapq.heappop(self.under_way)[1:])

    def take(self, end):
        other = 1 - self.ends.index(end)
        for _ in range(64):
            try:
                frame = os.read(end, 65536)
            except BlockingIOError:
                return
            self.came += 1
            if self.random.random() < self.loss:
                self.lost += 1
                continue
            due = time.monotonic() + self.delay_s + self.random.random() * self.jitter_s
            heapq.heappush(self.under_way, (due, self.came, other, frame))

    def deliver(self, number, other, frame):
        self.overtaken += number < self.newest[other]
        self.newest[other] = max(self.newest[other], number)
        try:
            os.write(self.ends[other], frame)
        except OSError:
            self.lost += 1  # no interface there yet, or no longer


def main():
    network, *numbers = sys.argv[1:]
    delay_ms, jitter_ms, loss_percent = map(float, numbers)
    ends = [interface_of(f"host{i + 1}", f"{network}.{i + 1}") for i in range(2)]
    road = Road(ends, delay_ms / 1e3, jitter_ms / 1e3, loss_percent / 100)

    def end(*_):
        road.going = False

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    road.run()
    print(f"{road.came} frames, {road.lost} lost, {road.overtaken} overtaken")


main()
