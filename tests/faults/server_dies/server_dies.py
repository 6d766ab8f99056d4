"""Jobs of two workers and three servers, each shard on two of them, in which one server is killed at
a random moment, or a second one once the shards are whole again. Both workers must end with the
parameters of an undisturbed run of the same pushes, bit for bit.

If two servers are killed at once, some shard is lost: both workers' errors name one of the two.

Usage: server_dies.py [--full] [--runs N] [--twice N] PROGRAM MPIRUN [FLAG ...]

--full, or WEFT_TEST_FULL=1: 200 runs and 50 with a second kill, instead of 3 and 1.
WEFT_TEST_SEED repeats a sequence of kills.
"""

import argparse
import random
import re
import time

from jobs import Failed, draw_seed, expect, is_full, job, run

KINDS = ["bsp", "ssp", "async"]
STEPS = 300


def finals(command):
    done = run(command, seconds=120)
    return re.findall(r"rank \d final (\w+)", done.stdout), done.stdout


def kill(step):
    return [str(step), str(random.randrange(2000)), str(random.randrange(3))]


def lose_a_shard(command, kind):
    kills = ["10", "0", "0", "10", "0", "1"]
    done = run([*command, f"lost_{kind}", *kills], seconds=120)
    lost = re.findall(r"rank (\d) lost by (\w+) of rank (\d)", done.stdout)
    expect(sorted(worker for worker, _, _ in lost) == ["0", "1"], f"{kind}: {done.stdout}")
    for _, code, rank in lost:
        expect(code == "peer_failed" and rank in "23", f"{kind}: {done.stdout}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--twice", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    full = given.full or is_full()
    runs = given.runs if given.runs is not None else (200 if full else 3)
    twice = given.twice if given.twice is not None else (50 if full else 1)
    draw_seed()

    program, *mpirun = given.command
    command = job(mpirun, 5, program, survive=True)
    expected = {}
    began = time.monotonic()
    for number in range(runs + twice):
        kind = KINDS[number % len(KINDS)]
        if kind not in expected:
            expected[kind], text = finals([*command, kind])
            expect(len(expected[kind]) == 2, f"{kind}, undisturbed: it did not end:\n{text}")
        kills = kill(random.randrange(1, STEPS // 2))
        if number >= runs:
            second = kill(random.randrange(1, STEPS // 3))
            second[2] = str((int(kills[2]) + random.choice([1, 2])) % 3)
            kills += second
        found, text = finals([*command, kind, *kills])
        if sorted(found) != sorted(expected[kind]):
            raise Failed(f"run {number}: {kind}, kills {kills}: {found}, expected {expected[kind]}:\n{text}")
    for kind in KINDS if full else ["bsp", "async"]:
        lose_a_shard(command, kind)
    print(f"{runs} runs with a kill and {twice} with two, {time.monotonic() - began:.0f} s")


main()
