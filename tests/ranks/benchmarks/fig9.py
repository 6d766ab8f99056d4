"""weft-bench fig9 trains its smallest example by each way with the same losses, bit by bit, and writes all of it.

Usage: fig9.py WEFT_BENCH ... (weft-bench starts the launcher itself)
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

from jobs import expect

program = sys.argv[1]
STEPS = 24
WAYS = ["views", "slots", "copies", "rpc"]
if os.path.exists(os.path.join(os.path.dirname(program), "peer-grpc")):
    WAYS.append("grpc")


def run(*words):
    return subprocess.run([program, "fig9", *words], capture_output=True, text=True, check=False)


def check_files(folder):
    files = {kind: os.path.join(folder, f"fig9.{kind}") for kind in ("json", "csv", "svg")}
    flags = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    ended = run("--quick", "--examples", "embedder", "--steps", str(STEPS), "--runs", "1", *flags)
    expect(ended.returncode == 0, ended.stderr)
    with open(files["json"], encoding="utf-8") as file:
        (example,) = json.load(file)["examples"]
    expect(example["same_losses"] is True, f"{ended.stdout}")
    expect(len(example["losses"]) == STEPS and example["target_step"] is None, f"{example}")
    expect([way["way"] for way in example["ways"]] == WAYS, f"{example['ways']}")
    for way in example["ways"]:
        seconds = way["seconds_by_step"]
        expect(len(seconds) == STEPS and seconds == sorted(seconds) and way["seconds"] == seconds[-1], f"{way}")
    with open(files["csv"], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expect([row["way"] for row in rows] == [way for way in WAYS for _ in range(STEPS)], "a row for each step")
    expect(os.path.exists(files["svg"]) or "matplotlib" in ended.stderr, ended.stderr)
    expect("paper: to loss 4.5 in 185 min" in ended.stdout, ended.stdout)
    expect("is not reached in 24 steps" in ended.stdout, ended.stdout)


def check_tcp():
    ended = run("--examples", "embedder", "--steps", "3", "--runs", "1", "--fabric", "tcp", "--ways", "views,slots")
    expect(ended.returncode == 0 and "left out: views: the ranks share no memory" in ended.stderr, ended.stderr)


def check_refusals():
    for words, named in (
        ("--examples nope", "translator"),
        ("--ways nope", "rpc"),
        ("--fabric nope", "tcp"),
        ("--steps 0", "--steps"),
        ("--nope", "--nope"),
    ):
        ended = run(*words.split())
        expect(ended.returncode == 2, f"{words}: exit status {ended.returncode}")
        expect(named in ended.stderr and ended.stderr.count("\n") == 1, f"{words}: one line, not: {ended.stderr}")


check_refusals()
with tempfile.TemporaryDirectory() as made:
    check_files(made)
check_tcp()
print("all ways have the same losses")
