"""The language model as a graph learns as train_charlm: its losses of the first steps are the same to 1e-4, whatever
the number of ranks and threads, by shared memory and by TCP. The latter also checks that edges without credits are
safe.

Usage: charlm_as_by_hand.py GRAPH BY_HAND TEXT STEPS MPIRUN [FLAG ...]
"""

import os
import sys
import tempfile

from jobs import Failures, expect, job, run

MOST = 1e-4
BATCH = 12  # for 1, 2 and 3 ranks

graph, by_hand, text, steps, *mpirun = sys.argv[1:]


def losses(program, ranks, *options, **settings):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "losses")
        command = [program, "--text", text, "--steps", steps, "--batch", BATCH, "--losses", file, *options]
        done = run(job(mpirun, ranks, *command), **settings)
        expect(done.returncode == 0, f"{program} on {ranks} ranks ended with {done.returncode}:\n{done.stdout}")
        with open(file) as lines:
            found = [float.fromhex(line.split()[1]) for line in lines]
    expect(len(found) == int(steps), f"{len(found)} losses of {steps} steps")
    return found


failures = Failures()
right = losses(by_hand, 1, "--sample", 0)
CHECKED = {"WEFT_FABRIC": "tcp", "WEFT_CHECK": "flow"}
for ranks, threads, settings in ((1, 0, {}), (2, 1, {}), (3, 2, CHECKED)):
    mine = losses(graph, ranks, "--threads", threads, **settings)
    worst = max(abs(a - b) for a, b in zip(mine, right))
    print(f"{ranks} ranks: losses from {right[0]:.4f} to {right[-1]:.4f}, which differ by at most {worst:.2e}")
    failures.expect(worst <= MOST, f"{ranks} ranks: the losses differ by {worst:.2e}")
failures.expect(right[-1] < right[0], "nothing is learned")
failures.end()
