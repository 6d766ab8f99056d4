"""A bad setting that all ranks have is told once, whole, and every rank ends.

Usage: bad_setting.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import subprocess
import sys

RULE = "all_reduce=slowly"


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    ended = subprocess.run(
        [*mpirun, "-n", "3", program],
        env={**os.environ, "WEFT_COLL": RULE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(ended.stdout, flush=True)
    told = [line for line in ended.stdout.splitlines() if "WEFT_COLL" in line]
    failures = []
    if ended.returncode == 0:
        failures.append("the job ended as if all were well")
    if len(told) != 1:
        failures.append(f"{len(told)} lines tell of WEFT_COLL, not one")
    for words in (f'"{RULE}"', 'no algorithm is called "slowly"', "several with commas between"):
        if not all(words in line for line in told):
            failures.append(f"the line does not have {words}")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
