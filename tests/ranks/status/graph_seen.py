"""weft-status tells the step of each rank's executor and the edge that it awaits; weft-trace shows each node, send and
receive of each step.

Usage: graph_seen.py BIN-FOLDER PROGRAM MPIRUN [FLAG ...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from jobs import expect, job, joined, running, until

RANKS = 3
bin_folder, program, *mpirun = sys.argv[1:]


def tool(name, *arguments):
    command = [os.path.join(bin_folder, name), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 0, f"{command}: status {ran.returncode}: {ran.stderr}")
    return ran.stdout


def executors(pid):
    ranks = json.loads(tool("weft-status", "--json", "--job", str(pid)))["jobs"][0]["ranks"]
    for rank in ranks:
        expect(len(rank["executors"]) == 1, f"one executor of {rank}")
    return [rank["executors"][0] for rank in ranks]


def check_steps(pids):
    before = executors(pids[0])
    for one in before:
        expect(one["name"] == "chain" and not one["failed"], one)
        expect(one["begun"] - one["ended"] in (0, 1), one)
    # Beside a step that runs, each rank may be some steps ahead of the next one: by its credits.
    until(
        "all ranks make steps", 10, lambda: all(b["begun"] > a["begun"] for a, b in zip(before, executors(pids[0])))
    )


def check_awaited(pids):
    os.kill(pids[0], signal.SIGSTOP)

    def all_wait():
        seen = executors(pids[0])
        return seen if all(one.get("awaits", {}).get("seconds", 0) > 0.2 for one in seen[1:]) else None

    seen = until("ranks 1 and 2 wait", 10, all_wait)
    for rank in (1, 2):
        awaits = seen[rank]["awaits"]
        expect(awaits["edge"] == f"y{rank - 1}:0" and awaits["peer"] == rank - 1, seen[rank])
        expect(seen[rank]["begun"] == seen[rank]["ended"] + 1, seen[rank])
    text = tool("weft-status", "--job", str(pids[0]))
    for rank in (1, 2):
        line = rf"graph 'chain': rank {rank}: step \d+, waiting for edge y{rank - 1}:0 from rank {rank - 1}, \d+\.\d s\n"
        expect(re.search(line, text), f"no {line} in {text}")
    expect("late: rank 0, for which 2 ranks wait" in text, text)


def check_trace(pids, folder):
    files = tool("weft-status", "--record", folder, "--job", str(pids[0])).split()
    trace = os.path.join(folder, "trace.json")
    tool("weft-trace", "merge", *files, "-o", trace)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}

    def on(rank, track, category):
        return [
            e
            for e in events
            if e.get("cat") == category and e["pid"] == rank and re.fullmatch(track, tracks[rank, e["tid"]])
        ]

    for rank in range(RANKS):
        nodes = on(rank, "chain thread 0", "node_ran")
        ran = [e for e in nodes if e["name"] == f"y{rank} (weft.Scale)"]
        steps = [e["args"]["step"] for e in ran]
        expect(len(steps) > 20 and steps == sorted(set(steps)), f"rank {rank} ran its node in steps {steps}")
        ends = sorted((e["ts"], e["dur"]) for e in nodes)
        for (ts, took), (later, _) in zip(ends, ends[1:]):
            expect(ts + took <= later + 0.001, f"rank {rank}: two nodes overlap on one thread")
        if rank > 0:
            received = on(rank, rf"edge chain/\S+ y{rank - 1}:0", "edge_received")
            expect(len(received) > 20 and all(e["args"]["peer"] == rank - 1 for e in received), received[:3])
        if rank + 1 < RANKS:
            sent = on(rank, rf"edge chain/\S+ y{rank}:0", "edge_sent")
            expect(len(sent) > 20 and all(e["args"]["bytes"] == 4000 for e in sent), sent[:3])
    shown = tool("weft-trace", "show", files[1])
    expect(re.search(r'node_ran +"y1 \(weft.Scale\)" #\d+ thread 0 took', shown), shown[-2000:])
    expect(re.search(r'edge_received +rank 0 "chain/\S+ y0:0" #\d+ 4000 bytes took', shown), shown[-2000:])


with tempfile.TemporaryDirectory(prefix="job-") as tmp:
    # On a busy machine a rank is stopped for longer than it takes to be given up.
    settings = {"WEFT_RECORD": "all", "WEFT_DEAD_AFTER": "off", "TMPDIR": tmp}
    with running(job(mpirun, RANKS, program, survive=True), **settings) as ranks:
        pids = joined(ranks, RANKS)
        check_steps(pids)
        check_awaited(pids)
        check_trace(pids, tmp)
        os.kill(pids[0], signal.SIGCONT)
print("steps, awaited edges and nodes are seen")
