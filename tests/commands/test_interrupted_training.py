"""What an interrupted run says, and how others can tell that it does not continue."""

import json
import shutil

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_BAD_INPUT
from yolofast.interrupts import EXIT_INTERRUPTED
from yolofast.report.compare.read_folder import read_runs
from yolofast.train.record import Recorder
from yolofast.watch.runs import Runs
from yolofast.words import own_command

pytestmark = pytest.mark.slow


def interrupt(monkeypatch, before_epoch):
    """Ctrl+C before the row of this epoch, counted from 0, is written down."""
    record = Recorder.epoch

    def stop(recorder, row):
        if row["epoch"] == before_epoch:
            raise KeyboardInterrupt
        record(recorder, row)

    monkeypatch.setattr(Recorder, "epoch", stop)


def interrupted_at(monkeypatch, where, words):
    """Ctrl+C where this is called."""

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(where, stop)
        assert main(words) == EXIT_INTERRUPTED


def state_of(run):
    (line,) = Runs(run).list()["runs"]
    return line["state"]


@pytest.fixture
def words(tmp_path):
    return ["train", *flags(tmp_path, epochs=2, name="run")]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was interrupted in its second epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patches:
        interrupt(patches, before_epoch=1)
        assert main(["train", *flags(folder, epochs=2, name="run")]) == EXIT_INTERRUPTED
    return folder / "runs" / "run"


@pytest.fixture
def run(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def test_before_anything_was_saved_there_is_nothing_to_resume_from(tmp_path, words, monkeypatch, capsys):
    interrupt(monkeypatch, before_epoch=0)
    assert main(words) == EXIT_INTERRUPTED
    printed = capsys.readouterr().out
    assert "interrupted; nothing was saved yet. To start again: the same command, or " in printed
    assert f"train --resume {tmp_path / 'runs' / 'run'} for the same folder" in printed and "to resume" not in printed


def test_after_an_epoch_it_resumes_from_there(words, monkeypatch, capsys):
    interrupt(monkeypatch, before_epoch=1)
    assert main(words) == EXIT_INTERRUPTED
    printed = capsys.readouterr().out
    assert "interrupted; to resume: " in printed and "nothing was saved" not in printed


@pytest.mark.parametrize("epochs", [0, 1])
def test_watch_knows_that_it_was_interrupted_until_it_is_resumed(tmp_path, words, monkeypatch, epochs):
    run = tmp_path / "runs" / "run"
    with monkeypatch.context() as patches:
        interrupt(patches, before_epoch=epochs)
        assert main(words) == EXIT_INTERRUPTED
    assert json.loads((run / "interrupted.json").read_text()) == {"epochs": epochs}
    assert [line["state"] for line in Runs(tmp_path / "runs").list()["runs"]] == ["stopped"]
    assert main(["train", "--resume", str(run), "--device", "cpu"]) == 0
    assert not (run / "interrupted.json").exists()
    assert [line["state"] for line in Runs(tmp_path / "runs").list()["runs"]] == ["finished"]
    clock = read_runs([run])[0].timing.source
    assert clock == ("the column `time`, training alone" if epochs else "summary.json"), "of a run that starts again"


BEFORE_TRAINING = pytest.mark.parametrize("where", ["forget_earlier_run", "_trainer", "Recorder.environment"])
RESUMED = pytest.mark.parametrize("where", ["_folder_with_settings", "_restore", "_trainer", "Recorder.environment"])


@BEFORE_TRAINING
def test_a_new_folder_is_marked_before_training_begins_too(tmp_path, words, monkeypatch, capsys, where):
    interrupted_at(monkeypatch, f"yolofast.train.session.{where}", words)
    assert json.loads((tmp_path / "runs" / "run" / "interrupted.json").read_text()) == {"epochs": 0}
    assert "interrupted; nothing was saved yet. To start again: the same command" in capsys.readouterr().out


@RESUMED
def test_so_is_a_resumed_run(run, monkeypatch, capsys, where):
    (run / "interrupted.json").unlink()
    interrupted_at(monkeypatch, f"yolofast.train.session.{where}", ["train", "--resume", str(run), "--device", "cpu"])
    assert json.loads((run / "interrupted.json").read_text()) == {"epochs": 1}
    assert "interrupted; to resume: " in capsys.readouterr().out
    assert state_of(run) == "stopped"


def test_one_that_cannot_be_resumed_is_still_marked(run, monkeypatch):
    def fail(*arguments):
        raise UserError("the network is not the one the run has trained")

    monkeypatch.setattr("yolofast.train.session._restore", fail)
    assert main(["train", "--resume", str(run), "--device", "cpu"]) == EXIT_BAD_INPUT
    assert state_of(run) == "stopped"


@pytest.mark.parametrize("more", [[], ["--max-steps", "3"]], ids=["all epochs", "all steps"])
def test_a_run_that_lacks_only_its_report_is_complete(tmp_path, words, monkeypatch, capsys, more):
    run = tmp_path / "runs" / "run"
    interrupted_at(monkeypatch, "yolofast.report.run.run_page.leave_report", [*words, *more])
    printed = capsys.readouterr().out
    assert f"interrupted; the run is complete. To make its report: {own_command()} report {run}" in printed
    assert "--resume" not in printed and not (run / "interrupted.json").exists()
    assert state_of(run) == "finished"
    assert main(["report", str(run)]) == 0


def test_so_is_one_whose_end_was_to_be_made_again(trained_folder, tmp_path, monkeypatch, capsys):
    run = shutil.copytree(trained_folder / "runs" / "run", tmp_path / "run")
    interrupted_at(monkeypatch, "yolofast.train.record.Recorder.summary", ["train", "--resume", str(run)])
    assert "interrupted; the run is complete." in capsys.readouterr().out
    assert state_of(run) == "finished"


def test_before_the_summary_there_is_an_end_to_be_made(tmp_path, words, monkeypatch, capsys):
    run = tmp_path / "runs" / "run"
    interrupted_at(monkeypatch, "yolofast.train.record.Recorder.summary", words)
    assert "interrupted; to resume: " in capsys.readouterr().out
    assert state_of(run) == "stopped"
    assert main(["train", "--resume", str(run)]) == 0
    assert state_of(run) == "finished"


def test_a_mark_that_cannot_be_written_is_done_without(words, monkeypatch, capsys):
    def full(recorder):
        raise OSError(28, "No space left on device", "interrupted.json")

    interrupt(monkeypatch, before_epoch=1)
    monkeypatch.setattr(Recorder, "interrupted", full)
    assert main(words) == EXIT_INTERRUPTED
    assert "to resume" in capsys.readouterr().out
