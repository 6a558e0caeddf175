"""A run that goes only part of its way: `--until-epoch`, `--time-limit`, a callback, `--resume auto`."""

import csv
import json

import pytest

import yolofast
from tests.train.small_run import flags, shapes_in, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.config.train import TrainConfig, is_demonstration
from yolofast.errors import UserError
from yolofast.train import session
from yolofast.train.guard import Course
from yolofast.watch.runs import Runs


@pytest.mark.parametrize("text", ["", "3", "h", "0m", "3h50", "50m3h", "-3h", "3 hours", "1e400h"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(UserError, match=r"--time-limit is .*\n  fix: give a time such as 3h50m"):
        TrainConfig(time_limit=text)


def test_it_pauses_before_an_epoch_that_may_take_too_long():
    config, clock = TrainConfig(epochs=9, time_limit="100s"), [0.0]
    course = Course(started=0.0, now=lambda: clock[0])
    for epochs, seconds, pauses in ((1, 30, False), (2, 10, False), (3, 26, False), (4, 2, True)):
        course.epoch_begins()
        clock[0] += seconds
        course.epoch_ends()
        assert course.pauses(config, epochs) == pauses, "33 seconds are kept for the longest, of 30"
    assert course.paused == "time limit"


def test_the_first_epoch_is_tried_and_a_run_that_has_all_is_not_paused():
    late = Course(started=0.0, now=lambda: 1e9)
    assert not late.pauses(TrainConfig(epochs=2, time_limit="1s"), 0)
    assert not Course().pauses(TrainConfig(epochs=2, until_epoch=2), 2)
    assert Course().pauses(TrainConfig(epochs=2, until_epoch=1), 1)


def test_resume_or_start_leaves_a_demonstration_one():
    assert is_demonstration({"resume": "auto", "until_epoch": 2}) and not is_demonstration({"resume": True})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("course")


@pytest.mark.slow
def test_after_its_first_epoch_a_run_gets_ready_for_its_end(tmp_path, monkeypatch):
    """A run that is resumed does so again: it is another process."""
    rows = []

    def ready(run):
        written = tmp_path / "runs" / "exp" / "results.csv"
        rows.append(len(written.read_text().splitlines()) - 1 if written.exists() else 0)

    monkeypatch.setattr(session, "import_for_the_end", ready)
    same = ["train", *flags(tmp_path, epochs=4), "--resume-or-start"]
    assert main([*same, "--until-epoch", "2"]) == 0 and rows == [0]
    assert main(same) == 0 and rows == [0, 2]


@pytest.mark.slow
def test_one_command_again_and_again_ends_as_a_run_that_never_paused(place, one_thread, capsys):
    """Each time a little further; the same bits in the end, evaluated or not."""
    same = flags(place, epochs=2)
    assert main(["train", *same, "--name", "whole"]) == 0
    again = ["train", *same, "--name", "parts", "--resume-or-start"]
    for until, state in ((1, "stopped"), (1, "stopped"), (9, "finished")):
        assert main([*again, "--until-epoch", str(until)]) == 0
        (line,) = (line for line in Runs(place / "runs").list()["runs"] if line["name"] == "parts")
        assert line["state"] == state
    out = capsys.readouterr().out
    assert out.count("paused after epoch 1 of 2 (--until-epoch 1); to resume: ") == 2
    assert_same_state(state_of(place, "parts"), state_of(place, "whole"))
    assert not (place / "runs" / "parts2").exists()


@pytest.mark.slow
def test_a_time_limit_ends_at_an_epoch_and_says_so_by_its_exit_code(place, one_thread):
    run = place / "runs" / "timed"
    words = ["train", *flags(place, epochs=2, name="timed"), "--resume", "auto", "--nosave"]
    assert main([*words, "--time-limit", "0.001s"]) == 75
    assert json.loads((run / "interrupted.json").read_text()) == {"epochs": 1, "paused": "time limit"}
    assert (run / "weights" / "last.pt").exists() and (run / "report.html").exists()
    assert main([*words, "--time-limit", "9d"]) == 0
    assert not (run / "interrupted.json").exists() and (run / "summary.json").exists()


@pytest.mark.slow
def test_a_callback_sees_rows_and_stops(place, one_thread, capsys):
    seen = []

    def stop_at_the_second(row):
        seen.append(row)
        return len(seen) == 2

    settings = {"img_size": 64, "batch_size": 8, "workers": 0, "device": "cpu", "cache": "off", "plots": False}
    cfg = flags(place)[flags(place).index("--cfg") + 1]
    data = shapes_in(place / "shapes", 24)
    run = yolofast.train(
        data=data, cfg=cfg, epochs=5, project=place / "api", on_epoch=stop_at_the_second, lr0=0.002, **settings
    )
    with (run.folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in seen] == [0, 1] and len(rows) == 2 and rows[0].keys() <= seen[0].keys() | {""}
    out = capsys.readouterr().out
    assert "api/exp\n" in out and "--patience" not in out, (
        "what continues it, which was not given up for want of progress"
    )
    assert (run.folder / "summary.json").exists() and run.detector.size == 64 and 0 <= run.map <= 1
    assert "lr0: 0.002" in (run.folder / "hyp.yaml").read_text()
    with pytest.raises(RuntimeError, match="own fault"):
        yolofast.train(resume=str(run.folder), epochs=6, on_epoch=_fail)
    paused = yolofast.train(data=data, cfg=cfg, epochs=5, until_epoch=1, notest=True, project=place / "api", **settings)
    assert paused.detector.weights[0].endswith("last.pt") and paused.map == 0


def _fail(row):
    raise RuntimeError("own fault")
