"""Starts four ranks, of which the last kills itself in the middle of an exchange. The three others
must each say that everything was as it must be.

Usage: rendezvous_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import sys

from jobs import expect_survivors, job, run

program, *mpirun = sys.argv[1:]
for number in range(3):
    done = run(job(mpirun, 4, program, survive=True), seconds=60)
    expect_survivors(done.stdout, range(3), f"run {number}")
