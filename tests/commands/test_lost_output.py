"""A run whose output nobody can read any more continues: its folder is what it is for."""

import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE
from tests.programs import Program, run
from tests.train.small_run import flags
from yolofast.interrupts import EXIT_INTERRUPTED

pytestmark = pytest.mark.slow

EPOCHS = 1


def train(folder, epochs=EPOCHS):
    return [sys.executable, "-m", "yolofast", "train", *flags(folder, epochs=epochs, name="run")]


@pytest.fixture
def command(tmp_path):
    return train(tmp_path)


def assert_whole(run):
    assert len((run / "results.csv").read_text().splitlines()) == 1 + EPOCHS
    assert (run / "report.html").exists() and (run / "summary.json").exists()
    assert not (run / "interrupted.json").exists()


def read_until_it_runs(process):
    """As `| head` would, which then ends."""
    for line in process.stdout:
        if line.startswith("run: "):
            break
    process.stdout.close()


def test_a_reader_that_ends_does_not_end_the_run(tmp_path, command):
    process = Program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    read_until_it_runs(process)
    said, code = process.stderr.read(), process.wait(timeout=PATIENCE)
    results = tmp_path / "runs" / "run" / "results.csv"
    assert said == f"yolofast: standard output was closed, which does not stop a run: see {results}\n"
    assert code == 0
    assert_whole(tmp_path / "runs" / "run")


def test_nor_one_of_both_outputs(tmp_path, command):
    process = Program(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    read_until_it_runs(process)
    assert process.wait(timeout=PATIENCE) == 0
    assert_whole(tmp_path / "runs" / "run")


def test_nor_a_log_on_a_full_disk(tmp_path, command):
    with open("/dev/full", "w") as full:
        done = run(command, stdout=full, timeout=PATIENCE)
    why = "cannot be written (No space left on device)"
    assert done.stderr == f"yolofast: standard output {why}, which does not stop a run: see results.csv in its folder\n"
    assert done.returncode == 0
    assert_whole(tmp_path / "runs" / "run")


def test_an_interrupt_is_then_reported_on_standard_error(tmp_path):
    """`| tee`: Ctrl+C ends both, and what to type next would be lost."""
    run = tmp_path / "runs" / "run"
    process = Program(train(tmp_path, 1000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        read_until_it_runs(process)
        assert "was closed" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=PATIENCE) == EXIT_INTERRUPTED
    finally:
        process.kill()
    assert said.startswith("interrupted; ") and f"yolofast train --resume {run}" in said
    assert (run / "interrupted.json").exists()
