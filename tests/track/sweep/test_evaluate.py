"""Settings on one sequence: what is left out, shared or done together to save time changes no figure."""

from dataclasses import replace

import numpy as np
import pytest

from tests.track.sweep.made_up import scenes, walkers
from yolofast.track.formats.sequence import make_sequence
from yolofast.track.score.scores import score_tracks
from yolofast.track.sweep.figures import FIGURES, figures_of
from yolofast.track.sweep.scene import make_scene
from yolofast.track.sweep.space import grid, parse_space
from yolofast.track.sweep.trial import evaluate, together, track
from yolofast.track.trackers.bytetrack import ByteTrack
from yolofast.track.trackers.settings import ByteTrackSettings
from yolofast.track.trackers.table import TRACKERS, TrackerKind, build_tracker

THEIR_NAMES = {"FP": "CLR_FP", "FN": "CLR_FN", "tracks": "IDs"}


def by_hand(scene, name, conf=0.0, **settings):
    """Every candidate from `conf` on goes through the tracker, frame by frame."""
    found, rows = scene.candidates, []
    tracker = build_tracker(name, frame_rate=found.frame_rate, **settings)
    for number in range(1, found.length + 1):
        own = (found.frame == number) & (found.score >= conf)
        tracks = tracker.update(found.box[own], found.score[own], found.label[own], time=found.times[number - 1])
        rows += [(number, i, *box) for i, box in zip(tracks.ids.tolist(), tracks.boxes.tolist(), strict=True)]
    table = np.array(rows).reshape(-1, 6)
    return make_sequence(scene.name, frame=table[:, 0], id=table[:, 1], box=table[:, 2:], length=found.length)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bytetrack", {"match_thresh": 0.8, "track_thresh": 0.5}),
        ("bytetrack", {"conf": 0.3, "track_low_thresh": 0.2}),
        ("botsort", {"conf": 0.15, "track_buffer": 10}),
        ("ocsort", {"det_thresh": 0.5}),
        ("ocsort", {"det_thresh": 0.5, "use_byte": True}),
        ("boosttrack", {"conf": 0.05}),
    ],
)
def test_figures_are_those_of_score_tracks(name, settings):
    every = scenes(2)
    rows = np.stack([evaluate(scene, [{"tracker": name, **settings}])[0] for scene in every])
    results = {scene.name: by_hand(scene, name, **settings) for scene in every}
    wanted = score_tracks({scene.name: scene.truth for scene in every}, results)
    for figure, value in figures_of(rows).items():
        assert value == pytest.approx(wanted.combined[THEIR_NAMES.get(figure, figure)], abs=1e-12), figure
    one = figures_of(rows[1:])
    assert one["HOTA"] == pytest.approx(wanted.sequences["SEQ-1"]["HOTA"], abs=1e-12)
    assert set(one) == set(FIGURES)


def test_a_benchmark_counts_by_its_own_rules():
    truth, found = walkers("SEQ", 5)
    scene = make_scene(truth, found, "mot17")
    row = evaluate(scene, [{"tracker": "bytetrack"}])
    wanted = score_tracks(truth, by_hand(scene, "bytetrack"), benchmark="mot17").combined
    assert figures_of(row)["HOTA"] == pytest.approx(wanted["HOTA"], abs=1e-12)


def plain_nms(found, threshold):
    """One frame and class after the other, the best candidate first."""
    kept = np.ones(len(found), bool)
    for number in np.unique(found.frame):
        for label in np.unique(found.label):
            own = np.flatnonzero((found.frame == number) & (found.label == label))
            own = own[np.argsort(-found.score[own], kind="stable")]
            for place, best in enumerate(own):
                if not kept[best]:
                    continue
                for other in own[place + 1 :]:
                    a, b = found.box[best], found.box[other]
                    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
                    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - sides.prod()
                    kept[other] &= sides.prod() / union <= threshold
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.1, 0.45, 0.7])
def test_suppression_in_rounds_is_greedy_suppression(threshold):
    truth, found = walkers("SEQ", 1, frames=15, objects=25)
    scene = make_scene(truth, found)
    choose, one_class = scene.chosen_from, replace(scene.candidates, label=np.zeros(len(found), np.int64))
    kept = choose.kept(iou=threshold, across=False)
    assert (kept == plain_nms(scene.candidates, threshold)).all() and not kept.all()
    assert (choose.kept(iou=threshold) == plain_nms(one_class, threshold)).all()
    assert choose.kept().all()


def test_sequences_without_detections_or_of_another_length():
    truth, found = walkers("SEQ", 2)
    short = found.kept(found.frame <= 0)
    figures = figures_of(evaluate(make_scene(truth, short), [{"tracker": "bytetrack"}]))
    assert figures["HOTA"] == 0 and figures["FN"] == len(truth)
    longer = make_sequence("SEQ", frame=truth.frame, id=truth.id, box=truth.box, length=truth.length + 7)
    scene = make_scene(longer, found)
    assert len(scene.candidates.times) == scene.truth.length == truth.length + 7
    assert track(scene, [{"tracker": "ocsort"}])[0].length == truth.length + 7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytetrack", "botsort"])
@pytest.mark.parametrize("warped", [False, True])
def test_settings_tracked_together_are_tracked_as_alone(name, warped):
    """To the last bit, but for the names of the tracks."""
    truth, found = walkers("SEQ", 3, frames=60, objects=20)
    if warped:
        angle = np.random.default_rng(0).normal(0, 0.01, 60)
        turn = np.array([[np.cos(angle), -np.sin(angle), 3 * angle], [np.sin(angle), np.cos(angle), -angle]])
        found = replace(found, warps=turn.transpose(2, 0, 1))
    scene = make_scene(truth, found)
    high = "track_thresh" if name == "bytetrack" else "track_high_thresh"
    texts = [f"{high}=0.4,0.7", "match_thresh=0.5,0.9", "track_buffer=3,30", "conf=0.05,0.3", "nms=0.4,none"]
    trials = [
        *grid(parse_space(texts, None, [name])),
        {"tracker": name, "new_track_thresh": 0.3, "track_low_thresh": 0.3},
    ]
    (part,) = together(trials, 100)
    results = track(scene, part)
    assert len(results) == 33 and len({len(one) for one in results}) > 10
    for trial, one in zip(part, results, strict=True):
        (alone,) = track(scene, [trial])
        assert (one.frame == alone.frame).all() and (one.box == alone.box).all()
        assert (np.unique(one.id, return_inverse=True)[1] == np.unique(alone.id, return_inverse=True)[1]).all()


def test_what_cannot_be_tracked_together_is_tracked_alone():
    trials = [
        {"tracker": "bytetrack", "match_thresh": 0.7}, {"tracker": "bytetrack", "conf": 0.2},
        {"tracker": "bytetrack", "mot20": True}, {"tracker": "ocsort"}, {"tracker": "ocsort", "conf": 0.3},
        {"tracker": "bytetrack", "classes": "each"}, {"tracker": "botsort", "with_reid": True},
    ]  # fmt: skip
    assert sorted(map(len, together(trials, 10))) == [1, 1, 1, 1, 1, 2]
    assert sorted(map(len, together(trials, 10, faithful=True))) == [1] * 7


def test_a_tracker_of_ones_own_is_a_class_and_a_line(monkeypatch):
    """It is built by its name, and searched as those that are there."""

    class Confirmed(ByteTrack):
        """Takes the sure detections alone."""

        def update(self, boxes, scores, *others, **more):
            seen.append(self.settings.match_thresh)
            return super().update(boxes, np.where(np.asarray(scores) < 0.6, 0, scores), *others, **more)

    seen = []
    (scene,) = scenes(1, frames=20)
    monkeypatch.setitem(TRACKERS, "confirmed", TrackerKind(Confirmed, ByteTrackSettings))
    trials = grid(parse_space(["match_thresh=0.7,0.9"], trackers=["confirmed"]))
    rows = np.concatenate([evaluate(scene, part) for part in together(trials, 64)])
    assert seen == [0.7] * 20 + [0.9] * 20
    plain = evaluate(scene, [{"tracker": "bytetrack", "match_thresh": 0.9}])
    assert figures_of(rows[1:])["FN"] > figures_of(plain)["FN"] and figures_of(rows[1:])["HOTA"] > 0
