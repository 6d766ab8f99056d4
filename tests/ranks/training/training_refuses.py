"""A text that can't be learned ends the job with one clear line and a non-zero exit.

Usage: training_refuses.py PROGRAM TEXT MPIRUN [FLAG ...]
"""

import os
import subprocess
import sys
import tempfile


def main():
    program, mpirun = sys.argv[1], sys.argv[3:]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        texts = {
            "missing": None,
            "empty": b"",
            "binary": b"\x7fELF\x02\x01\x00\x00" + bytes(range(256)) * 16,
        }
        for kind, content in texts.items():
            path = os.path.join(folder, kind + ".txt")
            if content is not None:
                with open(path, "wb") as file:
                    file.write(content)
            # Each case also with one rank: mpirun ends the others when the first rank fails.
            for ranks, command in ((1, [program]), (2, [*mpirun, "-n", "2", program])):
                done = subprocess.run(
                    [*command, "--text", path],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                lines = [line for line in done.stdout.splitlines() if path in line]
                print(f"{kind}, {ranks} ranks: exit {done.returncode}: {lines[:1]}")
                if done.returncode == 0:
                    failures.append(f"{kind}, {ranks} ranks: exit 0")
                if not 1 <= len(lines) <= ranks:
                    failures.append(f"{kind}, {ranks} ranks: {len(lines)} lines name the file")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
