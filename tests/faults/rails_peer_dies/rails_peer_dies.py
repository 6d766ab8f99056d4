"""Starts seven ranks, of which all but the first kill themselves in turn. Those that are left must see
what they must, and the first says so.

Usage: rails_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import sys

from jobs import expect, expect_survivors, job, run

program, *mpirun = sys.argv[1:]
done = run(job(mpirun, 7, program, survive=True), seconds=50)
expect_survivors(done.stdout, [0], "of seven")
expect(" died: " not in done.stdout, done.stdout)
