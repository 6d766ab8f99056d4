"""Kills a rank of the image classifier on GPUs at named and at random moments: by a parameter server, by all_reduce on
streams, and by all_reduce in a captured graph. The others end in time with an error that names the rank and with the
exit code that the example documents, and nothing is left behind.

Usage: example_killed.py PROGRAM MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats the moments. WEFT_TEST_FULL=1: many more.
"""

import os
import random
import re
import signal
import sys
import tempfile
import time

from jobs import Job, draw_seed, expect, expect_nothing_left, is_full, job, until
from traces import Traces, enter_room

START_S, END_S = 60, 25
JOB_FAILED = 3  # options.hpp
# The shell stays, to tell how its program ended.
WRAPPED = '"$@" & echo "rank $OMPI_COMM_WORLD_RANK pid $!"; wait $!; echo "rank $OMPI_COMM_WORLD_RANK exit $?"'
LINE = r"rank (?P<rank>\d+) (?P<what>pid|exit) (?P<number>\d+)"

WAYS = {"pslib": [], "all-reduce": ["--all-reduce"], "graph": ["--all-reduce", "--graph"]}


def steps_done(path):
    """-1: rank 0 has not made its table or group yet."""
    try:
        with open(path) as losses:
            return sum(1 for _ in losses)
    except FileNotFoundError:
        return -1


def kill(way, ranks, victim, steps, seconds):
    what = f"{way}: rank {victim} of {ranks}, {seconds * 1000:.1f} ms after step {steps}"
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as folder:
        losses = os.path.join(folder, "losses")
        private_tmp = os.path.join(folder, "tmp")
        os.mkdir(private_tmp)
        options = ["--on", "gpu", *WAYS[way], "--seed", 2, "--batch", 2, "--steps", 10**6, "--losses", losses]
        command = job(mpirun, ranks, "sh", "-c", WRAPPED, "sh", program, *options, survive=True)
        traces = Traces(private_tmp)
        with Job(command, LINE, TMPDIR=private_tmp) as running:
            pids = {}
            while len(pids) < ranks:
                line, _ = running.next_line(time.monotonic() + START_S)
                expect(line["what"] == "pid", f"{what}: a rank ended before one was killed")
                pids[int(line["rank"])] = int(line["number"])
            until(f"step {steps}", START_S, lambda: steps_done(losses) >= steps, pause=0.002)
            time.sleep(seconds)
            traces.look_at(list(pids.values()))
            os.kill(pids[victim], signal.SIGKILL)
            killed = time.monotonic()
            codes = {}
            while len(codes) < ranks:
                line, _ = running.next_line(killed + END_S)
                codes[int(line["rank"])] = int(line["number"])
            took = time.monotonic() - killed
            running.wait(END_S)
            output = "".join(running.output)
        print(f"{what}: the others ended within {took:.1f} s", flush=True)
        expect(codes.pop(victim) == 128 + signal.SIGKILL, f"{what}: it was not killed:\n{output}")
        expect(set(codes.values()) == {JOB_FAILED}, f"{what}: exit codes {codes}:\n{output}")
        ends = re.findall(r"image_classifier: (.*)", output)
        expect(len(ends) == ranks - 1, f"{what}: one line of each survivor:\n{output}")
        for end in ends:
            expect(re.search(rf"\brank {victim}\b", end), f"{what}: it does not name the rank: {end}")
        expect("stand-in driver:" not in output, f"{what}:\n{output}")
        os.remove(losses)
        expect_nothing_left(traces)


program, *mpirun = sys.argv[1:]
enter_room(program)
draw_seed()
for way in WAYS:
    # The first step prepares plans and captures the graph; later ones are the same again and again.
    for ranks, steps in ((2, 0), (2, 1), (4, 3)):
        for _ in range(12 if is_full() else 1):
            kill(way, ranks, random.randrange(ranks), steps, random.uniform(0, 0.05))
