"""The commands that a GPU runs, which nobody has at hand: they are understood, and end in eight minutes."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks.bench_scale import FULL, PARTS, SMALL, _part, _row, _search_path, commands
from yolofast.cli import parse
from yolofast.config.flags import from_args
from yolofast.config.train import TrainConfig
from yolofast.sweep.experiment import read_experiment


@pytest.mark.parametrize("sizes", [FULL, SMALL])
def test_the_parts(sizes, capsys):
    parts = list(commands(sizes, None, PARTS, 20, has_gpu=False))
    parsed = [parse(words[3:]) for _, words, _ in parts if words[2] == "yolofast"]
    assert [args.command for args in parsed] == ["dataset shapes", *["profile"] * 2, "sweep"]
    read = read_experiment(parsed[-1].experiment, parsed[-1].values)
    assert (read.parallel, read.seeds, read.base["epochs"]) == (0, (0,), 20), "measured"
    assert sum(limit_s for _, _, limit_s in parts[1:-1]) + 4 * 40 <= 480 - 60, "what is left is for the sweep"
    assert capsys.readouterr().out.count("| `--cache` |") == 1


def test_the_rows_of_a_gpu_are_understood(monkeypatch):
    monkeypatch.setattr("benchmarks.bench_scale._held_memory", nullcontext)
    rows = [words for _, words, _ in commands(FULL, Path("set/data.yaml"), ["stores"], 20, has_gpu=True)]
    configs = [from_args(TrainConfig, parse(words[3:])) for words in rows]
    assert [(one.cache, one.jpeg_decoder) for one in configs] == [
        ("gpu", "opencv"), ("jpeg-ram", "opencv"), ("jpeg-ram", "nvjpeg"), ("jpeg-gpu", "opencv"),
        ("jpeg-gpu", "nvjpeg"), ("auto", "opencv"),
    ]  # fmt: skip
    assert {one.data for one in configs} == {"set/data.yaml"}


def test_packages_of_a_folder_are_found_from_another_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "packages::/elsewhere")
    assert _search_path(tmp_path).split(":")[1:] == [str(tmp_path / "packages"), "/elsewhere"]


@pytest.mark.slow
def test_a_row_that_fails_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "yolofast", "profile", "data=gone.yaml", "device=cpu"]
    assert _row("| gpu | opencv |", words, 60) == 2
    assert "exit code 2 | | | |" in (line := capsys.readouterr().out) and "gone.yaml" in line


@pytest.mark.slow
def test_a_part_that_takes_too_long_ends_with_what_it_has_started(capsys):
    sleeps = "import os, time; os.fork(); print('here', flush=True); time.sleep(60)"
    assert _part("Waits", [sys.executable, "-c", sleeps], 3) == -15
    assert "## Waits" in capsys.readouterr().out, "the pipe has closed: its child has ended, too"
