"""Runs a job of four ranks for each collective. The last rank kills itself some milliseconds into a loop
of calls, with shared memory, and over TCP with the algorithms of several rounds where there are any. Each of
the three others must report that all its checks passed.

Usage: collective_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import sys

from jobs import expect_survivors, job, run

KINDS = ["barrier", "broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather", "gather",
         "scatter", "all_to_all", "scan"]
BY_ROUNDS = {"WEFT_FABRIC": "tcp",
             "WEFT_COLL": "barrier=doubling,broadcast=ring,all_reduce=doubling,all_gather=ring"}

program, *mpirun = sys.argv[1:]
for index, kind in enumerate(KINDS):
    for settings, what in (({}, kind), (BY_ROUNDS, f"{kind} over TCP")):
        done = run(job(mpirun, 4, program, kind, 2 + 3 * index, survive=True), seconds=60, **settings)
        expect_survivors(done.stdout, range(3), what)
