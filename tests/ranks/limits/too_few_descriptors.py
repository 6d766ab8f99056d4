"""A job under any limit of open files works, or each of its ranks says at once that descriptors lack.

Usage: too_few_descriptors.py RANK_RING

With WEFT_TEST_FULL=1 every limit is tried.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from jobs import free_port

PROGRAM = sys.argv[1]
LAUNCHERS = ("PMIX_", "PMI_", "OMPI_", "SLURM_", "WEFT_")
FULL = os.environ.get("WEFT_TEST_FULL") == "1"
LIMITS = range(8, 65) if FULL else (8, 16, 22, 24, 25, 26, 28, 30, 34, 37, 38, 64)
PATIENCE = 5.0  # 2 s, and time to start the processes on a loaded machine
failures = []


def start(token, port, rank, ranks, fabric, limit):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    settings = {
        **kept,
        "WEFT_RANK": str(rank),
        "WEFT_SIZE": str(ranks),
        "WEFT_ADDR": f"127.0.0.1:{port}",
        "WEFT_TOKEN_FILE": str(token),
        "WEFT_FABRIC": fabric,
        "WEFT_INIT_TIMEOUT": "15s",
    }
    return subprocess.Popen(
        [PROGRAM],
        env=settings,
        # Both limits: weft raises the soft one to the hard one.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def names_the_shortage(text):
    return (
        ("exhausted" in text or "system" in text)
        and ("descriptor" in text or "open files" in text)
        and "ulimit -n" in text
        and "peer_failed" not in text
    )


def works(token, ranks, fabric, limit):
    what = f"{ranks} ranks by {fabric}, ulimit -n {limit}"
    port = free_port()
    began = time.monotonic()
    job = [start(token, port, rank, ranks, fabric, limit) for rank in range(ranks)]
    texts = [process.communicate(timeout=60)[0] for process in job]
    took = time.monotonic() - began
    if all(process.returncode == 0 for process in job):
        return True
    if took > PATIENCE:
        failures.append(f"{what}: ended after {took:.1f} s")
    for rank, text in enumerate(texts):
        if not names_the_shortage(text):
            failures.append(f"{what}: rank {rank}: exit status {job[rank].returncode}: {text}")
    return False


def main():
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder) / "token"
        token.write_text(os.urandom(32).hex() + "\n")
        token.chmod(0o600)
        for ranks in (1, 2, 4):
            for fabric in ("shm", "tcp"):
                enough = [limit for limit in LIMITS if works(token, ranks, fabric, limit)]
                print(f"{ranks} ranks by {fabric} work with {enough[:1]} descriptors", flush=True)
                if 64 not in enough:
                    failures.append(f"{ranks} ranks by {fabric} do not work with 64 descriptors")
                if 8 in enough:
                    failures.append("a rank does not obey the limit")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
