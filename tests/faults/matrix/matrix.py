"""Lets every kind of fault come to a rank at every moment of every operation. Each survivor must end in
time, with the right code and with the culprit's name; the victim as its fault has it; the machine must be
left as it was.

Usage: matrix.py [--full] [--only TEXT] [--texts] [--death SECONDS] PROGRAM MPIRUN [FLAG ...]
       tests/hosts/hosts -- matrix.py ... : the same with rank 0 on another host than the others

--full, or WEFT_TEST_FULL=1: all cells instead of a cut. --only: cells whose line holds TEXT. --texts: print
the errors. --death: how soon the death of a rank of this host must be seen (default: 1 s, as machines are
busy; on an idle one it takes less than 0.1 s).
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cells import DEAD_AFTER_S, INIT_TIMEOUT_S, RANKS, VICTIM, all_cells, outcome, quick_cells
from traces import Traces, alive

LINE = re.compile(r"rank (\d+) pid (\d+) time ([\d.]+) (joined|fault|ended: (\w+) peer (-?\d+): ?(.*))")
EXIT = re.compile(r"exit of rank (\d+): (\d+)")
# Says how the rank's process ended: mpirun tells only of one.
WRAPPER = '"$@"; echo "exit of rank $OMPI_COMM_WORLD_RANK: $?"'
LONGEST_S = 45


class Failed(Exception):
    pass


class Run:
    """What came of one cell."""

    def __init__(self, output):
        self.output = output
        self.fault_at = None
        self.ended = {}  # rank: (time, code, peer, text)
        self.exits = {int(m[1]): int(m[2]) for m in EXIT.finditer(output)}
        for m in LINE.finditer(output):
            if m[4] == "fault":
                self.fault_at = float(m[3])
            elif m[4] != "joined":
                self.ended[int(m[1])] = (float(m[3]), m[5], int(m[6]), m[7])


def check(cell, run, death_s):
    wanted = outcome(cell, death_s)
    if run.fault_at is None:
        raise Failed("the fault did not happen")
    slowest = 0.0
    for rank in set(range(RANKS)) - {VICTIM}:
        if rank not in run.ended:
            raise Failed(f"rank {rank} did not say how it ended")
        at, code, peer, text = run.ended[rank]
        took = at - run.fault_at
        slowest = max(slowest, took)
        if code not in wanted.codes:
            raise Failed(f"rank {rank} must end with {' or '.join(wanted.codes)}: {code}: {text}")
        if took > wanted.within_s:
            raise Failed(f"rank {rank} ended {took:.2f} s after the fault, not {wanted.within_s}: {text}")
        if code != "ok" and peer != VICTIM:
            raise Failed(f"rank {rank} blames rank {peer}: {text}")
        for words in wanted.says:
            if words not in text:
                raise Failed(f"rank {rank} does not say \"{words}\": {text}")
        status = 0 if code == "ok" else 3
        if run.exits.get(rank) != status:
            raise Failed(f"rank {rank} must exit with {status}, not {run.exits.get(rank)}")
    if not any(wanted.one_says in ended[3] for ended in run.ended.values()):
        raise Failed(f"nobody says \"{wanted.one_says}\"")
    if run.exits.get(VICTIM) != wanted.victim_exit:
        raise Failed(f"the victim must exit with {wanted.victim_exit}, not {run.exits.get(VICTIM)}")
    return slowest


def read_until_survived(job, pids):
    """The job's output. A victim that nobody ends, as it never joined, is ended once the others have."""
    output = []
    for line in job.stdout:
        output.append(line)
        for m in LINE.finditer(line):
            pids[int(m[1])] = int(m[2])
        said = Run("".join(output))
        if VICTIM in pids and len(said.exits) == RANKS - 1 and VICTIM not in said.exits:
            end = time.monotonic() + 1
            while alive(pids[VICTIM]) and time.monotonic() < end:
                time.sleep(0.02)
            if alive(pids[VICTIM]):
                os.kill(pids[VICTIM], signal.SIGKILL)
    return "".join(output)


def launcher(cell, mpirun, settings):
    flags = ["--enable-recovery", "-n", str(RANKS)]
    if cell.hosts == 1:
        return [*mpirun, *flags]
    for name in settings:
        flags += ["-x", name]
    return [mpirun[0], *os.environ["HOSTS_MPIRUN"].split(), "--host", "host1:1,host2:2", *flags]


def run_cell(cell, program, mpirun, death_s):
    private_tmp = tempfile.mkdtemp(prefix="job-")
    traces = Traces(private_tmp)
    pids = {}
    settings = {
        "WEFT_DEAD_AFTER": f"{DEAD_AFTER_S:.0f}s",
        "WEFT_INIT_TIMEOUT": f"{INIT_TIMEOUT_S:.0f}s",
        "WEFT_TIMEOUT": "20s",
    }
    command = [*launcher(cell, mpirun, settings), "sh", "-c", WRAPPER, "sh", program]
    job = subprocess.Popen(
        ["timeout", str(LONGEST_S), *command, *cell.arguments()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": private_tmp, **settings},
    )
    output = ""
    try:
        output = read_until_survived(job, pids)
        job.wait()
        traces.pids = list(pids.values())
        run = Run(output)
        slowest = check(cell, run, death_s)
        end = time.monotonic() + 3
        while left := traces.left():
            if time.monotonic() > end:
                raise Failed("left behind: " + ", ".join(left))
            time.sleep(0.05)
        return run, slowest
    except Failed:
        print(output, flush=True)
        raise
    finally:
        if job.poll() is None:
            job.kill()
        for pid in pids.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(private_tmp, ignore_errors=True)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--death", type=float, default=1.0)
    parser.add_argument("program")
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    given.full = given.full or os.environ.get("WEFT_TEST_FULL", "0") not in ("", "0")
    return given


def main():
    given = arguments()
    hosts = int(os.environ.get("HOSTS", "1"))
    cells = all_cells(hosts) if given.full or given.only else quick_cells(hosts)
    cells = [cell for cell in cells if given.only in str(cell)]
    failures = 0
    began = time.monotonic()
    for cell in cells:
        try:
            run, slowest = run_cell(cell, given.program, given.mpirun, given.death)
            print(f"{cell}: the last survivor ended after {slowest * 1000:.0f} ms", flush=True)
            if given.texts:
                for text in sorted({ended[3] for ended in run.ended.values() if ended[3]}):
                    print(f"    {text}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"{cell}: failed: {failure}", flush=True)
    print(f"{len(cells)} cells in {time.monotonic() - began:.0f} s")
    sys.exit(f"failed: {failures} of {len(cells)} cells" if failures else 0)


main()
