"""weft-status, weft-trace and weft-chaos on a running job: the late rank is named, recordings become a
trace, faults repeat by their seed and spare all other ranks.

Usage: tools_on_a_job.py BIN-FOLDER PROGRAM MPIRUN [FLAG ...]
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from jobs import expect, job, joined, run, running, until

RANKS = 3
BIN = sys.argv[1]


def tool(name, *arguments, status=0):
    ran = subprocess.run(
        [os.path.join(BIN, name), *arguments], capture_output=True, text=True, timeout=60
    )
    expect(
        ran.returncode == status,
        f"{name} {' '.join(arguments)}: status {ran.returncode}, not {status}: {ran.stderr}",
    )
    return ran.stdout if status == 0 else ran.stderr


def status(pid):
    jobs = json.loads(tool("weft-status", "--json", "--job", str(pid)))["jobs"]
    expect(len(jobs) == 1, f"one job with pid {pid}, not {jobs}")
    return jobs[0]


def check_progress(pids):
    first = status(pids[0])
    expect(first["size"] == RANKS and len(first["ranks"]) == RANKS, first)
    for rank in first["ranks"]:
        expect(rank["state"] == "ALIVE" and rank["seen_by"] == "itself", rank)
        expect(rank["pid"] == pids[rank["rank"]], rank)
    time.sleep(0.2)
    for old, new in zip(first["ranks"], status(pids[0])["ranks"]):
        for role in ("puts", "receives"):
            expect(new["completed"][role] > old["completed"][role], f"{role} of {new}")
            expect(new["started"][role] >= new["completed"][role], f"{role} of {new}")


def check_launchers_pid(launcher, pids):
    expect(status(launcher)["id"] == status(pids[0])["id"], "mpirun's pid names its job")
    with subprocess.Popen(["sleep", "60"]) as other:
        error = tool("weft-status", "--job", str(other.pid), status=2)
        expect("with that pid is no rank and has started none" in error and "there are: " in error, error)
        other.kill()
    expect("no process with that pid" in tool("weft-status", "--job", str(other.pid), status=2), "of none")


def check_laggard(pids):
    """Rank 1 is stopped while it waits: the ring waits for it, and no other rank is blamed."""
    os.kill(pids[2], signal.SIGSTOP)
    until("rank 1 waits", 5, lambda: status(pids[0])["ranks"][1]["waits"])
    time.sleep(0.1)
    os.kill(pids[1], signal.SIGSTOP)
    os.kill(pids[2], signal.SIGCONT)

    def late():
        seen = status(pids[0])
        return seen if [(late["rank"], late["waiters"]) for late in seen["laggards"]] == [(1, 2)] else None

    seen = until("both others wait for rank 1 alone", 20, late)
    expect(not seen["circles"], seen["circles"])
    waits = [wait for rank in seen["ranks"] for wait in rank["waits"] if rank["rank"] != 1]
    for wait in waits:
        expect(wait["operation"] in ("wait", "put") and wait["slot"] == "ring", wait)
        expect(wait["sequence"] > 0 and wait["seconds"] > 0, wait)
    text = tool("weft-status", "--job", str(pids[0]))
    expect("late: rank 1, for which 2 ranks wait" in text, text)


def check_recordings(pids, tmp):
    folder = os.path.join(tmp, "asked")
    os.mkdir(folder)
    files = tool("weft-status", "--record", folder, "--job", str(pids[0])).split()
    expect(len(files) == RANKS and all(map(os.path.exists, files)), files)
    shown = tool("weft-trace", "show", "--last", "5", files[0])
    expect("job" in shown and "ring" in shown, shown)
    trace = os.path.join(tmp, "trace.json")
    tool("weft-trace", "merge", *files, "-o", trace)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = [event for event in events if event["ph"] == "f"]
    expect(len(ends) > 100, f"{len(ends)} arrows from puts to arrivals")
    for end in ends:
        begun = starts[end["id"]]
        expect(begun["ts"] <= end["ts"], f"it arrives before it is put: {begun} {end}")
        expect(end["pid"] == (begun["pid"] + 1) % RANKS, f"{begun} {end}")
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    expect(any(name.startswith("ring") for name in names), names)


def check_failure(pids, ranks, folder):
    os.kill(pids[1], signal.SIGCONT)
    os.kill(pids[2], signal.SIGKILL)
    ranks.wait(timeout=30)
    found = {
        int(re.search(r"-rank(\d+)-", path)[1]): path
        for path in glob.glob(os.path.join(folder, "*.weft-recording"))
    }
    expect(set(found) == set(range(RANKS)), f"recordings of {sorted(found)}")
    expect(len(os.listdir(folder)) == RANKS, os.listdir(folder))
    dead = tool("weft-trace", "show", found[2])
    expect("died without leaving" in dead and "recorded by rank" in dead, dead)


def check_bad_use(tmp):
    expect("is called no-such" in tool("weft-status", "--job", "no-such", status=2), "no such job")
    not_one = os.path.join(tmp, "not-one")
    with open(not_one, "w") as file:
        file.write("x" * 9000)
    error = tool("weft-trace", "show", not_one, status=2)
    expect("no stats segment" in error and error.count("\n") == 1, error)
    tool("weft-trace", "merge", os.path.join(tmp, "missing"), status=2)
    for pause in "nan", "inf", "0", "-1", "0.0001", "99999999999999999999", "1s":
        error = tool("weft-status", f"--watch={pause}", status=2)
        expect("seconds from 0.01 to 86400" in error, error)
    with open("/dev/full", "w") as full:
        status = [os.path.join(BIN, "weft-status"), "--json"]
        lost = subprocess.run(status, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    expect(lost.returncode == 2 and "No space left" in lost.stderr, f"a lost output: {lost}")
    for name in "weft-info", "weft-tune", "weft-status":
        expect("--hlep" in tool(name, "--hlep", status=2), f"{name} names what it does not know")
    error = tool("weft-chaos", "--cut", "--", "true", status=2)
    expect("--cut-command" in error and error.count("\n") == 1, error)
    for ranks in [], ["--ranks", "1"], ["--ranks", "0,2"]:
        error = tool("weft-chaos", *ranks, "--", "/no/such/launcher", "-n", "4", status=2)
        expect("No such file" in error, error)


def check_chaos(mpirun, program, tmp):
    bystander = subprocess.Popen(["sleep", "60"], env={**os.environ, "OMPI_COMM_WORLD_RANK": "0"})
    chaos = [os.path.join(BIN, "weft-chaos"), "--seed", "5", "--after", "0", "--within", "1.5"]
    chaos += ["--stop", "--kill", "--slow", "--times", "6", "--for", "0.2"]
    plans = []
    try:
        for _ in range(2):
            done = run([*chaos, "--", *job(mpirun, RANKS, program)], seconds=60, TMPDIR=tmp)
            output = done.stdout
            plans.append(re.findall(r"plan: (.*)", output))
            expect(len(plans[-1]) > 1 and "kill rank" in "".join(plans[-1]), output)
            expect(re.search(r"s: kill rank \d+ \(pid \d+\)", output), output)
            expect(f"ended with status {done.returncode} after" in output, output)
            expect(done.returncode != 0, "a job that lost a rank ends with an error")
        expect(plans[0] == plans[1], f"the same seed, other plans: {plans}")
        expect(bystander.poll() is None, "a process that is not the job's was ended")
    finally:
        bystander.kill()
        bystander.wait()


def main():
    program, mpirun = sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory(prefix="job-") as tmp:
        folder = os.path.join(tmp, "recordings")
        os.mkdir(folder)
        settings = {"WEFT_RECORD": "all", "WEFT_RECORD_DIR": folder, "TMPDIR": tmp}
        with running(job(mpirun, RANKS, program, survive=True), **settings) as ranks:
            pids = joined(ranks, RANKS)
            check_progress(pids)
            check_launchers_pid(ranks.pid, pids)
            check_laggard(pids)
            check_recordings(pids, tmp)
            expect(os.listdir(folder) == [], "files while nothing has failed")
            check_failure(pids, ranks, folder)
        check_bad_use(tmp)
        check_chaos(mpirun, program, tmp)
    print("laggards, recordings, traces and faults are as they should be")


main()
