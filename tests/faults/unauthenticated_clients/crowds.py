"""Jobs start undisturbed while crowds of unauthenticated clients connect to them, before, while and after ranks join.

The clients belong to another user (if this runs as root), connect to every rank's TCP ports and Unix sockets, and renew
connections that are closed. Some are idle, some send garbage, half a record, or handshakes without a proof. The jobs
are started by a launcher, over shared memory and TCP, or by a token; a subscriber reads what a rank publishes.

Usage: crowds.py RANK_RING TRAIN_CHARLM ROLLOUT_CHARLM TEXT MPIRUN [FLAG ...]

A job may take 2 s longer than without these clients, in the best of three tries. WEFT_TEST_FULL=1: five times each, and
5 000 idle clients. The test runs in its own network namespace, so that the clients reach no other job, and is skipped
where no namespace can be created.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from handshake import tcp_acceptors
from jobs import Failures, expect, is_full, job, skip, start, without_launcher, write_token

TIMES = 5 if is_full() else 1
OPEN = 5000 if is_full() else 1000
LATER_S = 2.0
PORT = 29531
RANKS = 4


def enter_own_network():
    """Runs this again in a network namespace with nothing but a loopback device."""
    if os.environ.get("WEFT_TEST_ALONE") == "1":
        return
    begin = "ip link set lo up && exec env WEFT_TEST_ALONE=1 \"$@\""
    if subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
        skip("no network namespace to be had")
    command = ["unshare", "-n", "sh", "-c", begin, "sh", sys.executable, "-B", *sys.argv]
    os.execvp(command[0], command)


class Ports:
    """Keeps a file of the ports at which processes of these programs listen; the launcher's own ports are left out."""

    def __init__(self, path, programs):
        self.path, self.programs = path, set(programs)
        self.write("")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def write(self, text):
        with open(self.path + ".new", "w") as file:
            file.write(text)
        os.replace(self.path + ".new", self.path)

    def inodes(self):
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/exe") in self.programs:
                    found.update(os.readlink(fd.path) for fd in os.scandir(f"/proc/{pid}/fd"))
            except OSError:
                continue
        return {name[8:-1] for name in found if name.startswith("socket:[")}

    def run(self):
        while not self.stopping.wait(0.02):
            inodes = self.inodes()
            ports = [int(port, 16) for inode, (_, port) in tcp_acceptors().items() if inode in inodes]
            self.write(" ".join(map(str, ports)))


class Crowds:
    KINDS = ("idle", "garbage", "half", "handshake")

    def __init__(self, kinds, ports):
        script = str(pathlib.Path(__file__).parent / "crowd.py")
        self.processes = {
            kind: subprocess.Popen(
                ["nice", sys.executable, "-B", script, kind, str(OPEN), ports], stdout=subprocess.PIPE, text=True
            )
            for kind in kinds
        }
        time.sleep(0.5)  # the crowds search for acceptors by now

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        return {kind: int(p.communicate(timeout=20)[0] or 0) for kind, p in self.processes.items()}


def wait_for(processes):
    said = [process.communicate(timeout=60)[0] for process in processes]
    well = all(process.returncode == 0 for process in processes)
    expect(well, "a job did not end well:\n" + "\n".join(said))


def begin(command, **settings):
    return start(command, env=without_launcher(settings))


class Jobs:
    def __init__(self, folder, ring, train, rollout, text, *mpirun):
        self.ring, self.train, self.rollout, self.text = ring, train, rollout, text
        self.mpirun = mpirun
        self.token = write_token(os.path.join(folder, "token"))
        self.address = os.path.join(folder, "address")

    def launched(self, fabric):
        wait_for([begin(job(self.mpirun, RANKS, self.ring), WEFT_FABRIC=fabric)])

    def by_shared_memory(self):
        self.launched("auto")

    def by_tcp(self):
        self.launched("tcp")

    def by_token(self):
        settings = {"WEFT_SIZE": str(RANKS), "WEFT_ADDR": f"127.0.0.1:{PORT}", "WEFT_TOKEN_FILE": self.token}
        wait_for([begin([self.ring], WEFT_RANK=str(rank), **settings) for rank in range(RANKS)])

    def with_a_subscriber(self):
        settings = {"WEFT_SUBSCRIBE_ADDR": self.address, "WEFT_SUBSCRIBE_TOKEN_FILE": self.token}
        reader = [self.rollout, "--text", self.text, "--characters", "20", "--do-not-judge"]
        options = "--publish 4 --readers 1 --steps 20 --hidden 32 --batch 8 --sample 0".split()
        trainer = job(self.mpirun, 2, self.train, "--text", self.text, *options)
        wait_for([begin(reader, **settings), begin(trainer, **settings)])


def took(case):
    began = time.monotonic()
    case()
    return time.monotonic() - began


def best_of_late(case, limit):
    """Repeats a case, at most twice, if a busy machine may have been the reason."""
    best = took(case)
    for _ in range(2):
        if best <= limit:
            break
        best = min(best, took(case))
    return best


def main():
    enter_own_network()
    failures = Failures()
    with tempfile.TemporaryDirectory() as folder:
        jobs = Jobs(folder, *map(os.path.realpath, sys.argv[1:5]), *sys.argv[5:])
        os.chmod(folder, 0o711)  # the clients must find the ports
        ports = Ports(os.path.join(folder, "ports"), map(os.path.realpath, sys.argv[1:3]))
        kinds = (jobs.by_shared_memory, jobs.by_tcp, jobs.by_token, jobs.with_a_subscriber)
        quiet = {case.__name__: max(took(case) for _ in range(TIMES)) for case in kinds}
        for crowd in [Crowds.KINDS] + ([(kind,) for kind in Crowds.KINDS] if is_full() else []):
            crowds = Crowds(crowd, ports.path)
            times = [
                (case.__name__, best_of_late(case, quiet[case.__name__] + LATER_S)) for case in kinds for _ in range(TIMES)
            ]
            calls = crowds.stop()
            for name, seconds in times:
                print(f"{'+'.join(crowd)}: {name}: {seconds:.2f} s, alone {quiet[name]:.2f} s", flush=True)
                late = f"{name} took {seconds:.1f} s with {crowd}, {quiet[name]:.1f} s alone"
                failures.expect(seconds <= quiet[name] + LATER_S, late)
            print(f"calls: {calls}", flush=True)
            failures.expect(min(calls.values()) >= 1000, f"too few calls to prove anything: {calls}")
        ports.stopping.set()
        ports.thread.join()
    failures.end()


main()
