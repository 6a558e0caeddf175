"""A worker that hangs is named with its image and replaced, once; then the run ends, and can be resumed."""

import io
import os
import signal
import stat
from contextlib import suppress
from multiprocessing import active_children, connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.loader.small_set import made_up_index, made_up_loader, made_up_maker, random_sizes
from tests.loader.test_endings import _no_hang, is_gone, wait_until_gone  # noqa: F401
from tests.train.small_run import flags, state_of
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.files import budget
from yolofast.loader import pool
from yolofast.loader.pool import WorkerPool
from yolofast.train.record import Recorder

pytestmark = pytest.mark.slow
SECONDS = 3
LOOK = 0.02
"""Of these tests' own time, how long the pool waits instead of a tenth of those seconds."""


def is_stopped(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


class Clock:
    """Of a pool: time passes while one of its workers hangs, and only then. On a busy machine others are slow."""

    def __init__(self):
        self.hangs, self.now = is_stopped, 0.0

    def monotonic(self):
        return self.now

    def wait(self, connections, timeout):
        hung = any(self.hangs(worker.pid) for worker in active_children())
        ready = connection.wait(connections, timeout=LOOK)
        if hung and not ready:
            self.now += timeout
        return ready


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pool, "_PATIENCE_S", 0.2)  # with stopped ones that are asked to end, and cannot
    monkeypatch.setattr(pool, "wait", clock.wait)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


class Stopping:
    """Images of which one stops the worker that reads it, as often as told."""

    def __init__(self, images, image, marks, times):
        self._images, self.sizes = images, images.sizes
        self._image, self._marks, self._times = image, marks, times

    def image(self, index):
        if index == self._image and self._is_to_stop():
            os.kill(os.getpid(), signal.SIGSTOP)
        return self._images.image(index)

    def _is_to_stop(self):
        for number in range(self._times):
            with suppress(FileExistsError), (self._marks / str(number)).open("x") as mark:
                mark.write(str(os.getpid()))
                return True
        return False


def stopped_in(marks):
    return [int(mark.read_text()) for mark in marks.iterdir()]


def stopping_loader(marks, times, said, **options):
    marks.mkdir()
    maker = made_up_maker()
    maker.images = Stopping(maker.images, 7, marks, times)
    return made_up_loader(maker=maker, timeout=SECONDS, say=said.append, **options)


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])
def test_a_stopped_worker_is_replaced_and_named_with_its_image(tmp_path, fast):
    expected = [(b.images.clone(), b.targets.boxes.clone()) for b in made_up_loader().epoch(0)]
    said = []
    with stopping_loader(tmp_path / "marks", 1, said, workers=2, fast=fast) as loader:
        found = [(b.images.clone(), b.targets.boxes.clone()) for b in loader.epoch(0)]
    (stopped,) = stopped_in(tmp_path / "marks")
    name = made_up_index(random_sizes(20)).path(7)
    words = f"(process {stopped}) was stuck for {SECONDS} s at {name}; another one makes its batches"
    assert any(words in line for line in said)
    assert all((a == b).all() for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True))
    assert is_gone(stopped)


def test_one_that_hangs_again_ends_the_run(tmp_path):
    said = []
    loader = stopping_loader(tmp_path / "marks", 100, said, workers=2)
    with pytest.raises(UserError) as caught:
        list(loader.epoch(0))
    name = made_up_index(random_sizes(20)).path(7)
    assert f"stuck for {SECONDS} s at {name}, and so was the one before it" in caught.value.what
    assert "--resume" in caught.value.fix
    wait_until_gone(stopped_in(tmp_path / "marks"))
    assert not loader.processes()


@pytest.mark.parametrize("persistent", [False, True], ids=["new workers", "the same workers"])
def test_one_that_hangs_again_in_a_later_epoch_ends_the_run(tmp_path, persistent):
    """Else a run whose workers hang once in every batch would go on without end, and at no pace."""
    marks, said = tmp_path / "marks", []
    loader = stopping_loader(marks, 1, said, workers=1, persistent=persistent)
    assert len(list(loader.epoch(0))) == 3 and len(said) == 1
    (marks / "0").unlink()
    with pytest.raises(UserError, match="and so was the one before it"):
        list(loader.epoch(1))
    assert len(said) == 1
    wait_until_gone(stopped_in(marks))


def test_half_of_an_answer(tmp_path):
    """A worker that is stopped while it sends: its parent has begun to read, and must not wait for the rest."""
    first = tmp_path / "first"

    def work(task, beat):
        if not first.exists():
            first.touch()

            def send_half(own, buffer):
                os.write(own._handle, bytes(buffer)[:3])
                os.kill(os.getpid(), signal.SIGSTOP)

            connection.Connection._send = send_half
        return task * 2, None

    said = []
    workers = WorkerPool(1, work, timeout=0.2, say=said.append)  # of the clock on the wall: what is read is late
    workers.submit(21)
    assert workers.collect() == (42, None)
    assert len(said) == 1 and "at its start; another one" in said[0]
    workers.close()


def test_time_in_which_the_parent_was_stopped_too_does_not_count(monkeypatch):
    """After Ctrl+Z and `fg` its clock has jumped; the workers get their time all the same."""
    jumps = iter(range(0, 10**9, 10_000))
    workers = WorkerPool(1, lambda task, beat: (task, None), timeout=100)
    with monkeypatch.context() as patch:
        patch.setattr(pool.time, "monotonic", lambda: next(jumps))
        patch.setattr(pool, "wait", lambda connections, timeout: [])
        workers.submit(5)
        for _ in range(15):
            workers._receive()
        assert workers._workers[0].silent == pytest.approx(75)
    assert workers.collect() == (5, None)
    workers.close()


def test_a_drive_that_does_not_answer_ends_a_run_that_can_be_resumed(tmp_path, monkeypatch, capfd, clock):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    images, epoch = tmp_path / "shapes" / "images" / "train", Recorder.epoch

    def pull_the_plug(recorder, row):
        epoch(recorder, row)
        first = min(images.iterdir())
        first.unlink()
        os.mkfifo(first)  # whoever opens it waits for a writer

    def open_anything(path):  # the package's own refuses a pipe at once
        if stat.S_ISFIFO(os.stat(path).st_mode):
            (tmp_path / f"waits_{os.getpid()}").touch()
        return io.FileIO(path)

    monkeypatch.setattr(Recorder, "epoch", pull_the_plug)
    monkeypatch.setattr(budget, "open_regular", open_anything)
    clock.hangs = lambda pid: (tmp_path / f"waits_{pid}").exists()
    how = flags(tmp_path, workers=1, worker_timeout=SECONDS)
    assert main(["train", *how]) == 2
    out, errors = capfd.readouterr()
    assert f"s at {min(images.iterdir())}; another one makes its batches" in out.replace("\n", "")
    assert "and so was the one before it" in errors and "--resume" in errors
    assert state_of(tmp_path)["next_epoch"] == 1
