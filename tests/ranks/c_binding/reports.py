"""The report of weft_world_report as a JSON parser reads it: its members are those that weft/c/world.h names.

Usage: reports.py HEADER PROGRAM ARGUMENT...    (PROGRAM prints the report as a line of its own)
"""

import json
import pathlib
import re
import subprocess
import sys


def names_in(value, found):
    if isinstance(value, dict):
        for name, inner in value.items():
            found.add(name)
            names_in(inner, found)
    elif isinstance(value, list):
        for inner in value:
            names_in(inner, found)


def main():
    done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"failed: the program ended with {done.returncode}")
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    text = pathlib.Path(sys.argv[1]).read_text()
    text = re.sub(r"\s*\n \* ?", " ", text)  # lines of the comment may break anywhere
    text = text[text.index('{"version": 1'):text.index("A later version may have")]
    documented, found = set(re.findall(r'"(\w+)"', text)) | {"counters"}, set()
    names_in(report, found)
    if report["version"] != 1 or report["size"] != len(report["paths"]):
        sys.exit(f"failed: the report has version {report['version']} and {len(report['paths'])} paths")
    # By shared memory, and before the first slot, there are neither rails nor edges.
    if missing := documented - found - {"own", "up", "slot", "role", "way"}:
        sys.exit(f"failed: the report has no {', '.join(sorted(missing))}")
    if unknown := found - documented:
        sys.exit(f"failed: the header names no {', '.join(sorted(unknown))}")
    print(f"{len(found)} of {len(documented)} members")


main()
