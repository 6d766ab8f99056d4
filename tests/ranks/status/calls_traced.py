"""weft-trace draws collectives and messages, with an arrow from each contribution to each rank that gets it.

Usage: calls_traced.py BIN-FOLDER PROGRAM MPIRUN [FLAG ...]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter

from jobs import expect, job, joined, running

BIN, PROGRAM = sys.argv[1:3]
RANKS = 3


def tool(name, *arguments):
    ran = subprocess.run([os.path.join(BIN, name), *arguments], capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 0, f"{name}: {ran.returncode}: {ran.stderr}")
    return ran.stdout


def merged(pids, tmp):
    files = tool("weft-status", "--record", tmp, "--job", str(pids[0])).split()
    expect(len(files) == RANKS, files)
    trace = os.path.join(tmp, "trace.json")
    tool("weft-trace", "merge", *files, "-o", trace)
    with open(trace) as file:
        return json.load(file)["traceEvents"]


def check(events):
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    spans = [event for event in events if event["ph"] == "X" and event["cat"] == "collective"]
    expect(
        Counter(event["name"].split(" rank")[0] for event in spans)
        == {"all_reduce 1": RANKS, "all_reduce 2": RANKS, "broadcast 3": RANKS},
        spans,
    )
    for span in spans:
        expect(tracks[span["pid"], span["tid"]] == "group of ranks 0-2 (calls)", f"{span} in {tracks}")
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    arrows = Counter()
    for end in (event for event in events if event["ph"] == "f"):
        begun = starts[end["id"]]
        expect(begun["ts"] <= end["ts"], f"it ends before it begins: {begun} {end}")
        name = tracks[begun["pid"], begun["tid"]].split(" ")[0]
        arrows[name, begun["pid"], end["pid"]] += 1
    pairs = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]
    # Two calls to which each rank contributes, and one to which rank 1 alone does.
    wanted = {("group", a, b): 3 if a == 1 else 2 for a, b in pairs}
    expect({key: count for key, count in arrows.items() if key[0] == "group"} == wanted, arrows)
    expect({key: count for key, count in arrows.items() if key[0] == "messages"} == {("messages", 0, 1): 2}, arrows)


def main():
    with tempfile.TemporaryDirectory(prefix="job-") as tmp:
        with running(job(sys.argv[3:], RANKS, PROGRAM, "traced"), WEFT_RECORD="all") as ranks:
            pids = joined(ranks, RANKS)
            try:
                check(merged(pids, tmp))
            finally:
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)
    print("collectives and messages are drawn")


main()
