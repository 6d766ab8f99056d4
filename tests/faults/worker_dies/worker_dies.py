"""For each kind of table that is not in step a few jobs of three workers and a server, in which one
worker kills itself some milliseconds into training. The other ranks must each say that everything
was as it must be.

Usage: worker_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import random
import subprocess
import sys

KINDS = ["ssp", "async", "k_of_n"]
RUNS = 2
SURVIVORS = [0, 2, 3]


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    random.seed(seed)
    for kind in KINDS * RUNS:
        moment = str(random.randrange(1, 40))
        job = [*mpirun, "--enable-recovery", "-n", "4", program, kind, moment]
        done = subprocess.run(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60)
        survivors = sum(f"rank {rank} survived" in done.stdout for rank in SURVIVORS)
        if survivors != len(SURVIVORS):
            print(done.stdout)
            print(f"{kind}, {moment} ms: {survivors} ranks survived as they must")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
