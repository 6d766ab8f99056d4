"""Compares calls in Python with the same in C++ and by mpi4py, in one run:

    compare.py [--quick] CPP_PROGRAM MPIRUN...

A row for each: what, the bytes, Python's time, the other's, their relation, and the limit that it must keep. Exits with 1
if one is beyond its limit. --quick: one round, and no judgement."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
QUICK = [argument for argument in sys.argv[1:] if argument == "--quick"]
CPP_PROGRAM, *MPIRUN = [argument for argument in sys.argv[1:] if argument != "--quick"]


def measured(*command):
    """The times that a program's ranks print, by name and bytes."""
    ended = subprocess.run([*MPIRUN, "-n", "2", *map(str, command), *QUICK], capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        return None, ended.stderr
    return {(line.split()[0], int(line.split()[1])): float(line.split()[2]) for line in ended.stdout.splitlines()}, ""


def main():
    here, error = measured(sys.executable, HERE / "by_weft.py")
    cpp, cpp_error = measured(CPP_PROGRAM)
    if here is None or cpp is None:
        sys.exit(error + cpp_error)
    mpi, _ = measured(sys.executable, HERE / "by_mpi4py.py")
    empty = here["empty_method", 0]
    print(f"an empty Python method: {empty * 1e9:.0f} ns")
    # The loop's own call of a lambda is no part of the put.
    own = here["put", 8] - here["empty_lambda", 0]
    rows = [("put, beyond C++, in empty methods", 8, own, cpp["put", 8], (own - cpp["put", 8]) / empty, 10.0)]
    for size in (1 << 20, 16 << 20):
        rows.append(("put, times C++", size, here["put", size], cpp["put", size], here["put", size] / cpp["put", size], 1.03))
    if mpi is None:
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
