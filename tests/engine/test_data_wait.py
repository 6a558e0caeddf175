"""What counts as waiting for data where the host computes; what a GPU makes of it is in `tests/gpu`."""

import csv
import time

import pytest

from tests.engine.small_run import flags
from yolofast.cli import main
from yolofast.engine.data_wait import DataWait
from yolofast.engine.profile_clock import HostClock
from yolofast.loader.workers import WorkerLoader


class LateClock(HostClock):
    """Of a device that is behind."""

    past = False

    def is_past(self, moment):
        return self.past


def test_only_asking_for_batches_counts():
    wait = DataWait(HostClock())
    for _ in range(3):
        with wait.timed():
            time.sleep(0.02)
        time.sleep(0.05)
    assert 0.06 <= wait.seconds < 0.15
    assert wait.seconds == wait.seconds, "each is counted once"


def test_a_wait_is_known_when_the_device_has_got_there():
    wait = DataWait(clock := LateClock())
    with wait.timed():
        time.sleep(0.02)
    assert wait.seconds == 0
    clock.past = True
    assert wait.seconds == pytest.approx(0.02, abs=0.015)


@pytest.mark.usefixtures("one_thread")
def test_the_column_of_a_run_whose_batches_come_late(tmp_path, monkeypatch):
    epoch = WorkerLoader.epoch

    def late(self, number):
        for batch in epoch(self, number):
            time.sleep(0.2)
            yield batch

    monkeypatch.setattr(WorkerLoader, "epoch", late)
    assert main(["train", *flags(tmp_path, epochs=1), "--notest"]) == 0
    (row,) = csv.DictReader((tmp_path / "runs" / "exp" / "results.csv").open(), skipinitialspace=True)
    assert 0.6 / float(row["time"]) <= float(row["data_wait"]) < 1, "three batches"
