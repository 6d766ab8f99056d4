"""A text that can't be learned ends the job with one clear line and a non-zero exit.

Usage: training_refuses.py PROGRAM TEXT MPIRUN [FLAG ...]
"""

import pathlib
import sys
import tempfile

from jobs import Failures, job, run

TEXTS = {"missing": None, "empty": b"", "binary": b"\x7fELF\x02\x01\x00\x00" + bytes(range(256)) * 16}

program, _, *mpirun = sys.argv[1:]
failures = Failures()
with tempfile.TemporaryDirectory() as folder:
    for kind, content in TEXTS.items():
        path = pathlib.Path(folder, kind + ".txt")
        if content is not None:
            path.write_bytes(content)
        # Each case also with one rank: mpirun ends the others when the first rank fails.
        for ranks, command in ((1, [program]), (2, job(mpirun, 2, program))):
            done = run([*command, "--text", str(path)])
            lines = [line for line in done.stdout.splitlines() if str(path) in line]
            print(f"{kind}, {ranks} ranks: exit {done.returncode}: {lines[:1]}")
            failures.expect(done.returncode != 0, f"{kind}, {ranks} ranks: exit 0")
            failures.expect(1 <= len(lines) <= ranks, f"{kind}, {ranks} ranks: {len(lines)} lines name the file")
failures.end()
