"""What an interrupted run says, and how others can tell that it does not go on."""

import json

import pytest

from tests.engine.small_run import flags
from yolofast.cli import main
from yolofast.early_interrupts import EXIT_INTERRUPTED
from yolofast.engine.record import Recorder
from yolofast.report.compare.read_folder import read_runs
from yolofast.watch.runs import Runs


def interrupt(monkeypatch, before_epoch):
    """Ctrl+C before the row of this epoch, counted from 0, is written down."""
    record = Recorder.epoch

    def stop(recorder, row):
        if row["epoch"] == before_epoch:
            raise KeyboardInterrupt
        record(recorder, row)

    monkeypatch.setattr(Recorder, "epoch", stop)


@pytest.fixture
def words(tmp_path):
    return ["train", *flags(tmp_path, epochs=2, name="run")]


def test_before_anything_was_saved_there_is_nothing_to_go_on_from(tmp_path, words, monkeypatch, capsys):
    interrupt(monkeypatch, before_epoch=0)
    assert main(words) == EXIT_INTERRUPTED
    printed = capsys.readouterr().out
    assert "interrupted; nothing was saved yet. To start again: the same command, or " in printed
    assert f"train --resume {tmp_path / 'runs' / 'run'} for the same folder" in printed and "to go on" not in printed


def test_after_an_epoch_it_goes_on_from_there(words, monkeypatch, capsys):
    interrupt(monkeypatch, before_epoch=1)
    assert main(words) == EXIT_INTERRUPTED
    printed = capsys.readouterr().out
    assert "interrupted; to go on: " in printed and "nothing was saved" not in printed


@pytest.mark.parametrize("epochs", [0, 1])
def test_watch_knows_that_it_was_interrupted_until_it_goes_on(tmp_path, words, monkeypatch, epochs):
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


def test_a_mark_that_cannot_be_written_is_done_without(words, monkeypatch, capsys):
    def full(recorder):
        raise OSError(28, "No space left on device", "interrupted.json")

    interrupt(monkeypatch, before_epoch=1)
    monkeypatch.setattr(Recorder, "interrupted", full)
    assert main(words) == EXIT_INTERRUPTED
    assert "to go on" in capsys.readouterr().out
