"""Jobs that save a dense and a sparse table, and whose server is killed before one of its writing calls. The next job,
on another number of servers, must start from the newest complete checkpoint, with the bits that an undisturbed job had
at that version, and must end with the same bits as that job.

Usage: checkpoint_dies.py [--full] PROGRAM KILLER MPIRUN [FLAG ...]

--full, or WEFT_TEST_FULL=1: before each call, instead of some. WEFT_TEST_SEED repeats the choice.
"""

import argparse
import collections
import glob
import itertools
import os
import random
import re
import tempfile

from jobs import Failed, draw_seed, expect, is_full, job
from jobs import run as run_job

END = 6
TABLES = ("dense", "sparse")
CALLS = ("mkdir", "create", "write", "fsync", "rename", "rename manifest", "remove")


def run(command):
    done = run_job(command, seconds=120)
    shown = {table: {} for table in TABLES}
    first = {}
    for table, version, value in re.findall(r"(dense|sparse) (\d+) (\w{16})", done.stdout):
        first.setdefault(table, int(version))
        shown[table][int(version)] = value
    return done, shown, first


def finished(folder, table):
    """The newest version with a manifest; 0: none."""
    found = glob.glob(os.path.join(folder, table, "[0-9]*", "manifest.json"))
    versions = [os.path.basename(os.path.dirname(path)) for path in found]
    return max((int(version) for version in versions if version.isdigit()), default=0)


def check(shown, expected):
    for table in TABLES:
        for version, value in shown[table].items():
            undisturbed = expected[table][version]
            expect(undisturbed == value, f"{table}, version {version}: {value}, undisturbed {undisturbed}")


def kill_at(step, given, expected):
    """The call before which the server was killed; None: the server made fewer calls."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [given.program, folder, str(END)]
        killer = ["env", f"LD_PRELOAD={given.killer}", f"WEFT_TEST_KILL_FOLDER={folder}", f"WEFT_TEST_KILL_STEP={step}"]
        done, shown, _ = run([*job(given.mpirun, 2, *ranks), ":", "-n", "1", *killer, *ranks])
        check(shown, expected)
        killed = re.search(r"killed before (.*)", done.stdout)
        expect(killed or done.returncode == 0, f"no server was killed, but the job failed:\n{done.stdout}")
        newest = {table: finished(folder, table) for table in TABLES}
        servers = 1 + step % 3
        done, shown, first = run(job(given.mpirun, 1 + servers, *ranks))
        expect(done.returncode == 0, f"restored on {servers} servers, it failed:\n{done.stdout}")
        expect(first == newest, f"{newest} were finished, on {servers} servers it began with {first}:\n{done.stdout}")
        check(shown, expected)
        for table in TABLES:
            expect(END in shown[table], f"{table} did not come to its end:\n{done.stdout}")
        return killed.group(1) if killed else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("program")
    parser.add_argument("killer")
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    draw_seed()
    with tempfile.TemporaryDirectory() as folder:
        done, expected, first = run(job(given.mpirun, 3, given.program, folder, END))
        newest = {table: finished(folder, table) for table in TABLES}
    begun = done.returncode == 0 and first == {table: 0 for table in TABLES}
    expect(
        begun and min(newest.values()) >= END - 2,
        f"undisturbed, it began with {first} and finished {newest}:\n{done.stdout}",
    )
    if given.full or is_full():
        steps = itertools.count(1)
    else:
        steps = random.sample(range(1, 70), 6)  # there are some 72
    met = collections.Counter()
    for step in steps:
        try:
            call = kill_at(step, given, expected)
        except Failed as failure:
            raise Failed(f"killed before call {step}: {failure}") from None
        if call is None:
            break
        met[call] += 1
    print(f"killed before {dict(met)}")
    missed = [call for call in CALLS if call not in met]
    expect(met and not (missed and sum(met.values()) > 50), f"some calls were not met: {missed}")


main()
