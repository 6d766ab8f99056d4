"""A benchmark's quick run checks its data, and its JSON has the columns that docs/benchmarks.md
promises, with costs that do not depend on the machine.

Usage: quick_run.py WEFT_BENCH BENCHMARK
"""

import json
import subprocess
import sys
import tempfile

COLUMNS = {
    "size", "kind", "ranks", "weft_us", "limit_us", "peers", "spread", "ratios", "limit_ways", "figures",
}  # fmt: skip
TWO_WAYS = {"limit_memcpy", "limit_streamed"}


def cost(sender, receiver):
    """Work requests of each end by tensor, and no byte copied besides."""
    return {"sender_requests": sender, "receiver_requests": receiver, "bytes_copied": 0}


# Kinds of row, (number of ranks by kind,) the limit's ways, figures: an exact value, or None for
# one that must be above 0. And a command line that is refused, with a word of the reason.
EXPECTED = {
    "latency": ({"touched": 2}, set(), {}, "--sizes 16"),
    "put-bw": ({"touched": 2, "untouched": 2}, TWO_WAYS, cost(1, 0), "--sizes 2g"),
    "get-bw": ({"touched": 2, "untouched": 2}, TWO_WAYS, cost(0, 1), "--sizes 2g"),
    "view": ({"untouched": 2}, set(), cost(0, 1), "--sizes 2g"),
    "dynamic": (
        {"touched": 2},
        set(),
        {**cost(1, 1), "fixed_us": None, "hop_us": None, "dynamic/fixed": None},
        "--sizes 2g",
    ),
    "publish": (
        {"1 reader": 2, "3 readers": 4},
        TWO_WAYS,
        cost(0, 1),
        "--readers 8",
    ),
    "attach": ({"first put": 2}, set(), {"messages": None, "slots_per_s": None}, "--sizes 2m"),
    "pushpull": ({"touched": 2}, set(), {}, "--sizes 1023"),
}
MORE = {"publish": ["--readers", "1,3"]}


def expect(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")


def check_row(row, kinds, ways, figures):
    expect(row.keys() == COLUMNS, f"columns {sorted(row)}")
    expect(kinds.get(row["kind"]) == row["ranks"], f"kind {row['kind']} on {row['ranks']} ranks")
    expect(row["weft_us"] > 0 and row["limit_us"] > 0, f"times {row}")
    expect(row["ratios"]["limit"]["ratio"] > 0 and row["peers"] == {}, f"ratios {row}")
    expect(row["limit_ways"].keys() == ways, f"ways {row['limit_ways']}")
    expect(row["figures"].keys() == figures.keys(), f"figures {row['figures']}")
    for name, value in figures.items():
        seen = row["figures"][name]
        expect(seen > 0 if value is None else seen == value, f"{name} is {seen}, not {value}")


def main():
    program, benchmark = sys.argv[1:]
    kinds, ways, figures, refused = EXPECTED[benchmark]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [program, benchmark, "--quick", "-c", "--peers", "none", "--pairs", "1"]
        words += MORE.get(benchmark, [])
        subprocess.run([*words, "--json", file.name], check=True)
        document = json.load(file)
    expect(document["bench"] == benchmark and document["processors"] >= 1, f"{document}")
    expect(document["ranks"] == max(kinds.values()), f"ranks {document['ranks']}")
    rows = document["rows"]
    expect({row["kind"] for row in rows} == kinds.keys(), f"kinds of {rows}")
    for row in rows:
        check_row(row, kinds, ways, figures)

    option = refused.split()[0]
    ended = subprocess.run(
        [program, benchmark, *refused.split()], capture_output=True, text=True, check=False
    )
    expect(ended.returncode != 0 and option in ended.stderr, f"{refused}: {ended.stderr}")
    expect(ended.stderr.count("\n") == 1, f"one line, not: {ended.stderr}")
    print("the columns are as promised")


main()
