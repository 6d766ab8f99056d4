"""The death of a rank is noticed at once although a fork of the rank lives on; after the fork's end
nothing is left.

Usage: survived_by_child.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from traces import Traces, alive, enter_room


def expect(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    enter_room(program)
    private_tmp = tempfile.mkdtemp(prefix="job-")
    traces = Traces(private_tmp)
    child = None
    job = subprocess.Popen(
        [*mpirun, "--enable-recovery", "-n", "2", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": private_tmp},
    )
    try:
        ended = None
        for line in job.stdout:
            print(line, end="", flush=True)
            if found := re.match(r"rank 1 pid (\d+) child (\d+)", line):
                rank, child = int(found[1]), int(found[2])
                traces.look_at([rank, child])
                os.kill(rank, signal.SIGKILL)
            if "rank 0 ended: " in line:
                ended = line
                expect(child is not None and alive(child), "the child still lives when rank 0 ends")
                break
        expect(ended is not None, "rank 0 says how it ended")
        expect("peer_failed" in ended and "rank 1" in ended, "peer_failed names rank 1")
        os.kill(child, signal.SIGKILL)
        job.communicate(timeout=20)
        end = time.monotonic() + 5
        while left := traces.left():
            expect(time.monotonic() < end, "left behind: " + ", ".join(left))
            time.sleep(0.05)
    finally:
        if job.poll() is None:
            job.kill()
        if child is not None and alive(child):
            os.kill(child, signal.SIGKILL)
        shutil.rmtree(private_tmp, ignore_errors=True)


main()
