"""Starts two ranks, of which one is killed while a GPU copies into the other's memory, or works on it, and looks
whether the other says that everything was as it must be, and the stand-in too.

Usage: gpu_peer_dies.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import sys

from jobs import expect, expect_survivors, job, run

MPS = "seed=3 delay_us=20000 strict mps"

program, *mpirun = sys.argv[1:]
for survivor, victim in enumerate(["writer", "owner"]):
    for number in range(2):
        done = run(job(mpirun, 2, program, victim, survive=True), seconds=60)
        expect_survivors(done.stdout, [survivor], f"{victim}, run {number}")
        expect("stand-in driver:" not in done.stdout, done.stdout)
for number in range(2):
    done = run(job(mpirun, 2, program, "writer_under_mps", survive=True), seconds=60, WEFT_TEST_CUDA=MPS)
    expect_survivors(done.stdout, [0], f"writer under MPS, run {number}")
    expect("stand-in driver:" not in done.stdout, done.stdout)
    expect(done.stdout.count("died under MPS") == 1, f"one line tells of it:\n{done.stdout}")
for number in range(2):
    done = run(job(mpirun, 4, program, "other_writer_leaves", survive=True), seconds=60, WEFT_TEST_CUDA=MPS)
    expect_survivors(done.stdout, [0, 2, 3], f"another writer leaves, run {number}")
if os.environ.get("WEFT_TEST_FULL") == "1":  # a rank that leaves waits for its GPU for 20 s
    done = run(job(mpirun, 2, program, "working_writer", survive=True), seconds=100,
               WEFT_TEST_CUDA="seed=3 lazy idle_ms=0")
    expect_survivors(done.stdout, [0, 1], "a writer leaves while its GPU works")
for way in ["member", "stream", "graph"]:
    done = run(job(mpirun, 2, program, way, "30", survive=True), seconds=60, WEFT_TEST_CUDA=MPS)
    expect_survivors(done.stdout, [0], f"{way} under MPS")
replaying = [(0, "replaying_writer"), (1, "replaying_owner"), (0, "replaying_reader"), (1, "replaying_publisher")]
for survivor, victim in replaying:
    for number in range(2):
        done = run(job(mpirun, 2, program, victim, survive=True), seconds=60)
        expect_survivors(done.stdout, [survivor], f"{victim}, run {number}")
        expect("stand-in driver:" not in done.stdout, done.stdout)
for way in ["member", "stream", "graph"]:
    for milliseconds in [0, 7, 30, 70]:
        done = run(job(mpirun, 2, program, way, str(milliseconds), survive=True), seconds=60)
        expect_survivors(done.stdout, [0], f"{way}, after {milliseconds} ms")
        expect("stand-in driver:" not in done.stdout, done.stdout)
