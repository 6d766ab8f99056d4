"""Runs bodies of the conformance suite, written once more in Python, as ranks of one job.

Usage: bodies.py MODULE..."""

import importlib
import sys

import job

job.run(*(body for name in sys.argv[1:] for body in importlib.import_module(name).BODIES))
