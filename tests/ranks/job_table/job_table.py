#!/usr/bin/env python3
"""weft-info --job as every rank of a job: rank 0 alone prints each rank's paths, with reasons.

    job_table.py RANKS COMMAND...
"""
import json
import subprocess
import sys

size = int(sys.argv[1])
done = subprocess.run(sys.argv[2:], capture_output=True, text=True, timeout=60, check=False)
wrong = []
if done.returncode != 0:
    wrong.append(f"exit code {done.returncode}")
try:
    job = json.loads(done.stdout)
except json.JSONDecodeError as error:
    sys.exit(f"not one JSON document: {error}\n{done.stdout}{done.stderr}")
if job["schema"] != "weft-job/1" or job["size"] != size:
    wrong.append(f"schema {job['schema']}, size {job['size']}")
if [rank["rank"] for rank in job["ranks"]] != list(range(size)):
    wrong.append("not every rank, in order")
pids = {rank["rank"]: rank["pid"] for rank in job["ranks"]}
for rank in job["ranks"]:
    if [path["peer"] for path in rank["paths"]] != list(range(size)):
        wrong.append(f"rank {rank['rank']} does not name every peer")
    for path in rank["paths"]:
        where = f"rank {rank['rank']} to {path['peer']}"
        if path["pid"] != pids[path["peer"]]:
            wrong.append(f"{where}: pid {path['pid']}")
        if path["fabric"] != "shm" or not path["reason"]:
            wrong.append(f"{where}: {path['fabric']}, because {path['reason']!r}")
        if not path["others"] or not all(other["reason"] for other in path["others"]):
            wrong.append(f"{where}: nothing is said against the other fabrics")
if wrong:
    sys.exit("\n".join(wrong + [done.stdout, done.stderr]))
