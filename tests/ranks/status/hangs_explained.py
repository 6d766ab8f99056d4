"""weft-status alone explains why a job hangs: it names the late rank, and the call.

Usage: hangs_explained.py BIN-FOLDER PROGRAM HOW MPIRUN [FLAG ...]
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

from jobs import expect, job, joined, running, until

BIN, PROGRAM, HOW = sys.argv[1:4]


def status(pid, *flags):
    arguments = [os.path.join(BIN, "weft-status"), "--job", str(pid), *flags]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 0, f"weft-status: {ran.returncode}: {ran.stderr}")
    return ran.stdout


def late(seen):
    return [(rank["rank"], rank["waiters"]) for rank in seen["laggards"]]


def waits(seen, rank):
    return seen["ranks"][rank]["waits"]


def failures(seen, rank):
    return seen["ranks"][rank]["failures"]


# How: number of ranks, whom the JSON blames, and what the text says, a pattern for each line.
HANGS = {
    "put_refused": (
        2,
        lambda seen: failures(seen, 1) and seen["circles"] == [[0, 1]] and not late(seen),
        [
            r'failed: rank 1: put 1 into "question" of rank 0: mismatch: the tensor is f32\[3\], '
            r'the slot holds f32\[4\]; the program has not looked at its request for \d+\.\d s',
            r'rank 1: wait "question" #1',
            r'rank 0: wait "answer" #1',
        ],
    ),
    "call_skipped": (
        3,
        lambda seen: late(seen) == [(2, 2)] and waits(seen, 0)[0]["peers"] == [2],
        [
            r"rank 2: all_reduce\(f32\[1024\], sum\), call 3 of group of ranks 0-2, 4096 bytes, \d",
            r"late: rank 2, for which 2 ranks wait",
            r"calls of group of ranks 0-2: rank 0 in call 3, rank 1 in call 3, rank 2 in none after call 2",
        ],
    ),
    "not_opened": (
        3,
        lambda seen: late(seen) == [(1, 2)],
        [r"rank 1: open group of ranks 0-2, \d", r"late: rank 1, for which 2 ranks wait"],
    ),
    "message_offered": (
        2,
        lambda seen: seen["circles"] == [[0, 1]] and waits(seen, 0)[0]["tag"] == 7,
        [
            r"rank 1: send, tag 7, 1048576 bytes \(offered, not received\), \d",
            r"rank 0: recv, tag 8 \(not taken: a message of rank 0 with tag 7, 1048576 bytes\), \d",
        ],
    ),
    "message_sent": (
        2,
        lambda seen: seen["circles"] == [[0, 1]] and waits(seen, 1)[0]["tag"] == 8,
        [r"rank 0: recv, tag 8 \(not taken: a message of rank 0 with tag 7, 16 bytes\), \d"],
    ),
    "wrong_root": (
        2,
        lambda seen: failures(seen, 0) and failures(seen, 1) and seen["circles"],
        [
            r"failed: rank 0: group of ranks 0-1: mismatch: call 1 of the group is broadcast\(f32\[8\], root \d\) on "
            r"rank \d and broadcast\(f32\[8\], root \d\) on rank \d",
            r'rank 1: wait "next" #1',
        ],
    ),
    "worker_stopped": (
        3,
        lambda seen: late(seen) == [(2, 2)] and "step" in waits(seen, 0)[0]["within"],
        [
            r"2 ALIVE .* stopped, by a signal or a debugger",
            r'rank 2: view "ps/ps/model/.*" #\d+, in pull of table ps/model, step \d+, \d',
            r"late: rank 2, for which 2 ranks wait",
        ],
    ),
    "table_missing": (
        3,
        lambda seen: late(seen) == [(2, 2)] and "creation" in waits(seen, 0)[0]["within"],
        [
            r'rank 2: attach "ps/ps/model/contract", in creation of table ps/model, \d',
            r"late: rank 2, for which 2 ranks wait",
        ],
    ),
    "none_of_several": (
        3,
        lambda seen: late(seen) == [(1, 1), (2, 1)] and waits(seen, 0)[0]["peers"] == [1, 2],
        [r'ranks 1 or 2: wait_any: "from 1" from rank 1, "from 2" from rank 2, \d'],
    ),
    "mixed_set": (
        3,
        lambda seen: late(seen) == [(1, 1), (2, 1)] and waits(seen, 0)[0]["peers"] == [1, 2],
        [
            r"ranks 1 or 2: wait_any: all_reduce\(f32\[8\], sum\), call 1, recv from rank 1, tag 4, "
            r'recv from any rank, tag 5, "next" from rank 2, \d',
            r"calls of group of ranks 0-2: rank 0 in call 1, rank 1 in none yet, rank 2 in none yet",
        ],
    ),
    "not_offered": (
        2,
        lambda seen: late(seen) == [(1, 1)],
        [r'rank 1: rendezvous: recv of "gradient.", step 4, in "edges", \d', r"late: rank 1, for which 1 rank waits"],
    ),
    "not_fetched": (
        3,
        lambda seen: late(seen) == [(1, 1)],
        [r'rank 1: rendezvous: serve of "edges", \d', r"late: rank 1, for which 1 rank waits"],
    ),
    "signal_not_added": (
        2,
        lambda seen: waits(seen, 0) and waits(seen, 0)[0]["operation"] == "signal",
        [r'signal "steps" to be at least 3, \d'],
    ),
    "not_split": (
        3,
        lambda seen: late(seen) == [(1, 2)],
        [r"rank 1: split group of ranks 0-2, \d", r"late: rank 1, for which 2 ranks wait"],
    ),
    "arrival_kept": (
        2,
        lambda seen: seen["circles"] == [[0, 1]],
        [
            r'rank 1: wait "next" #2 \(tensor #1 received and not released: no buffer is free\), \d',
            r'rank 0: put "next" #2, \d',
        ],
    ),
    "any_source": (
        4,
        lambda seen: late(seen) == [(1, 1), (3, 1)] and seen["ranks"][2]["state"] == "LEFT",
        [
            r"any rank: recv, tag 5, \d",
            r"late: rank 1, for which 1 rank waits\nlate: rank 3, for which 1 rank waits",
            r"2 LEFT .* \(has left the job, and its process has ended\)",
        ],
    ),
}


def main():
    ranks, is_seen, lines = HANGS[HOW]
    settings = {"WEFT_TIMEOUT": "50s", "WEFT_DEAD_AFTER": "off"}
    with running(job(sys.argv[4:], ranks, PROGRAM, HOW), **settings) as hanging:
        pids = joined(hanging, ranks)
        if HOW == "worker_stopped":
            os.kill(pids[2], signal.SIGSTOP)
        try:
            seen = {}

            def look():
                seen.update(json.loads(status(pids[0], "--json"))["jobs"][0])
                return is_seen(seen)

            try:
                until("weft-status explains the hang", 20, look)
            except SystemExit:
                print(json.dumps(seen, indent=1))
                print(status(pids[0]), flush=True)
                raise
            # A thread that looks again whether it may go on is not seen to wait for that moment.
            text = ""

            def says_all():
                nonlocal text
                text = status(pids[0])
                return all(re.search(line, text) for line in lines)

            try:
                until(f"weft-status says {lines}", 5, says_all)
            finally:
                print(text, flush=True)
        finally:
            for pid in pids.values():
                with contextlib.suppress(ProcessLookupError):  # that rank has left
                    os.kill(pid, signal.SIGKILL)
    print("the hang is explained")


main()
