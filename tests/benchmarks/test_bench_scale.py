"""The commands that a GPU runs, which nobody has at hand: they are understood, and end in eight minutes."""

import sys
from itertools import chain

import pytest

from benchmarks.bench_scale import _by_cache, _part, _parts
from yolofast.cli import parse
from yolofast.sweep.experiment import read_experiment


@pytest.mark.parametrize("small", [False, True])
def test_the_parts(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = list(chain(_parts(small=small), _by_cache(small=small, has_gpu=False)))
    commands = [parse(words[3:]) for _, words, _ in parts if words[2] == "yolofast"]
    assert [args.command for args in commands] == ["dataset shapes", "sweep", *["profile"] * 2]
    (sweep,) = (args for args in commands if args.command == "sweep")
    assert read_experiment(sweep.experiment, sweep.values).parallel == 0, "measured"
    longest_with_gpu = sum(limit_s for _, _, limit_s in parts) + 2 * 35
    assert longest_with_gpu <= 480


@pytest.mark.slow
def test_a_part_that_takes_too_long_ends_with_what_it_has_started(capsys):
    sleeps = "import os, time; os.fork(); print('here', flush=True); time.sleep(60)"
    assert _part("Waits", [sys.executable, "-c", sleeps], 3) == -15
    assert "## Waits" in capsys.readouterr().out, "the pipe has closed: its child has ended, too"
