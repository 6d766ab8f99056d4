"""Runs a job of which some ranks are killed on purpose, so that the launcher's own exit status says nothing: the output
must have the given words, and must not say that a check failed.

Usage: says.py [--never WORDS] [--hosts RANKS_SH] RANKS PROGRAM WORDS ... -- MPIRUN [FLAG ...]

--hosts: a rank on each host of the network namespaces that this runs in (tests/hosts), without MPIRUN.
"""

import argparse
import os
import sys

from jobs import Failures, job, run

at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
parser = argparse.ArgumentParser()
parser.add_argument("--never", default=" failed: ")
parser.add_argument("--hosts")
parser.add_argument("ranks")
parser.add_argument("program")
parser.add_argument("words", nargs="+")
given = parser.parse_args(sys.argv[1:at])

if given.hosts:
    flags = os.environ["HOSTS_MPIRUN"] + " --enable-recovery"
    done = run(["bash", given.hosts, given.ranks, given.program], HOSTS_MPIRUN=flags)
else:
    done = run(job(sys.argv[at + 1 :], given.ranks, given.program, survive=True))
print(done.stdout)
failures = Failures()
for words in given.words:
    failures.expect(words in done.stdout, f"missing: {words}")
failures.expect(given.never not in done.stdout, f"it says {given.never!r}")
failures.end()
