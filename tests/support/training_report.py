"""The files of a run of train_charlm, and what its transfers may cost."""

import json
import os


def files_in(folder):
    """The options that write them."""
    return ["--losses", os.path.join(folder, "losses"), "--json", os.path.join(folder, "report")]


def losses_and_report(folder):
    with open(os.path.join(folder, "losses")) as losses, open(os.path.join(folder, "report")) as report:
        return losses.read().splitlines(), json.load(report)


def expect_steady(failures, who, counters):
    """In the steady state nothing is copied or registered, and a transfer is one request."""
    print(f"{who} in the steady state: {counters}")
    for counter in ("bytes_copied", "registrations", "control_messages"):
        failures.expect(counters[counter] == 0, f"{who}: {counter} is {counters[counter]} in the steady state")
    requests, transfers = counters["work_requests"], counters["transfers"]
    failures.expect(0 < transfers == requests, f"{who}: {requests} requests for {transfers} transfers")


def expect_all_steady(failures, transfers):
    """The job and each of its ranks."""
    expect_steady(failures, "the job", transfers["job"])
    for rank, counters in enumerate(transfers["ranks"]):
        expect_steady(failures, f"rank {rank}", counters)
