"""The package itself: every code of weft.h has its class, every function its use; an older libweft is refused by one
line, a newer one works; so does a machine without libpmix; `python -m weft` finds the tools; types and style are clean, as
mypy and ruff say where they are installed.

Usage: package.py CC PROJECT_FOLDER [MPIRUN...]"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import weft
from job import expect
from weft import __main__ as tools
from weft import _native

CC, PROJECT, MPIRUN = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
PACKAGE = pathlib.Path(weft.__file__).parent
SOURCES, HEADERS = PROJECT / "bindings/python/weft", PROJECT / "bindings/c/include"
#: Functions of weft.h that the package does without, with the reason.
UNUSED = {
    "weft_join": "weft_join_with does the same without options",
    "weft_slot_expose": "weft_slot_expose_with", "weft_slot_expose_in": "weft_slot_expose_with",
    "weft_slot_attach": "weft_slot_attach_with", "weft_arrival_data": "weft_arrival_tensor",
    "weft_arrival_bytes": "weft_arrival_tensor", "weft_tensor_data": "weft_tensor_get_info",
    "weft_tensor_bytes": "weft_tensor_get_info", "weft_tensor_text": "repr() of the array",
    "weft_tensor_wrap": "weft_tensor_wrap_queued, which keeps the array", "weft_tensor_adopt": "weft_tensor_adopt_queued",
    "weft_tensor_wrap_strided": "arrays that are put are contiguous", "weft_tensor_slice": "arrays are sliced by numpy",
    "weft_tensor_reshape": "arrays are reshaped by numpy",
    "weft_error_code": "calls return it", "weft_code_name": "the class has the name",
    "weft_unused_queue_free": "the queue lives as long as the process",
    "weft_message_send": "isend and wait, in weft_python_send",
    "weft_message_sendrecv": "isend and recv, whose waits Ctrl-C ends", "weft_remote_signal_put": "a put and an add, as above",
    "weft_collectives_run": "start and wait, as above", "weft_plan_run": "start and wait, as above",
    "weft_table_tensors": "the table keeps its specs", "weft_table_tensor_at": "the table keeps its specs",
    "weft_tensor_allocate": "weft_tensor_allocate_in", "weft_tensor_wrap_in": "weft_tensor_wrap_queued_in",
    "weft_arrival_outcome": "no stream waits in Python's calls", "weft_arrival_release_on": "as above",
    "weft_put_start_on": "as above", "weft_request_wait_on": "as above", "weft_slot_wait_on": "as above",
    "weft_tracer_*": "allocation sites are for engines of C++ and C", "weft_running_node_leave": "as above",
}


def codes_have_classes():
    names = {name[len("WEFT_CODE_"):] for name in _native.ffi.typeof("weft_code").relements} - {"OK"}
    for name in names:
        kind = getattr(weft, "".join(part.capitalize() for part in name.split("_")), None)
        expect(isinstance(kind, type) and issubclass(kind, weft.Error) and kind.__doc__, f"{name} has its class")
    expect(len({kind.code for kind in weft.errors.CLASSES.values()}) == len(names), "classes have their codes")


def functions_are_used():
    headers = "".join(path.read_text() for path in sorted(HEADERS.rglob("*.h")))
    functions = set(re.findall(r"\b(weft_\w+)\(", re.sub(r"/\*.*?\*/", "", headers, flags=re.S)))
    used = set(re.findall(r"\blib\.(weft_\w+)", "".join(path.read_text() for path in SOURCES.rglob("*.py"))))
    for name in sorted(functions - used):
        expect(name in UNUSED or any(key.endswith("*") and name.startswith(key[:-1]) for key in UNUSED),
               f"{name} is used by no method, nor named in UNUSED")
    for name in UNUSED:
        expect(name not in used, f"{name} is used, but named in UNUSED")
    expect(len(functions) > 200, "the functions of weft.h were found")


def an_older_libweft_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([CC, "-shared", "-Wl,-soname,libweft.so.4", "-o", f"{folder}/libweft.so.4", "-x", "c", "/dev/null"],
                       check=True)
        ended = subprocess.run([sys.executable, "-c", "import weft"], capture_output=True, text=True,
                               env={**os.environ, "LD_LIBRARY_PATH": folder})
        last = ended.stderr.strip().splitlines()[-1]
        expect(ended.returncode == 1 and last.startswith("ImportError: weft's compiled module can't be loaded")
               and "of one release" in last, f"an older libweft: {ended.stderr}")


#: The headers of an older release have neither these fields, at the end of their structs, nor this function nor
#: this code.
YOUNGER = (r"  const int\* place;.*?(?=\} weft_\w+;)", r"weft_code weft_tensor_slice\([^;]*;",
           r"  WEFT_CODE_DUPLICATE_NAME = \d+,[^\n]*\n")
OLDER_PROGRAM = """
import numpy, weft
with weft.World.join() as world:
    spec = weft.SlotSpec("x", (4,))
    with world.expose(spec) as slot, world.attach(0, spec, 20) as remote:
        with world.expose_published(weft.PublishedSpec("p", (4,))) as published, world.attach_published(0, "p", 20) as reader:
            published.next(20).array[:] = 2
            published.publish()
            remote.put(numpy.ones(4, numpy.float32), 20)
            with slot.wait(20) as arrival, reader.view(20) as version:
                print(arrival.array.sum() + version.array.sum())
            try:
                world.expose(spec)
            except weft.Error as error:
                print(type(error).__name__, error.code, error)
"""


def a_newer_libweft_works():
    """The package with a compiled module that an older release would have."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(PACKAGE, folder / "weft", ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
        shutil.copytree(HEADERS, folder / "include")
        changed = [0] * len(YOUNGER)
        for header in (folder / "include").rglob("*.h"):
            text = header.read_text()
            for place, pattern in enumerate(YOUNGER):
                text, count = re.subn(pattern, "", text, flags=re.S)
                changed[place] += count
            header.write_text(text)
        expect(changed[0] >= 2 and changed[1:] == [1, 1], f"the headers of an older release were made: {changed}")
        subprocess.run([sys.executable, PROJECT / "bindings/python/native_source.py", folder / "include",
                        folder / "native.c"], check=True)
        libraries = PACKAGE.parents[1] / "lib"
        subprocess.run([CC, "-shared", "-fPIC", "-O0", "-w", f"-I{sysconfig.get_paths()['include']}",
                        f"-I{folder / 'include'}", folder / "native.c", f"-L{libraries}", "-lweft",
                        f"-Wl,-rpath,{libraries}", "-o", folder / "weft/_native.abi3.so"], check=True)
        ended = subprocess.run([sys.executable, "-X", "dev", "-c", OLDER_PROGRAM], capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": name})
        lines = ended.stdout.splitlines()
        expect(ended.returncode == 0 and lines[:1] == ["12.0"], f"a newer libweft: {ended}")
        expect(len(lines) == 2 and lines[1].startswith("Error -1 expose") and "\"x\"" in lines[1],
               f"a code that this package does not know is a weft.Error: {lines}")


def no_libpmix_is_one_line():
    """Without libpmix a rank of a launcher says so; a process alone needs none."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "libpmix.so.2").write_text("no library")
        program = [sys.executable, "-c", "import weft\nwith weft.World.join() as world: print(world.size)"]
        ended = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": folder})
        expect(ended.returncode == 0 and ended.stdout == "1\n", f"alone without libpmix: {ended}")
        if not MPIRUN:
            return
        # The launcher itself needs its own.
        ended = subprocess.run([*MPIRUN, "-x", f"LD_LIBRARY_PATH={folder}", "-n", "1", *program], capture_output=True,
                               text=True)
        told = [line for line in ended.stderr.splitlines() if line.startswith("weft.errors.")]
        expect(ended.returncode != 0 and len(told) == 1 and "install libpmix2" in told[0], f"no libpmix: {ended}")


def types_and_style_are_clean():
    folders = ["bindings/python/weft", "mpirun_examples/python"]
    for path in sorted(path for folder in folders for path in (PROJECT / folder).rglob("*.py")):
        long = [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]
        expect(not long, f"{path}: lines {long} are longer than 120")
    for tool, arguments in (("mypy", ["--strict", *folders]), ("ruff", ["check", *folders])):
        command = [shutil.which(tool)] if shutil.which(tool) else [sys.executable, "-m", tool]
        if command[0] == sys.executable and importlib.util.find_spec(tool) is None:
            print(f"skipped: {tool} is not installed")
            continue
        ended = subprocess.run([*command, *arguments], cwd=PROJECT, capture_output=True, text=True)
        expect(ended.returncode == 0, f"{tool}: {ended.stdout}{ended.stderr}")


def the_tools_are_found():
    run = [sys.executable, "-m", "weft"]
    for name in tools.TOOLS:
        expect(tools.tool(name) == str(PACKAGE.resolve().parents[1] / f"bin/weft-{name}"), f"the build's weft-{name}")
        ended = subprocess.run([*run, name, "--help"], capture_output=True, text=True, env={**os.environ, "PATH": "/nowhere"})
        expect(ended.returncode == 0 and f"weft-{name}" in ended.stdout, f"weft-{name} runs without PATH: {ended}")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "weft-info")
        program.write_text("#!/bin/sh\necho \"info $*\"\n")
        program.chmod(0o755)
        # A package that lies beside no tools takes those of PATH.
        shutil.copytree(PACKAGE, pathlib.Path(folder, "alone/weft"))
        environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": f"{folder}/alone"}
        ended = subprocess.run([*run, "info", "--all"], capture_output=True, text=True, env=environment)
        expect(ended.stdout == "info --all\n", f"a tool is run: {ended}")
        ended = subprocess.run([*run, "tune"], capture_output=True, text=True, env={**environment, "PATH": folder})
        expect(ended.returncode == 127 and "weft-tools" in ended.stderr, f"a tool that is not installed: {ended}")
    ended = subprocess.run([*run, "other"], capture_output=True, text=True)
    expect(ended.returncode == 2 and "one of info" in ended.stderr, f"no tool: {ended}")


if __name__ == "__main__":
    for check in (the_tools_are_found, codes_have_classes, functions_are_used, an_older_libweft_is_refused,
                  a_newer_libweft_works, no_libpmix_is_one_line, types_and_style_are_clean):
        check()
    import job

    sys.exit(job.failures > 0)
