"""Breaks jobs with traffic between two guests, and checks what their ranks say.

Usage: failures.py [--runs N] CASE GUESTS RANKS_SH TRAFFIC

  kill       a random rank of node1 is killed at a random moment
  power      node1's power is cut at a random moment
  silent     the same, while the ranks of node0 only wait for tensors
  cable      node1's cable is out for good
  pulse      it is out for 2 s: nothing may be lost

WEFT_TEST_SEED repeats the random choices.
"""

import argparse
import os
import queue
import random
import re
import subprocess
import sys
import threading
import time

RANKS = 4  # the first half on node0
HERE, THERE = {0, 1}, {2, 3}
PULSE_S = 2.0
# mpirun's --enable-recovery: the death of a rank does not end the others.
SURVIVE = ("OMPI_MCA_orte_enable_recovery", "1")
START_LIMIT_S = 300  # booting may be part of it
# After the event. A lost connection of TCP is seen at once, a silent one after WEFT_DEAD_AFTER or when the
# NIC has tried often enough. Emulated hosts take their time: beside much other work up to 3.7 s were seen, else 1 s.
MARGIN_S = 8.0
DEAD_AFTER_S = 2.0
LINE = re.compile(
    r"rank (\d+) (?:(?P<moment>runs|dies)"
    r"|ended in round \d+: (?P<code>\w+) peer (?P<peer>-?\d+): (?P<text>.*)"
    r"|held (?P<rounds>\d+) rounds)"
)


class Failed(Exception):
    pass


class Job:
    """The ranks and their lines, each with the time at which it came."""

    def __init__(self, command):
        self.lines = queue.Queue()
        self.output = []
        self.early = []  # lines of ranks that were faster than the news of a death
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.output.append(line)
            if "skipped: " in line:
                self.lines.put(("skip", line, 0))
            for match in LINE.finditer(line):
                self.lines.put((int(match[1]), match, time.monotonic()))

    def next_line(self, end):
        try:
            rank, line, when = self.lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise Failed("the ranks' lines did not come in time") from None
        if rank == "skip":
            print(line)
            sys.exit(77)
        return rank, line, when

    def under_way(self):
        """Waits until every rank is."""
        found = set()
        end = time.monotonic() + START_LIMIT_S
        while len(found) < RANKS:
            rank, line, _ = self.next_line(end)
            if line["moment"] != "runs":
                raise Failed(f"a rank ended before anything was done: {line[0]}")
            found.add(rank)

    def death_of(self, victim):
        """When it came."""
        while True:
            rank, line, when = self.next_line(time.monotonic() + START_LIMIT_S)
            if line["moment"] == "dies" and rank == victim:
                return when
            if line["moment"] != "runs":
                self.early.append((rank, line, when))

    def ends(self, ranks, seconds):
        """How each of them ended: {rank: (line, when)}."""
        found = {}
        end = time.monotonic() + seconds
        while not ranks <= found.keys():
            rank, line, when = self.early.pop(0) if self.early else self.next_line(end)
            if line["moment"]:
                continue
            found[rank] = (line, when)
        return found

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Case:
    def __init__(self, given, dice):
        self.given = given
        self.dice = dice

    def start(self, *arguments):
        job = ["bash", self.given.ranks, "2", str(RANKS), self.given.program, *map(str, arguments)]
        environment = ["--env", "=".join(SURVIVE)]
        self.job = Job([self.given.guests, "run", "--seconds", "240", *environment, "--", *job])

    def guests(self, *order):
        subprocess.run([self.given.guests, *order], check=True)

    def expect_survivors(self, survivors, lost, since, limit_s):
        """Each names one that is lost, in time. The slowest one's seconds."""
        slowest = 0.0
        for rank, (line, when) in self.job.ends(survivors, limit_s + 30).items():
            if rank not in survivors:
                continue
            took = when - since
            slowest = max(slowest, took)
            good = line["code"] in ("peer_failed", "path_failed", "peer_left")
            if not good or int(line["peer"]) not in lost or f"rank {line['peer']}" not in line["text"]:
                raise Failed(f"rank {rank} must name one of the ranks {sorted(lost)}: {line[0]}")
            if took > limit_s:
                raise Failed(f"rank {rank} ended only after {took:.2f} s: {line[0]}")
            print(f"    after {took:.2f} s: {line[0]}", flush=True)
        return slowest

    def wait_a_little(self):
        delay = self.dice.uniform(0, 1.5)
        time.sleep(delay)
        return f"{delay:.3f} s after the last rank was under way"

    def kill(self):
        victim = self.dice.choice(sorted(THERE))
        delay = self.dice.randrange(1500)
        self.start("die", victim, delay)
        since = self.job.death_of(victim)
        survivors = HERE | THERE - {victim}
        slowest = self.expect_survivors(survivors, {victim}, since, MARGIN_S)
        return f"rank {victim} killed {delay} ms after it was under way", slowest

    def power(self):
        self.start("exchange", 200)
        return self.cut_power()

    def silent(self):
        self.start("receive")
        return self.cut_power()

    def cut_power(self):
        self.job.under_way()
        when = self.wait_a_little()
        since = time.monotonic()
        self.guests("quit", "1")
        return f"power cut {when}", self.expect_survivors(HERE, THERE, since, DEAD_AFTER_S + MARGIN_S)

    def cable(self):
        self.start("exchange", 200)
        self.job.under_way()
        when = self.wait_a_little()
        since = time.monotonic()
        self.guests("unplug", "1")
        slowest = self.expect_survivors(HERE, THERE, since, DEAD_AFTER_S + MARGIN_S)
        # The output of node1's ranks comes by the same cable.
        self.guests("plug", "1")
        self.expect_survivors(THERE, HERE, since, 60)
        return f"cable out {when}", slowest

    def pulse(self):
        self.start("exchange", 10)
        self.job.under_way()
        when = self.wait_a_little()
        self.guests("unplug", "1")
        time.sleep(PULSE_S)
        self.guests("plug", "1")
        since = time.monotonic()
        ends = self.job.ends(HERE | THERE, 90)
        rounds = {line["rounds"] for line, _ in ends.values()}
        if len(rounds) != 1 or None in rounds:
            raise Failed("every rank must hold as many rounds: " + str([line[0] for line, _ in ends.values()]))
        slowest = max(ended for _, ended in ends.values()) - since
        return f"cable out for {PULSE_S} s {when}; {rounds.pop()} rounds held", slowest


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("case", choices=["kill", "power", "silent", "cable", "pulse"])
    parser.add_argument("guests")
    parser.add_argument("ranks")
    parser.add_argument("program")
    return parser.parse_args()


def main():
    given = arguments()
    seed = int(os.environ.get("WEFT_TEST_SEED", random.SystemRandom().getrandbits(32)))
    print(f"{given.runs} runs; WEFT_TEST_SEED={seed} repeats them", flush=True)
    case = Case(given, random.Random(seed))
    failures = 0
    for run in range(1, given.runs + 1):
        case.job = None
        try:
            what, slowest = getattr(case, given.case)()
            print(f"run {run}: {what}; the last rank ended after {slowest:.2f} s", flush=True)
        except Failed as failure:
            failures += 1
            print("".join(case.job.output))
            print(f"run {run}: failed: {failure}", flush=True)
        finally:
            if case.job:
                case.job.stop()
    sys.exit(f"failed: {failures} of {given.runs} runs" if failures else 0)


main()
