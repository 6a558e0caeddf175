"""The start of a training as a timeline: of the real command, which leaves nothing behind."""

import json
import subprocess
import time
from functools import partial
from types import SimpleNamespace

import pytest

from tests import programs
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.profile.measure import start_up
from yolofast.profile.measure.start_up import BATCH, IMPORTS, PYTHON, REST, STAGES, UPDATE, StartStage, StartUp


class Clock:
    def __init__(self):
        self.now = 100.0

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(start_up, "time", clock)
    return clock


def test_time_counts_for_the_innermost_stage(clock):
    timeline = start_up._Timeline(typed=98.0)
    timeline.flags_are_read()
    clock.now += 1
    with timeline.stage("network"):
        clock.now += 2
        with timeline.stage("weights"):
            clock.now += 4
        with timeline.stage("weights"):
            clock.now += 8
        clock.now += 16
    clock.now += 32
    found = timeline.found()
    assert found.stages == (
        StartStage(PYTHON, 0.0, 2.0), StartStage("network", 3.0, 18.0),
        StartStage("weights", 5.0, 12.0), StartStage(REST, 2.0, 33.0),
    )  # fmt: skip
    assert found.seconds == sum(stage.seconds for stage in found.stages) == 65


def test_a_stage_that_fails_ends(clock):
    timeline = start_up._Timeline(typed=100.0)

    def fail():
        clock.now += 1
        raise OSError

    with pytest.raises(OSError):
        timeline.timed("data", fail)()
    clock.now += 2
    assert timeline.found().stages == (StartStage(PYTHON, 0.0, 2.0), StartStage("data", 0.0, 1.0))


def test_a_stage_of_one_start_alone_is_none_of_the_other():
    starts = (
        StartUp((StartStage("a", 0.0, 1.0), StartStage("b", 1.0, 2.0)), 3.0),
        StartUp((StartStage("a", 0.0, 1.5),), 1.5),
    )
    assert list(start_up.startup_rows(starts)) == [
        ("a", "0.00", "1.00", "1.50"), ("b", "1.00", "2.00", "0.00"), ("until the first update", "", "3.00", "1.50"),
    ]  # fmt: skip
    assert start_up.startup_line(starts) == "longest: a, 1.50 of 1.50 s (100%)"


@pytest.mark.parametrize(("name", "where", "function"), STAGES)
def test_what_is_timed_is_there(name, where, function):
    assert callable(getattr(start_up._place(where), function))


@pytest.mark.parametrize(("code", "error"), [(0, UserError), (2, SystemExit)])
def test_a_command_that_does_not_train(monkeypatch, code, error):
    monkeypatch.setattr(start_up.subprocess, "run", lambda command, **how: subprocess.CompletedProcess(command, code))
    with pytest.raises(error, match="ended before a first update" if error is UserError else "2"):
        start_up.measure_starts(["profile", "--startup", "--explain"])


@pytest.mark.slow
def test_the_real_command_is_timed_and_leaves_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    file, begun = tmp_path / "start.json", time.perf_counter()
    assert main(["profile", *flags(tmp_path), "--startup", "--json", str(file)]) == 0
    passed = time.perf_counter() - begun
    out = capfd.readouterr().out
    assert not (tmp_path / "runs").exists()
    found = json.loads(file.read_text())
    assert found["made_by"] == "yolofast profile" and len(found["starts"]) == 2
    for start in found["starts"]:
        seconds = {stage["name"]: stage["seconds"] for stage in start["stages"]}
        assert sum(seconds.values()) == pytest.approx(start["seconds"]) and min(seconds.values()) >= 0
        assert {PYTHON, IMPORTS, "reading the data set", "building the network", BATCH, UPDATE, REST} < seconds.keys()
        assert seconds[IMPORTS] > 0.1, "torch"
        for name in seconds:
            assert any(line.startswith(name) for line in out.splitlines()), name
    assert sum(start["seconds"] for start in found["starts"]) < passed
    assert "until the first update" in out and "longest: " in out and f"written: {file}" in out


@pytest.mark.slow
def test_a_training_that_fails_says_why(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    forked = partial(programs.run, stderr=None)  # which goes where this process's does
    monkeypatch.setattr(start_up, "subprocess", SimpleNamespace(run=forked, DEVNULL=subprocess.DEVNULL))
    with pytest.raises(SystemExit) as ended:
        main(["profile", *flags(tmp_path), "--startup", "--optimizer", "sgd", "--hyp", __file__])
    assert ended.value.code == 2
    assert capfd.readouterr().err.count("yolofast: error: ") == 1
