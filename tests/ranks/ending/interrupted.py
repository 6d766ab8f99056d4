"""Ctrl-C ends whatever waits within 0.2 s: tools by the signal and without a word, ranks with their usual end. Nothing
is left behind.

Usage: interrupted.py BIN-FOLDER WAITING EXAMPLE NO_MEETING MPIRUN [FLAG ...]

WAITING: a program whose even ranks wait. EXAMPLE: one that takes --steps. NO_MEETING: a library that keeps the rank into
which it is preloaded from meeting the others.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from jobs import expect, expect_nothing_left, free_port, job, joined, running, until, without_launcher, write_token
from traces import Traces, alive, enter_room, is_given, processes

LIMIT_S = 0.2
BIN, WAITING, EXAMPLE, NO_MEETING, *MPIRUN = sys.argv[1:]

late = []


def in_time(began, what):
    """The processors may be busy for a moment, but not twice."""
    took = time.monotonic() - began
    print(f"{what} ended {took:.3f} s after the interrupt", flush=True)
    if took > LIMIT_S:
        late.append(what)
    expect(len(late) < 2 and took < 2, f"too late: {late}")


def tool(name):
    return os.path.join(BIN, name)


def interrupt(process, what):
    """`process`, a child that has begun to wait, ends by the signal."""
    expect(process.poll() is None, f"{what} does not wait: it ended with {process.returncode}")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(10)
    in_time(began, what)
    expect(process.returncode == -signal.SIGINT, f"{what} ended with {process.returncode}")


def interrupt_tool(what, *command, stdin=subprocess.DEVNULL, stdout, env=None):
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env)
    time.sleep(0.5)
    interrupt(process, what)
    said = process.stderr.read()
    expect(not said, f"{what} said: {said}")


def full_pipe():
    """Whoever writes to it waits."""
    end, entry = os.pipe()
    fcntl.fcntl(entry, 1031, 4096)  # F_SETPIPE_SZ
    os.set_blocking(entry, False)
    try:
        while True:
            os.write(entry, b"x" * 512)
    except BlockingIOError:
        pass
    os.set_blocking(entry, True)
    return end, entry


def check_tools(pid, tmp):
    watch = [tool("weft-status"), "--watch", "30", "--job", str(pid)]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        expect("job" in process.stdout.readline(), "weft-status shows the job")
        interrupt(process, "weft-status")
        expect(not (said := process.stderr.read()), f"weft-status said: {said}")
    recordings = subprocess.run(
        [tool("weft-status"), "--record", tmp, "--job", str(pid)], capture_output=True, text=True, timeout=60
    ).stdout.split()
    end, entry = full_pipe()
    interrupt_tool("weft-trace show", tool("weft-trace"), "show", recordings[0], stdout=entry)
    interrupt_tool("weft-trace merge", tool("weft-trace"), "merge", *recordings, "-o", "-", stdout=entry)
    interrupt_tool("weft-info", tool("weft-info"), stdout=entry)
    interrupt_tool("weft-topo --json", tool("weft-topo"), "--json", stdout=entry)
    interrupt_tool("weft-topo", tool("weft-topo"), "--input", "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for path in recordings:
        os.unlink(path)
    os.close(end), os.close(entry)


def check_a_join(tmp):
    """Without rank 1, rank 0 waits in World::join."""
    token = write_token(os.path.join(tmp, "token"))
    alone = {
        "WEFT_RANK": "0",
        "WEFT_SIZE": "2",
        "WEFT_ADDR": f"127.0.0.1:{free_port()}",
        "WEFT_TOKEN_FILE": token,
        "TMPDIR": tmp,
    }
    interrupt_tool(
        "weft-info --job", tool("weft-info"), "--job", stdout=subprocess.DEVNULL, env=without_launcher(alone)
    )
    os.unlink(token)


def check_a_join_of_three(tmp):
    """Ranks 0 and 1 have met and wait for rank 2 in World::join; rank 0 is told how rank 1 ends."""
    token, port, ranks = write_token(os.path.join(tmp, "token")), free_port(), []
    for rank in range(3):
        settings = {
            "WEFT_RANK": str(rank),
            "WEFT_SIZE": "3",
            "WEFT_ADDR": f"127.0.0.1:{port}",
            "WEFT_TOKEN_FILE": token,
            "TMPDIR": tmp,
        }
        if rank == 2:
            settings["LD_PRELOAD"] = NO_MEETING
        ranks.append(subprocess.Popen([WAITING], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                      env=without_launcher(settings)))  # fmt: skip
    try:
        until("ranks 0 and 1 wait for rank 2", 30, lambda: [
            [wait["peer"] for wait in rank["waits"] if wait["operation"] == "join"] for rank in status(ranks[0].pid)[:2]
        ] == [[2], [2]])  # fmt: skip
        interrupt(ranks[1], "a rank that joins")
        said = ranks[0].communicate(timeout=20)[1]
        expect(re.search(r"rank 1 .*was ended by SIGINT", said), f"rank 0 says not how rank 1 ended: {said}")
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    os.unlink(token)


def check_ranks_without_a_launcher(tmp):
    """A terminal's Ctrl-C reaches them all; here only one of them, so that the other tells why it ended."""
    token, port = write_token(os.path.join(tmp, "token")), free_port()
    command, ranks = [EXAMPLE, "--steps", "1000000"], []
    for rank in range(2):
        settings = {
            "WEFT_RANK": str(rank),
            "WEFT_SIZE": "2",
            "WEFT_ADDR": f"127.0.0.1:{port}",
            "WEFT_TOKEN_FILE": token,
            "TMPDIR": tmp,
        }
        ranks.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                      env=without_launcher(settings)))  # fmt: skip
    try:
        await_wait(ranks[0].pid, ranks[1].pid)
        interrupt(ranks[0], "a rank of an example")
        expect(not (said := ranks[0].stderr.read()), f"the interrupted rank said: {said}")
        ranks[1].send_signal(signal.SIGCONT)
        said = ranks[1].communicate(timeout=20)[1]
        expect(re.search(r"rank 0 .*was ended by SIGINT", said), f"rank 1 says not how rank 0 ended: {said}")
    finally:
        for rank in ranks:
            rank.kill()
    os.unlink(token)


def status(pid):
    shown = subprocess.run(
        [tool("weft-status"), "--json", "--job", str(pid)], capture_output=True, text=True, timeout=60
    ).stdout
    return json.loads(shown)["jobs"][0]["ranks"] if shown else []


def trains(rank):
    return any(table["worker"]["version"] > 0 for table in rank["tables"])


def await_wait(waits, stopped):
    """Once both train, so that neither is still joining, stops one; returns when the other waits for it."""
    until("the ranks train", 30, lambda: [trains(rank) for rank in status(waits)] == [True] * 2)
    os.kill(stopped, signal.SIGSTOP)
    until("one waits for the other", 10,
          lambda: any(rank["waits"] for rank in status(waits) if rank["pid"] == waits))  # fmt: skip


def ours(tmp):
    return [pid for pid in processes() if pid != os.getpid() and is_given(pid, f"TMPDIR={tmp}") and alive(pid)]


def check_ranks(tmp):
    """An example's rank, then mpirun itself, which else would wait a second before it tells its ranks."""
    with running(job(MPIRUN, 2, EXAMPLE, "--steps", "1000000"), TMPDIR=tmp) as launcher:
        ranks = until("the ranks run", 30, lambda: of_launcher(launcher.pid))
        await_wait(ranks[0], ranks[1])
        began = time.monotonic()
        os.kill(ranks[0], signal.SIGINT)
        until("the rank ends", 10, lambda: not alive(ranks[0]), pause=0.005)
        in_time(began, "a rank under mpirun")
        os.kill(ranks[1], signal.SIGCONT)
        said = launcher.communicate(timeout=20)[0]
        expect("signal 2 (Interrupt)" in said, f"mpirun does not see the signal: {said}")
    at_once = [*MPIRUN, "--mca", "odls_base_sigkill_timeout", "0"]
    with running(job(at_once, 2, EXAMPLE, "--steps", "1000000"), TMPDIR=tmp) as launcher:
        ranks = until("the ranks run", 30, lambda: of_launcher(launcher.pid))
        began = time.monotonic()
        launcher.send_signal(signal.SIGINT)
        until("the ranks end", 10, lambda: not any(map(alive, ranks)), pause=0.005)
        in_time(began, "the ranks of an interrupted mpirun")
        launcher.communicate(timeout=20)
        until("nothing is left", 5, lambda: not ours(tmp))


def of_launcher(pid):
    """The process ids of its two ranks, in the order of their ranks."""
    found = {}
    for other in processes():
        try:
            with open(f"/proc/{other}/environ", "rb") as environment:
                ranks = re.findall(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", environment.read())
            with open(f"/proc/{other}/stat") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
        if ranks and parent == pid:
            found[int(ranks[0])] = other
    return [found[0], found[1]] if len(found) == 2 and all(status(found[0])) else None


def check_bench(tmp):
    bench = [tool("weft-bench"), "put-bw", "--peers", "none"]
    with subprocess.Popen(bench, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | {"TMPDIR": tmp}) as process:  # fmt: skip
        until("its ranks run", 30, lambda: len(ours(tmp)) >= 4)  # itself, mpirun, and ranks
        interrupt(process, "weft-bench")
        until("its ranks end, too", 5, lambda: not ours(tmp))


def main():
    # A shell that runs this in the background has it ignored, here and in all that is started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    enter_room(BIN, WAITING, EXAMPLE)
    with tempfile.TemporaryDirectory(prefix="job-") as tmp:
        traces = Traces(tmp)
        with running(job(MPIRUN, 2, WAITING), TMPDIR=tmp) as launcher:
            pids = joined(launcher, 2)
            traces.look_at(list(pids.values()))
            check_tools(pids[0], tmp)
            launcher.send_signal(signal.SIGINT)
            launcher.communicate(timeout=20)
        check_a_join(tmp)
        check_a_join_of_three(tmp)
        check_ranks_without_a_launcher(tmp)
        check_ranks(tmp)
        if os.path.exists(tool("weft-bench")):
            check_bench(tmp)
        expect_nothing_left(traces)


main()
