"""weft-info --job as every rank of a job: rank 0 alone prints each rank's paths, with reasons.

Usage: job_table.py WEFT_INFO MPIRUN [FLAG ...]
"""

import json
import subprocess
import sys

from jobs import Failures, job

RANKS = 3

weft_info, *mpirun = sys.argv[1:]
command = job(mpirun, RANKS, weft_info, "--job")
done = subprocess.run(command, capture_output=True, text=True, timeout=60)
failures = Failures()
failures.expect(done.returncode == 0, f"exit code {done.returncode}")
try:
    table = json.loads(done.stdout)
except json.JSONDecodeError as error:
    sys.exit(f"not one JSON document: {error}\n{done.stdout}{done.stderr}")
right = table["schema"] == "weft-job/1" and table["size"] == RANKS
failures.expect(right, f"schema {table['schema']}, size {table['size']}")
failures.expect([rank["rank"] for rank in table["ranks"]] == list(range(RANKS)), "not every rank, in order")
pids = {rank["rank"]: rank["pid"] for rank in table["ranks"]}
for rank in table["ranks"]:
    peers = [path["peer"] for path in rank["paths"]]
    failures.expect(peers == list(range(RANKS)), f"rank {rank['rank']} does not name every peer")
    for path in rank["paths"]:
        where = f"rank {rank['rank']} to {path['peer']}"
        failures.expect(path["pid"] == pids[path["peer"]], f"{where}: pid {path['pid']}")
        chosen = path["fabric"] == "shm" and path["reason"]
        failures.expect(chosen, f"{where}: {path['fabric']}, because {path['reason']!r}")
        against = path["others"] and all(other["reason"] for other in path["others"])
        failures.expect(against, f"{where}: nothing is said against the other fabrics")
if failures.texts:
    print(done.stdout, done.stderr)
failures.end()
