"""A rank of the network as a graph is killed in a step: the others end with its name. Started again, the job goes on from
its newest checkpoint with the losses of a run that nobody disturbed, bit by bit.

Usage: graph_resumes.py GRAPH MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import os
import sys
import tempfile

from jobs import draw_seed, expect, job, run, until
from killed_graph import START_S, kill_one

RANKS = 3
EVERY = 3
MORE = 8  # steps after the restart

graph, *mpirun = sys.argv[1:]
draw_seed()


def lines_of(file):
    if not os.path.exists(file):
        return []
    with open(file) as lines:
        return [line.rstrip("\n") for line in lines]


def complete(folder):
    """The checkpoints that are whole, as numbers of steps."""
    at = os.path.join(folder, "image_graph")
    names = os.listdir(at) if os.path.isdir(at) else []
    return sorted(int(name) for name in names
                  if name.isdigit() and os.path.exists(os.path.join(at, name, "manifest.json")))


def train(folder, file, steps, *options):
    done = run(job(mpirun, RANKS, graph, "--steps", steps, "--losses", os.path.join(folder, file), *options))
    expect(done.returncode == 0, f"{file} ended with {done.returncode}:\n{done.stdout}")
    return lines_of(os.path.join(folder, file)), done.stdout


def disturb(folder, saving):
    losses = os.path.join(folder, "disturbed")
    kill_one(
        mpirun,
        RANKS,
        graph,
        "--losses",
        losses,
        *saving,
        ready=lambda _: until("there are two checkpoints", START_S, lambda: len(complete(folder)) >= 2),
        longest=0.3,
    )
    return lines_of(losses)


with tempfile.TemporaryDirectory() as folder:
    saving = ("--checkpoint", folder, "--checkpoint-every", EVERY)
    disturbed = disturb(folder, saving)
    saved = complete(folder)[-1]
    steps = saved + MORE
    print(f"killed in step {len(disturbed) + 1}, goes on after step {saved}", flush=True)
    resumed, said = train(folder, "resumed", steps, *saving)
    expect(f"goes on after step {saved}\n" in said, f"it does not say where it goes on:\n{said}")
    undisturbed, _ = train(folder, "undisturbed", steps)
    expect(len(undisturbed) == steps and len(set(undisturbed)) == steps, f"{len(undisturbed)} losses of {steps} steps")
    both = min(len(disturbed), steps)
    expect(disturbed[:both] == undisturbed[:both], "two runs differ before any kill")
    expect(resumed == undisturbed[saved:], f"the resumed run is another one:\n{resumed}\n{undisturbed[saved:]}")
    expect(complete(folder)[-1] == steps - steps % EVERY, "the resumed run saves no more")
