"""What must hold of the picture that benchmarks/output/plot_losses.py draws of weft-bench fig9.

Usage: plot_losses_test.py PLOT_LOSSES.py
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

ROWS = """example,measure,target,way,fabric,step,seconds,loss,recent
translator,perplexity,20,slots,shm,1,0.5,6.0,403
translator,perplexity,20,slots,shm,2,1.0,3.0,19
translator,perplexity,20,grpc,Unix socket,1,0.9,6.0,403
translator,perplexity,20,grpc,Unix socket,2,1.8,3.0,19
embedder,loss,1,slots,shm,1,0.1,3.0,3
embedder,loss,1,slots,shm,2,0.2,0.9,0.9
"""


def run_plot(rows, picture):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(rows)
        file.flush()
        words = [sys.executable, "-B", PLOT, file.name, picture, "--title", "fig9"]
        return subprocess.run(words, capture_output=True, text=True, check=False)


@functools.cache
def drawn():
    with tempfile.NamedTemporaryFile(suffix=".svg") as picture:
        ended = run_plot(ROWS, picture.name)
        if ended.returncode == SKIPPED:
            print(f"skipped: {ended.stderr.strip()}")
            sys.exit(SKIPPED)
        if ended.returncode != 0:
            raise AssertionError(ended.stderr)
        return picture.read().decode()


class PlotLosses(unittest.TestCase):
    def test_has_a_panel_for_each_example_with_its_target(self):
        labels = re.findall(r">([^<>]+)</text>", drawn())
        for label in ("translator: perplexity", "embedder: loss", "target 20", "target 1"):
            self.assertEqual(labels.count(label), 1, labels)

    def test_names_each_way_once(self):
        labels = re.findall(r">([^<>]+)</text>", drawn())
        for label in ("slots, shm", "grpc, Unix socket"):
            self.assertEqual(labels.count(label), 1, labels)

    def test_has_colours_for_the_dark(self):
        self.assertIn("prefers-color-scheme:dark", drawn())

    def test_refuses_a_file_without_rows(self):
        ended = run_plot(ROWS.splitlines()[0] + "\n", "/nonexistent/picture.svg")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("has no rows to draw", ended.stderr)


unittest.main()
