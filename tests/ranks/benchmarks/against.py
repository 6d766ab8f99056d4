"""A benchmark beside another build: here the same one. Its time, its ratio and the verdict are in the text, in
the JSON and in the CSV. The ratio depends on the load of the machine, so the test checks only its form.

Usage: against.py WEFT_BENCH ... (weft-bench starts the launcher itself)
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

from jobs import expect


def run(program, *words):
    command = [program, "latency", "--quick", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_forms(program):
    other = os.path.dirname(program)
    with tempfile.TemporaryDirectory() as folder:
        rows, cells = os.path.join(folder, "rows.json"), os.path.join(folder, "rows.csv")
        ended = run(program, "--pairs", "3", "--against", other, "--json", rows, "--csv", cells)
        expect(ended.returncode == 0, ended.stderr)
        with open(rows, encoding="utf-8") as file:
            (row,) = json.load(file)["rows"]
        with open(cells, encoding="utf-8", newline="") as file:
            (line,) = csv.DictReader(file)

    expect(row["peers"].keys() == {"against"}, f"no peers unless asked: {row['peers']}")
    expect(row["peers"]["against"] > 0, f"{row}")
    compared = row["ratios"]["against"]
    expect(compared.keys() == {"ratio", "spread", "worse", "limit_ratio"} and compared["ratio"] > 0, f"{compared}")
    expect(float(line["against_us"]) > 0 and float(line["against_ratio"]) > 0, f"{line}")
    expect(line["worse"] == str(int(compared["worse"])), f"{line}, {compared}")

    heading, *_ = ended.stdout.splitlines()[1:]
    expect("against" in heading.split(), f"a column: {ended.stdout}")
    verdict = f"against {other}: {'' if compared['worse'] else 'no row is '}worse "
    expect(f"\n{verdict}" in ended.stdout, f"{verdict}: {ended.stdout}")
    expect(("\n  8 touched, 2 ranks: " in ended.stdout) == compared["worse"], ended.stdout)


def check_refusal(program, other, words):
    ended = run(program, "--pairs", "1", "--against", other)
    expect(ended.returncode != 0 and words in ended.stderr, f"{other} is accepted: {ended.stderr}")
    expect(ended.stderr.count("\n") == 1, f"one line, not: {ended.stderr}")


def check_refusals(program):
    with tempfile.TemporaryDirectory() as folder:
        check_refusal(program, folder, "is no weft-bench")
        stub = os.path.join(folder, "weft-bench")
        with open(stub, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ncase $1 in --help) printf '\\n  latency  8 bytes\\n' ;; *) echo '{}' ;; esac\n")
        os.chmod(stub, 0o755)
        check_refusal(program, folder, "another form")


check_forms(sys.argv[1])
check_refusals(sys.argv[1])
print("both builds stand side by side")
