"""A benchmark's quick run checks its data, and its JSON has the columns that docs/benchmarks.md
promises, with costs that do not depend on the machine.

Usage: quick_run.py WEFT_BENCH BENCHMARK ... (weft-bench starts the launcher itself)
"""

import json
import re
import subprocess
import sys
import tempfile

from jobs import expect, skip

COLUMNS = {
    "size", "kind", "ranks", "crowded", "weft_us", "limit_us", "peers", "spread", "ratios", "limit_ways", "figures",
    "peers_beyond_limit",
}  # fmt: skip
TWO_WAYS = {"limit_memcpy", "limit_streamed"}


def cost(sender, receiver):
    """Work requests of each end by tensor, and no byte copied besides."""
    return {"sender_requests": sender, "receiver_requests": receiver, "bytes_copied": 0}


def rows_of(kinds, figures, ranks=2):
    return {kind: (ranks, figures) for kind in kinds}


def asked(requests, *forms):
    """What an exchange by key took, beside its other forms."""
    beside = {name: None for form in forms for name in (f"{form}_us", f"weft/{form}")}
    return {"requests": requests, "bytes_copied": 0, **beside}


SEEN = object()

# For every kind of row the ranks and the figures: an exact value, None for one that must be above 0, or SEEN for one
# that may be 0. For the kinds whose limit copies, both ways. And a command line that is refused.
BOTH = ("touched", "untouched")
EXPECTED = {
    "latency": (rows_of(["touched"], {}), (), "--sizes 16"),
    "put-bw": (rows_of(BOTH, cost(1, 0)), BOTH, "--sizes 2g"),
    "get-bw": (rows_of(BOTH, cost(0, 1)), BOTH, "--sizes 2g"),
    "view": (rows_of(["untouched"], cost(0, 1)), (), "--sizes 2g"),
    "dynamic": (
        rows_of(
            ["touched"], {**cost(1, 1), "fixed_us": None, "hop_us": None, "dynamic/fixed": None}
        ),
        (),
        "--sizes 2g",
    ),
    "publish": (
        rows_of(["1 reader"], cost(0, 1)) | rows_of(["3 readers"], cost(0, 1), ranks=4),
        ("1 reader", "3 readers"),
        "--readers 8",
    ),
    "attach": (
        rows_of(["first put"], {"messages": None, "slots_per_s": None}),
        (),
        "--sizes 2m",
    ),
    "adopt": (
        rows_of(["from", "into", "both"], cost(1, 0)) | rows_of(["lent"], cost(1, 1)),
        ("from",),
        "--sizes 2g",
    ),
    "rendezvous": (
        rows_of(["one"], asked(1, "plain"))
        | rows_of(["eight"], asked(1 / 8, "plain", "indexed")),
        ("one", "eight"),
        "--sizes 1g",
    ),
    "fig7": (rows_of(["put", "view", "copied", "rpc"], {}), (), "--sizes 3"),
    "all_reduce": (
        rows_of(
            ["f32"], {"once_us": None, "weft/once": None, "bf16_us": None, "weft/bf16": None}
        ),
        ("f32",),
        "--sizes 6",
    ),
    "checks": (
        rows_of(
            [
                "barrier <= all_reduce",
                "all_reduce of 1 <= 4 elements",
                "all_reduce of 2 <= 4 elements",
                "all_reduce of 3 <= 4 elements",
                "all_reduce planned <= once",
                "all_reduce <= reduce, broadcast",
                "all_reduce of 3 <= 2..4 ranks",
            ],
            {"allowed": None, "spread": SEEN, "slower": SEEN},
            ranks=4,
        ),
        (),
        "--ranks 65",
    ),
    "graph_replay": (
        rows_of(
            [f"gru.{way}" for way in ("viewed", "static", "rendezvous", "copied", "rpc")],
            {"steps_per_s": None},
        ),
        (),
        "--sizes 6",
    ),
    "gpu": (
        rows_of(
            [
                f"{kind} (stand-in)"
                for kind in (
                    "within a GPU",
                    "host to GPU",
                    "GPU to host",
                    "mapped put",
                    "staged put",
                )
            ],
            {},
        ),
        (),
        "--sizes 2g",
    ),
    "send_recv": (rows_of(BOTH, {}), (), "--sizes 128m"),
    "message_rate": (rows_of(["untouched"], {}), (), "--sizes 8k"),
    "pushpull": (rows_of(["touched"], {}), (), "--sizes 1023"),
}
MORE = {"publish": ["--readers", "1,3"], "checks": ["--ranks", "4", "--sizes", "8,64k"]}
# Where the kernel forbids access to another process's memory, the benchmark adopt has no limit.
KERNEL_REFUSES = re.compile("process_vm_.*: (Operation not permitted|Function not implemented)")


def check_row(row, kinds, copied, processors):
    expect(row.keys() == COLUMNS, f"columns {sorted(row)}")
    expect(row["kind"] in kinds, f"kind {row['kind']}")
    ranks, figures = kinds[row["kind"]]
    expect(row["ranks"] == ranks, f"{row['kind']} on {row['ranks']} ranks")
    expect(row["crowded"] == (ranks > processors), f"{ranks} ranks, {processors} processors")
    expect(row["weft_us"] > 0 and row["limit_us"] > 0, f"times {row}")
    expect(row["ratios"]["limit"]["ratio"] > 0 and row["peers"] == {}, f"ratios {row}")
    ways = TWO_WAYS if row["kind"] in copied else set()
    expect(row["limit_ways"].keys() == ways, f"ways {row['limit_ways']}")
    expect(row["figures"].keys() == figures.keys(), f"figures {row['figures']}")
    for name, value in figures.items():
        seen = row["figures"][name]
        right = seen >= 0 if value is SEEN else seen > 0 if value is None else seen == value
        expect(right, f"{name} is {seen}, not {value}")


def quick_run(program, benchmark):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [program, benchmark, "--quick", "-c", "--peers", "none", "--pairs", "1"]
        words += [*MORE.get(benchmark, []), "--json", file.name]
        ended = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if refusal := KERNEL_REFUSES.search(ended.stderr):
            skip(refusal[0])
        rows = file.read()
        expect(rows, ended.stderr)
        document = json.loads(rows)
        # A slow time is a matter for benchmarks, not for a test; but the exit status must report it.
        slower = any(row["figures"].get("slower") for row in document["rows"])
        expect(ended.returncode == (1 if slower else 0), ended.stderr)
        return document


def skipped_without_gpu(program):
    """Where there is no driver: a line, and a row that says so."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        words = [program, "gpu", "--quick", "--csv", file.name]
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
        if not ended.stdout.startswith("gpu: skipped: "):
            skip("this machine has a GPU")
        expect(ended.returncode == 0, f"exit status {ended.returncode}")
        expect(ended.stdout.count("\n") == 1, f"one line, not: {ended.stdout}")
        lines = file.read().decode().splitlines()
        expect(len(lines) == 2 and "skipped: no GPU" in lines[1], f"a skipped row: {lines}")


REFUSED_BY_ALL = ("--nope 1", "--ranks 3", "--fabric tcp", "--sizes x", "--pairs 0")


def refuse(program, benchmark, words):
    """At once, by one line and exit status 2."""
    command = [program, benchmark, *words.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    expect(ended.returncode == 2, f"{words}: exit status {ended.returncode}")
    named = words.split()[0] in ended.stderr
    expect(named and ended.stderr.count("\n") == 1, f"{words}: one line, not: {ended.stderr}")


def main():
    program, benchmark = sys.argv[1:3]
    if sys.argv[3:4] == ["skipped"]:
        skipped_without_gpu(program)
        return
    kinds, copied, refused = EXPECTED[benchmark]
    document = quick_run(program, benchmark)
    expect(document["bench"] == benchmark and document["processors"] >= 1, f"{document}")
    expect(document["ranks"] == max(ranks for ranks, _ in kinds.values()), f"{document}")
    expect({row["kind"] for row in document["rows"]} == kinds.keys(), f"{document}")
    for row in document["rows"]:
        check_row(row, kinds, copied, document["processors"])

    refuse(program, benchmark, refused)
    if benchmark == "latency":
        for words in REFUSED_BY_ALL:
            refuse(program, benchmark, words)
    print("the columns are as promised")


main()
