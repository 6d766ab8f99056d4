"""A rank of the network as a graph is killed in a step: all others end with an error that has its name.

Usage: graph_killed.py GRAPH MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import os
import random
import re
import signal
import sys
import time

from jobs import Job, draw_seed, expect, job

RANKS = 4
START_S, END_S = 80, 20
# The shell becomes the program, so its process id is the rank's.
NAMED = 'echo "rank $OMPI_COMM_WORLD_RANK pid $$"; exec "$@"'
LINE = r"rank (?P<rank>\d+) pid (?P<pid>\d+)|step +\d+/|image_graph: (?P<end>.*)"

graph, *mpirun = sys.argv[1:]
draw_seed()
command = job(mpirun, RANKS, "sh", "-c", NAMED, "sh", graph, "--steps", 10**8, survive=True)
with Job(command, LINE) as ranks:
    pids = {}
    until = time.monotonic() + START_S
    while True:
        line, _ = ranks.next_line(until)
        expect(not line["end"], f"a rank ended before any was killed: {line[0]}")
        if not line["pid"]:
            break
        pids[int(line["rank"])] = int(line["pid"])
    victim = random.randrange(RANKS)
    time.sleep(random.uniform(0, 0.5))
    print(f"rank {victim} is killed", flush=True)
    os.kill(pids[victim], signal.SIGKILL)
    ends = []
    until = time.monotonic() + END_S
    while len(ends) < RANKS - 1:
        line, _ = ranks.next_line(until)
        if line["end"]:
            ends.append(line["end"])
    ranks.wait(END_S)
for end in ends:
    print(end)
    expect(re.search(rf"\brank {victim}\b", end), f"it does not name rank {victim}: {end}")
    expect(end.startswith("step: "), f"it did not end in a step: {end}")
expect(any("node '" in end for end in ends), "none names a node")
