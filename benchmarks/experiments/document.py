#!/usr/bin/env python3
"""Runs the paper's experiments and writes their outcome into docs/experiments.md: between the lines
`<!-- NAME -->` and `<!-- end of NAME -->` stand the picture, the command, and ours beside the paper's figures. The
picture and its rows go to docs/experiments/.

Usage: document.py WEFT_BENCH DOCS_FOLDER NAME [OPTION ...]
For example: document.py build/release/bin/weft-bench docs fig8 --fabric shm
fig7 is written like the others. A name may have a fabric behind it, `fig7-tcp`, which is then that of the run.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap

FABRICS = ("shm", "tcp", "verbs")
# The lines behind the table of fig7, which is a benchmark.
BESIDE = re.compile(r"^(?:(?:gRPC|RPC|copying) takes .*|the paper: .*)$")
MOST_ROWS = 12  # of a table in the page
WIDTH = 120
MARK = "<!-- {} -->"
END = "<!-- end of {} -->"


def table_of(rows):
    if not rows or len(rows) > MOST_ROWS:
        return []
    texts = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in rows]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *texts]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def block_of(name, words, output, document, has_picture):
    lines = output.splitlines()
    title = lines[0]
    beside = document.get("beside") or [line for line in lines if BESIDE.match(line)]
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%-d %B %Y")
    text = [f"    weft-bench {' '.join(words)}", ""]
    if has_picture:
        text += [f"![{title}](experiments/{name}.svg)", ""]
    told = f"{title}; {today}, a machine of {os.cpu_count()} processors ([rows](experiments/{name}.csv))."
    text += [*textwrap.wrap(told, width=WIDTH), ""]
    if "beside" in document:
        text += table_of([order_of(row, lines[1]) for row in document["rows"]])
    for line in beside:
        text += textwrap.wrap(line, width=WIDTH, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(text)


def order_of(row, headings):
    """The row's columns as the program prints them: JSON has them by name."""
    return {name: "-" if row[name] is None else row[name] for name in headings.split()}


def replaced(document, name, block):
    start, end = MARK.format(name), END.format(name)
    if document.count(start) != 1 or document.count(end) != 1:
        sys.exit(f"experiments.md has no place for {name}: {start} and {end}")
    before, rest = document.split(start)
    return f"{before}{start}\n{block}\n{end}{rest.split(end)[1]}"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, docs, name, *options = sys.argv[1:]
    experiment, _, fabric = name.partition("-")
    if fabric in FABRICS:
        options += ["--fabric", fabric]
    place = os.path.join(docs, "experiments")
    os.makedirs(place, exist_ok=True)
    picture = os.path.join(place, f"{name}.svg")
    rows = os.path.join(place, f"{name}.csv")
    words = [experiment, *options]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [program, *words, "--svg", picture, "--csv", rows, "--json", file.name]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if ended.returncode == 0 and not (content := file.read()):
            sys.exit(f"weft-bench {' '.join(words)} measured nothing")
    if ended.returncode != 0:
        sys.exit(f"weft-bench {' '.join(words)} ended with {ended.returncode}")
    outcome = json.loads(content)
    file = os.path.join(docs, "experiments.md")
    with open(file, encoding="utf-8") as document:
        text = document.read()
    text = replaced(text, name, block_of(name, words, ended.stdout, outcome, os.path.exists(picture)))
    with open(file, "w", encoding="utf-8") as document:
        document.write(text)


main()
