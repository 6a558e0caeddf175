"""Experiment loggers never hold up a run."""

import threading

import pytest

from tests.patience import PATIENCE
from yolofast.train.loggers.delivery import LoggerDelivery
from yolofast.train.loggers.logger import LoggedRun
from yolofast.train.record import Recorder


class ListLogger:
    """Keeps what it is sent; may fail at an epoch, or wait for a sign."""

    title = "List"

    def __init__(self, fails_at=None, waits_for=None):
        self.calls, self.threads = [], set()
        self._fails_at, self._waits_for = fails_at, waits_for

    def start(self, run):
        self.calls.append(("start", run.name))
        return "in memory"

    def scalars(self, epoch, values):
        if self._waits_for is not None:
            assert self._waits_for.wait(PATIENCE)
        if epoch == self._fails_at:
            raise ConnectionError("no route\nto host")
        self.calls.append(("scalars", epoch, values))
        self.threads.add(threading.get_ident())

    def picture(self, epoch, path):
        self.calls.append(("picture", epoch, path.name))

    def finish(self, complete):
        self.calls.append(("finish", complete))


def recorder_with(folder, said, *loggers):
    return Recorder(folder, loggers=LoggerDelivery(loggers, LoggedRun(folder=folder, settings={}), said.append))


def test_everything_arrives_in_order_and_in_another_thread(tmp_path):
    logger, said = ListLogger(), []
    recorder = recorder_with(tmp_path, said, logger)
    recorder.epoch({"epoch": 0, "time": 1, "train/box_loss": 0.5})
    recorder.picture(0, tmp_path / "boxes.jpg")
    recorder.close(complete=True)
    recorder.close()
    assert logger.calls == [
        ("start", tmp_path.name),
        ("scalars", 0, {"time": 1.0, "train/box_loss": 0.5}),
        ("picture", 0, "boxes.jpg"),
        ("finish", True),
    ]
    assert threading.get_ident() not in logger.threads and said == ["List: in memory"]


def test_one_that_fails_is_left_alone_and_the_others_continue(tmp_path):
    failing, good, said = ListLogger(fails_at=1), ListLogger(), []
    recorder = recorder_with(tmp_path, said, failing, good)
    for epoch in range(4):
        recorder.epoch({"epoch": epoch, "time": 1.0})
    recorder.close(complete=True)
    warnings = [text for text in said if text.startswith("warning")]
    assert warnings == ["warning: List failed, nothing more is sent to it: ConnectionError: no route"]
    assert [call[0] for call in failing.calls] == ["start", "scalars"]
    assert [call[0] for call in good.calls] == ["start", *["scalars"] * 4, "finish"]
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 5


@pytest.mark.slow
def test_a_slow_one_is_not_waited_for(tmp_path):
    sign, said = threading.Event(), []
    logger = ListLogger(waits_for=sign)
    loggers = LoggerDelivery([logger], LoggedRun(folder=tmp_path, settings={}), said.append)
    for epoch in range(100):
        loggers.epoch({"epoch": epoch})
    loggers.close(complete=True, patience=0.2)
    assert logger.calls == [("start", tmp_path.name)], "it still waits for the sign"
    sign.set()
    assert any("List takes too long" in text for text in said)
