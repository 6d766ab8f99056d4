"""When mpirun is killed, its ranks end instead of running on as orphans: those that wait inside
weft and those that compute.

Usage: launcher_killed.py PROGRAM MPIRUN [FLAG ...]
"""

import os
import re
import subprocess
import sys
import time

RANKS = 3
LIMIT_S = 5.0


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids_once_joined(launcher):
    pids = []
    for line in launcher.stdout:
        print(line, end="", flush=True)
        joined = re.match(r"joined rank \d+ pid (\d+)", line)
        if joined:
            pids.append(int(joined[1]))
        if len(pids) == RANKS:
            return pids
    sys.exit(f"failed: only {len(pids)} of {RANKS} ranks joined")


def main():
    program, mpirun = sys.argv[1], sys.argv[2:]
    command = [*mpirun, "-n", str(RANKS), program]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pids = pids_once_joined(launcher)
    launcher.kill()
    killed = time.monotonic()
    launcher.wait()
    while left := [pid for pid in pids if alive(pid)]:
        if time.monotonic() - killed > LIMIT_S:
            for pid in left:
                os.kill(pid, 9)
            sys.exit(f"failed: {len(left)} of {RANKS} ranks still ran after {LIMIT_S} s: {left}")
        time.sleep(0.02)
    print(f"all {RANKS} ranks had ended {time.monotonic() - killed:.2f} s after mpirun was killed")


main()
