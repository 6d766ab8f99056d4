"""Ranks that no launcher starts find each other by WEFT_ADDR and a token, and refuse what is wrong.

Usage: token_job.py RANK_RING RING_UNTIL_TOLD WEFT_STATUS
"""

import json
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

from jobs import Failures, free_port, run, start, without_launcher, write_token

PROGRAM, ENDLESS, STATUS = sys.argv[1:]
SCRIPT = pathlib.Path(__file__).parent / "start_ranks.sh"
failures = Failures()
expect = failures.expect


def member(token, port, rank, size, program=PROGRAM, **more):
    settings = {
        "WEFT_RANK": str(rank),
        "WEFT_SIZE": str(size),
        "WEFT_ADDR": f"127.0.0.1:{port}",
        "WEFT_TOKEN_FILE": token,
        "WEFT_INIT_TIMEOUT": "15s",
    }
    return start([program], env=without_launcher(settings | more))


def outputs(*processes):
    said = [process.communicate(timeout=40)[0] for process in processes]
    for text in said:
        print(text, end="", flush=True)
    return said


def send_garbage(port):
    """Returns once the rank has closed the connection."""
    for _ in range(200):
        try:
            client = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    with client:
        client.settimeout(10)
        client.sendall(b"x" * 64)
        try:
            client.recv(1)
        except ConnectionResetError:
            pass


def jobs_have_names(token):
    """So that jobs of one address, after each other or in other networks, are told apart.

    Connections that rank 0 rejected before the job began are counted, too.
    """
    ports = [free_port(), free_port()]
    jobs = [[member(token, port, 0, 2, ENDLESS)] for port in ports]
    send_garbage(ports[0])
    for port, job in zip(ports, jobs):
        job.append(member(token, port, 1, 2, ENDLESS))
    try:
        for process in [rank for job in jobs for rank in job]:
            said = process.stdout.readline()
            if process is jobs[0][0]:
                expect("1 connection(s) rejected" in said, f"rank 0 says nothing of the garbage: {said}")
                said = process.stdout.readline()
            expect("runs" in said, f"a rank does not run: {said}")
        seen = json.loads(subprocess.run([STATUS, "--json"], capture_output=True, text=True).stdout)
        names = [job["id"] for job in seen["jobs"]]
        for port in ports:
            named = [name for name in names if name.startswith(f"127.0.0.1:{port}-")]
            expect(len(named) == 1, f"one job of port {port} among {names}")
        rejected = {
            job["id"].split("-")[0]: [rank["rejected_connections"] for rank in job["ranks"]]
            for job in seen["jobs"]
        }
        for port, wanted in zip(ports, ([1, 0], [0, 0])):
            counts = rejected.get(f"127.0.0.1:{port}")
            expect(counts == wanted, f"port {port}: {counts} rejected, not {wanted}")
    finally:
        for job in jobs:
            job[0].send_signal(signal.SIGUSR1)
    for text in outputs(*jobs[0], *jobs[1]):
        expect("held after" in text, "a rank of a job did not hold")


def a_shell_script_starts_a_job(token):
    for ranks in (1, 4):
        command = [SCRIPT, str(ranks), f"127.0.0.1:{free_port()}", token, PROGRAM]
        done = run(command, seconds=60, env=without_launcher({}))
        print(done.stdout, end="")
        expect(done.returncode == 0, f"{ranks} ranks: exit status {done.returncode}")
        expect(done.stdout == "", f"{ranks} ranks: somebody had something to complain about")


def a_rank_that_never_comes_is_named(token):
    port = free_port()
    began = time.monotonic()
    job = [member(token, port, rank, 3, WEFT_INIT_TIMEOUT="2s") for rank in (0, 2)]
    for rank, text in zip((0, 2), outputs(*job)):
        expect("never arrived" in text, f"rank {rank} does not say who never arrived")
        expect("rank 1" in text, f"rank {rank} does not name rank 1")
    expect(time.monotonic() - began < 5, "the missing rank was named too late")


def another_token_is_refused_at_once(token, other):
    port = free_port()
    keeper = member(token, port, 0, 2, WEFT_INIT_TIMEOUT="4s")
    began = time.monotonic()
    (text,) = outputs(member(other, port, 1, 2))
    expect("another job, by the secret" in text, "the unauthenticated client is not told why")
    expect(time.monotonic() - began < 3, "the unauthenticated client is told too late")
    # A rank with the right token still gets in.
    texts = outputs(keeper, right := member(token, port, 1, 2))
    expect(right.returncode == 0 and keeper.returncode == 0, "the job did not begin after it")
    expect("rejected" in texts[0], "rank 0 says nothing of it")


def the_network_does_not_see_the_secret(token):
    """What goes between the ranks while they are introduced holds no rank's address in plain."""
    port, behind = free_port(), free_port()
    seen = bytearray()
    keeper = member(token, behind, 0, 2)
    front = socket.create_server(("127.0.0.1", port))
    second = member(token, port, 1, 2)
    outer, _ = front.accept()
    for _ in range(200):
        try:
            inner = socket.create_connection(("127.0.0.1", behind))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    ends = selectors.DefaultSelector()
    ends.register(outer, selectors.EVENT_READ, inner)
    ends.register(inner, selectors.EVENT_READ, outer)
    open_ends = 2
    while open_ends:
        for key, _ in ends.select(10):
            data = key.fileobj.recv(65536)
            seen += data
            if data:
                key.data.sendall(data)
            else:
                ends.unregister(key.fileobj)
                open_ends -= 1
                key.data.shutdown(socket.SHUT_WR)
    outputs(keeper, second)
    expect(keeper.returncode == 0 and second.returncode == 0, "the job by a relay did not begin")
    expect(len(seen) > 1500, "the relay saw next to nothing")
    # As an address holds it, with zeros behind: a name of two letters alone comes up in random bytes.
    host = socket.gethostname().encode()[:63].ljust(64, bytes(1))
    expect(host not in seen, "the host's name went over the network in plain")


def main():
    with tempfile.TemporaryDirectory() as folder:
        token = write_token(folder + "/token")
        other = write_token(folder + "/other")
        a_shell_script_starts_a_job(token)
        jobs_have_names(token)
        a_rank_that_never_comes_is_named(token)
        another_token_is_refused_at_once(token, other)
        the_network_does_not_see_the_secret(token)
    failures.end()


main()
