#!/usr/bin/env python3
"""Draws the rows of weft-bench fig9, as --csv writes them, into an SVG: loss by time, a panel for each training and a
line for each way. The picture is light, or dark where its viewer asks for that.

The same rows give the same file, byte by byte, with the same matplotlib (Debian: python3-matplotlib).
Exit code 77: matplotlib is missing.

Usage: plot_losses.py ROWS.csv PICTURE.svg [--title NAME]
"""

import argparse
import csv
import importlib.util
import io
import os
import sys
from dataclasses import dataclass, field


def other_script():
    """The script of the other pictures, whose colours these have. It lies beside this one, in the repository too."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = [os.path.join(here, name) for name in ("weft-bench-plot.py", "plot.py")]
    spec = importlib.util.spec_from_file_location("plot", next(name for name in names if os.path.exists(name)))
    module = importlib.util.module_from_spec(spec)
    sys.modules["plot"] = module
    spec.loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
plot = other_script()


@dataclass
class Panel:
    example: str
    measure: str
    target: float
    ways: dict = field(default_factory=dict)  # (way, fabric) to the lists of seconds and of measures


def read_panels(file):
    panels = {}
    for row in csv.DictReader(file):
        panel = panels.setdefault(row["example"], Panel(row["example"], row["measure"], float(row["target"])))
        seconds, values = panel.ways.setdefault((row["way"], row["fabric"]), ([], []))
        seconds.append(float(row["seconds"]))
        values.append(float(row["recent"]))
    return list(panels.values())


def draw_panel(axes, ticker, panel, ways):
    axes.set_facecolor(plot.GROUND)
    for name, (seconds, values) in panel.ways.items():
        first = name == ways[0]
        axes.plot(
            seconds, values, label=", ".join(name), color=plot.COLOURS[ways.index(name) % len(plot.COLOURS)],
            linewidth=2.4 if first else 1.4, zorder=3 if first else 2,
        )  # fmt: skip
    axes.axhline(panel.target, color=plot.LIMIT, linestyle=(0, (5, 3)), linewidth=1)
    axes.annotate(
        f"target {panel.target:g}", (1, panel.target), xycoords=("axes fraction", "data"), ha="right", va="bottom",
        color=plot.INK, fontsize=9,
    )  # fmt: skip
    if panel.measure == "perplexity":
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(True, which="major", color=plot.GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, colors=plot.INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(plot.GRID)
    axes.set_title(f"{panel.example}: {panel.measure}", loc="left", color=plot.INK, fontsize=12)
    axes.set_xlabel("seconds", color=plot.INK)


def picture(panels, title):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "weft", "svg.fonttype": "none"})
    from matplotlib import pyplot, ticker

    figure, all_axes = pyplot.subplots(
        1, len(panels), figsize=(4.2 * len(panels) + 1.6, 4.2), facecolor=plot.GROUND, layout="constrained",
        squeeze=False,
    )  # fmt: skip
    ways = list(dict.fromkeys(name for panel in panels for name in panel.ways))
    handles = {}
    for axes, panel in zip(all_axes[0], panels):
        draw_panel(axes, ticker, panel, ways)
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    all_axes[0][-1].legend(
        handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, frameon=False,
        labelcolor=plot.INK,
    )  # fmt: skip
    figure.suptitle(f"{title}: loss by time (further left is better)", x=0.01, ha="left", color=plot.INK, fontsize=12)
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor=plot.GROUND, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return plot.with_dark(text.getvalue())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows")
    options.add_argument("picture")
    options.add_argument("--title", help="the picture's title; its file name unless given")
    words = options.parse_args()
    title = words.title or os.path.splitext(os.path.basename(words.picture))[0]
    try:
        with open(words.rows, encoding="utf-8", newline="") as file:
            panels = read_panels(file)
        if not panels:
            sys.exit(f"{words.rows} has no rows to draw")
        drawn = picture(panels, title)
        with open(words.picture, "w", encoding="utf-8") as file:
            file.write(drawn)
    except ModuleNotFoundError as error:
        if os.path.exists(plot.DEBIANS) and not os.path.samefile(sys.executable, plot.DEBIANS):
            os.execv(plot.DEBIANS, [plot.DEBIANS, *sys.argv])
        print(f"no {error.name} (Debian: python3-matplotlib); the rows are in {words.rows}", file=sys.stderr)
        sys.exit(plot.SKIPPED)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
