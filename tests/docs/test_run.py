"""The commands of the pages run, in a folder that has the files they name.

They are run at a small size: training is prepared and explained, not done; data sets have few pictures; large networks
are replaced by small ones. The same command on two pages is run once.
"""

import copy
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import programs
from tests.docs.pages import PAGES, ROOT, commands_of
from tests.docs.world import linked, make_world
from yolofast.cli import main, run_script
from yolofast.commands import profile as profile_command
from yolofast.export.formats import onnx_based
from yolofast.export.formats.onnx_graph import graph_of
from yolofast.profile.measure import start_up
from yolofast.profile.measure.meter import Against, profile_run
from yolofast.profile.step_statistics import compare

pytestmark = pytest.mark.slow

RUN_ELSEWHERE = {
    "track.md": "tests/commands/test_track.py",
    "tracksweep.md": "tests/commands/test_tracksweep.py",
    "tracking-scores.md": "tests/commands/test_trackval.py",
}
"""As printed, by a test beside those of the command."""
LINES_RUN_ELSEWHERE = {
    "yolofast export --weights best.pt --to openvino --int8 --data data.yaml --out small": "tests/export/test_int8.py",
}
"""With these very flags: searching takes longer than all that the page has else."""
RUN_BY_CI = ("make ", "pip install ", "python -m pytest ", "yolofast train", "yolofast --version")
"""`yolofast train` alone is the demonstration: `make demo`; `make package` asks for the version."""
TAKES_MINUTES = ("yolofast val --task study",)
"""Sizes up to 1,536 pixels; `tests/commands/test_val.py` has two small ones."""
SAME = {"yolofast export --weights best.pt --to onnx": "yolofast export --weights best.pt"}
"""What is typed is the default."""
READ_LATER = ("best.onnx",)
"""Written by a command, it is there for all pages after it, where that is not run again."""
SMALLER = {
    "yolox-l": "yolox-nano", "yolox-s": "yolox-nano", "yolox_l.pth": "yolox_nano.pth", "yolox_s.pth": "yolox_nano.pth",
    "yolov7": "yolov7-tiny", "yolov7-custom": "yolov7-tiny", "yolov7-w6": "yolov7-tiny",
    "yolov7_training.pt": "yolov7-tiny.pt", "nuscenes.yaml": "data.yaml", "coco200/data.yaml": "data.yaml",
    "data/coco.yaml": "data.yaml", "134": "4", "/data/nuscenes": "nuscenes_tables", "v1.0-trainval": "v1.0-syn",
    "scene-0003_CAM_FRONT": "scene-9002_CAM_FRONT",
    "nuscenes/sequences/val/scene-0003_CAM_FRONT": "nuscenes/sequences/val/scene-9002_CAM_FRONT",
}  # fmt: skip
PROFILE = "--img 32 --batch-size 12 --steps 1 --warm-up 1 --workers 0 --cache off --noautoanchor"
COST = {
    "train": "--workers 0 --cache off --device cpu",
    "profile": f"{PROFILE} --device cpu",
    "val": "--batch-size 4 --device cpu",
    "predict": "--device cpu",
    "benchmark": "--formats pytorch --rounds 1 --calls 1 --batch 1 --no-memory",
    "track": "--device cpu",
    "tracksweep": "--workers 1",
    "motion train": "--blocks 1 --epochs 1 --device cpu",
    "motion val": "--device cpu",
    "dataset shapes": "--n 12",
    "sweep": "--dry-run",
    "dataset shapes-video": "--frames 8 --sequences 2",
}
"""What is typed again counts."""


@pytest.fixture(scope="module")
def world(trained_folder, tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("docs") / "world", trained_folder / "runs" / "run")


def here(command):
    """Whether it is for this test to run it."""
    if command.needs or command.line in (*TAKES_MINUTES, *LINES_RUN_ELSEWHERE):
        return False
    return not any(command.line == one or (one.endswith(" ") and command.line.startswith(one)) for one in RUN_BY_CI)


def small(words):
    """The words of a command of yolofast, at a size that a test has time for."""
    words = [SMALLER.get(word, word) for word in words]
    if words[0] == "dataset" and (there := Path(words[words.index("--out") + 1])).is_dir():
        shutil.rmtree(there)  # of the same name, but of another size
    words = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else []) or [word]]
    cost = COST.get(" ".join(words[:2]), COST.get(words[0], ""))
    if words[0] in ("train", "val", "profile") and not {"--data", "--resume"} & {*words}:
        words += ["--data", "data.yaml"]  # instead of the built-in data set, which would have to be made
    if words[0] == "profile" and "--set" not in words:
        words += ["--cfg", "mini"]
    if "nuscenes_tables" in words and "--version" not in words:
        words += ["--version", "v1.0-syn"]  # they are not the default's
    if {"--recipe", "--weights"} <= {*words}:
        words += ["--cfg", "yolox-nano"]  # whose weights they are here
    explained = [] if words[0] != "train" or "--explain" in words or "--max-steps" in words else ["--explain"]
    return [*words, *explained, *cost.split()]


def run(command, monkeypatch):
    first, piped, last = command.line.partition(" | yolofast ")
    if piped:  # not in a process of its own, which would have to import torch
        fed = subprocess.run(["bash", "-euc", first], check=True, timeout=600, stdout=subprocess.PIPE).stdout
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(fed)))
        assert fed and main(small(shlex.split(last))) == 0, command.line
        return
    words = shlex.split(re.sub(r"^(?:[A-Z_]+=\S+ )+", "", command.line))
    if words[0] == "yolofast":
        assert main(small(words[1:])) == 0, command.line
    elif words[0] == "python" and words[1].endswith(".py"):
        monkeypatch.setattr("sys.argv", [words[1], *small(["train", *words[2:]])[1:]])
        assert run_script(words[1]) == 0, command.line
    else:  # what only a shell can do
        subprocess.run(["bash", "-euc", command.line], check=True, timeout=600)


def test_the_python_of_the_readme_runs(world, monkeypatch, capsys):
    monkeypatch.chdir(world)
    (code,) = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert (world / "found.jpg").exists()


DONE = set()
TRACED = {}


def traced_once(network, facts):
    """Every export writes its file and compares it; the graph of the same network is made once."""
    if facts not in TRACED:
        TRACED[facts] = graph_of(network, facts)
    return copy.deepcopy(TRACED[facts])


MEASURED = []


def measured_once(run, request, say):
    """Every command prepares its runs and prints its tables; only the first takes the time to measure."""
    if not MEASURED:
        MEASURED.append(profile_run(run, request, say))
    return MEASURED[0]


def against_itself(first, second, request, say):
    """How two runs are measured in turn is tested in `tests/profile/measure`."""
    found = measured_once(first, request, say)
    return Against(found, found, compare([1.0, 1.1], [1.1, 1.0]))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in RUN_ELSEWHERE], ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page, world, tmp_path, monkeypatch):
    commands = [one for one in commands_of(page) if here(one) and SAME.get(one.line, one.line) not in DONE]
    if not commands:
        return
    folder = tmp_path / "here"
    shutil.copytree(world, folder, copy_function=linked)
    (folder / "bin").mkdir()
    for name, words in (("yolofast", "-m yolofast"), ("python", "")):
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of benchmarks
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(onnx_based, "graph_of", traced_once)
    monkeypatch.setattr(profile_command, "profile_run", measured_once)
    monkeypatch.setattr(profile_command, "profile_against", against_itself)
    # Started without the seconds in which Python reads torch; with them in tests/profile/measure/test_start_up.py.
    monkeypatch.setattr(start_up, "subprocess", SimpleNamespace(run=programs.run, DEVNULL=subprocess.DEVNULL))
    for command in commands:
        run(command, monkeypatch)
        DONE.add(SAME.get(command.line, command.line))  # only now: a page that fails does not hide that others do
    for name in READ_LATER:
        if (folder / name).exists() and not (world / name).exists():
            shutil.copy(folder / name, world)
