"""Synthetic moving scenes: the same every time, a truth that describes the pixels, and events worth tracking."""

import cv2
import numpy as np
import pytest

from yolofast import score_tracks
from yolofast.dataset.shapes.moving import MovingScene, frame_times
from yolofast.dataset.shapes.outline import NAMES
from yolofast.track.formats.sequences_yaml import read_sequences_yaml
from yolofast.track.formats.shapes_video import ShapesVideo, make_shapes_video

SMALL = ShapesVideo(sequences=2, frames=5, width=160, height=120, seed=3)


def made(folder, **changes):
    request = ShapesVideo(**{**SMALL.__dict__, **changes})
    return read_sequences_yaml(make_shapes_video(folder, request))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return made(tmp_path_factory.mktemp("made") / "small")


def test_the_files_are_those_of_a_benchmark(found):
    assert list(found.names.values()) == list(NAMES)
    for one in found.sequences:
        truth = one.read_truth()
        assert (truth.length, truth.frame_rate, truth.width, truth.height) == (5, 30, 160, 120)
        assert sorted(path.name for path in one.source.iterdir()) == [f"{frame:06d}.jpg" for frame in range(1, 6)]
        assert cv2.imread(str(one.source / "000005.jpg")).shape == (120, 160, 3)
        assert one.times() is None


def test_perfect_results_score_one(found, tmp_path):
    for one in found.sequences:
        rows = np.loadtxt(one.truth, delimiter=",")
        rows = rows[rows[:, 6] == 1]
        np.savetxt(tmp_path / f"{one.name}.txt", np.c_[rows[:, :6], rows[:, 6], rows[:, 7]], delimiter=",", fmt="%g")
    assert score_tracks(found.path.parent, tmp_path).combined["HOTA"] == pytest.approx(1)


def test_the_same_request_gives_the_same_files_and_fewer_frames_their_beginning(found, tmp_path):
    def content(of):
        return {
            path.relative_to(of).as_posix(): path.read_bytes() for path in sorted(of.rglob("*.*")) if path.is_file()
        }

    assert content(made(tmp_path / "again").path.parent) == content(found.path.parent)
    fewer = made(tmp_path / "fewer", sequences=1, frames=2).sequences[0]
    whole = found.sequences[0].read_truth()
    assert fewer.read_truth().box.tolist() == whole.box[whole.frame <= 2].tolist()


def test_the_same_motion_at_another_rate_and_with_frames_missing(found, tmp_path):
    slow = made(tmp_path / "slow", sequences=1, fps=7.5, frames=2).sequences[0].read_truth()
    fast = found.sequences[0].read_truth()
    assert slow.box[slow.frame == 2].tolist() == fast.box[fast.frame == 5].tolist()  # both after 4/30 s
    uneven = made(tmp_path / "uneven", sequences=1, drop=0.5, frames=20).sequences[0]
    times = uneven.times()
    ticks = np.rint(times * 30).astype(int)
    assert len(times) == 20 and ticks[0] == 0 and 30 < ticks[-1] < 60
    scene = MovingScene(3, 0, 160, 120, 6)
    truth = uneven.read_truth()
    _, shapes = scene.frame(ticks[-1] / 30)
    assert [shape.id for shape in shapes] == truth.id[truth.frame == 20].tolist()
    np.testing.assert_array_equal(frame_times(3, 0, 9, 30.0, 0.0), np.arange(9) / 30)


def test_the_camera_shakes_as_far_as_it_may(tmp_path):
    still, shaken = MovingScene(3, 0, 160, 120, 6), MovingScene(3, 0, 160, 120, 6, shake=4)
    moved = set()
    for tick in range(40):
        pairs = zip(still.frame(tick / 10)[1], shaken.frame(tick / 10)[1], strict=False)
        moved |= {
            tuple(np.subtract(one.box[:2], other.box[:2]).tolist())
            for one, other in pairs
            if (one.id, one.box[2:], one.visibility) == (other.id, other.box[2:], other.visibility)
        }
    offsets = np.array(sorted(moved))
    assert np.abs(offsets).max() in (3, 4) and len(offsets) > 10


@pytest.mark.slow
def test_shapes_hide_leave_and_return():
    """What makes tracking hard happens in every ten seconds."""
    for number in range(3):
        scene = MovingScene(0, number, 320, 240, 6)
        seen = np.zeros((100, 7), bool)
        clear = np.zeros((100, 7))
        for tick in range(100):
            for shape in scene.frame(tick / 10)[1]:
                seen[tick, shape.id], clear[tick, shape.id] = True, shape.visibility
                left, top, width, height = shape.box
                assert min(left, top) >= 0 and left + width <= 320 and top + height <= 240
                assert 0 < shape.visibility <= 1
        gone = ~seen[:, 1:]
        returned = (gone[:-1] & seen[1:, 1:]).sum()
        half_hidden = ((clear[:, 1:] > 0.3) & (clear[:, 1:] < 0.7)).any(0).sum()
        assert returned >= 2 and half_hidden >= 4, f"scene {number}"


def test_boxes_are_where_the_picture_changes():
    """With one shape fewer, pixels differ inside its box only."""
    with_it, without = MovingScene(5, 1, 160, 120, 4), MovingScene(5, 1, 160, 120, 3)
    for seconds in (0.0, 1.7, 4.1):
        image, shapes = with_it.frame(seconds)
        other, _ = without.frame(seconds)
        changed = (image != other).any(2)
        box = next((shape.box for shape in shapes if shape.id == 4), None)
        if box is None:
            assert not changed.any()
        else:
            rows, columns = np.nonzero(changed)
            left, top, width, height = box
            assert columns.min() >= left - 1 and columns.max() <= left + width
            assert rows.min() >= top - 1 and rows.max() <= top + height


def test_videos_hold_the_same_frames(found, tmp_path):
    filmed = made(tmp_path / "filmed", sequences=1, video=True)
    one = filmed.sequences[0]
    assert one.source == filmed.path.parent / "SHAPES-01.mp4"
    capture = cv2.VideoCapture(str(one.source))
    images = [capture.read()[1] for _ in range(5)]
    assert not capture.read()[0]
    still = cv2.imread(str(found.sequences[0].source / "000005.jpg"))
    assert np.abs(images[4].astype(int) - still).mean() < 12
    assert one.read_truth().box.tolist() == found.sequences[0].read_truth().box.tolist()
