"""Compares calls in Python with the same in C++ and by mpi4py, in one run:

    compare.py [--quick] CPP_PROGRAM MPIRUN...

A row for each: what, the bytes, Python's time, the other's, their relation, and the limit that it must keep. Exits with 1
if one is beyond its limit. The programs take turns, since each run's arrays lie elsewhere and the machine has better and
worse moments; the best of each counts. --quick: one turn of one round, and no judgement."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
QUICK = [argument for argument in sys.argv[1:] if argument == "--quick"]
CPP_PROGRAM, *MPIRUN = [argument for argument in sys.argv[1:] if argument != "--quick"]


TURNS = 1 if QUICK else 5


def measured(command):
    """The times that a program's ranks print, by name and bytes."""
    ended = subprocess.run([*MPIRUN, "-n", "2", *map(str, command), *QUICK], capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        return None, ended.stderr
    return {(line.split()[0], int(line.split()[1])): float(line.split()[2]) for line in ended.stdout.splitlines()}, ""


def main():
    found = {"here": {}, "cpp": {}, "mpi": {}}
    for _ in range(TURNS):
        for name, command in (("here", [sys.executable, HERE / "by_weft.py"]), ("cpp", [CPP_PROGRAM]),
                              ("mpi", [sys.executable, HERE / "by_mpi4py.py"])):
            times, error = measured(command)
            if times is None and name != "mpi":
                sys.exit(error)
            for key, seconds in (times or {}).items():
                found[name][key] = min(seconds, found[name].get(key, seconds))
    here, cpp, mpi = found["here"], found["cpp"], found["mpi"]
    empty = here["empty_method", 0]
    print(f"an empty Python method: {empty * 1e9:.0f} ns")
    # The loop's own call of a lambda is no part of the put.
    own = {size: here["put", size] - here["empty_lambda", 0] for size in (8, 1 << 20, 16 << 20)}
    rows = [("put, beyond C++, in empty methods", 8, own[8], cpp["put", 8], (own[8] - cpp["put", 8]) / empty, 10.0)]
    for size in (1 << 20, 16 << 20):
        rows.append(("put, times C++", size, own[size], cpp["put", size], own[size] / cpp["put", size], 1.03))
    if not mpi:
        print("skipped: mpi4py is not installed (Debian: python3-mpi4py)")
    else:
        for what, size, limit in (("ping_pong", 8, 0.9), ("all_reduce", 1 << 20, 0.4)):
            rows.append((f"{what}, times mpi4py", size, here[what, size], mpi[what, size],
                         here[what, size] / mpi[what, size], limit))
    for what, size, ours, theirs, relation, limit in rows:
        mark = "" if relation <= limit else "   BEYOND"
        print(f"{what:36} {size:>9} B  {ours * 1e6:10.2f} us  {theirs * 1e6:10.2f} us  {relation:6.2f}, at most {limit}{mark}")
    sys.exit(not QUICK and any(relation > limit for *_, relation, limit in rows))


if __name__ == "__main__":
    main()
