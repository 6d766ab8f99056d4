"""Kills a rank of a table whose workers are on GPUs: at named moments of a push and of a pull, and at random ones. The
others end in time with an error that names it, their GPUs go on, and nothing is left behind.

Usage: table_peer_dies.py PROGRAM MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats the random moments. WEFT_TEST_FULL=1: many more of both.
"""

import random
import re
import sys
import tempfile
import time

from jobs import draw_seed, expect, expect_nothing_left, expect_survivors, is_full, job, run
from traces import Traces, enter_room

LIMIT_S = 30

program, *mpirun = sys.argv[1:]
enter_room(program)
draw_seed()


def kill(ranks, victim, moment, microseconds):
    what = f"rank {victim} of {ranks}, {microseconds} us after {moment}"
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as private_tmp:
        traces = Traces(private_tmp)
        began = time.monotonic()
        command = job(mpirun, ranks, program, victim, moment, microseconds, survive=True)
        done = run(command, seconds=LIMIT_S * 2, TMPDIR=private_tmp)
        took = time.monotonic() - began
        print(f"{what}: {took:.1f} s", flush=True)
        expect_survivors(done.stdout, [rank for rank in range(ranks) if rank != victim], what)
        expect("stand-in driver:" not in done.stdout, f"{what}:\n{done.stdout}")
        expect(took < LIMIT_S, f"{what}: {took:.1f} s")
        traces.pids = [int(pid) for pid in re.findall(r"rank \d+ pid (\d+)", done.stdout)]
        expect(len(traces.pids) == ranks, done.stdout)
        expect_nothing_left(traces)


delays = [0, 300, 3000, 15000] if is_full() else [2000]
for ranks in (2, 4):
    for moment in ("push", "pull", "push_pull"):
        for delay in delays:
            kill(ranks, random.randrange(ranks), moment, delay)
for _ in range(40 if is_full() else 2):
    ranks = random.choice((2, 4))
    kill(ranks, random.randrange(ranks), "any", random.randrange(200_000))
