"""A rank of the network as a graph is killed in a step: all others end with an error that has its name.

Usage: graph_killed.py GRAPH MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import sys
import time

from jobs import draw_seed, expect
from killed_graph import START_S, kill_one


def until_a_step(running):
    end = time.monotonic() + START_S
    while True:
        line, _ = running.next_line(end)
        expect(not line["end"], f"a rank ended before any was killed: {line[0]}")
        if not line["pid"]:
            return


graph, *mpirun = sys.argv[1:]
draw_seed()
ends = kill_one(mpirun, 4, graph, ready=until_a_step, longest=0.5)
expect(any("node '" in end for end in ends), "none names a node")
