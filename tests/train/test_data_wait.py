"""What counts as waiting for data where the host computes; what a GPU makes of it is in `tests/gpu`."""

import csv
import time

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.loader.workers import WorkerLoader
from yolofast.train.timing import DataWait, HostClock


class LateClock(HostClock):
    """Of a device that is behind."""

    past = False

    def is_past(self, moment):
        return self.past


@pytest.mark.slow
def test_only_asking_for_batches_counts():
    wait, within, around = DataWait(HostClock()), 0.0, 0.0
    for _ in range(3):
        outer = time.perf_counter()
        with wait.timed():
            inner = time.perf_counter()
            time.sleep(0.02)
            within += time.perf_counter() - inner
        around += time.perf_counter() - outer
        time.sleep(0.05)
    assert within <= wait.seconds <= around
    assert wait.seconds == wait.seconds, "each is counted once"


def test_a_wait_is_known_when_the_device_has_got_there():
    wait = DataWait(clock := LateClock())
    begun = time.perf_counter()
    with wait.timed():
        time.sleep(0.02)
    around = time.perf_counter() - begun
    assert wait.seconds == 0
    clock.past = True
    assert 0.02 <= wait.seconds <= around


@pytest.mark.slow
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
