"""The training example on several hosts without RDMA learns bit for bit what it learns on one through shared
memory, also with compressed gradients, and its transfers cost what they must: one request each, nothing copied, nothing registered and no control
message once the job has settled.

On host1: training.py RANKS_SH PROGRAM TEXT
"""

import json
import os
import subprocess
import sys
import tempfile

RANKS = "4"
MODEL = "--steps 40 --hidden 48 --embed 16 --length 24 --batch 8 --sample 0".split()


def train(ranks_sh, program, text, hosts, settings, *more):
    with tempfile.TemporaryDirectory() as folder:
        losses, report = os.path.join(folder, "losses"), os.path.join(folder, "report")
        command = ["bash", ranks_sh, RANKS, program, "--text", text, *MODEL, *more, "--losses", losses, "--json", report]
        done = subprocess.run(command, env={**os.environ, "HOSTS": hosts, **settings}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\n{command} with {settings} ended with {done.returncode}")
        with open(losses) as lines, open(report) as numbers:
            return lines.read().splitlines(), json.load(numbers)["transfers"]


def main():
    here, _ = train(*sys.argv[1:], "1", {"WEFT_FABRIC": "shm"})
    there, report = train(*sys.argv[1:], os.environ["HOSTS"], {})
    failures = []
    if not here or here != there:
        failures.append(f"the losses differ: {[pair for pair in zip(here, there) if pair[0] != pair[1]][:1]}")
    for kind in ("int8", "top_k"):
        some = ("--compress", kind)
        if train(*sys.argv[1:], "1", {"WEFT_FABRIC": "shm"}, *some)[0] != train(
                *sys.argv[1:], os.environ["HOSTS"], {}, *some)[0]:
            failures.append(f"the losses differ with gradients compressed by {kind}")
    fabrics = {path["host"]: path["fabric"] for path in report["paths"]}
    print("hosts are reached by", fabrics)
    if fabrics != {"host1": "shm", "host2": "tcp"}:
        failures.append(f"host1 must be reached by shm and host2 by tcp: {fabrics}")
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
