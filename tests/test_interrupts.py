"""Ctrl+C is heard also where Python drops its exception; what clusters and terminals send is heard as Ctrl+C is."""

import argparse
import json
import os
import signal
import sys
import threading

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.exit_codes import run_command
from yolofast.interrupts import EXIT_INTERRUPTED, INTERRUPTED, STOPS, Interrupts, interrupts_wait, stops_raise
from yolofast.train.loop import Trainer
from yolofast.train.record import Recorder
from yolofast.words import own_command


class InterruptsWhenItGoes:
    def __init__(self, number=signal.SIGINT):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


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


@pytest.fixture
def stops(monkeypatch):
    """Signals as they reach a command that has begun; what would end the process is noted."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with stops_raise():
        yield ended
    assert [signal.getsignal(number) for number in STOPS] == [signal.SIG_DFL] * len(STOPS)


@pytest.mark.parametrize("number", STOPS)
def test_what_clusters_and_terminals_send_is_an_interrupt_with_its_own_exit_code(number, capsys):
    def run(args):
        signal.raise_signal(number)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("yolofast.exit_codes.found", lambda where: run)
        assert run_command("module:run", argparse.Namespace()) == 128 + number
    assert capsys.readouterr().err == f"{INTERRUPTED}\n"
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("number", STOPS)
def test_a_closed_terminal_tells_twice_and_a_second_signal_ends_at_once(stops, monkeypatch, number):
    now = [100.0]
    monkeypatch.setattr("yolofast.interrupts.time.monotonic", lambda: now[0])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    now[0] += 0.2
    signal.raise_signal(number)
    assert not stops, "an echo"
    now[0] += 0.1
    signal.raise_signal(number)
    assert stops == [128 + number]


def test_another_signal_is_no_echo(stops):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    assert stops == [128 + signal.SIGTERM]


def test_one_that_python_drops_is_heard_later(stops, printed):
    interrupts = Interrupts()
    with interrupts.heard():
        going = InterruptsWhenItGoes(signal.SIGTERM)
        del going
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert printed == []


def test_nohup_and_handlers_of_the_program_stay(monkeypatch):
    def own(number, frame):
        pass

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGUSR1, own)
    try:
        with stops_raise():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and signal.getsignal(signal.SIGUSR1) is own
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and signal.getsignal(signal.SIGUSR1) is own
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGUSR1, before[1])


@pytest.mark.parametrize("number", [signal.SIGINT, *STOPS])
def test_while_workers_start_they_wait(stops, number):
    reached = []

    def start():
        with interrupts_wait():
            signal.raise_signal(number)
            reached.append(number)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached


@pytest.mark.slow
def test_sigterm_leaves_a_run_as_ctrl_c_does(tmp_path, monkeypatch, capsys):
    record = Recorder.epoch

    def told(recorder, row):
        record(recorder, row)
        if row["epoch"] == 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Recorder, "epoch", told)
    assert main(["train", *flags(tmp_path, epochs=3, name="run")]) == 128 + signal.SIGTERM
    run = tmp_path / "runs" / "run"
    assert json.loads((run / "interrupted.json").read_text()) == {"epochs": 2} and (run / "report.html").exists()
    printed = capsys.readouterr()
    assert f"interrupted; to resume: {own_command()} train --resume {run}" in printed.out
    assert printed.err == f"{INTERRUPTED}\n"
