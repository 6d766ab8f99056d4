"""A running rank's counters and events can be read from another process, and nothing is left of
them when it is killed.

Usage: seen_from_outside.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import signal
import socket
import sys
import tempfile
import time

from jobs import expect, expect_nothing_left, job, joined, running
from stats import StatsSegmentTest, all_stats_of, stats_of
from traces import Traces, enter_room

RANKS = 3


def check_identity(stats, rank, pid):
    identity = stats.identity()
    expect((identity["rank"], identity["size"]) == (rank, RANKS), f"rank {rank}: {identity}")
    expect(identity["pid"] == pid and identity["uid"] == os.getuid(), f"rank {rank}: {identity}")
    expect(identity["host"] == socket.gethostname(), f"rank {rank}: {identity}")
    age = time.time() - identity["start_unix_ns"] / 1e9
    expect(0 <= age < 60, f"rank {rank} started {age} s ago")


def edge(stats, role):
    found = [edge for edge in stats.edges() if edge["role"] == role]
    expect(len(found) == 1, f"one edge that {role}, not {found}")
    return found[0]


def check_counters_move(stats, rank):
    before = {role: edge(stats, role) for role in ("puts", "receives")}
    time.sleep(0.3)
    for role, peer in (("puts", (rank + 1) % RANKS), ("receives", (rank - 1) % RANKS)):
        now = edge(stats, role)
        expect(now["slot"] == "ring" and now["fabric"] == "shm", f"rank {rank}: {now}")
        expect(now["peer"] == peer and now["state"] == "live", f"rank {rank}: {now}")
        moved = now["transfers"] - before[role]["transfers"]
        expect(moved > 0, f"rank {rank} {role}: no transfer in 0.3 s")
        expect(now["bytes_copied"] == 0, f"rank {rank}: {now}")


def check_records(stats, rank):
    records = stats.records()
    events = [event for _, event, *_ in records]
    for event in ("joined", "connected", "exposed", "attach_asked", "attach_granted", "attachment_made"):
        expect(event in events, f"rank {rank} has not recorded {event}: {events}")
    expect("put" not in events, f"rank {rank} records its data path unasked")
    granted = [peer for _, event, peer, *_ in records if event == "attach_granted"]
    expect(granted == [(rank + 1) % RANKS], f"rank {rank}: granted by {granted}")


def check_kept(pids):
    for rank, pid in pids.items():
        kept = {stats.identity()["rank"] for stats in map(StatsSegmentTest, all_stats_of(pid))}
        expect(kept == set(pids), f"rank {rank} keeps the stats_segments of {kept}")


def main():
    program, *mpirun = sys.argv[1:]
    enter_room(program)
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as private_tmp:
        traces = Traces(private_tmp)
        with running(job(mpirun, RANKS, program), TMPDIR=private_tmp) as ranks:
            pids = joined(ranks, RANKS)
            traces.look_at(list(pids.values()))
            for rank, pid in pids.items():
                found = stats_of(pid)
                expect(len(found) == 1, f"rank {rank} has stats_segments {found}")
                stats = StatsSegmentTest(found[0])
                check_identity(stats, rank, pid)
                expect(
                    stats.paths() == {r: ("connected", pids[r], "shm") for r in pids},
                    f"rank {rank}: {stats.paths()}",
                )
                check_counters_move(stats, rank)
                check_records(stats, rank)
                stats.close()
            check_kept(pids)
            os.kill(pids[1], signal.SIGKILL)
            ranks.wait(timeout=20)
            expect_nothing_left(traces)
    print("every rank was seen, and nothing is left")


main()
