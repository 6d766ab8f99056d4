"""The example whose survivors begin anew, with one or two ranks that weft-chaos kills: the others end with
the line found, from a checkpoint.

Usage: survivors.py PROGRAM CHAOS MPIRUN [FLAG ...]
WEFT_TEST_SEED repeats a kill.
"""

import os
import re
import sys
import tempfile

from jobs import draw_seed, expect, job, run

RANKS = 4
STEPS = 600

program, chaos, *mpirun = sys.argv[1:]
seed = str(draw_seed())
with tempfile.TemporaryDirectory(prefix="survivors-") as folder:
    command = [chaos, "--seed", seed, "--kill", "--times", "2", "--after", "2", "--within", "4", "--"]
    done = run([*command, *job(mpirun, RANKS, program, folder, STEPS, survive=True)], seconds=150)
print(done.stdout)
killed = set(re.findall(r"s: kill rank (\d+) ", done.stdout))
expect(killed, "no rank was killed")
left = RANKS - len(killed)
found = re.findall(rf"rank (\d+) of {left} left: (?:.*, found|served)", done.stdout)
served = re.findall(rf"rank \d+ of {left} left: served", done.stdout)
versions = re.findall(rf"rank \d+ goes on as one of {left} from version (\d+)", done.stdout)
expected = sorted({str(rank) for rank in range(RANKS)} - killed)
expect(sorted(found) == expected, f"ranks {expected} should have found the line as {left}, and {sorted(found)} did")
expect(len(served) == int(os.environ.get("WEFT_PS_SERVERS", "0")), f"{len(served)} of them served")
expect(versions and int(versions[-1]) > 0, "they did not go on from a checkpoint")
