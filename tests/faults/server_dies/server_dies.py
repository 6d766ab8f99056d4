"""Jobs of two workers and three servers, each shard on two of them, in which one server is killed at
a random moment, or a second one once the shards are whole again. Both workers must end with the
parameters of an undisturbed run of the same pushes, bit for bit.

Usage: server_dies.py [--full] [--runs N] [--twice N] PROGRAM MPIRUN [FLAG ...]

--full, or WEFT_TEST_FULL=1: 200 runs and 50 with a second kill, instead of 3 and 1.
WEFT_TEST_SEED repeats a sequence of kills.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time

KINDS = ["bsp", "ssp", "async"]
STEPS = 300


def finals(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120)
    return re.findall(r"rank \d final (\w+)", done.stdout), done.stdout


def kill(step):
    return [str(step), str(random.randrange(2000)), str(random.randrange(3))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--twice", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    full = given.full or os.environ.get("WEFT_TEST_FULL", "0") not in ("", "0")
    runs = given.runs if given.runs is not None else (200 if full else 3)
    twice = given.twice if given.twice is not None else (50 if full else 1)
    seed = int(os.environ.get("WEFT_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    random.seed(seed)

    program, mpirun = given.command[0], given.command[1:]
    job = [*mpirun, "--enable-recovery", "-n", "5", program]
    expected = {}
    began = time.monotonic()
    for run in range(runs + twice):
        kind = KINDS[run % len(KINDS)]
        if kind not in expected:
            expected[kind], text = finals([*job, kind])
            if len(expected[kind]) != 2:
                print(text)
                print(f"{kind}, undisturbed: it did not end")
                return 1
        kills = kill(random.randrange(1, STEPS // 2))
        if run >= runs:
            second = kill(random.randrange(1, STEPS // 3))
            second[2] = str((int(kills[2]) + random.choice([1, 2])) % 3)
            kills += second
        found, text = finals([*job, kind, *kills])
        if found != expected[kind] and sorted(found) != sorted(expected[kind]):
            print(text)
            print(f"run {run}: {kind}, kills {kills}: {found}, expected {expected[kind]}")
            return 1
    print(f"{runs} runs with a kill and {twice} with two, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
