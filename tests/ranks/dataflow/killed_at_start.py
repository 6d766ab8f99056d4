"""A rank is killed while executors start: the start of all others ends in time, with an error that has its name.

Usage: killed_at_start.py GRAPH_STARTS MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats the choices of rank and moment.
"""

import os
import random
import re
import signal
import sys
import time

from jobs import Job, draw_seed, expect, is_full, job, repeat

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
        os.kill(pids[victim], signal.SIGKILL)
        ends = []
        until = time.monotonic() + END_S
        while len(ends) < RANKS - 1:
            line, _ = running.next_line(until)
            if line["end"]:
                ends.append(line["end"])
        running.wait(END_S)
        for end in ends:
            expect(re.search(rf"\brank {victim}\b", end), f"it does not name rank {victim}: {end}")
    return f"{fabric}, rank {victim}: {ends[0]}"


draw_seed()
repeat(60 if is_full() else 6, kill_one)
