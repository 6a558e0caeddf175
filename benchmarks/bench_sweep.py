"""What a sweep adds to its trials: processor time of plain runs, of a sweep of as many, and the start of one on Ray.

    python -m benchmarks.bench_sweep --trials 4 --ray

Processor time is that of all processes, so other programs on the machine do not change it much. On Ray, where trials
are not children of the sweep, it is told how long a process takes to begin, and what its runner has used until then.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from yolofast._version import __version__
from yolofast.config.reports import SweepConfig
from yolofast.sweep.places import Start, place_of

_YOLOFAST = [sys.executable, "-m", "yolofast"]
_SETTINGS = (
    "data=shapes/data.yaml", "cfg=mini", "img=64", "batch=8", "workers=0", "cache=off", "plots=false", "epochs=1",
)  # fmt: skip
_BEGINNING = """
import os, psutil, time
used = psutil.Process(os.getppid()).cpu_times()
print(time.time(), used.user + used.system)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ray", action="store_true")
    asked = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["OMP_NUM_THREADS"] = "1"
        _run([[*_YOLOFAST, "dataset", "shapes", "--out", "shapes", "--n", "40"]])
        _in_place(asked.trials, asked.rounds)
        if asked.ray:
            _on_ray(asked.trials)


def _in_place(trials: int, rounds: int) -> None:
    base = "".join(f"  {name}: {value}\n" for name, _, value in (word.partition("=") for word in _SETTINGS))
    for count in {1, trials}:
        Path(f"{count}.yaml").write_text(f"base:\n{base}seeds: {count}\n")
    print("| what | CPU s | wall s | load |\n|---|--:|--:|--:|")
    for turn in range(rounds):
        plain = [[*_YOLOFAST, "train", *_SETTINGS, f"seed={seed}", f"name={turn}-{seed}"] for seed in range(trials)]
        _row(f"{trials} runs", plain)
        for count in (trials, 1):
            words = [*_YOLOFAST, "sweep", f"{count}.yaml", "--device", "cpu", "--name", f"{turn}-{count}"]
            _row(f"a sweep of {count}", [words])


def _row(name: str, commands: Sequence[Sequence[str]]) -> None:
    began = time.perf_counter()
    used = _run(commands)
    print(f"| {name} | {used:.1f} | {time.perf_counter() - began:.0f} | {os.getloadavg()[0]:.0f} |", flush=True)


def _run(commands: Sequence[Sequence[str]]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for words in commands:
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _on_ray(trials: int) -> None:
    began = time.perf_counter()
    with place_of(SweepConfig(address="local"), 1, subprocess.Popen) as place:
        print(f"Ray is there after {time.perf_counter() - began:.1f} s")
        print("| process | begins after, s | CPU s of who starts it | load |\n|---|--:|--:|--:|")
        for number in range(trials):
            for name, start in (("plain", subprocess.Popen), ("on Ray", place.start)):
                _begin(f"{name}, {number + 1}", start)


def _begin(name: str, start: Start) -> None:
    with open("began.txt", "w+b") as log:
        asked = time.time()
        process = start([sys.executable, "-c", _BEGINNING], stdin=subprocess.DEVNULL, stdout=log, env=dict(os.environ))
        while process.poll() is None:
            time.sleep(0.01)
        log.seek(0)
        began, used = map(float, log.read().split()[-2:])
    print(f"| {name} | {began - asked:.2f} | {used:.2f} | {os.getloadavg()[0]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
