"""Ranks that no launcher starts find each other by WEFT_ADDR and a token, and refuse what is wrong.

Usage: token_job.py RANK_RING RING_UNTIL_TOLD WEFT_STATUS
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM, ENDLESS, STATUS = sys.argv[1:]
SCRIPT = pathlib.Path(__file__).parent / "start_ranks.sh"
LAUNCHERS = ("PMIX_", "PMI_", "OMPI_", "SLURM_", "WEFT_")
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return {**kept, **more}


def start(token, port, rank, size, program=PROGRAM, **more):
    settings = environment(
        WEFT_RANK=str(rank),
        WEFT_SIZE=str(size),
        WEFT_ADDR=f"127.0.0.1:{port}",
        WEFT_TOKEN_FILE=str(token),
        **{"WEFT_INIT_TIMEOUT": "15s", **more},
    )
    return subprocess.Popen(
        [program], env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def outputs(*processes):
    said = [process.communicate(timeout=40)[0] for process in processes]
    for text in said:
        print(text, end="", flush=True)
    return said


def jobs_have_names(token):
    """So that jobs of one address, after each other or in other networks, are told apart."""
    ports = [free_port(), free_port()]
    jobs = [[start(token, port, rank, 2, ENDLESS) for rank in range(2)] for port in ports]
    try:
        for process in [rank for job in jobs for rank in job]:
            expect("runs" in process.stdout.readline(), "a rank does not run")
        seen = json.loads(subprocess.run([STATUS, "--json"], capture_output=True, text=True).stdout)
        names = [job["id"] for job in seen["jobs"]]
        for port in ports:
            named = [name for name in names if name.startswith(f"127.0.0.1:{port}-")]
            expect(len(named) == 1, f"one job of port {port} among {names}")
    finally:
        for job in jobs:
            job[0].send_signal(signal.SIGUSR1)
    for text in outputs(*jobs[0], *jobs[1]):
        expect("held after" in text, "a rank of a job did not hold")


def write_token(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def a_shell_script_starts_a_job(token):
    for ranks in (1, 4):
        done = subprocess.run(
            [SCRIPT, str(ranks), f"127.0.0.1:{free_port()}", token, PROGRAM],
            env=environment(),
            timeout=60,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout, end="")
        expect(done.returncode == 0, f"{ranks} ranks: exit status {done.returncode}")
        expect(done.stdout == "", f"{ranks} ranks: somebody had something to complain about")


def a_rank_that_never_comes_is_named(token):
    port = free_port()
    began = time.monotonic()
    job = [start(token, port, rank, 3, WEFT_INIT_TIMEOUT="2s") for rank in (0, 2)]
    for rank, text in zip((0, 2), outputs(*job)):
        expect("never arrived" in text, f"rank {rank} does not say who never arrived")
        expect("rank 1" in text, f"rank {rank} does not name rank 1")
    expect(time.monotonic() - began < 5, "the missing rank was named too late")


def another_token_is_refused_at_once(token, other):
    port = free_port()
    keeper = start(token, port, 0, 2, WEFT_INIT_TIMEOUT="4s")
    began = time.monotonic()
    (text,) = outputs(start(other, port, 1, 2))
    expect("another job, by the secret" in text, "the unauthenticated client is not told why")
    expect(time.monotonic() - began < 3, "the unauthenticated client is told too late")
    # A rank with the right token still gets in.
    texts = outputs(keeper, right := start(token, port, 1, 2))
    expect(right.returncode == 0 and keeper.returncode == 0, "the job did not begin after it")
    expect("rejected" in texts[0], "rank 0 says nothing of it")


def the_network_does_not_see_the_secret(token):
    """What goes between the ranks while they are introduced holds no rank's address in plain."""
    port, behind = free_port(), free_port()
    seen = bytearray()
    keeper = start(token, behind, 0, 2)
    front = socket.create_server(("127.0.0.1", port))
    member = start(token, port, 1, 2)
    outer, _ = front.accept()
    for _ in range(200):
        try:
            inner = socket.create_connection(("127.0.0.1", behind))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    import selectors

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
    outputs(keeper, member)
    expect(keeper.returncode == 0 and member.returncode == 0, "the job by a relay did not begin")
    expect(len(seen) > 1500, "the relay saw next to nothing")
    host = socket.gethostname().encode()
    expect(host not in seen, "the host's name went over the network in plain")


def main():
    with tempfile.TemporaryDirectory() as folder:
        token = write_token(folder, "token", os.urandom(32).hex() + "\n")
        other = write_token(folder, "other", os.urandom(32).hex() + "\n")
        a_shell_script_starts_a_job(token)
        jobs_have_names(token)
        a_rank_that_never_comes_is_named(token)
        another_token_is_refused_at_once(token, other)
        the_network_does_not_see_the_secret(token)
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
