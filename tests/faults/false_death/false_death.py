"""No rank that is only late is declared dead: 16 ranks on processors with other load, then all ranks paused at once for
longer than WEFT_DEAD_AFTER.

Usage: false_death.py PROGRAM MPIRUN [FLAG ...]

Runs over TCP, where silence counts, with a pause of 2.5 s; WEFT_TEST_FULL=1: over shared memory too, with 30 s.
"""

import os
import re
import signal
import subprocess
import sys
import time

from jobs import Job, expect, is_full, job

RANKS = 16
DEAD_AFTER_S = 1
HOGS = 2 * (os.cpu_count() or 1)
LOADED_S, PAUSE_S = (20, 30) if is_full() else (3, 2.5)
AFTER_S = 2 * DEAD_AFTER_S  # no rank is declared dead later, either
RUNS = r"rank (\d+) pid (\d+) runs"
HELD = re.compile(r"rank (\d+) held")


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # what it said last tells


def run(fabric, program, mpirun):
    settings = {"WEFT_DEAD_AFTER": f"{DEAD_AFTER_S}s", "WEFT_FABRIC": fabric, "WEFT_ARENA_CHUNK": "2m"}
    with Job(job(mpirun, RANKS, program), RUNS, **settings) as ring:
        end = time.monotonic() + 60
        pids = dict(tuple(map(int, ring.next_line(end)[0].groups())) for _ in range(RANKS))
        # The load ends with this process, in whichever way this process ends.
        hog = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", "while True: pass"]
        hogs = [subprocess.Popen(hog) for _ in range(HOGS)]
        try:
            time.sleep(LOADED_S)
            signal_all(pids.values(), signal.SIGSTOP)
            time.sleep(PAUSE_S)
            signal_all(pids.values(), signal.SIGCONT)
            time.sleep(AFTER_S)
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        os.kill(pids[0], signal.SIGUSR1)
        status = ring.wait(60)
        held = [line for line in ring.output if HELD.match(line)]
        doubts = sum("] rank" in line and (" is slow" in line or " is suspect" in line) for line in ring.output)
        print(f"{fabric}: {len(held)} of {RANKS} ranks held, {HOGS} others ran; a rank was doubted {doubts} times")
        expect(status == 0 and len(held) == RANKS, f"by {fabric} the job ended with {status}, {len(held)} ranks held")
        print(held[0], end="", flush=True)


program, *mpirun = sys.argv[1:]
for fabric in ("tcp", "shm") if is_full() else ("tcp",):
    run(fabric, program, mpirun)
