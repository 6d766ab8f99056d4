"""Unauthenticated clients connect to the ranks of a training job, 200 times per second: the job learns the same.

They send garbage and HTTP, leave handshakes half done, answer a challenge with its own words, with old ones, or byte by
byte, and scan the ports, over TCP and the ranks' Unix sockets.

Usage: unauthenticated_clients.py PROGRAM TEXT MPIRUN [FLAG ...]

Runs for 3 s, or 10 000 connections if WEFT_TEST_FULL is 1. The losses must be the same to the last bit. The test
prints how much slower a step is; a step may take three times as long here, since the machine does other work too.
"""

import json
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time

from handshake import HANDSHAKE, handshake, tcp_acceptors, unix_acceptors
from jobs import Failures, expect, is_full, job, start
from traces import sockets_of

CALLS = 10_000 if is_full() else 600
RATE = 200  # per second
RANKS = 2
SLOWER = 3.0
QUIET_S = 10  # between two lines of a rank about unauthenticated_clients


def ranks_of(launcher, program):
    """The processes below the launcher that run the program."""
    below, found = [launcher], []
    for path in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda p: int(p.name)):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent in below:
                below.append(int(path.name))
                if os.readlink(path / "exe") == program:
                    found.append(int(path.name))
        except OSError:
            continue
    return found


def acceptors_of(pid):
    """Where a process listens: ("tcp", address, port) and ("unix", name)."""
    inodes, acceptors = sockets_of(pid), []
    for inode, (address, port) in tcp_acceptors().items():
        if inode in inodes:
            packed = struct.pack("<I", int(address, 16))
            acceptors.append(("tcp", socket.inet_ntoa(packed), int(port, 16)))
    return acceptors + [("unix", name) for inode, name in unix_acceptors().items() if inode in inodes]


class UnauthenticatedClients:
    """A thread that calls acceptors until it has called so often, or is stopped."""

    def __init__(self, acceptors):
        self.acceptors = acceptors
        self.calls = 0
        self.unanswered = 0
        self.processor_s = 0.0  # that the calls took here
        self.jobs = {}  # by acceptor: the job's number, as the acceptor tells unauthenticated_clients
        self.proofs = {}  # by acceptor: old words
        self.held = []  # (until, socket, bytes to trickle)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.random = random.Random(1)

    def run(self):
        kinds = (self.garbage, self.http, self.half, self.reflect, self.replay, self.slow, self.scan)
        start = time.monotonic()
        while self.calls < CALLS and not self.stopping.is_set():
            acceptor = self.acceptors[self.calls % len(self.acceptors)]
            try:
                kinds[self.calls % len(kinds)](acceptor)
            except OSError:
                self.unanswered += 1
            self.calls += 1
            self.trickle()
            time.sleep(max(0, start + self.calls / RATE - time.monotonic()))
        for _, connection, _ in self.held:
            connection.close()
        self.processor_s = time.thread_time()

    def call(self, acceptor):
        if acceptor[0] == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(1)
            connection.connect(acceptor[1])
        else:
            connection = socket.create_connection(acceptor[1:], 1)
        return connection

    def handshake(self, acceptor):
        return handshake(self.random, RANKS, self.jobs.get(acceptor, bytes(8)))

    def trickle(self):
        kept = []
        for until, connection, rest in self.held:
            try:
                if rest:
                    connection.send(rest[:1])
                    rest = rest[1:]
                if time.monotonic() < until:
                    kept.append((until, connection, rest))
                    continue
            except OSError:
                pass
            connection.close()
        self.held = kept

    def garbage(self, acceptor):
        with self.call(acceptor) as connection:
            connection.send(self.random.randbytes(self.random.randrange(1, 1500)))

    def http(self, acceptor):
        with self.call(acceptor) as connection:
            connection.send(b"GET / HTTP/1.1\r\nHost: rank\r\n\r\n")

    def half(self, acceptor):
        connection = self.call(acceptor)
        connection.send(self.handshake(acceptor))
        self.held.append((time.monotonic() + 2, connection, b""))

    def answered(self, acceptor):
        connection = self.call(acceptor)
        connection.send(self.handshake(acceptor))
        connection.settimeout(0.2)
        answer = connection.recv(96)
        if len(answer) == 96:
            self.jobs[acceptor] = HANDSHAKE.unpack(answer[:64])[7]
        return connection, answer

    def reflect(self, acceptor):
        connection, answer = self.answered(acceptor)
        with connection:
            connection.send(answer[64:])
            self.proofs[acceptor] = answer[64:]

    def replay(self, acceptor):
        connection, _ = self.answered(acceptor)
        with connection:
            connection.send(self.proofs.get(acceptor, bytes(32)))

    def slow(self, acceptor):
        self.held.append((time.monotonic() + 3, self.call(acceptor), self.handshake(acceptor)))

    def scan(self, acceptor):
        self.call(acceptor).close()


def train(folder, name, steps, with_clients):
    program, text, mpirun = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    losses, report = os.path.join(folder, name + ".losses"), os.path.join(folder, name + ".json")
    options = ["--text", text, "--steps", steps, "--sample", 0, "--losses", losses, "--json", report]
    fabric = "auto" if name == "shared" else "tcp"
    process = start(job(mpirun, RANKS, program, *options), WEFT_FABRIC=fabric)
    unauthenticated_clients = None
    if with_clients:
        by_rank, until = [], time.monotonic() + 30
        # Every rank listens before any two have connected.
        while sum(any(d[0] == "tcp" for d in acceptors) for acceptors in by_rank) < RANKS:
            if time.monotonic() > until or process.poll() is not None:
                process.kill()
                sys.exit(f"failed: no acceptors to call at: {by_rank}\n{process.communicate()[0]}")
            time.sleep(0.05)
            by_rank = [acceptors_of(pid) for pid in ranks_of(process.pid, program)]
        acceptors = [acceptor for acceptors in by_rank for acceptor in acceptors]
        print("unauthenticated_clients call at", acceptors, flush=True)
        unauthenticated_clients = UnauthenticatedClients(acceptors)
        unauthenticated_clients.thread.start()
    said = process.communicate()[0]
    if unauthenticated_clients:
        unauthenticated_clients.stopping.set()
        unauthenticated_clients.thread.join()
    expect(process.returncode == 0, f"the job ended with {process.returncode}:\n{said}")
    with open(losses) as file:
        values = file.read()
    with open(report) as file:
        return values, json.load(file), said, unauthenticated_clients


def main():
    failures = Failures()
    wanted_s = 1.1 * CALLS / RATE
    with tempfile.TemporaryDirectory() as folder:
        _, probe, _, _ = train(folder, "probe", 30, False)
        steps = max(60, int(wanted_s / probe["seconds_per_step"]))
        alone, quiet, _, _ = train(folder, "alone", steps, False)
        called, loud, said, unauthenticated_clients = train(folder, "called", steps, True)
        shared, _, _, _ = train(folder, "shared", steps, False) if is_full() else (alone, 0, 0, 0)
    lines = [line for line in said.splitlines() if "rejected" in line]
    slower = loud["seconds_per_step"] / quiet["seconds_per_step"]
    print(*lines[:20], sep="\n")
    print(
        f"{steps} steps of {RANKS} ranks: {1e3 * quiet['seconds_per_step']:.2f} ms a step alone, "
        f"{1e3 * loud['seconds_per_step']:.2f} ms with {unauthenticated_clients.calls} calls "
        f"({unauthenticated_clients.unanswered} unanswered): {slower:.3f} times as long; calling took "
        f"{100 * unauthenticated_clients.processor_s / loud['seconds']:.1f} % of a processor besides"
    )
    failures.expect(called == alone, "the losses differ with unauthenticated_clients")
    failures.expect(shared == alone, "the losses differ from those by shared memory")
    failures.expect(lines, "no rank says that it rejected a connection")
    most = RANKS * (loud["seconds"] / QUIET_S + 2)
    failures.expect(len(lines) <= most, f"{len(lines)} lines about unauthenticated_clients")
    calls = unauthenticated_clients.calls
    enough = calls >= min(CALLS, 0.5 * RATE * loud["seconds"])
    failures.expect(enough, f"only {calls} calls: the test was too slow for itself")
    failures.expect(slower <= SLOWER, f"a step took {slower:.2f} times as long")
    failures.end()


main()
