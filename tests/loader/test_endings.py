"""However a run ends, neither processes nor memory stay behind."""

import errno
import gc
import os
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest

from tests.loader.small_set import made_up_loader
from tests.patience import PATIENCE, wait_until
from tests.programs import Program, run
from yolofast.errors import UserError

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
MODES = pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])


@pytest.fixture(autouse=True)
def _no_hang():
    """A test that waits for ever is ended with an exception rather than with the patience of whoever runs it."""

    def give_up(number, frame):
        raise TimeoutError("the loader hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(PATIENCE))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def is_gone(process):
    try:
        return psutil.Process(process).status() == "zombie"
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(processes):
    wait_until(lambda: all(map(is_gone, processes)))


@pytest.fixture
def started():
    """Starts programs; those that a failed test leaves behind would run for ever."""
    programs = []

    def start(mode, *words):
        command = [sys.executable, "-m", "tests.loader.endless_run", mode, *words]
        program = Program(
            command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        programs.append(program)
        return program

    yield start
    for program in programs:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)


def workers_of(program):
    return [int(word) for word in program.stdout.readline().split()]


@pytest.mark.parametrize(
    ("mode", "number"),
    [("plain", signal.SIGINT), ("fast", signal.SIGINT), ("plain", signal.SIGHUP), ("fast", signal.SIGTERM)],
)
def test_ctrl_c_ends_everything_without_a_word_from_workers(mode, number, started):
    program = started(mode)
    workers = workers_of(program)
    assert len(workers) == 2
    os.killpg(program.pid, number)
    _, errors = program.communicate(timeout=PATIENCE)
    assert program.returncode == 128 + number
    assert errors == ""
    wait_until_gone(workers)


def test_ctrl_c_while_workers_start_is_heard_and_leaves_no_traceback():
    command = [sys.executable, "-m", "tests.loader.interrupted_fork"]
    done = run(command, cwd=PROJECT, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_workers_are_ended_leaves_none(monkeypatch):
    loader = made_up_loader(workers=2, fast=True)
    next(loader.epoch(0))
    workers, terminate, pressed = loader.processes(), BaseProcess.terminate, []

    def interrupted(process):
        if not pressed:  # once: a second one could come when nobody expects it any more
            pressed.append(process)
            signal.raise_signal(signal.SIGINT)
        terminate(process)

    with monkeypatch.context() as patch:
        patch.setattr(BaseProcess, "terminate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loader.close()
    del loader  # what is left of it ends here, where nobody interrupts
    wait_until_gone(workers)


@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_workers_end_when_the_training_process_is_killed(mode, started):
    program = started(mode)
    workers = workers_of(program)
    program.kill()
    program.communicate(timeout=PATIENCE)
    wait_until_gone(workers)


def test_a_program_that_just_ends_leaves_nothing(started):
    program = started("fast", "stop-early")
    workers = workers_of(program)
    _, errors = program.communicate(timeout=PATIENCE)
    assert (program.returncode, errors) == (0, "")
    wait_until_gone(workers)


@MODES
def test_a_killed_worker_is_reported(fast):
    loader = made_up_loader(images=400, workers=2, fast=fast)
    batches = loader.epoch(0)
    next(batches)
    workers = loader.processes()
    os.kill(workers[1], signal.SIGKILL)
    with pytest.raises(UserError) as caught:
        list(batches)
    message = str(caught.value)
    assert f"data worker 1 (process {workers[1]})" in message and "SIGKILL" in message
    assert "memory" in message and "--workers" in message
    wait_until_gone(workers)
    assert not loader.processes()
    next(loader.epoch(0))  # begins with new workers
    loader.close()


def test_another_signal_is_not_blamed_on_memory():
    with made_up_loader(images=400, workers=1, fast=True) as loader:
        batches = loader.epoch(0)
        os.kill(loader.processes()[0], signal.SIGUSR2)
        with pytest.raises(UserError, match=r"ended by SIGUSR2\n  fix: .*--workers 0"):
            list(batches)


def test_workers_that_cannot_be_started_are_reported(monkeypatch):
    fork = os.fork
    forks = []

    def fork_once():
        if forks:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        forks.append(fork())
        return forks[0]

    monkeypatch.setattr(os, "fork", fork_once)
    with pytest.raises(UserError, match="data worker 1 could not be started: Resource temporarily unavailable"):
        made_up_loader(workers=2).epoch(0)
    wait_until_gone(forks)


def test_workers_killed_between_epochs_are_reported():
    with made_up_loader(workers=1, fast=True) as loader:
        list(loader.epoch(0))
        os.kill(loader.processes()[0], signal.SIGKILL)
        with pytest.raises(UserError, match="data worker 0"):
            list(loader.epoch(1))


@MODES
def test_closing_ends_workers_at_once_even_in_the_middle_of_an_epoch(fast):
    loader = made_up_loader(workers=2, fast=fast)
    batch = next(loader.epoch(0))
    kept = batch.images.clone()
    workers = loader.processes()
    loader.close()
    wait_until_gone(workers)
    assert (batch.images == kept).all(), "what the caller holds stays readable"
    loader.close()


@MODES
def test_a_forgotten_loader_cleans_up(fast):
    loader = made_up_loader(workers=2, fast=fast)
    batches = loader.epoch(0)
    next(batches)
    workers = loader.processes()
    del loader, batches
    gc.collect()
    wait_until_gone(workers)


def test_plain_workers_end_with_their_epoch():
    loader = made_up_loader(workers=2)
    batches = loader.epoch(0)
    workers = loader.processes()
    list(batches)
    wait_until_gone(workers)
    assert not loader.processes()


def test_persistent_workers_survive_epochs():
    with made_up_loader(workers=2, persistent=True) as loader:
        list(loader.epoch(0))
        workers = loader.processes()
        assert len(workers) == 2 and not any(map(is_gone, workers)), "the epoch is over, they are not"
        list(loader.epoch(1))
        assert loader.processes() == workers and not any(map(is_gone, workers))


def test_workers_that_see_old_memory_are_renewed():
    with made_up_loader(workers=2, persistent=True) as loader:
        list(loader.epoch(0))
        workers = loader.processes()
        loader.renew_workers()
        list(loader.epoch(1))
        renewed = loader.processes()
        assert not set(renewed) & set(workers)
        list(loader.epoch(2))
        assert loader.processes() == renewed
    wait_until_gone(workers)


@MODES
def test_nothing_lies_in_dev_shm(fast):
    with made_up_loader(workers=2, fast=fast) as loader:
        batches = loader.epoch(0)
        held = next(batches)
        for process in [os.getpid(), *loader.processes()]:
            mapped = Path(f"/proc/{process}/maps").read_text().replace("/dev/shm/sem.", "")  # locks of other tests
            assert "/dev/shm" not in mapped
        assert "memfd:yolofast" in Path("/proc/self/maps").read_text()
        assert len(held.images) == 8


def test_files_are_closed():
    def run():
        with made_up_loader(workers=2) as loader:
            list(loader.epoch(0))
            next(loader.epoch(1))

    run()
    gc.collect()
    before = psutil.Process().num_fds()
    for _ in range(3):
        run()
    gc.collect()
    assert psutil.Process().num_fds() == before
