"""A folder is one process's at a time; others are told whose."""

import errno
import fcntl
import json
import os
import platform
import signal

import psutil
import pytest

from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_BAD_INPUT
from yolofast.files.lock import FolderLock
from yolofast.runs.folder import new_run_folder
from yolofast.runs.layout import FILES

NAME = FILES.lock
NO_PROCESS = 2**22 + 1
"""More than Linux counts to."""


def said_by(pid, host=None, started=1.0):
    return " " + json.dumps({"pid": pid, "host": host or platform.node(), "started": started})


@pytest.fixture
def without_locks(monkeypatch):
    def none(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)


def test_one_at_a_time_in_a_process_too(tmp_path):
    with FolderLock(NAME) as lock, FolderLock(NAME) as other:
        lock.take(tmp_path)
        lock.take(tmp_path)
        with pytest.raises(UserError, match=f"trained by process {os.getpid()} on {platform.node()}"):
            other.take(tmp_path)
    assert not list(tmp_path.iterdir())
    with FolderLock(NAME) as lock:
        lock.take(tmp_path)
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()


@pytest.mark.slow
def test_other_processes_are_told_whose_it_is_until_that_one_dies(tmp_path):
    """Its workers, which outlive it for a moment, do not hold it."""
    told, tell = os.pipe()
    waits, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = FolderLock(NAME)  # as long as it is named
            held.take(tmp_path)
            os.close(go)
            os.fork()
            os.write(tell, b".")
            os.read(waits, 1)  # until `go` is closed
        finally:
            os._exit(9)  # as if killed
    os.close(waits)
    assert os.read(told, 1) and os.read(told, 1)
    with FolderLock(NAME) as lock:
        with pytest.raises(UserError, match=f"process {child} on {platform.node()}"):
            lock.take(tmp_path)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert (tmp_path / NAME).exists()
        lock.take(tmp_path)
    for pipe in (told, tell, go):
        os.close(pipe)


@pytest.mark.parametrize("left", ["", "{}", "[" * 900, said_by(NO_PROCESS), said_by(1, "elsewhere")])
def test_what_a_dead_process_left_is_taken_over(tmp_path, left):
    """The system says that nobody holds it, on whichever machine."""
    (tmp_path / NAME).write_text(left)
    with FolderLock(NAME) as lock:
        lock.take(tmp_path)
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()


def test_without_locks_a_dead_process_is_known_by_its_number(tmp_path, without_locks):
    own = psutil.Process(os.getppid())
    for left in (said_by(NO_PROCESS), said_by(own.pid, started=own.create_time() - 100), "?"):
        (tmp_path / NAME).write_text(left)
        with FolderLock(NAME) as lock:
            lock.take(tmp_path)
    for left in (said_by(own.pid, started=own.create_time()), said_by(NO_PROCESS, "elsewhere")):
        (tmp_path / NAME).write_text(left)
        with pytest.raises(UserError, match=r"(?s)on .*if it is gone for sure, delete .*\.run\.lock"):
            FolderLock(NAME).take(tmp_path)
        assert (tmp_path / NAME).read_text() == left


def test_a_planted_link_is_not_written_through(tmp_path):
    (tmp_path / "other").write_text("precious")
    (tmp_path / NAME).symlink_to(tmp_path / "other")
    with FolderLock(NAME) as lock:
        lock.take(tmp_path)
    assert (tmp_path / "other").read_text() == "precious"


COMMANDS = {
    "resume": ["train", "--resume", "{run}"],
    "exist-ok": ["train", "--project", "{project}", "--name", "run", "--exist-ok"],
    "motion": ["motion", "train", "--resume", "{run}"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_run_that_is_being_trained_is_refused_and_left_alone(tmp_path, capsys, words):
    run = tmp_path / "run"
    run.mkdir()
    (run / FILES.settings).write_text("epochs: 3\n")
    with FolderLock(NAME) as lock:
        lock.take(run)
        assert main([word.format(run=run, project=tmp_path) for word in words]) == EXIT_BAD_INPUT
        assert f"{run}: the run is being trained by process {os.getpid()}" in capsys.readouterr().err
        assert sorted(path.name for path in run.iterdir()) == [NAME, FILES.settings]
        assert (run / FILES.settings).read_text() == "epochs: 3\n"


@pytest.mark.parametrize("exist_ok", [False, True])
def test_a_folder_is_held_before_an_earlier_run_is_changed(tmp_path, exist_ok):
    with FolderLock(NAME) as lock, FolderLock(NAME) as other:
        folder = new_run_folder(tmp_path, "run", exist_ok, {FILES.settings: b"first"}, lock.take)
        with pytest.raises(UserError, match="is being trained"):
            new_run_folder(tmp_path, "run", True, {FILES.settings: b"second"}, other.take)
        assert (folder / FILES.settings).read_text() == "first"
        assert new_run_folder(tmp_path, "run", False, {FILES.settings: b"second"}, other.take).name == "run2"
