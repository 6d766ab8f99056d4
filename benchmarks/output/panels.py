#!/usr/bin/env python3
"""Draws an experiment's rows, as weft-bench --csv writes them, into an SVG: a panel for each value of one column, in it
a line for each value of another, or bars where x has words. Light, or dark where its viewer asks for that, in the
colours of the other pictures. Columns are named by options. Exit code 77: matplotlib is missing.

Usage: panels.py ROWS.csv PICTURE.svg --x COLUMN --y COLUMN [--panel COLUMN] [--line COLUMN] ...
"""

import argparse
import csv
import importlib.util
import io
import math
import os
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))


def plot_script():
    """The script of the other pictures, which lies beside this one: as plot.py, or as it is built."""
    for name in ("plot.py", "weft-bench-plot.py"):
        file = os.path.join(HERE, name)
        if os.path.exists(file):
            spec = importlib.util.spec_from_file_location("plot", file)
            module = importlib.util.module_from_spec(spec)
            sys.modules["plot"] = module  # its dataclasses look it up
            spec.loader.exec_module(module)
            return module
    sys.exit(f"no plot.py beside {__file__}")


PLOT = plot_script()


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def read(words):
    """{panel: {line: [(x, y, low, high)]}}, all in the rows' order. Rows without y are left out."""
    panels = {}
    with open(words.rows, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            y = number(row[words.y])
            if y is None:
                continue
            panel = row[words.panel] if words.panel else ""
            line = row[words.line] if words.line else ""
            low = number(row[words.low]) if words.low else None
            high = number(row[words.high]) if words.high else None
            points = panels.setdefault(panel, {}).setdefault(line, [])
            points.append((row[words.x], y, low, high))
    return panels


def all_of(panels, choose):
    return list(dict.fromkeys(choose(line, point) for lines in panels.values() for line in lines for point in lines[line]))


def errors_of(points):
    if any(low is None or high is None for _, _, low, high in points):
        return None
    return [[max(0, y - low) for _, y, low, _ in points], [max(0, high - y) for _, y, _, high in points]]


def draw_lines(axes, lines, names, words):
    for line, points in lines.items():
        number_of = names.index(line)
        points = sorted(((float(x), y, low, high) for x, y, low, high in points), key=lambda point: point[0])
        style = {"color": PLOT.COLOURS[number_of % len(PLOT.COLOURS)], "linewidth": 1.6, "markersize": 4}
        style["marker"] = "" if len(points) > 40 else PLOT.MARKERS[number_of % len(PLOT.MARKERS)]
        axes.errorbar(
            [x for x, *_ in points], [y for _, y, *_ in points], yerr=errors_of(points), label=line or words.y,
            capsize=2, **style,
        )  # fmt: skip
    if words.log_x:
        axes.set_xscale("log", base=2)
    ticks = sorted({float(x) for points in lines.values() for x, *_ in points})
    if len(ticks) <= 8:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def draw_bars(axes, lines, names, words):
    places = list(dict.fromkeys(x for points in lines.values() for x, *_ in points))
    width = 0.8 / len(lines)
    for number_of, (line, points) in enumerate(lines.items()):
        at = [places.index(x) - 0.4 + width * (number_of + 0.5) for x, *_ in points]
        axes.bar(
            at, [y for _, y, *_ in points], width * 0.9, yerr=errors_of(points), label=line or words.y,
            color=PLOT.COLOURS[names.index(line) % len(PLOT.COLOURS)], ecolor=PLOT.LIMIT, capsize=2,
        )  # fmt: skip
    axes.set_xticks(range(len(places)), places)


def log_y(axes):
    """Plain numbers beside the axis, some also where it spans less than a power of ten."""
    from matplotlib import ticker

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    is_short = high < 10 * low
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5) if is_short else ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(ticker.NullLocator())


def prepare(axes, panel, words):
    axes.set_facecolor(PLOT.GROUND)
    if words.log_y:
        log_y(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(True, axis="y", which="major", color=PLOT.GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, colors=PLOT.INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(PLOT.GRID)
    axes.set_title(panel, loc="left", color=PLOT.INK, fontsize=11)
    axes.set_xlabel(words.x_label or words.x, color=PLOT.INK)
    axes.set_ylabel(words.y_label or words.y, color=PLOT.INK)


def picture(panels, words):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "weft", "svg.fonttype": "none"})
    from matplotlib import pyplot

    names = all_of(panels, lambda line, _: line)
    is_worded = any(number(x) is None for x in all_of(panels, lambda _, point: point[0]))
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (8.6 if columns == 1 else 3.6 * columns, 4.2 if rows == 1 else 3.0 * rows)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, facecolor=PLOT.GROUND, layout="constrained", squeeze=False)
    cells = [axes for row in grid for axes in row]
    handles = {}
    for axes, (panel, lines) in zip(cells, panels.items()):
        (draw_bars if is_worded else draw_lines)(axes, lines, names, words)
        prepare(axes, panel, words)
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    for axes in cells[len(panels):]:
        axes.remove()
    title = textwrap.fill(words.title, round(11 * size[0]))
    figure.suptitle(title, color=PLOT.INK, fontsize=11, x=0.01, ha="left")
    if len(handles) > 1:
        cells[columns - 1].legend(
            handles=list(handles.values()), labels=list(handles), loc="upper left", bbox_to_anchor=(1.01, 1),
            borderaxespad=0, frameon=False, labelcolor=PLOT.INK,
        )  # fmt: skip
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor=PLOT.GROUND, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return PLOT.with_dark(text.getvalue())


def command_line():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows")
    options.add_argument("picture")
    options.add_argument("--title", default="")
    for name, needed in (("x", True), ("y", True), ("panel", False), ("line", False), ("low", False), ("high", False),
                         ("x-label", False), ("y-label", False)):  # fmt: skip
        options.add_argument(f"--{name}", required=needed, default="")
    options.add_argument("--log-x", action="store_true")
    options.add_argument("--log-y", action="store_true")
    return options.parse_args()


def main():
    words = command_line()
    try:
        panels = read(words)
        if not panels:
            sys.exit(f"{words.rows} has no rows to draw")
        drawn = picture(panels, words)
        with open(words.picture, "w", encoding="utf-8") as file:
            file.write(drawn)
    except ModuleNotFoundError as error:
        if os.path.exists(PLOT.DEBIANS) and not os.path.samefile(sys.executable, PLOT.DEBIANS):
            os.execv(PLOT.DEBIANS, [PLOT.DEBIANS, *sys.argv])
        print(f"no {error.name} (Debian: python3-matplotlib); the rows are in {words.rows}", file=sys.stderr)
        sys.exit(PLOT.SKIPPED)
    except KeyError as error:
        sys.exit(f"{words.rows} has no column {error}")
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
