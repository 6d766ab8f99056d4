"""An experiment of the paper runs on its smallest model: parameters are checked, the rows have each way that was asked
for, and the paper's figures stand beside them. Bad options end with one line.

Usage: experiment_run.py WEFT_BENCH EXPERIMENT ... (weft-bench starts the launcher itself)
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

from jobs import expect

QUICK = ["--quick", "--runs", "1", "-c"]
WAYS = ["views", "slots", "rendezvous", "copied", "rpc"]
# The words of each, and what its rows must have: {column: values}. Where the words name no way gRPC is left out.
EXPECTED = {
    "fig6": (["--models", "gru"], {"line": {"variables", "bytes"}}),
    "table1": (["--models", "gru"], {"model": {"gru"}, "mib": {"27.92"}, "paper_mib": {"27.92"}}),
    "fig8": (
        [*QUICK, "--models", "gru", "--batches", "1,2", "--ways", ",".join(WAYS)],
        {"model": {"gru"}, "way": set(WAYS), "batch": {1, 2}, "ranks": {2}},
    ),
    "fig10": (
        [*QUICK, "--models", "lstm", "--batches", "1", "--ranks", "2,3", "--ways", "views,rpc"],
        {"model": {"lstm"}, "way": {"local", "views", "rpc"}, "ranks": {1, 2, 3}},
    ),
    "fig11": ([*QUICK, "--models", "gru"], {"model": {"gru"}, "way": {"views", "slots", "copied"}, "batch": {8}}),
    "poster": (
        [*QUICK, "--models", "lstm", "--batches", "1", "--ranks", "2", "--ways", "slots,traced,registered,copied",
         "--compute", "real"],
        {"model": {"lstm"}, "way": {"slots", "traced", "registered", "copied"}},
    ),
}  # fmt: skip
REFUSED = {
    "--models resnet": "gru, lstm, inception, alexnet, fcn-5, vgg-16",
    "--batches 3": "1, 2, 4, 8, 16, 32, 64, 128",
    "--ways mpi": "views, slots",
    "--fabric ib": "shm, tcp, verbs",
    "--compute guessed": "replayed, real",
    "--ranks 9": "1, 2, 3",
    "--nope 1": "--nope",
}


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def check_rows(rows, expected):
    for column, values in expected.items():
        seen = {row[column] for row in rows}
        expect(seen == values, f"{column} has {seen}, not {values}")
    for row in rows:
        if "way" not in row:
            continue
        figure = row.get("steps_per_s") or row.get("step_ms")
        expect(figure > 0 and row["low"] <= row["high"], f"{row}")


def check_by_way(name, rows):
    by_way = {row["way"]: row for row in rows if "way" in row}
    if name == "fig8":
        expect(by_way["views"]["over_rpc"] > 0 and by_way["rpc"]["over_rpc"] is None, f"{by_way}")
    if name == "fig11":
        expect(by_way["views"]["copied_mb"] == 0 and by_way["slots"]["copied_mb"] == 0, f"{by_way}")
        # Half of the parameters and of the gradients go to the other rank.
        expect(27 < by_way["copied"]["copied_mb"] < 32, f"{by_way['copied']}")
    if name == "poster":
        expect(by_way["slots"]["registrations"] == 0, f"{by_way['slots']}")
        expect(by_way["slots"]["unregistered"] == 1, f"{by_way['slots']}")


def runs_and_shows_its_rows(program, name):
    words, expected = EXPECTED[name]
    with tempfile.TemporaryDirectory() as folder:
        files = {end: os.path.join(folder, f"rows.{end}") for end in ("json", "csv")}
        ended = run(program, name, *words, "--json", files["json"], "--csv", files["csv"])
        expect(ended.returncode == 0, ended.stderr)
        with open(files["json"], encoding="utf-8") as file:
            document = json.load(file)
        with open(files["csv"], encoding="utf-8", newline="") as file:
            as_csv = list(csv.DictReader(file))
    rows = document["rows"]
    expect(document["experiment"] == name and len(as_csv) == len(rows) > 0, f"{document}")
    expect(document["beside"] and all(line in ended.stdout for line in document["beside"]), ended.stdout)
    expect(name in ("fig6", "table1") or "run 1 of 1" in ended.stderr, f"no progress: {ended.stderr}")
    check_rows(rows, expected)
    check_by_way(name, rows)


def refuses(program, name):
    for words, known in REFUSED.items():
        ended = run(program, name, *words.split())
        expect(ended.returncode == 2, f"{words}: exit status {ended.returncode}")
        said = ended.stderr
        expect(words.split()[0] in said and known in said and said.count("\n") == 1, f"{words}: one line, not: {said}")


def skips_aloud(program):
    """What can't be measured is a line, and leaves no file."""
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "picture.svg")
        ended = run(program, "table2", "--svg", picture)
        expect(ended.returncode == 0 and "table2: skipped: " in ended.stderr, ended.stderr)
        expect("690.1 off, 610.4 on" in ended.stdout, ended.stdout)
        if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
            ended = run(program, "fig8", "--fabric", "verbs", "--quick", "--models", "gru", "--svg", picture)
            expect(ended.returncode == 0 and "no RDMA device" in ended.stderr, ended.stderr)
        expect(not os.listdir(folder), f"{os.listdir(folder)}")


def main():
    program, name = sys.argv[1:3]
    if name == "table2":
        skips_aloud(program)
    else:
        runs_and_shows_its_rows(program, name)
    if name == "fig8":
        refuses(program, name)
    print("the rows are as promised")


main()
