"""The training example on two guests, by RDMA, learns bit for bit what it learns on this machine through
shared memory, and its transfers cost what they must: one WRITE each, nothing copied, nothing registered and no
control message once the job has settled.

Usage: training.py GUESTS RANKS_SH PROGRAM TEXT MPIRUN [FLAG ...]
"""

import os
import shlex
import subprocess
import sys
import tempfile

from jobs import Failures, job
from training_report import expect_all_steady, files_in, losses_and_report

RANKS = 4
MODEL = "--steps 40 --hidden 48 --embed 16 --length 24 --batch 8 --sample 0".split()


def run(command, setting, folder=None):
    done = subprocess.run(command, env=os.environ | setting, cwd=folder)
    if done.returncode != 0:
        print(f"{shlex.join(command)} ended with {done.returncode}")
        sys.exit(done.returncode)


def train_here(program, text, mpirun, folder):
    run(job(mpirun, RANKS, program, "--text", text, *MODEL, *files_in(folder)), {"WEFT_FABRIC": "shm"})
    return losses_and_report(folder)


def train_on_guests(guests, ranks_sh, program, text, folder):
    ranks = ["bash", ranks_sh, "2", str(RANKS), program, "--text", text, *MODEL]
    script = shlex.join(ranks) + ' --losses "$OUT/losses" --json "$OUT/report"'
    command = [guests, "run", "--seconds", "240", "--", "bash", "-c", script]
    run(command, {"WEFT_REQUIRE": "rdma"}, folder)
    return losses_and_report(os.path.join(folder, "guests.out"))


guests, ranks_sh, program, text, *mpirun = sys.argv[1:]
failures = Failures()
with tempfile.TemporaryDirectory() as folder:
    here, _ = train_here(program, text, mpirun, folder)
    there, report = train_on_guests(guests, ranks_sh, program, text, folder)
transfers = report["transfers"]
differ = [pair for pair in zip(here, there) if pair[0] != pair[1]]
same = here and len(here) == len(there) and not differ
failures.expect(same, f"{len(differ)} of {len(here)} losses differ: {differ[:1]}")
far = {path["peer"]: path["fabric"] for path in transfers["paths"] if path["host"] != "node0"}
print("ranks on the other guest:", far)
by_verbs = len(far) == RANKS // 2 and set(far.values()) == {"verbs"}
failures.expect(by_verbs, f"the ranks of node1 must be reached by verbs: {far}")
by_fabric = {}
for edge in transfers["edges"]:
    by_fabric[edge["fabric"]] = by_fabric.get(edge["fabric"], 0) + edge["counters"]["transfers"]
print("transfers of rank 0 by fabric:", by_fabric)
failures.expect(by_fabric.get("verbs", 0) > 0, "rank 0 has moved nothing by verbs")
expect_all_steady(failures, transfers)
failures.end()
