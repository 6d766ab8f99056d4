"""The example whose survivors begin anew, with one or two ranks that weft-chaos kills: the others end with
the line found, from a checkpoint.

Usage: survivors.py PROGRAM CHAOS MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import os
import random
import re
import subprocess
import sys
import tempfile

RANKS = 4
STEPS = 600


def main():
    program, chaos, mpirun = sys.argv[1], sys.argv[2], sys.argv[3:]
    seed = os.environ.get("WEFT_TEST_SEED", str(random.randrange(1 << 31)))
    print(f"WEFT_TEST_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="survivors-") as folder:
        job = [*mpirun, "--enable-recovery", "-n", str(RANKS), program, folder, str(STEPS)]
        command = [chaos, "--seed", seed, "--kill", "--times", "2", "--after", "2", "--within", "4", "--", *job]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=150)
    print(done.stdout)
    killed = set(re.findall(r"s: kill rank (\d+) ", done.stdout))
    if not killed:
        print("no rank was killed")
        return 1
    left = RANKS - len(killed)
    found = re.findall(rf"rank (\d+) of {left} left: (?:.*, found|served)", done.stdout)
    served = re.findall(rf"rank \d+ of {left} left: served", done.stdout)
    versions = re.findall(rf"rank \d+ goes on as one of {left} from version (\d+)", done.stdout)
    expected = sorted({str(rank) for rank in range(RANKS)} - killed)
    if sorted(found) != expected:
        print(f"ranks {expected} should have found the line as {left}, and {sorted(found)} did")
        return 1
    if len(served) != int(os.environ.get("WEFT_PS_SERVERS", "0")):
        print(f"{len(served)} of them served")
        return 1
    if not versions or int(versions[-1]) == 0:
        print("they did not go on from a checkpoint")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
