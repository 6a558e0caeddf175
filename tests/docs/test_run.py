"""The commands of the pages run, in a folder that has the files they name.

They are run at a small size: training is prepared and explained, not done; data sets have few pictures; large networks
are replaced by small ones. The same command on two pages is run once.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, commands_of
from tests.docs.world import linked, make_world
from yolofast.cli import main, run_script

pytestmark = pytest.mark.slow

RUN_HERE = {
    "README.md", "augmentation.md", "commands.md", "compare.md", "convert.md", "data.md", "diagnose.md",
    "evaluation.md", "first-run.md", "from-ultralytics.md", "from-yolov7.md", "models.md", "motion.md",
    "prediction.md", "report.md", "shapes.md", "store.md", "training.md", "weights.md",
}  # fmt: skip
"""Commands of `track.md`, `tracksweep.md`, `tracking-scores.md` and `nuscenes.md` have tests of their own, beside those
of the commands. Not run yet: `export.md`, `fine-tuning.md`, `from-yolox.md`, `profile.md`, `reports-corrected.md`,
`yolox.md`. `test_commands.py` parses what they print."""
RUN_BY_CI = ("make ", "pip install ", "python -m pytest ", "yolofast train", "yolofast --version")
"""`yolofast train` alone is the demonstration: `make demo`; `make package` asks for the version."""
TAKES_MINUTES = ("yolofast val --task study",)
"""Sizes up to 1,536 pixels; `tests/commands/test_val.py` has two small ones."""
OF_NUSCENES = "/data/nuscenes"
SMALLER = {
    "yolox-l": "yolox-nano", "yolox-s": "yolox-nano", "yolox_l.pth": "yolox_nano.pth", "yolox_s.pth": "yolox_nano.pth",
    "yolov7": "yolov7-tiny", "yolov7-custom": "yolov7-tiny", "yolov7-w6": "yolov7-tiny",
    "yolov7_training.pt": "yolov7-tiny.pt", "nuscenes.yaml": "data.yaml", "coco200/data.yaml": "data.yaml",
    "data/coco.yaml": "data.yaml", "134": "4",
}  # fmt: skip
PROFILE = "--img 64 --batch-size 2 --steps 1 --warm-up 1 --workers 0 --cache off --noautoanchor"
COST = {
    "train": "--workers 0 --cache off --device cpu",
    "profile": f"{PROFILE} --device cpu",
    "val": "--batch-size 4 --device cpu",
    "predict": "--device cpu",
    "track": "--device cpu",
    "motion train": "--blocks 1 --epochs 1 --device cpu",
    "motion val": "--device cpu",
    "dataset shapes": "--n 12",
    "dataset shapes-video": "--frames 8 --sequences 2",
}
"""What is typed again counts."""


@pytest.fixture(scope="module")
def world(trained_folder, tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("docs") / "world", trained_folder / "runs" / "run")


def here(command):
    """Whether it is for this test to run it."""
    if command.needs or OF_NUSCENES in command.line or command.line in TAKES_MINUTES:
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
    if {"--recipe", "--weights"} <= {*words}:
        words += ["--cfg", "yolox-nano"]  # whose weights they are here
    explained = [] if words[0] != "train" or "--explain" in words or "--max-steps" in words else ["--explain"]
    return [*words, *explained, *cost.split()]


def run(command, monkeypatch):
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


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in RUN_HERE], ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page, world, tmp_path, monkeypatch):
    commands = [one for one in commands_of(page) if here(one) and one.line not in DONE]
    if not commands:
        return
    DONE.update(one.line for one in commands)
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
    for command in commands:
        run(command, monkeypatch)
