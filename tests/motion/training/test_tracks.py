"""Sequences become packed tracks."""

import numpy as np
import pytest

from tests.motion.training.sequences import write_motion_data
from yolofast.errors import UserError
from yolofast.motion.training.tracks import jittered, read_split, read_tracks


def test_boxes_are_shares_of_the_image_track_after_track(tmp_path):
    tracks = read_tracks(write_motion_data(tmp_path, length=9), faithful=False)
    assert tracks.starts.tolist() == [0, 9, 18, 27, 36] and tracks.frames[:9].tolist() == list(range(1, 10))
    assert tracks.boxes[0] == pytest.approx([66 / 640, 81 / 480, 30 / 640, 60 / 480])
    assert tracks.seconds[9:18] == pytest.approx(np.arange(9) / 30), "since the track began"


def test_what_counts(tmp_path):
    """As published only marked boxes of class 1; otherwise every marked box."""
    labels, marks = np.repeat([1, 2], 9), np.arange(18) != 3
    path = write_motion_data(tmp_path, ["A"], length=9, label=labels, mark=marks)
    assert len(read_tracks(path, faithful=False).boxes) == 17
    faithful = read_tracks(path, faithful=True)
    assert faithful.frames.tolist() == [1, 2, 3, 5, 6, 7, 8, 9]
    assert np.array_equal(faithful.boxes, faithful.boxes.astype(np.float64).round(6).astype(np.float32))
    with pytest.raises(UserError, match=r"no marked boxes of class 1 \(thing\)") as caught:
        read_tracks(write_motion_data(tmp_path / "other", ["A"], length=9, label=labels + 1), faithful=True)
    assert "omit --faithful" in caught.value.fix
    about = read_split(path, None, faithful=True).about
    assert about.startswith("class 1 (thing) alone counts, "), "which may be no pedestrian"
    assert "class 1" not in read_split(path, None, faithful=False).about


def test_times_of_frames_count(tmp_path):
    path = write_motion_data(tmp_path, ["A"], length=3, tracks=1)
    (tmp_path / "A" / "times.txt").write_text("5\n5.5\n7\n")
    assert read_tracks(path, faithful=False).seconds.tolist() == [0, 0.5, 2]


@pytest.mark.parametrize("width", [None, 0])
def test_the_size_of_images_is_needed(tmp_path, width):
    with pytest.raises(UserError, match="the size of its images is not known") as caught:
        read_tracks(write_motion_data(tmp_path, ["A"], width=width), faithful=False)
    assert "imWidth" in caught.value.fix and caught.value.where == str(tmp_path / "A")


@pytest.mark.parametrize(
    ("names", "held", "words"),
    [
        ("AB", 1, "validated on B, which is not"),
        ("ABCDEFGHIJKLMNOPQRST", 2, "J, T, which are"),
        ("A", 1, "there is one sequence"),
    ],
)
def test_some_sequences_are_held_out(tmp_path, names, held, words):
    split = read_split(write_motion_data(tmp_path, list(names), length=8, tracks=1), None, faithful=False)
    assert len(split.val.starts) - 1 == held and words in split.about
    assert len(split.train.starts) - 1 == max(len(names) - held, 1)


def test_others_can_be_named(tmp_path):
    path, other = (write_motion_data(tmp_path / name, length=8) for name in ("one", "other"))
    split = read_split(path, other, faithful=False)
    assert len(split.train.starts) == len(split.val.starts) == 5 and str(other) in split.about


def test_seen_boxes_are_off(tmp_path):
    tracks = read_tracks(write_motion_data(tmp_path, length=200), faithful=False)
    seen = jittered(tracks, 0.1, seed=1)
    off = (seen.boxes - tracks.boxes)[:, :2] / tracks.boxes[:, 2:]
    assert off.std() == pytest.approx(0.1, rel=0.1) and np.array_equal(seen.boxes, jittered(tracks, 0.1, 1).boxes)
