"""A trainer under mpirun publishes a model while readers outside its job generate text with it. Each reader reports its
versions in order, the last of which is the trainer's last, and the model has learned. A reader with another token is
refused, a stopped reader holds no other up, and a reader that outlives a killed trainer says so.

Usage: rollouts.py TRAIN_CHARLM ROLLOUT_CHARLM TEXT SHORT MPIRUN [FLAG ...]

SHORT: "" for a run that must learn, else options of a shorter one.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

TRAIN, ROLLOUT, TEXT, SHORT, *MPIRUN = sys.argv[1:]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)


def outside(environment):
    """Of no job: nothing that a launcher sets."""
    return {k: v for k, v in environment.items() if not k.startswith(("PMIX_", "OMPI_"))}


def train(environment, *more):
    command = [*MPIRUN, "-n", "2", TRAIN, "--text", TEXT, "--sample", "0", *more]
    return subprocess.Popen(command, env=environment, **PIPES)


def rollout(environment, *more):
    command = [ROLLOUT, "--text", TEXT, "--characters", "80", *more]
    return subprocess.Popen(command, env=outside(environment), **PIPES)


def versions_of(text):
    return [int(version) for version in re.findall(r"^version +(\d+)", text, re.MULTILINE)]


def rollouts_follow_the_trainer(environment, folder):
    short = SHORT.split()
    steps = [] if not short else ["--hidden", "32", "--batch", "8", *short]
    judge = ["--do-not-judge"] if short else []
    readers = [rollout(environment, *judge) for _ in range(2)]
    stopped = rollout(environment, *judge)
    job = train(environment, "--publish", "10", "--readers", "3", *steps)
    stopped.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    texts = [reader.communicate(timeout=100)[0] for reader in readers]
    # The trainer waits for the stopped reader, up to its timeout.
    stopped.send_signal(signal.SIGCONT)
    said = job.communicate(timeout=60)[0]
    texts.append(stopped.communicate(timeout=60)[0])
    print(said, *texts, sep="\n")
    expect(job.returncode == 0, f"the trainer ended with {job.returncode}")
    published = int(re.search(r"published (\d+) versions", said).group(1))
    for reader, text in zip([*readers, stopped], texts):
        versions = versions_of(text)
        expect(reader.returncode == 0, f"a reader ended with {reader.returncode}")
        expect(versions == sorted(set(versions)), f"versions went back: {versions}")
        # The first line of the stopped reader has been read already.
        expect(reader is stopped or versions[-1:] == [published], f"{versions} ends before the last of {published}")
    expect(not (folder / "address").exists(), "the address file was left")


def unauthenticated_clients_are_refused_and_a_killed_trainer_is_named(environment, folder):
    write_token(folder / "other")
    job = train(environment, "--publish", "1", "--steps", "1000000", "--hidden", "16", "--batch", "2")
    reader = rollout(environment, "--do-not-judge")
    client = rollout({**environment, "WEFT_SUBSCRIBE_TOKEN_FILE": str(folder / "other")})
    refused = client.communicate(timeout=60)[0]
    expect(client.returncode == 3 and "does not let this process in: it has another token" in refused, f"the unauthenticated client: {refused}")
    reader.stdout.readline()
    for rank in subprocess.check_output(["pgrep", "-P", str(job.pid)], text=True).split():
        os.kill(int(rank), signal.SIGKILL)
    text = reader.communicate(timeout=60)[0]
    said = job.communicate(timeout=60)[0]
    expect("rejected" in said, "the trainer says nothing of the unauthenticated client")
    expect(reader.returncode == 3 and "peer_failed" in text, f"after the trainer's death: {text[-400:]}")


def write_token(path):
    path.write_text(os.urandom(32).hex() + "\n")
    path.chmod(0o600)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_token(folder / "token")
        environment = {
            **os.environ,
            "WEFT_SUBSCRIBE_ADDR": str(folder / "address"),
            "WEFT_SUBSCRIBE_TOKEN_FILE": str(folder / "token"),
        }
        began = time.monotonic()
        rollouts_follow_the_trainer(environment, folder)
        unauthenticated_clients_are_refused_and_a_killed_trainer_is_named(environment, folder)
        print(f"{time.monotonic() - began:.1f} s")
    sys.exit("\n".join("failed: " + failure for failure in failures) or 0)


main()
