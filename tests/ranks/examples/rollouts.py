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

from jobs import Failures, job, start, without_launcher, write_token

TRAIN, ROLLOUT, TEXT, SHORT, *MPIRUN = sys.argv[1:]
failures = Failures()
expect = failures.expect


def train(settings, *more):
    return start(job(MPIRUN, 2, TRAIN, "--text", TEXT, "--sample", "0", *more), **settings)


def rollout(settings, *more):
    command = [ROLLOUT, "--text", TEXT, "--characters", "80", *more]
    return start(command, env=without_launcher(settings))


def versions_of(text):
    return [int(version) for version in re.findall(r"^version +(\d+)", text, re.MULTILINE)]


def rollouts_follow_the_trainer(settings, folder):
    short = SHORT.split()
    steps = [] if not short else ["--hidden", "32", "--batch", "8", *short]
    judge = ["--do-not-judge"] if short else []
    readers = [rollout(settings, *judge) for _ in range(2)]
    stopped = rollout(settings, *judge)
    trainer = train(settings, "--publish", "10", "--readers", "3", *steps)
    stopped.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    texts = [reader.communicate(timeout=100)[0] for reader in readers]
    # The trainer waits for the stopped reader, up to its timeout.
    stopped.send_signal(signal.SIGCONT)
    said = trainer.communicate(timeout=60)[0]
    texts.append(stopped.communicate(timeout=60)[0])
    print(said, *texts, sep="\n")
    expect(trainer.returncode == 0, f"the trainer ended with {trainer.returncode}")
    published = int(re.search(r"published (\d+) versions", said).group(1))
    for reader, text in zip([*readers, stopped], texts):
        versions = versions_of(text)
        expect(reader.returncode == 0, f"a reader ended with {reader.returncode}")
        expect(versions == sorted(set(versions)), f"versions went back: {versions}")
        # The first line of the stopped reader has been read already.
        expect(reader is stopped or versions[-1:] == [published], f"{versions} ends before the last of {published}")
    expect(not (folder / "address").exists(), "the address file was left")


def unauthenticated_clients_are_refused_and_a_killed_trainer_is_named(settings, folder):
    write_token(folder / "other")
    trainer = train(settings, "--publish", "1", "--steps", "1000000", "--hidden", "16", "--batch", "2")
    reader = rollout(settings, "--do-not-judge")
    client = rollout(settings | {"WEFT_SUBSCRIBE_TOKEN_FILE": str(folder / "other")})
    refused = client.communicate(timeout=60)[0]
    expect(client.returncode == 3 and "does not let this process in: it has another token" in refused, f"the unauthenticated client: {refused}")
    reader.stdout.readline()
    for rank in subprocess.check_output(["pgrep", "-P", str(trainer.pid)], text=True).split():
        os.kill(int(rank), signal.SIGKILL)
    text = reader.communicate(timeout=60)[0]
    said = trainer.communicate(timeout=60)[0]
    expect("rejected" in said, "the trainer says nothing of the unauthenticated client")
    expect(reader.returncode == 3 and "peer_failed" in text, f"after the trainer's death: {text[-400:]}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_token(folder / "token")
        settings = {
            "WEFT_SUBSCRIBE_ADDR": str(folder / "address"),
            "WEFT_SUBSCRIBE_TOKEN_FILE": str(folder / "token"),
        }
        began = time.monotonic()
        rollouts_follow_the_trainer(settings, folder)
        unauthenticated_clients_are_refused_and_a_killed_trainer_is_named(settings, folder)
        print(f"{time.monotonic() - began:.1f} s")
    failures.end()


main()
