#!/usr/bin/env python3
"""Draws a benchmark's rows, as weft-bench --csv writes them, into an SVG: time by size, both by powers, a
line for each column. The picture is light, or dark where its viewer asks for that.

The same rows give the same file, byte by byte, with the same matplotlib (Debian: python3-matplotlib).
Exit code 77: matplotlib is missing.

Usage: plot.py ROWS.csv PICTURE.svg [--title NAME]
"""

import argparse
import csv
import io
import math
import os
import sys
from dataclasses import dataclass, field

# Okabe and Ito's colours: distinguishable with all kinds of colour vision, on white and on black.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00"]
MARKERS = "osD^vPX"
# Colours on the left become those on the right in dark mode. No line of a plot uses one of them.
DARK = {"#ffffff": "#0d1117", "#1f2328": "#e6edf3", "#6e7781": "#9198a1", "#d0d7de": "#30363d"}
GROUND, INK, LIMIT, GRID = DARK
SKIPPED = 77
# The Python for which Debian packages matplotlib; another may precede it on PATH.
DEBIANS = "/usr/bin/python3"


@dataclass
class Line:
    program: str
    kind: str
    ranks: str
    points: list = field(default_factory=list)  # (bytes, microseconds), by size


def read_lines(file):
    """The lines of all columns that hold times, weft's first and the limit's last."""
    rows = list(csv.DictReader(file))
    programs = [name[:-3] for name in rows[0] if name.endswith("_us")] if rows else []
    programs.sort(key=lambda name: (name == "limit", name != "weft"))
    lines = {}
    for program in programs:
        for row in rows:
            if us := row[f"{program}_us"]:
                key = (program, row["kind"], row["ranks"])
                line = lines.setdefault(key, Line(*key))
                line.points.append((int(row["size"]), float(us)))
    for line in lines.values():
        line.points.sort()
    return without_doubles(list(lines.values()))


def without_doubles(lines):
    """A program that stands beside several kinds with the same times is drawn once, for all of them."""
    kept = []
    for line in lines:
        same = [k for k in kept if (k.program, k.points) == (line.program, line.points)]
        if same:
            same[0].kind = ""
        else:
            kept.append(line)
    return kept


def labels_of(lines):
    """Each line's name, with what tells it from others of its program."""
    several_kinds = len({line.kind for line in lines if line.kind}) > 1
    several_ranks = len({line.ranks for line in lines}) > 1
    names = []
    for line in lines:
        parts = [line.program]
        if several_kinds and line.kind:
            parts.append(line.kind)
        if several_ranks:
            parts.append(f"{line.ranks} ranks")
        names.append(", ".join(parts))
    return names


def size_text(size, _=None):
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size:g} B"


def time_text(us, _=None):
    for least, unit in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if us >= least:
            return f"{us / least:g} {unit}"
    return f"{us * 1e3:g} ns"


def variant_of(line):
    """What tells lines of one program apart."""
    return line.kind, line.ranks


def style_of(line, programs, variants):
    """A colour by program, a marker by kind and ranks, each second one hollow; the limit is dashed and grey."""
    number = variants.index(variant_of(line)) if line.kind else 0
    colour = COLOURS[programs.index(line.program) % len(COLOURS)]
    style = {"color": colour, "linewidth": 1.4, "markersize": 5, "marker": MARKERS[number % len(MARKERS)]}
    if line.program == "weft":
        style["linewidth"] = 2.4
    if line.program == "limit":
        style |= {"color": LIMIT, "linestyle": (0, (5, 3))}
    if number % 2:
        style["markerfacecolor"] = GROUND
    return style


def prepare_axes(axes, ticker, lines, title):
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = [size for line in lines for size, _ in line.points]
    first, last = math.log2(min(sizes)), math.log2(max(sizes))
    step = max(1, math.ceil((last - first) / 8))
    powers = range(math.floor(first), math.ceil(last) + 1, step)
    axes.xaxis.set_major_locator(ticker.FixedLocator([2.0**power for power in powers]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(size_text))
    times = [math.log10(us) for line in lines for _, us in line.points]
    least = math.floor(min(times))
    axes.set_ylim(10**least, 10 ** max(least + 1, math.ceil(max(times))))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(time_text))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)
    axes.set_title(f"{title}: time of one operation (lower is better)", loc="left", color=INK, fontsize=12)
    axes.set_xlabel("size", color=INK)


def figure_of(pyplot, ticker, lines, title):
    figure, axes = pyplot.subplots(figsize=(8.6, 4.8), facecolor=GROUND, layout="constrained")
    axes.set_facecolor(GROUND)
    prepare_axes(axes, ticker, lines, title)
    programs = list(dict.fromkeys(line.program for line in lines))
    variants = list(dict.fromkeys(variant_of(line) for line in lines if line.kind))
    drawn = []
    for line, label in zip(lines, labels_of(lines)):
        (handle,) = axes.plot(*zip(*line.points), label=label, clip_on=False, **style_of(line, programs, variants))
        drawn.append((line.points[-1], handle))
    # In their order at the right edge: the slowest at the largest size first.
    drawn.sort(key=lambda entry: entry[0], reverse=True)
    axes.legend(
        handles=[handle for _, handle in drawn], loc="upper left", bbox_to_anchor=(1.01, 1),
        borderaxespad=0, frameon=False, labelcolor=INK, handlelength=3,
    )  # fmt: skip
    return figure


def with_dark(svg):
    """Adds the rules by which a viewer in the dark sees other colours."""
    rules = []
    for light, dark in DARK.items():
        for what in ("fill", "stroke"):
            rules.append(f'[style*="{what}: {light}"]{{{what}:{dark}!important}}')
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    head, tag, rest = svg.partition("<defs>")
    return f"{head}{style}\n {tag}{rest}"


def picture(lines, title):
    import matplotlib

    matplotlib.use("svg")
    # Matplotlib derives names within the file from a hash; a fixed salt makes them the same in each run. Text stays
    # text.
    matplotlib.rcParams.update({"svg.hashsalt": "weft", "svg.fonttype": "none"})
    from matplotlib import pyplot, ticker

    figure = figure_of(pyplot, ticker, lines, title)
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor=GROUND, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return with_dark(text.getvalue())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows")
    options.add_argument("picture")
    options.add_argument("--title", help="the benchmark's name; the picture's file name unless given")
    words = options.parse_args()
    title = words.title or os.path.splitext(os.path.basename(words.picture))[0]
    try:
        with open(words.rows, encoding="utf-8", newline="") as file:
            lines = read_lines(file)
        if not lines:
            sys.exit(f"{words.rows} has no rows to draw")
        drawn = picture(lines, title)
        with open(words.picture, "w", encoding="utf-8") as file:
            file.write(drawn)
    except ModuleNotFoundError as error:
        if os.path.exists(DEBIANS) and not os.path.samefile(sys.executable, DEBIANS):
            os.execv(DEBIANS, [DEBIANS, *sys.argv])
        print(f"no {error.name} (Debian: python3-matplotlib); the rows are in {words.rows}", file=sys.stderr)
        sys.exit(SKIPPED)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
