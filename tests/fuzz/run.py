"""Builds the fuzz targets and runs each for a while over its corpus; without clang, replays that.

Usage: run.py BUILD_FOLDER [TARGET ...]

Each target runs for 5 s, or for ten minutes if WEFT_TEST_FULL is 1. An input that fails is left in
BUILD_FOLDER/findings; move it to tests/fuzz/corpus/TARGET once the defect is fixed.
WEFT_FUZZ_KEEP=1 adds to the corpus what the run has found to reach more code.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 600 if os.environ.get("WEFT_TEST_FULL") == "1" else 5
MOST_BYTES = {"topology": 16384}  # others: 4096


def find_clang():
    """A clang whose fuzzer links, or None."""
    for name in ("clang++-14", "clang++"):
        clang = shutil.which(name)
        if not clang:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a.cpp"
            source.write_text(
                '#include <cstdint>\n#include <cstddef>\nextern "C" int LLVMFuzzerTestOneInput('
                "const std::uint8_t*, std::size_t) { return 0; }\n"
            )
            command = [clang, "-fsanitize=fuzzer,address,undefined", source, "-o", f"{folder}/a"]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return clang
    return None


def build(folder, clang):
    compiler = clang or shutil.which("g++")
    marker = folder / "compiler"
    if marker.exists() and marker.read_text() != compiler:
        shutil.rmtree(folder)  # CMake does not change its compiler
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(compiler)
    configure = ["cmake", "-G", "Ninja", "-S", HERE / "project", "-B", folder / "build"]
    configure += [f"-DCMAKE_CXX_COMPILER={compiler}", f"-DWEFT_REPLAY={'OFF' if clang else 'ON'}"]
    for command in (configure, ["cmake", "--build", folder / "build", "-j", str(os.cpu_count())]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nfailed: the fuzz targets don't build")


def run(target, folder, clang):
    corpus = HERE / "corpus" / target
    program = folder / "build" / f"fuzz_{target}"
    most = MOST_BYTES.get(target, 4096)
    if not clang:
        command = [program, corpus]
    else:
        findings = folder / "findings" / target
        found = folder / "found" / target
        for each in (findings, found):
            each.mkdir(parents=True, exist_ok=True)
        command = [program, found, corpus, f"-max_total_time={SECONDS}", "-timeout=25"]
        command += [f"-max_len={most}", "-rss_limit_mb=1024", "-print_final_stats=1"]
        words = HERE / "targets" / f"{target}.dict"
        command += [f"-dict={words}"] if words.exists() else []
        command += [f"-artifact_prefix={findings}/", "-verbosity=0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0 and clang and os.environ.get("WEFT_FUZZ_KEEP") == "1":
        merge = [program, "-merge=1", f"-max_len={most}", corpus, found]
        subprocess.run(merge, capture_output=True, check=True)
    return target, done.returncode, done.stdout


def main():
    folder = pathlib.Path(sys.argv[1])
    every = sorted(path.stem for path in (HERE / "targets").glob("*.cpp"))
    targets = sys.argv[2:] or every
    clang = find_clang()
    if not clang:
        print("no clang with a fuzzer here: the corpus is replayed, nothing else", flush=True)
    build(folder, clang)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for target, status, said in pool.map(lambda t: run(t, folder, clang), targets):
            runs = [line for line in said.splitlines() if "number_of_executed" in line or "replayed" in line]
            print(f"{target}: {'no finding' if status == 0 else 'FAILED'}; {' '.join(runs)}", flush=True)
            if status != 0:
                print(said, flush=True)
                failed.append(target)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


main()
