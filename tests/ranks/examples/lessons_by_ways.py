"""A training that moves tensors of changing shape has the same losses, bit by bit, by each way of its tensors, whatever
the number of threads, by shared memory and by TCP; and they fall. A bad flag ends it with one line.

Usage: lessons_by_ways.py PROGRAM STEPS MPIRUN [FLAG ...]
"""

import os
import subprocess
import sys
import tempfile

from jobs import Failures, expect, job, run

program, steps, *mpirun = sys.argv[1:]
name = os.path.basename(program)
WAYS = ("views", "slots", "copies", "rendezvous")
CHECKED = {"WEFT_FABRIC": "tcp", "WEFT_CHECK": "flow"}


def losses(ranks, way, *options, **settings):
    """As they are written, which is exact."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "losses")
        command = [program, "--steps", steps, "--way", way, "--losses", file, *options]
        done = run(job(mpirun, ranks, *command), **settings)
        expect(done.returncode == 0, f"{name} by {way} on {ranks} ranks ended with {done.returncode}:\n{done.stdout}")
        with open(file) as lines:
            found = [line.split()[1] for line in lines]
    expect(len(found) == int(steps), f"{len(found)} losses of {steps} steps")
    return found


def check_ways(failures, ranks):
    first = losses(ranks, "views")
    begun, ended = (sum(map(float.fromhex, part)) / 5 for part in (first[:5], first[-5:]))
    print(f"{ranks} ranks: losses from {begun:.4f} to {ended:.4f}", flush=True)
    failures.expect(ended < 0.95 * begun, f"{ranks} ranks: the losses do not fall: {begun:.4f}, {ended:.4f}")
    for way in WAYS[1:]:
        failures.expect(losses(ranks, way) == first, f"{ranks} ranks: the losses by {way} are others than by views")
    if ranks == 2:
        failures.expect(losses(ranks, "views", "--threads", 2) == first, "with threads the losses are others")
        failures.expect(losses(ranks, "slots", **CHECKED) == first, "by TCP the losses are others")


def check_dynamic_edges(failures):
    """The report says that the tensors that have a sentence's length change their shape."""
    done = run(job(mpirun, 2, program, "--steps", 2, "--report"))
    failures.expect(done.returncode == 0 and ": dynamic" in done.stdout, f"no dynamic edge in:\n{done.stdout}")


def check_refusals(failures):
    refused = (("--way nope", "views"), ("--batch 1", "--batch"), ("--steps 0", "--steps"), ("--nope", "--nope"))
    for flags, named in refused:
        done = subprocess.run([program, *flags.split()], capture_output=True, text=True, timeout=20)
        failures.expect(done.returncode == 2, f"{flags}: exit code {done.returncode}")
        right = named in done.stderr and done.stderr.count("\n") == 1
        failures.expect(right, f"{flags}: one line with {named}, not: {done.stderr}")


failures = Failures()
check_refusals(failures)
check_dynamic_edges(failures)
for ranks in (1, 2, 4):
    check_ways(failures, ranks)
failures.end()
