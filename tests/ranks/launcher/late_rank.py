"""A rank that never arrives is named by every other rank, within WEFT_INIT_TIMEOUT.

Usage: late_rank.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import re
import subprocess
import sys

LIMIT_S = 3.0
SLACK_S = 1.0


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    command = [*mpirun, "-n", "3", program]
    environment = {**os.environ, "WEFT_INIT_TIMEOUT": f"{LIMIT_S:.0f}s"}
    # mpirun fails if a rank ends without joining; only the ranks' own lines count.
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout, flush=True)
    refused = re.findall(r"rank (\d) refused after ([\d.]+) s: (\w+): (.*)", done.stdout)
    failures = []
    if sorted(rank for rank, *_ in refused) != ["0", "2"]:
        failures.append("ranks 0 and 2 must both be refused")
    for rank, took, code, text in refused:
        if code != "timeout":
            failures.append(f"rank {rank}: the code is {code}, not timeout")
        if "rank 1" not in text:
            failures.append(f"rank {rank}: the text does not name rank 1")
        if float(took) > LIMIT_S + SLACK_S:
            failures.append(f"rank {rank}: it took {took} s, the limit was {LIMIT_S} s")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
