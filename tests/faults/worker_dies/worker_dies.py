"""For each kind of table that is not in step a few jobs of three workers and a server, in which one
worker kills itself some milliseconds into training. The other ranks must each say that everything
was as it must be.

Usage: worker_dies.py PROGRAM MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats the moments.
"""

import random
import sys

from jobs import draw_seed, expect_survivors, job, run

RUNS = 2

program, *mpirun = sys.argv[1:]
draw_seed()
for kind in ["ssp", "async", "k_of_n"] * RUNS:
    moment = random.randrange(1, 40)
    done = run(job(mpirun, 4, program, kind, moment, survive=True), seconds=60)
    expect_survivors(done.stdout, [0, 2, 3], f"{kind}, {moment} ms")
