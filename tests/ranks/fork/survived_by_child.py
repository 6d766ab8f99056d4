"""The death of a rank is noticed at once although a fork of the rank lives on; after the fork's end
nothing is left.

Usage: survived_by_child.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import re
import signal
import sys
import tempfile

from jobs import expect, expect_nothing_left, job, running
from traces import Traces, alive, enter_room


def kill_and_watch(ranks, traces, children):
    for line in ranks.stdout:
        print(line, end="", flush=True)
        if found := re.match(r"rank 1 pid (\d+) child (\d+)", line):
            rank, child = int(found[1]), int(found[2])
            children.append(child)
            traces.look_at([rank, child])
            os.kill(rank, signal.SIGKILL)
        if "rank 0 ended: " in line:
            expect(children and alive(children[0]), "the child still lives when rank 0 ends")
            expect("peer_failed" in line and "rank 1" in line, "peer_failed names rank 1")
            return
    expect(False, "rank 0 says how it ended")


def main():
    program, *mpirun = sys.argv[1:]
    enter_room(program)
    children = []
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as private_tmp:
        traces = Traces(private_tmp)
        try:
            with running(job(mpirun, 2, program, survive=True), TMPDIR=private_tmp) as ranks:
                kill_and_watch(ranks, traces, children)
                os.kill(children[0], signal.SIGKILL)
                ranks.communicate(timeout=20)
                expect_nothing_left(traces)
        finally:
            for child in filter(alive, children):
                os.kill(child, signal.SIGKILL)


main()
