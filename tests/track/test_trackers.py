"""What trackers promise beyond the published code: repaired defects, time, classes, state, memory, helpful errors."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.bench_track import crowd
from tests.track.tracker_cases import crossing
from yolofast import UserError, build_tracker
from yolofast.track.choices import tracker_maker
from yolofast.track.trackers.motion import kalman
from yolofast.track.trackers.table import TRACKERS

NAMES = list(TRACKERS)
BOX = np.array([[100.0, 100.0, 150.0, 200.0]])
NOTHING = np.zeros((0, 4))


def still(tracker, frames, score=0.9):
    for _ in range(frames):
        found = tracker.update(BOX, [score])
    return found


def identities(name, times, *, tell=True, **settings):
    """Which ids each object had, most frames first. `tell`: the times of frames are given."""
    tracker = build_tracker(name, **settings)
    seen: list[set[int]] = [set() for _ in range(4)]
    for time, boxes in zip(times, crossing(times), strict=True):
        there = np.isfinite(boxes).all(1).nonzero()[0]
        found = tracker.update(boxes[there], np.full(len(there), 0.9), time=float(time) if tell else None)
        for track, row in zip(found.ids.tolist(), found.detections.tolist(), strict=True):
            seen[there[row]].add(track)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [30, 12, 2])
def test_the_same_motion_at_any_rate_gives_the_same_identities(name, rate):
    """Whether the tracker is told the times of frames, their rate, or both."""
    times = np.arange(0, 6, 1 / rate)
    for told in ({}, {"frame_rate": rate}, {"frame_rate": rate, "tell": False}):
        seen = identities(name, times, **told)
        assert [len(ids) for ids in seen] == [1, 1, 1, 1] and len(set.union(*seen)) == 4, (told, seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_times_count_and_not_what_is_said_of_the_rate(name):
    """Prediction, its noise and buffers are of seconds: the rate says when frames without times were seen."""
    trackers, silent = (
        [build_tracker(name, frame_rate=rate) for rate in (30, 12.5, 7)],
        build_tracker(name, frame_rate=12.5),
    )
    for number, (boxes, scores) in enumerate(crowd(9, 60)):
        wanted, *others = (tracker.update(boxes, scores, time=number / 12.5) for tracker in trackers)
        others.append(silent.update(boxes, scores))
        for found in others:
            assert found.ids.tolist() == wanted.ids.tolist() and np.allclose(found.boxes, wanted.boxes, atol=1e-4)


@pytest.mark.parametrize("warped", [False, True])
def test_noise_of_frames_that_are_missing_is_that_of_each(warped):
    """A prediction over three frames, or over three halves twice, is that of three single ones, and as unsure."""
    rng = np.random.default_rng(0)
    noise, filters = rng.random((3, 4, 6)), rng.random((5, 4, 6))
    noise[1] = 0.0

    def after(*steps):
        found = filters.copy()
        if not warped:
            for elapsed in steps:
                kalman.predict(found, elapsed, noise)
            return found
        mean, cov = found[:2].copy(), kalman.blocks(found[2:])
        for elapsed in steps:
            kalman.predict_blocks(mean, cov, elapsed, noise)
        return np.concatenate((mean.ravel(), cov.ravel()))

    assert np.allclose(after(3.0), after(1.0, 1.0, 1.0)) and np.allclose(after(5.0), after(2.0, 1.0, 2.0))
    assert np.allclose(after(3.0), after(1.5, 1.5)) and not np.allclose(after(3.0), after(2.0))


@pytest.mark.parametrize("name", NAMES)
def test_frames_that_were_dropped_do_not_matter(name):
    times = np.arange(0, 6, 1 / 30)
    kept = np.random.default_rng(3).random(len(times)) > 0.5
    kept[:2] = True
    assert [len(ids) for ids in identities(name, times[kept])] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["bytetrack", "botsort"])
@pytest.mark.parametrize("faithful", [False, True])
def test_a_lost_track_is_given_up_after_its_buffer(name, faithful):
    """Published: after 31 missing frames for a buffer of 30, because it is dropped later than it is marked."""

    def comes_back_after(gap):
        tracker = build_tracker(name, faithful=faithful, track_buffer=30)
        before = still(tracker, 5).ids[0]
        for _ in range(gap - 1):
            tracker.update(NOTHING, [])
        still(tracker, 1)
        return bool(before in still(tracker, 1).ids)

    last = 32 if faithful else 30
    assert comes_back_after(last) and not comes_back_after(last + 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_a_gap_without_frames_ends_tracks_as_one_with_empty_frames_does(name, faithful):
    """Faithful trackers count frames, and none is missing."""
    buffer = {"track_buffer": 30} if name in ("bytetrack", "botsort") else {"max_age": 30}
    for gap, comes_back in [(0.9, True), (1.0, True), (1.1, False), (10, False)]:
        tracker = build_tracker(name, faithful=faithful, **buffer)
        before = still(tracker, 5).ids[0]
        now = tracker.time + gap
        tracker.update(BOX, [0.9], time=now)
        for step in range(1, 4):
            found = tracker.update(BOX, [0.9], time=now + step / 30)
        assert (found.ids.tolist() == [before]) is (comes_back or faithful), gap


@pytest.mark.parametrize("name", NAMES)
def test_rare_frames_are_no_gap(name):
    """One frame in two seconds, as the tracker was told: the buffer is shorter than a frame."""
    buffer = {"track_buffer": 30} if name in ("bytetrack", "botsort") else {"max_age": 0}
    tracker = build_tracker(name, frame_rate=0.5, **buffer)
    for step in range(6):
        found = tracker.update(BOX, [0.9], time=2.1 * step)
    assert found.ids.tolist() == [1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_lost_ones_were_given_out_before_and_who_is_not_among_them_is_gone_for_good(name, faithful):
    """OC-SORT and BoostTrack do not give out a track that is found again before it was seen `min_hits` times in a row:
    meanwhile it is a lost one. Counts and trails forget who is neither."""
    tracker, other, given, gone = build_tracker(name, faithful=faithful), BOX + 400, set(), set()
    still(tracker, 5)
    rng = np.random.default_rng(3)
    for boxes, scores in [(np.concatenate((BOX, other)), [0.9, 0.9]), *crowd(9, 80)]:
        seen = rng.random(len(boxes)) < 0.8
        now = set(tracker.update(boxes[seen], np.asarray(scores)[seen]).ids.tolist())
        lost = set(tracker.lost().ids.tolist())
        given |= now
        assert lost <= given and not now & lost and not (now | lost) & gone
        gone |= given - now - lost


def test_the_buffer_is_a_time():
    for rate, gap, comes_back in [(30, 0.9, True), (30, 1.1, False), (5, 0.8, True), (5, 1.4, False)]:
        tracker = build_tracker("bytetrack", frame_rate=rate)
        first = still(tracker, 3).ids[0]
        now = tracker.time + gap
        tracker.update(NOTHING, [], time=tracker.time + 0.1)
        tracker.update(BOX, [0.9], time=now)
        found = tracker.update(BOX, [0.9], time=now + 1 / rate)
        assert bool(first in found.ids) is comes_back, (rate, gap)


def test_a_score_equal_to_the_threshold_counts():
    for faithful, count in [(False, 1), (True, 0)]:
        tracker = build_tracker("bytetrack", faithful=faithful, track_thresh=0.6, new_track_thresh=0.6)
        assert len(tracker.update(BOX, [0.6])) == count


def test_a_false_alarm_of_one_frame_is_not_given_out():
    for faithful, count in [(False, 0), (True, 1)]:
        tracker = build_tracker("botsort", faithful=faithful)
        tracker.update(NOTHING, [])
        found = tracker.update(BOX, [0.9])
        assert len(found) == count and not found.confirmed.any()


def test_ids_have_no_gaps():
    tracker, other = build_tracker("bytetrack"), BOX + 400
    still(tracker, 2)
    tracker.update(np.concatenate((BOX, other)), [0.9, 0.9])  # seen once: never confirmed
    still(tracker, 2)
    for _ in range(2):
        found = tracker.update(np.concatenate((BOX, other + 100)), [0.9, 0.9])
    assert found.ids.tolist() == [1, 2]


def test_unconfirmed_tracks_move_on():
    """A fast one: in its second frame it is looked for where it was, in the third where it will be."""
    tracker = build_tracker("bytetrack", match_thresh=0.7)
    still(tracker, 1)
    moving = BOX + (300, 0, 300, 0)
    for step in range(6):
        found = tracker.update(np.concatenate((BOX, moving + (20 * step, 0, 20 * step, 0))), [0.9, 0.9])
    assert found.ids.tolist() == [1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_classes(name):
    pair, settings = np.concatenate((BOX, BOX + 2)), {"frame_rate": 30}
    labels = [0, 0, 1, 0, 0, 0]
    voted, last = (build_tracker(name, classes=classes, **settings) for classes in ("vote", "agnostic"))
    for label in labels[:4]:
        of_vote, of_last = voted.update(BOX, [0.9], [label]), last.update(BOX, [0.9], [label])
        if len(of_vote):
            assert of_vote.labels[0] == 0 and of_last.labels[0] == label
    apart = build_tracker(name, classes="each", **settings)
    for _ in range(6):
        found = apart.update(pair, [0.9, 0.8], [0, 1])
    assert sorted(zip(found.labels.tolist(), found.detections.tolist(), strict=True)) == [(0, 0), (1, 1)]
    for _ in range(3):  # in turn: what was one class is not taken for the other
        found = apart.update(pair[::-1], [0.8, 0.9], [1, 0])
    assert sorted(zip(found.labels.tolist(), found.detections.tolist(), strict=True)) == [(0, 1), (1, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow(name):
    """Some 2,000 tracks are born and die; keeping a kilobyte of each would take megabytes. Hundreds live at a time."""
    tracker, rng = build_tracker(name), np.random.default_rng(0)

    def run(frames):
        for _ in range(frames):
            corner = rng.random((8, 2)) * 1000
            tracker.update(np.concatenate((corner, corner + 50), axis=1), rng.random(8))

    run(200)
    tracemalloc.start()
    run(100)
    before = tracemalloc.get_traced_memory()[0]
    run(250)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 500_000


@pytest.mark.parametrize("name", NAMES)
def test_every_decision_can_be_told(name):
    tracker = build_tracker(name)
    tracker.stages = []
    for boxes, scores in crowd(6, 5):
        found = tracker.update(boxes, scores)
        matched = {
            (int(track), int(seen))
            for stage in tracker.stages
            for (track, seen), is_matched in zip(stage.pairs, stage.matched, strict=True)
            if is_matched
        }
        assert all(stage.cost[stage.matched].max(initial=0) <= stage.limit for stage in tracker.stages)
        assert {seen for _, seen in matched} <= set(range(len(boxes)))
    assert len(found) and {int(seen) for seen in found.detections} <= {seen for _, seen in matched}


@pytest.mark.parametrize("name", NAMES)
def test_lost_ones_are_predicted(name):
    tracker = build_tracker(name)
    for step in range(8):
        tracker.update(BOX + (5 * step, 0, 5 * step, 0), [0.9])
    assert len(tracker.lost()) == 0
    tracker.update(NOTHING, [])
    (box,) = tracker.lost().boxes
    assert 130 < box[0] < 150, "about 140: it moves on"


def test_another_motion_model():
    """BoT-SORT's filter in ByteTrack is that of BoT-SORT, and a saved state tells whose it is."""
    settings = {"match_thresh": 0.8, "new_track_thresh": 0.7}
    borrowed = build_tracker("bytetrack", motion="kalman_sides", **settings)
    own, other = build_tracker("botsort", **settings), build_tracker("bytetrack", **settings)
    for boxes, scores in crowd(12, 30):
        found, wanted, differs = (tracker.update(boxes, scores) for tracker in (borrowed, own, other))
        assert found.ids.tolist() == wanted.ids.tolist() and np.array_equal(found.boxes, wanted.boxes)
    assert not np.array_equal(found.boxes, differs.boxes)
    with pytest.raises(UserError, match="the state is of 'bytetrack with kalman_sides', this is bytetrack"):
        other.load_state_dict(borrowed.state_dict())
    with pytest.raises(UserError, match="motion is 'kalman_side', did you mean 'kalman_sides'"):
        build_tracker("botsort", motion="kalman_side")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_at_all(name):
    tracker = build_tracker(name)
    for _ in range(3):
        assert len(tracker.update([], [])) == 0
    assert len(still(tracker, 5)) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"match_tresh": 0.8}, "did you mean 'match_thresh'"),
        ({"match_thresh": 1.5}, "below 1"),
        ({"match_thresh": 1.0}, "from 0 to below 1. It is the greatest cost of a match, 1 − IoU · score"),
        ({"faithful": "yes"}, "faithful is 'yes'\n  fix: give True or False"),
        ({"frame_rate": True}, "frame_rate is True"),
        ({"match_thresh": "high"}, "match_thresh of bytetrack is 'high'"),
        ({"mot20": 1}, "true or false"),
        ({"frame_rate": 0}, "frame_rate is 0"),
        ({"classes": "all"}, "vote, each, agnostic"),
        ({"track_thresh": 60}, "track_thresh of bytetrack is 60\n  fix: give a score from 0 to 1"),
    ],
)
def test_settings_that_are_wrong(settings, said):
    with pytest.raises(UserError, match=said):
        build_tracker("bytetrack", **settings)


def test_an_overlap_that_is_not_computed_is_refused():
    assert build_tracker("ocsort", asso_func="iou").settings.asso_func == "iou"
    with pytest.raises(UserError, match="asso_func of ocsort is 'giou'\n  fix: give iou: nothing else is computed"):
        build_tracker("ocsort", asso_func="giou")


def test_settings_may_be_numbers_of_numpy():
    given = {"frame_rate": np.float32(25), "track_buffer": np.int64(30), "mot20": np.bool_(True)}
    plain = build_tracker("bytetrack", frame_rate=25, track_buffer=30, mot20=True)
    build_tracker("bytetrack", **given).load_state_dict(plain.state_dict())


def test_a_tracker_nobody_knows():
    with pytest.raises(UserError, match="did you mean 'botsort'"):
        build_tracker("bot-sort")
    with pytest.raises(UserError, match="cmc_method is 'orbb'"):
        build_tracker("botsort", cmc_method="orbb")
    with pytest.raises(UserError, match="the state is of 'ocsort'"):
        build_tracker("botsort").load_state_dict(build_tracker("ocsort").state_dict())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"boxes": [[1, 2, float("nan"), 4]]}, "box 0 is"),
        ({"boxes": [[10, 2, 5, 4]]}, "x1 ≤ x2"),
        ({"boxes": [[1, 2, 3]]}, r"the shape \(1, 3\)"),
        ({"scores": [0.5, 0.5]}, "2 scores for 1 boxes"),
        ({"scores": [float("nan")]}, "scores contain nan"),
        ({"features": [[1, 2], [3, 4]]}, "for 1 boxes"),
        ({"warp": [[1, 0], [0, 1]]}, "warp is"),
        ({"time": -1.0}, "frames in order"),
        ({"time": "now"}, "time is 'now'"),
        ({"scores": ["high"]}, "scores: .'high'. is not made of numbers"),
        ({"labels": [-1]}, "labels contain -1"),
        ({"labels": [1.5]}, "labels contain 1.5"),
        ({"labels": [10**9]}, "labels contain 1000000000"),
        ({"image": "street.jpg"}, "an image is str"),
        ({"image": np.zeros((9, 9, 3))}, r"an image is float64 \[9, 9, 3\]"),
        ({"image": np.zeros((0, 9, 3), np.uint8)}, r"an image is uint8 \[0, 9, 3\]"),
    ],
)
def test_frames_that_are_wrong(given, said):
    tracker = build_tracker("botsort", with_reid="features" in given)
    tracker.update(BOX, [0.9])
    with pytest.raises(UserError, match=said):
        tracker.update(**{"boxes": BOX, "scores": [0.9], **given})
    assert len(tracker.update(BOX, [0.9])) == 1, "what was refused has left no trace"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NAMES)
def test_boxes_that_are_lines_disturb_nothing(name):
    """Boxes at the border of an image may be cut to lines."""
    tracker, lines = build_tracker(name), [[50, 50, 50, 50], [60, 60, 60, 90], [20, 60, 90, 60]]
    for step in range(5):
        found = tracker.update([*(BOX + step).tolist(), *lines], [0.9] * 4)
        assert np.isfinite(found.boxes).all() and np.isfinite(tracker.lost().boxes).all()
    assert found.ids.tolist() == [1]


def test_appearance_bridges_a_gap():
    """Somebody who turns round while hidden: motion alone looks for him elsewhere."""
    looks, away = np.eye(4), np.concatenate((BOX, BOX + 500))
    tracker = build_tracker("botsort", with_reid=True, proximity_thresh=1.0)
    for step in range(10):
        shift = np.array([[8 * step, 0, 8 * step, 0], [0, 0, 0, 0]])
        before = tracker.update(away + shift, [0.9, 0.9], features=looks[:2])
    for _ in range(12):
        tracker.update(away[1:], [0.9], features=looks[1:2])
    found = tracker.update(away, [0.9, 0.9], features=looks[:2])
    assert sorted(found.ids) == sorted(before.ids)


def test_a_frame_without_boxes_has_no_features_either():
    tracker = build_tracker("botsort", with_reid=True, cmc_method="none")
    tracker.update([[0, 0, 10, 20]], [0.9], features=[[1.0, 0.0]])
    assert not len(tracker.update([], [], features=[]).ids)
    assert tracker.update([[0, 0, 10, 20]], [0.9], features=[[1.0, 0.0]]).ids.tolist() == [1]


def test_the_command_calls_classes_class_handling():
    with pytest.raises(UserError, match="class_handling is 'all'\n  fix: use one of vote, each, agnostic"):
        tracker_maker("bytetrack", faithful=False, class_handling="all", settings={})


@pytest.mark.parametrize("setting", ["frame_rate", "faithful", "classes", "name"])
def test_what_is_no_setting_of_a_tracker_is_said(setting):
    with pytest.raises(UserError, match="no setting of a tracker"):
        tracker_maker("bytetrack", faithful=False, class_handling="vote", settings={setting: 1})
