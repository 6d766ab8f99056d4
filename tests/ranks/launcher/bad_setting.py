"""A bad setting that all ranks have is told once, whole, and every rank ends.

Usage: bad_setting.py PROGRAM MPIRUN [FLAG ...]
"""

import sys

from jobs import Failures, job, run

RULE = "all_reduce=slowly"

program, *mpirun = sys.argv[1:]
ended = run(job(mpirun, 3, program), WEFT_COLL=RULE)
print(ended.stdout, flush=True)
told = [line for line in ended.stdout.splitlines() if "WEFT_COLL" in line]
failures = Failures()
failures.expect(ended.returncode != 0, "the job ended as if all were well")
failures.expect(len(told) == 1, f"{len(told)} lines tell of WEFT_COLL, not one")
for words in (f'"{RULE}"', 'no algorithm is called "slowly"', "several with commas between"):
    failures.expect(all(words in line for line in told), f"the line does not have {words}")
failures.end()
