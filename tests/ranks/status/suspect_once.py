"""A stopped rank that is reached over TCP is told of once, though both its silence and its process show it.

Usage: suspect_once.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import re
import signal
import sys

from jobs import expect, job, joined, running

program, *mpirun = sys.argv[1:]
with running(job(mpirun, 2, program, survive=True), WEFT_DEAD_AFTER="2s") as ranks:
    pids = joined(ranks, 2)
    os.kill(pids[1], signal.SIGSTOP)
    said = []
    for line in ranks.stdout:
        print(line, end="", flush=True)
        said.append(line)
        if re.search(r"rank 1 \(host .*was stopped for", line):
            break
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    told = [line for line in said if re.search(r"rank 1 .* is (slow|suspect|alive)", line)]
    expect(len(told) == 1 and "is suspect: stopped" in told[0], f"told {len(told)} times: {told}")
