"""TrackSSM as the motion model of trackers: what it is asked, and what becomes of its answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from yolofast import build_tracker
from yolofast.errors import UserError
from yolofast.motion import predictor as predictors
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape
from yolofast.track.pipeline import ExactDetections, Follower, SeenFrame, StageTimes
from yolofast.track.timeline import FramePlace
from yolofast.track.trackers.motion.model import Gaps
from yolofast.track.trackers.motion.trackssm import TrackSSMMotion, foresee_together
from yolofast.track.trackers.tracks import TrackerFrame

SIZE = (1000, 500)


class Spy:
    """Answers that every box moves on as it did last, and remembers what it was asked."""

    def __init__(self, **shape):
        self.shape, self.rows = TrackSSMShape(**shape), []

    def __call__(self, rows):
        self.rows.append(rows.copy())
        return rows[:, -1, :4] + rows[:, -1, 4:8]

    in_octaves = staticmethod(predictors.MotionPredictor.in_octaves)

    def __deepcopy__(self, memo):
        return self


@pytest.fixture
def spy(monkeypatch):
    def install(**shape):
        found = Spy(**shape)
        monkeypatch.setattr(predictors, "predictor", lambda *given, **settings: found)
        return found

    return install


def motion_of() -> TrackSSMMotion:
    return TrackSSMMotion(SimpleNamespace(motion_weights="some.pt", motion_sigmoid=True, motion_device="cpu"))


def frame_at(time: float, elapsed: float = 1.0, size=SIZE) -> TrackerFrame:
    return TrackerFrame(
        np.zeros((0, 4)), np.zeros(0), np.zeros(0, int), False, None, None, elapsed, elapsed, elapsed, time, size
    )


def box_at(*centres: float):
    return np.array([[x - 10, 90.0, x + 10, 110.0] for x in centres])


def played(motion: TrackSSMMotion, *centres: float | None) -> None:
    """A track that is seen there, frame by frame; None where it is missed."""
    for number, x in enumerate(centres):
        motion.predict(frame_at(number / 30), min(number, 1), None)
        if number == 0:
            motion.born(box_at(x), 0)
        elif x is not None:
            motion.correct(np.array([0]), box_at(x))


def test_short_histories_end_with_copies_as_published(spy):
    """The last row is repeated, its change included."""
    asked = spy()
    played(motion_of(), 100, 110, 130, 160)
    assert (asked.rows[0][0, :, 0] * 1000).round().tolist() == [100] * 5 and (asked.rows[0][0, :, 4] == 0).all()
    assert (asked.rows[1][0, :, 0] * 1000).round().tolist() == [100, 110, 110, 110, 110]
    assert (asked.rows[1][0, :, 4] * 1000).round().tolist() == [0, 10, 10, 10, 10]
    assert (asked.rows[2][0, :, 0] * 1000).round().tolist() == [100, 110, 130, 130, 130]


def test_true_padding_begins_with_copies(spy):
    asked = spy(padded_in_front=True)
    played(motion_of(), 100, 110, 130, 160)
    assert (asked.rows[2][0, :, 0] * 1000).round().tolist() == [100, 100, 100, 110, 130]
    assert (asked.rows[2][0, :, 4] * 1000).round().tolist() == [0, 0, 0, 10, 20]


def test_rows_are_shares_of_the_image(spy):
    asked = spy()
    played(motion_of(), 100, 110)
    assert asked.rows[0][0, 0, :4] == pytest.approx([0.1, 0.2, 0.02, 0.04])


def test_lost_tracks_roll_on_and_a_detection_replaces_the_answer(spy):
    asked, motion = spy(), motion_of()
    played(motion, 100, 110, 120, 130, 140, 150, 160, None, None)
    assert motion.boxes()[0, [0, 2]] == pytest.approx([170, 190]), "160, and two steps of 10"
    assert (asked.rows[-1][0, :, 0] * 1000).round().tolist() == [130, 140, 150, 160, 170], "an answer is in the history"
    motion.correct(np.array([0]), box_at(200))
    motion.predict(frame_at(9 / 30), 1, None)
    assert (asked.rows[-1][0, :, 0] * 1000).round().tolist() == [140, 150, 160, 170, 200], "the detection, not 180"


def test_missing_frames_are_predicted_one_by_one(spy):
    asked, motion = spy(), motion_of()
    played(motion, 100, 110, 120)
    motion.predict(frame_at(1.0, elapsed=3.0), 1, None)
    assert len(asked.rows) == 2 + 3 and motion.boxes()[0, 0] == pytest.approx(140)


def test_waiting_ones_stay_and_are_not_asked_for(spy):
    """As published, unconfirmed tracks are not predicted; a match then is a row more, not another."""
    asked, motion = spy(), motion_of()
    played(motion, 100, 110)
    motion.predict(frame_at(2 / 30), 1, np.array([True]))
    assert motion.boxes()[0, 0] == pytest.approx(100) and asked.rows[-1].shape == (0, 5, 8)
    motion.correct(np.array([0]), box_at(120))
    motion.predict(frame_at(3 / 30), 1, None)
    assert (asked.rows[-1][0, :3, 0] * 1000).round().tolist() == [100, 110, 120]


def test_with_true_time_histories_are_what_was_seen(spy):
    asked, motion = spy(timed=True, padded_in_front=True), motion_of()
    played(motion, 100, 110, 120, None, None, None)
    rows = asked.rows[-1][0]
    assert (rows[:, 0] * 1000).round().tolist() == [100, 100, 100, 110, 120]
    assert np.exp2(4 * rows[-1, 8:]) == pytest.approx([1, 3], rel=1e-3), "three frames ago"
    motion.correct(np.array([0]), box_at(150))
    motion.predict(frame_at(6 / 30), 1, None)
    rows = asked.rows[-1][0]
    assert (rows[-2:, 0] * 1000).round().tolist() == [120, 150]
    assert np.exp2(4 * rows[-1, 8:]) == pytest.approx([3, 1], rel=1e-3)


def test_histories_move_with_the_camera(spy):
    asked, motion = spy(), motion_of()
    played(motion, 100, 110, 120, 130, 140, 150)
    motion.warp(np.array([[2.0, 0, 5], [0, 2, 0]]))
    motion.predict(frame_at(0.2), 1, None)
    assert (asked.rows[-1][0, :, 0] * 1000).round().tolist() == [225, 245, 265, 285, 305]
    assert asked.rows[-1][0, 0, 2] == pytest.approx(0.04)


def test_what_is_no_number_leaves_boxes_where_they_were(spy, monkeypatch):
    asked, motion = spy(), motion_of()
    monkeypatch.setattr(Spy, "__call__", lambda self, rows: np.full((len(rows), 4), np.nan, np.float32))
    played(motion, 100, None)
    assert motion.boxes()[0] == pytest.approx([90, 90, 110, 110])
    monkeypatch.setattr(Spy, "__call__", lambda self, rows: np.full((len(rows), 4), -1, np.float32))
    motion.predict(frame_at(1.0), 1, None)
    assert (motion.boxes()[0, 2:] >= motion.boxes()[0, :2]).all() and not asked.rows


def test_the_size_of_images_has_to_be_known(spy):
    spy()
    motion = motion_of()
    with pytest.raises(UserError, match="the size of the images is not known"):  # before anything is tracked
        motion.predict(frame_at(0.0, size=None), 0, None)
    played(motion, 100)
    with pytest.raises(UserError, match="the size of the images is not known"):
        motion.predict(frame_at(1.0, size=None), 1, None)
    with pytest.raises(UserError, match="has motion_weights, but not the motion they are for"):
        build_tracker("bytetrack", motion_weights="best.pt")
    with pytest.raises(UserError, match="there are no weights"):
        build_tracker("bytetrack", motion="trackssm")


def test_published_settings_with_it(spy):
    spy()
    given = {"motion": "trackssm", "motion_weights": "some.pt"}
    faithful, own = (build_tracker("bytetrack", faithful=one, **given).settings for one in (True, False))
    assert (faithful.match_thresh, faithful.mot20, faithful.track_thresh) == (0.8, True, 0.6)
    assert (own.match_thresh, own.mot20) == (0.9, False), "without it nothing else changes"
    assert build_tracker("bytetrack", faithful=True, match_thresh=0.7, **given).settings.match_thresh == 0.7


def test_after_a_gap_ocsort_believes_in_a_straight_line(spy):
    """What was predicted while a track was missed is replaced by the way to where it was found; ByteTrack keeps it."""
    settings = {"motion": "trackssm", "motion_weights": "some.pt"}
    seen = [100, 110, 120, 130, None, None, 190, 210]
    histories = {}
    for name, more in {"ocsort": {"min_hits": 1}, "bytetrack": {}}.items():
        asked, tracker = spy(), build_tracker(name, **settings, **more)
        for x in seen:
            boxes = np.zeros((0, 4)) if x is None else np.array([[x - 60, 20.0, x + 60, 180.0]])
            found = tracker.update(boxes, np.full(len(boxes), 0.9), size=SIZE)
        assert found.ids.tolist() == [1] and np.array_equal(found.boxes, boxes)
        histories[name] = (asked.rows[-1][0, :, 0] * 1000).round().tolist()
    assert histories["ocsort"] == [120, 130, 150, 170, 190]
    assert histories["bytetrack"] == [120, 130, 140, 150, 190]


def test_after_a_long_gap_all_of_a_history_is_on_the_line(spy):
    asked, motion = spy(), motion_of()
    played(motion, 100, 110, *[None] * 8)
    motion.predict(frame_at(10 / 30), 1, None)
    motion.correct(np.array([0]), box_at(200), Gaps(np.array([0]), np.array([9]), np.array([9.0])))
    motion.predict(frame_at(11 / 30), 1, None)
    assert (asked.rows[-1][0, :, 0] * 1000).round().tolist() == [160, 170, 180, 190, 200]
    assert (asked.rows[-1][0, :, 4] * 1000).round().tolist() == [10] * 5


def test_with_true_time_there_is_nothing_to_straighten(spy):
    asked, motion = spy(timed=True, padded_in_front=True), motion_of()
    played(motion, 100, 110, None, None)
    motion.correct(np.array([0]), box_at(170), Gaps(np.array([0]), np.array([3]), np.array([3.0])))
    motion.predict(frame_at(5 / 30), 1, None)
    assert (asked.rows[-1][0, :, 0] * 1000).round().tolist() == [100, 100, 100, 110, 170]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytetrack", "botsort", "ocsort"])
def test_a_tracker_with_a_network(name, tmp_path):
    """Of random weights: boxes of matched tracks are the detections, and a saved state continues."""
    torch.manual_seed(0)
    torch.save(TrackSSM(TrackSSMShape(blocks=1)).state_dict(), tmp_path / "some.pt")
    settings = {"motion": "trackssm", "motion_weights": str(tmp_path / "some.pt"), "motion_device": "cpu"}
    tracker, other = (build_tracker(name, **settings) for _ in range(2))
    boxes, scores = np.array([[100.0, 100, 140, 180], [500, 100, 540, 180]]), np.array([0.9, 0.9])
    first = tracker.update(boxes, scores, size=SIZE)
    assert sorted(first.ids.tolist()) == [1, 2] and np.array_equal(first.boxes, boxes[first.detections])
    other.load_state_dict(tracker.state_dict())
    for one in (tracker, other):
        one.update(boxes[:1], scores[:1], size=SIZE)
    assert len(tracker.lost()) and np.array_equal(tracker.lost().boxes, other.lost().boxes)
    with pytest.raises(UserError, match=f"the state is of '{name} with trackssm', this is {name}"):
        build_tracker(name).load_state_dict(tracker.state_dict())
    tracker.reset()
    assert tracker.update(boxes[:0], scores[:0], size=SIZE).ids.tolist() == []


def test_several_videos_are_asked_together(spy):
    """The same answers as one by one, from one question; a track that goes before is left out of it."""
    asked = spy()
    apart, together = ([motion_of(), motion_of()] for _ in range(2))
    for motions in (apart, together):
        played(motions[0], 100, 110, 120)
        played(motions[1], 300, 290, 280)
        motions[1].born(box_at(700.0), 1)
    before = len(asked.rows)
    foresee_together([(one, 0.1, SIZE) for one in together])
    assert len(asked.rows) == before + 1 and asked.rows[-1].shape == (3, 5, 8)
    for motions in (apart, together):
        motions[1].take(np.array([True, True]))
        motions[1].take(np.array([1, 0]))
        for one in motions:
            one.predict(frame_at(0.1), 2, None)
    assert len(asked.rows) == before + 3, "nothing was asked again"
    for one, other in zip(apart, together, strict=True):
        assert np.allclose(one.boxes(), other.boxes())
    foresee_together([(together[0], 0.2, SIZE), (None, 0.2, SIZE)])
    assert len(asked.rows) == before + 3, "one alone is asked when its turn comes"


def test_frames_that_were_detected_together_are_foreseen(spy):
    asked = spy()
    follower = Follower(
        lambda rate: build_tracker("bytetrack", frame_rate=rate, motion="trackssm", motion_weights="some.pt"),
        StageTimes(), several=True,
    )  # fmt: skip
    place = {"frame_rate": 30.0, "length": 3, "live": False}
    found = ExactDetections(box_at(100.0, 500.0), np.array([0.9, 0.8]), np.zeros(2, np.int64))
    seen = [
        SeenFrame(
            FramePlace(video=video, number=number, time=number / 30, **place), None, found, size=SIZE, more=video != "c"
        )
        for number in (1, 2, 3)
        for video in "abc"
    ]
    followed = list(follower.follow_here(seen))
    assert [one.place.video for one in followed] == list("abcabcabc")
    assert all(one.tracks.ids.tolist() == [1, 2] for one in followed)
    assert [len(rows) for rows in asked.rows if len(rows)] == [6, 6], "two tracks of three videos, in two frames"
