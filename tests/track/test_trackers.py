"""What trackers promise beyond the published code: repaired defects, time, classes, state, memory, helpful errors."""

import pickle
import tracemalloc

import numpy as np
import pytest

from benchmarks.bench_track import crowd
from tests.track.tracker_cases import crossing
from yolofast import UserError, build_tracker
from yolofast.track.trackers.table import TRACKERS

NAMES = list(TRACKERS)
BOX = np.array([[100.0, 100.0, 150.0, 200.0]])
NOTHING = np.zeros((0, 4))


def still(tracker, frames, score=0.9):
    for _ in range(frames):
        found = tracker.update(BOX, [score])
    return found


def identities(name, times, **settings):
    """Which ids each object had, most frames first."""
    tracker = build_tracker(name, **settings)
    seen: list[set[int]] = [set() for _ in range(4)]
    for time, boxes in zip(times, crossing(times), strict=True):
        there = np.isfinite(boxes).all(1).nonzero()[0]
        found = tracker.update(boxes[there], np.full(len(there), 0.9), time=float(time))
        for track, row in zip(found.ids.tolist(), found.detections.tolist(), strict=True):
            seen[there[row]].add(track)
    return seen


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [30, 12, 2])
def test_the_same_motion_at_any_rate_gives_the_same_identities(name, rate):
    seen = identities(name, np.arange(0, 6, 1 / rate))
    assert [len(ids) for ids in seen] == [1, 1, 1, 1] and len(set.union(*seen)) == 4, seen


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_a_stream_that_restarts_continues_its_identities(name, faithful):
    frames = crowd(12, 60)
    whole, part = build_tracker(name, faithful=faithful), build_tracker(name, faithful=faithful)
    for boxes, scores in frames[:30]:
        whole.update(boxes, scores), part.update(boxes, scores)
    restarted = build_tracker(name, faithful=faithful)
    restarted.load_state_dict(pickle.loads(pickle.dumps(part.state_dict())))
    for boxes, scores in frames[30:]:
        one, two = whole.update(boxes, scores), restarted.update(boxes, scores)
        assert one.ids.tolist() == two.ids.tolist() and np.array_equal(one.boxes, two.boxes)
    restarted.reset()
    fresh = build_tracker(name, faithful=faithful)
    for boxes, scores in frames:
        assert restarted.update(boxes, scores).ids.tolist() == fresh.update(boxes, scores).ids.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow(name):
    """Some 3,000 tracks are born and die; keeping a kilobyte of each would take megabytes. Hundreds live at a time."""
    tracker, rng = build_tracker(name), np.random.default_rng(0)

    def run(frames):
        for _ in range(frames):
            corner = rng.random((8, 2)) * 1000
            tracker.update(np.concatenate((corner, corner + 50), axis=1), rng.random(8))

    run(200)
    tracemalloc.start()
    run(100)
    before = tracemalloc.get_traced_memory()[0]
    run(400)
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
        ({"match_thresh": "high"}, "match_thresh of bytetrack is 'high'"),
        ({"mot20": 1}, "true or false"),
        ({"frame_rate": 0}, "frame_rate is 0"),
        ({"classes": "all"}, "vote, each, agnostic"),
    ],
)
def test_settings_that_are_wrong(settings, said):
    with pytest.raises(UserError, match=said):
        build_tracker("bytetrack", **settings)


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
    ],
)
def test_frames_that_are_wrong(given, said):
    tracker = build_tracker("botsort")
    tracker.update(BOX, [0.9])
    with pytest.raises(UserError, match=said):
        tracker.update(**{"boxes": BOX, "scores": [0.9], **given})
    assert len(tracker.update(BOX, [0.9])) == 1, "what was refused has left no trace"


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
