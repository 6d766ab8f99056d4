"""weft-status and weft-trace as root beside a hostile user of the machine: right for an honest job, silent about what
the other says of it, and ended soon.

Usage: beside_hostile.py BIN-FOLDER PROGRAM MPIRUN [FLAG ...]
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time

from jobs import Failed, expect, job, joined, running, skip

BIN = sys.argv[1]
NOBODY = 65534
RANKS = 2
MOST_SECONDS = 1  # it takes some 0.05

# The hostile user's part: copies of the honest rank's stats (which any reader of a segment can make) with another
# start, pid and texts; a copy that is cut off all the time; a FIFO of that name; crafted tables.
HOSTILE = r"""
import ctypes, os, sys
stats = bytearray(sys.stdin.buffer.read())
libc = ctypes.CDLL(None)
def section(i, text):
    at = 32 + 40 * i
    return int.from_bytes(text[at + 16:at + 24], "little")
def memfd(name, content):
    fd = libc.memfd_create(name, 0)
    os.write(fd, content)
    if len(content) == len(stats):  # what follows is a hole, as in the honest one
        os.ftruncate(fd, int.from_bytes(stats[16:24], "little"))
    return fd
identity = section(0, stats)
later = bytearray(stats)
later[identity + 16:identity + 24] = (2**62).to_bytes(8, "little")
fds = [memfd(b"weft-status", bytes(later))]
loud = bytearray(later)
loud[identity + 8:identity + 12] = os.getpid().to_bytes(4, "little")
loud[identity + 32:identity + 96] = b"\x1b[31mhost\n" + b"x" * 54
fds.append(memfd(b"weft-status", bytes(loud)))
fds.append(memfd(b"weft-status", b"weft" * 10))
hole = memfd(b"weft-status", bytes(stats[:400]))
os.ftruncate(hole, 1 << 42)
fds.append(memfd(b"weft-table", b"t" * 4096))
os.mkfifo(sys.argv[1] + "/weft-status-fifo")
fds.append(os.open(sys.argv[1] + "/weft-status-fifo", os.O_RDWR))
fds += [memfd(b"weft-status", bytes(stats)) for _ in range(200)]
cut = memfd(b"weft-status", bytes(later))
print("ready", flush=True)
while True:
    os.ftruncate(cut, 4096)
    os.pwrite(cut, bytes(later), 0)
"""


def run(name, *arguments):
    begun = time.monotonic()
    ran = subprocess.run([os.path.join(BIN, name), *arguments], capture_output=True, timeout=30)
    took = time.monotonic() - begun
    expect(took < MOST_SECONDS, f"{name} {arguments} took {took:.1f} s")
    expect(ran.returncode in (0, 1, 2), f"{name} {arguments} ended with {ran.returncode}: {ran.stderr}")
    return ran.stdout + ran.stderr


def stats_of_rank(pid):
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        if os.readlink(path).startswith("/memfd:weft-status"):
            with open(path, "rb") as file:
                return file.read(600_000)
    raise Failed("the rank has no stats")


def check(pids):
    seen = json.loads(run("weft-status", "--json"))
    honest = [known for known in seen["jobs"] if any(rank["pid"] == pids[0] for rank in known["ranks"])]
    expect(len(honest) == 1, f"one job has pid {pids[0]}: {honest}")
    expect(honest[0].get("user", 0) == 0, honest[0])
    for rank in honest[0]["ranks"]:
        expect(rank["state"] == "ALIVE" and rank["pid"] == pids[rank["rank"]], rank)
    text = run("weft-status")
    expect(b"\x1b" not in text, f"an escape sequence came through: {text!r}")
    for line in text.decode().splitlines():
        expect("host" != line.strip() and not line.startswith("xxx"), f"a text broke the line: {line}")


def main():
    if os.geteuid() != 0:
        skip("needs root, to be another user too")
    _, _, program, *mpirun = sys.argv
    with tempfile.TemporaryDirectory() as folder, running(job(mpirun, RANKS, program)) as ranks:
        os.chmod(folder, 0o777)
        pids = joined(ranks, RANKS)
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        hostile = subprocess.Popen(
            [*command, sys.executable, "-c", HOSTILE, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            hostile.stdin.write(stats_of_rank(pids[0]))
            hostile.stdin.close()
            expect(hostile.stdout.readline() == b"ready\n", "the hostile user did not begin")
            for _ in range(4):
                check(pids)
            stats_segments = [path for path in glob.glob(f"/proc/{hostile.pid}/fd/*") if "weft-status" in os.readlink(path)]
            for path in stats_segments[:6] + stats_segments[-4:]:
                run("weft-trace", "show", path)
        finally:
            hostile.kill()
            hostile.wait()


main()
