"""Runs a job of four ranks for each collective. The last rank kills itself some milliseconds into a loop
of calls, with shared memory, and over TCP with the algorithms of several rounds where there are any. Each of
the three others must report that all its checks passed.

Usage: collective_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import subprocess
import sys

KINDS = ["barrier", "broadcast", "reduce", "all_reduce", "reduce_scatter", "all_gather", "gather",
         "scatter", "all_to_all", "scan"]


BY_ROUNDS = {"WEFT_FABRIC": "tcp",
             "WEFT_COLL": "barrier=doubling,broadcast=ring,all_reduce=doubling,all_gather=ring"}


def survives(job, settings, what):
    done = subprocess.run(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, env=os.environ | settings)
    survivors = sum(f"rank {rank} survived" in done.stdout for rank in range(3))
    if survivors != 3:
        print(done.stdout)
        print(f"{what}: {survivors} of 3 ranks survived as they must")
    return survivors == 3


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    for index, kind in enumerate(KINDS):
        job = [*mpirun, "--enable-recovery", "-n", "4", program, kind, str(2 + 3 * index)]
        if not survives(job, {}, kind) or not survives(job, BY_ROUNDS, f"{kind} over TCP"):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
