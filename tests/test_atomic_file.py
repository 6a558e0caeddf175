"""Files that are written whole: on a disk without room, where links are planted, and after a kill."""

import os
import resource
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from tests.store.made_up import index_of, some_pictures
from yolofast.checkpoint.save import model_content, save_checkpoint, strip_checkpoint
from yolofast.errors import UserError
from yolofast.exit_codes import call
from yolofast.files.atomic_file import name_beside, remove_abandoned, write_whole
from yolofast.media.frames import Video
from yolofast.media.video_writer import VideoWriters
from yolofast.runs.folder import RunLock, new_run_folder
from yolofast.store.fitted import Fit
from yolofast.store.packing import PackJob, pack
from yolofast.track.nuscenes.coco_file import CocoFile
from yolofast.track.result_files import ResultFile
from yolofast.train.batch_record import EpochRowsFile
from yolofast.train.checkpoints import same_file_as


@contextmanager
def no_room():
    """A full disk, as far as this process can tell: files may not grow beyond a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_was_there_stays_and_the_error_names_the_file(tmp_path):
    path = tmp_path / "results.csv"
    write_whole(path, b"earlier")
    with no_room(), pytest.raises(OSError, match="too large") as caught:
        write_whole(path, bytes(1000))
    assert caught.value.filename == str(path) and path.read_bytes() == b"earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]


def test_a_command_says_which_file_and_how_to_continue(tmp_path, capfd):
    path = tmp_path / "batches.csv"
    rows = EpochRowsFile(path, ("epoch", "text"), 0)
    with no_room():
        code = call(lambda: rows.append([(0, "x" * 1000)]))
    said = capfd.readouterr().err
    assert code == 2
    assert said.startswith(f"yolofast: error: {path}: File too large\n  fix: make room") and "--resume" in said


def test_a_temporary_name_cannot_be_planted(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    monkeypatch.setattr("secrets.token_hex", lambda count: "guessed")
    for name in ("results.csv", "last.pt"):
        name_beside(tmp_path / name).symlink_to(other)
    with pytest.raises(OSError, match="File exists"):
        write_whole(tmp_path / "results.csv", b"new")
    with pytest.raises(UserError, match="File exists"):
        save_checkpoint(tmp_path / "last.pt", {"epoch": 1})
    assert other.read_bytes() == b"precious"


def test_no_file_of_a_tracked_video_is_written_through_a_link(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    monkeypatch.setattr("secrets.token_hex", lambda count: "guessed")
    for name in (".long.mp4.part", ".long.txt.part", ".long.part.mp4"):  # as they once were
        (tmp_path / name).symlink_to(other)
    name_beside(tmp_path / "long.mp4", ".mp4").symlink_to(other)
    name_beside(tmp_path / "long.txt").symlink_to(other)
    with pytest.raises(UserError, match="File exists"):
        VideoWriters().write(tmp_path / "long.mp4", np.zeros((64, 64, 3), np.uint8), Video("long", 30, None))
    with pytest.raises(UserError, match="File exists"):
        ResultFile(tmp_path / "long.txt")
    with pytest.raises(OSError, match="File exists"):
        CocoFile(tmp_path / "long.txt", ["a"])
    assert other.read_bytes() == b"precious"


def test_no_file_of_a_store_is_written_through_a_link(tmp_path):
    index = index_of(some_pictures(tmp_path / "images", 2))
    other, stores = tmp_path / "other", tmp_path / "stores"
    stores.mkdir()
    name = PackJob(index, Fit(32, 32, augmented=True), "pixels", stores).name
    for ending in ("lock", "partial", "journal"):
        link = stores / f"{name}.{ending}"
        link.symlink_to(other)
        with pytest.raises(UserError, match="the store could not be written: Too many levels of symbolic links"):
            pack(index, 32, 32, stores)
        assert not other.exists()
        link.unlink()
    assert len(pack(index, 32, 32, stores)) == 2


def test_what_a_killed_process_left_of_a_video_goes(tmp_path):
    nobody = 2**30
    left = [tmp_path / f".a.mp4.{nobody}-0a1b.tmp.mp4", tmp_path / f".a.txt.{nobody}-0a1b.tmp"]
    for path in left:
        path.touch()
    ResultFile(tmp_path / "a.txt").close()
    writers = VideoWriters()
    writers.write(tmp_path / "a.mp4", np.zeros((64, 64, 3), np.uint8), Video("long", 30, None))
    writers.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "a.txt"]


def test_names_beside_differ(tmp_path):
    assert name_beside(tmp_path / "a") != name_beside(tmp_path / "a")


def test_a_copy_of_a_checkpoint_is_not_written_through_a_link(tmp_path, monkeypatch):
    def no_links(*arguments):
        raise PermissionError

    (tmp_path / "fresh.pt").write_bytes(b"weights")
    monkeypatch.setattr(os, "link", no_links)
    same_file_as(tmp_path / "fresh.pt", tmp_path / "best.pt")
    assert (tmp_path / "best.pt").read_bytes() == b"weights"
    monkeypatch.setattr("secrets.token_hex", lambda count: "guessed")
    name_beside(tmp_path / "best.pt").symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="File exists"):
        same_file_as(tmp_path / "fresh.pt", tmp_path / "best.pt")
    assert not (tmp_path / "other").exists()


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    dead, own = 2**22 + 1, os.getpid()
    left = [f".report.html.{dead}-1f2e.tmp", f".env.json.{dead}-140737.tmp", f".best.pt.{dead}.tmp"]
    kept = [f".report.html.{own}-1f2e.tmp", ".notes.tmp", "report.html", f"x.{dead}.tmp"]
    for name in (*left, *kept):
        (tmp_path / name).touch()
    remove_abandoned(tmp_path, "best.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*left[:2], *kept])
    with RunLock() as lock:
        lock.take(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_strip_removes_what_a_killed_one_left(tmp_path):
    save_checkpoint(tmp_path / "best.pt", model_content(torch.nn.Conv2d(1, 1, 1)))
    (tmp_path / f".best.pt.{2**22 + 1}-ab12.tmp").touch()
    strip_checkpoint(tmp_path / "best.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["best.pt"]


def test_a_run_removes_the_folder_that_a_killed_one_had_begun(tmp_path):
    """Of its name; that of a process which lives, and those of others, stay."""
    gone, own = 2**22 + 1, os.getpid()
    dead, kept = f".run.{gone}-1f2e.tmp", [f".run.{own}-1f2e.tmp", f".other.{gone}-1f2e.tmp", ".run.tmp"]
    for name in (dead, *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "args.yaml").touch()
    new_run_folder(tmp_path, "run", files={"args.yaml": b""})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "run"])
