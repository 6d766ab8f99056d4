"""Where libpmix is missing or another, a rank of a launcher says so by one line; jobs that need no launcher run.

Usage: without_pmix.py CC PROGRAM MPIRUN [FLAG ...]. The program also runs alone, as a world of one."""

import os
import pathlib
import subprocess
import sys
import tempfile

from jobs import Failures, run, without_launcher

cc, program, *mpirun = sys.argv[1:]
failures = Failures()
with tempfile.TemporaryDirectory() as folder:
    other = pathlib.Path(folder, "libpmix.so.2")
    for what, told in (("other", "has no PMIx_Init: weft needs PMIx 4.2"), ("broken", "its PMIx can't be loaded")):
        if what == "other":
            subprocess.run([cc, "-shared", "-Wl,-soname,libpmix.so.2", "-o", other, "-x", "c", "/dev/null"], check=True)
        else:
            other.write_text("no library")
        # The launcher itself needs its own.
        ended = run([*mpirun, "-x", f"LD_LIBRARY_PATH={folder}", "-n", "1", program])
        lines = [line for line in ended.stdout.splitlines() if told in line]
        failures.expect(ended.returncode != 0 and len(lines) == 1 and "install libpmix2" in lines[0], ended.stdout)
        alone = without_launcher({"LD_LIBRARY_PATH": folder} | {"PATH": os.environ["PATH"]})
        ended = run([program], env=alone)
        failures.expect(ended.returncode == 0, f"alone, with a libpmix that is {what}: {ended.stdout}")
failures.end()
