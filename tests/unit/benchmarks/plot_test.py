"""What must hold of the pictures that benchmarks/output/plot.py draws from a benchmark's rows.

Usage: plot_test.py PLOT.py
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest

PLOT = os.path.abspath(sys.argv.pop())
SKIPPED = 77

FIG7 = """size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread,grpc_us,grpc_ratio,grpc_spread
1024,put,2,1,0.5,2,0,100,0.01,0
1024,view,2,2,0.7,2,0,100,0.02,0
4096,put,2,3,1.5,2,0,300,0.01,0
4096,view,2,4,1.7,2,0,300,0.02,0
"""
AGAINST = """size,kind,ranks,weft_us,limit_us,limit_ratio,limit_spread,against_us,against_ratio,against_spread,worse
8,f32,2,1,0.5,2,0,1.1,0.9,0,0
8,f32,4,2,0.5,4,0,,,,
64,"a, b",2,2,0.5,4,0,3,0.7,0,0
"""


def run_plot(rows, picture, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(rows)
        file.flush()
        words = [sys.executable, "-B", PLOT, file.name, picture, *more]
        return subprocess.run(words, capture_output=True, text=True, check=False)


def drawn_now(rows):
    with tempfile.NamedTemporaryFile(suffix=".svg") as picture:
        ended = run_plot(rows, picture.name, "--title", "fig7")
        if ended.returncode == SKIPPED:
            print(f"skipped: {ended.stderr.strip()}")
            sys.exit(SKIPPED)
        if ended.returncode != 0:
            raise AssertionError(ended.stderr)
        return picture.read().decode()


drawn = functools.cache(drawn_now)  # starting Python and matplotlib costs a second


class Plot(unittest.TestCase):
    def labels(self, svg):
        return re.findall(r">([^<>]+)</text>", svg)

    def test_has_a_line_for_each_column_and_kind(self):
        labels = self.labels(drawn(FIG7))
        for name in ("weft, put", "weft, view", "limit, put", "limit, view"):
            self.assertEqual(labels.count(name), 1, name)
        # The peer's times are those of both kinds: one line.
        self.assertEqual(labels.count("grpc"), 1, labels)

    def test_the_slowest_is_the_first_in_the_legend(self):
        labels = self.labels(drawn(FIG7))
        order = [label for label in labels if label.startswith(("weft", "limit", "grpc"))]
        self.assertEqual(order, ["grpc", "weft, view", "weft, put", "limit, view", "limit, put"])

    def test_another_builds_column_and_missing_cells_are_drawn_as_they_are(self):
        labels = self.labels(drawn(AGAINST))
        for name in ("against, f32, 2 ranks", "weft, f32, 4 ranks", "weft, a, b, 2 ranks"):
            self.assertEqual(labels.count(name), 1, labels)
        self.assertNotIn("against, f32, 4 ranks", labels)

    def test_axes_name_sizes_and_times(self):
        labels = self.labels(drawn(FIG7))
        for text in ("1 KiB", "4 KiB", "1 µs", "100 µs", "1 ms", "size"):
            self.assertIn(text, labels)
        self.assertTrue(any(label.startswith("fig7: time of one operation") for label in labels))

    def test_the_same_rows_give_the_same_file(self):
        first = drawn(FIG7)
        self.assertEqual(first, drawn_now(FIG7))
        self.assertNotIn("dc:date", first)

    def test_is_light_and_dark_by_what_the_viewer_asks_for(self):
        svg = drawn(FIG7)
        self.assertEqual(svg.count("prefers-color-scheme:dark"), 1)
        for light in ("#ffffff", "#1f2328"):
            self.assertIn(f'fill: {light}"]{{', svg)
            self.assertIn(f"fill: {light}", svg.partition("</style>")[2], "a rule for nothing")

    def test_a_single_row_has_a_scale(self):
        header, first, *_ = FIG7.splitlines()
        labels = self.labels(drawn(f"{header}\n{first}\n"))
        self.assertIn("100 ns", labels)
        self.assertIn("100 µs", labels)

    def test_no_rows_are_refused_in_one_line(self):
        ended = run_plot(FIG7.splitlines()[0] + "\n", "/nowhere/at/all.svg")
        self.assertNotIn(ended.returncode, (0, SKIPPED))
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)

    def test_a_file_that_cannot_be_written_is_named(self):
        ended = run_plot(FIG7, "/nowhere/at/all.svg")
        self.assertNotIn(ended.returncode, (0, SKIPPED))
        self.assertIn("/nowhere/at/all.svg", ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)


drawn(FIG7)  # or skipped
unittest.main()
