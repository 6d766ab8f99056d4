"""No rank that is only late is declared dead: 16 ranks on processors with other load, then all ranks paused at once for
longer than WEFT_DEAD_AFTER.

Usage: false_death.py PROGRAM MPIRUN [FLAG ...]

Runs over TCP, where silence counts, with a pause of 2.5 s; WEFT_TEST_FULL=1: over shared memory too, with 30 s.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time

FULL = os.environ.get("WEFT_TEST_FULL") == "1"
RANKS = 16
DEAD_AFTER_S = 1
HOGS = 2 * (os.cpu_count() or 1)
LOADED_S, PAUSE_S = (20, 30) if FULL else (3, 2.5)
AFTER_S = 2 * DEAD_AFTER_S  # no rank is declared dead later, either
RUNS = re.compile(r"rank (\d+) pid (\d+) runs")
HELD = re.compile(r"rank (\d+) held")


class Job:
    def __init__(self, fabric, program, mpirun):
        settings = {"WEFT_DEAD_AFTER": f"{DEAD_AFTER_S}s", "WEFT_FABRIC": fabric, "WEFT_ARENA_CHUNK": "2m"}
        self.process = subprocess.Popen(
            [*mpirun, "-n", str(RANKS), program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **settings},
        )
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout))
        self.reader.start()

    def pids(self):
        """By rank, of those that run."""
        return {int(m[1]): int(m[2]) for m in map(RUNS.match, list(self.lines)) if m}

    def await_all(self):
        until = time.monotonic() + 60
        while len(self.pids()) < RANKS:
            if time.monotonic() > until or self.process.poll() is not None:
                self.process.kill()
                sys.exit("".join(self.lines) + "failed: not all ranks came up")
            time.sleep(0.1)
        return self.pids()

    def end(self, rank0):
        os.kill(rank0, signal.SIGUSR1)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join()
        return self.process.returncode


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # what it said last tells


def run(fabric, program, mpirun):
    job = Job(fabric, program, mpirun)
    pids = job.await_all()
    # The load ends with this process, in whichever way this process ends.
    hog = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(hog) for _ in range(HOGS)]
    try:
        time.sleep(LOADED_S)
        signal_all(pids.values(), signal.SIGSTOP)
        time.sleep(PAUSE_S)
        signal_all(pids.values(), signal.SIGCONT)
        time.sleep(AFTER_S)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    status = job.end(pids[0])
    held = [line for line in job.lines if HELD.match(line)]
    doubts = sum("] rank" in line and (" is slow" in line or " is suspect" in line) for line in job.lines)
    print(f"{fabric}: {len(held)} of {RANKS} ranks held, {HOGS} others ran; a rank was doubted {doubts} times", flush=True)
    if status != 0 or len(held) != RANKS:
        print("".join(job.lines))
        return [f"by {fabric} the job ended with {status}, {len(held)} ranks held"]
    print(held[0], end="", flush=True)
    return []


def main():
    program, *mpirun = sys.argv[1:]
    failures = []
    for fabric in ("tcp", "shm") if FULL else ("tcp",):
        failures += run(fabric, program, mpirun)
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
