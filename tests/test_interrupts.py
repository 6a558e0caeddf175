"""Ctrl+C is heard also where Python drops its exception."""

import signal
import sys
import threading

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.interrupts import EXIT_INTERRUPTED, Interrupts
from yolofast.train.loop import Trainer
from yolofast.train.record import Recorder


class InterruptsWhenItGoes:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def printed(monkeypatch):
    """What Python would print of exceptions that it drops."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: dropped.append(what.exc_type))
    return dropped


@pytest.mark.slow
def test_an_interrupt_that_got_lost_ends_the_run(tmp_path, monkeypatch, printed):
    record = Recorder.epoch

    def interrupted(recorder, row):
        record(recorder, row)
        going = InterruptsWhenItGoes()
        del going

    monkeypatch.setattr(Recorder, "epoch", interrupted)
    assert main(["train", *flags(tmp_path, epochs=4, name="run")]) == EXIT_INTERRUPTED
    rows = (tmp_path / "runs" / "run" / "results.csv").read_text().splitlines()
    assert len(rows) == 2  # the heading, and the epoch in which it came
    assert (tmp_path / "runs" / "run" / "report.html").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert printed == []


@pytest.mark.slow
def test_one_that_got_lost_at_the_end_of_an_epoch_does_not_wait_for_its_evaluation(tmp_path, monkeypatch, printed):
    train_epoch = Trainer._train_epoch

    def interrupted(trainer, *arguments):
        going, row = InterruptsWhenItGoes(), train_epoch(trainer, *arguments)
        del going
        return row

    monkeypatch.setattr(Trainer, "_train_epoch", interrupted)
    assert main(["train", *flags(tmp_path, epochs=4, name="run")]) == EXIT_INTERRUPTED
    assert not (tmp_path / "runs" / "run" / "results.csv").exists()
    assert printed == []


def test_other_exceptions_that_are_dropped_are_reported(printed):
    class Fails:
        def __del__(self):
            raise ValueError

    with Interrupts().heard():
        going = Fails()
        del going
    assert printed == [ValueError]


def test_who_handles_interrupts_itself_continues_to_do_so():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        interrupts = Interrupts()
        with interrupts.heard():
            signal.raise_signal(signal.SIGINT)
            interrupts.check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_thread_may_train():
    failed = []

    def train():
        try:
            with Interrupts().heard():
                pass
        except ValueError as error:  # signals are for the main thread
            failed.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert not failed
