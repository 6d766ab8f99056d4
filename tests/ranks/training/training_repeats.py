"""Training is reproducible, learns, and costs what it says.

Two runs of the same ranks give the same bits; other numbers of ranks give the same losses to
rounding; the steady state copies nothing, registers nothing and sends no control message.

Usage: training_repeats.py PROGRAM TEXT MPIRUN [FLAG ...]
"""

import json
import os
import subprocess
import sys
import tempfile

STEPS = 60
ROUNDING = 1e-4


def train(ranks, folder, name):
    program, text, mpirun = sys.argv[1], sys.argv[2], sys.argv[3:]
    losses, report = os.path.join(folder, name + ".losses"), os.path.join(folder, name + ".json")
    command = [*mpirun, "-n", str(ranks), program, "--text", text, "--steps", str(STEPS)]
    command += ["--sample", "0", "--losses", losses, "--json", report]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {ranks} ranks ended with {done.returncode}:\n{done.stdout}")
    with open(losses) as file:
        values = [float.fromhex(word) for line in file for word in line.split()[-1:]]
    with open(report) as file:
        return values, json.load(file)


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        first, report = train(4, folder, "first")
        again, _ = train(4, folder, "again")
        alone, _ = train(1, folder, "alone")
        crowd, _ = train(8, folder, "crowd")
    if len(first) != STEPS:
        failures.append(f"{len(first)} losses of {STEPS} steps")
    if first != again:
        failures.append("two runs of 4 ranks differ")
    for name, other in (("1 rank", alone), ("8 ranks", crowd)):
        worst = max(abs(a - b) / abs(b) for a, b in zip(other, first))
        print(f"{name} against 4: losses differ by at most {worst:.2e}, relative")
        if worst > ROUNDING:
            failures.append(f"{name} differs from 4 ranks by {worst:.2e}")
    if not first[-1] < 0.7 * first[0]:
        failures.append(f"the loss went from {first[0]} to {first[-1]} only")
    job = report["transfers"]["job"]
    print("steady state of the job:", job)
    for counter in ("bytes_copied", "registrations", "control_messages"):
        if job[counter] != 0:
            failures.append(f"{counter} is {job[counter]} in the steady state")
    if job["transfers"] == 0 or job["work_requests"] != job["transfers"]:
        failures.append(f"{job['work_requests']} work requests for {job['transfers']} transfers")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
