"""A rank is killed while executors start: the start of all others ends in time, with an error that has its name.

Usage: killed_at_start.py GRAPH_STARTS MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats the choices of rank and moment.
"""

import random
import sys
import time

from jobs import Job, draw_seed, expect, is_full, job, kill_and_hear, repeat

RANKS, START_S, END_S = 3, 60, 20
LINE = r"joined rank (?P<rank>\d+) pid (?P<pid>\d+)|(?P<started>started rank \d+)|graph_starts: (?P<end>.*)"

program, *mpirun = sys.argv[1:]


def kill_one(number):
    fabric = ("shm", "tcp")[number % 2]
    with Job(job(mpirun, RANKS, program, survive=True), LINE, WEFT_FABRIC=fabric) as running:
        pids, started = {}, 0
        until = time.monotonic() + START_S
        while len(pids) < RANKS or started < RANKS:
            line, _ = running.next_line(until)
            expect(not line["end"], f"a start failed before any rank was killed: {line[0]}")
            started += bool(line["started"])
            if line["pid"]:
                pids[int(line["rank"])] = int(line["pid"])
        victim = random.randrange(RANKS)
        time.sleep(random.uniform(0, 0.2))
        ends = kill_and_hear(running, pids, victim, END_S)
    return f"{fabric}, rank {victim}: {ends[0]}"


draw_seed()
repeat(60 if is_full() else 6, kill_one)
