"""The training example on two guests, by RDMA, learns bit for bit what it learns on this machine through
shared memory, and its transfers cost what they must: one WRITE each, nothing copied, nothing registered and no
control message once the job has settled.

Usage: training.py GUESTS RANKS_SH PROGRAM TEXT MPIRUN [FLAG ...]
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile

RANKS = 4
MODEL = "--steps 40 --hidden 48 --embed 16 --length 24 --batch 8 --sample 0".split()


def losses_and_report(folder):
    with open(os.path.join(folder, "losses")) as file:
        losses = file.read().splitlines()
    with open(os.path.join(folder, "report")) as file:
        return losses, json.load(file)["transfers"]


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    print(done.stdout)
    if done.returncode != 0:
        print(f"{shlex.join(command)} ended with {done.returncode}")
        sys.exit(done.returncode)


def train_here(program, text, mpirun, folder):
    files = ["--losses", os.path.join(folder, "losses"), "--json", os.path.join(folder, "report")]
    environment = {**os.environ, "WEFT_FABRIC": "shm"}
    run([*mpirun, "-n", str(RANKS), program, "--text", text, *MODEL, *files], env=environment)
    return losses_and_report(folder)


def train_on_guests(guests, ranks_sh, program, text, folder):
    ranks = ["bash", ranks_sh, "2", str(RANKS), program, "--text", text, *MODEL]
    script = shlex.join(ranks) + ' --losses "$OUT/losses" --json "$OUT/report"'
    environment = {**os.environ, "WEFT_REQUIRE": "rdma"}
    command = [guests, "run", "--seconds", "240", "--", "bash", "-c", script]
    run(command, cwd=folder, env=environment)
    return losses_and_report(os.path.join(folder, "guests.out"))


def main():
    guests, ranks_sh, program, text, *mpirun = sys.argv[1:]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        here, _ = train_here(program, text, mpirun, folder)
        there, report = train_on_guests(guests, ranks_sh, program, text, folder)
    differ = [pair for pair in zip(here, there) if pair[0] != pair[1]]
    if not here or len(here) != len(there) or differ:
        failures.append(f"{len(differ)} of {len(here)} losses differ: {differ[:1]}")
    far = {path["peer"]: path["fabric"] for path in report["paths"] if path["host"] != "node0"}
    print("ranks on the other guest:", far)
    if len(far) != RANKS // 2 or set(far.values()) != {"verbs"}:
        failures.append(f"the ranks of node1 must be reached by verbs: {far}")
    by_fabric = {}
    for edge in report["edges"]:
        by_fabric[edge["fabric"]] = by_fabric.get(edge["fabric"], 0) + edge["counters"]["transfers"]
    print("transfers of rank 0 by fabric:", by_fabric)
    if by_fabric.get("verbs", 0) == 0:
        failures.append("rank 0 has moved nothing by verbs")
    for number, counters in enumerate([report["job"], *report["ranks"]]):
        who = f"rank {number - 1}" if number else "the job"
        print(f"{who}, {report['steps']} settled steps: {counters}")
        for counter in ("bytes_copied", "registrations", "control_messages"):
            if counters[counter] != 0:
                failures.append(f"{who}: {counter} is {counters[counter]} in the steady state")
        if counters["transfers"] == 0 or counters["work_requests"] != counters["transfers"]:
            failures.append(f"{who}: {counters['work_requests']} requests for {counters['transfers']} transfers")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
