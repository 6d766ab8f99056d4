"""The image classifier learns on GPUs as it does on the processor: the losses of each step are the same to 1e-4, whatever
the number of ranks, by a parameter server and by all_reduce. A step that is captured as a graph gives the very same
losses. Without a driver the program says so in one line.

Usage: gpu_as_host.py ON_STAND_IN ON_MACHINE STEPS MPIRUN [FLAG ...]
With one program twice it runs on the machine's own GPUs, whose functions round otherwise: to 1e-3.
"""

import os
import sys
import tempfile

from jobs import Failures, expect, job, run

# With seed 1 a rounding decides which pixel is a window's maximum (tests/ranks/examples/graph_as_by_hand.py).
OPTIONS = ["--seed", 2, "--batch", 8]

on_stand_in, on_machine, steps, *mpirun = sys.argv[1:]
MOST = 1e-4 if on_stand_in != on_machine else 1e-3


def alone(**settings):
    return run([on_machine, "--on", "gpu", "--steps", "1", "--batch", "1"], **settings)


if on_stand_in == on_machine:
    tried = alone()
    if tried.returncode != 0:
        print(f"skipped: {tried.stdout}")
        sys.exit(77)


def losses(ranks, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "losses")
        done = run(job(mpirun, ranks, on_stand_in, "--steps", steps, "--losses", file, *OPTIONS, *options), seconds=60)
        expect(done.returncode == 0, f"{options} on {ranks} ranks ended with {done.returncode}:\n{done.stdout}")
        expect("stand-in driver:" not in done.stdout, done.stdout)
        with open(file) as lines:
            found = [float(line.split()[1]) for line in lines]
    expect(len(found) == int(steps), f"{len(found)} losses of {steps} steps")
    return found


failures = Failures()
for ranks in (1, 2, 4):
    right = losses(ranks, "--on", "host")
    failures.expect(right[-1] != right[0], "nothing is learned")
    for options in (["--on", "gpu"], ["--on", "gpu", "--all-reduce"], ["--on", "host", "--all-reduce"]):
        mine = losses(ranks, *options)
        worst = max(abs(a - b) for a, b in zip(mine, right))
        print(f"{ranks} ranks, {' '.join(options)}: losses from {right[0]:.4f} to {right[-1]:.4f}, "
              f"which differ by at most {worst:.2e}")
        failures.expect(worst <= MOST, f"{ranks} ranks, {options}: the losses differ by {worst:.2e}")
        if options == ["--on", "gpu", "--all-reduce"]:
            graphed = losses(ranks, *options, "--graph")
            failures.expect(graphed == mine, f"{ranks} ranks: losses by a graph differ: {graphed}, {mine}")

# A machine without a driver, as far as the program can tell.
tried = alone(LD_LIBRARY_PATH="/nonexistent")
if tried.returncode == 0:
    print("this machine has a driver: that the program can do without one is not tested")
else:
    lines = tried.stdout.splitlines()
    failures.expect(tried.returncode == 3 and len(lines) == 1 and "driver" in lines[0], tried.stdout)
failures.end()
