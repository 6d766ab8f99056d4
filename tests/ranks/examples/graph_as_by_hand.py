"""The network as a graph learns as the one by hand: its losses of the first steps are the same to 1e-4, whatever the
number of ranks and threads, by shared memory and by TCP. The latter also checks that edges without credits are safe.
Cut in two by model parallelism, they are the same to the bit.

Usage: graph_as_by_hand.py GRAPH BY_HAND STEPS MPIRUN [FLAG ...]
"""

import os
import sys
import tempfile

from jobs import Failures, expect, job, run

MOST = 1e-4
# With seed 1 on one rank a rounding decides which pixel is a window's maximum: the program by hand then differs from itself
# by 1.1e-4 if its learning rate is one unit in the last place smaller.
SEED = 2

graph, by_hand, steps, *mpirun = sys.argv[1:]


def losses(program, ranks, *options, **settings):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "losses")
        done = run(job(mpirun, ranks, program, "--steps", steps, "--losses", file, "--seed", SEED, *options), **settings)
        expect(done.returncode == 0, f"{program} on {ranks} ranks ended with {done.returncode}:\n{done.stdout}")
        with open(file) as lines:
            found = [float(line.split()[1]) for line in lines]
    expect(len(found) == int(steps), f"{len(found)} losses of {steps} steps")
    return found


failures = Failures()
CHECKED = {"WEFT_FABRIC": "tcp", "WEFT_CHECK": "flow"}
for ranks, threads, settings in ((1, 0, {}), (2, 1, {}), (3, 2, CHECKED)):
    right = losses(by_hand, ranks)
    mine = losses(graph, ranks, "--threads", threads, **settings)
    worst = max(abs(a - b) for a, b in zip(mine, right))
    print(f"{ranks} ranks: losses from {right[0]:.4f} to {right[-1]:.4f}, which differ by at most {worst:.2e}")
    failures.expect(worst <= MOST, f"{ranks} ranks: the losses differ by {worst:.2e}")
    failures.expect(right[-1] != right[0], "nothing is learned")
    cut = losses(graph, ranks, "--threads", threads, "--cut", **settings)
    failures.expect(cut == mine, f"{ranks} ranks: the losses of the network that is cut are {cut}, not {mine}")
failures.end()
