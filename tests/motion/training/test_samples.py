"""Samples cut out of packed tracks, and that every option changes them as it says."""

import numpy as np
import pytest
import torch

from yolofast.motion.trackssm import TrackSSMShape
from yolofast.motion.training.samples import PackedTracks, Samples, TrackAugmentation

NOTHING = TrackAugmentation()
TIMED = TrackSSMShape(blocks=1, timed=True)
PADDED = TrackSSMShape(blocks=1, padded_in_front=True)


def tracks_of(*frames: list[int], rate: float = 30.0) -> PackedTracks:
    """In frame f a box of size 0.1 is at (f, 2f) thousandths: what a sample holds can be read off it."""
    f = np.concatenate([np.array(one) for one in frames])
    boxes = np.stack((f / 1000, f / 500, np.full(len(f), 0.1), np.full(len(f), 0.1)), axis=1)
    seconds = np.concatenate([(np.array(one) - one[0]) / rate for one in frames])
    starts = np.cumsum([0, *map(len, frames)])
    return PackedTracks(boxes.astype(np.float32), f, seconds.astype(np.float32), starts)


def frames_in(rows: torch.Tensor) -> list[int]:
    return (rows[..., 0] * 1000).round().int().tolist()


def test_seven_rows_make_a_sample():
    samples = Samples(tracks_of([1, 2, 3, 4, 5, 6, 7], [10, 11, 12, 13, 14, 15]), TrackSSMShape(blocks=1))
    assert len(samples) == 1, "the second track is too short, and no sample is of both"
    rows, truth = samples.cut(samples.places, NOTHING)
    assert frames_in(rows) == [[2, 3, 4, 5, 6]] and frames_in(truth) == [7]
    assert rows.shape == (1, 5, 8) and torch.allclose(rows[0, :, 4:6], torch.tensor([0.001, 0.002]), atol=1e-7)


def test_gaps_end_a_run_unless_as_published():
    tracks = tracks_of([1, 2, 3, 7, 8, 9, 10, 11, 12, 13])
    respected, ignored = (Samples(tracks, TrackSSMShape(blocks=1), ignore_gaps=one) for one in (False, True))
    assert len(respected) == 1 and len(ignored) == 4
    assert frames_in(respected.cut(respected.places, NOTHING)[0]) == [[8, 9, 10, 11, 12]]
    assert frames_in(ignored.cut(ignored.places[:1], NOTHING)[0]) == [[2, 3, 7, 8, 9]]


def test_true_time_tells_gaps():
    """0 for a thirtieth of a second, an octave is a quarter; a gap of two seconds still ends a run."""
    samples = Samples(tracks_of([1, 2, 3, 4, 8, 9, 13, 90, 91]), TIMED)
    rows, truth = samples.cut(samples.places, NOTHING)
    assert len(samples) == 1 and frames_in(rows) == [[2, 3, 4, 8, 9]] and frames_in(truth) == [13]
    assert rows[0, :, 8].tolist() == pytest.approx([0, 0, 0, 0.5, 0], abs=1e-5)
    assert rows[0, :, 9].tolist() == pytest.approx([0.5] * 5, abs=1e-5), "until the box that is asked for"
    slow = Samples(tracks_of([1, 2, 3, 4, 5, 6, 7], rate=7.5), TIMED)
    assert slow.cut(slow.places, NOTHING)[0][0, :, 8:].tolist() == [[pytest.approx(0.5, abs=1e-5)] * 2] * 5


def test_true_padding_learns_from_short_histories():
    samples = Samples(tracks_of([1, 2, 3]), PADDED)
    rows, truth = samples.cut(samples.places, NOTHING)
    assert frames_in(rows) == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 2]] and frames_in(truth) == [2, 3]
    assert (rows[:, :4, 4:] == 0).all() and rows[1, 4, 4] > 0, "copies are at rest"
    assert len(Samples(tracks_of([1, 2, 3]), TrackSSMShape(blocks=1))) == 0


def test_jitter_moves_histories_and_not_the_truth():
    samples = Samples(tracks_of(list(range(400))), TrackSSMShape(blocks=1))
    plain, truth = samples.cut(samples.places, NOTHING)
    rows, same = samples.cut(samples.places, TrackAugmentation(jitter=0.05))
    assert torch.equal(truth, same)
    off = (rows - plain)[..., :4] / 0.1
    assert float(off[..., :2].std()) == pytest.approx(0.05, rel=0.1)
    assert float(torch.log1p(off[..., 2:]).std()) == pytest.approx(0.05, rel=0.1)
    assert torch.allclose(rows[:, 1:, 4:], rows[:, :-1, :4].sub(rows[:, 1:, :4]).neg(), atol=1e-6), "changes follow"


def test_jitter_keeps_padding_equal():
    samples = Samples(tracks_of([1, 2, 3]), PADDED)
    rows, _ = samples.cut(samples.places, TrackAugmentation(jitter=0.05))
    assert (rows[0, :, :4] == rows[0, 0, :4]).all() and (rows[0, :, 4:] == 0).all()


def test_dropped_boxes_are_carried_on_as_in_a_tracker():
    """A box that turns back: where it was missed, the history goes straight on."""
    tracks = tracks_of(list(range(1, 8)) * 60)
    tracks = PackedTracks(tracks.boxes, tracks.frames, tracks.seconds, np.arange(0, 421, 7))
    tracks.boxes[5::7, 0] = 0.001  # frame 6 is where frame 1 was
    samples = Samples(tracks, TrackSSMShape(blocks=1))
    rows, _ = samples.cut(samples.places, TrackAugmentation(dropout=0.3))
    last = set(frames_in(rows[:, -1]))
    assert 6 in last, "4, 5, missed: 6"
    share = np.mean([frame != 1 for frame in frames_in(rows[:, -1])])
    assert share == pytest.approx(0.3, abs=0.12) and len(samples) == 60


def test_dropped_boxes_are_not_there_with_true_time():
    samples = Samples(tracks_of(list(range(200))), TIMED)
    rows, truth = samples.cut(samples.places[20:], TrackAugmentation(dropout=0.3))
    before = torch.tensor(frames_in(rows))
    steps = before.diff(dim=1)
    assert steps.min() == 1 and steps.max() == 3, "at most two in a row are missed"
    assert float((steps > 1).float().mean()) == pytest.approx(0.3, abs=0.05)
    assert torch.allclose(torch.exp2(4 * rows[:, 1:, 8]), steps.float(), atol=1e-3), "the interval says it"
    assert (torch.tensor(frames_in(truth)) - before[:, -1]).max() == 3, "also the last ones"


def test_time_scale_makes_tracks_faster_and_slower():
    samples = Samples(tracks_of(list(range(200))), TrackSSMShape(blocks=1))
    rows, truth = samples.cut(samples.places[20:], TrackAugmentation(time_scale=2.0))
    speed = rows[:, :, 4] * 1000
    assert (speed.std(dim=1) < 0.01).all(), "one pace for all of a history"
    assert 0.5 <= speed.min() < 0.6 and 1.8 < speed.max() <= 2.001
    assert torch.allclose(truth[:, 0] * 1000 - rows[:, -1, 0] * 1000, speed[:, -1], atol=0.01), "and for what follows"
    young = samples.cut(samples.places[:1], TrackAugmentation(time_scale=2.0))[0]
    assert float(young[0, 0, 0]) >= 0, "no faster than there are boxes"


def test_time_scale_is_told_with_true_time():
    samples = Samples(tracks_of(list(range(200))), TIMED)
    rows, _ = samples.cut(samples.places[20:], TrackAugmentation(time_scale=2.0))
    assert torch.allclose(torch.exp2(4 * rows[:, :, 8]), rows[:, :, 4] * 1000, atol=0.01)


def test_draws_depend_on_key_and_place_alone():
    """But for the last bit: processors compute logarithms of a row's last few numbers by another routine."""
    samples = Samples(tracks_of(list(range(100))), TrackSSMShape(blocks=1))
    augmentation = TrackAugmentation(jitter=0.1, dropout=0.2, time_scale=1.5)
    whole = samples.cut(samples.places, augmentation, torch.tensor(3))[0]
    part = samples.cut(samples.places[40:], augmentation, torch.tensor(3))[0]
    torch.testing.assert_close(part, whole[40:], rtol=0, atol=1e-7)
    assert not torch.equal(samples.cut(samples.places, augmentation, torch.tensor(4))[0], whole)
