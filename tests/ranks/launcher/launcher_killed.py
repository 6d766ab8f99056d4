"""When mpirun is killed, its ranks end instead of running on as orphans: those that wait inside
weft and those that compute.

Usage: launcher_killed.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import sys
import time

from jobs import expect, job, joined, start
from traces import alive

RANKS = 3
LIMIT_S = 5.0

program, *mpirun = sys.argv[1:]
launcher = start(job(mpirun, RANKS, program))
pids = joined(launcher, RANKS).values()
launcher.kill()
killed = time.monotonic()
launcher.wait()
while left := [pid for pid in pids if alive(pid)]:
    if time.monotonic() - killed > LIMIT_S:
        for pid in left:
            os.kill(pid, 9)
        expect(False, f"{len(left)} of {RANKS} ranks still ran after {LIMIT_S} s: {left}")
    time.sleep(0.02)
print(f"all {RANKS} ranks had ended {time.monotonic() - killed:.2f} s after mpirun was killed")
