"""Starts four ranks, of which the last kills itself in the middle of an exchange. The three others
must each say that everything was as it must be.

Usage: rendezvous_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import subprocess
import sys

RUNS = 3


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    for run in range(RUNS):
        done = subprocess.run(
            [*mpirun, "--enable-recovery", "-n", "4", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        survivors = sum(f"rank {rank} survived" in done.stdout for rank in range(3))
        if survivors != 3:
            print(done.stdout)
            print(f"run {run}: {survivors} of 3 ranks survived as they must")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
