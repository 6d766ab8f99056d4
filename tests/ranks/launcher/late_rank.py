"""A rank that never arrives is named by every other rank, within WEFT_INIT_TIMEOUT.

Usage: late_rank.py PROGRAM MPIRUN [FLAG ...]
"""

import re
import sys

from jobs import Failures, job, run

LIMIT_S = 3.0
SLACK_S = 1.0

program, *mpirun = sys.argv[1:]
# mpirun fails if a rank ends without joining; only the ranks' own lines count.
done = run(job(mpirun, 3, program), WEFT_INIT_TIMEOUT=f"{LIMIT_S:.0f}s")
print(done.stdout, flush=True)
refused = re.findall(r"rank (\d) refused after ([\d.]+) s: (\w+): (.*)", done.stdout)
failures = Failures()
failures.expect(sorted(rank for rank, *_ in refused) == ["0", "2"], "ranks 0 and 2 must both be refused")
for rank, took, code, text in refused:
    failures.expect(code == "timeout", f"rank {rank}: the code is {code}, not timeout")
    failures.expect("rank 1" in text, f"rank {rank}: the text does not name rank 1")
    failures.expect(float(took) <= LIMIT_S + SLACK_S, f"rank {rank}: it took {took} s, the limit was {LIMIT_S} s")
failures.end()
