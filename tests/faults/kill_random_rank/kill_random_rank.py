"""Kills a random rank of a working job at a random moment, again and again. Every survivor must end
within a second with peer_failed and the killed rank's name, and the machine must be left as it was.

Usage: kill_random_rank.py [--full] [--runs N] [--seed S] [--limit SECONDS] MODE PROGRAM MPIRUN [FLAG ...]

--full, or WEFT_TEST_FULL=1: 25 runs instead of 5. WEFT_TEST_SEED repeats a sequence of kills.
--limit: SECONDS instead of one second, for a slow machine. The limits of starting, ending and cleaning up grow by the
same factor.
"""

import argparse
import os
import random
import signal
import tempfile
import time

from jobs import Failed, Job, draw_seed, expect, expect_nothing_left, is_full, job, repeat
from traces import Traces, enter_room

RANKS = 4
# Limits of steps that the test does not measure; a machine on which a survivor ends within a second needs a tenth of
# these times.
START_S, END_S, CLEAN_S = 30, 15, 3
LINE = r"rank (\d+) pid (\d+) time ([\d.]+) (joined|ended: (\w+) peer (-?\d+): (.*))"


def joined(ranks, patience):
    pids = {}
    began = time.monotonic()
    while len(pids) < RANKS:
        line, _ = ranks.next_line(began + START_S * patience)
        expect(line[4] == "joined", f"a rank ended before anyone was killed: {line[0]}")
        pids[int(line[1])] = int(line[2])
    print(f"    joined after {time.monotonic() - began:.1f} s", flush=True)
    return pids


def check_survivor(line, victim, killed_at, limit_s):
    rank, code, peer, text = line[1], line[5], line[6], line[7]
    took = float(line[3]) - killed_at
    named = code == "peer_failed" and int(peer) == victim and f"rank {victim}" in text
    expect(named, f"rank {rank} must end with peer_failed naming rank {victim}: {line[0]}")
    expect(took <= limit_s, f"rank {rank} ended {took:.2f} s after the kill: {line[0]}")
    return took


def kill_one(ranks, traces, victim, delay_s, limit_s):
    pids = joined(ranks, limit_s)
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
        line, _ = ranks.next_line(killed_at + limit_s + 4)
        ended.add(line[1])
        slowest = max(slowest, check_survivor(line, victim, killed_at, limit_s))
    ranks.wait(END_S * limit_s)
    return slowest


def one_run(command, victim, delay_s, limit_s):
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as private_tmp:
        traces = Traces(private_tmp)
        with Job(command, LINE, TMPDIR=private_tmp) as ranks:
            slowest = kill_one(ranks, traces, victim, delay_s, limit_s)
            expect_nothing_left(traces, CLEAN_S * limit_s)
            return slowest


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
    given.runs = given.runs or (25 if given.full or is_full() else 5)
    if given.seed is not None:
        os.environ["WEFT_TEST_SEED"] = str(given.seed)
    return given


def main():
    given = arguments()
    enter_room(given.program)
    print(f"{given.runs} runs of {given.mode}")
    draw_seed()
    command = job(given.mpirun, RANKS, given.program, given.mode, survive=True)

    def kill_a_rank(_):
        victim, delay_s = random.randrange(RANKS), random.uniform(0, 1)
        print(f"rank {victim} is killed {delay_s:.3f} s after the last join", flush=True)
        slowest = one_run(command, victim, delay_s, given.limit)
        return f"the last survivor ended after {slowest * 1000:.0f} ms"

    repeat(given.runs, kill_a_rank)


main()
