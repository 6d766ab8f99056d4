"""What must hold of the pictures that benchmarks/output/panels.py draws from an experiment's rows.

Usage: panels_test.py PANELS.py
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

PANELS = os.path.abspath(sys.argv.pop())
SKIPPED = 77

ROWS = """model,batch,way,steps_per_s,low,high
gru,1,views,30,29,31
gru,32,views,20,19,21
gru,1,rpc,10,9,11
vgg-16,1,views,3,3,3
vgg-16,1,rpc,,,
"""
LINES = ["--panel", "model", "--line", "way", "--x", "batch", "--y", "steps_per_s", "--low", "low", "--high", "high"]


def draw(rows, *words):
    with tempfile.TemporaryDirectory() as folder:
        source, picture = (os.path.join(folder, name) for name in ("rows.csv", "picture.svg"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(rows)
        command = [sys.executable, "-B", PANELS, source, picture, "--title", "fig8", *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode == SKIPPED:
            print(f"skipped: {ended.stderr.strip()}")
            sys.exit(SKIPPED)
        drawn = ""
        if os.path.exists(picture):
            with open(picture, encoding="utf-8") as file:
                drawn = file.read()
        return ended, drawn


class Panels(unittest.TestCase):
    def drawn(self, *words):
        ended, svg = draw(ROWS, *words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return svg

    def test_has_a_panel_by_model_and_a_line_by_way(self):
        svg = self.drawn(*LINES, "--log-x", "--log-y", "--y-label", "steps per second")
        labels = re.findall(r">([^<>]+)</text>", svg)
        for name in ("gru", "vgg-16", "views", "rpc", "fig8"):
            self.assertEqual(labels.count(name), 1, name)
        self.assertEqual(labels.count("steps per second"), 2)

    def test_is_dark_where_its_viewer_asks_for_that_and_the_same_each_time(self):
        svg = self.drawn(*LINES)
        self.assertIn("prefers-color-scheme:dark", svg)
        self.assertEqual(svg, self.drawn(*LINES))

    def test_has_bars_where_x_has_words(self):
        labels = re.findall(r">([^<>]+)</text>", self.drawn("--line", "way", "--x", "model", "--y", "steps_per_s"))
        for name in ("gru", "vgg-16", "views", "rpc"):
            self.assertEqual(labels.count(name), 1, name)

    def test_refuses_what_it_cannot_draw_in_a_line(self):
        for rows, words in ((ROWS, ["--x", "nope", "--y", "steps_per_s"]), ("model,y\n", ["--x", "model", "--y", "y"])):
            ended, svg = draw(rows, *words)
            self.assertEqual((ended.returncode, svg), (1, ""))
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
