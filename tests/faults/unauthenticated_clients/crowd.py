"""A crowd of unauthenticated clients: connects to every acceptor in this network namespace until stopped.

Usage: crowd.py KIND OPEN PORTS

The crowd holds at most OPEN connections and renews those that are closed. KIND: idle sends nothing; garbage sends
random bytes; half sends a part of a handshake; handshake sends one that a rank might send, and no proof. Started by
root, the crowd becomes another user. At its end (SIGTERM) it prints the number of its connections.
Acceptors are the TCP ports that the file PORTS lists at the time, and the abstract Unix sockets of ranks.
"""

import collections
import os
import pathlib
import random
import resource
import select
import signal
import socket
import sys
import time

from handshake import handshake, unix_acceptors

BATCH = 64
NOBODY = 65534
LOOK_S = 0.01  # between two searches for acceptors


def acceptors(list_of_ports):
    found = {("127.0.0.1", int(port)) for port in pathlib.Path(list_of_ports).read_text().split()}
    return sorted(found | set(unix_acceptors().values()), key=str)


class Crowd:
    def __init__(self, kind, most):
        self.kind = kind
        self.most = most
        self.calls = 0
        self.held = collections.OrderedDict()
        self.poll = select.epoll()
        self.random = random.Random(1)
        self.stopping = False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.stopping = True

    def words(self):
        first = handshake(self.random, 4)
        kinds = {"garbage": self.random.randbytes(200), "half": first[:40], "handshake": first}
        return kinds.get(self.kind, b"")

    def call(self, acceptor):
        if isinstance(acceptor, str):
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        else:
            caller = socket.socket()
        caller.setblocking(False)
        try:
            caller.connect(acceptor)
        except BlockingIOError:
            pass
        except OSError:
            caller.close()
            return
        self.calls += 1
        self.held[caller.fileno()] = caller
        try:
            if words := self.words():
                caller.send(words)
        except OSError:
            pass  # it is not connected yet, and stays silent
        self.poll.register(caller.fileno(), select.EPOLLIN | select.EPOLLHUP)

    def drop_ended(self):
        for number, _ in self.poll.poll(0, 1024):
            caller = self.held[number]
            try:
                ended = caller.recv(4096) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            if ended:
                self.held.pop(number).close()

    def run(self):
        known, look_at = [], 0
        while not self.stopping:
            if time.monotonic() >= look_at:
                known, look_at = acceptors(sys.argv[3]), time.monotonic() + LOOK_S
            self.drop_ended()
            for i in range(BATCH):
                if not known:
                    break
                if len(self.held) >= self.most:
                    if self.kind == "idle":
                        break
                    self.held.popitem(last=False)[1].close()
                self.call(known[(self.calls + i) % len(known)])
            time.sleep(0.002)
        print(self.calls, flush=True)


def main():
    kind, most = sys.argv[1], int(sys.argv[2])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + 100), hard))
    most = min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50)
    if os.geteuid() == 0:  # the interpreter is loaded by now, wherever only root may read it
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    Crowd(kind, most).run()


main()
