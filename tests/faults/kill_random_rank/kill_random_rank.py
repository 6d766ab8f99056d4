"""Kills a random rank of a working job at a random moment, again and again. Every survivor must end
within a second with peer_failed and the killed rank's name, and the machine must be left as it was.

Usage: kill_random_rank.py [--full] [--runs N] [--seed S] [--limit SECONDS] MODE PROGRAM MPIRUN [FLAG ...]

--full, or WEFT_TEST_FULL=1: 25 runs instead of 5. WEFT_TEST_SEED repeats a sequence of kills.
--limit: SECONDS instead of one second, for a slow machine. The limits of starting, ending and cleaning up grow by the
same factor.
"""

import argparse
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from traces import Traces, enter_room

RANKS = 4
# Limits of steps that the test does not measure; a machine on which a survivor ends within a second needs a tenth of
# these times.
START_S, END_S, CLEAN_S = 30, 15, 3
LINE = re.compile(r"rank (\d+) pid (\d+) time ([\d.]+) (joined|ended: (\w+) peer (-?\d+): (.*))")


class Failed(Exception):
    pass


class Job:
    """mpirun and the lines of its ranks."""

    def __init__(self, command, private_tmp, patience):
        self.patience = patience
        self.lines = queue.Queue()
        self.output = []
        self.mpirun = subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": private_tmp},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.mpirun.stdout:
            self.output.append(line)
            # Two ranks' lines may share one of mpirun's.
            for match in LINE.finditer(line):
                self.lines.put(match)

    def next_line(self, end):
        try:
            return self.lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise Failed("the ranks' lines did not come in time") from None

    def joined(self):
        pids = {}
        began = time.monotonic()
        while len(pids) < RANKS:
            line = self.next_line(began + START_S * self.patience)
            if line[4] != "joined":
                raise Failed(f"a rank ended before anyone was killed: {line[0]}")
            pids[int(line[1])] = int(line[2])
        print(f"    joined after {time.monotonic() - began:.1f} s", flush=True)
        return pids

    def wait(self):
        seconds = END_S * self.patience
        try:
            self.mpirun.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"mpirun still ran {seconds:.0f} s after the ranks had ended") from None

    def stop(self):
        if self.mpirun.poll() is None:
            self.mpirun.terminate()
            try:
                self.mpirun.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.mpirun.kill()


def check_survivor(line, victim, killed_at, limit_s):
    rank, code, peer, text = line[1], line[5], line[6], line[7]
    took = float(line[3]) - killed_at
    if code != "peer_failed" or int(peer) != victim or f"rank {victim}" not in text:
        raise Failed(f"rank {rank} must end with peer_failed naming rank {victim}: {line[0]}")
    if took > limit_s:
        raise Failed(f"rank {rank} ended {took:.2f} s after the kill: {line[0]}")
    return took


def kill_one(job, traces, victim, delay_s, limit_s):
    pids = job.joined()
    time.sleep(delay_s)
    traces.look_at(list(pids.values()))
    killed_at = time.monotonic()
    try:
        os.kill(pids[victim], signal.SIGKILL)
    except ProcessLookupError:
        raise Failed(f"rank {victim} had ended before it was killed") from None
    slowest = 0.0
    ended = set()
    while len(ended) < RANKS - 1:
        line = job.next_line(killed_at + limit_s + 4)
        ended.add(line[1])
        slowest = max(slowest, check_survivor(line, victim, killed_at, limit_s))
    job.wait()
    return slowest


def expect_clean(traces, patience):
    end = time.monotonic() + CLEAN_S * patience  # the kernel may need a moment for a large process
    while left := traces.left():
        if time.monotonic() > end:
            raise Failed("left behind: " + ", ".join(left))
        time.sleep(0.05)


def one_run(command, victim, delay_s, limit_s):
    private_tmp = tempfile.mkdtemp(prefix="job-")
    traces = Traces(private_tmp)
    job = Job(command, private_tmp, limit_s)
    try:
        slowest = kill_one(job, traces, victim, delay_s, limit_s)
        expect_clean(traces, limit_s)
        return slowest
    except Failed:
        print("".join(job.output), flush=True)
        raise
    finally:
        job.stop()
        shutil.rmtree(private_tmp, ignore_errors=True)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("mode", choices=["slots", "messages", "pslib"])
    parser.add_argument("program")
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    full = given.full or os.environ.get("WEFT_TEST_FULL", "0") not in ("", "0")
    given.runs = given.runs or (25 if full else 5)
    if given.seed is None:
        given.seed = int(os.environ.get("WEFT_TEST_SEED", random.SystemRandom().getrandbits(32)))
    return given


def main():
    given = arguments()
    enter_room(given.program)
    seed = f"WEFT_TEST_SEED={given.seed} repeats them"
    print(f"{given.runs} runs of {given.mode}; {seed}", flush=True)
    dice = random.Random(given.seed)
    command = [*given.mpirun, "--enable-recovery", "-n", str(RANKS), given.program, given.mode]
    failures = 0
    for run in range(1, given.runs + 1):
        victim, delay_s = dice.randrange(RANKS), dice.uniform(0, 1)
        what = f"run {run}: rank {victim} killed {delay_s:.3f} s after the last join"
        try:
            slowest = one_run(command, victim, delay_s, given.limit)
            print(f"{what}; the last survivor ended after {slowest * 1000:.0f} ms", flush=True)
        except Failed as failure:
            failures += 1
            print(f"{what}: failed: {failure}", flush=True)
    sys.exit(f"failed: {failures} of {given.runs} runs" if failures else 0)


main()
