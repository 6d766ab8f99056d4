"""A rank of the network as a graph is killed in a step: the others end with its name. Started again, the job goes on from
its newest checkpoint with the losses of a run that nobody disturbed, bit by bit.

Usage: graph_resumes.py GRAPH MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import os
import random
import re
import signal
import sys
import tempfile
import time

from jobs import Job, draw_seed, expect, job, run, until

RANKS = 3
EVERY = 3
MORE = 8  # steps after the restart
START_S, END_S = 80, 20
# The shell becomes the program, so its process id is the rank's.
NAMED = 'echo "rank $OMPI_COMM_WORLD_RANK pid $$"; exec "$@"'
LINE = r"rank (?P<rank>\d+) pid (?P<pid>\d+)|image_graph: (?P<end>.*)"

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


def kill_one(folder, saving):
    losses = os.path.join(folder, "disturbed")
    command = job(mpirun, RANKS, "sh", "-c", NAMED, "sh", graph, "--steps", 10**8, "--losses", losses, *saving, survive=True)
    with Job(command, LINE) as ranks:
        pids = {}
        end = time.monotonic() + START_S
        while len(pids) < RANKS:
            line, _ = ranks.next_line(end)
            expect(not line["end"], f"a rank ended before any was killed: {line[0]}")
            pids[int(line["rank"])] = int(line["pid"])
        until("there are two checkpoints", START_S, lambda: len(complete(folder)) >= 2)
        victim = random.randrange(RANKS)
        time.sleep(random.uniform(0, 0.3))
        print(f"rank {victim} is killed", flush=True)
        os.kill(pids[victim], signal.SIGKILL)
        ends = []
        end = time.monotonic() + END_S
        while len(ends) < RANKS - 1:
            line, _ = ranks.next_line(end)
            if line["end"]:
                ends.append(line["end"])
        ranks.wait(END_S)
    for line in ends:
        expect(re.search(rf"\brank {victim}\b", line), f"it does not name rank {victim}: {line}")
        expect(line.startswith("step: "), f"it did not end in a step: {line}")
    return lines_of(losses)


with tempfile.TemporaryDirectory() as folder:
    saving = ("--checkpoint", folder, "--checkpoint-every", EVERY)
    disturbed = kill_one(folder, saving)
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
