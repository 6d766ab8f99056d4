"""Injects every kind of fault into a rank at every moment of every operation. Each survivor must end in time, with the
right code and the victim's name; the victim must end as its fault requires; the machine must be left as it was.

Usage: matrix.py [--full] [--only TEXT] [--texts] [--ends SECONDS] PROGRAM MPIRUN [FLAG ...]
       tests/hosts/hosts -w 2 -- matrix.py ... : the same with rank 0 on another host than the others; the
       ranks use the second network, which is cut

--full, or WEFT_TEST_FULL=1: all cells instead of a cut. --only: of these, cells whose line holds TEXT. --texts: print
the errors. --ends: how soon after a death the others must have ended (default: 1 s).

A rank's recorder tells when the rank saw another's end, which must be soon (SEEN_HERE_S and so on). A busy machine that
runs no rank for some time may delay that: a cell whose only failure is this delay gets three tries.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from cells import DEAD_AFTER_S, INIT_TIMEOUT_S, LINK_FAULTS, RANKS, all_cells, outcome, quick_cells, seen_within_s
from jobs import Failed, expect, expect_nothing_left, is_full, job, running
from traces import Traces, alive, enter_room

LINE = re.compile(r"rank (\d+) pid (\d+) time ([\d.]+) (joined|fault|seen ([\d.]+)|ended: (\w+) peer (-?\d+): ?(.*))")
TOLD = "left because of it"
EXIT = re.compile(r"exit of rank (\d+): (\d+)")
# Prints how the rank's process ended: mpirun reports only one rank.
WRAPPER = '"$@"; echo "exit of rank $OMPI_COMM_WORLD_RANK: $?"'
LONGEST_S = 45
LAUNCHER_S = 2
TRIES = 3


class Late(Failed):
    pass


class Run:
    """The result of one cell."""

    def __init__(self, output):
        self.output = output
        self.fault_at = None
        self.ended = {}  # rank: (time, code, peer, text)
        self.seen = {}  # rank: when it saw the victim's end
        self.exits = {int(m[1]): int(m[2]) for m in EXIT.finditer(output)}
        for m in LINE.finditer(output):
            if m[4] == "fault":
                self.fault_at = float(m[3])
            elif m[5]:
                self.seen[int(m[1])] = float(m[5])
            elif m[4] != "joined":
                self.ended[int(m[1])] = (float(m[3]), m[6], int(m[7]), m[8])


def was_left_behind(cell, run, rank):
    """Whether the rank no longer needed the victim, but needed another survivor that did, and that left first. A survivor
    that leaves because of a failure tells the others; an exit is no failure."""
    _, code, peer, _ = run.ended[rank]
    first_to_go = run.ended.get(peer, (0, "", -1, ""))
    accepted = ("closed", "peer_left") if cell.fault == "exit" else ("closed",)
    return code in accepted and peer not in (rank, cell.victim) and first_to_go[2] == cell.victim


def check_survivor(cell, run, rank, wanted):
    expect(rank in run.ended, f"rank {rank} did not say how it ended")
    at, code, peer, text = run.ended[rank]
    took = at - run.fault_at
    if was_left_behind(cell, run, rank):
        return
    expect(code in wanted.codes, f"rank {rank} must end with {' or '.join(wanted.codes)}: {code}: {text}")
    expect(took <= wanted.within_s, f"rank {rank} ended {took:.2f} s after the fault, not {wanted.within_s}: {text}")
    expect(code == "ok" or peer == cell.victim, f"rank {rank} blames rank {peer}: {text}")
    # A rank that learned of the end from a rank that left knows whose end it was, but not the cause.
    for words in wanted.says[:1] if TOLD in text else wanted.says:
        expect(words in text, f"rank {rank} does not say \"{words}\": {text}")
    status = 0 if code == "ok" else 3
    expect(run.exits.get(rank) == status, f"rank {rank} must exit with {status}, not {run.exits.get(rank)}")


def check_sight(cell, run, rank, full):
    """Until the rank had seen the victim's end, in seconds."""
    within = seen_within_s(cell, rank, full)
    if within is None:
        return 0.0
    # Another survivor may have reported it first, in leaving.
    ended_at, _, _, text = run.ended[rank]
    was_told = TOLD in text or was_left_behind(cell, run, rank)
    seen_at = run.seen.get(rank, ended_at if was_told else None)
    expect(seen_at is not None, f"the recorder of rank {rank} knows nothing of the end of rank {cell.victim}")
    took = seen_at - run.fault_at
    if took > within:
        raise Late(f"rank {rank} saw it {took:.3f} s after the fault, not {within}")
    return took


def check(cell, run, given):
    """The longest of check_sight()."""
    wanted = outcome(cell, given.ends)
    expect(run.fault_at is not None, "the fault did not happen")
    survivors = [rank for rank in range(RANKS) if rank != cell.victim]
    for rank in survivors:
        check_survivor(cell, run, rank, wanted)
    said = any(wanted.one_says in ended[3] for ended in run.ended.values())
    expect(said, f"no rank says \"{wanted.one_says}\"")
    victim_exit = run.exits.get(cell.victim)
    expect(victim_exit == wanted.victim_exit, f"the victim must exit with {wanted.victim_exit}, not {victim_exit}")
    return max(check_sight(cell, run, rank, given.full) for rank in survivors)


def read_until_survived(process, victim, pids, patience_s):
    """The job's output. A victim that never joined does not end by itself: kills it `patience_s` after the others."""
    output = []
    for line in process.stdout:
        output.append(line)
        for m in LINE.finditer(line):
            pids[int(m[1])] = int(m[2])
        said = Run("".join(output))
        if victim in pids and len(said.exits) == RANKS - 1 and victim not in said.exits:
            end = time.monotonic() + patience_s
            while alive(pids[victim]) and time.monotonic() < end:
                time.sleep(0.02)
            if alive(pids[victim]):
                os.kill(pids[victim], signal.SIGKILL)
        if len(said.exits) == RANKS:
            break
    return "".join(output)


def end_launcher(process):
    """Ends the launcher, which may not notice that ranks of another host have ended."""
    try:
        process.communicate(timeout=LAUNCHER_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()


def launcher(cell, mpirun, settings):
    if cell.hosts == 1:
        return mpirun
    passed_on = [word for name in settings for word in ("-x", name)]
    return [mpirun[0], *os.environ["HOSTS_MPIRUN"].split(), "--host", "host1:1,host2:2", *passed_on]


def run_cell(cell, given):
    settings = {
        "WEFT_DEAD_AFTER": f"{DEAD_AFTER_S:.0f}s",
        "WEFT_INIT_TIMEOUT": f"{INIT_TIMEOUT_S:.0f}s",
        "WEFT_TIMEOUT": "20s",
    }
    if cell.hosts > 1:
        settings["WEFT_IFACE"] = "eth1"
    ranks = ["sh", "-c", WRAPPER, "sh", given.program, *cell.arguments()]
    command = job(launcher(cell, given.mpirun, settings), RANKS, *ranks, survive=True)
    # The victim behind a cut link ends by itself, at its own time.
    patience_s = LONGEST_S if cell.fault in LINK_FAULTS else 1
    pids, output = {}, ""
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as private_tmp:
        traces = Traces(private_tmp)
        try:
            with running(["timeout", str(LONGEST_S), *command], TMPDIR=private_tmp, **settings) as process:
                output = read_until_survived(process, cell.victim, pids, patience_s)
                end_launcher(process)
            traces.pids = list(pids.values())
            run = Run(output)
            slowest = check(cell, run, given)
            expect_nothing_left(traces, 3)
            return run, slowest
        except Failed:
            print(output, flush=True)
            raise
        finally:
            if cell.hosts > 1:
                subprocess.run(["on", "host1", "ip", "link", "set", "eth1", "up"], check=True)
            for pid in pids.values():
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--ends", type=float, default=1.0)
    parser.add_argument("program")
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    given.full = given.full or is_full()
    return given


def tried(cell, given):
    for left in reversed(range(TRIES)):
        try:
            return run_cell(cell, given)
        except Late as late:
            if left == 0:
                raise
            print(f"{cell}: once more: {late}", flush=True)


def main():
    given = arguments()
    enter_room(given.program)
    hosts = int(os.environ.get("HOSTS", "1"))
    cells = all_cells(hosts) if given.full else quick_cells(hosts)
    cells = [cell for cell in cells if given.only in str(cell)]
    failures = 0
    began = time.monotonic()
    for cell in cells:
        try:
            run, slowest = tried(cell, given)
            sight = f"seen after {slowest * 1000:.1f} ms, " if slowest else ""
            last = max(ended[0] for ended in run.ended.values()) - run.fault_at
            print(f"{cell}: {sight}the last one ended after {last * 1000:.0f} ms", flush=True)
            if given.texts:
                for text in sorted({ended[3] for ended in run.ended.values() if ended[3]}):
                    print(f"    {text}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"{cell}: failed: {failure}", flush=True)
    print(f"{len(cells)} cells in {time.monotonic() - began:.0f} s")
    sys.exit(f"failed: {failures} of {len(cells)} cells" if failures else 0)


main()
